/* The largest and smallest elements of rows. */
#pragma once

#include <utility>

#include "../popops/Encoding.hpp"
#include "../popops/Reduce.hpp"

namespace popnn {
TREMULA_NAMES
namespace detail {

/* By row of [rows, elements]: the extreme element, and its first place. */
inline std::pair<Tensor, Tensor> extreme(Graph &graph, const Tensor &input, popops::Operation op,
                                         Sequence &program, const DebugContext &debug) {
  namespace pe = popops::expr;
  if (input.rank() != 2) {
    throw poputil::poplibs_error("a tensor of rows is of rank 2, not " + input.shapeToString());
  }
  const unsigned count = static_cast<unsigned>(input.dim(1));
  const Tensor best = popops::reduce(graph, input, {1}, op, program, debug);
  const Tensor places = popops::detail::counted(graph, poplar::UNSIGNED_INT, 0, input.dim(1));
  const Tensor candidates =
      popops::map(graph, pe::Select(pe::_2, pe::Const(count), pe::_1 == pe::_3),
                  {input, places, best.expand({1})}, program, debug);
  return {best, popops::reduce(graph, candidates, {1}, popops::Operation::MIN, program, debug)};
}

} // namespace detail

/* The maximum, or minimum, of each row, and its first place as UNSIGNED_INT; the places alone. */
#define TREMULA_EXTREME(both, place, op)                                                      \
  inline std::pair<Tensor, Tensor> both(Graph &graph, const Tensor &input, Sequence &program, \
                                        const DebugContext &debug = {}) {                     \
    return detail::extreme(graph, input, popops::Operation::op, program, debug);              \
  }                                                                                           \
  inline Tensor place(Graph &graph, const Tensor &input, Sequence &program,                   \
                      const DebugContext &debug = {}) {                                       \
    return both(graph, input, program, debug).second;                                         \
  }
TREMULA_EXTREME(maxAndArgMax, argMax, MAX)
TREMULA_EXTREME(minAndArgMin, argMin, MIN)
#undef TREMULA_EXTREME

} // namespace popnn

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

/* The maximum of each row, and its first place as UNSIGNED_INT. */
inline std::pair<Tensor, Tensor> maxAndArgMax(Graph &graph, const Tensor &input, Sequence &program,
                                              const DebugContext &debug = {}) {
  return detail::extreme(graph, input, popops::Operation::MAX, program, debug);
}
inline std::pair<Tensor, Tensor> minAndArgMin(Graph &graph, const Tensor &input, Sequence &program,
                                              const DebugContext &debug = {}) {
  return detail::extreme(graph, input, popops::Operation::MIN, program, debug);
}
inline Tensor argMax(Graph &graph, const Tensor &input, Sequence &program,
                     const DebugContext &debug = {}) {
  return maxAndArgMax(graph, input, program, debug).second;
}
inline Tensor argMin(Graph &graph, const Tensor &input, Sequence &program,
                     const DebugContext &debug = {}) {
  return minAndArgMin(graph, input, program, debug).second;
}

} // namespace popnn

/* The largest and smallest elements of rows. */
#pragma once

#include <utility>

#include "../popops/Encoding.hpp"
#include "../popops/Reduce.hpp"

namespace popnn {
namespace detail {

/* By row of [rows, elements]: the extreme element, and its first place. */
inline std::pair<poplar::Tensor, poplar::Tensor> extreme(poplar::Graph &graph,
                                                         const poplar::Tensor &input,
                                                         popops::Operation op,
                                                         poplar::program::Sequence &program,
                                                         const poplar::DebugContext &debug) {
  namespace pe = popops::expr;
  if (input.rank() != 2) {
    throw poputil::poplibs_error("a tensor of rows is of rank 2, not " + input.shapeToString());
  }
  const unsigned count = static_cast<unsigned>(input.dim(1));
  const poplar::Tensor best = popops::reduce(graph, input, {1}, op, program, debug);
  const poplar::Tensor places =
      popops::detail::counted(graph, poplar::UNSIGNED_INT, 0, input.dim(1));
  const poplar::Tensor candidates =
      popops::map(graph, pe::Select(pe::_2, pe::Const(count), pe::_1 == pe::_3),
                  {input, places, best.expand({1})}, program, debug);
  return {best, popops::reduce(graph, candidates, {1}, popops::Operation::MIN, program, debug)};
}

} // namespace detail

/* The maximum of each row, and its first place as UNSIGNED_INT. */
inline std::pair<poplar::Tensor, poplar::Tensor> maxAndArgMax(
    poplar::Graph &graph, const poplar::Tensor &input, poplar::program::Sequence &program,
    const poplar::DebugContext &debug = {}) {
  return detail::extreme(graph, input, popops::Operation::MAX, program, debug);
}
inline std::pair<poplar::Tensor, poplar::Tensor> minAndArgMin(
    poplar::Graph &graph, const poplar::Tensor &input, poplar::program::Sequence &program,
    const poplar::DebugContext &debug = {}) {
  return detail::extreme(graph, input, popops::Operation::MIN, program, debug);
}
inline poplar::Tensor argMax(poplar::Graph &graph, const poplar::Tensor &input,
                             poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {}) {
  return maxAndArgMax(graph, input, program, debug).second;
}
inline poplar::Tensor argMin(poplar::Graph &graph, const poplar::Tensor &input,
                             poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {}) {
  return minAndArgMin(graph, input, program, debug).second;
}

} // namespace popnn

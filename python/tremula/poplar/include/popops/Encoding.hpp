/* Indices as rows of ones and zeros, and rows of numbers that count. */
#pragma once

#include "ElementWise.hpp"

namespace popops {
TREMULA_NAMES
namespace detail {

/* begin, begin + 1, ..., as a constant on the tiles of nothing else. */
inline Tensor counted(Graph &graph, const Type &type, long long begin, std::size_t count) {
  std::vector<long long> values(count);
  std::iota(values.begin(), values.end(), begin);
  const Tensor result = graph.addConstant(type, {count}, poplar::ArrayRef<long long>(values));
  graph.setTileMapping(result, 0);
  return result;
}

} // namespace detail

/* encoded[..., i] is `on` where indices[...] is i, else `off`. Indices outside give `off` alone. */
inline void encodeOneHot(Graph &graph, const Tensor &indices, const Tensor &encoded,
                         Sequence &program, const Tensor &on, const Tensor &off,
                         const DebugContext &debug = {}) {
  const Tensor numbers =
      detail::counted(graph, indices.elementType(), 0, encoded.dim(encoded.rank() - 1));
  mapWithOutput(graph, expr::Select(expr::_3, expr::_4, expr::_1 == expr::_2),
                {indices.expand({indices.rank()}), numbers, on.reshape({}), off.reshape({})},
                encoded, program, debug);
}
/* The same of 1 and 0. */
inline void encodeOneHot(Graph &graph, const Tensor &indices, const Tensor &encoded,
                         Sequence &program, const DebugContext &debug = {}) {
  const Tensor numbers =
      detail::counted(graph, indices.elementType(), 0, encoded.dim(encoded.rank() - 1));
  mapWithOutput(graph, expr::Cast(expr::_1 == expr::_2, encoded.elementType()),
                {indices.expand({indices.rank()}), numbers}, encoded, program, debug);
}

/* Writes start, start + 1, ... to a tensor of rank 1. */
template <class T>
void iota(Graph &graph, const Tensor &tensor, T start, Sequence &program,
          const DebugContext &debug = {}) {
  program.add(poplar::program::Copy(
      detail::counted(graph, tensor.elementType(), static_cast<long long>(start), tensor.dim(0)),
      tensor, false, debug));
}

} // namespace popops

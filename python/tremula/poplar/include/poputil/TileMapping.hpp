/* Mappings of tensors to tiles. */
#pragma once

#include "../poplar/Graph.hpp"

namespace poputil {
TREMULA_NAMES

namespace detail {

inline void map_linearly(Graph &graph, const Tensor &tensor, std::size_t least, std::size_t grain,
                         unsigned first) {
  poplar::detail::call(poplar::detail::table().map_linearly, graph.handle(), tensor.get(), least,
                       grain, first);
}

} // namespace detail

/* Spreads the flattened tensor over all tiles: at least so many elements on each that has some, in
 * multiples of `grainSize`. */
inline void mapTensorLinearly(Graph &graph, const Tensor &tensor, unsigned minElementsPerTile = 0,
                              unsigned grainSize = 0) {
  detail::map_linearly(graph, tensor, minElementsPerTile, grainSize, 0);
}
/* The same, beginning at the tile `offset`. */
inline void mapTensorLinearlyWithOffset(Graph &graph, const Tensor &tensor,
                                        unsigned minElementsPerTile, unsigned grainSize,
                                        unsigned offset) {
  detail::map_linearly(graph, tensor, minElementsPerTile, grainSize, offset);
}
inline void mapTensorLinearlyWithOffset(Graph &graph, const Tensor &tensor, unsigned offset) {
  detail::map_linearly(graph, tensor, 0, 0, offset);
}

/* The most elements on a tile, beyond the average. */
inline unsigned getTileImbalance(const Graph::TileToTensorMapping &mapping,
                                 unsigned minElementsPerTile = 0, unsigned grainSize = 1) {
  std::size_t all = 0, most = 0;
  for (const std::vector<Interval> &tile : mapping) {
    std::size_t here = 0;
    for (const Interval &one : tile) here += one.size();
    all += here;
    most = std::max(most, here);
  }
  const std::size_t tiles = std::max<std::size_t>(mapping.size(), 1);
  const std::size_t grain = std::max(grainSize, 1u);
  std::size_t fair = ((all + tiles - 1) / tiles + grain - 1) / grain * grain;
  fair = std::max<std::size_t>(fair, minElementsPerTile);
  return static_cast<unsigned>(most > fair ? most - fair : 0);
}
inline unsigned getTileImbalance(const Graph &graph, const Tensor &tensor,
                                 unsigned minElementsPerTile = 0, unsigned grainSize = 1) {
  return getTileImbalance(graph.getTileMapping(tensor), minElementsPerTile, grainSize);
}

} // namespace poputil

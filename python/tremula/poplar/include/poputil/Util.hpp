/* Regions of tensors split between the workers of a tile, and small helpers. */
#pragma once

#include <climits>

#include "../poplar/Graph.hpp"
#include "exceptions.hpp"

namespace poputil {
TREMULA_NAMES

inline std::size_t intervalSequenceNumElements(
    const std::vector<std::vector<Interval>> &sequences) {
  std::size_t result = 0;
  for (const std::vector<Interval> &sequence : sequences) {
    for (const Interval &one : sequence) result += one.size();
  }
  return result;
}

/* Joins neighbours that touch. */
inline void mergeAdjacentRegions(std::vector<Interval> &regions) {
  std::vector<Interval> result;
  std::sort(regions.begin(), regions.end());
  for (const Interval &one : regions) {
    if (one.size() == 0) continue;
    if (!result.empty() && result.back().end() == one.begin()) {
      result.back() = Interval(result.back().begin(), one.end());
    } else {
      result.push_back(one);
    }
  }
  regions = result;
}
inline void mergeAdjacentRegions(std::vector<std::vector<Interval>> &mapping) {
  for (std::vector<Interval> &regions : mapping) mergeAdjacentRegions(regions);
}

/* Splits sequences of regions into at most maxPartitions parts of about the same number of
 * elements. Parts are whole grains, but for the last of a sequence, and have at least
 * minElementsPerPartition elements; sequences and regions may be cut, a region into pieces of at
 * most maxElementsPerRegion. */
inline std::vector<std::vector<std::vector<Interval>>> splitRegions(
    const std::vector<std::vector<Interval>> &sequences, unsigned grainSize, unsigned maxPartitions,
    unsigned minElementsPerPartition = 0, unsigned maxElementsPerPartition = UINT_MAX,
    unsigned maxElementsPerRegion = UINT_MAX) {
  std::vector<std::vector<std::vector<Interval>>> result;
  const std::size_t elements = intervalSequenceNumElements(sequences);
  if (elements == 0) return result;
  if (maxPartitions == 0) throw poplibs_error("regions are split into no parts");
  const std::size_t grain = std::max(grainSize, 1u);
  /* An equal share in whole grains. */
  const std::size_t grains = (elements + grain - 1) / grain;
  const std::size_t share = (grains + maxPartitions - 1) / maxPartitions;
  std::size_t wanted = std::max(share, (minElementsPerPartition + grain - 1) / grain) * grain;
  wanted = std::min<std::size_t>(wanted, std::max<std::size_t>(maxElementsPerPartition, grain));
  std::size_t room = 0;
  for (const std::vector<Interval> &sequence : sequences) {
    bool begun = false; /* whether the part has elements of this sequence */
    for (const Interval &region : sequence) {
      std::size_t at = region.begin();
      while (at < region.end()) {
        if (room == 0) {
          result.push_back({});
          room = wanted;
          begun = false;
        }
        if (!begun) result.back().push_back({});
        begun = true;
        const std::size_t size =
            std::min(std::min(region.end() - at, room), std::size_t(maxElementsPerRegion));
        result.back().back().push_back(Interval(at, at + size));
        at += size;
        room -= size;
      }
    }
    room = room / grain * grain; /* the next sequence begins a grain of its own */
  }
  return result;
}

/* The same of one sequence of regions. */
inline std::vector<std::vector<Interval>> splitRegions(const std::vector<Interval> &regions,
                                                       unsigned grainSize, unsigned maxPartitions,
                                                       unsigned minElementsPerPartition = 0,
                                                       unsigned maxElementsPerPartition = UINT_MAX,
                                                       unsigned maxElementsPerRegion = UINT_MAX) {
  std::vector<std::vector<Interval>> result;
  for (const std::vector<std::vector<Interval>> &part :
       splitRegions(std::vector<std::vector<Interval>>{regions}, grainSize, maxPartitions,
                    minElementsPerPartition, maxElementsPerPartition, maxElementsPerRegion)) {
    result.push_back(part.front());
  }
  return result;
}

/* Splits a tile's regions, or sequences of them, between its workers. */
template <class Regions = std::vector<Interval>>
auto splitRegionsBetweenWorkers(
    const poplar::Target &target, const Regions &regions, unsigned grainSize,
    unsigned minElementsPerPartition = 0, unsigned maxElementsPerPartition = UINT_MAX,
    unsigned maxElementsPerRegion = UINT_MAX) -> decltype(splitRegions(regions, 1, 1)) {
  return splitRegions(regions, grainSize, target.getNumWorkerContexts(), minElementsPerPartition,
                      maxElementsPerPartition, maxElementsPerRegion);
}

/* The coordinates of an element of a flattened tensor. */
template <class T>
std::vector<T> unflattenIndex(const std::vector<T> &shape, std::size_t index) {
  std::vector<T> result(shape.size());
  for (std::size_t i = shape.size(); i > 0; --i) {
    result[i - 1] = static_cast<T>(index % shape[i - 1]);
    index /= shape[i - 1];
  }
  if (index != 0) throw poplibs_error("the index is beyond the shape");
  return result;
}
inline std::size_t flattenIndex(const std::vector<std::size_t> &shape,
                                const std::vector<std::size_t> &indices) {
  std::size_t result = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) result = result * shape[i] + indices.at(i);
  return result;
}

/* A copy of the tensor, on the same tiles. */
inline Tensor duplicate(
    Graph &graph, const Tensor &tensor, Sequence &program, const DebugContext &debug = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
  const Tensor result = graph.clone(tensor, debug, method);
  program.add(poplar::program::Copy(tensor, result, false, debug));
  return result;
}

} // namespace poputil

/* Slices whose places are tensors. `dims` are the sliced dimensions, `sizes` a slice's sizes in
 * them. Indices are of INT or UNSIGNED_INT. A slice that would reach over the end is read at the
 * end, and is not written. */
#pragma once

#include "../poplar/Graph.hpp"
#include "SlicePlan.hpp"

namespace popops {
TREMULA_NAMES
namespace embedding {

inline SlicePlan plan(const Graph &, const Type &, std::size_t /*numEntries*/,
                      std::size_t /*outputSize*/, const std::vector<std::size_t> & /*numLookups*/,
                      const OptionFlags & = {}) {
  return SlicePlan();
}
inline SlicePlan plan(const Graph &, const Type &, std::size_t /*groupSize*/,
                      std::size_t /*numEntries*/, std::size_t /*outputSize*/,
                      const std::vector<std::size_t> & /*numLookups*/, const OptionFlags & = {}) {
  return SlicePlan();
}

} // namespace embedding

namespace detail {

using poplar::detail::Sizes;
using poplar::detail::slice;
using poplar::detail::update;

/* A new variable of the shape of `count` slices, or of the whole without a count; a group dimension
 * of 0 is none. */
inline Tensor for_slices(Graph &graph, const Type &type, std::size_t groups, Sizes shape,
                         const Sizes &dims, const Sizes &sizes, const std::size_t *count,
                         const DebugContext &debug) {
  for (std::size_t i = 0; count != nullptr && i < dims.size(); ++i) shape.at(dims[i]) = sizes.at(i);
  if (count != nullptr) shape.insert(shape.begin(), *count);
  if (groups > 0) shape.insert(shape.begin(), groups);
  return graph.addVariable(type, shape, poplar::VariableMappingMethod::LINEAR, debug);
}

} // namespace detail

/* ---- Variables for them ----
 *
 * What is sliced, of `shape`; slices, [numIndices, slice]; and indices, [numIndices, dims] of
 * UNSIGNED_INT. The grouped functions have a dimension of groupSize in front. */

#define TREMULA_CREATE(function, groupSize, count, ...)                                  \
  inline Tensor function(Graph &graph, const Type &type, __VA_ARGS__,                    \
                         const DebugContext &debug = {}) {                               \
    return detail::for_slices(graph, type, groupSize, shape, dims, sizes, count, debug); \
  }
#define TREMULA_GROUPS std::size_t groupSize
#define TREMULA_SHAPE \
  const detail::Sizes &shape, const detail::Sizes &dims, const detail::Sizes &sizes
#define TREMULA_PLAN const SlicePlan &, const OptionFlags &
TREMULA_CREATE(createSliceableTensor, 0, nullptr, TREMULA_SHAPE, std::size_t /*minGrainSize*/ = 0)
TREMULA_CREATE(createSliceableTensor, 0, nullptr, TREMULA_SHAPE, TREMULA_PLAN)
TREMULA_CREATE(createGroupedSliceableTensor, groupSize, nullptr, TREMULA_GROUPS, TREMULA_SHAPE,
               TREMULA_PLAN)
TREMULA_CREATE(createSliceTensor, 0, &numIndices, TREMULA_SHAPE, std::size_t numIndices)
TREMULA_CREATE(createSliceTensor, 0, &numIndices, TREMULA_SHAPE, std::size_t numIndices,
               TREMULA_PLAN)
TREMULA_CREATE(createGroupedSliceTensor, groupSize, &numIndices, TREMULA_GROUPS, TREMULA_SHAPE,
               std::size_t numIndices, TREMULA_PLAN)
#undef TREMULA_CREATE
#undef TREMULA_GROUPS
#undef TREMULA_SHAPE
#undef TREMULA_PLAN
inline Tensor createSliceTensor(Graph &graph, const Tensor &t, const detail::Sizes &dims,
                                const detail::Sizes &sizes, std::size_t numIndices,
                                const DebugContext &debug = {}) {
  return createSliceTensor(graph, t.elementType(), t.shape(), dims, sizes, numIndices, debug);
}
inline Tensor createIndicesTensor(Graph &graph, const detail::Sizes &dims, std::size_t numIndices,
                                  const SlicePlan &, const OptionFlags &,
                                  const DebugContext &debug = {}) {
  return graph.addVariable(poplar::UNSIGNED_INT, {numIndices, dims.size()},
                           poplar::VariableMappingMethod::LINEAR, debug);
}
inline Tensor createGroupedIndicesTensor(Graph &graph, std::size_t groupSize,
                                         const detail::Sizes &dims, std::size_t numIndices,
                                         const SlicePlan &, const OptionFlags &,
                                         const DebugContext &debug = {}) {
  return graph.addVariable(poplar::UNSIGNED_INT, {groupSize, numIndices, dims.size()},
                           poplar::VariableMappingMethod::LINEAR, debug);
}

/* ---- Many slices ---- */

/* The slices of t at the rows of offsets, [slices, dims]: [slices, slice]. The grouped functions
 * have one more dimension in front of t, offsets and slices, which `dims` do not count. Throws
 * poplibs_error where shapes do not fit. */
#define TREMULA_SLICES(SLICE, UPDATE, ADD, MAX, grouped)                                        \
  inline Tensor SLICE(Graph &graph, const Tensor &t, const Tensor &offsets,                     \
                      const detail::Sizes &dims, const detail::Sizes &sizes, Sequence &program, \
                      const SlicePlan &, const OptionFlags &, const DebugContext &debug = {}) { \
    return detail::slice(graph.handle(), t, offsets, grouped, dims, sizes, program, debug);     \
  }                                                                                             \
  /* Writes the slices s; of several at one place any one stays. */                             \
  TREMULA_UPDATE(UPDATE, TRM_POPLAR_UPDATE_SET, grouped)                                        \
  /* The larger of what stands there and s. */                                                  \
  TREMULA_UPDATE(MAX, TRM_POPLAR_UPDATE_MAX, grouped)                                           \
  /* Adds scale * s. */                                                                         \
  inline void ADD(Graph &graph, const Tensor &t, const Tensor &s, const Tensor &offsets,        \
                  const Tensor &scale, const detail::Sizes &dims, const detail::Sizes &sizes,   \
                  Sequence &program, const SlicePlan &, const OptionFlags &,                    \
                  const DebugContext &debug = {}) {                                             \
    detail::update(graph.handle(), t, s, offsets, scale, TRM_POPLAR_UPDATE_ADD, grouped, dims,  \
                   sizes, program, debug);                                                      \
  }
#define TREMULA_UPDATE(function, how, grouped)                                                   \
  inline void function(Graph &graph, const Tensor &t, const Tensor &s, const Tensor &offsets,    \
                       const detail::Sizes &dims, const detail::Sizes &sizes, Sequence &program, \
                       const SlicePlan &, const OptionFlags &, const DebugContext &debug = {}) { \
    detail::update(graph.handle(), t, s, offsets, Tensor(), how, grouped, dims, sizes, program,  \
                   debug);                                                                       \
  }
TREMULA_SLICES(multiSlice, multiUpdate, multiUpdateAdd, multiUpdateMax, false)
TREMULA_SLICES(groupedMultiSlice, groupedMultiUpdate, groupedMultiUpdateAdd, groupedMultiUpdateMax,
               true)
#undef TREMULA_SLICES
#undef TREMULA_UPDATE

/* ---- One slice ---- */

/* The slice of t at `offset`, [dims]: the shape of t with `sizes`. */
inline Tensor dynamicSlice(Graph &graph, const Tensor &t, const Tensor &offset,
                           const detail::Sizes &dims, const detail::Sizes &sizes, Sequence &program,
                           const DebugContext &debug = {}, const OptionFlags & = {}) {
  return detail::slice(graph.handle(), t, offset.reshape({1, dims.size()}), false, dims, sizes,
                       program, debug)[0];
}
inline void dynamicUpdate(Graph &graph, const Tensor &t, const Tensor &s, const Tensor &offset,
                          const detail::Sizes &dims, const detail::Sizes &sizes, Sequence &program,
                          const DebugContext &debug = {}, const OptionFlags & = {}) {
  detail::update(graph.handle(), t, s.expand({0}), offset.reshape({1, dims.size()}), Tensor(),
                 TRM_POPLAR_UPDATE_SET, false, dims, sizes, program, debug);
}

} // namespace popops

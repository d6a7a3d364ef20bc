/* Products of matrices. */
#pragma once

#include <cstddef>
#include <vector>

#include "../poplar/Graph.hpp"
#include "../poplar/Program.hpp"
#include "../popops/ScaledAdd.hpp"

namespace poplin {

/* Plans of products, which Tremula does not need; an argument. */
class PlanningCache {};
namespace matmul {
typedef ::poplin::PlanningCache PlanningCache;
}

namespace detail {

inline poplar::Tensor product(poplar::Graph &graph, const poplar::Tensor &a,
                              const poplar::Tensor &b, const poplar::Type &type, unsigned rank,
                              poplar::program::Sequence &program,
                              const poplar::DebugContext &debug) {
  if (a.rank() != rank || b.rank() != rank) {
    throw poputil::poplibs_error("a product of matrices has tensors of rank " +
                                 std::to_string(rank) + ", but the operands are " +
                                 a.shapeToString() + " and " + b.shapeToString());
  }
  return poplar::detail::made(graph.handle(), poplar::detail::table().step_mat_mul, a.get(),
                              b.get(), type.number(), program.place(), debug.getPathName().c_str());
}

inline poplar::Tensor input(poplar::Graph &graph, const poplar::Type &type,
                            const std::vector<std::size_t> &a, const std::vector<std::size_t> &b,
                            bool isLeft, const poplar::DebugContext &debug) {
  if (a.size() != b.size() || a.size() < 2 || a.back() != b[b.size() - 2]) {
    throw poputil::poplibs_error("the shapes are not those of a product of matrices");
  }
  return graph.addVariable(type, isLeft ? a : b, poplar::VariableMappingMethod::LINEAR, debug);
}

} // namespace detail

/* [m,k] x [k,n]. Throws poplibs_error for other shapes. */
inline poplar::Tensor matMul(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                             poplar::program::Sequence &program, const poplar::Type &outputType,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}, PlanningCache * = nullptr) {
  return detail::product(graph, a, b, outputType, 2, program, debug);
}
inline poplar::Tensor matMul(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                             poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}, PlanningCache * = nullptr) {
  return detail::product(graph, a, b, a.elementType(), 2, program, debug);
}
/* [g,m,k] x [g,k,n]. */
inline poplar::Tensor matMulGrouped(poplar::Graph &graph, const poplar::Tensor &a,
                                    const poplar::Tensor &b, poplar::program::Sequence &program,
                                    const poplar::Type &outputType,
                                    const poplar::DebugContext &debug = {},
                                    const poplar::OptionFlags & = {}, PlanningCache * = nullptr) {
  return detail::product(graph, a, b, outputType, 3, program, debug);
}
/* c += k * a x b. */
inline void matMulAcc(poplar::Graph &graph, const poplar::Tensor &c, float k,
                      const poplar::Tensor &a, const poplar::Tensor &b,
                      poplar::program::Sequence &program, const poplar::DebugContext &debug = {},
                      const poplar::OptionFlags & = {}, PlanningCache * = nullptr) {
  const poplar::Tensor ab = matMul(graph, a, b, program, c.elementType(), debug);
  popops::scaledAddTo(graph, c, ab, k, program, debug);
}
inline void matMulGroupedAcc(poplar::Graph &graph, const poplar::Tensor &c, float k,
                             const poplar::Tensor &a, const poplar::Tensor &b,
                             poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}, PlanningCache * = nullptr) {
  const poplar::Tensor ab = matMulGrouped(graph, a, b, program, c.elementType(), debug);
  popops::scaledAddTo(graph, c, ab, k, program, debug);
}

/* A new variable for a side of a product of these shapes, placed for it. */
#define TREMULA_MAT_MUL_INPUT(function, isLeft)                                                 \
  inline poplar::Tensor function(poplar::Graph &graph, const poplar::Type &inputType,           \
                                 const poplar::Type &, const std::vector<std::size_t> &aShape,  \
                                 const std::vector<std::size_t> &bShape,                        \
                                 const poplar::DebugContext &debug = {},                        \
                                 const poplar::OptionFlags & = {}, PlanningCache * = nullptr) { \
    return detail::input(graph, inputType, aShape, bShape, isLeft, debug);                      \
  }                                                                                             \
  inline poplar::Tensor function(                                                               \
      poplar::Graph &graph, const poplar::Type &type, const std::vector<std::size_t> &aShape,   \
      const std::vector<std::size_t> &bShape, const poplar::DebugContext &debug = {},           \
      const poplar::OptionFlags & = {}, PlanningCache * = nullptr) {                            \
    return detail::input(graph, type, aShape, bShape, isLeft, debug);                           \
  }
TREMULA_MAT_MUL_INPUT(createMatMulInputLHS, true)
TREMULA_MAT_MUL_INPUT(createMatMulInputRHS, false)
TREMULA_MAT_MUL_INPUT(createMatMulGroupedInputLHS, true)
TREMULA_MAT_MUL_INPUT(createMatMulGroupedInputRHS, false)
#undef TREMULA_MAT_MUL_INPUT

} // namespace poplin

/* Products of matrices. */
#pragma once

#include "../poplar/Graph.hpp"
#include "../popops/ScaledAdd.hpp"

namespace poplin {
TREMULA_NAMES

/* Plans of products, which Tremula does not need; an argument. */
class PlanningCache {};
namespace matmul {
typedef ::poplin::PlanningCache PlanningCache;
}

namespace detail {

inline Tensor product(Graph &graph, const Tensor &a, const Tensor &b, const Type &type,
                      unsigned rank, Sequence &program, const DebugContext &debug) {
  if (a.rank() != rank || b.rank() != rank) {
    throw poputil::poplibs_error("a product of matrices has tensors of rank " +
                                 std::to_string(rank) + ", but the operands are " +
                                 a.shapeToString() + " and " + b.shapeToString());
  }
  return poplar::detail::made(graph.handle(), poplar::detail::table().step_mat_mul, a.get(),
                              b.get(), type.number(), program.place(), debug.getPathName().c_str());
}

inline Tensor input(Graph &graph, const Type &type, const std::vector<std::size_t> &a,
                    const std::vector<std::size_t> &b, bool isLeft, const DebugContext &debug) {
  if (a.size() != b.size() || a.size() < 2 || a.back() != b[b.size() - 2]) {
    throw poputil::poplibs_error("the shapes are not those of a product of matrices");
  }
  return graph.addVariable(type, isLeft ? a : b, poplar::VariableMappingMethod::LINEAR, debug);
}

} // namespace detail

/* [m,k] x [k,n], in the groups' case [g,m,k] x [g,k,n]. Throws poplibs_error for other shapes. The
 * second form: c += k * a x b. */
#define TREMULA_MAT_MUL(function, accumulate, rank)                                                \
  inline Tensor function(Graph &graph, const Tensor &a, const Tensor &b, Sequence &program,        \
                         const Type &outputType, const DebugContext &debug = {},                   \
                         const OptionFlags & = {}, PlanningCache * = nullptr) {                    \
    return detail::product(graph, a, b, outputType, rank, program, debug);                         \
  }                                                                                                \
  inline void accumulate(Graph &graph, const Tensor &c, float k, const Tensor &a, const Tensor &b, \
                         Sequence &program, const DebugContext &debug = {},                        \
                         const OptionFlags & = {}, PlanningCache * = nullptr) {                    \
    const Tensor ab = function(graph, a, b, program, c.elementType(), debug);                      \
    popops::scaledAddTo(graph, c, ab, k, program, debug);                                          \
  }
TREMULA_MAT_MUL(matMul, matMulAcc, 2)
TREMULA_MAT_MUL(matMulGrouped, matMulGroupedAcc, 3)
#undef TREMULA_MAT_MUL
inline Tensor matMul(Graph &graph, const Tensor &a, const Tensor &b, Sequence &program,
                     const DebugContext &debug = {}, const OptionFlags & = {},
                     PlanningCache * = nullptr) {
  return detail::product(graph, a, b, a.elementType(), 2, program, debug);
}

/* A new variable for a side of a product of these shapes, placed for it. */
#define TREMULA_MAT_MUL_INPUT(function, isLeft)                                                  \
  inline Tensor function(Graph &graph, const Type &inputType, const Type &,                      \
                         const std::vector<std::size_t> &aShape,                                 \
                         const std::vector<std::size_t> &bShape, const DebugContext &debug = {}, \
                         const OptionFlags & = {}, PlanningCache * = nullptr) {                  \
    return detail::input(graph, inputType, aShape, bShape, isLeft, debug);                       \
  }                                                                                              \
  inline Tensor function(Graph &graph, const Type &type, const std::vector<std::size_t> &aShape, \
                         const std::vector<std::size_t> &bShape, const DebugContext &debug = {}, \
                         const OptionFlags & = {}, PlanningCache * = nullptr) {                  \
    return detail::input(graph, type, aShape, bShape, isLeft, debug);                            \
  }
TREMULA_MAT_MUL_INPUT(createMatMulInputLHS, true)
TREMULA_MAT_MUL_INPUT(createMatMulInputRHS, false)
TREMULA_MAT_MUL_INPUT(createMatMulGroupedInputLHS, true)
TREMULA_MAT_MUL_INPUT(createMatMulGroupedInputRHS, false)
#undef TREMULA_MAT_MUL_INPUT

} // namespace poplin

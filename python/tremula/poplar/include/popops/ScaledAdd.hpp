/* A += scale * B, in place. */
#ifndef TREMULA_POPOPS_SCALED_ADD_HPP_
#define TREMULA_POPOPS_SCALED_ADD_HPP_

#include "ElementWise.hpp"

namespace popops {
namespace detail {

/* first + sign * second, written over A. Where types differ the sum is computed in FLOAT. */
inline void scaled_add(poplar::Graph &graph, const poplar::Tensor &a, const expr::Expr &first,
                       const expr::Expr &second, bool minus, bool mixed,
                       const std::vector<poplar::Tensor> &tensors,
                       poplar::program::Sequence &program, const poplar::DebugContext &debug) {
  expr::Any sum = minus ? expr::Any(expr::Sub(first, second)) : expr::Any(expr::Add(first, second));
  if (mixed) sum = expr::Cast(sum, a.elementType());
  mapInPlace(graph, sum, tensors, program, debug);
}

inline expr::Any operand(unsigned index, bool mixed) {
  const expr::PlaceHolder plain(index);
  return mixed ? expr::Any(expr::Cast(plain, poplar::FLOAT)) : expr::Any(plain);
}

inline bool differ(const poplar::Tensor &a, const poplar::Tensor &b) {
  return a.elementType() != b.elementType();
}

} // namespace detail

#define TREMULA_SCALED(function, minus)                                                            \
  inline void function(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,     \
                       float scale, poplar::program::Sequence &program,                            \
                       const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) { \
    const bool mixed = detail::differ(a, b);                                                       \
    detail::scaled_add(graph, a, detail::operand(1, mixed),                                        \
                       expr::Mul(detail::operand(2, mixed), scale), minus, mixed, {a, b}, program, \
                       debug);                                                                     \
  }                                                                                                \
  inline void function(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,     \
                       const poplar::Tensor &scale, poplar::program::Sequence &program,            \
                       const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) { \
    const bool mixed = detail::differ(a, b) || detail::differ(a, scale);                           \
    detail::scaled_add(graph, a, detail::operand(1, mixed),                                        \
                       expr::Mul(detail::operand(2, mixed), detail::operand(3, mixed)), minus,     \
                       mixed, {a, b, scale.reshape({})}, program, debug);                          \
  }                                                                                                \
  /* The same with a scale of A too. */                                                            \
  inline void function(poplar::Graph &graph, const poplar::Tensor &a, float scaleA,                \
                       const poplar::Tensor &b, float scaleB, poplar::program::Sequence &program,  \
                       const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) { \
    const bool mixed = detail::differ(a, b);                                                       \
    detail::scaled_add(graph, a, expr::Mul(detail::operand(1, mixed), scaleA),                     \
                       expr::Mul(detail::operand(2, mixed), scaleB), minus, mixed, {a, b},         \
                       program, debug);                                                            \
  }                                                                                                \
  inline void function(poplar::Graph &graph, const poplar::Tensor &a,                              \
                       const poplar::Tensor &scaleA, const poplar::Tensor &b,                      \
                       const poplar::Tensor &scaleB, poplar::program::Sequence &program,           \
                       const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) { \
    const bool mixed =                                                                             \
        detail::differ(a, b) || detail::differ(a, scaleA) || detail::differ(a, scaleB);            \
    detail::scaled_add(graph, a, expr::Mul(detail::operand(1, mixed), detail::operand(3, mixed)),  \
                       expr::Mul(detail::operand(2, mixed), detail::operand(4, mixed)), minus,     \
                       mixed, {a, b, scaleA.reshape({}), scaleB.reshape({})}, program, debug);     \
  }
TREMULA_SCALED(scaledAddTo, false)
TREMULA_SCALED(scaledSubtractFrom, true)
#undef TREMULA_SCALED

} // namespace popops

#endif // TREMULA_POPOPS_SCALED_ADD_HPP_

/* A += scale * B, in place. */
#pragma once

#include "ElementWise.hpp"

namespace popops {
TREMULA_NAMES
namespace detail {

/* scaleA * a + scaleB * b, or -, written over a. Where types differ FLOAT is computed with. */
inline void scaled_add(Graph &graph, const Tensor &a, const Operand *scaleA, const Tensor &b,
                       const Operand &scaleB, expr::BinaryOpType op, Sequence &program,
                       const DebugContext &debug) {
  const Type type = a.elementType();
  const auto differs = [&](const Tensor &one) { return one.valid() && one.elementType() != type; };
  const bool mixed =
      differs(b) || differs(scaleB.tensor) || (scaleA != nullptr && differs(scaleA->tensor));
  Operands list;
  const auto cast = [&](const Operand &one) -> expr::Any {
    const expr::Any plain = list.add(one);
    return mixed && one.tensor.valid() ? expr::Any(expr::Cast(plain, poplar::FLOAT)) : plain;
  };
  const auto scalar = [&](const Operand &one) -> expr::Any {
    return cast(one.tensor.valid() ? Operand(one.tensor.reshape({})) : one);
  };
  expr::Any left = cast(a), right = cast(b);
  if (scaleA != nullptr) left = left * scalar(*scaleA);
  const expr::Any sum = expr::BinaryOp(op, left, right * scalar(scaleB));
  mapInPlace(graph, mixed ? expr::Any(expr::Cast(sum, type)) : sum, list.tensors, program, debug);
}

} // namespace detail

/* Scales are numbers or tensors of one element; the second form has one of A too. */
#define TREMULA_SCALED(function, op)                                                          \
  inline void function(Graph &graph, const Tensor &a, const Tensor &b,                        \
                       const detail::Operand &scale, Sequence &program,                       \
                       const DebugContext &debug = {}, const OptionFlags & = {}) {            \
    detail::scaled_add(graph, a, nullptr, b, scale, expr::BinaryOpType::op, program, debug);  \
  }                                                                                           \
  inline void function(Graph &graph, const Tensor &a, const detail::Operand &scaleA,          \
                       const Tensor &b, const detail::Operand &scaleB, Sequence &program,     \
                       const DebugContext &debug = {}, const OptionFlags & = {}) {            \
    detail::scaled_add(graph, a, &scaleA, b, scaleB, expr::BinaryOpType::op, program, debug); \
  }
TREMULA_SCALED(scaledAddTo, ADD)
TREMULA_SCALED(scaledSubtractFrom, SUBTRACT)
#undef TREMULA_SCALED

} // namespace popops

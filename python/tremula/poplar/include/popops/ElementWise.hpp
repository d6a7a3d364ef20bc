/* Elementwise operations: map() of an expression, and a function for each operation.
 *
 * Of each operation of tremula/poplar_op.def, such as `add`, there are add(), whose result is a new
 * tensor, addInPlace(), which writes over its first operand, and addWithOutput(). Operands of
 * operations that have several may be numbers. Operands broadcast as in NumPy. select(a, b, p) is
 * `a` where the predicate p is true; clamp(a, lower, upper) has none below and none above. */
#pragma once

#include "../poplar/Graph.hpp"
#include "Expr.hpp"

namespace popops {
TREMULA_NAMES
namespace detail {

/* Adds the step: its result, or `output` if it is no null Tensor. */
inline Tensor step(Graph &graph, const expr::Expr &expression, const std::vector<Tensor> &tensors,
                   const Tensor &output, Sequence &program, const DebugContext &debug) {
  const auto handles = poplar::detail::handles_of(tensors);
  trm_poplar_tensor *result = output.handle();
  poplar::detail::call(poplar::detail::table().step_map, graph.handle(), expression.nodes().data(),
                       expression.nodes().size(), handles.data(), handles.size(), program.place(),
                       debug.getPathName().c_str(), &result);
  return output.valid() ? output : Tensor(graph.handle(), result);
}

/* A tensor, or a number, which takes the type of the operand beside it. */
struct Operand {
  Operand(const Tensor &given) : tensor(given), number(0) { given.get(); }
  template <class T, class = if_number<T>>
  Operand(T given) : number(given) {}

  Tensor tensor; /* null: the number */
  expr::Any number;
};

/* Operands as those of an expression, and the tensors among them. */
struct Operands {
  expr::Any add(const Operand &one) {
    if (!one.tensor.valid()) return one.number;
    tensors.push_back(one.tensor);
    return expr::PlaceHolder(static_cast<unsigned>(tensors.size()));
  }

  std::vector<Tensor> tensors;
};

template <class Op>
Tensor apply(Graph &graph, Op op, const std::vector<Operand> &operands, const Tensor &output,
             Sequence &program, const DebugContext &debug) {
  Operands list;
  std::vector<expr::Expr> expressions;
  for (const Operand &one : operands) expressions.push_back(list.add(one));
  return step(graph, expr::Applied(op, expressions), list.tensors, output, program, debug);
}

} // namespace detail

/* The expression of the tensors: _1 is the first. Throws poplibs_error for types or shapes that do
 * not fit. */
inline Tensor map(Graph &graph, const expr::Expr &expression, const std::vector<Tensor> &tensors,
                  Sequence &program, const DebugContext &debug = {}, const OptionFlags & = {}) {
  return detail::step(graph, expression, tensors, Tensor(), program, debug);
}
/* The result is written to `output`. */
inline void mapWithOutput(Graph &graph, const expr::Expr &expression,
                          const std::vector<Tensor> &tensors, const Tensor &output,
                          Sequence &program, const DebugContext &debug = {},
                          const OptionFlags & = {}) {
  output.get();
  detail::step(graph, expression, tensors, output, program, debug);
}
/* The result is written over the first tensor. */
inline void mapInPlace(Graph &graph, const expr::Expr &expression,
                       const std::vector<Tensor> &tensors, Sequence &program,
                       const DebugContext &debug = {}, const OptionFlags & = {}) {
  mapWithOutput(graph, expression, tensors, tensors.at(0), program, debug);
}

/* The three forms of an operation. PARAMETERS(First) are its operands, LIST the list of them. */
#define TREMULA_FORMS(function, op, First, PARAMETERS, LIST)                                \
  inline Tensor function(Graph &graph, PARAMETERS(First), Sequence &program,                \
                         const DebugContext &debug = {}, const OptionFlags & = {}) {        \
    return detail::apply(graph, op, LIST, Tensor(), program, debug);                        \
  }                                                                                         \
  inline void function##InPlace(Graph &graph, PARAMETERS(Tensor), Sequence &program,        \
                                const DebugContext &debug = {}, const OptionFlags & = {}) { \
    detail::apply(graph, op, LIST, a, program, debug);                                      \
  }                                                                                         \
  inline void function##WithOutput(Graph &graph, PARAMETERS(First), const Tensor &output,   \
                                   Sequence &program, const DebugContext &debug = {},       \
                                   const OptionFlags & = {}) {                              \
    output.get();                                                                           \
    detail::apply(graph, op, LIST, output, program, debug);                                 \
  }
#define TREMULA_1(First) const First &a
#define TREMULA_2(First) const First &a, const detail::Operand &b
#define TREMULA_3(First) const First &a, const detail::Operand &b, const detail::Operand &c
#define TREMULA_MAP_1(First) expr::UnaryOpType op, const First &a
#define TREMULA_MAP_2(First) expr::BinaryOpType op, const First &a, const detail::Operand &b
#define TREMULA_MAP_3(First) \
  expr::TernaryOpType op, const First &a, const detail::Operand &b, const detail::Operand &c
#define TREMULA_LIST(...) {__VA_ARGS__}
TREMULA_FORMS(map, op, Tensor, TREMULA_MAP_1, TREMULA_LIST(a))
TREMULA_FORMS(map, op, detail::Operand, TREMULA_MAP_2, TREMULA_LIST(a, b))
TREMULA_FORMS(map, op, detail::Operand, TREMULA_MAP_3, TREMULA_LIST(a, b, c))
#define POPLAR_UNARY(ID, Class, function, opcode) \
  TREMULA_FORMS(function, expr::UnaryOpType::ID, Tensor, TREMULA_1, TREMULA_LIST(a))
#define POPLAR_BINARY(ID, Class, function, opcode) \
  TREMULA_FORMS(function, expr::BinaryOpType::ID, detail::Operand, TREMULA_2, TREMULA_LIST(a, b))
#define POPLAR_TERNARY(ID, Class, function)                                    \
  TREMULA_FORMS(function, expr::TernaryOpType::ID, detail::Operand, TREMULA_3, \
                TREMULA_LIST(a, b, c))
#include <tremula/poplar_op.def>
#undef TREMULA_FORMS
#undef TREMULA_1
#undef TREMULA_2
#undef TREMULA_3
#undef TREMULA_MAP_1
#undef TREMULA_MAP_2
#undef TREMULA_MAP_3
#undef TREMULA_LIST

} // namespace popops

/* Elementwise operations: map() of an expression, and a function for each operation.
 *
 * Of each operation of tremula/poplar_op.def, such as `add`, there are add(), whose result is a new
 * tensor, addInPlace(), which writes over its first operand, and addWithOutput(). Operands of
 * operations that have several may be numbers. Operands broadcast as in NumPy. select(a, b, p) is
 * `a` where the predicate p is true; clamp(a, lower, upper) has none below and none above. */
#pragma once

#include <type_traits>
#include <vector>

#include "../poplar/Graph.hpp"
#include "../poplar/Program.hpp"
#include "Expr.hpp"

namespace popops {
namespace detail {

/* Adds the step: its result, or `output` if it is no null Tensor. */
inline poplar::Tensor step(poplar::Graph &graph, const expr::Expr &expression,
                           const std::vector<poplar::Tensor> &tensors, const poplar::Tensor &output,
                           poplar::program::Sequence &program, const poplar::DebugContext &debug) {
  const auto handles = poplar::detail::handles_of(tensors);
  trm_poplar_tensor *result = output.handle();
  poplar::detail::call(poplar::detail::table().step_map, graph.handle(), expression.nodes().data(),
                       expression.nodes().size(), handles.data(), handles.size(), program.place(),
                       debug.getPathName().c_str(), &result);
  return output.valid() ? output : poplar::Tensor(graph.handle(), result);
}

/* A tensor, or a number, which takes the type of the operand beside it. */
struct Operand {
  Operand(const poplar::Tensor &given) : tensor(given), number(0) { given.get(); }
  template <class T, class = if_number<T>>
  Operand(T given) : number(given) {}

  poplar::Tensor tensor; /* null: the number */
  expr::Any number;
};

/* Operands as those of an expression, and the tensors among them. */
struct Operands {
  expr::Any add(const Operand &one) {
    if (!one.tensor.valid()) return one.number;
    tensors.push_back(one.tensor);
    return expr::PlaceHolder(static_cast<unsigned>(tensors.size()));
  }

  std::vector<poplar::Tensor> tensors;
};

template <class Op>
poplar::Tensor apply(poplar::Graph &graph, Op op, const std::vector<Operand> &operands,
                     const poplar::Tensor &output, poplar::program::Sequence &program,
                     const poplar::DebugContext &debug) {
  Operands list;
  std::vector<expr::Expr> expressions;
  for (const Operand &one : operands) expressions.push_back(list.add(one));
  return step(graph, expr::Applied(op, expressions), list.tensors, output, program, debug);
}

} // namespace detail

/* The expression of the tensors: _1 is the first. Throws poplibs_error for types or shapes that do
 * not fit. */
inline poplar::Tensor map(poplar::Graph &graph, const expr::Expr &expression,
                          const std::vector<poplar::Tensor> &tensors,
                          poplar::program::Sequence &program,
                          const poplar::DebugContext &debug = {},
                          const poplar::OptionFlags & = {}) {
  return detail::step(graph, expression, tensors, poplar::Tensor(), program, debug);
}
/* The result is written to `output`. */
inline void mapWithOutput(poplar::Graph &graph, const expr::Expr &expression,
                          const std::vector<poplar::Tensor> &tensors, const poplar::Tensor &output,
                          poplar::program::Sequence &program,
                          const poplar::DebugContext &debug = {},
                          const poplar::OptionFlags & = {}) {
  output.get();
  detail::step(graph, expression, tensors, output, program, debug);
}
/* The result is written over the first tensor. */
inline void mapInPlace(poplar::Graph &graph, const expr::Expr &expression,
                       const std::vector<poplar::Tensor> &tensors,
                       poplar::program::Sequence &program, const poplar::DebugContext &debug = {},
                       const poplar::OptionFlags & = {}) {
  mapWithOutput(graph, expression, tensors, tensors.at(0), program, debug);
}

/* The three forms of an operation. PARAMETERS(First) are its operands, LIST the list of them. */
#define TREMULA_FORMS(function, op, First, PARAMETERS, LIST)                                \
  inline poplar::Tensor function(                                                           \
      poplar::Graph &graph, PARAMETERS(First), poplar::program::Sequence &program,          \
      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {           \
    return detail::apply(graph, op, LIST, poplar::Tensor(), program, debug);                \
  }                                                                                         \
  inline void function##InPlace(                                                            \
      poplar::Graph &graph, PARAMETERS(poplar::Tensor), poplar::program::Sequence &program, \
      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {           \
    detail::apply(graph, op, LIST, a, program, debug);                                      \
  }                                                                                         \
  inline void function##WithOutput(                                                         \
      poplar::Graph &graph, PARAMETERS(First), const poplar::Tensor &output,                \
      poplar::program::Sequence &program, const poplar::DebugContext &debug = {},           \
      const poplar::OptionFlags & = {}) {                                                   \
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
TREMULA_FORMS(map, op, poplar::Tensor, TREMULA_MAP_1, TREMULA_LIST(a))
TREMULA_FORMS(map, op, detail::Operand, TREMULA_MAP_2, TREMULA_LIST(a, b))
TREMULA_FORMS(map, op, detail::Operand, TREMULA_MAP_3, TREMULA_LIST(a, b, c))
#define POPLAR_UNARY(ID, Class, function, opcode) \
  TREMULA_FORMS(function, expr::UnaryOpType::ID, poplar::Tensor, TREMULA_1, TREMULA_LIST(a))
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

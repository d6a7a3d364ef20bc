/* Elementwise operations: map() of an expression, and a function for each operation.
 *
 * Of each operation of tremula/poplar_op.def, such as `add`, there are add(), whose result is a new
 * tensor, addInPlace(), which writes over its first operand, and addWithOutput(). Each operand of a
 * binary operation may be a number, but not both. Operands broadcast as in NumPy. */
#ifndef TREMULA_POPOPS_ELEMENT_WISE_HPP_
#define TREMULA_POPOPS_ELEMENT_WISE_HPP_

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
  std::vector<const trm_poplar_tensor *> handles;
  for (const poplar::Tensor &one : tensors) handles.push_back(one.get());
  trm_poplar_tensor *result = output.handle();
  poplar::detail::Failure failure;
  failure.check(poplar::detail::table().step_map(
      graph.handle(), expression.nodes().data(), expression.nodes().size(), handles.data(),
      handles.size(), program.place(), debug.getPathName().c_str(), &result, failure));
  return output.valid() ? output : poplar::Tensor(graph.handle(), result);
}

template <class T>
using if_number =
    typename std::enable_if<std::is_arithmetic<T>::value || std::is_same<T, half>::value>::type;

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
inline poplar::Tensor map(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &a,
                          poplar::program::Sequence &program,
                          const poplar::DebugContext &debug = {},
                          const poplar::OptionFlags & = {}) {
  return map(graph, expr::UnaryOp(op, expr::_1), {a}, program, debug);
}
inline poplar::Tensor map(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, poplar::program::Sequence &program,
                          const poplar::DebugContext &debug = {},
                          const poplar::OptionFlags & = {}) {
  return map(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, program, debug);
}
inline poplar::Tensor map(poplar::Graph &graph, expr::TernaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, const poplar::Tensor &c,
                          poplar::program::Sequence &program,
                          const poplar::DebugContext &debug = {},
                          const poplar::OptionFlags & = {}) {
  return map(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, program, debug);
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
inline void mapInPlace(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &a,
                       poplar::program::Sequence &program, const poplar::DebugContext &debug = {},
                       const poplar::OptionFlags & = {}) {
  mapInPlace(graph, expr::UnaryOp(op, expr::_1), {a}, program, debug);
}
inline void mapInPlace(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a,
                       const poplar::Tensor &b, poplar::program::Sequence &program,
                       const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {
  mapInPlace(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, program, debug);
}

#define POPLAR_UNARY(ID, Class, function)                                                \
  inline poplar::Tensor function(                                                        \
      poplar::Graph &graph, const poplar::Tensor &a, poplar::program::Sequence &program, \
      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {        \
    return map(graph, expr::Class(expr::_1), {a}, program, debug);                       \
  }                                                                                      \
  inline void function##InPlace(                                                         \
      poplar::Graph &graph, const poplar::Tensor &a, poplar::program::Sequence &program, \
      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {        \
    mapInPlace(graph, expr::Class(expr::_1), {a}, program, debug);                       \
  }                                                                                      \
  inline void function##WithOutput(                                                      \
      poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &output,       \
      poplar::program::Sequence &program, const poplar::DebugContext &debug = {},        \
      const poplar::OptionFlags & = {}) {                                                \
    mapWithOutput(graph, expr::Class(expr::_1), {a}, output, program, debug);            \
  }

/* The three forms of a binary operation for one kind of operands; LEFT and RIGHT are parameters,
 * EXPRESSION the expression, and TENSORS the list of its tensors. */
#define TREMULA_BINARY_FORMS(TEMPLATE, function, LEFT, RIGHT, EXPRESSION, TENSORS) \
  TEMPLATE inline poplar::Tensor function(                                         \
      poplar::Graph &graph, LEFT, RIGHT, poplar::program::Sequence &program,       \
      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {  \
    return map(graph, EXPRESSION, TENSORS, program, debug);                        \
  }                                                                                \
  TEMPLATE inline void function##WithOutput(                                       \
      poplar::Graph &graph, LEFT, RIGHT, const poplar::Tensor &output,             \
      poplar::program::Sequence &program, const poplar::DebugContext &debug = {},  \
      const poplar::OptionFlags & = {}) {                                          \
    mapWithOutput(graph, EXPRESSION, TENSORS, output, program, debug);             \
  }
#define TREMULA_BINARY_IN_PLACE(TEMPLATE, function, RIGHT, EXPRESSION, TENSORS)                 \
  TEMPLATE inline void function##InPlace(                                                       \
      poplar::Graph &graph, const poplar::Tensor &a, RIGHT, poplar::program::Sequence &program, \
      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {               \
    mapInPlace(graph, EXPRESSION, TENSORS, program, debug);                                     \
  }
#define TREMULA_NUMBER_HEAD template <class T, class = detail::if_number<T>>
#define TREMULA_LIST(...) \
  std::vector<poplar::Tensor> { __VA_ARGS__ }
#define POPLAR_BINARY(ID, Class, function)                                                      \
  TREMULA_BINARY_FORMS(, function, const poplar::Tensor &a, const poplar::Tensor &b,            \
                       expr::Class(expr::_1, expr::_2), TREMULA_LIST(a, b))                     \
  TREMULA_BINARY_FORMS(TREMULA_NUMBER_HEAD, function, const poplar::Tensor &a, T b,             \
                       expr::Class(expr::_1, b), TREMULA_LIST(a))                               \
  TREMULA_BINARY_FORMS(TREMULA_NUMBER_HEAD, function, T a, const poplar::Tensor &b,             \
                       expr::Class(a, expr::_1), TREMULA_LIST(b))                               \
  TREMULA_BINARY_IN_PLACE(, function, const poplar::Tensor &b, expr::Class(expr::_1, expr::_2), \
                          TREMULA_LIST(a, b))                                                   \
  TREMULA_BINARY_IN_PLACE(TREMULA_NUMBER_HEAD, function, T b, expr::Class(expr::_1, b),         \
                          TREMULA_LIST(a))
#include <tremula/poplar_op.def>
#undef TREMULA_BINARY_FORMS
#undef TREMULA_BINARY_IN_PLACE
#undef TREMULA_NUMBER_HEAD
#undef TREMULA_LIST

/* `a` where the predicate is true, else `b`. */
inline poplar::Tensor select(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                             const poplar::Tensor &predicate, poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}) {
  return map(graph, expr::Select(expr::_1, expr::_2, expr::_3), {a, b, predicate}, program, debug);
}
template <class T, class = detail::if_number<T>>
poplar::Tensor select(poplar::Graph &graph, const poplar::Tensor &a, T b,
                      const poplar::Tensor &predicate, poplar::program::Sequence &program,
                      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {
  return map(graph, expr::Select(expr::_1, b, expr::_2), {a, predicate}, program, debug);
}
template <class T, class = detail::if_number<T>>
poplar::Tensor select(poplar::Graph &graph, T a, const poplar::Tensor &b,
                      const poplar::Tensor &predicate, poplar::program::Sequence &program,
                      const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {
  return map(graph, expr::Select(a, expr::_1, expr::_2), {b, predicate}, program, debug);
}
inline void selectInPlace(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                          const poplar::Tensor &predicate, poplar::program::Sequence &program,
                          const poplar::DebugContext &debug = {},
                          const poplar::OptionFlags & = {}) {
  mapInPlace(graph, expr::Select(expr::_1, expr::_2, expr::_3), {a, b, predicate}, program, debug);
}
template <class T, class = detail::if_number<T>>
void selectInPlace(poplar::Graph &graph, const poplar::Tensor &a, T b,
                   const poplar::Tensor &predicate, poplar::program::Sequence &program,
                   const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {
  mapInPlace(graph, expr::Select(expr::_1, b, expr::_2), {a, predicate}, program, debug);
}
inline void selectWithOutput(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &b,
                             const poplar::Tensor &predicate, const poplar::Tensor &output,
                             poplar::program::Sequence &program,
                             const poplar::DebugContext &debug = {},
                             const poplar::OptionFlags & = {}) {
  mapWithOutput(graph, expr::Select(expr::_1, expr::_2, expr::_3), {a, b, predicate}, output,
                program, debug);
}

/* The elements, none below `lower` and none above `upper`. */
inline poplar::Tensor clamp(poplar::Graph &graph, const poplar::Tensor &a,
                            const poplar::Tensor &lower, const poplar::Tensor &upper,
                            poplar::program::Sequence &program,
                            const poplar::DebugContext &debug = {},
                            const poplar::OptionFlags & = {}) {
  return map(graph, expr::Clamp(expr::_1, expr::_2, expr::_3), {a, lower, upper}, program, debug);
}
template <class T, class = detail::if_number<T>>
poplar::Tensor clamp(poplar::Graph &graph, const poplar::Tensor &a, T lower, T upper,
                     poplar::program::Sequence &program, const poplar::DebugContext &debug = {},
                     const poplar::OptionFlags & = {}) {
  return map(graph, expr::Clamp(expr::_1, lower, upper), {a}, program, debug);
}
inline void clampInPlace(poplar::Graph &graph, const poplar::Tensor &a, const poplar::Tensor &lower,
                         const poplar::Tensor &upper, poplar::program::Sequence &program,
                         const poplar::DebugContext &debug = {}, const poplar::OptionFlags & = {}) {
  mapInPlace(graph, expr::Clamp(expr::_1, expr::_2, expr::_3), {a, lower, upper}, program, debug);
}
template <class T, class = detail::if_number<T>>
void clampInPlace(poplar::Graph &graph, const poplar::Tensor &a, T lower, T upper,
                  poplar::program::Sequence &program, const poplar::DebugContext &debug = {},
                  const poplar::OptionFlags & = {}) {
  mapInPlace(graph, expr::Clamp(expr::_1, lower, upper), {a}, program, debug);
}

} // namespace popops

#endif // TREMULA_POPOPS_ELEMENT_WISE_HPP_

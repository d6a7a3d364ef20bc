/* Elementwise expressions for popops::map: expr::_1 * 2 + expr::Exp(expr::_2). */
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "../poplar/Type.hpp"
#include "ExprOp.hpp"

namespace popops {
namespace detail {

template <class T>
using if_number =
    typename std::enable_if<std::is_arithmetic<T>::value || std::is_same<T, half>::value>::type;

} // namespace detail

namespace expr {

/* An expression: its nodes, operands before those that use them. The last is the result. */
class Expr {
 public:
  /* A number takes the type of what stands beside it. */
  template <class T, class = detail::if_number<T>>
  Expr(T value) {
    add(TRM_POPLAR_NODE_NUMBER).value.real = static_cast<double>(value);
  }

  const std::vector<trm_poplar_node> &nodes() const { return nodes_; }
  std::unique_ptr<Expr> clone() const { return std::unique_ptr<Expr>(new Expr(*this)); }

 protected:
  Expr() = default;
  trm_poplar_node &add(trm_poplar_node_kind kind) {
    nodes_.push_back(trm_poplar_node());
    nodes_.back().kind = kind;
    return nodes_.back();
  }
  /* Adds the nodes of an operand; returns the number of its result. */
  uint32_t append(const Expr &operand) {
    const uint32_t first = static_cast<uint32_t>(nodes_.size());
    for (trm_poplar_node node : operand.nodes_) {
      for (uint32_t &one : node.operands) one += first;
      nodes_.push_back(node);
    }
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  void finish(trm_poplar_node_kind kind, uint32_t op, const std::vector<Expr> &operands) {
    uint32_t results[3] = {0, 0, 0}, count = 0;
    for (const Expr &one : operands) results[count++] = append(one);
    trm_poplar_node &node = add(kind);
    node.op = op;
    std::copy_n(results, 3, node.operands);
  }

  std::vector<trm_poplar_node> nodes_;
};

/* Any expression, by value. */
typedef Expr Any;

/* Tensor number `index` of the call, from 1 on. */
class PlaceHolder : public Expr {
 public:
  explicit PlaceHolder(unsigned index) { add(TRM_POPLAR_NODE_PLACEHOLDER).value.index = index - 1; }
};

/* A number. */
class Const : public Expr {
 public:
  template <class T>
  explicit Const(T value) : Expr(value) {}
};

class ConstHalf : public Expr {
 public:
  explicit ConstHalf(float value) {
    trm_poplar_node &node = add(TRM_POPLAR_NODE_CONST);
    node.dtype = poplar::HALF.number();
    node.value.real = static_cast<double>(value);
  }
};

class Cast : public Expr {
 public:
  Cast(const Expr &operand, const poplar::Type &type) {
    finish(TRM_POPLAR_NODE_CAST, 0, {operand});
    nodes_.back().dtype = type.number();
  }
};

/* An operation of expressions. */
class Applied : public Expr {
 public:
  template <class Op>
  Applied(Op op, const std::vector<Expr> &operands) {
    finish(std::is_same<Op, UnaryOpType>::value    ? TRM_POPLAR_NODE_UNARY
           : std::is_same<Op, BinaryOpType>::value ? TRM_POPLAR_NODE_BINARY
                                                   : TRM_POPLAR_NODE_TERNARY,
           static_cast<uint32_t>(op), operands);
  }
};
class UnaryOp : public Applied {
 public:
  UnaryOp(UnaryOpType op, const Expr &a) : Applied(op, {a}) {}
};
class BinaryOp : public Applied {
 public:
  BinaryOp(BinaryOpType op, const Expr &a, const Expr &b) : Applied(op, {a, b}) {}
};
class TernaryOp : public Applied {
 public:
  TernaryOp(TernaryOpType op, const Expr &a, const Expr &b, const Expr &c)
      : Applied(op, {a, b, c}) {}
};

/* One class for each operation: Add(_1, _2), Exp(_1), Select(_1, _2, _3) ... */
#define POPLAR_UNARY(ID, Class, function, opcode)                  \
  class Class : public UnaryOp {                                   \
   public:                                                         \
    explicit Class(const Expr &a) : UnaryOp(UnaryOpType::ID, a) {} \
  };
#define POPLAR_BINARY(ID, Class, function, opcode)                            \
  class Class : public BinaryOp {                                             \
   public:                                                                    \
    Class(const Expr &a, const Expr &b) : BinaryOp(BinaryOpType::ID, a, b) {} \
  };
#define POPLAR_TERNARY(ID, Class, function)                                                       \
  class Class : public TernaryOp {                                                                \
   public:                                                                                        \
    Class(const Expr &a, const Expr &b, const Expr &c) : TernaryOp(TernaryOpType::ID, a, b, c) {} \
  };
#include <tremula/poplar_op.def>

static const PlaceHolder _1(1), _2(2), _3(3), _4(4), _5(5), _6(6), _7(7), _8(8), _9(9), _10(10),
    _11(11), _12(12), _13(13), _14(14), _15(15), _16(16), _17(17), _18(18), _19(19), _20(20);

inline Neg operator-(const Expr &a) { return Neg(a); }
inline Not operator!(const Expr &a) { return Not(a); }
inline BitwiseNot operator~(const Expr &a) { return BitwiseNot(a); }
#define TREMULA_EXPR_OPERATOR(OP, CLASS) \
  inline CLASS operator OP(const Expr &a, const Expr &b) { return CLASS(a, b); }
TREMULA_EXPR_OPERATOR(+, Add)
TREMULA_EXPR_OPERATOR(-, Sub)
TREMULA_EXPR_OPERATOR(*, Mul)
TREMULA_EXPR_OPERATOR(/, Divide)
TREMULA_EXPR_OPERATOR(%, Rem)
TREMULA_EXPR_OPERATOR(==, Equal)
TREMULA_EXPR_OPERATOR(!=, NotEqual)
TREMULA_EXPR_OPERATOR(<, Lt)
TREMULA_EXPR_OPERATOR(<=, Lte)
TREMULA_EXPR_OPERATOR(>, Gt)
TREMULA_EXPR_OPERATOR(>=, Gte)
TREMULA_EXPR_OPERATOR(&&, And)
TREMULA_EXPR_OPERATOR(||, Or)
TREMULA_EXPR_OPERATOR(&, BitwiseAnd)
TREMULA_EXPR_OPERATOR(|, BitwiseOr)
TREMULA_EXPR_OPERATOR(^, BitwiseXor)
TREMULA_EXPR_OPERATOR(<<, Shl)
TREMULA_EXPR_OPERATOR(>>, Shr)
#undef TREMULA_EXPR_OPERATOR

} // namespace expr
} // namespace popops

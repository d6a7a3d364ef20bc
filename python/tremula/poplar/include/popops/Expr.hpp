/* Elementwise expressions for popops::map: expr::_1 * 2 + expr::Exp(expr::_2). */
#pragma once

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
    trm_poplar_node node = empty(TRM_POPLAR_NODE_NUMBER);
    node.value.real = static_cast<double>(value);
    nodes_.push_back(node);
  }

  const std::vector<trm_poplar_node> &nodes() const { return nodes_; }
  std::unique_ptr<Expr> clone() const { return std::unique_ptr<Expr>(new Expr(*this)); }

 protected:
  Expr() = default;
  static trm_poplar_node empty(trm_poplar_node_kind kind) {
    trm_poplar_node node = {};
    node.kind = kind;
    return node;
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
    trm_poplar_node node = empty(kind);
    uint32_t count = 0;
    node.op = op;
    for (const Expr &one : operands) node.operands[count++] = append(one);
    nodes_.push_back(node);
  }

  std::vector<trm_poplar_node> nodes_;
};

/* Any expression, by value. */
typedef Expr Any;

/* Tensor number `index` of the call, from 1 on. */
class PlaceHolder : public Expr {
 public:
  explicit PlaceHolder(unsigned index) {
    trm_poplar_node node = empty(TRM_POPLAR_NODE_PLACEHOLDER);
    node.value.index = index - 1;
    nodes_.push_back(node);
  }
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
    trm_poplar_node node = empty(TRM_POPLAR_NODE_CONST);
    node.dtype = poplar::HALF.number();
    node.value.real = static_cast<double>(value);
    nodes_.push_back(node);
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
  Applied(UnaryOpType op, const std::vector<Expr> &operands) {
    finish(TRM_POPLAR_NODE_UNARY, static_cast<uint32_t>(op), operands);
  }
  Applied(BinaryOpType op, const std::vector<Expr> &operands) {
    finish(TRM_POPLAR_NODE_BINARY, static_cast<uint32_t>(op), operands);
  }
  Applied(TernaryOpType op, const std::vector<Expr> &operands) {
    finish(TRM_POPLAR_NODE_TERNARY, static_cast<uint32_t>(op), operands);
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
#define POPLAR_UNARY(ID, Class, function, opcode)                          \
  class Class : public UnaryOp {                                   \
   public:                                                         \
    explicit Class(const Expr &a) : UnaryOp(UnaryOpType::ID, a) {} \
  };
#define POPLAR_BINARY(ID, Class, function, opcode)                                    \
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

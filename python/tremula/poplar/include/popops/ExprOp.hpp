/* The operations of elementwise expressions. */
#pragma once

#include <tremula/poplar.h>

namespace popops {
namespace expr {

enum class UnaryOpType {
#define POPLAR_UNARY(ID, Class, function, opcode) ID = TRM_POPLAR_UNARY_##ID,
#include <tremula/poplar_op.def>
};
enum class BinaryOpType {
#define POPLAR_BINARY(ID, Class, function, opcode) ID = TRM_POPLAR_BINARY_##ID,
#include <tremula/poplar_op.def>
};
enum class TernaryOpType {
#define POPLAR_TERNARY(ID, Class, function) ID = TRM_POPLAR_TERNARY_##ID,
#include <tremula/poplar_op.def>
};

} // namespace expr
} // namespace popops

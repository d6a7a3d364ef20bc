/* How collectives combine values. */
#pragma once

#include "OperationDef.hpp"

namespace popops {

enum class CollectiveOperator { ADD, MEAN, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD };

/* MEAN is a sum, which is divided afterwards; the others stand one behind those of Operation. */
inline Operation operationOf(CollectiveOperator op) {
  return static_cast<Operation>(op == CollectiveOperator::ADD ? 0 : static_cast<int>(op) - 1);
}

} // namespace popops

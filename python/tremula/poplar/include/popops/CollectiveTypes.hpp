/* How collectives combine values. */
#pragma once

#include "OperationDef.hpp"

namespace popops {

enum class CollectiveOperator { ADD, MEAN, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD };

/* Throws nothing: MEAN is a sum, which is divided afterwards. */
inline Operation operationOf(CollectiveOperator op) {
  switch (op) {
    case CollectiveOperator::MUL: return Operation::MUL;
    case CollectiveOperator::MIN: return Operation::MIN;
    case CollectiveOperator::MAX: return Operation::MAX;
    case CollectiveOperator::LOGICAL_AND: return Operation::LOGICAL_AND;
    case CollectiveOperator::LOGICAL_OR: return Operation::LOGICAL_OR;
    case CollectiveOperator::SQUARE_ADD: return Operation::SQUARE_ADD;
    default: return Operation::ADD;
  }
}

} // namespace popops

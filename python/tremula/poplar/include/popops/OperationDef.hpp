/* How elements are reduced. */
#pragma once

#include <tremula/poplar.h>

namespace popops {

enum class Operation {
  ADD = TRM_POPLAR_REDUCE_ADD,
  MUL = TRM_POPLAR_REDUCE_MUL,
  MIN = TRM_POPLAR_REDUCE_MIN,
  MAX = TRM_POPLAR_REDUCE_MAX,
  LOGICAL_AND = TRM_POPLAR_REDUCE_LOGICAL_AND,
  LOGICAL_OR = TRM_POPLAR_REDUCE_LOGICAL_OR,
  SQUARE_ADD = TRM_POPLAR_REDUCE_SQUARE_ADD,
  LOG_ADD = TRM_POPLAR_REDUCE_LOG_ADD
};

} // namespace popops

/* Whether all elements are true. */
#pragma once

#include "Reduce.hpp"

namespace popops {
TREMULA_NAMES

/* A scalar of type BOOL. */
inline Tensor allTrue(Graph &graph, const Tensor &tensor, Sequence &program,
                      const DebugContext &debug = {}) {
  return reduce(graph, tensor.flatten(), {0}, ReduceParams(Operation::LOGICAL_AND), program, debug);
}

} // namespace popops

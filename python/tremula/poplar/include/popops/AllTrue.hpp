/* Whether all elements are true. */
#pragma once

#include "Reduce.hpp"

namespace popops {

/* A scalar of type BOOL. */
inline poplar::Tensor allTrue(poplar::Graph &graph, const poplar::Tensor &tensor,
                              poplar::program::Sequence &program,
                              const poplar::DebugContext &debug = {}) {
  return reduce(graph, tensor.flatten(), {0}, ReduceParams(Operation::LOGICAL_AND), program, debug);
}

} // namespace popops

/* Whether all elements are true. */
#ifndef TREMULA_POPOPS_ALL_TRUE_HPP_
#define TREMULA_POPOPS_ALL_TRUE_HPP_

#include "Reduce.hpp"

namespace popops {

/* A scalar of type BOOL. */
inline poplar::Tensor allTrue(poplar::Graph &graph, const poplar::Tensor &tensor,
                              poplar::program::Sequence &program,
                              const poplar::DebugContext &debug = {}) {
  return reduce(graph, tensor.flatten(), {0}, ReduceParams(Operation::LOGICAL_AND), program, debug);
}

} // namespace popops

#endif // TREMULA_POPOPS_ALL_TRUE_HPP_

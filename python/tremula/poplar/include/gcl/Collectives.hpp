/* Collectives between the IPUs of one replica. */
#pragma once

#include "../popops/CollectiveTypes.hpp"
#include "../popops/ElementWise.hpp"
#include "../popops/Reduce.hpp"

namespace gcl {
TREMULA_NAMES

using popops::CollectiveOperator;

/* Each row of the first dimension is one IPU's part; each row of the result is all of them
 * combined. */
inline Tensor allReduceWithinReplica(Graph &graph, const Tensor &parts, CollectiveOperator op,
                                     Sequence &program, const DebugContext &debug = {},
                                     const OptionFlags & = {}) {
  const Tensor combined =
      popops::reduce(graph, parts, {0}, {popops::operationOf(op)}, program, debug);
  if (op == CollectiveOperator::MEAN) {
    popops::divInPlace(graph, combined, static_cast<float>(parts.dim(0)), program, debug);
  }
  const Tensor result = graph.clone(parts, debug);
  program.add(
      poplar::program::Copy(combined.expand({0}).broadcast(static_cast<unsigned>(parts.dim(0)), 0),
                            result, false, debug));
  return result;
}

} // namespace gcl

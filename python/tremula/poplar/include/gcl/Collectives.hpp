/* Collectives between the IPUs of one replica. */
#pragma once

#include "../popops/CollectiveTypes.hpp"
#include "../popops/ElementWise.hpp"
#include "../popops/Reduce.hpp"

namespace gcl {

using popops::CollectiveOperator;

/* Each row of the first dimension is one IPU's part; each row of the result is all of them
 * combined. */
inline poplar::Tensor allReduceWithinReplica(poplar::Graph &graph, const poplar::Tensor &parts,
                                             CollectiveOperator op,
                                             poplar::program::Sequence &program,
                                             const poplar::DebugContext &debug = {},
                                             const poplar::OptionFlags & = {}) {
  const poplar::Tensor combined =
      popops::reduce(graph, parts, {0}, {popops::operationOf(op)}, program, debug);
  if (op == CollectiveOperator::MEAN) {
    popops::divInPlace(graph, combined, static_cast<float>(parts.dim(0)), program, debug);
  }
  const poplar::Tensor result = graph.clone(parts, debug);
  program.add(
      poplar::program::Copy(combined.expand({0}).broadcast(static_cast<unsigned>(parts.dim(0)), 0),
                            result, false, debug));
  return result;
}

} // namespace gcl

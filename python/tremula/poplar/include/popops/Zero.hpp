/* Sets elements to zero. */
#pragma once

#include "ElementWise.hpp"

namespace popops {

inline void zero(poplar::Graph &graph, const poplar::Tensor &tensor,
                 poplar::program::Sequence &program, const poplar::DebugContext &debug = {}) {
  mapWithOutput(graph, expr::Const(0), {}, tensor, program, debug);
}

} // namespace popops

/* Sets elements to zero. */
#pragma once

#include "ElementWise.hpp"

namespace popops {
TREMULA_NAMES

inline void zero(Graph &graph, const Tensor &tensor, Sequence &program,
                 const DebugContext &debug = {}) {
  mapWithOutput(graph, expr::Const(0), {}, tensor, program, debug);
}

} // namespace popops

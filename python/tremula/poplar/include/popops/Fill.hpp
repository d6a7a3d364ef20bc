/* Sets all elements to a value. */
#pragma once

#include "ElementWise.hpp"

namespace popops {
TREMULA_NAMES

template <class T>
void fill(Graph &graph, const Tensor &tensor, Sequence &program, T value,
          const DebugContext &debug = {}) {
  mapWithOutput(graph, expr::Const(value), {}, tensor, program, debug);
}

} // namespace popops

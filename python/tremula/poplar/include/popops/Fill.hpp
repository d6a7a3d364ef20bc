/* Sets all elements to a value. */
#pragma once

#include "ElementWise.hpp"

namespace popops {

template <class T>
void fill(poplar::Graph &graph, const poplar::Tensor &tensor, poplar::program::Sequence &program,
          T value, const poplar::DebugContext &debug = {}) {
  mapWithOutput(graph, expr::Const(value), {}, tensor, program, debug);
}

} // namespace popops

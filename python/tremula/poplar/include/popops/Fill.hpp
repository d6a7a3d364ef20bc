/* Sets all elements to a value. */
#ifndef TREMULA_POPOPS_FILL_HPP_
#define TREMULA_POPOPS_FILL_HPP_

#include "ElementWise.hpp"

namespace popops {

template <class T>
void fill(poplar::Graph &graph, const poplar::Tensor &tensor, poplar::program::Sequence &program,
          T value, const poplar::DebugContext &debug = {}) {
  mapWithOutput(graph, expr::Const(value), {}, tensor, program, debug);
}

} // namespace popops

#endif // TREMULA_POPOPS_FILL_HPP_

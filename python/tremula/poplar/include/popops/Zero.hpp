/* Sets elements to zero. */
#ifndef TREMULA_POPOPS_ZERO_HPP_
#define TREMULA_POPOPS_ZERO_HPP_

#include "ElementWise.hpp"

namespace popops {

inline void zero(poplar::Graph &graph, const poplar::Tensor &tensor,
                 poplar::program::Sequence &program, const poplar::DebugContext &debug = {}) {
  mapWithOutput(graph, expr::Const(0), {}, tensor, program, debug);
}

} // namespace popops

#endif // TREMULA_POPOPS_ZERO_HPP_

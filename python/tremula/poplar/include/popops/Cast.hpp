/* Conversions between types of elements. */
#pragma once

#include "ElementWise.hpp"

namespace popops {

/* The elements as another type, in a new tensor. */
inline poplar::Tensor cast(poplar::Graph &graph, const poplar::Tensor &source,
                           const poplar::Type &type, poplar::program::Sequence &program,
                           const poplar::DebugContext &debug = {}) {
  return map(graph, expr::Cast(expr::_1, type), {source}, program, debug);
}

/* A program that writes the elements to `destination`, in its type. */
inline poplar::program::Program cast(poplar::Graph &graph, const poplar::Tensor &source,
                                     const poplar::Tensor &destination,
                                     const poplar::DebugContext &debug = {}) {
  poplar::program::Sequence program;
  mapWithOutput(graph, expr::Cast(expr::_1, destination.elementType()), {source}, destination,
                program, debug);
  return program;
}

} // namespace popops

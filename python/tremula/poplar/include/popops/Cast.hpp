/* Conversions between types of elements. */
#pragma once

#include "ElementWise.hpp"

namespace popops {
TREMULA_NAMES

/* The elements as another type, in a new tensor. */
inline Tensor cast(Graph &graph, const Tensor &source, const Type &type, Sequence &program,
                   const DebugContext &debug = {}) {
  return map(graph, expr::Cast(expr::_1, type), {source}, program, debug);
}

/* A program that writes the elements to `destination`, in its type. */
inline poplar::program::Program cast(Graph &graph, const Tensor &source, const Tensor &destination,
                                     const DebugContext &debug = {}) {
  Sequence program;
  mapWithOutput(graph, expr::Cast(expr::_1, destination.elementType()), {source}, destination,
                program, debug);
  return program;
}

} // namespace popops

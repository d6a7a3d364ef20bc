/* The codelets of popfloat, which every graph has. */
#pragma once

#include "../../poplar/Graph.hpp"

namespace popfloat {
namespace experimental {

inline void addCodelets(poplar::Graph &) {}

} // namespace experimental
} // namespace popfloat

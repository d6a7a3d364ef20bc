/* The codelets of poprand, which every graph has. */
#pragma once

#include "../poplar/Graph.hpp"

namespace poprand {

inline void addCodelets(poplar::Graph &) {}

} // namespace poprand

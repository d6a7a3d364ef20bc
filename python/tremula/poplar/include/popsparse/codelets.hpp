/* The codelets of popsparse, which every graph has. */
#pragma once

#include "../poplar/Graph.hpp"

namespace popsparse {

inline void addCodelets(poplar::Graph &) {}

} // namespace popsparse

/* The codelets of popops, which every graph has. */
#ifndef TREMULA_POPOPS_CODELETS_HPP_
#define TREMULA_POPOPS_CODELETS_HPP_

#include "../poplar/Graph.hpp"

namespace popops {

inline void addCodelets(poplar::Graph &) {}

} // namespace popops

#endif // TREMULA_POPOPS_CODELETS_HPP_

/* The codelets of poplin, which every graph has. */
#ifndef TREMULA_POPLIN_CODELETS_HPP_
#define TREMULA_POPLIN_CODELETS_HPP_

#include "../poplar/Graph.hpp"

namespace poplin {

inline void addCodelets(poplar::Graph &) {}

} // namespace poplin

#endif // TREMULA_POPLIN_CODELETS_HPP_

/* The codelets of popsparse, which every graph has. */
#ifndef TREMULA_POPSPARSE_CODELETS_HPP_
#define TREMULA_POPSPARSE_CODELETS_HPP_

#include "../poplar/Graph.hpp"

namespace popsparse {

inline void addCodelets(poplar::Graph &) {}

} // namespace popsparse

#endif // TREMULA_POPSPARSE_CODELETS_HPP_

/* The codelets of popnn, which every graph has. */
#ifndef TREMULA_POPNN_CODELETS_HPP_
#define TREMULA_POPNN_CODELETS_HPP_

#include "../poplar/Graph.hpp"

namespace popnn {

inline void addCodelets(poplar::Graph &) {}

} // namespace popnn

#endif // TREMULA_POPNN_CODELETS_HPP_

/* The codelets of poprand, which every graph has. */
#ifndef TREMULA_POPRAND_CODELETS_HPP_
#define TREMULA_POPRAND_CODELETS_HPP_

#include "../poplar/Graph.hpp"

namespace poprand {

inline void addCodelets(poplar::Graph &) {}

} // namespace poprand

#endif // TREMULA_POPRAND_CODELETS_HPP_

/* The codelets of popfloat, which every graph has. */
#ifndef TREMULA_POPFLOAT_EXPERIMENTAL_CODELETS_HPP_
#define TREMULA_POPFLOAT_EXPERIMENTAL_CODELETS_HPP_

#include "../../poplar/Graph.hpp"

namespace popfloat {
namespace experimental {

inline void addCodelets(poplar::Graph &) {}

} // namespace experimental
} // namespace popfloat

#endif // TREMULA_POPFLOAT_EXPERIMENTAL_CODELETS_HPP_

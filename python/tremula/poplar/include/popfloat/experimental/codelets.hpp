/* The codelets of popfloat, which every graph has. */
#pragma once

#include "../../poplar/Graph.hpp"

namespace popfloat {
TREMULA_CODELETS(experimental)
}

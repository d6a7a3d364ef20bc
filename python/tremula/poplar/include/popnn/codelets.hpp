/* The codelets of popnn, which every graph has. */
#pragma once

#include "../poplar/Graph.hpp"

TREMULA_CODELETS(popnn)

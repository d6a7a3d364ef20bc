/* The codelets of popops, which every graph has. */
#pragma once

#include "../poplar/Graph.hpp"

TREMULA_CODELETS(popops)

/* The codelets of poprand, which every graph has. */
#pragma once

#include "../poplar/Graph.hpp"

TREMULA_CODELETS(poprand)

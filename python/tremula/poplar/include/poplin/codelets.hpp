/* The codelets of poplin, which every graph has. */
#pragma once

#include "../poplar/Graph.hpp"

TREMULA_CODELETS(poplin)

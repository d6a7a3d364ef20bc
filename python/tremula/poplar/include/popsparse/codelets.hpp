/* The codelets of popsparse, which every graph has. */
#pragma once

#include "../poplar/Graph.hpp"

TREMULA_CODELETS(popsparse)

/* Constants of a tile's threads that plain C++ codelets use. */
#pragma once

#define CTXT_WORKERS 6
#define NUM_WORKERS 6

/* Constants of a tile's threads that plain C++ codelets use. */
#ifndef TREMULA_POPLAR_TILE_CONSTANTS_HPP_
#define TREMULA_POPLAR_TILE_CONSTANTS_HPP_

#define CTXT_WORKERS 6
#define NUM_WORKERS 6

#endif // TREMULA_POPLAR_TILE_CONSTANTS_HPP_

/* How an array lies on the tiles of one IPU, as a rule instead of a list.
 *
 * A mapping is the rule that cuts the index space of an array, and that gives a tile to each piece.
 * The bytes of each tile are computed on demand (trm_mapping_add_bytes), in time linear in the
 * number of tiles; the maximum and the total are stored.
 *
 * `layout` identifies the place of every element: two arrays with equal element counts and equal
 * layouts (not 0) have element i on the same tile, so that a vertex may read both without an
 * exchange. A layout is a hash of the mapping's origin: a plan, an operand's place, a permutation.
 * Arrays with unequal layouts count as lying on different tiles.
 *
 * Sizes of elements are the IPU's: 64-bit integers are 32-bit there (trm_tile_dtype_bytes). */
#ifndef TREMULA_IPU_TILE_MAPPING_H_
#define TREMULA_IPU_TILE_MAPPING_H_

#include "base/memory.h"
#include "hlo/hlo.h"

typedef struct trm_target trm_target; /* tremula/target.h */

typedef enum trm_mapping_kind {
  TRM_MAPPING_NONE,   /* no elements */
  TRM_MAPPING_LINEAR, /* row-major intervals of whole grains, region r of `regions` on tile first +
                         r; region r is the grains [r G / regions, (r + 1) G / regions) */
  TRM_MAPPING_GRID, /* as the plan of a convolution cuts: dimension d has serial[d] x cuts[d] blocks
                       of block_size[d] (the last ones smaller or empty). Block s * cuts + p of each
                       dimension d is on tile p * strides[d], summed over the dimensions. The
                       elements of a piece, a block of each dimension, are dealt in `share` equal
                       runs of whole grains, which are the regions, to the tiles 0, share_stride,
                       2 share_stride, ... from there */
  TRM_MAPPING_SPREAD /* `worst` bytes on as many tiles as the total fills, the rest on the next one:
                        for temporaries of which only the worst tile and the total are known */
} trm_mapping_kind;

enum { TRM_MAPPING_RANK = 8 };

typedef struct trm_mapping {
  trm_mapping_kind kind;
  uint32_t ipu;
  uint32_t tiles;      /* of the IPU: tile numbers are modulo this */
  uint32_t first_tile; /* of the IPU */
  bool descending;     /* region r is on tile first - r */
  uint32_t element_bytes;
  int64_t count;    /* elements, as dense; SPREAD: bytes, and element_bytes is 1 */
  int64_t grain;    /* elements that stay together; at least 1 */
  uint32_t regions; /* each on a tile of its own, as far as there are tiles; of a GRID the product
                       of cuts, times share */
  int64_t worst;    /* elements of the fullest tile */
  int32_t rank;     /* the fields of a GRID */
  int64_t dims[TRM_MAPPING_RANK], block_size[TRM_MAPPING_RANK];
  uint32_t cuts[TRM_MAPPING_RANK], serial[TRM_MAPPING_RANK], strides[TRM_MAPPING_RANK];
  uint32_t share, share_stride;
  uint64_t layout; /* 0: equal to no other */
} trm_mapping;

/* Bytes of an element on an IPU: 4 for 64-bit integers and floats, 1 for pred, 0 for types that are
 * not of arrays. */
uint32_t trm_tile_dtype_bytes(trm_dtype dtype);
/* Bytes of an array on an IPU, of a tuple the sum of its leaves'. */
int64_t trm_tile_shape_bytes(const trm_shape *shape);
/* Elements in the vector that a worker reads at once: 2 of 4 bytes, 4 of 2, 8 of 1. */
uint32_t trm_tile_vector_width(trm_dtype dtype);

/* Like poputil::mapTensorLinearly (docs/machine.md, "How data is mapped to tiles"): grains of a
 * vector, at least 128 bytes a tile, on as many tiles as these rules give, from first_tile on. */
trm_mapping trm_mapping_linear(const trm_target *target, const trm_shape *shape, uint32_t ipu,
                               uint32_t first_tile);
/* The same with a given grain and smallest share, both in elements. */
trm_mapping trm_mapping_linear_grain(const trm_target *target, trm_dtype dtype, int64_t count,
                                     int64_t grain, int64_t min_elements, uint32_t ipu,
                                     uint32_t first_tile);
/* Cuts dimensions into blocks of ceil(grains / cuts) grains, mixed-radix over the tiles, the last
 * dimension fastest. rank <= TRM_MAPPING_RANK; grains may be NULL (1 each). */
trm_mapping trm_mapping_grid(const trm_target *target, trm_dtype dtype, int32_t rank,
                             const int64_t *dims, const uint32_t *cuts, const int64_t *grains,
                             uint32_t ipu, uint32_t first_tile);
/* Completes a GRID whose dims, block_size, cuts, serial, strides, share, share_stride and grain are
 * filled in. */
void trm_mapping_finish_grid(const trm_target *target, trm_mapping *mapping, trm_dtype dtype,
                             uint32_t ipu, uint32_t first_tile);
/* A SPREAD, for temporaries. worst * regions may exceed the total; a smaller total is raised. */
trm_mapping trm_mapping_spread(const trm_target *target, int64_t worst_bytes, int64_t total_bytes,
                               uint32_t ipu, uint32_t first_tile);
/* What makes a SPREAD; zeros make NONE. A mapping is ten times as large. */
typedef struct trm_spread {
  int64_t worst, total; /* bytes */
  uint32_t tiles, ipu, first_tile;
} trm_spread;
trm_mapping trm_spread_mapping(const trm_spread *spread);
/* The mapping of a result of another type that lies, element by element, where an operand lies. */
trm_mapping trm_mapping_like(const trm_mapping *other, trm_dtype dtype);

int64_t trm_mapping_worst_bytes(const trm_mapping *mapping); /* of the fullest tile */
int64_t trm_mapping_total_bytes(const trm_mapping *mapping);
/* Elements of a region; regions beyond the last have none. */
int64_t trm_mapping_region_elements(const trm_mapping *mapping, uint32_t region);
/* The tile of a region, within the IPU. */
uint32_t trm_mapping_tile(const trm_mapping *mapping, uint32_t region);
/* Adds sign * bytes, each rounded up to `alignment` (a power of two), to bytes_by_tile[0 .. tiles).
 */
void trm_mapping_add_bytes(const trm_mapping *mapping, int sign, uint32_t alignment,
                           int64_t *bytes_by_tile);
/* What that adds to one tile of the mapping's IPU. */
int64_t trm_mapping_bytes_on(const trm_mapping *mapping, uint32_t alignment, uint32_t tile);
/* Adds a hash of the seed and the bytes of each piece to by_tile[0 .. tiles). */
void trm_mapping_add_hashes(const trm_mapping *mapping, uint64_t seed, uint64_t *by_tile);
/* Whether element i of both is on one tile, for all i. */
bool trm_mapping_same_place(const trm_mapping *a, const trm_mapping *b);
/* The layout of an array made from one with the old layout by the operation `what`. Never 0. */
uint64_t trm_layout_combine(uint64_t layout, uint64_t what);

#endif /* TREMULA_IPU_TILE_MAPPING_H_ */

/* How an array lies on the tiles of one IPU: structured, not enumerated.
 *
 * A mapping says by which rule the index space of an array is cut, and which tile each piece is on.
 * Bytes of each tile are computed when somebody asks (trm_mapping_add_bytes), in time linear in
 * the number of tiles; maxima and totals cost nothing.
 *
 * `layout` names the place of every element: two arrays of equal element count with equal layouts
 * (not 0) have element i on the same tile, so that a vertex may read both without an exchange. It
 * is a hash of what the mapping came of (a plan, an operand's place, a permutation); arrays of
 * unequal layouts are taken to lie apart.
 *
 * Sizes of elements are the IPU's: 64-bit integers are 32-bit there (trm_tile_dtype_bytes). */
#ifndef TREMULA_TILE_MAPPING_H_
#define TREMULA_TILE_MAPPING_H_

#include "base/memory.h"
#include "hlo/hlo.h"

typedef struct trm_target trm_target; /* tremula/target.h */

typedef enum trm_mapping_kind {
  TRM_MAPPING_NONE,   /* no elements */
  TRM_MAPPING_LINEAR, /* row-major intervals of whole grains, part p of `parts` on tile first + p;
                         part p holds grains [p G / parts, (p + 1) G / parts) */
  TRM_MAPPING_GRID,   /* dimension d is cut in serial[d] x cuts[d] parts of part_size[d] (the last
                         ones smaller or empty); part s * cuts + p is on tile p * strides[d] plus
                         those of the other dimensions. A piece's elements are dealt in `share`
                         equal runs of whole grains to the tiles 0, share_stride, 2 share_stride,
                         ... from there. As a convolution's plan cuts */
  TRM_MAPPING_SPREAD  /* `worst` bytes on as many tiles as that fills, the rest on the next one:
                         temporaries of which only the worst tile and the total are known */
} trm_mapping_kind;

enum { TRM_MAPPING_RANK = 8 };

typedef struct trm_mapping {
  trm_mapping_kind kind;
  uint32_t ipu;
  uint32_t tiles;      /* of the IPU: tile numbers are modulo this */
  uint32_t first_tile; /* of the IPU */
  bool descending;     /* part p is on tile first - p */
  uint32_t element_bytes;
  int64_t count;  /* elements, as dense; SPREAD: bytes, and element_bytes is 1 */
  int64_t grain;  /* elements that stay together; at least 1 */
  uint32_t parts; /* tiles used; of a GRID the product of cuts times share */
  int64_t worst;  /* elements of the fullest tile */
  int32_t rank;   /* GRID: the rest */
  int64_t dims[TRM_MAPPING_RANK], part_size[TRM_MAPPING_RANK];
  uint32_t cuts[TRM_MAPPING_RANK], serial[TRM_MAPPING_RANK], strides[TRM_MAPPING_RANK];
  uint32_t share, share_stride;
  uint64_t layout; /* 0: like nothing else */
} trm_mapping;

/* Bytes of an element on an IPU: 4 for 64-bit integers and for 64-bit floats, 1 for pred; 0 for
 * what is not an array's type. */
uint32_t trm_tile_dtype_bytes(trm_dtype dtype);
/* Bytes of an array on an IPU, of a tuple the sum of its leaves'. */
int64_t trm_tile_shape_bytes(const trm_shape *shape);
/* Elements in the vector that a worker reads at once: 2 of 4 bytes, 4 of 2, 8 of 1. */
uint32_t trm_tile_vector_width(trm_dtype dtype);

/* As poputil::mapTensorLinearly (docs/machine.md, "How data is mapped to tiles"): grains of a
 * vector, at least 128 bytes a tile, on as many tiles as that gives, from first_tile on. */
trm_mapping trm_mapping_linear(const trm_target *target, const trm_shape *shape, uint32_t ipu,
                               uint32_t first_tile);
/* The same with grain and smallest share stated (elements). */
trm_mapping trm_mapping_linear_grain(const trm_target *target, trm_dtype dtype, int64_t count,
                                     int64_t grain, int64_t min_elements, uint32_t ipu,
                                     uint32_t first_tile);
/* Dimensions cut in parts of ceil(grains / cuts) grains, mixed-radix over the tiles, the last
 * dimension fastest. rank <= TRM_MAPPING_RANK; grains may be NULL (1 each). */
trm_mapping trm_mapping_grid(const trm_target *target, trm_dtype dtype, int32_t rank,
                             const int64_t *dims, const uint32_t *cuts, const int64_t *grains,
                             uint32_t ipu, uint32_t first_tile);
/* A GRID whose dims, part_size, cuts, serial, strides, share, share_stride and grain are filled in:
 * the rest of it. */
void trm_mapping_finish_grid(const trm_target *target, trm_mapping *mapping, trm_dtype dtype,
                             uint32_t ipu, uint32_t first_tile);
/* Temporaries. worst * parts may be more than total; never less (total is then raised). */
trm_mapping trm_mapping_spread(const trm_target *target, int64_t worst_bytes, int64_t total_bytes,
                               uint32_t ipu, uint32_t first_tile);
/* The mapping of a result that lies where an operand lies, element by element, in another type. */
trm_mapping trm_mapping_like(const trm_mapping *other, trm_dtype dtype);

int64_t trm_mapping_worst_bytes(const trm_mapping *mapping); /* of the fullest tile */
int64_t trm_mapping_total_bytes(const trm_mapping *mapping);
/* Elements of part p; parts beyond the last have none. */
int64_t trm_mapping_part_elements(const trm_mapping *mapping, uint32_t part);
/* The tile of part p, within the IPU. */
uint32_t trm_mapping_tile(const trm_mapping *mapping, uint32_t part);
/* Adds sign * bytes, each rounded up to `alignment`, to bytes_by_tile[0 .. tiles). */
void trm_mapping_add_bytes(const trm_mapping *mapping, int sign, uint32_t alignment,
                           int64_t *bytes_by_tile);
/* Whether element i of both is on one tile, for all i. */
bool trm_mapping_same_place(const trm_mapping *a, const trm_mapping *b);
/* A new layout from an old one and what was done to it. Never 0. */
uint64_t trm_layout_combine(uint64_t layout, uint64_t what);

#endif /* TREMULA_TILE_MAPPING_H_ */

/* The inside of panel_product.h: packing and multiplying for each instruction set
 * (panel_tiles.c). */
#ifndef TREMULA_HOST_OPS_PRODUCTS_PANEL_TILES_H_
#define TREMULA_HOST_OPS_PRODUCTS_PANEL_TILES_H_

#include <stdbool.h>
#include <stdint.h>

/* Some rows of the left side times a panel of the right side. Strides are in
 * elements. */
typedef struct trm_panel_tile {
  const float *lhs;
  const void *rhs; /* floats, or halves */
  int64_t lhs_row, lhs_inner;
  int64_t rhs_line; /* from line to line of the panel */
  int64_t depth;    /* products of a sum */
  void *out;
  int64_t out_row, columns; /* columns: of the panel that exist */
  bool is_half;             /* rhs, and `out`, whose sums are then rounded; never adds */
  bool adds;                /* to what is in `out` */
  bool is_swapped;          /* writes column c of row r to out[c * out_row + r]; never adds */
  int64_t next;             /* from rhs to the panel that is fetched meanwhile; 0: none */
} trm_panel_tile;

typedef struct trm_panel_tiles {
  int64_t wide; /* columns of a panel: two vectors */
  int64_t tall; /* the most rows whose sums stay in registers */
  /* Lines of columns that lie together are multiplied where they are, without packing, also those
   * of halves. */
  bool reads_lines;
  int64_t most_depth; /* products of a sum that are added at a time */
  /* Packs `depth` lines of `columns` columns that lie together; lines are `stride` floats apart. */
  void (*pack_lines)(const float *from, int64_t stride, int64_t depth, int64_t columns, float *to);
  /* Packs columns whose numbers lie together; columns are `stride` floats apart. */
  void (*pack_columns)(const float *from, int64_t stride, int64_t depth, int64_t columns,
                       float *to);
  void (*widen)(const uint16_t *from, int64_t count, float *to); /* halves */
  /* Multiplies `rows` rows, in tiles of about as many. */
  void (*multiply)(const trm_panel_tile *tile, int64_t rows);
} trm_panel_tiles;

/* Those for the instruction set that trm_vector_ops_get chooses, or NULL. */
const trm_panel_tiles *trm_panel_tiles_get(void);

#endif /* TREMULA_HOST_OPS_PRODUCTS_PANEL_TILES_H_ */

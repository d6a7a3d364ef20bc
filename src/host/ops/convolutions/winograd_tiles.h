/* What winograd.c does with one instruction set: the transforms, and the products between them.
 *
 * A transform makes 16 planes, one for each element of a transformed tile. A plane of x has panels
 * of `rows` tiles, [panel][channels in vectors][tile][lane], and a plane of the filters has panels
 * of `wide` outputs, [channel][output]. Planes are a cache line longer than their contents, since
 * lines a power of two apart evict each other. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_WINOGRAD_TILES_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_WINOGRAD_TILES_H_

#include "host/ops/convolutions/weight_gradient_panels.h"
#include "host/ops/convolutions/winograd.h"
#include "host/ops/threads.h"

enum {
  TRM_WINOGRAD_PLANES = 16,
  TRM_WINOGRAD_UNIT = 16,            /* channels come in multiples of it */
  TRM_WINOGRAD_STRIP = 8,            /* channels of filters that are transformed together */
  TRM_WINOGRAD_LINE = 16,            /* floats of a cache line */
  TRM_WINOGRAD_MOST_CHANNELS = 2048, /* of x */
};

/* Some tiles, and the panels of outputs that are made of them. */
typedef struct trm_winograd_task {
  const trm_winograd *w;
  const float *x, *filters;
  float *y;
  int64_t first_tile, last_tile, first_panel, last_panel;
  float *inputs, *products; /* of this thread */
} trm_winograd_task;

typedef struct trm_winograd_tiles {
  int64_t rows, wide;
  int64_t panels; /* of outputs, whose products are in the cache at a time */
  int64_t unit;   /* input channels of a gradient that are multiplied together */
  /* Transforms strip `strip` of channels of the filters for panel `panel` of outputs. */
  void (*transform_filters)(const trm_winograd *w, const float *from, int64_t panel, int64_t strip,
                            float *to);
  /* Returns whether all results are finite. */
  bool (*run_task)(const trm_winograd_task *task);
  /* The same for a task of a gradient of weights. */
  bool (*run_gradient)(const trm_gradient_job *job, int64_t task, float *workspace);
} trm_winograd_tiles;

/* A task of a gradient of weights: a block of channels of x and of dy, and some tiles. Planes of x
 * have a line for each tile, those of dy panels of outputs, those of sums both. */
typedef struct trm_gradient_block {
  int64_t in, channels, out, outputs, chunk, first_tile, last_tile;
  int64_t line, left_plane, right_plane, sum_plane; /* in floats */
} trm_gradient_block;

/* Those of this CPU; NULL if there are none. */
const trm_winograd_tiles *trm_winograd_tiles_get(void);

/* Tiles of an image, down or across. */
static inline int64_t trm_winograd_down(const trm_winograd *w, int dimension) {
  return trm_divide_up(w->y_size[dimension], 2);
}

/* Floats of a plane: of the filters of a panel of outputs, and of `tiles` tiles of x or of their
 * products, where `channels` is what each has. */
static inline int64_t trm_winograd_filter_plane(const trm_winograd *w, int64_t wide) {
  return w->channels * wide + TRM_WINOGRAD_LINE;
}
static inline int64_t trm_winograd_tile_plane(int64_t tiles, int64_t rows, int64_t channels) {
  return trm_divide_up(tiles, rows) * rows * channels + TRM_WINOGRAD_LINE;
}

/* The same for gradients: `unit` and `wide` are those of the instruction set. */
static inline trm_gradient_block trm_winograd_gradient_block(const trm_weight_gradient *g,
                                                             int64_t task, int64_t unit,
                                                             int64_t wide) {
  const int64_t across = trm_divide_up(g->out_channels, g->out_block);
  const int64_t down = trm_divide_up(g->in_channels, g->in_block);
  const int64_t image = trm_divide_up(g->y_size[0], 2) * trm_divide_up(g->y_size[1], 2);
  trm_gradient_block b = {.in = task / across % down * g->in_block,
                          .out = task % across * g->out_block,
                          .chunk = task / across / down};
  b.channels = trm_least(g->in_block, g->in_channels - b.in);
  b.outputs = trm_least(g->out_block, g->out_channels - b.out);
  b.first_tile = trm_range_begin(g->batch, b.chunk, g->chunks) * image;
  b.last_tile = trm_range_begin(g->batch, b.chunk + 1, g->chunks) * image;
  const int64_t rows = trm_round_up(g->in_block, unit), outputs = trm_round_up(g->out_block, wide);
  b.line = trm_round_up(rows, TRM_WINOGRAD_LINE);
  b.left_plane = g->tiles * b.line + TRM_WINOGRAD_LINE;
  b.right_plane = g->tiles * outputs + TRM_WINOGRAD_LINE;
  b.sum_plane = trm_round_up(rows * outputs, TRM_WINOGRAD_LINE) + TRM_WINOGRAD_LINE;
  return b;
}

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_WINOGRAD_TILES_H_ */

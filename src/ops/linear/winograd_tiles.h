/* What winograd.c does with one instruction set: the transforms, and the products between them.
 *
 * A transform makes 16 planes, one for each element of a transformed tile. A plane of x has panels
 * of `rows` tiles, [panel][channels in vectors][tile][lane], and a plane of the filters has panels
 * of `wide` outputs, [channel][output]. Planes are a cache line longer than their contents, since
 * lines a power of two apart evict each other. */
#ifndef TREMULA_OPS_LINEAR_WINOGRAD_TILES_H_
#define TREMULA_OPS_LINEAR_WINOGRAD_TILES_H_

#include "ops/linear/winograd.h"

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
  /* Transforms strip `strip` of channels of the filters for panel `panel` of outputs. */
  void (*transform_filters)(const trm_winograd *w, const float *from, int64_t panel, int64_t strip,
                            float *to);
  /* Returns whether all results are finite. */
  bool (*run_task)(const trm_winograd_task *task);
} trm_winograd_tiles;

/* Those of this CPU; NULL if there are none. */
const trm_winograd_tiles *trm_winograd_tiles_get(void);

static inline int64_t trm_winograd_divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Tiles of an image, down or across. */
static inline int64_t trm_winograd_down(const trm_winograd *w, int dimension) {
  return trm_winograd_divide_up(w->y_size[dimension], 2);
}

/* Floats of a plane: of the filters of a panel of outputs, and of `tiles` tiles of x or of their
 * products, where `channels` is what each has. */
static inline int64_t trm_winograd_filter_plane(const trm_winograd *w, int64_t wide) {
  return w->channels * wide + TRM_WINOGRAD_LINE;
}
static inline int64_t trm_winograd_tile_plane(int64_t tiles, int64_t rows, int64_t channels) {
  return trm_winograd_divide_up(tiles, rows) * rows * channels + TRM_WINOGRAD_LINE;
}

#endif /* TREMULA_OPS_LINEAR_WINOGRAD_TILES_H_ */

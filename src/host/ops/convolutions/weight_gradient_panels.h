/* The inside of weight_gradient.h: its sizes, and what it computes on panels, for each instruction
 * set (weight_gradient_panels.c). */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_WEIGHT_GRADIENT_PANELS_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_WEIGHT_GRADIENT_PANELS_H_

#include <stdatomic.h>

#include "base/integers.h"
#include "host/ops/convolutions/weight_gradient.h"

#define TRM_GRADIENT_POSITIONS 224 /* of dy that are packed at a time, about */

/* A run. */
typedef struct trm_gradient_job {
  const trm_weight_gradient *g;
  const float *x, *dy;
  float *dw;    /* of chunk 0 */
  float *other; /* of the chunks from 1 on */
  char *workspaces;
  atomic_bool *is_finite; /* written by Winograd's tasks */
} trm_gradient_job;

/* What depends on the instruction set. A tile of sums has `unit` input and `wide` output channels.
 */
typedef struct trm_gradient_panels {
  int64_t unit, wide;
  /* Computes a task; `left` and `right` are the thread's panels. */
  void (*run_task)(const trm_gradient_job *job, int64_t task, float *left, float *right);
} trm_gradient_panels;

/* Those for the instruction set that trm_vector_ops_get chooses, or NULL. */
const trm_gradient_panels *trm_gradient_panels_get(void);

static inline int64_t trm_round_up(int64_t a, int64_t unit) {
  return trm_divide_up(a, unit) * unit;
}

/* Between neighbouring outputs: in the panel of x, and in x between neighbours of the panel. A
 * kernel of one element reads only what it needs, packed densely. */
static inline int64_t trm_panel_stride(const trm_weight_gradient *g, int d) {
  return g->k_size[d] == 1 ? 1 : g->stride[d];
}
static inline int64_t trm_panel_pick(const trm_weight_gradient *g, int d) {
  return g->k_size[d] == 1 ? g->stride[d] : 1;
}

/* Rows or columns of a panel of x, for so many of dy. */
static inline int64_t trm_panel_size(const trm_weight_gradient *g, int d, int64_t count) {
  return (count - 1) * trm_panel_stride(g, d) + (g->k_size[d] - 1) * g->dilation[d] + 1;
}

/* Pixels of a panel of x. */
static inline int64_t trm_panel_pixels(const trm_weight_gradient *g) {
  return g->images * trm_panel_size(g, 0, g->rows) * trm_panel_size(g, 1, g->y_size[1]);
}

/* Floats of a chunk's gradient, to the next cache line. */
static inline int64_t trm_gradient_count(const trm_weight_gradient *g) {
  return trm_round_up(g->k_size[0] * g->k_size[1] * g->in_channels * g->out_channels, 16);
}

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_WEIGHT_GRADIENT_PANELS_H_ */

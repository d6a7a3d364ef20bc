/* How the fast window kernels walk: many lanes at once, and for them all the elements of their
 * window. */
#ifndef TREMULA_OPS_REDUCE_FAST_WINDOW_H_
#define TREMULA_OPS_REDUCE_FAST_WINDOW_H_

#include "ops/reduce/fast.h"

/* The windowed dimensions are the first `rank`; what is behind them has no window and is one
 * contiguous run of `inner` elements, the channels. */
typedef struct window_plan {
  int32_t rank;
  int64_t in_dims[TRM_MAX_RANK], in_strides[TRM_MAX_RANK], out_dims[TRM_MAX_RANK];
  trm_window_dimension window[TRM_MAX_RANK];
  int64_t inner, positions; /* windows: product of out_dims */
} window_plan;

/* `out` are the dimensions of what has one element a window. */
void trm_window_plan(const trm_window *window, const trm_shape *in, const trm_shape *out,
                     window_plan *out_plan);

/* Walks through the elements of one window, in order, that lie in the array. */
typedef struct window_walk {
  const window_plan *plan;
  int32_t rank; /* dimensions that are walked: the first ones */
  int64_t at[TRM_MAX_RANK], k[TRM_MAX_RANK], offsets[TRM_MAX_RANK + 1];
  bool is_empty;
} window_walk;

void trm_window_start(window_walk *walk, const window_plan *plan, int32_t rank, int64_t position);
/* The next element's offset in the array; false when there is none left. */
bool trm_window_next(window_walk *walk, int64_t *out_offset);

#endif /* TREMULA_OPS_REDUCE_FAST_WINDOW_H_ */

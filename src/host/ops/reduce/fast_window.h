/* The walk of the fast window kernels: many lanes at once, and for them all elements of their
 * windows. */
#ifndef TREMULA_HOST_OPS_REDUCE_FAST_WINDOW_H_
#define TREMULA_HOST_OPS_REDUCE_FAST_WINDOW_H_

#include "host/ops/reduce/fast_reduce.h"

typedef enum window_mode { WINDOW_SUM, WINDOW_DIRECT, WINDOW_FUNCTION } window_mode;

/* Combines the elements of a window: a sum in double, one vectorised loop, or any function. */
typedef struct window_reducer {
  window_mode mode;
  trm_vector_fn direct;
  trm_function function;
  trm_dtype dtype;
  uint8_t log2, lane_log2; /* of the array's elements; of the lanes' (f16 is widened) */
  bool widens;
} window_reducer;

/* The windowed dimensions are the first `rank`. The others have no window and are one contiguous
 * run of `inner` elements, the channels. */
typedef struct window_layout {
  int32_t rank;
  int64_t in_dims[TRM_MAX_RANK], in_strides[TRM_MAX_RANK], out_dims[TRM_MAX_RANK];
  trm_window_dimension window[TRM_MAX_RANK];
  int64_t inner, positions; /* windows: product of out_dims */
} window_layout;

/* `out`: the shape with one element for each window. */
void trm_window_layout(const trm_window *window, const trm_shape *in, const trm_shape *out,
                       window_layout *out_layout);

/* A walk through the elements of one window that lie in the array, in order. */
typedef struct window_walk {
  const window_layout *layout;
  int32_t rank; /* the first dimensions, which are walked */
  int64_t at[TRM_MAX_RANK], k[TRM_MAX_RANK], offsets[TRM_MAX_RANK + 1];
  bool is_empty;
} window_walk;

void trm_window_start(window_walk *walk, const window_layout *layout, int32_t rank,
                      int64_t position);
/* The next element's offset in the array; false when there is none left. */
bool trm_window_next(window_walk *walk, int64_t *out_offset);

/* Serves windows along one dimension that all begin at the first element, or all end at the last
 * one: running sums and the like, in one pass (fast_scan.c). */
trm_status trm_fast_scan_create(const trm_kernel_request *request, const window_layout *layout,
                                const window_reducer *reducer, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error);

#endif /* TREMULA_HOST_OPS_REDUCE_FAST_WINDOW_H_ */

/* An HLO convolution restated as one of the three propagations of a forward convolution
 *     y[n, o, q] = sum over i, k of x[n, i, q * stride + k * dilation - pad_low] * w[o, i, k]
 * whose x, w and y are strided arrays. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_CONVOLUTION_PROBLEM_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_CONVOLUTION_PROBLEM_H_

#include "host/ops/kernel.h"
#include "host/ops/products/half_tiles.h"

#define TRM_MAX_SPATIAL 3

typedef enum trm_propagation {
  TRM_FORWARD,
  TRM_BACKWARD_DATA,
  TRM_BACKWARD_WEIGHTS
} trm_propagation;

/* A strided array; strides in elements, by role in the forward convolution. */
typedef struct trm_convolution_layout {
  int64_t outer, inner;             /* x: batch, channel; y: batch, channel; w: out, in channel */
  int64_t group;                    /* of w; groups of x and y follow each other */
  int64_t spatial[TRM_MAX_SPATIAL]; /* negative where w is stored reversed */
  int64_t start;                    /* the element with index 0 */
  int64_t count;                    /* elements of the whole array */
} trm_convolution_layout;

typedef struct trm_convolution_problem {
  trm_propagation kind;
  int spatial;
  int64_t batch, groups, in_channels, out_channels; /* channels of one group */
  int64_t x_size[TRM_MAX_SPATIAL], y_size[TRM_MAX_SPATIAL], k_size[TRM_MAX_SPATIAL];
  int64_t stride[TRM_MAX_SPATIAL], dilation[TRM_MAX_SPATIAL], pad_low[TRM_MAX_SPATIAL],
      pad_high[TRM_MAX_SPATIAL];
  trm_convolution_layout x, w, y;
  bool is_x_cropped; /* elements of x that x_size leaves out are zero in a gradient */
} trm_convolution_problem;

/* Restates an HLO convolution; false if oneDNN has none for it. */
bool trm_convolution_restate(const trm_kernel_request *request, trm_convolution_problem *p);

/* Whether an activation is dense with channels last; `channels` is those of all groups. */
bool trm_convolution_is_channels_last(const trm_convolution_problem *p,
                                      const trm_convolution_layout *a, int64_t channels,
                                      const int64_t *size);

/* Whether AMX tiles serve the problem (half_tiles.h). Sets *tiles, always to a convolution. */
bool trm_convolution_plan_tiles(const trm_convolution_problem *p, trm_half_tiles *tiles);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_CONVOLUTION_PROBLEM_H_ */

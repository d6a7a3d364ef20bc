/* Gradients of the weights of convolutions in float32, as products of packed panels with AVX-512 or
 * AVX2: oneDNN reaches a third to two thirds of the machine there, and divides sums by the number
 * of threads. The order of each sum follows from the sizes alone. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_WEIGHT_GRADIENT_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_WEIGHT_GRADIENT_H_

#include "host/ops/convolutions/convolution_problem.h"

/* dw[k, i, o] = sum over n, q of x[n, q * stride + k * dilation - pad, i] * dy[n, q, o]; index 0 is
 * rows, 1 columns. All arrays are dense: x and dy with channels last, dw as [row][column][i][o]. */
typedef struct trm_weight_gradient {
  int64_t batch, in_channels, out_channels;
  int64_t x_size[2], y_size[2], k_size[2], stride[2], dilation[2], pad[2];
  /* How it is computed: sums of `chunks` ranges of images, of blocks of channels; `images` images,
   * or `rows` rows of one, are packed at a time. */
  int64_t chunks, in_block, out_block, images, rows;
  int threads;
  /* By Winograd's transforms (winograd.h): `tiles` tiles of 2x2 results are transformed at a time,
   * and what is not finite is computed again by `direct`. */
  int64_t tiles;
  const struct trm_weight_gradient *direct;
} trm_weight_gradient;

/* Restates a gradient of weights and chooses how it is computed; false: this CPU or these sizes are
 * not served. */
bool trm_weight_gradient_plan(const trm_convolution_problem *p, trm_weight_gradient *out_gradient);

/* Restates a gradient to be computed by Winograd's transforms; false: that would not be faster. */
bool trm_weight_gradient_transform(const trm_weight_gradient *direct,
                                   trm_weight_gradient *out_gradient);

/* Sets how many threads compute it. For many of them the blocks of channels become smaller, which
 * changes no sum. */
void trm_weight_gradient_share(trm_weight_gradient *g, int threads);

size_t trm_weight_gradient_scratch_bytes(const trm_weight_gradient *g);
/* A worker of a sequence; `data` is a trm_weight_gradient. */
void trm_weight_gradient_run(const void *data, const void *x, const void *dy, void *dw,
                             void *scratch);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_WEIGHT_GRADIENT_H_ */

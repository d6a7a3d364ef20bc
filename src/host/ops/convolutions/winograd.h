/* Convolutions of 3x3 elements, with sums of float32, by Winograd's F(2x2, 3x3) (Lavin and Gray,
 * "Fast Algorithms for Convolutional Neural Networks", 2015): a tile of 2x2 results takes 16
 * products for a channel of x and one of y, instead of 36.
 *
 * Every sum has one order, so the bits depend neither on the number of threads nor on the
 * instruction set. A convolution whose result is not finite everywhere is computed again by the
 * direct kernel: an infinity or a NaN, or an overflow on the way, reaches all results of a tile. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_WINOGRAD_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_WINOGRAD_H_

#include "host/ops/convolutions/convolution_problem.h"

/* y[n, q, o] = sum over i, k of x[n, q + k - pad, i] * w[k, i, o], where x is zero around the
 * image. x and y are dense with channels last. Index 0 is rows, 1 columns. */
typedef struct trm_winograd {
  int64_t batch, channels, outputs; /* channels of x and of y, multiples of TRM_WINOGRAD_UNIT */
  int64_t x_size[2], y_size[2], pad[2];
  int64_t w_start, w_spatial[2], w_channel, w_output; /* in elements */
} trm_winograd;

/* Whether transforms make a convolution of 3x3 elements faster on this CPU, or its gradients:
 * enough channels on both sides, and few results beyond the image in the last tiles. */
bool trm_winograd_pays(int64_t batch, int64_t channels, int64_t outputs, const int64_t y_size[2]);

/* Whether this CPU computes the convolution, or the gradient of its data, faster so than directly.
 * Sets *out_winograd, to a convolution in both cases. */
bool trm_winograd_plan(const trm_convolution_problem *p, trm_winograd *out_winograd);

/* Creates the kernel. Halves and bfloat16s are widened before, and the result is rounded once. It
 * takes over `direct`, also when it fails; that has no persistent block. */
trm_status trm_winograd_create(const trm_kernel_request *request, const trm_winograd *winograd,
                               const char *name, const trm_kernel *direct, trm_kernel *out_kernel,
                               trm_error *error);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_WINOGRAD_H_ */

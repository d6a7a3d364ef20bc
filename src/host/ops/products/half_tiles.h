/* Products and convolutions of halves on AMX tiles, in pieces (half_products.h).
 *
 * A convolution is computed as a product of matrices: it has a row for each output pixel, and inner
 * products over the taps of the kernel and the channels. Halves are cut into pieces when they are
 * packed for the tiles, in blocks that stay in a core's caches. So no array is converted as a
 * whole, and weights stay halves. The order in which an inner product is summed does not depend on
 * the number of threads. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_HALF_TILES_H_
#define TREMULA_HOST_OPS_PRODUCTS_HALF_TILES_H_

#include "host/ops/products/sequence.h"

/* For each group g, y[g, n, q, o] = sum over taps k and channels c of
 * x[g, n, q * stride + k * dilation - pad, c] * w[g, k, c, o]. Members with two elements have rows
 * first, then columns. A product of matrices has one row of pixels and one tap. Strides are in
 * elements; the pixels of y are dense. */
typedef struct trm_half_tiles {
  trm_half_products products; /* not of floats */
  int32_t group_rank;
  int64_t groups[TRM_MAX_RANK], x_group[TRM_MAX_RANK], w_group[TRM_MAX_RANK], y_group[TRM_MAX_RANK];
  int64_t batch, channels, outputs; /* channels and outputs of a group */
  int64_t x_size[2], y_size[2], k_size[2], stride[2], dilation[2], pad[2];
  int64_t x_start, x_batch, x_spatial[2], x_channel;
  int64_t w_start, w_spatial[2], w_channel, w_output;
  int64_t y_pixel;
  /* trm_half_tiles_add sets these. */
  bool rounds; /* the result is halves, else floats */
  int threads;
  int64_t task_rows, task_columns; /* of y, computed by one thread at a time */
} trm_half_tiles;

/* Whether the CPU has AMX, oneDNN may use it (ONEDNN_MAX_CPU_ISA), and the system permits it. */
bool trm_half_tiles_serve(void);
/* Adds the product of the request's operands to a sequence that does nothing else. Weights that may
 * serve again are packed once. */
trm_status trm_half_tiles_add(trm_sequence *sequence, const trm_kernel_request *request,
                              const trm_half_tiles *product, trm_error *error);

#endif /* TREMULA_HOST_OPS_PRODUCTS_HALF_TILES_H_ */

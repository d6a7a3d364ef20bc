/* The gradient of a convolution's weights in chunks, each computed by one thread. oneDNN would
 * divide the sums by the number of threads. These chunks depend on the sizes only, so the result is
 * the same for any number of threads. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_GRADIENT_CHUNKS_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_GRADIENT_CHUNKS_H_

#include "host/ops/convolutions/convolution_problem.h"

enum { TRM_GRADIENT_CHUNKS = 8 }; /* at most */

/* A chunk is one of `images` ranges of images, whose gradients are summed, and one of `slices`
 * ranges of channels: of x or of y, whichever needs less copying. */
typedef struct trm_gradient_chunks {
  int64_t images, slices;
  bool slices_x;
} trm_gradient_chunks;

trm_gradient_chunks trm_gradient_chunks_choose(const trm_convolution_problem *p);

/* A step of a oneDNN program: `chunks` arrays of `count` floats one after the other, `a`, are
 * summed in this order into the first, `out`. `data` is a trm_gradient_sum. */
typedef struct trm_gradient_sum {
  int64_t chunks, count;
} trm_gradient_sum;
void trm_gradient_sum_run(const void *data, const void *a, const void *b, void *out);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_GRADIENT_CHUNKS_H_ */

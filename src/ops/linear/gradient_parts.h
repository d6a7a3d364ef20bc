/* The gradient of a convolution's weights in parts that one thread each computes. oneDNN would cut
 * the sums by the number of threads; the parts follow from the sizes alone, so a result is the same
 * for any number of threads. */
#ifndef TREMULA_OPS_LINEAR_GRADIENT_PARTS_H_
#define TREMULA_OPS_LINEAR_GRADIENT_PARTS_H_

#include "ops/linear/onednn_convolution_problem.h"

enum { TRM_GRADIENT_PARTS = 8 }; /* at most */

/* `images` ranges of images, whose gradients are summed, for each of `slices` ranges of channels:
 * of x or of y, whichever has less to copy. */
typedef struct trm_gradient_parts {
  int64_t images, slices;
  bool slices_x;
} trm_gradient_parts;

trm_gradient_parts trm_gradient_parts_choose(const trm_convolution_problem *p);

/* A step of a oneDNN program: `parts` arrays of `count` floats one after the other, `a`, are summed
 * in this order into the first, `out`. `data` is a trm_gradient_sum. */
typedef struct trm_gradient_sum {
  int64_t parts, count;
} trm_gradient_sum;
void trm_gradient_sum_run(const void *data, const void *a, const void *b, void *out);

#endif /* TREMULA_OPS_LINEAR_GRADIENT_PARTS_H_ */

/* Functions that the reference kernels of dot, convolution and linear algebra share. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_
#define TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_

#include "host/ops/reference.h"

/* Elements of an operand, `stride` apart. */
typedef struct trm_value_run {
  trm_dtype dtype;
  const void *array;
  int64_t start, stride;
} trm_value_run;

/* *sum += a * b for `count` pairs, one after the other, for a result of type `as`: in double,
 * complex, modulo 2^64, or by "or" and "and". */
void trm_value_add_products(trm_dtype as, int64_t count, trm_value_run a, trm_value_run b,
                            trm_value *sum);

/* cholesky and triangular-solve of complex matrices that fit together. */
trm_status trm_reference_complex_algebra_create(const trm_kernel_request *, trm_kernel *,
                                                trm_error *);

#endif /* TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_ */

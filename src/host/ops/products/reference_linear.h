/* Functions that the reference kernels of dot, convolution and linear algebra share. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_
#define TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_

#include "host/ops/reference.h"

/* *sum += a * b in the arithmetic of a kind: double, complex, modulo 2^64, or "or" and "and". */
void trm_value_multiply_add(trm_kind kind, trm_value *sum, trm_value a, trm_value b);
/* Loads an operand for a result of type `as`: converted where the kinds differ. */
trm_value trm_value_load_as(trm_dtype dtype, trm_dtype as, const void *array, int64_t index);

/* cholesky and triangular-solve of complex matrices that fit together. */
trm_status trm_reference_complex_algebra_create(const trm_kernel_request *, trm_kernel *,
                                                trm_error *);

#endif /* TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_ */

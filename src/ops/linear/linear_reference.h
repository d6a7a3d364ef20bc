/* What the reference kernels of dot and convolution share. */
#ifndef TREMULA_OPS_LINEAR_LINEAR_REFERENCE_H_
#define TREMULA_OPS_LINEAR_LINEAR_REFERENCE_H_

#include "ops/reference.h"

/* *sum += a * b in the arithmetic of a kind: double, complex, modulo 2^64, or "or" and "and". */
void trm_value_multiply_add(trm_kind kind, trm_value *sum, trm_value a, trm_value b);
/* Loads an operand for a result of type `as`: converted where the kinds differ. */
trm_value trm_value_load_as(trm_dtype dtype, trm_dtype as, const void *array, int64_t index);

#endif /* TREMULA_OPS_LINEAR_LINEAR_REFERENCE_H_ */

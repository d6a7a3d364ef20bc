/* Functions that the reference kernels of dot, convolution and linear algebra share. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_
#define TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_

#include <complex.h>

#include "host/ops/reference.h"

/* *sum += a * b in the arithmetic of a kind: double, complex, modulo 2^64, or "or" and "and". */
void trm_value_multiply_add(trm_kind kind, trm_value *sum, trm_value a, trm_value b);
/* Loads an operand for a result of type `as`: converted where the kinds differ. */
trm_value trm_value_load_as(trm_dtype dtype, trm_dtype as, const void *array, int64_t index);

/* Of a Hermitian n x n matrix, given by a triangle: the eigenvalues on the diagonal of `a`,
 * unsorted, and the vectors in columns. */
void trm_hermitian_eigen(const double complex *matrix, int64_t n, bool lower, double complex *a,
                         double complex *vectors);

/* cholesky and triangular-solve of complex matrices that fit together. */
trm_status trm_reference_complex_algebra_create(const trm_kernel_request *, trm_kernel *,
                                                trm_error *);

/* The custom calls "lapack_?gtsv_ffi" of JAX. */
trm_status trm_reference_tridiagonal_create(const trm_kernel_request *, trm_kernel *, bool *,
                                            trm_error *);

/* The letter of an option of JAX's calls, such as `uplo = 76 : ui8`; 0 if there is none. */
uint8_t trm_lapack_option(const char *config, const char *name);
/* The custom calls "lapack_..._ffi" of JAX. */
trm_status trm_reference_lapack_create(const trm_kernel_request *, trm_kernel *, bool *,
                                       trm_error *);

#endif /* TREMULA_HOST_OPS_PRODUCTS_REFERENCE_LINEAR_H_ */

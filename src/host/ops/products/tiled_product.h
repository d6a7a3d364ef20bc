/* Products of float matrices in tiles, for CPUs on which oneDNN's matrix product is its sgemm,
 * which chooses kernels and divides sums by the number of threads. Tiles depend on the sizes only,
 * and one thread computes each, so a result is the same for any number of threads. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_TILED_PRODUCT_H_
#define TREMULA_HOST_OPS_PRODUCTS_TILED_PRODUCT_H_

#include "tremula/tremula.h"

enum { TRM_PRODUCT_LHS, TRM_PRODUCT_RHS };

/* out[b, r, c] = sum over k of lhs[b, r, k] * rhs[b, k, c]; `out` is dense. One of the two strides
 * of each operand is 1. */
typedef struct trm_tiled_product {
  int32_t batch_rank;
  int64_t batch[TRM_MAX_RANK], batch_strides[2][TRM_MAX_RANK]; /* by operand */
  int64_t rows, columns, inner;
  int64_t row_stride[2], column_stride[2]; /* of [rows, inner] and [inner, columns] */
} trm_tiled_product;

/* A step of a oneDNN program: `data` is a trm_tiled_product. */
void trm_tiled_product_run(const void *data, const void *lhs, const void *rhs, void *out);

#endif /* TREMULA_HOST_OPS_PRODUCTS_TILED_PRODUCT_H_ */

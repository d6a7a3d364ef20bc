/* A row-major matrix times a vector, at the speed of memory; oneDNN's product takes three to five
 * times as long for a single column. */
#ifndef TREMULA_OPS_LINEAR_MATRIX_VECTOR_H_
#define TREMULA_OPS_LINEAR_MATRIX_VECTOR_H_

#include <stdbool.h>
#include <stdint.h>

/* out[r] = sum over k of matrix[r * row_stride + k] * vector[k]. */
typedef struct trm_matrix_vector {
  int64_t rows, inner, row_stride;
} trm_matrix_vector;

/* A step of a oneDNN program: `data` is a trm_matrix_vector. */
void trm_matrix_vector_run(const void *data, const void *matrix, const void *vector, void *out);

/* The same for out[r] = sum over k of vector[k] * matrix[k * row_stride + r]: a layer for one
 * example. oneDNN's call costs as much as a small product; a large matrix is better read by it. */
bool trm_vector_matrix_serves(int64_t columns, int64_t inner);
void trm_vector_matrix_run(const void *data, const void *matrix, const void *vector, void *out);

#endif /* TREMULA_OPS_LINEAR_MATRIX_VECTOR_H_ */

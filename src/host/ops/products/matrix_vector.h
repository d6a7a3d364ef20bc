/* Products of a matrix and a vector, at the speed of memory: a layer for one example, attention of
 * one token. The matrix is read once, as it lies, also one of halves; oneDNN's products take two to
 * five times as long. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_MATRIX_VECTOR_H_
#define TREMULA_HOST_OPS_PRODUCTS_MATRIX_VECTOR_H_

#include "tremula/tremula.h"

/* out[b, i] = sum over k of matrix[b, i, k] * vector[b, k]; strides in elements. One of the two
 * strides of the matrix is 1; `out` and each vector are dense. Vectors and `out` are float32. */
typedef struct trm_matrix_vector {
  int32_t batch_rank;
  int64_t batch[TRM_MAX_RANK], matrix_strides[TRM_MAX_RANK], vector_strides[TRM_MAX_RANK];
  int64_t outputs, inner, output_stride, inner_stride;
  trm_dtype dtype; /* of the matrix: F32, F16 or BF16 */
  /* trm_matrix_vector_plan sets these. */
  bool is_by_line;  /* a thread that has whole lines reads them one by one */
  int64_t ahead;    /* how many elements are fetched ahead; 0: the CPU does it as well */
  bool is_ahead_l2; /* they are fetched into the second-level cache only */
  int64_t chunks;   /* of the sums, whose lines lie together: each is a thread's */
} trm_matrix_vector;

/* Whether the loops serve the product; if so, plans it. */
bool trm_matrix_vector_plan(trm_matrix_vector *product);
size_t trm_matrix_vector_scratch_bytes(const trm_matrix_vector *product);

/* A step of a oneDNN program: `data` is a trm_matrix_vector. */
void trm_matrix_vector_run(const void *data, const void *matrix, const void *vector, void *out,
                           void *scratch);

/* The loops for one instruction set (matrix_vector_loops.c): outputs [begin, end) of one batch, by
 * whether lines of the matrix lie along the outputs. Results do not depend on the instruction set,
 * nor on how outputs are divided into multiples of TRM_MATRIX_VECTOR_UNIT. */
enum {
  TRM_MATRIX_VECTOR_UNIT = 32,
  TRM_MATRIX_VECTOR_GROUP = 8 /* lines along the outputs that are read side by side */
};
typedef void (*trm_matrix_vector_loop)(const trm_matrix_vector *product, const void *matrix,
                                       const float *vector, float *out, int64_t begin, int64_t end);
typedef struct trm_matrix_vector_loops {
  trm_matrix_vector_loop along_outputs, along_inner;
  void (*add)(float *sums, const float *others, int64_t count);
} trm_matrix_vector_loops;
/* By the name of a trm_vector_ops, whose instruction set the CPU must have; NULL: not built. */
const trm_matrix_vector_loops *trm_matrix_vector_find(const char *name);

#endif /* TREMULA_HOST_OPS_PRODUCTS_MATRIX_VECTOR_H_ */

/* Dense linear algebra on blocks: matrix products of any number type, and the factorisations of
 * float32 and float64 whose work is such products. dense.c is compiled once for each instruction
 * set, as host/ops/elementwise/vector.c is; all give the same bits, for any number of threads.
 *
 * Matrices are row-major. The methods are those of Golub and Van Loan, Matrix Computations (4th
 * edition); each one's chapter stands with it. */
#ifndef TREMULA_HOST_OPS_ALGEBRA_DENSE_H_
#define TREMULA_HOST_OPS_ALGEBRA_DENSE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trm_dense_type { /* integers are added and multiplied modulo 2^32 and 2^64 */
                              TRM_DENSE_F32,
                              TRM_DENSE_F64,
                              TRM_DENSE_U32,
                              TRM_DENSE_U64,
                              TRM_DENSE_BYTES, /* are_signed says which; sums of uint32_t */
                              TRM_NUM_DENSE_TYPES,
} trm_dense_type;

/* A matrix whose element (i, j) is at data + i * rows + j * columns, in elements. */
typedef struct trm_dense_matrix {
  const void *data;
  int64_t rows, columns;
} trm_dense_matrix;

/* c[i, j] += a b, or -= where `subtracts`; a is m x k, b is k x n, c has rows of `stride`. */
typedef struct trm_dense_product {
  int64_t m, n, k;
  bool subtracts; /* never bytes */
  trm_dense_matrix a, b;
  void *c;
  int64_t stride;
  bool are_signed[2]; /* of bytes: a, b */
} trm_dense_product;

typedef enum trm_dense_routine {
  TRM_DENSE_CHOLESKY, /* in: a; out: the factor in the triangle `lower`, info */
  TRM_DENSE_SOLVE,    /* in: a triangle, b; out: x */
  TRM_DENSE_QR,       /* in: a; out: R and the reflectors below it, taus */
  TRM_DENSE_Q,        /* in: reflectors, taus; out: the first n columns of Q */
  TRM_DENSE_EIGEN,    /* in: a; out: vectors in columns, values that rise, info */
  TRM_NUM_DENSE_ROUTINES,
} trm_dense_routine;

/* One matrix. An info is int32_t and may be NULL. */
typedef struct trm_dense_call {
  int64_t m, n;    /* of the first operand */
  int64_t columns; /* of b (or its rows, on the right), or of the taus of Q */
  bool lower, left, transposed, has_unit_diagonal;
  bool values_only; /* EIGEN: vectors become 0 */
  int threads;      /* at most; 1 in a parallel region */
  const void *in[2];
  void *out[3];
  void *scratch; /* trm_dense_scratch */
} trm_dense_call;

typedef struct trm_dense_ops {
  const char *name; /* the instruction set */
  void (*multiply[TRM_NUM_DENSE_TYPES])(const trm_dense_product *product);
  void (*run[2][TRM_NUM_DENSE_ROUTINES])(const trm_dense_call *call); /* float32, float64 */
} trm_dense_ops;

/* Those of the instruction set that trm_vector_ops_get chooses. */
const trm_dense_ops *trm_dense_ops_get(void);

/* Bytes for one matrix; `size` is that of an element. */
size_t trm_dense_scratch(trm_dense_routine routine, int64_t m, int64_t n, int64_t columns,
                         size_t size);
/* A product on as many threads as it is worth, up to `threads`. */
void trm_dense_multiply(trm_dense_type type, const trm_dense_product *product, int threads);

#endif /* TREMULA_HOST_OPS_ALGEBRA_DENSE_H_ */

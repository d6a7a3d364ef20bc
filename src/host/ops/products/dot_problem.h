/* An HLO dot restated as one batched product of matrices [rows, inner] x [inner, columns] on
 * strides. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_DOT_PROBLEM_H_
#define TREMULA_HOST_OPS_PRODUCTS_DOT_PROBLEM_H_

#include "host/ops/kernel.h"

enum { LHS, RHS }; /* operands */

/* A dimension of the product; strides in elements of each operand, 0 where it has no such
 * dimension. */
typedef struct trm_dot_extent {
  int64_t size, stride[2];
} trm_dot_extent;

typedef struct trm_dot_extents {
  int32_t count;
  trm_dot_extent items[TRM_MAX_RANK];
} trm_dot_extents;

typedef struct trm_dot_problem {
  trm_dot_extents batch, rows, columns, inner; /* the result is [batch, rows, columns] */
} trm_dot_problem;

/* An operand of the matrix product: [batch..., rows, columns] with one stride each. */
typedef struct trm_dot_matrix {
  bool is_copied;                    /* into a dense matrix, before the product */
  int64_t row_stride, column_stride; /* of [rows, inner] or [inner, columns] */
  int64_t batch_strides[TRM_MAX_RANK];
} trm_dot_matrix;

/* Collects the batch, free and contracted dimensions. All but the contracted ones are joined. */
void trm_dot_restate(const trm_kernel_request *request, trm_dot_problem *p);
/* Joins neighbours that lie one after the other in both operands. */
void trm_dot_join(trm_dot_extents *list);
/* From the largest stride of an operand to the smallest. */
void trm_dot_sort(trm_dot_extents *list, int side);
/* The product of the sizes. */
int64_t trm_dot_count(const trm_dot_extents *list);
void trm_dot_plan_matrix(const trm_dot_problem *p, int side, trm_dot_matrix *m);

#endif /* TREMULA_HOST_OPS_PRODUCTS_DOT_PROBLEM_H_ */

/* The values of a computation that works row by row, and the pass over a row that computes each:
 * what row_program.c makes its passes of. */
#ifndef TREMULA_HOST_OPS_ROW_VALUES_H_
#define TREMULA_HOST_OPS_ROW_VALUES_H_

#include "host/ops/kernel.h"

typedef enum row_value_kind {
  ROW_OPERAND,
  ROW_CONSTANT, /* one number */
  ROW_OPERATION,
  ROW_REDUCTION
} row_value_kind;

typedef enum row_extent {
  EXTENT_ONE,    /* one number for all */
  EXTENT_VECTOR, /* one for each element of a row, the same in all rows */
  EXTENT_ROWS,   /* one for each row */
  EXTENT_ALL
} row_extent;

enum { ROW_MAX_VALUES = 256, ROW_MAX_RESULTS = 16, ROW_MAX_PASSES = 8, ROW_NO_VALUE = UINT32_MAX };

typedef struct row_value {
  row_value_kind kind;
  row_extent extent;
  trm_dtype dtype;
  const trm_instruction *instruction; /* of all but operands */
  uint32_t operands[3];               /* values; of a reduction: what is reduced */
  uint32_t number;                    /* of an operand */
  float initial;                      /* of a reduction */
  trm_opcode reduction;
  /* Of EXTENT_ALL the pass that computes it; of EXTENT_ROWS the first pass that can read it. */
  uint32_t pass;
} row_value;

typedef struct row_values {
  row_value items[ROW_MAX_VALUES];
  uint32_t count, num_passes;
  int64_t block, n; /* rows of the computation's shapes, elements of a row */
  uint32_t results[ROW_MAX_RESULTS], num_results;
} row_values;

/* Reads the computation; sets *out_supported to false for what has no place in a row program. */
trm_status trm_row_values_read(const trm_kernel_request *request, const trm_computation *body,
                               int64_t block, const bool *is_whole, row_values *out,
                               bool *out_supported, trm_error *error);

#endif /* TREMULA_HOST_OPS_ROW_VALUES_H_ */

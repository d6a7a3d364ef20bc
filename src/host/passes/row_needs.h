/* What a row of a result needs of its operands, for the pass that groups rows (rows.c). */
#ifndef TREMULA_HOST_PASSES_ROW_NEEDS_H_
#define TREMULA_HOST_PASSES_ROW_NEEDS_H_

#include "hlo/hlo.h"

typedef enum trm_need {
  TRM_NEED_NOTHING,
  TRM_NEED_ROW,  /* row r of a result needs only row r of the value */
  TRM_NEED_WHOLE /* each row needs all of the value */
} trm_need;

/* The number of leading dimensions whose product is `rows`, the smallest; -1: none. */
int32_t trm_row_rank(const trm_shape *shape, int64_t rows);
/* What row r of `instruction` needs of operand k. TRM_NEED_NOTHING: it cannot be computed by
 * row. */
trm_need trm_row_need(const trm_computation *computation, const trm_instruction *instruction,
                      uint32_t k, int64_t rows);
/* What a row of a kLoop fusion needs of each instruction of its computation, from the root up;
 * `needs` has num_instructions places. False: it cannot be computed by row. */
bool trm_row_needs_of_fusion(const trm_computation *body, int64_t rows, trm_need *needs);

#endif /* TREMULA_HOST_PASSES_ROW_NEEDS_H_ */

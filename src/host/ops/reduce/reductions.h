/* What the pass and the kernel of "tremula.reductions" share. */
#ifndef TREMULA_HOST_OPS_REDUCE_REDUCTIONS_H_
#define TREMULA_HOST_OPS_REDUCE_REDUCTIONS_H_

#include "hlo/hlo.h"

/* The array as rows of columns, cut before dimension `cut`. False: the reduced dimensions are not
 * those of the rows, of the columns, or of both. */
bool trm_reductions_cut(const trm_shape *shape, const trm_dims *dimensions, int32_t cut,
                        int64_t *out_rows, int64_t *out_columns);
/* Where one reduction cuts the dimensions; 0: it reduces all of them, and may be cut anywhere. */
int32_t trm_reductions_cut_of(const trm_instruction *reduce, const trm_shape *shape);
/* Whether `opcode` is one of those that the kernel combines by. */
static inline bool trm_reductions_combine_by(trm_opcode opcode) {
  return opcode == TRM_OP_ADD || opcode == TRM_OP_MAXIMUM || opcode == TRM_OP_MINIMUM;
}

#endif /* TREMULA_HOST_OPS_REDUCE_REDUCTIONS_H_ */

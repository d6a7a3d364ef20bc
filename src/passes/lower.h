/* Our own custom calls as plain HLO, for an accelerator's compiler (accelerate.c): the same bits as
 * the kernels of src/ops/random. */
#ifndef TREMULA_PASSES_LOWER_H_
#define TREMULA_PASSES_LOWER_H_

#include "hlo/hlo.h"

/* Whether trm_lower knows the custom call, which has an operand. */
bool trm_can_lower(const trm_instruction *call, const trm_shape *first_operand);
/* What the engine seeds gets its numbers from an instruction of its own, tremula.random-stream, so
 * that the rest can be lowered. */
trm_status trm_split_random(trm_module *module, uint32_t computation, trm_error *error);
/* Adds to a computation what computes the call from its operands there. */
trm_status trm_lower(trm_module *module, uint32_t computation, const trm_instruction *call,
                     const trm_index *operands, trm_index *out_index, trm_error *error);

#endif /* TREMULA_PASSES_LOWER_H_ */

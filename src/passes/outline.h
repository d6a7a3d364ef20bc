/* Outlining: instructions get a computation of their own, which one instruction calls in their
 * place: a fusion, a group of rows or of reductions, a region of an accelerator. */
#ifndef TREMULA_PASSES_OUTLINE_H_
#define TREMULA_PASSES_OUTLINE_H_

#include "passes/edit.h"

/* Adds a copy of an instruction to the computation `body`, without its control edges. Its operands
 * are the copies that `inside` tells, by instruction outside. */
trm_status trm_outline_copy(trm_module *module, uint32_t body, trm_instruction copy,
                            const trm_index *inside, trm_index *out_index, trm_error *error);
/* Makes a tuple of the results' copies the root of the body. */
trm_status trm_outline_root(trm_module *module, uint32_t body, uint32_t count,
                            const trm_index *inside, const trm_shape *shapes, trm_shape *out_shape,
                            trm_error *error);
/* Adds the call, with the name and metadata of the last result. It, or the elements of its tuple,
 * replace the results. */
trm_status trm_outline_call(trm_edit *edit, const trm_instruction *call, const trm_index *results,
                            uint32_t count, trm_error *error);
/* Makes an instruction a custom call of ours: sets its opcode and target. */
trm_status trm_outline_target(trm_module *module, trm_call_id id, trm_instruction *call,
                              trm_error *error);
/* The same as trm_outline_call for a custom call of ours. */
trm_status trm_outline_custom_call(trm_edit *edit, trm_call_id id, trm_instruction call,
                                   const trm_index *results, uint32_t count, trm_error *error);

#endif /* TREMULA_PASSES_OUTLINE_H_ */

/* Computing an instruction when a module is compiled: for constants that the shared passes fold,
 * and for numbers that the estimate must know. */
#ifndef TREMULA_PASSES_EVALUATE_H_
#define TREMULA_PASSES_EVALUATE_H_

#include "hlo/hlo.h"

/* Computes an instruction of one array with its reference kernel. `operands` are dense arrays;
 * `result` has the bytes of the instruction's shape; the kernel lives in `scratch`. Fails with
 * TRM_UNIMPLEMENTED if the instruction has no kernel. */
trm_status trm_evaluate(const trm_module *module, const trm_computation *computation,
                        const trm_instruction *instruction, trm_arena *scratch,
                        const void *const *operands, void *result, trm_error *error);

#endif /* TREMULA_PASSES_EVALUATE_H_ */

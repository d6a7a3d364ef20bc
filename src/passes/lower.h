/* Preparing a region's module for an accelerator's compiler (accelerate.c). */
#ifndef TREMULA_PASSES_LOWER_H_
#define TREMULA_PASSES_LOWER_H_

#include "hlo/hlo.h"

/* lower.c: makes our custom calls plain HLO with the bits of the kernels of src/host/ops/random, in
 * a computation and its loops and conditionals. trm_can_lower: whether it knows the call. */
bool trm_can_lower(const trm_computation *computation, const trm_instruction *call);
/* Draws the key of random numbers, which the engine seeds, by an instruction of its own,
 * tremula.random-stream. The rest of the call can then be lowered. */
trm_status trm_split_random(trm_module *module, uint32_t computation, trm_error *error);
trm_status trm_lower(trm_module *module, uint32_t computation, trm_error *error);

/* exact_halves.c: float16 arithmetic, with overflows, as the CPU computes it, in a computation and
 * its loops and conditionals. trm_can_limit_halves: whether it can limit the overflows of an
 * instruction. */
bool trm_can_limit_halves(const trm_instruction *instruction);
trm_status trm_exact_halves(trm_module *module, uint32_t computation, trm_error *error);

#endif /* TREMULA_PASSES_LOWER_H_ */

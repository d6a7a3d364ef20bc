/* What a region's module needs before an accelerator's compiler gets it (accelerate.c). */
#ifndef TREMULA_PASSES_LOWER_H_
#define TREMULA_PASSES_LOWER_H_

#include "hlo/hlo.h"

/* lower.c: our own custom calls become plain HLO with the bits of the kernels of src/ops/random, in
 * a computation and the bodies of its loops and conditionals. Whether it knows the custom call. */
bool trm_can_lower(const trm_computation *computation, const trm_instruction *call);
/* What the engine seeds gets its bits from an instruction of its own, tremula.random-stream, so
 * that the rest can be lowered. */
trm_status trm_split_random(trm_module *module, uint32_t computation, trm_error *error);
trm_status trm_lower(trm_module *module, uint32_t computation, trm_error *error);

/* Gives small ids, one after the other: XLA's passes have arrays as long as the largest id, and JAX
 * gives ids beyond 2^32. */
void trm_number_anew(trm_module *module);

/* exact_halves.c: float16 is computed as the CPU does, with its overflows, in a computation and the
 * bodies of its loops and conditionals. Overflows of some instructions it cannot limit. */
bool trm_can_limit_halves(const trm_instruction *instruction);
trm_status trm_exact_halves(trm_module *module, uint32_t computation, trm_error *error);

#endif /* TREMULA_PASSES_LOWER_H_ */

/* Stopping at floating-point events: what the options invalid, division_by_zero and overflow ask
 * for. */
#ifndef TREMULA_EXEC_FLOAT_CHECK_H_
#define TREMULA_EXEC_FLOAT_CHECK_H_

#include "hlo/hlo.h"

/* Events as IEEE 754 has them; sets of bits. */
typedef enum trm_float_event {
  TRM_FLOAT_INVALID = 1,          /* a NaN out of operands that are none: inf - inf, sqrt(-1) */
  TRM_FLOAT_DIVISION_BY_ZERO = 2, /* an exact infinity out of finite operands: 1/0, log(0) */
  TRM_FLOAT_OVERFLOW = 4          /* a finite result that is too large for its type */
} trm_float_event;

/* Looks at the results of an instruction that has run; its operands must still be there. Fails with
 * TRM_INTERNAL and names the instruction when one of `events` has happened. NaNs and infinities
 * that only pass through are none. */
trm_status trm_float_check(const trm_module *module, const trm_computation *computation,
                           const trm_instruction *instruction, unsigned events,
                           const void *const *operands, void *const *results, trm_error *error);

/* Whether an instruction's float16 results must be looked at after its kernel has run, for the
 * module's half_overflow; elementwise kernels see to that themselves. */
bool trm_must_limit_halves(const trm_module *module, const trm_instruction *instruction);
/* Makes infinite float16 results what half_overflow says, if no operand is infinite. */
void trm_limit_halves(const trm_module *module, const trm_computation *computation,
                      const trm_instruction *instruction, const void *const *operands,
                      void *const *results);

#endif /* TREMULA_EXEC_FLOAT_CHECK_H_ */

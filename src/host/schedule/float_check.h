/* Stopping a run at floating-point events, for the options invalid, division_by_zero and overflow.
 */
#ifndef TREMULA_HOST_SCHEDULE_FLOAT_CHECK_H_
#define TREMULA_HOST_SCHEDULE_FLOAT_CHECK_H_

#include "hlo/hlo.h"

/* Events of IEEE 754, as bits. */
typedef enum trm_float_event {
  TRM_FLOAT_INVALID = 1,          /* a NaN from operands without NaN: inf - inf, sqrt(-1) */
  TRM_FLOAT_DIVISION_BY_ZERO = 2, /* an exact infinity from finite operands: 1/0, log(0) */
  TRM_FLOAT_OVERFLOW = 4          /* a finite result that is too large for its type */
} trm_float_event;

/* Checks the results of an instruction that has run; its operands must still be in memory. Fails
 * with TRM_INTERNAL and names the instruction if one of `events` has happened. NaNs and infinities
 * that come from an operand are no events. */
trm_status trm_float_check(const trm_module *module, const trm_computation *computation,
                           const trm_instruction *instruction, unsigned events,
                           const void *const *operands, void *const *results, trm_error *error);

/* Whether trm_limit_halves must follow the kernel of an instruction, because of the module's
 * half_overflow. Elementwise kernels limit their results themselves. */
bool trm_must_limit_halves(const trm_module *module, const trm_instruction *instruction);
/* Replaces infinite float16 results according to half_overflow, if no operand is infinite. */
void trm_limit_halves(const trm_module *module, const trm_computation *computation,
                      const trm_instruction *instruction, const void *const *operands,
                      void *const *results);

#endif /* TREMULA_HOST_SCHEDULE_FLOAT_CHECK_H_ */

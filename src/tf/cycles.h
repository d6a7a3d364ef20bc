/* --log_cycle_count: what a run would have taken on an IPU, on standard error after each. */
#ifndef TREMULA_TF_CYCLES_H_
#define TREMULA_TF_CYCLES_H_

#include <stdint.h>

#include "tensorflow.h"
#include "tremula/tremula.h"

/* Logs "Cycle count: N" if that is wanted. N is that of the whole run: all tiles wait for each
 * other at every step. *cycles is of this executable: 0 before the first call. */
void cycles_log(trm_executable *executable, int64_t *cycles);

/* ---- For Python ---- */

TRM_TF_API void trm_tf_log_cycles(int32_t wanted);

#endif /* TREMULA_TF_CYCLES_H_ */

/* Owns: observing runs: the profile, events, cycles, units that alternate at every step, and the
 * loads and transfers of an IPU.
 *
 * An IPU loads a program if another one ran before. It loads variables that the host has written,
 * or after it has loaded a program. It moves them back when the host reads one or another program
 * comes (docs/events.md). Other inputs and results are streams, which have no events. Nothing moves
 * here: arrays are in the host's memory. */
#ifndef TREMULA_TF_OBSERVE_H_
#define TREMULA_TF_OBSERVE_H_

#include "unit_build.h"

/* A run of a unit, with the observer's state until its end (zeros at first). */
typedef struct trm_tf_observation {
  trm_tf_runnable *runnable; /* with the inputs of the run */
  int ordinal;               /* of the TF device */
  uint64_t unit;             /* its number, not 0 */
  const char *node;          /* the node that runs it */
  void *const *outputs;
  size_t num_variables; /* number of variables, which are the last inputs */
  bool moves_inputs;    /* inputs come from the host and are not made up */
  /* Seconds. */
  double began, device_free, infeed_wait;
  bool is_switch; /* the device ran another unit before */
} trm_tf_observation;

void trm_tf_observe_begin(trm_tf_observation *run);
void trm_tf_observe_end(const trm_tf_observation *run, trm_status status);
/* Records that the host reads this block of device memory. */
void trm_tf_observe_read(const void *block);

/* ---- For Python ---- */

/* --log_cycle_count: whether to log, after each run, its cycles on an IPU. */
TRM_TF_API void trm_tf_log_cycles(int32_t wanted);

#endif /* TREMULA_TF_OBSERVE_H_ */

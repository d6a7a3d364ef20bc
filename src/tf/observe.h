/* Owns: what is told of runs: a profile, events, cycles, programs that take turns at every step,
 * and what an IPU would load and move.
 *
 * An IPU loads a program when another one ran before, variables when the host has written them or
 * the program has just been loaded, and moves them back when the host reads one or another program
 * comes (docs/events.md). Inputs and results that are no variables are streams, of which there are
 * no events. Nothing is moved here: arrays are where they are. */
#ifndef TREMULA_TF_OBSERVE_H_
#define TREMULA_TF_OBSERVE_H_

#include "unit_build.h"

/* A run of a program, and what the observer keeps until its end (zeros at first). */
typedef struct trm_tf_observation {
  trm_tf_parts *parts; /* with the inputs of the run */
  int ordinal;         /* of the TF device */
  uint64_t unit;       /* its number, not 0 */
  const char *node;    /* that runs it */
  void *const *outputs;
  size_t num_variables; /* of the inputs, the last ones */
  bool moves_inputs;    /* not made up on the device */
  /* Seconds. */
  double began, device_free, infeed_wait;
  bool is_switch; /* the device ran another program before */
} trm_tf_observation;

void trm_tf_observe_begin(trm_tf_observation *run);
void trm_tf_observe_end(const trm_tf_observation *run, trm_status status);
/* The host reads this block of device memory. */
void trm_tf_observe_read(const void *block);

/* ---- For Python ---- */

/* --log_cycle_count: after each run, how many cycles it would have taken on an IPU. */
TRM_TF_API void trm_tf_log_cycles(int32_t wanted);

#endif /* TREMULA_TF_OBSERVE_H_ */

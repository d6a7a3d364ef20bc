/* Owns: runs, each on a thread of its own, of units that read an infeed.
 *
 * Such a unit runs while TensorFlow's threads fetch elements, so it cannot run in a kernel. Nodes
 * that feed a run or wait for it identify it by a number. */
#ifndef TREMULA_TF_RUNS_H_
#define TREMULA_TF_RUNS_H_

#include "feeds.h"
#include "units.h"

typedef struct trm_tf_run trm_tf_run;

/* Starts a run of the unit, with the feeds of `call`, and copies `call`. Takes over the caller's
 * use of the unit, the inputs and `taken` (those that the unit takes), also after a failure. If a
 * failed step has left another run of the same infeed, that run is cancelled. */
trm_status trm_tf_run_start(trm_tf_unit *unit, const trm_tf_call *call, trm_tf_inputs *inputs,
                            TF_Tensor **taken, int64_t *out_id, trm_error *error);
/* Gets a run, with a reference for trm_tf_run_release; fails if there is none. */
trm_status trm_tf_run_get(int64_t id, trm_tf_run **out, trm_error *error);
void trm_tf_run_release(trm_tf_run *run);

/* Called at the end of a step: frees the number of its run, to which `data` points. If the step
 * failed and left the run, the run is cancelled and stops using its feeds. */
void trm_tf_run_leave(void *data, size_t size, void *argument);

trm_tf_infeed *trm_tf_run_infeed(trm_tf_run *run);
/* Waits for the end of the run and removes it from the list. Afterwards, unless the run failed,
 * output i can be taken as a new tensor. */
trm_status trm_tf_run_wait(trm_tf_run *run, trm_error *error);
size_t trm_tf_run_num_outputs(const trm_tf_run *run);
TF_Tensor *trm_tf_run_take_output(trm_tf_run *run, size_t i);

/* ---- For Python ---- */

/* Whether a run has been cancelled while its step still waits for data. */
TRM_TF_API int32_t trm_tf_interrupted_feeds(void);
/* For a forked process: drops the runs and interrupts of its parent. */
TRM_TF_API void trm_tf_forked(void);

#endif /* TREMULA_TF_RUNS_H_ */

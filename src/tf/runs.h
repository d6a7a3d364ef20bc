/* Owns: runs on a thread of their own, of units that read an infeed.
 *
 * A unit that is fed runs while TensorFlow's threads get the elements, so it cannot run inside a
 * kernel. A run has a number; the nodes that feed it and that wait for it name it by that. */
#ifndef TREMULA_TF_RUNS_H_
#define TREMULA_TF_RUNS_H_

#include "feeds.h"
#include "units.h"

typedef struct trm_tf_run trm_tf_run;

/* Starts the unit, whose feeds are those of `call`, and copies `call`. Takes over the caller's
 * use of the unit, the inputs and `taken`, those that the unit takes, also when it fails.
 * Another run of the same infeed that is still there has been left by a step that failed: it is
 * cancelled. */
trm_status trm_tf_run_start(trm_tf_unit *unit, const trm_tf_call *call, trm_tf_inputs *inputs,
                            TF_Tensor **taken, int64_t *out_id, trm_error *error);
/* The run, kept until trm_tf_run_release; fails if it is gone. */
trm_status trm_tf_run_get(int64_t id, trm_tf_run **out, trm_error *error);
void trm_tf_run_release(trm_tf_run *run);

/* Frees the number of a run, which `data` points to: its step is over. A run that is still there
 * was left by a step that failed: it is cancelled, and uses its feeds no more. */
void trm_tf_run_leave(void *data, size_t size, void *argument);

trm_tf_infeed *trm_tf_run_infeed(trm_tf_run *run);
/* Waits for the end; then, unless it failed, output i is handed over as a new tensor. The run is
 * forgotten: nobody can get it any more. */
trm_status trm_tf_run_wait(trm_tf_run *run, trm_error *error);
size_t trm_tf_run_num_outputs(const trm_tf_run *run);
TF_Tensor *trm_tf_run_take_output(trm_tf_run *run, size_t i);

/* ---- For Python ---- */

/* Whether there is a run that was cancelled and whose step has not noticed: it waits for data. */
TRM_TF_API int32_t trm_tf_interrupted_feeds(void);
/* To be called in a forked process: runs and interrupts of its parent's are not its own. */
TRM_TF_API void trm_tf_forked(void);

#endif /* TREMULA_TF_RUNS_H_ */

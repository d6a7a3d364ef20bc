/* Runs on a thread of their own, of programs that read an infeed.
 *
 * A program that is fed runs while TensorFlow's threads get the elements, so it cannot run inside a
 * kernel. A run has a number; the nodes that feed it and that wait for it name it by that. */
#ifndef TREMULA_TF_RUNS_H_
#define TREMULA_TF_RUNS_H_

#include "feeds.h"
#include "programs.h"

typedef struct run run;

/* Starts the program, whose feeds are those of `call`, and copies `call`. Takes over the caller's
 * use of the program, the inputs and `taken`, those that the program takes, also when it fails.
 * Another run of the same infeed that is still there has been left by a step that failed: it is
 * cancelled. */
bool run_start(tf_program *program, const tf_call *call, tf_inputs *inputs, TF_Tensor **taken,
               int64_t *out_id, TF_Status *status);
/* The run, kept until run_release; NULL with a failure if it is gone. */
run *run_get(int64_t id, TF_Status *status);
void run_release(run *run);

/* Frees the number of a run, which `data` points to: its step is over. What is left of the run uses
 * its feeds no more. */
void run_leave(void *data, size_t size, void *argument);

tf_infeed *run_infeed(run *run);
/* Waits for the end; then, unless it failed, hands over output i as a new tensor. The run is
 * forgotten: nobody can get it any more. */
bool run_wait(run *run, TF_Status *status);
size_t run_num_outputs(const run *run);
TF_Tensor *run_take_output(run *run, size_t i);

/* ---- For Python ---- */

/* Whether there is a run that was cancelled and whose step has not noticed: it waits for data. */
TRM_TF_API int32_t trm_tf_interrupted_feeds(void);
/* To be called in a forked process: runs and interrupts of its parent's are not its own. */
TRM_TF_API void trm_tf_forked(void);

#endif /* TREMULA_TF_RUNS_H_ */

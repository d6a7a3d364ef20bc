/* Owns: Ctrl-C while the plugin waits or runs. Python handles SIGINT only when the call into
 * TensorFlow is over, so whoever waits long inside of one looks here and gives up, and runs are
 * cancelled.
 *
 * Three cases. The process's handler is one of its own: it gets the signal and nothing is cancelled
 * (trm_tf_interrupt_cancels). It is Python's, and a session's run blocks the main thread: runs are
 * cancelled, and the signal is held until that run has returned, because TensorFlow makes a
 * RuntimeError of an exception that comes while it reports another (trm_tf_interrupt_hold). It is
 * Python's, and the main thread does something else: runs are cancelled, but for an op that it runs
 * itself, which ends soon, and Python gets it. */
#ifndef TREMULA_TF_INTERRUPT_H_
#define TREMULA_TF_INTERRUPT_H_

#include "tensorflow.h"

/* From trm_tf_interrupt_watch to trm_tf_interrupt_unwatch, which may be nested and in several
 * threads, SIGINT is seen before the process's own handler gets it. Where it has none, nothing is
 * watched. */
void trm_tf_interrupt_watch(void);
void trm_tf_interrupt_unwatch(void);
/* The same around a run of `engine`, of a single op or more, for a session (trm_tf_session_enter),
 * which an interrupt, or the end of the session, cancels meanwhile. Fails with CANCELLED,
 * and watches nothing, if an interrupt is being dealt with: nothing new begins then. */
trm_status trm_tf_interrupt_watch_run(trm_engine *engine, uint64_t session, bool is_one_op,
                                      trm_error *error);
void trm_tf_interrupt_unwatch_run(trm_engine *engine);
/* How many interrupts have cancelled what ran or waited. */
unsigned trm_tf_interrupt_count(void);
/* Whether an interrupt is being dealt with, so that nothing new is to begin. */
bool trm_tf_interrupt_is_due(void);
/* The session for which this thread calls TensorFlow; 0: none that is known. */
uint64_t trm_tf_interrupt_session(void);
/* In a forked process: nothing of its parent's runs here. */
void trm_tf_interrupt_forked(void);

/* ---- For Python ---- */

/* Whether SIGINT cancels what runs (the default) or is left to the process's handler. */
TRM_TF_API void trm_tf_interrupt_cancels(int32_t wanted);
/* From here to trm_tf_interrupt_release the main thread is in TensorFlow, and SIGINT is held. */
TRM_TF_API void trm_tf_interrupt_hold(void);
/* Returns whether a SIGINT was held: raise KeyboardInterrupt then. May come without a hold. */
TRM_TF_API int32_t trm_tf_interrupt_release(void);
/* From now on this thread calls TensorFlow for that session: the nodes that TensorFlow makes
 * meanwhile are its own. 0: for none. Returns the one before. */
TRM_TF_API uint64_t trm_tf_session_enter(uint64_t session);
/* Cancels what nodes of that session run at this moment. */
TRM_TF_API void trm_tf_session_cancel(uint64_t session);
/* Cancels what runs or waits, as SIGINT does, and lets nothing begin before
 * trm_tf_interrupt_resume. */
TRM_TF_API void trm_tf_interrupt_runs(void);
TRM_TF_API void trm_tf_interrupt_resume(void);
/* Whether anything of ours runs or waits. */
TRM_TF_API int32_t trm_tf_interrupt_is_watched(void);

#endif /* TREMULA_TF_INTERRUPT_H_ */

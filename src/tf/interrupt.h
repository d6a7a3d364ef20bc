/* Owns: Ctrl-C while the plugin waits or runs. Python handles SIGINT only when the call into
 * TensorFlow returns. So long waits in the plugin poll for an interrupt, and an interrupt cancels
 * runs.
 *
 * There are three cases:
 * - The process has a handler of its own. It gets the signal, and nothing is cancelled
 * (trm_tf_interrupt_cancels).
 * - The handler is Python's, and a session's run blocks the main thread. Runs are cancelled. The
 * signal is deferred until that run has returned, because TensorFlow makes a RuntimeError of an
 * exception that arrives while it reports another one (trm_tf_interrupt_defer).
 * - The handler is Python's, and the main thread does something else. Runs are cancelled, except an
 * op that the main thread itself runs, which ends soon. Python gets the signal. */
#ifndef TREMULA_TF_INTERRUPT_H_
#define TREMULA_TF_INTERRUPT_H_

#include "tensorflow.h"

/* Between trm_tf_interrupt_watch and trm_tf_interrupt_unwatch, the plugin sees SIGINT before the
 * process's own handler does. Watches may be nested and in several threads. Without a handler of
 * the process nothing is watched. */
void trm_tf_interrupt_watch(void);
void trm_tf_interrupt_unwatch(void);
/* A watch around a run of `engine`, of a single op or more, for a session (trm_tf_session_enter).
 * An interrupt, or the end of the session, cancels the run. Fails with CANCELLED, without a watch,
 * while an interrupt is being handled, because nothing new begins then. */
trm_status trm_tf_interrupt_watch_run(trm_engine *engine, uint64_t session, bool is_one_op,
                                      trm_error *error);
void trm_tf_interrupt_unwatch_run(trm_engine *engine);
/* The number of interrupts that have cancelled something. */
unsigned trm_tf_interrupt_count(void);
/* Whether an interrupt is being handled, so that nothing new may begin. */
bool trm_tf_interrupt_is_due(void);
/* The session for which this thread calls TensorFlow; 0: unknown. */
uint64_t trm_tf_interrupt_session(void);
/* For a forked process, in which no run of its parent exists. */
void trm_tf_interrupt_forked(void);

/* ---- For Python ---- */

/* Sets whether SIGINT cancels runs (the default) or belongs to the process's handler. */
TRM_TF_API void trm_tf_interrupt_cancels(int32_t wanted);
/* Until trm_tf_interrupt_release the main thread is in TensorFlow, and SIGINT is deferred. */
TRM_TF_API void trm_tf_interrupt_defer(void);
/* Returns whether a SIGINT was pending; the caller raises KeyboardInterrupt then. May be called
 * without trm_tf_interrupt_defer. */
TRM_TF_API int32_t trm_tf_interrupt_release(void);
/* Sets the session for which this thread calls TensorFlow: nodes that TensorFlow makes belong to
 * it. 0: none. Returns the previous one. */
TRM_TF_API uint64_t trm_tf_session_enter(uint64_t session);
/* Cancels the current runs of the session's nodes. */
TRM_TF_API void trm_tf_session_cancel(uint64_t session);
/* Cancels all runs and waits, as SIGINT does. Nothing begins before trm_tf_interrupt_resume. */
TRM_TF_API void trm_tf_interrupt_runs(void);
TRM_TF_API void trm_tf_interrupt_resume(void);
/* Whether any run or wait of the plugin is in progress. */
TRM_TF_API int32_t trm_tf_interrupt_is_watched(void);

#endif /* TREMULA_TF_INTERRUPT_H_ */

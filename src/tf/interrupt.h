/* Ctrl-C while the plugin waits or runs. Python handles SIGINT only when the call into TensorFlow
 * is over, so whoever waits long inside of one looks here and gives up, and runs are cancelled. */
#ifndef TREMULA_TF_INTERRUPT_H_
#define TREMULA_TF_INTERRUPT_H_

#include "tremula/tremula.h"

/* From interrupt_watch to interrupt_unwatch, which may be nested and in several threads, SIGINT is
 * counted before the process's own handler gets it. Where it has none, nothing is watched. */
void interrupt_watch(void);
void interrupt_unwatch(void);
/* The same around a run of `engine`, which a SIGINT cancels meanwhile. */
void interrupt_watch_run(trm_engine *engine);
void interrupt_unwatch_run(trm_engine *engine);
/* How many there have been while somebody watched. */
unsigned interrupt_count(void);

#endif /* TREMULA_TF_INTERRUPT_H_ */

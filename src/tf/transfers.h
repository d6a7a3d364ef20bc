/* What an IPU would load and move for runs, told as events (docs/events.md): a program when another
 * one ran before, variables when the host has written them or a program has just been loaded, and
 * back when the host reads one or another program comes. Inputs and results that are no variables
 * are streams, of which there are no events. Nothing is moved here: arrays are where they are. */
#ifndef TREMULA_TF_TRANSFERS_H_
#define TREMULA_TF_TRANSFERS_H_

#include <stdint.h>

#include "tremula/tremula.h"

/* A run of a program on a device. Inputs from `first_variable` on are variables. */
typedef struct transfer_run {
  int ordinal;
  uint64_t program; /* its number, not 0 */
  const char *name;
  const trm_executable *executable;
  const void *const *inputs;
  void *const *outputs;
  size_t first_variable;
} transfer_run;

/* Both do nothing unless events of transfers are recorded. */
void transfers_before_run(const transfer_run *run);
void transfers_after_run(const transfer_run *run);
/* The host reads this block of device memory. */
void transfers_note_read(const void *block);

#endif /* TREMULA_TF_TRANSFERS_H_ */

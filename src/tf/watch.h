/* Everything that is told of a compilation while it goes on: events, dumps, the progress bar, log
 * lines. */
#ifndef TREMULA_TF_WATCH_H_
#define TREMULA_TF_WATCH_H_

#include "dumps.h"
#include "progress.h"

/* Begin with the ordinal of the TF device and zeros. */
typedef struct compile_watch {
  int ordinal;
  char *name;      /* of the program; for the program to take when all is done */
  bool is_on;      /* something is being compiled */
  bool has_events; /* it needs a device */
  double began;
  size_t passes; /* so far */
  dumps dumps;
  progress *bar;
} compile_watch;

/* Names the program, after its module. False when memory has run out. */
bool watch_name(compile_watch *watch, const char *module);
void watch_begin(compile_watch *watch, const trm_module *module);
/* A trm_inspect_observer, whose context is the watch. */
trm_status watch_pass(const char *pass, const trm_module *module, void *watch, trm_error *error);
void watch_stage(compile_watch *watch, progress_stage stage);
/* The end, of a compilation too that there was not. NULL: it has failed. */
void watch_end(compile_watch *watch, trm_executable *executable);

#endif /* TREMULA_TF_WATCH_H_ */

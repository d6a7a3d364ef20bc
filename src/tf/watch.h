/* Owns: observing a compilation: events, dumps, the progress bar, log lines. */
#ifndef TREMULA_TF_WATCH_H_
#define TREMULA_TF_WATCH_H_

#include "dumps.h"

typedef struct trm_tf_progress trm_tf_progress;

/* The parts of a compilation, in order. */
typedef enum trm_tf_stage {
  TRM_TF_STAGE_PASSES,   /* the compiler's passes */
  TRM_TF_STAGE_KERNELS,  /* the kernels of the host */
  TRM_TF_STAGE_PLANNING, /* the estimate for an IPU */
  TRM_TF_STAGE_ENGINE,
  TRM_TF_STAGE_FINISHED
} trm_tf_stage;

/* The state of a watch. It begins with the ordinal of the TF device and zeros. */
typedef struct trm_tf_watch {
  int ordinal;
  char *name;      /* the name of the unit, which takes it over at the end */
  bool is_on;      /* something is being compiled */
  bool has_events; /* it needs a device */
  double began;    /* in milliseconds */
  size_t passes;   /* so far */
  trm_tf_dumps dumps;
  trm_tf_progress *bar; /* NULL: none is shown */
} trm_tf_watch;

/* Makes a unique name of the module's: fit for a file's name, and with a number from the second use
 * on. Free it with trm_free; NULL: out of memory. */
char *trm_tf_claim_name(const char *module);

/* Names the compilation after its module. False: out of memory. */
bool trm_tf_watch_name(trm_tf_watch *watch, const char *module);
void trm_tf_watch_begin(trm_tf_watch *watch, const trm_module *module);
/* A trm_inspect_observer, whose context is the watch. */
trm_status trm_tf_watch_pass(const char *pass, const trm_module *module, void *watch,
                             trm_error *error);
void trm_tf_watch_stage(trm_tf_watch *watch, trm_tf_stage stage);
/* Ends the watch, also if nothing was compiled. NULL: the compilation has failed. */
void trm_tf_watch_end(trm_tf_watch *watch, trm_executable *executable);

/* ---- For Python ---- */

typedef enum trm_tf_progress_mode {
  TRM_TF_PROGRESS_NEVER,
  TRM_TF_PROGRESS_ALWAYS,
  TRM_TF_PROGRESS_AUTO
} trm_tf_progress_mode;
/* --show_progress_bar: a trm_tf_progress_mode. AUTO: a bar on a terminal, without detailed logging,
 * for modules with at least five of the operations that compile slowly for an IPU. */
TRM_TF_API void trm_tf_show_progress(int32_t mode);

#endif /* TREMULA_TF_WATCH_H_ */

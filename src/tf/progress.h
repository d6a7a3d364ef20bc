/* --show_progress_bar: how far a compilation is, on standard error. */
#ifndef TREMULA_TF_PROGRESS_H_
#define TREMULA_TF_PROGRESS_H_

#include "tensorflow.h"
#include "tremula/inspect.h"

typedef struct progress progress;

/* The parts of a compilation, in order. */
typedef enum progress_stage {
  PROGRESS_PASSES,   /* the compiler's passes */
  PROGRESS_KERNELS,  /* what the host computes with */
  PROGRESS_PLANNING, /* what an IPU would need */
  PROGRESS_ENGINE,
  PROGRESS_FINISHED
} progress_stage;

/* Begins a bar for a module, under the name `name`, which must live as long as it. NULL: there is
 * none to be shown, which the others take. */
progress *progress_begin(const char *name, const trm_module *module);
/* `done` of `total` pieces of the stage are done. */
void progress_update(progress *bar, progress_stage stage, size_t done, size_t total);
/* Ends the bar's line; with `finished` it is full. Frees it. */
void progress_end(progress *bar, bool finished);

/* ---- For Python ---- */

typedef enum tf_progress_mode {
  TF_PROGRESS_NEVER,
  TF_PROGRESS_ALWAYS,
  TF_PROGRESS_AUTO
} tf_progress_mode;
/* A tf_progress_mode. AUTO: on a terminal, when nothing is logged in detail, for programs with at
 * least five of the operations that take long to compile on an IPU. */
TRM_TF_API void trm_tf_show_progress(int32_t mode);

#endif /* TREMULA_TF_PROGRESS_H_ */

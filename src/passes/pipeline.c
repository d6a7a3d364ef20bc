/* Owns: the order of the passes. */
#include "passes/pass.h"

typedef struct pass_row {
  const char *name;
  trm_pass_fn run;
  bool always; /* the engine cannot do without */
} pass_row;

static const pass_row pipeline[] = {
    {"inline", trm_pass_inline, true},
    {"simplify-tuples", trm_pass_simplify_tuples, true},
    {"simplify", trm_pass_simplify, false},
    {"fold-constants", trm_pass_fold_constants, false},
    {"common-subexpressions", trm_pass_common_subexpressions, false},
    {"expand-batch-norm", trm_pass_expand_batch_norm, false},
    {"simplify-tuples-again", trm_pass_simplify_tuples, false},
    {"simplify-again", trm_pass_simplify, false},
    {"hoist", trm_pass_hoist, false},
    {"common-subexpressions-again", trm_pass_common_subexpressions, false},
    {"fuse", trm_pass_fuse, false},
    {"unique-names", trm_pass_unique_names, true},
};

enum { NUM_PASSES = sizeof pipeline / sizeof *pipeline };

trm_status trm_passes_run(trm_module *module, bool optimise, trm_pass_observer observer,
                          void *context, trm_error *error) {
  for (size_t i = 0; i < NUM_PASSES; ++i) {
    if (!optimise && !pipeline[i].always) continue;
    TRY_NOTE(pipeline[i].run(module, error), "in pass %s", pipeline[i].name);
    if (observer != NULL) TRY(observer(pipeline[i].name, module, context, error));
  }
  return TRM_OK;
}

const char *trm_pass_name(size_t i) { return i < NUM_PASSES ? pipeline[i].name : NULL; }

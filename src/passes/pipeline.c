/* Owns: the order of the passes, in three tables: those that the host and an IPU share, the host's,
 * the IPU's. */
#include <stdio.h>
#include <string.h>

#include "base/wait.h"
#include "passes/pass.h"
#include "timeline/mark.h"
#include "tremula/log.h"

typedef struct pass_row {
  const char *name; /* unique: a pass that runs again is "NAME-again", then "NAME-again-2" */
  trm_pass_fn run;
  enum {
    ALWAYS, /* the engine needs it */
    OPTIMISING,
    HIDING,  /* optimising, and some results are then in no memory */
    PLANNING /* the module can be planned after it, but not run */
  } when;
  trm_status (*run_with)(trm_module *module, const trm_pass_settings *settings, trm_error *error);
} pass_row;

static trm_status round_halves(trm_module *module, const trm_pass_settings *settings,
                               trm_error *error) {
  if (settings->float_halves) return TRM_OK;
  return trm_pass_round_halves(module, &settings->rounding, error);
}

static trm_status float_halves(trm_module *module, const trm_pass_settings *settings,
                               trm_error *error) {
  return settings->float_halves ? trm_pass_float_halves(module, error) : TRM_OK;
}

static trm_status distribute_batch_norm(trm_module *module, const trm_pass_settings *settings,
                                        trm_error *error) {
  return trm_pass_distribute_batch_norm(module, settings->batch_norm_group,
                                        settings->rounding.replicas, error);
}

static trm_status accelerate(trm_module *module, const trm_pass_settings *settings,
                             trm_error *error) {
  return trm_pass_accelerate(module, &settings->accelerator, error);
}

static trm_status combine_collectives(trm_module *module, const trm_pass_settings *settings,
                                      trm_error *error) {
  return trm_pass_combine_collectives(module, &settings->combining, error);
}

static trm_status recompute(trm_module *module, const trm_pass_settings *settings,
                            trm_error *error) {
  if (settings->recomputation == NULL) return TRM_OK;
  return trm_pass_recompute(module, settings->recomputation, error);
}

static const pass_row shared[] = {
    {"synchronous", trm_pass_synchronous, ALWAYS, NULL},
    {"inline", trm_pass_inline, ALWAYS, NULL},
    {"simplify-tuples", trm_pass_simplify_tuples, ALWAYS, NULL},
    {"dynamic", trm_pass_dynamic, ALWAYS, NULL},
    {"widen-halves", trm_pass_widen_halves, ALWAYS, NULL},
    {"distribute-batch-norm", NULL, ALWAYS, distribute_batch_norm},
    {"simplify", trm_pass_simplify, OPTIMISING, NULL},
    {"fold-constants", trm_pass_fold_constants, HIDING, NULL},
    {"common-subexpressions", trm_pass_common_subexpressions, OPTIMISING, NULL},
    {"expand-batch-norm", trm_pass_expand_batch_norm, OPTIMISING, NULL},
    {"simplify-tuples-again", trm_pass_simplify_tuples, OPTIMISING, NULL},
    {"simplify-again", trm_pass_simplify, OPTIMISING, NULL},
    {"hoist", trm_pass_hoist, OPTIMISING, NULL},
    {"common-subexpressions-again", trm_pass_common_subexpressions, OPTIMISING, NULL},
    {"top-k", trm_pass_top_k, HIDING, NULL},
    {"unique-names", trm_pass_unique_names, ALWAYS, NULL},
};

static const pass_row host[] = {
    {"round-halves", NULL, ALWAYS, round_halves},
    {"float-halves", NULL, ALWAYS, float_halves},
    {"rare-forms", trm_pass_rare_forms, HIDING, NULL},
    {"recompute-slices", trm_pass_recompute_slices, HIDING, NULL},
    {"drop-state", trm_pass_drop_state, HIDING, NULL},
    {"batch-products", trm_pass_batch_products, HIDING, NULL},
    {"defer-products", trm_pass_defer_products, HIDING, NULL},
    {"sink-slices", trm_pass_sink_slices, HIDING, NULL},
    {"hoist-again", trm_pass_hoist, HIDING, NULL},
    {"lean-norms", trm_pass_lean_norms, HIDING, NULL},
    {"share-sums", trm_pass_share_sums, HIDING, NULL},
    {"common-subexpressions-again-2", trm_pass_common_subexpressions, HIDING, NULL},
    {"combine-collectives", NULL, HIDING, combine_collectives},
    {"accelerate", NULL, HIDING, accelerate},
    {"widen-bfloat16", trm_pass_widen_bfloat16, HIDING, NULL},
    {"fuse", trm_pass_fuse, HIDING, NULL},
    {"group-rows", trm_pass_group_rows, HIDING, NULL},
    {"join-attention", trm_pass_join_attention, HIDING, NULL},
    {"fuse-sums", trm_pass_fuse_sums, HIDING, NULL},
    {"group-reductions", trm_pass_group_reductions, HIDING, NULL},
    {"unique-names-again", trm_pass_unique_names, ALWAYS, NULL},
};

static const pass_row ipu[] = {
    /* The shared passes leave these out where an option of the host's keeps all instructions. */
    {"fold-constants-again", trm_pass_fold_constants, ALWAYS, NULL},
    {"top-k-again", trm_pass_top_k, ALWAYS, NULL},
    {"popops-functions", trm_pass_popops_functions, ALWAYS, NULL},
    {"multi-conv", trm_pass_multi_conv, ALWAYS, NULL},
    {"outlined-calls", trm_pass_outlined_calls, ALWAYS, NULL},
    {"place-together", trm_pass_place_together, ALWAYS, NULL},
    {"order-calls", trm_pass_order_calls, ALWAYS, NULL},
    {"unique-names-again-2", trm_pass_unique_names, ALWAYS, NULL},
    {"narrow", trm_pass_narrow, PLANNING, NULL},
    {"recompute", NULL, PLANNING, recompute},
    {"library-calls", trm_pass_library_calls, PLANNING, NULL},
};

#define TABLE(rows) {rows, sizeof rows / sizeof *rows}
static const struct pass_table {
  const pass_row *rows;
  size_t count;
} tables[] = {
    [TRM_PASSES_SHARED] = TABLE(shared),
    [TRM_PASSES_HOST] = TABLE(host),
    [TRM_PASSES_IPU] = TABLE(ipu),
};

static const char origin[] = "COMPILER";

static uint64_t count_instructions(const trm_module *module) {
  uint64_t count = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    count += module->computations[c].num_instructions;
  }
  return count;
}

static void log_module(const trm_module *module, const char *what) {
  if (!trm_log_enabled(TRM_LOG_INFO, origin)) return;
  const unsigned long long count = count_instructions(module);
  trm_log(TRM_LOG_INFO, origin, "%s the module %s: %llu instruction%s in %u computation%s", what,
          module->name, count, count == 1 ? "" : "s", module->num_computations,
          module->num_computations == 1 ? "" : "s");
}

/* Whether `name`, of `length` characters, is the pass or an earlier run of it ("simplify-again",
 * "simplify-again-2"). */
static bool is_named(const char *pass, const char *name, size_t length) {
  return strncmp(pass, name, length) == 0 &&
         (pass[length] == '\0' || strncmp(pass + length, "-again", strlen("-again")) == 0);
}

/* An optimising pass that `name` names, in the tables that disabled_passes is about; or NULL. */
static const pass_row *find_optimising(const char *name, size_t length) {
  for (int t = TRM_PASSES_SHARED; t <= TRM_PASSES_HOST; ++t) {
    const pass_row *end = tables[t].rows + tables[t].count;
    for (const pass_row *pass = tables[t].rows; pass < end; ++pass) {
      if (pass->when != ALWAYS && is_named(pass->name, name, length)) return pass;
    }
  }
  return NULL;
}

static bool is_disabled(const pass_row *pass, const char *disabled) {
  if (pass->when == ALWAYS) return false;
  for (const char *name = disabled; name != NULL && *name != '\0';) {
    const size_t length = strcspn(name, ",");
    if (is_named(pass->name, name, length)) return true;
    name += length + (name[length] == ',');
  }
  return false;
}

/* Writes the names of the passes that can be disabled, separated by commas. */
static void list_optimising(char *out, size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (int t = TRM_PASSES_SHARED; t <= TRM_PASSES_HOST; ++t) {
    for (size_t i = 0; i < tables[t].count && used < size; ++i) {
      const pass_row *pass = &tables[t].rows[i];
      if (pass->when == ALWAYS || strstr(pass->name, "-again") != NULL) continue;
      used += (size_t)snprintf(out + used, size - used, "%s%s", used == 0 ? "" : ", ", pass->name);
    }
  }
}

static trm_status check_disabled(const char *disabled, trm_error *error) {
  for (const char *name = disabled; name != NULL && *name != '\0';) {
    const size_t length = strcspn(name, ",");
    if (find_optimising(name, length) == NULL) {
      char all[512];
      list_optimising(all, sizeof all);
      FAIL(INVALID_ARGUMENT,
           "option disabled_passes names '%.*s', which is no optimising pass; these are: %s",
           (int)length, name, all);
    }
    name += length + (name[length] == ',');
  }
  return TRM_OK;
}

/* Runs a pass; logs the number of instructions before and after, and the time. */
static trm_status run_pass(const pass_row *pass, trm_module *module,
                           const trm_pass_settings *settings, trm_error *error) {
  const bool logs = trm_log_enabled(TRM_LOG_INFO, origin);
  const uint64_t before = logs ? count_instructions(module) : 0;
  const double start = logs ? trm_now_ms() : 0;
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_POPLAR, "pass %s", pass->name);
  const trm_status status =
      pass->run != NULL ? pass->run(module, error) : pass->run_with(module, settings, error);
  trm_mark_end(&mark);
  TRY_NOTE(status, "in pass %s", pass->name);
  if (logs) {
    trm_log(TRM_LOG_INFO, origin, "pass %-27s %8llu -> %8llu instructions %9.2f ms", pass->name,
            (unsigned long long)before, (unsigned long long)count_instructions(module),
            trm_now_ms() - start);
  }
  return TRM_OK;
}

/* Runs the rows of a table that plan, or those that do not. */
static trm_status run_table(trm_pass_table table, bool plans, trm_module *module,
                            const trm_pass_settings *settings, trm_pass_observer observer,
                            void *context, trm_error *error) {
  const pass_row *end = tables[table].rows + tables[table].count;
  for (const pass_row *pass = tables[table].rows; pass < end; ++pass) {
    if ((pass->when == PLANNING) != plans) continue;
    if (!settings->optimise && pass->when != ALWAYS) continue;
    if (is_disabled(pass, settings->disabled)) continue;
    if (settings->keep_instructions && pass->when == HIDING) continue;
    TRY(run_pass(pass, module, settings, error));
    if (observer != NULL) TRY(observer(pass->name, module, context, error));
  }
  return TRM_OK;
}

trm_status trm_passes_run(trm_module *module, const trm_pass_settings *settings,
                          trm_pass_observer observer, void *context, trm_error *error) {
  TRY(check_disabled(settings->disabled, error));
  log_module(module, "compiling");
  return run_table(TRM_PASSES_SHARED, false, module, settings, observer, context, error);
}

trm_status trm_passes_run_host(trm_module *module, const trm_pass_settings *settings,
                               trm_pass_observer observer, void *context, trm_error *error) {
  TRY(run_table(TRM_PASSES_HOST, false, module, settings, observer, context, error));
  log_module(module, "optimised");
  return TRM_OK;
}

trm_status trm_passes_run_ipu(trm_module *module, trm_pass_observer observer, void *context,
                              trm_error *error) {
  const trm_pass_settings settings = {.optimise = true};
  return run_table(TRM_PASSES_IPU, false, module, &settings, observer, context, error);
}

trm_status trm_passes_run_planning(trm_module *module, trm_recomputation *recomputation,
                                   trm_pass_observer observer, void *context, trm_error *error) {
  const trm_pass_settings settings = {.optimise = true, .recomputation = recomputation};
  return run_table(TRM_PASSES_IPU, true, module, &settings, observer, context, error);
}

const char *trm_pass_name(trm_pass_table table, size_t i) {
  return i < tables[table].count ? tables[table].rows[i].name : NULL;
}

/* Owns: what would help a program that does not fit, in brief. What each change may save is worked
 * out from the plan of the program as it is. The one that promises most is planned (docs/plan.md
 * says what that costs). */
#include "ipu/program/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cycles.h"
#include "ipu/plan/plan.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"
#include "passes/pass.h"

enum { MOST_PROMISES = 5, MOST_PLANS = 1 };
/* Parts that need more than this share of a tile by the model of cuts, which errs by some percent,
 * are not worth their plan. */
static const double HOPELESS = 1.1;
enum { LEAST_PART = 1000 }; /* what saves less than a thousandth of a tile is no help by itself */

/* A change, and the bytes that it may save on the fullest tile. */
typedef struct promise {
  trm_change change;
  double saved;
  bool is_hopeless; /* what is known of it makes a plan a waste */
} promise;

/* ---- The list -------------------------------------------------------------------------------- */

static trm_status add(const trm_program *program, trm_advice advice, trm_advice_list *list,
                      trm_error *error) {
  advice.saved = program->totals.worst_tile_bytes - advice.worst_tile_bytes;
  const int64_t least = advice.fits ? 1 : program->totals.bytes_per_tile / LEAST_PART;
  if (advice.saved < least) return TRM_OK; /* it would not help */
  if (!VECTOR_PUSH(list, advice)) FAIL_NO_MEMORY("advice");
  return TRM_OK;
}

trm_status trm_advice_add_planned(const trm_program *program, const trm_change *change,
                                  const trm_program *changed, trm_advice_list *list,
                                  trm_error *error) {
  trm_advice advice = {.worst_tile_bytes = changed->totals.worst_tile_bytes,
                       .fits = changed->totals.fits,
                       .is_planned = true,
                       .num_ipus = changed->totals.num_ipus,
                       .cycles = changed->totals.cycles};
  trm_change_text(change, advice.text);
  return add(program, advice, list, error);
}

static trm_status add_worked_out(const trm_program *program, const char *what, int64_t worst,
                                 trm_advice_list *list, trm_error *error) {
  trm_advice advice = {.worst_tile_bytes = worst,
                       .fits = worst <= program->totals.bytes_per_tile,
                       .num_ipus = program->num_ipus};
  snprintf(advice.text, sizeof advice.text, "%s (worked out, not planned)", what);
  return add(program, advice, list, error);
}

static int by_use(const void *a, const void *b) {
  const trm_advice *l = a, *r = b;
  if (l->fits != r->fits) return l->fits ? -1 : 1;
  if (l->fits && l->is_planned != r->is_planned) return l->is_planned ? -1 : 1;
  return (l->saved < r->saved) - (l->saved > r->saved);
}

void trm_advice_sort(trm_advice_list *list) {
  if (list->count > 1) qsort(list->items, list->count, sizeof *list->items, by_use);
}

/* ---- What changes promise -------------------------------------------------------------------- */

/* The bytes of the fullest tile at its fullest step, by what a change would shrink. */
typedef struct fullest {
  int64_t float32;    /* arrays of float32, and temporaries of steps that give some */
  int64_t of_plans;   /* temporaries of convolutions and products */
  int64_t of_update;  /* what outputs update: weights and the optimizer's state */
  int64_t of_weights; /* what is not always live and as large as a weight: gradients, updates */
} fullest;

/* Temporaries of steps whose results are halves stay as they are in a program of halves. */
static bool gives_float32(const trm_program *program, uint32_t source) {
  if (source == TRM_NO_INDEX) return false;
  const trm_program_source *o = &program->sources[source];
  const trm_computation *computation = &program->module->computations[o->computation];
  return computation->instructions[o->instruction].shape.dtype == TRM_F32;
}

static bool is_planned_kind(const trm_program *program, uint32_t source) {
  return source != TRM_NO_INDEX && program->sources[source].plan != NULL;
}

static int by_bytes(const void *a, const void *b) {
  const int64_t *l = a, *r = b;
  return (*l > *r) - (*l < *r);
}

/* The sizes of all weights, sorted. */
static trm_status sizes_of_weights(const trm_program *program, int64_t **out, size_t *out_count,
                                   trm_error *error) {
  int64_t *sizes = trm_allocate_zeroed((size_t)program->num_variables + 1, sizeof *sizes);
  CHECK_MEMORY(sizes, "advice");
  size_t count = 0;
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    if (program->variables[v].is_weight) sizes[count++] = program->variables[v].total_bytes;
  }
  qsort(sizes, count, sizeof *sizes, by_bytes);
  *out = sizes;
  *out_count = count;
  return TRM_OK;
}

static trm_status look_at_fullest(const trm_program *program, fullest *out, trm_error *error) {
  int64_t *sizes;
  size_t num_sizes;
  TRY(sizes_of_weights(program, &sizes, &num_sizes, error));
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *o = &program->variables[v];
    const int64_t here =
        trm_program_bytes_on(program, o, program->totals.worst_tile, program->totals.worst_step);
    if (here < 0) continue;
    const bool temporary = !o->always_live && o->dtype == TRM_U8;
    if (o->dtype == TRM_F32 || (temporary && gives_float32(program, o->source))) {
      out->float32 += here;
    }
    if (temporary && is_planned_kind(program, o->source)) out->of_plans += here;
    if (o->is_updated) out->of_update += here;
    if (!o->always_live && bsearch(&o->total_bytes, sizes, num_sizes, sizeof *sizes, by_bytes)) {
      out->of_weights += here;
    }
  }
  trm_free(sizes);
  return TRM_OK;
}

/* What recomputation takes off all tiles, found by its pass alone. */
static trm_status recomputed_bytes(const trm_program *program, double *out, trm_error *error) {
  trm_module *copy;
  TRY(trm_module_clone_lightly(program->module, &copy, error));
  trm_recomputation recomputation = {.order = trm_program_order_kind(&program->options)};
  const trm_status status = trm_passes_run_planning(copy, &recomputation, NULL, NULL, error);
  trm_module_free(copy);
  *out = (double)recomputation.bytes / (double)program->memory.num_tiles;
  return status;
}

static trm_status promise_shards(const trm_program *program, uint32_t most, promise *out,
                                 trm_error *error) {
  double bytes;
  *out = (promise){.change = {.first_cut = true}};
  TRY(trm_program_promising_shards(program, most, &out->change.shards, &bytes, error));
  out->saved = (double)program->totals.worst_tile_bytes - bytes;
  out->is_hopeless = bytes > HOPELESS * (double)program->totals.bytes_per_tile;
  return TRM_OK;
}

static trm_status find_promises(const trm_program *program, const fullest *now, promise *out,
                                size_t *out_count, trm_error *error) {
  const double worst = (double)program->totals.worst_tile_bytes;
  trm_change possible;
  size_t count = 0;
  TRY(trm_change_find_possible(program, &possible, error));
  if (possible.half) {
    out[count++] = (promise){.change = {.half = true}, .saved = (double)now->float32 / 2};
  }
  if (possible.proportion > 0.1 && trm_plan_cache_exceeds(program->plans, program->target, 0.1)) {
    out[count++] = (promise){.change = {.proportion = 0.1},
                             .saved = (double)now->of_plans * (1 - 0.1 / possible.proportion)};
  }
  if (possible.offload) {
    out[count++] = (promise){.change = {.offload = true}, .saved = (double)now->of_update / 2};
  }
  if (possible.shards > 1) {
    TRY(promise_shards(program, possible.shards, &out[count++], error));
  }
  if (possible.recompute) {
    double saved = worst / 3; /* of a pipeline, whose stages recompute all */
    if (!program->pipeline.present) TRY(recomputed_bytes(program, &saved, error));
    out[count++] = (promise){.change = {.recompute = true}, .saved = saved};
  }
  *out_count = count;
  return TRM_OK;
}

/* Whether a program is given anything; one that makes its values itself, as initialisers of
 * variables do, has no batch. */
static bool has_data(const trm_program *program) {
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    if (program->variables[v].is_input) return true;
  }
  const trm_module *module = program->module;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      if (trm_instruction_acts_as(&computation->instructions[i]) == TRM_OP_INFEED) return true;
    }
  }
  return false;
}

static trm_status add_half_batch(const trm_program *program, const fullest *now,
                                 trm_advice_list *list, trm_error *error) {
  if (!has_data(program)) return TRM_OK;
  const int64_t grows =
      program->memory.not_always_live[program->totals.worst_tile] - now->of_weights;
  return add_worked_out(program, "half the batch",
                        program->totals.worst_tile_bytes - trm_most(0, grows) / 2, list, error);
}

trm_status trm_advice_add_batch(const trm_program *program, trm_advice_list *list,
                                trm_error *error) {
  fullest now = {0};
  TRY(look_at_fullest(program, &now, error));
  return add_half_batch(program, &now, list, error);
}

static int by_promise(const void *a, const void *b) {
  const promise *l = a, *r = b;
  return (l->saved < r->saved) - (l->saved > r->saved);
}

trm_status trm_program_find_advice(const trm_program *program, trm_advice_list *list,
                                   trm_error *error) {
  promise promises[MOST_PROMISES];
  fullest now = {0};
  size_t count;
  TRY(look_at_fullest(program, &now, error));
  TRY(find_promises(program, &now, promises, &count, error));
  qsort(promises, count, sizeof *promises, by_promise);
  size_t plans = 0;
  for (size_t p = 0; p < count; ++p) {
    const trm_change *change = &promises[p].change;
    if (promises[p].saved <= 0) break;
    if (plans < MOST_PLANS && !promises[p].is_hopeless) {
      trm_program *changed;
      TRY(trm_change_plan(program, change, &changed, error));
      if (changed == NULL) continue; /* it cannot be cut */
      ++plans;
      const trm_status added = trm_advice_add_planned(program, change, changed, list, error);
      trm_program_free(changed);
      TRY(added);
    } else {
      char text[TRM_CHANGE_TEXT];
      trm_change_text(change, text);
      TRY(add_worked_out(program, text,
                         program->totals.worst_tile_bytes - (int64_t)promises[p].saved, list,
                         error));
    }
  }
  TRY(add_half_batch(program, &now, list, error));
  trm_advice_sort(list);
  return TRM_OK;
}

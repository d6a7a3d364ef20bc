/* Owns: creating a program and its public accessors (tremula/program.h). */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/sized.h"
#include "ipu/plan/plan.h"
#include "ipu/program/draft.h"
#include "ipu/program/plan_options.h"
#include "ipu/target/target.h"
#include "passes/pass.h"
#include "timeline/mark.h"

trm_program_options trm_program_default_options(void) {
#define DEFAULT_FLAG(value) value
#define DEFAULT_TEXT(value) NULL
#define DEFAULT_TILES(value) value
#define DEFAULT_NUMBER(value) value
#define DEFAULT_BYTES(value) value
#define DEFAULT_PROPORTION(value) value
#define DEFAULT_SHARE(value) value
#define DEFAULT_WORD(type) DEFAULT_WORDS
#define DEFAULT_WORDS(value) 0
  trm_program_options options = {
#define ESTIMATE(key, kind, value, use, help, member) .member = DEFAULT_##kind(value),
#include "base/options.def"
      .size = sizeof options,
      .replicas = 1,
      .assumed_trip_count = 1,
      .outlining = true,
      .model_error = -1};
  options.matmul_memory_proportion = options.conv_memory_proportion;
  return options;
}

void trm_program_options_init(trm_program_options *options) {
  const trm_program_options defaults = trm_program_default_options();
  (void)TRM_GIVE(options, defaults);
}

static trm_status check_options(const trm_program_options *options, const trm_target *target,
                                trm_error *error) {
  const struct {
    const char *name;
    double value;
  } proportions[] = {{"convolutions", options->conv_memory_proportion},
                     {"matmuls", options->matmul_memory_proportion},
                     {"slices", options->slice_memory_proportion}};
  for (size_t p = 0; p < sizeof proportions / sizeof *proportions; ++p) {
    if (!(proportions[p].value >= 0 && proportions[p].value <= 1)) {
      FAIL(INVALID_ARGUMENT,
           "availableMemoryProportion of %s must be from 0 to 1, the share of a tile's memory that "
           "temporaries may take; it is %g",
           proportions[p].name, proportions[p].value);
    }
  }
  if (!(options->io_tile_memory_proportion >= 0)) {
    FAIL(INVALID_ARGUMENT, "the share of the I/O tiles' memory must not be negative; it is %g",
         options->io_tile_memory_proportion);
  }
  if ((unsigned)options->framework_steps > TRM_FRAMEWORK_STEPS_OFF) {
    FAIL(INVALID_ARGUMENT, "framework_steps is %d, which is no trm_framework_steps",
         (int)options->framework_steps);
  }
  if (options->replicas < 1) FAIL(INVALID_ARGUMENT, "there must be at least one replica");
  if (options->num_ipus > 1024) {
    FAIL(INVALID_ARGUMENT, "a replica of %u IPUs is too large: at most 1024", options->num_ipus);
  }
  if (options->io_tiles >= target->tiles_per_ipu) {
    FAIL(INVALID_ARGUMENT, "%u I/O tiles leave no tile of %u for computing", options->io_tiles,
         target->tiles_per_ipu);
  }
  if (options->assumed_trip_count < 1 || options->assumed_trip_count > (uint64_t)1 << 53) {
    FAIL(INVALID_ARGUMENT, "assumed_trip_count must be at least 1 and at most 2^53");
  }
  if (!(options->model_error <= 1)) {
    FAIL(INVALID_ARGUMENT, "model_error must be at most 1, not %g", options->model_error);
  }
  return TRM_OK;
}

/* Options of convolutions or matmuls: the proportion, the partials type, then PopLibs' own options.
 */
static trm_status plan_options(const trm_program_options *options, double proportion,
                               const char *json, const char *what, trm_arena *arena,
                               trm_plan_options *out, trm_error *error) {
  *out = trm_plan_options_default();
  out->available_memory_proportion = proportion;
  if (options->half_partials) {
    TRY(trm_plan_option_set(out, "partialsType", "half", error));
  }
  if (json == NULL || json[0] == '\0') return TRM_OK;
  json_t *object = json_loads(json, 0, NULL);
  const trm_status status = trm_program_add_plan_options(object, what, arena, out, error);
  json_decref(object);
  return status;
}

static trm_status copy_options(trm_program *program, const trm_program_options *options,
                               trm_error *error) {
  program->options = trm_program_default_options();
  if (options != NULL) {
    TRY(trm_sized_take(options, &program->options, sizeof program->options, "trm_program_options",
                       error));
  }
  const char **texts[] = {&program->options.convolution_options, &program->options.matmul_options};
  for (size_t t = 0; t < sizeof texts / sizeof *texts; ++t) {
    if (*texts[t] == NULL) continue;
    *texts[t] = trm_arena_string(&program->arena, *texts[t], strlen(*texts[t]));
    CHECK_MEMORY(*texts[t], "a program");
  }
  if (program->options.recompute_layers == NULL) return TRM_OK;
  const char *const *layers = program->options.recompute_layers;
  size_t count = 0;
  while (layers[count] != NULL) ++count;
  const char **copies = ARENA_NEW(&program->arena, const char *, count + 1);
  CHECK_MEMORY(copies, "a program");
  for (size_t l = 0; l < count; ++l) {
    copies[l] = trm_arena_string(&program->arena, layers[l], strlen(layers[l]));
    CHECK_MEMORY(copies[l], "a program");
  }
  program->options.recompute_layers = copies;
  return TRM_OK;
}

/* The target, or a copy with the number of tiles and the host that the options ask for. */
static trm_status choose_target(trm_program *program, const trm_target *target, trm_error *error) {
  trm_target *chosen = (trm_target *)(uintptr_t)target; /* its reference count is atomic */
  if (program->options.tiles_per_ipu > 0) {
    TRY(trm_target_resize(target, 0, program->options.tiles_per_ipu, &chosen, error));
  } else {
    trm_target_retain(chosen);
  }
  program->target = chosen;
  if (!program->options.ipu_model) return TRM_OK;
  trm_target *model = NULL;
  TRY(trm_target_of_ipu_model(chosen, &model, error));
  trm_target_release(chosen);
  program->target = model;
  return TRM_OK;
}

/* Which passes a module has been through. */
typedef enum passes_done { THROUGH_NONE, THROUGH_SHARED, THROUGH_ALL } passes_done;

/* Runs the remaining passes, and those whose effect depends on the options. */
static trm_status run_passes(trm_program *program, const trm_module *module, passes_done done,
                             trm_error *error) {
  const trm_program_options *options = &program->options;
  program->module = module;
  if (done == THROUGH_NONE) {
    const trm_pass_settings settings = {.optimise = true};
    TRY(trm_module_clone(module, &program->owned_module, error));
    TRY(trm_passes_run(program->owned_module, &settings, NULL, NULL, error));
  } else if (done == THROUGH_SHARED) {
    TRY(trm_module_clone_lightly(module, &program->owned_module, error));
  }
  if (program->owned_module != NULL) {
    TRY(trm_passes_run_ipu(program->owned_module, NULL, NULL, error));
    program->module = program->owned_module;
  }
  TRY(trm_module_clone_lightly(program->module, &program->ipu_module, error));
  trm_recomputation *recomputed = &program->recomputed;
  recomputed->order = trm_program_order_kind(options);
  recomputed->layers = options->recompute_layers;
  TRY(trm_passes_run_planning(program->ipu_module, options->recompute ? recomputed : NULL, NULL,
                              NULL, error));
  if (recomputed->values > 0) program->module = program->ipu_module;
  return TRM_OK;
}

trm_status trm_program_observe_passes(const trm_module *module, const trm_program_options *options,
                                      trm_pass_observer observer, void *context, trm_error *error) {
  trm_module *copy;
  TRY(trm_module_clone_lightly(module, &copy, error));
  trm_status status = trm_passes_run_ipu(copy, observer, context, error);
  trm_recomputation recomputed = {.order = trm_program_order_kind(options),
                                  .layers = options->recompute_layers};
  if (status == TRM_OK) {
    status = trm_passes_run_planning(copy, options->recompute ? &recomputed : NULL, observer,
                                     context, error);
  }
  trm_module_free(copy);
  return status;
}

static trm_status make(trm_program *program, const trm_module *module, passes_done done,
                       trm_error *error) {
  const trm_program_options *options = &program->options;
  trm_plan_options convolution, matmul;
  program->refuses_option = true; /* until all have been read */
  TRY(check_options(options, program->target, error));
  TRY(plan_options(options, options->conv_memory_proportion, options->convolution_options,
                   "convolutions", &program->arena, &convolution, error));
  TRY(plan_options(options, options->matmul_memory_proportion, options->matmul_options, "matmuls",
                   &program->arena, &matmul, error));
  program->refuses_option = false;
  TRY(trm_program_take_inputs(program, module, error));
  TRY(run_passes(program, module, done, error));
  trm_tile_role **roles;
  TRY(trm_program_read_roles(program->ipu_module, &program->arena, &roles, error));
  trm_target *compute = NULL;
  if (options->io_tiles > 0) {
    TRY(trm_target_resize(program->target, 0, program->target->tiles_per_ipu - options->io_tiles,
                          &compute, error));
  }
  trm_program_draft draft = {
      .program = program,
      .module = program->ipu_module,
      .target = compute != NULL ? compute : program->target,
      .tile_options = {.convolution = &convolution,
                       .matmul = &matmul,
                       .slice_memory_proportion = options->slice_memory_proportion,
                       .solve_block = options->solve_block,
                       .factor_block = options->factor_block,
                       .replicas = options->replicas,
                       .synthetic = options->synthetic},
      .plans = program->plans,
      .roles = roles};
  const trm_status status = trm_program_build(&draft, error);
  trm_target_release(compute);
  TRY(status);
  trm_program_total(program);
  program->totals.num_ipus = program->num_ipus;
  program->totals.tiles_per_ipu = program->tiles_per_ipu;
  program->totals.replicas = options->replicas;
  TRY(trm_program_measure(program, error));
  trm_program_add_error_bars(program);
  trm_program_log_plans(program);
  return TRM_OK;
}

/* make(), whose failures have the status TRM_UNKNOWN where no option and no limit of ours or of the
 * machine's is the cause. */
static trm_status make_or_blame(trm_program *program, const trm_module *module, passes_done done,
                                trm_error *error) {
  trm_error why = {0};
  const trm_status status = make(program, module, done, &why);
  if (status == TRM_OK) return TRM_OK;
  const bool known =
      program->refuses_option || status == TRM_UNIMPLEMENTED || status == TRM_RESOURCE_EXHAUSTED;
  return trm_fail(error, known ? status : TRM_UNKNOWN, "%s", why.message);
}

/* `plans`: those of another program, or NULL. */
static trm_status create(const trm_module *module, passes_done done, const trm_target *target,
                         const trm_program_options *options, trm_plan_cache *plans,
                         trm_program **out_program, trm_error *error) {
  trm_program *program = trm_allocate_zeroed(1, sizeof *program);
  CHECK_MEMORY(program, "a program");
  program->plans = plans != NULL ? trm_plan_cache_retain(plans) : trm_plan_cache_create();
  if (program->plans == NULL) {
    trm_program_free(program);
    FAIL_NO_MEMORY("a program");
  }
  trm_status status = copy_options(program, options, error);
  if (status == TRM_OK) status = choose_target(program, target, error);
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_POPLAR, "plan %s", module->name);
  if (status == TRM_OK) status = make_or_blame(program, module, done, error);
  trm_mark_end(&mark);
  if (status != TRM_OK) {
    trm_program_free(program);
    return status;
  }
  *out_program = program;
  return TRM_OK;
}

trm_status trm_program_create(const trm_module *module, bool optimised, const trm_target *target,
                              const trm_program_options *options, trm_program **out_program,
                              trm_error *error) {
  return create(module, optimised ? THROUGH_ALL : THROUGH_NONE, target, options, NULL, out_program,
                error);
}

trm_status trm_program_create_again(const trm_program *program, const trm_module *module,
                                    const trm_program_options *options, trm_program **out_program,
                                    trm_error *error) {
  return create(module, THROUGH_ALL, program->target, options, program->plans, out_program, error);
}

trm_status trm_program_create_shared(const trm_module *module, const trm_target *target,
                                     const trm_program_options *options, trm_program **out_program,
                                     trm_error *error) {
  return create(module, THROUGH_SHARED, target, options, NULL, out_program, error);
}

void trm_program_destroy(trm_program *program) {
  if (program == NULL) return;
  trm_module_free(program->owned_module);
  trm_module_free(program->ipu_module);
  trm_plan_cache_release(program->plans);
  trm_target_release((trm_target *)(uintptr_t)program->target);
  trm_free(program->steps);
  trm_free(program->compute_sets);
  trm_free(program->variables);
  trm_free(program->sources);
  trm_free(program->notes);
  trm_arena_free(&program->arena);
  trm_free(program);
}

void trm_program_free(trm_program *program) {
  if (program == NULL) return;
  void (*const release)(void *) = program->release;
  void *const keeper = program->keeper;
  if (!program->is_kept) trm_program_destroy(program);
  if (release != NULL) release(keeper);
}

bool trm_program_get_totals(const trm_program *program, trm_program_totals *out_totals) {
  return TRM_GIVE(out_totals, program->totals);
}

int64_t trm_program_category_bytes(const trm_program *program, trm_memory_category category) {
  if ((unsigned)category >= TRM_NUM_MEMORY_CATEGORIES) return 0;
  int64_t bytes = 0;
  for (uint32_t t = 0; t < program->memory.num_tiles; ++t) {
    bytes += program->memory.by_category[category][t];
  }
  return bytes;
}

const char *trm_program_note(const trm_program *program, size_t i) {
  return i < program->num_notes ? program->notes[i] : NULL;
}

bool trm_program_step_get(const trm_program *program, size_t i, trm_program_step_info *out_info) {
  if (i >= program->num_steps) return false;
  const trm_program_step *s = &program->steps[i];
  trm_program_step_info info = {.type = s->type,
                                .name = s->name,
                                .hlo_name = "",
                                .op_name = "",
                                .op_type = "",
                                .layer = "",
                                .ipu = s->ipu,
                                .stage = s->stage,
                                .parent = s->parent,
                                .end = s->end,
                                .repeat_count = s->repeat_count,
                                .executions = s->executions,
                                .cycles = s->cycles,
                                .sync_cycles = s->sync_cycles,
                                .cycles_mean = s->cycles_mean,
                                .active_tiles = s->active_tiles,
                                .bytes_in_worst = s->bytes_in_worst,
                                .bytes_in_total = s->bytes_in_total,
                                .bytes_out_worst = s->bytes_out_worst,
                                .bytes_out_total = s->bytes_out_total,
                                .flops = s->flops,
                                .live_total = s->live_total,
                                .live_worst = s->live_worst,
                                .live_worst_tile = s->live_worst_tile};
  if (s->compute_set != TRM_NO_INDEX) {
    info.vertices = program->compute_sets[s->compute_set].vertices;
  }
  if (s->source == TRM_NO_INDEX) return TRM_GIVE(out_info, info);
  const trm_program_source *source = &program->sources[s->source];
  info.hlo_name = source->hlo_name;
  info.op_name = source->op_name;
  info.op_type = source->op_type;
  info.layer = source->layer;
  info.file = source->file;
  info.line = source->line;
  info.plan = source->plan;
  return TRM_GIVE(out_info, info);
}

bool trm_program_variable_get(const trm_program *program, size_t i,
                              trm_program_variable_info *out_info) {
  if (i >= program->num_variables) return false;
  const trm_program_variable *v = &program->variables[i];
  trm_program_variable_info info = {.name = v->name,
                                    .op_name = "",
                                    .dtype = v->dtype,
                                    .count = v->count,
                                    .worst_bytes = v->worst_bytes,
                                    .total_bytes = v->total_bytes,
                                    .ipu = v->mapping.ipu,
                                    .tiles = v->mapping.regions,
                                    .category = v->category,
                                    .always_live = v->always_live,
                                    .is_input = v->is_input,
                                    .is_output = v->is_output,
                                    .is_weight = v->is_weight,
                                    .begin = v->live.begin,
                                    .end = v->live.end};
  if (v->source == TRM_NO_INDEX) return TRM_GIVE(out_info, info);
  const trm_program_source *source = &program->sources[v->source];
  info.op_name = source->op_name;
  info.file = source->file;
  info.line = source->line;
  return TRM_GIVE(out_info, info);
}

bool trm_program_pipeline_get(const trm_program *program, trm_program_pipeline_info *out_info) {
  static const char *const schedules[] = {"Grouped", "Interleaved", "Sequential"};
  const trm_pipeline *p = &program->pipeline;
  if (!p->present) return false;
  const trm_program_pipeline_info info = {.schedule = schedules[p->schedule],
                                          .is_training = p->is_training,
                                          .recomputation = p->recomputation,
                                          .num_stages = p->num_stages,
                                          .loop_step = p->loop_step,
                                          .mini_batches = p->mini_batches,
                                          .round_cycles = p->round_cycles,
                                          .total_cycles = p->total_cycles,
                                          .ramp_cycles = p->ramp_cycles,
                                          .work_cycles = p->work_cycles};
  return TRM_GIVE(out_info, info);
}

bool trm_program_stage_get(const trm_program *program, size_t i, trm_program_stage_info *out_info) {
  if (!program->pipeline.present || i >= program->pipeline.num_entries) return false;
  const trm_pipeline_stage *s = &program->pipeline.stages[i];
  const trm_program_stage_info info = {.ipu = s->ipu,
                                       .is_backward = s->is_backward,
                                       .cycles = s->cycles,
                                       .stash_bytes = s->stash_bytes,
                                       .stash_depth = s->stash_depth};
  return TRM_GIVE(out_info, info);
}

bool trm_program_tile_get(const trm_program *program, size_t tile,
                          trm_program_tile_info *out_info) {
  const trm_program_memory *m = &program->memory;
  if (tile >= m->num_tiles) return false;
  trm_program_tile_info info = {.always_live = m->always_live[tile],
                                .not_always_live = m->not_always_live[tile],
                                .gaps = m->gaps[tile],
                                .interleaved = m->interleaved[tile],
                                .overflowed = m->overflowed[tile],
                                .peak_step = m->peak_step[tile]};
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    info.by_category[c] = m->by_category[c][tile];
  }
  return TRM_GIVE(out_info, info);
}

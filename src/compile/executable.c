/* Owns: compiling, and the accessors of executables. */
#include "compile/executable.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "host/schedule/float_check.h"
#include "ipu/program/program.h"
#include "timeline/mark.h"
#include "tremula/log.h"

trm_executable *trm_executable_retain(trm_executable *executable) {
  atomic_fetch_add(&executable->references, 1);
  return executable;
}

void trm_executable_free(trm_executable *executable) {
  if (executable == NULL || atomic_fetch_sub(&executable->references, 1) != 1) return;
  trm_program_destroy(executable->estimate);
  pthread_mutex_destroy(&executable->estimating);
  trm_schedule_free(executable->schedule);
  if (!executable->is_only_planned) trm_module_free(executable->module);
  trm_module_free(executable->shared);
  trm_arena_free(&executable->arena);
  trm_free(executable);
}

/* Names a leaf of the interface: "x", or "x:2" for a leaf of a tuple. */
static trm_status name_leaf(trm_arena *arena, const trm_instruction *instruction, int32_t leaf,
                            trm_tensor_info *info, trm_error *error) {
  info->name = instruction->shape.dtype == TRM_TUPLE
                   ? trm_arena_format(arena, "%s:%d", instruction->name, leaf)
                   : trm_arena_string(arena, instruction->name, strlen(instruction->name));
  CHECK_MEMORY(info->name, "an executable");
  return TRM_OK;
}

/* Whether a leaf is float16 for the caller and float32 for the schedule. */
static bool is_widened(trm_executable *executable, const trm_shape *outside,
                       const trm_shape *inside) {
  const bool is_float = outside->dtype == TRM_F16 && inside->dtype == TRM_F32;
  executable->has_floats = executable->has_floats || is_float;
  return is_float;
}

/* The shared module has the types that the caller sees. */
static trm_status describe_inputs(trm_executable *executable, trm_error *error) {
  const trm_module *shared = executable->shared, *module = executable->module;
  const trm_computation *outside = &shared->computations[shared->entry];
  const trm_computation *inside = &module->computations[module->entry];
  size_t input = 0;
  for (uint32_t p = 0; p < outside->num_parameters; ++p) {
    const trm_instruction *parameter = &outside->instructions[outside->parameters[p]];
    const trm_shape *scheduled = &inside->instructions[inside->parameters[p]].shape;
    const int32_t leaves = trm_shape_num_leaves(&parameter->shape);
    for (int32_t l = 0; l < leaves; ++l, ++input) {
      const trm_shape *leaf = trm_shape_leaf(&parameter->shape, l);
      trm_shape_describe(leaf, &executable->inputs[input]);
      executable->float_inputs[input] = is_widened(executable, leaf, trm_shape_leaf(scheduled, l));
      TRY(name_leaf(&executable->arena, parameter, l, &executable->inputs[input], error));
    }
  }
  return TRM_OK;
}

static trm_status describe(trm_executable *executable, trm_error *error) {
  const trm_module *shared = executable->shared, *module = executable->module;
  trm_arena *arena = &executable->arena;
  executable->num_inputs = executable->schedule->num_inputs;
  executable->num_outputs = executable->schedule->num_outputs;
  executable->inputs = ARENA_NEW(arena, trm_tensor_info, executable->num_inputs);
  executable->outputs = ARENA_NEW(arena, trm_tensor_info, executable->num_outputs);
  executable->aliases = ARENA_NEW(arena, int64_t, executable->num_outputs);
  executable->float_inputs = ARENA_NEW(arena, bool, executable->num_inputs);
  executable->float_outputs = ARENA_NEW(arena, bool, executable->num_outputs);
  if (executable->inputs == NULL || executable->outputs == NULL || executable->aliases == NULL ||
      executable->float_inputs == NULL || executable->float_outputs == NULL) {
    FAIL_NO_MEMORY("an executable");
  }
  TRY(describe_inputs(executable, error));
  TRY(trm_module_outputs(shared, executable->outputs, executable->aliases, error));
  const trm_computation *outside = &shared->computations[shared->entry];
  const trm_computation *inside = &module->computations[module->entry];
  const trm_instruction *result = &outside->instructions[outside->root];
  const trm_shape *scheduled = &inside->instructions[inside->root].shape;
  for (int32_t o = 0; o < (int32_t)executable->num_outputs; ++o) {
    executable->float_outputs[o] =
        is_widened(executable, trm_shape_leaf(&result->shape, o), trm_shape_leaf(scheduled, o));
    TRY(name_leaf(arena, result, o, &executable->outputs[o], error));
  }
  return TRM_OK;
}

static unsigned float_events(const trm_options *options) {
  unsigned events = 0;
  if (options->invalid) events |= TRM_FLOAT_INVALID;
  if (options->division_by_zero) events |= TRM_FLOAT_DIVISION_BY_ZERO;
  if (options->overflow) events |= TRM_FLOAT_OVERFLOW;
  return events;
}

/* If overflow ends a run, a result must show it as infinity. Halves that are floats overflow only
 * where they leave the program. */
static trm_half_overflow half_overflow(const trm_options *options) {
  if (options->halves == TRM_HALVES_FLOAT) return TRM_HALF_INFINITY;
  const bool hides = options->overflow && options->half_overflow == TRM_HALF_LARGEST;
  return hides ? TRM_HALF_NAN : options->half_overflow;
}

/* What the options say about numbers. */
static void set_numbers(trm_module *module, const trm_options *options) {
  module->half_overflow = half_overflow(options);
  module->half_products = options->half_products;
  module->casts_wrap = options->casts == TRM_CASTS_WRAP ||
                       (options->casts == TRM_CASTS_AUTO && trm_module_is_of_tensorflow(module));
}

static trm_status executable_new(trm_executable **out_executable, trm_error *error) {
  trm_executable *executable = trm_allocate_zeroed(1, sizeof *executable);
  CHECK_MEMORY(executable, "an executable");
  atomic_init(&executable->references, 1);
  pthread_mutex_init(&executable->estimating, NULL);
  *out_executable = executable;
  return TRM_OK;
}

typedef struct verifier {
  trm_pass_observer observer; /* or NULL */
  void *context;
} verifier;

/* An observer that verifies the module before it calls another one. */
static trm_status verify(const char *pass, const trm_module *module, void *context,
                         trm_error *error) {
  const verifier *v = context;
  TRY_NOTE(trm_module_verify(module, error), "after pass %s", pass);
  trm_log(TRM_LOG_DEBUG, "COMPILER", "verified the module %s after pass %s", module->name, pass);
  return v->observer == NULL ? TRM_OK : v->observer(pass, module, v->context, error);
}

/* How the passes of an executable are run. */
typedef struct pass_run {
  trm_pass_settings settings;
  trm_pass_observer observer; /* or NULL */
  void *context;
} pass_run;

static trm_status pass_settings(const trm_executable *executable, trm_pass_settings *out_settings,
                                trm_error *error) {
  const trm_options *options = &executable->options;
  uint32_t replicas = 1;
  if (options->stochastic_rounding == TRM_STOCHASTIC_IDENTICAL || options->prng_stability ||
      options->batch_norm_group_size > 1) {
    TRY(trm_executable_num_replicas(executable, &replicas, error));
  }
  *out_settings = (trm_pass_settings){.optimise = options->optimise && !options->reference,
                                      .disabled = options->disabled_passes,
                                      .keep_instructions = float_events(options) != 0,
                                      .float_halves = options->halves == TRM_HALVES_FLOAT,
                                      .rounding = {.stochastic = options->stochastic_rounding,
                                                   .alike = options->prng_stability,
                                                   .replicas = replicas},
                                      .batch_norm_group = options->batch_norm_group_size,
                                      .combining = {.sums = options->combined_sums,
                                                    .scatters = options->combined_scatters,
                                                    .gathers = options->combined_gathers},
                                      .accelerator = {.cache = options->region_cache}};
  return TRM_OK;
}

/* The number at the end of a name such as "add.5"; 0: there is none. */
static int64_t suffix_of(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot == NULL || !isdigit((unsigned char)dot[1]) ? 0 : strtoll(dot + 1, NULL, 10);
}

/* New instructions get the ids after those that are there, whatever the shared passes have dropped.
 * Their names have the ids too, and differ from those that are there. */
static void continue_ids(trm_module *module) {
  int64_t largest = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *one = &computation->instructions[i];
      const int64_t numbers[] = {one->id, suffix_of(one->name)};
      for (int n = 0; n < 2; ++n) {
        if (numbers[n] > largest && numbers[n] < INT64_MAX / 2) largest = numbers[n];
      }
    }
  }
  module->next_id = largest + 1;
}

/* Everything after the shared passes: the host's module, its schedule and the interface. */
static trm_status finish(trm_executable *executable, const pass_run *run, trm_error *error) {
  if (executable->is_only_planned) {
    executable->module = executable->shared;
    TRY(trm_schedule_outline(executable->shared, &executable->schedule, error));
    return describe(executable, error);
  }
  TRY(trm_module_clone_lightly(executable->shared, &executable->module, error));
  continue_ids(executable->module);
  set_numbers(executable->module, &executable->options);
  TRY(trm_passes_run_host(executable->module, &run->settings, run->observer, run->context, error));
  TRY(trm_schedule_build(executable->module, executable->options.reference,
                         float_events(&executable->options), &executable->schedule, error));
  return describe(executable, error);
}

static trm_status compile(trm_executable *executable, const trm_module *module,
                          trm_pass_observer observer, void *context, trm_error *error) {
  TRY(trm_module_clone(module, &executable->shared, error));
  TRY(trm_executable_note_shards(executable->shared, error));
  trm_executable_compare_replicas(executable);
  set_numbers(executable->shared, &executable->options);
  verifier v = {observer, context};
  pass_run run = {.observer = observer, .context = context};
  if (executable->options.verify) {
    run.observer = verify;
    run.context = &v;
  }
  TRY(pass_settings(executable, &run.settings, error));
  TRY(trm_passes_run(executable->shared, &run.settings, run.observer, run.context, error));
  /* Random numbers and the steps of several processes go by ids: those of an executable that was
   * saved and loaded, perhaps by another of the processes, are the same. */
  TRY(trm_module_compact(executable->shared, error));
  TRY(trm_hlo_settle_ids(executable->shared, error));
  return finish(executable, &run, error);
}

/* What becomes of a module: an observer of the passes, or NULL; whether it is only planned. */
typedef struct compilation {
  trm_pass_observer observer;
  void *context;
  bool is_only_planned;
} compilation;

static trm_status compile_with(const trm_module *module, const trm_option *options,
                               size_t num_options, const compilation *how,
                               trm_executable **out_executable, trm_error *error) {
  trm_executable *executable;
  TRY(executable_new(&executable, error));
  executable->is_only_planned = how->is_only_planned;
  trm_status status =
      trm_options_parse(&executable->arena, options, num_options, &executable->options, error);
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_POPLAR, "compile %s", module->name);
  if (status == TRM_OK) status = compile(executable, module, how->observer, how->context, error);
  trm_mark_end(&mark);
  if (status != TRM_OK) {
    trm_executable_free(executable);
    return status;
  }
  *out_executable = executable;
  return TRM_OK;
}

trm_status trm_compile_observed(const trm_module *module, const trm_option *options,
                                size_t num_options, trm_pass_observer observer, void *context,
                                trm_executable **out_executable, trm_error *error) {
  const compilation how = {.observer = observer, .context = context};
  return compile_with(module, options, num_options, &how, out_executable, error);
}

trm_status trm_compile(const trm_module *module, const trm_option *options, size_t num_options,
                       trm_executable **out_executable, trm_error *error) {
  const compilation how = {0};
  return compile_with(module, options, num_options, &how, out_executable, error);
}

trm_status trm_compile_for_plan(const trm_module *module, const trm_option *options,
                                size_t num_options, trm_executable **out_executable,
                                trm_error *error) {
  const compilation how = {.is_only_planned = true};
  return compile_with(module, options, num_options, &how, out_executable, error);
}

/* Takes over the module, also on failure. */
static trm_status from_shared(trm_module *module, const trm_option *options, size_t num_options,
                              const trm_accelerator_settings *accelerator,
                              trm_executable **out_executable, trm_error *error) {
  trm_executable *executable;
  trm_status status = executable_new(&executable, error);
  if (status != TRM_OK) {
    trm_module_free(module);
    return status;
  }
  executable->shared = module;
  status = trm_options_parse(&executable->arena, options, num_options, &executable->options, error);
  pass_run run = {0};
  if (status == TRM_OK) status = pass_settings(executable, &run.settings, error);
  run.settings.accelerator.name = accelerator->name;
  run.settings.accelerator.fastest = accelerator->fastest;
  if (status == TRM_OK) status = finish(executable, &run, error);
  if (status != TRM_OK) {
    trm_executable_free(executable);
    return status;
  }
  *out_executable = executable;
  return TRM_OK;
}

trm_status trm_executable_from_shared(trm_module *module, const trm_option *options,
                                      size_t num_options, trm_executable **out_executable,
                                      trm_error *error) {
  const trm_accelerator_settings chosen = {0};
  return from_shared(module, options, num_options, &chosen, out_executable, error);
}

trm_status trm_executable_for(const trm_executable *executable,
                              const trm_accelerator_settings *accelerator,
                              trm_executable **out_executable, trm_error *error) {
  trm_option options[TRM_NUM_OPTIONS];
  bool plans;
  for (size_t o = 0; o < TRM_NUM_OPTIONS; ++o) {
    options[o] = (trm_option){trm_options_row(o, &plans)->key, executable->options.texts[o]};
  }
  trm_module *shared;
  TRY(trm_module_clone(executable->shared, &shared, error));
  return from_shared(shared, options, TRM_NUM_OPTIONS, accelerator, out_executable, error);
}

size_t trm_executable_num_inputs(const trm_executable *executable) {
  return executable->num_inputs;
}

size_t trm_executable_num_outputs(const trm_executable *executable) {
  return executable->num_outputs;
}

const trm_tensor_info *trm_executable_input(const trm_executable *executable, size_t i) {
  return i < executable->num_inputs ? &executable->inputs[i] : NULL;
}

const trm_tensor_info *trm_executable_output(const trm_executable *executable, size_t i) {
  return i < executable->num_outputs ? &executable->outputs[i] : NULL;
}

int64_t trm_executable_output_alias(const trm_executable *executable, size_t i) {
  return i < executable->num_outputs ? executable->aliases[i] : -1;
}

trm_status trm_executable_print(const trm_executable *executable, char **out_text,
                                trm_error *error) {
  return trm_module_print(executable->module, out_text, error);
}

const char *trm_executable_name(const trm_executable *executable) {
  return executable->module->name;
}

bool trm_executable_is_judged(const trm_executable *executable) {
  return executable->known_to_fit || executable->misfit != NULL;
}

size_t trm_executable_arena_bytes(const trm_executable *executable) {
  return executable->schedule->arena_bytes;
}

const char *trm_executable_feed(const trm_executable *executable, size_t i, char *out_kind,
                                const trm_tensor_info **out_elements, size_t *out_num) {
  if (i >= executable->schedule->num_feeds) return NULL;
  const trm_feed_info *feed = &executable->schedule->feeds[i];
  *out_kind = feed->kind;
  *out_elements = feed->elements;
  *out_num = feed->num_elements;
  return feed->id;
}

uint64_t trm_executable_feed_uses(const trm_executable *executable, size_t i) {
  return i < executable->schedule->num_feeds ? executable->schedule->feeds[i].uses : 0;
}

/* Owns: changes that would make a program need less memory, each found by estimating it.
 *
 * Each candidate is a program of its own: with other options, of a copy of the module in half
 * precision, or cut into shards (split.c). A smaller batch is not estimated; its bytes are computed
 * from the share of memory that grows with the batch, and its text says so. */
#include "ipu/program/advice.h"

#include <string.h>

#include "ipu/program/draft.h"
#include "ipu/target/target.h"
#include "passes/pass.h"

static void take_totals(trm_advice *advice, const trm_program *program) {
  advice->worst_tile_bytes = program->totals.worst_tile_bytes;
  advice->fits = program->totals.fits;
  advice->cycles = program->totals.cycles;
  advice->num_ipus = program->totals.num_ipus;
}

static trm_status estimate_again(const trm_program *program, const trm_module *module,
                                 const trm_program_options *options, trm_advice *advice,
                                 trm_error *error) {
  trm_program *other;
  TRY(trm_program_create(module, true, program->target, options, &other, error));
  take_totals(advice, other);
  trm_program_free(other);
  return TRM_OK;
}

static trm_status add(trm_advice_list *list, const trm_program *program, trm_advice advice,
                      trm_error *error) {
  advice.saved = program->totals.worst_tile_bytes - advice.worst_tile_bytes;
  if (advice.saved <= 0) return TRM_OK; /* it would not help */
  if (!VECTOR_PUSH(list, advice)) FAIL_NO_MEMORY("advice");
  return TRM_OK;
}

/* Tries a few proportions, and takes the largest that fits or else the one that needs least. */
static trm_status try_proportions(const trm_program *program, trm_advice_list *list,
                                  trm_error *error) {
  static const double tried[] = {0.3, 0.1};
  trm_advice best = {.worst_tile_bytes = program->totals.worst_tile_bytes};
  for (size_t t = 0; t < sizeof tried / sizeof *tried; ++t) {
    trm_program_options options = program->options;
    if (tried[t] >= options.conv_memory_proportion &&
        tried[t] >= options.matmul_memory_proportion) {
      continue;
    }
    options.conv_memory_proportion = trm_least_double(options.conv_memory_proportion, tried[t]);
    options.matmul_memory_proportion = trm_least_double(options.matmul_memory_proportion, tried[t]);
    trm_advice advice = {0};
    TRY(estimate_again(program, program->module, &options, &advice, error));
    if (advice.worst_tile_bytes >= best.worst_tile_bytes) continue;
    best = advice;
    snprintf(best.text, sizeof best.text,
             "availableMemoryProportion %g for convolutions and matmuls", tried[t]);
    if (best.fits) break;
  }
  return add(list, program, best, error);
}

/* The estimate reads shapes and integers only, so the constants keep their bytes. */
static void halve_shape(trm_shape *shape, trm_arena *arena) {
  if (shape->dtype == TRM_F32) shape->dtype = TRM_F16;
  if (shape->dtype != TRM_TUPLE || shape->num_elements == 0) return;
  trm_shape *elements = ARENA_NEW(arena, trm_shape, (size_t)shape->num_elements);
  if (elements == NULL) return; /* stays as it was */
  for (int32_t e = 0; e < shape->num_elements; ++e) {
    elements[e] = shape->elements[e];
    if (elements[e].dtype == TRM_F32) elements[e].dtype = TRM_F16;
  }
  shape->elements = elements;
}

static bool has_float32_leaf(const trm_shape *shape) {
  for (int32_t l = 0; l < trm_shape_num_leaves(shape); ++l) {
    const trm_shape *leaf = trm_shape_leaf(shape, l);
    if (leaf->dtype == TRM_F32 && trm_shape_count(leaf) > 1) return true;
  }
  return false;
}

/* Whether an instruction makes a float32 array because the program says so. Passes compute with
 * halves in float32, so what is made of halves is float32 only if TensorFlow's op casts. */
static bool states_float32(const trm_module *module, uint32_t c, trm_index i) {
  const trm_computation *computation = &module->computations[c];
  const trm_instruction *o = &computation->instructions[i];
  if (!has_float32_leaf(&o->shape)) return false;
  if (o->opcode == TRM_OP_PARAMETER) return c == module->entry;
  if (trm_instruction_acts_as(o) == TRM_OP_INFEED) return true;
  if (!trm_shape_is_array(&o->shape)) return false;
  for (uint32_t k = 0; k < o->num_operands; ++k) {
    const trm_dtype dtype = computation->instructions[o->operands[k]].shape.dtype;
    if (dtype == TRM_F32 || dtype == TRM_TUPLE) return false; /* that value is asked instead */
    if (dtype == TRM_F16 && o->opcode == TRM_OP_CONVERT) {
      return o->metadata.op_type != NULL && strcmp(o->metadata.op_type, "Cast") == 0;
    }
  }
  return true;
}

static bool has_float32(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      if (states_float32(module, c, i)) return true;
    }
  }
  return false;
}

static trm_status try_half(const trm_program *program, trm_advice_list *list, trm_error *error) {
  trm_module *module;
  if (!has_float32(program->module)) return TRM_OK;
  TRY(trm_module_clone(program->module, &module, error));
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      halve_shape(&computation->instructions[i].shape, &module->arena);
    }
  }
  trm_advice advice = {.text = "float16 instead of float32 for everything"};
  trm_status status = estimate_again(program, module, &program->options, &advice, error);
  if (status == TRM_OK) status = add(list, program, advice, error);
  trm_module_free(module);
  return status;
}

static trm_status try_shards(const trm_program *program, trm_advice_list *list, trm_error *error) {
  if (program->num_ipus > 1) return TRM_OK;
  for (uint32_t shards = 2; shards <= 8; shards *= 2) {
    trm_program *other = NULL;
    trm_error why;
    const trm_status status = trm_program_create_split_briefly(program, shards, &other, &why);
    if (status == TRM_FAILED_PRECONDITION) return TRM_OK; /* too few layers to cut between */
    if (status != TRM_OK) return trm_fail(error, status, "%s", why.message);
    trm_advice advice = {0};
    snprintf(advice.text, sizeof advice.text, "sharding over %u IPUs", shards);
    take_totals(&advice, other);
    trm_program_free(other);
    if (advice.fits || shards == 8) return add(list, program, advice, error);
  }
  return TRM_OK;
}

static trm_status try_recomputation(const trm_program *program, trm_advice_list *list,
                                    trm_error *error) {
  if (program->options.recompute) return TRM_OK;
  trm_program_options options = program->options;
  options.recompute = true;
  trm_advice advice = {.text = "recomputing cheap results in the backward pass (allow_recompute)"};
  TRY(estimate_again(program, program->module, &options, &advice, error));
  return add(list, program, advice, error);
}

static trm_status work_out_batch(const trm_program *program, trm_advice_list *list,
                                 trm_error *error) {
  const trm_program_memory *m = &program->memory;
  int64_t worst = 0;
  for (uint32_t t = 0; t < m->num_tiles; ++t) {
    worst = trm_most(worst, m->always_live[t] + m->not_always_live[t] / 2 + m->gaps[t]);
  }
  const trm_advice advice = {.text = "half the batch (worked out from what is not always live, "
                                     "not planned)",
                             .worst_tile_bytes = worst,
                             .fits = worst <= program->totals.bytes_per_tile,
                             .num_ipus = program->num_ipus,
                             .cycles = 0};
  return add(list, program, advice, error);
}

static int by_saving(const void *a, const void *b) {
  const trm_advice *l = a, *r = b;
  return (l->saved < r->saved) - (l->saved > r->saved);
}

trm_status trm_program_find_advice(const trm_program *program, trm_advice_list *list,
                                   trm_error *error) {
  TRY(try_proportions(program, list, error));
  TRY(try_half(program, list, error));
  TRY(try_shards(program, list, error));
  TRY(try_recomputation(program, list, error));
  TRY(work_out_batch(program, list, error));
  if (list->count > 1) qsort(list->items, list->count, sizeof *list->items, by_saving);
  return TRM_OK;
}

/* Owns: what would make a program need less memory, found by planning it that way.
 *
 * Each candidate is a program of its own: other options, or a copy of the module that is changed
 * (half precision, shards); recomputation is measured on the same steps, with the lives of what
 * would be computed again cut in two. A smaller batch is not planned: it is worked out from the
 * share of memory that grows with it, and says so. */
#include "program/advice.h"

#include <string.h>

#include "passes/pass.h"
#include "program/builder.h"
#include "target/target.h"

static trm_status plan_again(const trm_program *program, const trm_module *module,
                             const trm_program_options *options, trm_advice *advice,
                             trm_error *error) {
  trm_program *other;
  TRY(trm_program_create(module, true, program->target, options, &other, error));
  advice->worst_tile_bytes = other->totals.worst_tile_bytes;
  advice->fits = other->totals.fits;
  advice->cycles = other->totals.cycles;
  advice->num_ipus = other->totals.num_ipus;
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

/* The largest of a few proportions that fits, or the one that needs least. */
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
    TRY(plan_again(program, program->module, &options, &advice, error));
    if (advice.worst_tile_bytes >= best.worst_tile_bytes) continue;
    best = advice;
    snprintf(best.text, sizeof best.text,
             "availableMemoryProportion %g for convolutions and matmuls", tried[t]);
    if (best.fits) break;
  }
  return add(list, program, best, error);
}

/* Planning reads shapes and integers only: the constants keep their bytes. */
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

static trm_status try_half(const trm_program *program, trm_advice_list *list, trm_error *error) {
  trm_module *module;
  TRY(trm_module_clone(program->module, &module, error));
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      halve_shape(&computation->instructions[i].shape, &module->arena);
    }
  }
  trm_advice advice = {.text = "float16 instead of float32 for everything"};
  trm_status status = plan_again(program, module, &program->options, &advice, error);
  if (status == TRM_OK) status = add(list, program, advice, error);
  trm_module_free(module);
  return status;
}

/* The name of the op whose gradient an op is: "gradients/a/b_grad/C" gives "a/b"; else the name. */
static size_t forward_name(const char **name) {
  const char *at = strstr(*name, "gradients/");
  if (at == NULL) return strlen(*name);
  *name = at + strlen("gradients/");
  const char *end = strstr(*name, "_grad");
  return end == NULL ? strlen(*name) : (size_t)(end - *name);
}

typedef struct named_shard {
  const char *name;
  size_t length;
  uint32_t shard;
} named_shard;

static int compare_names(const void *a, const void *b) {
  const named_shard *l = a, *r = b;
  const size_t length = l->length < r->length ? l->length : r->length;
  const int order = memcmp(l->name, r->name, length);
  return order != 0 ? order : (l->length > r->length) - (l->length < r->length);
}

/* Cuts the forward pass into `shards` runs of equal bytes (results, and inputs that they read);
 * gradients go where their op is. */
static trm_status cut_module(trm_module *module, uint32_t computation, uint32_t shards,
                             trm_error *error) {
  static const char *const texts[] = {
      "{maximal device=0}", "{maximal device=1}", "{maximal device=2}", "{maximal device=3}",
      "{maximal device=4}", "{maximal device=5}", "{maximal device=6}", "{maximal device=7}"};
  trm_computation *entry = &module->computations[computation];
  const uint32_t count = entry->num_instructions;
  named_shard *names = trm_allocate_zeroed((size_t)count + 1, sizeof *names);
  CHECK_MEMORY(names, "shards");
  double total = 0, sum = 0;
  for (int fill = 0; fill < 2; ++fill) {
    for (trm_index i = 0; i < count; ++i) {
      trm_instruction *instruction = &entry->instructions[i];
      const char *name = instruction->metadata.op_name == NULL ? "" : instruction->metadata.op_name;
      if (instruction->opcode == TRM_OP_PARAMETER || strstr(name, "gradients/") != NULL) continue;
      double bytes = (double)trm_tile_shape_bytes(&instruction->shape);
      for (uint32_t k = 0; k < instruction->num_operands; ++k) {
        const trm_instruction *operand = &entry->instructions[instruction->operands[k]];
        const bool given = operand->opcode == TRM_OP_PARAMETER ||
                           operand->opcode == TRM_OP_GET_TUPLE_ELEMENT;
        if (!given) continue;
        bytes += (double)trm_tile_shape_bytes(&operand->shape);
      }
      if (fill == 0) {
        total += bytes;
        continue;
      }
      uint32_t shard = total > 0 ? (uint32_t)(sum / total * shards) : 0;
      if (shard >= shards) shard = shards - 1;
      sum += bytes;
      instruction->sharding = texts[shard];
      names[i] = (named_shard){name, strlen(name), shard};
    }
  }
  /* Sorted by name, the empty ones first. */
  uint32_t known = 0;
  for (trm_index i = 0; i < count; ++i) {
    if (names[i].length > 0) names[known++] = names[i];
  }
  qsort(names, known, sizeof *names, compare_names);
  for (trm_index i = 0; i < count; ++i) {
    trm_instruction *instruction = &entry->instructions[i];
    const char *name = instruction->metadata.op_name;
    if (name == NULL || strstr(name, "gradients/") == NULL) continue;
    named_shard key = {.name = name};
    key.length = forward_name(&key.name);
    const named_shard *found = bsearch(&key, names, known, sizeof *names, compare_names);
    if (found != NULL) instruction->sharding = texts[found->shard];
  }
  trm_free(names);
  return TRM_OK;
}

/* Where most is done: the entry, or the body of a loop. */
static uint32_t main_computation(const trm_module *module) {
  uint32_t best = module->entry;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->opcode != TRM_OP_WHILE || instruction->num_called < 2) continue;
      const uint32_t body = instruction->called[1];
      if (module->computations[body].num_instructions >
          module->computations[best].num_instructions) {
        best = body;
      }
    }
  }
  return best;
}

static trm_status try_shards(const trm_program *program, trm_advice_list *list,
                             trm_error *error) {
  if (program->num_ipus > 1) return TRM_OK;
  for (uint32_t shards = 2; shards <= 8; shards *= 2) {
    trm_module *module;
    TRY(trm_module_clone(program->module, &module, error));
    trm_advice advice = {0};
    snprintf(advice.text, sizeof advice.text, "sharding over %u IPUs", shards);
    trm_status status = cut_module(module, main_computation(module), shards, error);
    trm_program_options options = program->options;
    options.num_ipus = shards;
    if (status == TRM_OK) status = plan_again(program, module, &options, &advice, error);
    trm_module_free(module);
    TRY(status);
    if (advice.fits || shards == 8) return add(list, program, advice, error);
  }
  return TRM_OK;
}

/* A value that elementwise code makes, kept over a tenth of the program or more. */
static bool is_recomputable(const trm_program *program, const trm_program_variable *v) {
  if (v->always_live || v->source == TRM_NO_INDEX || v->is_output || v->is_input) return false;
  const trm_program_source *source = &program->sources[v->source];
  const trm_opcode opcode = program->module->computations[source->computation]
                                .instructions[source->instruction].opcode;
  if (opcode != TRM_OP_FUSION && !trm_opcode_is_elementwise(opcode)) return false;
  return (v->live.end - v->live.begin) * 10 > program->num_steps;
}

static trm_status try_recomputation(const trm_program *program, trm_advice_list *list,
                                    trm_error *error) {
  trm_program other = *program;
  other.arena = (trm_arena){0};
  other.totals = (trm_program_totals){0};
  memset(&other.memory, 0, sizeof other.memory);
  uint32_t extra = 0;
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    extra += is_recomputable(program, &program->variables[v]);
  }
  if (extra == 0) return TRM_OK;
  trm_status status = TRM_OK;
  other.variables = ARENA_NEW(&other.arena, trm_program_variable,
                              (size_t)program->num_variables + extra);
  other.steps = trm_arena_copy(&other.arena, program->steps,
                               program->num_steps * sizeof *program->steps);
  if (other.variables == NULL || other.steps == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while looking for advice");
  }
  memcpy(other.variables, program->variables, program->num_variables * sizeof *other.variables);
  const uint32_t near = program->num_steps / 50 + 1;
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    if (!is_recomputable(program, &program->variables[v])) continue;
    trm_program_variable *again = &other.variables[other.num_variables++];
    *again = program->variables[v];
    other.variables[v].live.end = other.variables[v].live.begin + near;
    again->live.begin = again->live.end - near;
  }
  TRY_OR_GOTO(trm_program_measure(&other, error), done);
  trm_advice advice = {.text = "recomputing elementwise results in the backward pass "
                               "(allow_recompute, or a pipeline's recomputation)",
                       .worst_tile_bytes = other.totals.worst_tile_bytes,
                       .fits = other.totals.fits,
                       .num_ipus = program->num_ipus,
                       .cycles = program->totals.cycles};
  status = add(list, program, advice, error);
done:
  trm_arena_free(&other.arena);
  return status;
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
                             .num_ipus = program->num_ipus, .cycles = 0};
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

/* Owns: changes that make a program need less memory: which are possible, and the plan of each. A
 * changed program is planned with other options, or as a copy of the module in half precision, with
 * other attributes, or cut into shards (split.c). */
#include "ipu/program/change.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ipu/program/draft.h"
#include "ipu/program/layers.h"
#include "ipu/target/target.h"
#include "passes/pass.h"

static const char update_attribute[] = "weight_update"; /* remote.c */

/* ---- What is possible ------------------------------------------------------------------------ */

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

static bool is_kept_update(const trm_instruction *instruction) {
  const char *place = trm_instruction_frontend_attribute(instruction, update_attribute);
  return place != NULL && strncmp(place, "keep", 4) == 0;
}

trm_status trm_change_find_possible(const trm_program *program, trm_change *out, trm_error *error) {
  const trm_module *module = program->module;
  const trm_program_options *options = &program->options;
  bool plans = false; /* there are some */
  trm_change possible = {.recompute = !options->recompute};
  TRY(trm_program_most_shards(program, &possible.shards, error));
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *o = &computation->instructions[i];
      plans |= trm_opcode_is_product(o->opcode);
      possible.half |= !possible.half && states_float32(module, c, i);
      possible.offload |= !options->ipu_model && is_kept_update(o);
    }
  }
  const double least = options->conv_memory_proportion < options->matmul_memory_proportion
                           ? options->conv_memory_proportion
                           : options->matmul_memory_proportion;
  possible.proportion = plans ? least : 0;
  *out = possible;
  return TRM_OK;
}

/* ---- In words -------------------------------------------------------------------------------- */

void trm_change_text(const trm_change *change, char text[TRM_CHANGE_TEXT]) {
  size_t used = 0;
  text[0] = '\0';
#define SAY(...)                                                                       \
  do {                                                                                 \
    if (used > 0) used += (size_t)snprintf(text + used, TRM_CHANGE_TEXT - used, ", "); \
    used += (size_t)snprintf(text + used, TRM_CHANGE_TEXT - used, __VA_ARGS__);        \
  } while (0)
  if (change->half) SAY("float16 instead of float32 for everything");
  if (change->recompute) {
    SAY("recomputing cheap results in the backward pass (allow_recompute)");
  }
  if (change->offload) SAY("optimizer state in remote memory (offload_weight_update_variables)");
  if (change->proportion > 0) {
    SAY("availableMemoryProportion %g for convolutions and matmuls", change->proportion);
  }
  if (change->shards > 1 && change->mini_batches > 0) {
    SAY("a pipeline of %u stages (%s, %u mini-batches a weight update)", change->shards,
        change->schedule, change->mini_batches);
  } else if (change->shards > 1) SAY("sharding over %u IPUs", change->shards);
#undef SAY
}

/* ---- Its plan -------------------------------------------------------------------------------- */

/* Sets an attribute, which may be there already, in a list of the instruction's own. */
static trm_status set_attribute(trm_instruction *instruction, const char *key, const char *value,
                                trm_arena *arena, trm_error *error) {
  const char *const *old = instruction->frontend_attributes;
  size_t count = 0, at = 0;
  while (old != NULL && old[count] != NULL) ++count;
  const char **list = ARENA_NEW(arena, const char *, count + 3);
  const char *text = trm_arena_string(arena, value, strlen(value));
  if (list == NULL || text == NULL) FAIL_NO_MEMORY("attributes");
  if (count > 0) memcpy(list, old, count * sizeof *list);
  while (at < count && strcmp(list[at], key) != 0) at += 2;
  list[at] = key;
  list[at + 1] = text;
  instruction->frontend_attributes = list;
  return TRM_OK;
}

/* Says "offload" where an update says "keep"; what follows, such as ",sharded", stays. */
static trm_status offload_state(trm_instruction *instruction, trm_arena *arena, trm_error *error) {
  const char *place = trm_instruction_frontend_attribute(instruction, update_attribute);
  const char *offloaded = trm_arena_format(arena, "offload%s", place + strlen("keep"));
  CHECK_MEMORY(offloaded, "an update's attributes");
  return set_attribute(instruction, update_attribute, offloaded, arena, error);
}

/* An attribute of one operation counts before the options of the program (costs/linear.c). */
static trm_status set_proportion(trm_instruction *instruction, const trm_change *change,
                                 trm_arena *arena, trm_error *error) {
  for (size_t l = 0; l < change->num_layer_proportions; ++l) {
    const trm_layer_proportion *one = &change->layer_proportions[l];
    const char *const layers[] = {one->layer, NULL};
    if (!trm_opcode_is_product(instruction->opcode) ||
        !trm_program_is_in_layers(instruction, layers)) {
      continue;
    }
    TRY(set_attribute(instruction, "availableMemoryProportion", one->proportion, arena, error));
  }
  return TRM_OK;
}

static trm_status change_module(trm_module *module, const trm_change *change, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      trm_instruction *instruction = &computation->instructions[i];
      if (change->half) TRY(trm_change_halve_shape(&instruction->shape, &module->arena, error));
      if (change->offload && is_kept_update(instruction)) {
        TRY(offload_state(instruction, &module->arena, error));
      }
      TRY(set_proportion(instruction, change, &module->arena, error));
    }
  }
  return TRM_OK;
}

/* Plans a module in so many shards; *out_program NULL: it has too few layers. */
static trm_status cut(const trm_program *program, const trm_module *module,
                      const trm_program_options *options, const trm_change *change,
                      trm_program **out_program, trm_error *error) {
  if (change->shards <= 1)
    return trm_program_create_again(program, module, options, out_program, error);
  trm_error why = {0};
  const trm_status status =
      trm_program_create_split_briefly(program, module, options, change, out_program, &why);
  if (status == TRM_FAILED_PRECONDITION) return TRM_OK;
  return status == TRM_OK ? TRM_OK : trm_fail(error, status, "%s", why.message);
}

static trm_status plan_with_memory(const trm_program *program, const trm_module *module,
                                   const trm_program_options *options, const trm_change *change,
                                   trm_program **out_program, trm_error *error) {
  trm_target *target;
  TRY(trm_target_with_memory(program->target, change->bytes_per_tile, &target, error));
  trm_program *whole = NULL;
  trm_status status = trm_program_create(module, true, target, options, &whole, error);
  trm_target_release(target);
  if (status != TRM_OK || change->shards <= 1) {
    *out_program = whole;
    return status;
  }
  status = cut(whole, module, options, change, out_program, error);
  trm_program_free(whole);
  return status;
}

static trm_status plan_module(const trm_program *program, const trm_module *module,
                              const trm_change *change, trm_program **out_program,
                              trm_error *error) {
  trm_program_options options = program->options;
  if (change->recompute) options.recompute = true, options.recompute_layers = NULL;
  if (change->proportion > 0) {
    double *proportions[] = {&options.conv_memory_proportion, &options.matmul_memory_proportion};
    for (size_t p = 0; p < 2; ++p) {
      const bool lower = change->proportion < *proportions[p];
      if (lower || change->is_exact) *proportions[p] = change->proportion;
    }
  }
  if (change->recompute_layers != NULL) {
    options.recompute = true;
    options.recompute_layers = change->recompute_layers;
  }
  if (change->bytes_per_tile > 0) {
    return plan_with_memory(program, module, &options, change, out_program, error);
  }
  return cut(program, module, &options, change, out_program, error);
}

trm_status trm_change_plan(const trm_program *program, const trm_change *change,
                           trm_program **out_program, trm_error *error) {
  *out_program = NULL;
  if (!change->half && !change->offload && change->half_layers == NULL &&
      change->num_layer_proportions == 0) {
    return plan_module(program, program->module, change, out_program, error);
  }
  trm_module *module;
  TRY(trm_module_clone(program->module, &module, error));
  trm_status status = change_module(module, change, error);
  if (status == TRM_OK && change->half_layers != NULL) {
    status = trm_change_halve_layers(module, program, change->half_layers, error);
  }
  if (status == TRM_OK) status = plan_module(program, module, change, out_program, error);
  if (status == TRM_OK && *out_program != NULL && (*out_program)->owned_module == NULL) {
    (*out_program)->owned_module = module; /* sources index it */
  } else {
    trm_module_free(module);
  }
  return status;
}

/* Owns: modules, computations and instructions: creating and adding. */
#include <inttypes.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/infer.h"

trm_status trm_module_create(const char *name, trm_module **out_module, trm_error *error) {
  trm_module *module = trm_allocate_zeroed(1, sizeof *module);
  CHECK_MEMORY(module, "a module");
  module->next_id = 1;
  module->name = trm_arena_string(&module->arena, name, strlen(name));
  if (module->name == NULL) {
    trm_module_free(module);
    FAIL_NO_MEMORY("a module");
  }
  *out_module = module;
  return TRM_OK;
}

void trm_module_free(trm_module *module) {
  if (module == NULL) return;
  trm_arena_free(&module->arena);
  trm_free(module);
}

trm_status trm_module_add_computation(trm_module *module, const char *name, uint32_t *out_index,
                                      trm_error *error) {
  if (module->num_computations == module->capacity) {
    const uint32_t capacity = module->capacity < 8 ? 8 : module->capacity * 2;
    trm_computation *grown = ARENA_NEW(&module->arena, trm_computation, capacity);
    CHECK_MEMORY(grown, "computations");
    if (module->num_computations > 0) {
      memcpy(grown, module->computations, module->num_computations * sizeof *grown);
    }
    module->computations = grown;
    module->capacity = capacity;
  }
  const uint32_t index = module->num_computations;
  trm_computation *computation = &module->computations[index];
  *computation = (trm_computation){.root = TRM_NO_INDEX, .id = module->next_id++};
  computation->name = name != NULL
                          ? trm_arena_string(&module->arena, name, strlen(name))
                          : trm_arena_format(&module->arena, "computation.%" PRIu32, index);
  CHECK_MEMORY(computation->name, "a computation");
  ++module->num_computations;
  *out_index = index;
  return TRM_OK;
}

static trm_status set_capacity(trm_module *module, trm_computation *computation, uint32_t capacity,
                               trm_error *error) {
  trm_instruction *grown = ARENA_NEW(&module->arena, trm_instruction, capacity);
  CHECK_MEMORY(grown, "instructions");
  if (computation->num_instructions > 0) {
    memcpy(grown, computation->instructions, computation->num_instructions * sizeof *grown);
  }
  computation->instructions = grown;
  computation->capacity = capacity;
  return TRM_OK;
}

static trm_status grow_instructions(trm_module *module, trm_computation *computation,
                                    trm_error *error) {
  if (computation->num_instructions < computation->capacity) return TRM_OK;
  if (computation->capacity > TRM_NO_INDEX / 4) {
    FAIL(RESOURCE_EXHAUSTED, "a computation has too many instructions");
  }
  return set_capacity(module, computation,
                      computation->capacity < 16 ? 16 : computation->capacity * 2, error);
}

trm_status trm_computation_reserve(trm_module *module, uint32_t computation_index, uint32_t count,
                                   trm_error *error) {
  trm_computation *computation = &module->computations[computation_index];
  if (count <= computation->capacity) return TRM_OK;
  return set_capacity(module, computation, count, error);
}

static uint32_t *copy_indices(trm_arena *arena, const uint32_t *items, uint32_t count) {
  return trm_arena_copy(arena, items, count * sizeof *items);
}

static trm_status enter_parameter(trm_module *module, trm_computation *computation, trm_index index,
                                  int64_t number, trm_error *error) {
  if (number < 0 || number >= TRM_NO_INDEX / 2) {
    FAIL(INVALID_ARGUMENT, "parameter number %" PRId64 " in computation %s is out of range", number,
         computation->name);
  }
  if (number >= computation->num_parameters) {
    /* Readers see parameters in any order; numbers that stay unfilled are the verifier's. */
    if (number > (int64_t)computation->num_instructions + (1 << 20)) {
      FAIL(INVALID_ARGUMENT, "parameter number %" PRId64 " in computation %s is out of range",
           number, computation->name);
    }
    const uint32_t count = (uint32_t)number + 1;
    const uint32_t rounded = count < 8 ? 8 : UINT32_C(1) << (32 - __builtin_clz(count - 1));
    const uint32_t before = computation->num_parameters;
    const uint32_t had = before == 0   ? 0
                         : before < 8  ? 8
                         : before == 1 ? 8
                                       : UINT32_C(1) << (32 - __builtin_clz(before - 1));
    if (rounded > had) {
      trm_index *grown = ARENA_NEW(&module->arena, trm_index, rounded);
      CHECK_MEMORY(grown, "parameters");
      if (before > 0) memcpy(grown, computation->parameters, before * sizeof *grown);
      computation->parameters = grown;
    }
    for (uint32_t i = before; i < count; ++i) computation->parameters[i] = TRM_NO_INDEX;
    computation->num_parameters = count;
  }
  if (computation->parameters[number] != TRM_NO_INDEX) {
    FAIL(INVALID_ARGUMENT, "computation %s has two parameters with the number %" PRId64,
         computation->name, number);
  }
  computation->parameters[number] = index;
  return TRM_OK;
}

trm_status trm_computation_add(trm_module *module, uint32_t computation_index,
                               const trm_instruction *prototype, trm_index *out_index,
                               trm_error *error) {
  trm_computation *computation = &module->computations[computation_index];
  TRY(grow_instructions(module, computation, error));
  const trm_index index = computation->num_instructions;
  trm_instruction *instruction = &computation->instructions[index];
  *instruction = *prototype;
  trm_arena *arena = &module->arena;
  instruction->operands = copy_indices(arena, prototype->operands, prototype->num_operands);
  instruction->called = copy_indices(arena, prototype->called, prototype->num_called);
  instruction->control_predecessors =
      copy_indices(arena, prototype->control_predecessors, prototype->num_control_predecessors);
  /* Integers have the one order: to say that it is total says nothing. */
  if (instruction->opcode == TRM_OP_COMPARE && prototype->num_operands > 0 &&
      instruction->comparison_type == TRM_CMPTYPE_TOTALORDER &&
      !trm_dtype_is_floating(computation->instructions[prototype->operands[0]].shape.dtype)) {
    instruction->comparison_type = TRM_CMPTYPE_DEFAULT;
  }
  instruction->call_id = instruction->custom_call == NULL
                             ? TRM_CALL_NONE
                             : trm_call_find(instruction->custom_call->target);
  if (instruction->id == 0) instruction->id = module->next_id;
  if (instruction->id >= module->next_id && instruction->id < INT64_MAX) {
    module->next_id = instruction->id + 1;
  }
  if (instruction->name == NULL) {
    instruction->name =
        trm_arena_format(arena, "%s.%" PRId64, trm_opcode_name(prototype->opcode), instruction->id);
  }
  if (instruction->operands == NULL || instruction->called == NULL ||
      instruction->control_predecessors == NULL || instruction->name == NULL) {
    FAIL_NO_MEMORY("an instruction");
  }
  if (instruction->opcode == TRM_OP_PARAMETER) {
    TRY(enter_parameter(module, computation, index, instruction->number, error));
  }
  ++computation->num_instructions;
  *out_index = index;
  return TRM_OK;
}

trm_status trm_module_clone_computation(trm_module *module, uint32_t source, uint32_t *out_index,
                                        trm_error *error) {
  uint32_t index;
  TRY(trm_module_add_computation(module, NULL, &index, error));
  trm_computation *clone = &module->computations[index];
  const trm_computation *original = &module->computations[source];
  clone->name = trm_arena_format(&module->arena, "%s.clone.%" PRIu32, original->name, index);
  CHECK_MEMORY(clone->name, "a computation");
  for (trm_index i = 0; i < original->num_instructions; ++i) {
    trm_instruction copy = original->instructions[i];
    trm_index ignored;
    copy.id = 0;
    copy.name = NULL;
    TRY(trm_computation_add(module, index, &copy, &ignored, error));
  }
  clone->root = original->root;
  *out_index = index;
  return TRM_OK;
}

size_t trm_module_num_outputs(const trm_module *module) {
  const trm_computation *entry = &module->computations[module->entry];
  return (size_t)trm_shape_num_leaves(&entry->instructions[entry->root].shape);
}

trm_status trm_module_outputs(const trm_module *module, trm_tensor_info *out_infos,
                              int64_t *out_aliases, trm_error *error) {
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *result = &entry->instructions[entry->root].shape;
  const int32_t outputs = trm_shape_num_leaves(result);
  int64_t *first = trm_allocate_zeroed((size_t)entry->num_parameters + 1, sizeof *first);
  CHECK_MEMORY(first, "the parameters");
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_shape *shape = &entry->instructions[entry->parameters[p]].shape;
    first[p + 1] = first[p] + trm_shape_num_leaves(shape);
  }
  for (int32_t o = 0; o < outputs; ++o) {
    trm_shape_describe(trm_shape_leaf(result, o), &out_infos[o]);
    out_aliases[o] = -1;
  }
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    const trm_alias *alias = &module->aliases[a];
    const int64_t output = trm_shape_leaf_at(result, &alias->output_index),
                  p = alias->parameter_number;
    if (output < 0 || p < 0 || p >= (int64_t)entry->num_parameters) {
      continue; /* a token or an empty tuple; the verifier has refused anything else */
    }
    const trm_shape *shape = &entry->instructions[entry->parameters[p]].shape;
    const int64_t leaf = trm_shape_leaf_at(shape, &alias->parameter_index);
    if (leaf >= 0) out_aliases[output] = first[p] + leaf;
  }
  trm_free(first);
  return TRM_OK;
}

bool trm_module_is_of_tensorflow(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      if (computation->instructions[i].metadata.op_type != NULL) return true;
    }
  }
  return false;
}

const char *trm_module_name(const trm_module *module) { return module->name; }

const char *trm_instruction_frontend_attribute(const trm_instruction *instruction,
                                               const char *key) {
  const char *const *pair = instruction->frontend_attributes;
  for (; pair != NULL && pair[0] != NULL; pair += 2) {
    if (strcmp(pair[0], key) == 0) return pair[1];
  }
  return NULL;
}

const char *trm_instruction_fused_attribute(const trm_module *module,
                                            const trm_instruction *instruction, const char *key) {
  const char *value = trm_instruction_frontend_attribute(instruction, key);
  if (value != NULL || instruction->opcode != TRM_OP_FUSION || instruction->num_called == 0) {
    return value;
  }
  const trm_computation *body = &module->computations[instruction->called[0]];
  for (trm_index i = 0; i < body->num_instructions && value == NULL; ++i) {
    value = trm_instruction_frontend_attribute(&body->instructions[i], key);
  }
  return value;
}

void trm_module_mark_running(const trm_module *module, bool *runs) {
  runs[module->entry] = true;
  for (uint32_t c = module->num_computations; c-- > 0;) {
    if (!runs[c]) continue;
    for (trm_index i = 0; i < module->computations[c].num_instructions; ++i) {
      const trm_instruction *instruction = &module->computations[c].instructions[i];
      if (instruction->opcode != TRM_OP_WHILE && instruction->opcode != TRM_OP_CONDITIONAL) {
        continue;
      }
      for (uint32_t k = 0; k < instruction->num_called; ++k) runs[instruction->called[k]] = true;
    }
  }
}

static bool is_commutative(trm_opcode opcode) {
  return opcode == TRM_OP_ADD || opcode == TRM_OP_MULTIPLY || opcode == TRM_OP_MAXIMUM ||
         opcode == TRM_OP_MINIMUM || opcode == TRM_OP_AND || opcode == TRM_OP_OR ||
         opcode == TRM_OP_XOR;
}

trm_opcode trm_computation_combiner(const trm_computation *computation) {
  const trm_instruction *root = &computation->instructions[computation->root];
  if (computation->num_parameters != 2 || !is_commutative(root->opcode) || root->num_operands != 2)
    return TRM_NUM_OPCODES;
  const trm_index a = root->operands[0], b = root->operands[1];
  const trm_instruction *x = &computation->instructions[a], *y = &computation->instructions[b];
  const bool is_single = a != b && x->opcode == TRM_OP_PARAMETER && y->opcode == TRM_OP_PARAMETER &&
                         x->shape.dtype == root->shape.dtype && y->shape.dtype == root->shape.dtype;
  return is_single ? root->opcode : TRM_NUM_OPCODES;
}

/* Owns: which results of a computation are the new values of arrays that it is given: of a loop's
 * state, of the program's variables. */
#include <string.h>

#include "ipu/program/draft.h"

/* Goes through tuples and their elements to the instruction that makes the leaf. */
static void find_maker(const trm_computation *c, trm_index *maker, int32_t *leaf) {
  for (;;) {
    const trm_instruction *instruction = &c->instructions[*maker];
    if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
      *maker = instruction->operands[0];
      *leaf += trm_shape_leaf_offset(&c->instructions[*maker].shape, (int32_t)instruction->number);
    } else if (instruction->opcode == TRM_OP_TUPLE) {
      uint32_t k = 0;
      int32_t leaves;
      while ((leaves = trm_shape_num_leaves(&c->instructions[instruction->operands[k]].shape)) <=
             *leaf) {
        *leaf -= leaves;
        ++k;
      }
      *maker = instruction->operands[k];
    } else {
      return;
    }
  }
}

static bool is_body(const trm_module *module, uint32_t computation) {
  const trm_computation *body = &module->computations[computation];
  if (body->num_parameters != 1 || !trm_shape_equal(&body->instructions[body->parameters[0]].shape,
                                                    &body->instructions[body->root].shape)) {
    return false;
  }
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *caller = &module->computations[c];
    for (trm_index i = 0; i < caller->num_instructions; ++i) {
      const trm_instruction *instruction = &caller->instructions[i];
      if (instruction->opcode == TRM_OP_WHILE && instruction->called[1] == computation) return true;
    }
  }
  return false;
}

static void add_update(const trm_computation *c, trm_updates *updates, uint32_t parameter,
                       int32_t leaf, int32_t result) {
  trm_update *update = &updates->items[updates->count];
  *update = (trm_update){.parameter = parameter, .leaf = leaf, .by = c->root, .by_leaf = result};
  find_maker(c, &update->by, &update->by_leaf);
  /* Not what is handed on as it is. */
  if (c->instructions[update->by].opcode == TRM_OP_PARAMETER) return;
  update->next = updates->first[update->by];
  updates->first[update->by] = updates->count++;
}

trm_status trm_program_find_updates(const trm_module *module, uint32_t computation,
                                    trm_arena *arena, trm_updates *out, trm_error *error) {
  const trm_computation *c = &module->computations[computation];
  const trm_shape *root = &c->instructions[c->root].shape;
  const bool is_entry = computation == module->entry;
  const bool has_updates = is_entry || is_body(module, computation);
  const int32_t results = trm_shape_num_leaves(root);
  const size_t room = is_entry ? module->num_aliases : (size_t)results;
  *out = (trm_updates){.items = ARENA_NEW(arena, trm_update, room + 1),
                       .first = ARENA_NEW(arena, uint32_t, (size_t)c->num_instructions + 1)};
  if (out->items == NULL || out->first == NULL) FAIL_NO_MEMORY("updates");
  memset(out->first, 0xff, c->num_instructions * sizeof *out->first);
  if (!has_updates) return TRM_OK;
  for (int32_t l = 0; l < results && !is_entry; ++l) add_update(c, out, 0, l, l);
  for (uint32_t a = 0; a < module->num_aliases && is_entry; ++a) {
    const trm_alias *alias = &module->aliases[a];
    if (alias->parameter_number < 0 || alias->parameter_number >= (int64_t)c->num_parameters) {
      continue;
    }
    const uint32_t p = (uint32_t)alias->parameter_number;
    const trm_shape *shape = &c->instructions[c->parameters[p]].shape;
    const int64_t leaf = trm_shape_leaf_at(shape, &alias->parameter_index);
    const int64_t result = trm_shape_leaf_at(root, &alias->output_index);
    if (leaf >= 0 && result >= 0) add_update(c, out, p, (int32_t)leaf, (int32_t)result);
  }
  return TRM_OK;
}

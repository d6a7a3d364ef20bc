/* Owns: what a program computes for the new values of inputs that stay on the IPU, such as weights,
 * the state of an optimizer and moving averages: elementwise instructions that read such inputs,
 * directly or through others of the kind. */
#include "ipu/program/state_updates.h"

/* Marks inputs that are no weights: a feed brings them. */
static void find_data(const trm_program *program, const trm_module *module, bool *is_data) {
  const trm_computation *entry = &module->computations[module->entry];
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *variable = &program->variables[v];
    if (!variable->is_input || variable->is_weight || variable->source == TRM_NO_INDEX) continue;
    const trm_program_source *source = &program->sources[variable->source];
    if (source->computation == module->entry) is_data[source->instruction] = true;
  }
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    is_data[entry->parameters[module->aliases[a].parameter_number]] = false;
  }
}

trm_index trm_state_new_value(const trm_module *module, const trm_alias *alias) {
  const trm_computation *entry = &module->computations[module->entry];
  const trm_instruction *root = &entry->instructions[entry->root];
  if (alias->output_index.count == 0) return entry->root;
  if (alias->output_index.count > 1 || root->opcode != TRM_OP_TUPLE) return TRM_NO_INDEX;
  return root->operands[alias->output_index.items[0]];
}

/* Whether it computes each element, or each array, of the same ones of its operands. */
static bool is_simple(const trm_instruction *o) {
  return trm_opcode_is_elementwise(o->opcode) || o->opcode == TRM_OP_FUSION ||
         o->opcode == TRM_OP_BROADCAST || o->opcode == TRM_OP_RESHAPE ||
         o->opcode == TRM_OP_GET_TUPLE_ELEMENT; /* of a fusion */
}

/* Marks numbers. reads[i]: it reads what is updated. */
static void find_numbers(const trm_module *module, trm_state_updates *found, bool *reads) {
  const trm_computation *entry = &module->computations[module->entry];
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    reads[entry->parameters[module->aliases[a].parameter_number]] = true;
  }
  for (trm_index i = 0; i < entry->num_instructions; ++i) {
    const trm_instruction *o = &entry->instructions[i];
    const bool simple = is_simple(o);
    bool numbers = o->num_operands > 0;
    for (uint32_t k = 0; k < o->num_operands && simple; ++k) {
      reads[i] |= reads[o->operands[k]];
      numbers &= found->is_number[o->operands[k]];
    }
    const bool stays = o->opcode == TRM_OP_PARAMETER && !found->is_data[i];
    found->is_number[i] = o->opcode == TRM_OP_CONSTANT ||
                          (stays && trm_shape_is_scalar(&o->shape)) || (simple && numbers);
  }
}

/* Marks instructions that are wanted for new values and, but for numbers, nowhere else. */
static void find_updates(const trm_module *module, const bool *reads, bool *elsewhere, bool *wanted,
                         trm_state_updates *found) {
  const trm_computation *entry = &module->computations[module->entry];
  const bool has_results = entry->instructions[entry->root].opcode == TRM_OP_TUPLE;
  for (trm_index i = entry->num_instructions; i-- > 0;) {
    const trm_instruction *o = &entry->instructions[i];
    const bool is_source = o->opcode == TRM_OP_PARAMETER || o->opcode == TRM_OP_CONSTANT;
    if (i == entry->root && has_results) {
      for (uint32_t k = 0; k < o->num_operands; ++k) elsewhere[o->operands[k]] = true;
      for (uint32_t a = 0; a < module->num_aliases; ++a) {
        const trm_index result = trm_state_new_value(module, &module->aliases[a]);
        if (result == TRM_NO_INDEX) continue;
        elsewhere[result] = false;
        wanted[result] = true;
      }
      continue;
    }
    found->is_update[i] =
        !is_source && wanted[i] && ((reads[i] && !elsewhere[i]) || found->is_number[i]);
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      if (found->is_update[i]) wanted[o->operands[k]] = true;
      if (!found->is_update[i] || elsewhere[i]) elsewhere[o->operands[k]] = true;
    }
  }
}

trm_status trm_state_updates_find(const trm_program *program, const trm_module *module,
                                  trm_arena *arena, trm_state_updates *out, trm_error *error) {
  const size_t room = (size_t)module->computations[module->entry].num_instructions + 1;
  bool **const all[] = {&out->is_data, &out->is_number, &out->is_update};
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
    *all[k] = ARENA_NEW(arena, bool, room);
    CHECK_MEMORY(*all[k], "updates");
  }
  bool *reads = ARENA_NEW(arena, bool, room), *elsewhere = ARENA_NEW(arena, bool, room);
  bool *wanted = ARENA_NEW(arena, bool, room);
  if (reads == NULL || elsewhere == NULL || wanted == NULL) FAIL_NO_MEMORY("updates");
  find_data(program, module, out->is_data);
  find_numbers(module, out, reads);
  find_updates(module, reads, elsewhere, wanted, out);
  return TRM_OK;
}

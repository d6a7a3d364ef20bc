/* Owns: the last uses of values, by position in a computation's order. */
#include "hlo/loops.h"
#include "ipu/program/draft.h"

static bool hands_on(const trm_program_draft *draft, const trm_computation *computation,
                     const trm_instruction *instruction) {
  const trm_cost_class class = trm_program_cost_class(draft->module, computation, instruction);
  return class == TRM_COST_VIEW || class == TRM_COST_NONE;
}

static void raise(uint32_t *last, uint32_t position) {
  if (*last < position) *last = position;
}

/* Extends the lives of an instruction's operands to `position`, or to the last use of the result
 * for a result that is a view of them. */
static void spread_last(const trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                        uint32_t position) {
  const trm_computation *computation = &draft->module->computations[scope->computation];
  const trm_instruction *instruction = &computation->instructions[i];
  const uint32_t *mine = scope->last[i];
  const int32_t my_leaves = trm_shape_num_leaves(&instruction->shape);
  int32_t offset = 0;
  const bool passes = hands_on(draft, computation, instruction) ||
                      draft->roles[scope->computation][i].call.is_absorbed;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const int32_t leaves = trm_shape_num_leaves(&computation->instructions[operand].shape);
    uint32_t *last = scope->last[operand];
    for (int32_t l = 0; l < leaves; ++l) raise(&last[l], position);
    if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
      const int32_t first = trm_shape_leaf_offset(&computation->instructions[operand].shape,
                                                  (int32_t)instruction->number);
      for (int32_t l = 0; l < my_leaves; ++l) raise(&last[first + l], mine[l]);
    } else if (instruction->opcode == TRM_OP_TUPLE) {
      for (int32_t l = 0; l < leaves; ++l) raise(&last[l], mine[offset + l]);
      offset += leaves;
    } else if (instruction->opcode == TRM_OP_WHILE) {
      const trm_computation *body = &draft->module->computations[instruction->called[1]];
      const trm_instruction *root = &body->instructions[body->root];
      for (int32_t e = 0, l = 0; e < (int32_t)root->num_operands && root->opcode == TRM_OP_TUPLE;
           ++e) {
        const trm_instruction *element = &body->instructions[root->operands[e]];
        const int32_t n = trm_shape_num_leaves(&element->shape);
        const bool same = trm_state_element(body, element) == e;
        for (int32_t j = 0; j < n && l < leaves; ++j, ++l) {
          if (same) raise(&last[l], mine[l]);
        }
      }
    } else if (passes && my_leaves > 0) {
      for (int32_t l = 0; l < leaves; ++l) raise(&last[l], mine[l < my_leaves ? l : my_leaves - 1]);
    }
  }
}

trm_status trm_program_find_last_uses(trm_program_draft *draft, trm_program_scope *scope,
                                      const uint32_t *order, trm_error *error) {
  const trm_computation *computation = &draft->module->computations[scope->computation];
  const uint32_t count = computation->num_instructions;
  for (uint32_t p = 0; p < count; ++p) {
    const trm_index i = order[p];
    const int32_t leaves = trm_shape_num_leaves(&computation->instructions[i].shape);
    scope->last[i] = ARENA_NEW(&draft->scratch, uint32_t, (size_t)leaves + 1);
    CHECK_MEMORY(scope->last[i], "values");
    for (int32_t l = 0; l < leaves; ++l) scope->last[i][l] = p;
  }
  const int32_t leaves = trm_shape_num_leaves(&computation->instructions[computation->root].shape);
  for (int32_t l = 0; l < leaves; ++l) scope->last[computation->root][l] = TRM_NEVER_DIES;
  for (uint32_t p = count; p-- > 0;) spread_last(draft, scope, order[p], p);
  return TRM_OK;
}

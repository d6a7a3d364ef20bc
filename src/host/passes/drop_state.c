/* Owns: elements of a loop's state that only their own next values depend on. The body hands such
 * an element on unchanged, and the instructions that computed it go. An example is the gradient of
 * a recurrent layer with respect to an input that needs none: each iteration computes a product and
 * copies an array of all steps. */
#include <string.h>

#include "passes/loop_state.h"
#include "passes/pass.h"

/* Marks the elements that the computation takes from the tuple `from`. */
static void mark_taken(const trm_computation *computation, trm_index from, bool *live) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT && instruction->operands[0] == from) {
      live[instruction->number] = true;
    }
  }
}

/* Makes the body hand on the elements that are not live. */
static trm_status hand_on(trm_module *module, uint32_t body, const bool *live, trm_error *error) {
  trm_edit edit;
  TRY(trm_edit_begin(&edit, module, body, error));
  const trm_computation *computation = trm_edit_computation(&edit);
  const trm_index index = computation->root, parameter = computation->parameters[0];
  const trm_instruction root = computation->instructions[index];
  trm_index *operands =
      trm_arena_copy(&module->arena, root.operands, root.num_operands * sizeof *operands);
  trm_status status = TRM_OK;
  if (operands == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a loop");
  for (uint32_t k = 0; k < root.num_operands; ++k) {
    const trm_instruction *now = trm_edit_at(&edit, operands[k]);
    const bool is_handed_on = now->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
                              now->operands[0] == parameter && now->number == (int64_t)k;
    if (live[k] || is_handed_on) continue;
    TRY_OR_GOTO(trm_edit_element(&edit, index, parameter, k, &operands[k], error), done);
    edit.changed = true;
  }
  trm_edit_at(&edit, index)->operands = operands;
done:
  return trm_edit_end(&edit, status, error);
}

static trm_status drop_state(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  const trm_instruction *loop = trm_edit_at(edit, i);
  if (loop->opcode != TRM_OP_WHILE || !trm_loop_may_grow(edit, i)) return TRM_OK;
  const trm_computation *computations = edit->module->computations;
  const trm_computation *condition = &computations[loop->called[0]];
  const uint32_t index = loop->called[1];
  const trm_computation *body = &computations[index];
  if (body->instructions[body->root].opcode != TRM_OP_TUPLE) return TRM_OK;
  const size_t elements = (size_t)loop->shape.num_elements;
  bool *live = trm_allocate_zeroed(elements + 1, sizeof *live);
  bool *needed = trm_allocate_zeroed((size_t)body->num_instructions + 1, sizeof *needed);
  trm_status status = TRM_OK;
  if (live == NULL || needed == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a loop");
  }
  mark_taken(trm_edit_computation(edit), i, live);
  for (size_t k = 0; k < elements; ++k) {
    live[k] |= trm_count_readers(condition, (int64_t)k) > 0;
  }
  for (trm_index k = 0; k < body->num_instructions; ++k) {
    needed[k] = trm_instruction_has_side_effect(edit->module, &body->instructions[k]);
  }
  trm_loop_find_needed(body, needed, live, NULL, NULL);
  status = hand_on(edit->module, index, live, error);
done:
  trm_free(live);
  trm_free(needed);
  return status;
}

trm_status trm_pass_drop_state(trm_module *module, trm_error *error) {
  return trm_edit_module(module, drop_state, NULL, error);
}

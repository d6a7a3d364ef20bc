/* Owns: elements of a loop's state that only their own next values depend on. The body hands such
 * an element on unchanged, and the instructions that computed it go. An example is the gradient of
 * a recurrent layer with respect to an input that needs none: each turn computes a product and
 * copies an array of all steps. */
#include <string.h>

#include "passes/loop_state.h"
#include "passes/pass.h"

typedef struct liveness {
  const trm_module *module;
  const trm_computation *body;
  bool *live;   /* by element of the state */
  bool *needed; /* by instruction of the body */
  bool changed;
} liveness;

/* Marks the elements that the computation takes from the tuple `from`. */
static void mark_taken(const trm_computation *computation, trm_index from, bool *live) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT && instruction->operands[0] == from) {
      live[instruction->number] = true;
    }
  }
}

static void need(liveness *l, trm_index i) {
  if (l->needed[i]) return;
  l->needed[i] = l->changed = true;
  const trm_instruction *instruction = &l->body->instructions[i];
  if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
      instruction->operands[0] == l->body->parameters[0]) {
    l->live[instruction->number] = true;
  }
}

/* One walk from the last instruction to the first. A live element may make other elements live,
 * which takes another walk. */
static void walk(liveness *l) {
  const trm_computation *body = l->body;
  const trm_instruction *root = &body->instructions[body->root];
  l->changed = false;
  for (uint32_t k = 0; k < root->num_operands; ++k)
    if (l->live[k]) need(l, root->operands[k]);
  for (trm_index i = body->num_instructions; i-- > 0;) {
    const trm_instruction *instruction = &body->instructions[i];
    if (i == body->root) continue;
    if (trm_instruction_has_side_effect(l->module, instruction)) need(l, i);
    if (!l->needed[i]) continue;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) need(l, instruction->operands[k]);
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k)
      need(l, instruction->control_predecessors[k]);
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
  liveness l = {.module = edit->module, .body = &computations[index], .changed = true};
  if (l.body->instructions[l.body->root].opcode != TRM_OP_TUPLE) return TRM_OK;
  const size_t elements = (size_t)loop->shape.num_elements;
  l.live = trm_allocate_zeroed(elements + 1, sizeof *l.live);
  l.needed = trm_allocate_zeroed((size_t)l.body->num_instructions + 1, sizeof *l.needed);
  trm_status status = TRM_OK;
  if (l.live == NULL || l.needed == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a loop");
  }
  mark_taken(trm_edit_computation(edit), i, l.live);
  for (size_t k = 0; k < elements; ++k) {
    l.live[k] |= trm_count_readers(condition, (int64_t)k) > 0;
  }
  while (l.changed) walk(&l);
  status = hand_on(edit->module, index, l.live, error);
done:
  trm_free(l.live);
  trm_free(l.needed);
  return status;
}

trm_status trm_pass_drop_state(trm_module *module, trm_error *error) {
  return trm_edit_module(module, drop_state, NULL, error);
}

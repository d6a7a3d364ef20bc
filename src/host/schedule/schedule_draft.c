/* Owns: appending slots, steps and candidates to a schedule in the making (schedule_build.h). */
#include <string.h>

#include "host/schedule/schedule_build.h"

trm_status trm_schedule_new_slot(trm_schedule_draft *draft, trm_slot_kind kind, size_t bytes,
                                 uint32_t *out_slot, trm_error *error) {
  const uint32_t index = (uint32_t)draft->slots.count;
  const trm_slot slot = {.kind = kind,
                         .bytes = bytes,
                         .begin = draft->clock,
                         .end = draft->clock,
                         .parent = index,
                         .depth = draft->loop_depth,
                         .at_top = draft->loop_depth == 0};
  if (index == TRM_NO_INDEX || !VECTOR_PUSH(&draft->slots, slot)) FAIL_NO_MEMORY("buffers");
  *out_slot = index;
  return TRM_OK;
}

void trm_schedule_touch(trm_schedule_draft *draft, uint32_t slot) {
  trm_slot *touched = &draft->slots.items[slot];
  touched->end = draft->clock;
  if (touched->kind == TRM_SLOT_VIEW) draft->slots.items[touched->number].end = draft->clock;
}

trm_status trm_schedule_new_leaves(trm_schedule_draft *draft, const trm_shape *shape,
                                   uint32_t **out_leaves, trm_error *error) {
  const int32_t count = trm_shape_num_leaves(shape);
  uint32_t *leaves = ARENA_NEW(&draft->schedule->arena, uint32_t, (size_t)count);
  CHECK_MEMORY(leaves, "buffers");
  for (int32_t i = 0; i < count; ++i) {
    TRY(trm_schedule_new_slot(draft, TRM_SLOT_ARENA, trm_shape_bytes(trm_shape_leaf(shape, i)),
                              &leaves[i], error));
  }
  *out_leaves = leaves;
  return TRM_OK;
}

trm_status trm_schedule_add_step(trm_schedule_draft *draft, trm_step step, const uint32_t *operands,
                                 const uint32_t *results, uint32_t *out_index, trm_error *error) {
  step.time = ++draft->clock;
  /* The instruction's own number: the same whatever the host's passes make of those around it. */
  step.identity =
      (uint64_t)draft->module->computations[step.computation].instructions[step.instruction].id;
  const size_t total = (size_t)step.num_operands + step.num_results;
  step.slots = ARENA_NEW(&draft->schedule->arena, uint32_t, total);
  CHECK_MEMORY(step.slots, "a step");
  if (step.num_operands > 0) memcpy(step.slots, operands, step.num_operands * sizeof *operands);
  if (step.num_results > 0) {
    memcpy(step.slots + step.num_operands, results, step.num_results * sizeof *results);
  }
  for (uint32_t i = 0; i < step.num_operands; ++i) {
    if (operands[i] != TRM_NO_INDEX) trm_schedule_touch(draft, operands[i]);
  }
  for (uint32_t i = 0; i < step.num_results; ++i) {
    trm_slot *slot = &draft->slots.items[results[i]];
    if (!slot->written) slot->begin = draft->clock;
    slot->written = true;
    slot->end = draft->clock;
  }
  if (out_index != NULL) *out_index = (uint32_t)draft->steps.count;
  if (!VECTOR_PUSH(&draft->steps, step)) FAIL_NO_MEMORY("steps");
  return TRM_OK;
}

trm_status trm_schedule_add_copy(trm_schedule_draft *draft, const trm_schedule_scope *s,
                                 trm_index instruction, uint32_t source, uint32_t target,
                                 trm_error *error) {
  const trm_step step = {.kind = TRM_STEP_COPY,
                         .computation = s->computation,
                         .instruction = instruction,
                         .num_operands = 1,
                         .num_results = 1,
                         .scratch = TRM_NO_INDEX,
                         .is_plain = true};
  return trm_schedule_add_step(draft, step, &source, &target, NULL, error);
}

trm_status trm_schedule_add_candidate(trm_schedule_draft *draft, trm_coalesce what,
                                      trm_error *error) {
  if (!VECTOR_PUSH(&draft->candidates, what)) FAIL_NO_MEMORY("buffer assignment");
  return TRM_OK;
}

const trm_instruction *trm_schedule_at(const trm_schedule_draft *draft, const trm_schedule_scope *s,
                                       trm_index i) {
  if (s->instead != NULL && s->instead[i] != NULL) return s->instead[i];
  return &draft->module->computations[s->computation].instructions[i];
}

trm_status trm_schedule_gather_operands(const trm_schedule_draft *draft,
                                        const trm_schedule_scope *s, trm_index i, uint32_t first,
                                        uint32_t **out_leaves, uint32_t *out_count,
                                        trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  uint32_t count = 0;
  for (uint32_t k = first; k < instruction->num_operands; ++k) {
    count +=
        (uint32_t)trm_shape_num_leaves(&trm_schedule_at(draft, s, instruction->operands[k])->shape);
  }
  uint32_t *leaves = ARENA_NEW(&draft->schedule->arena, uint32_t, count);
  CHECK_MEMORY(leaves, "operands");
  uint32_t used = 0;
  for (uint32_t k = first; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const uint32_t n = (uint32_t)trm_shape_num_leaves(&trm_schedule_at(draft, s, operand)->shape);
    if (n > 0) memcpy(leaves + used, s->leaves[operand], n * sizeof *leaves);
    used += n;
  }
  *out_leaves = leaves;
  *out_count = count;
  return TRM_OK;
}

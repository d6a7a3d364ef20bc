/* Owns: slices of arrays that are read where they are. A dynamic-slice along the first dimension,
 * in a loop, of an array that the loop does not change, is no copy: its step finds the address, and
 * writes it where the steps that read the slice take their operands from. */
#include "host/schedule/schedule_build.h"

static bool is_index(const trm_shape *shape) {
  return shape->rank == 0 &&
         (shape->dtype == TRM_S32 || shape->dtype == TRM_S64 || shape->dtype == TRM_U32);
}

bool trm_schedule_is_view(const trm_schedule_draft *draft, const trm_schedule_scope *s,
                          trm_index i) {
  const trm_instruction *slice = trm_schedule_at(draft, s, i);
  if (slice->opcode != TRM_OP_DYNAMIC_SLICE || draft->reference_only || draft->loop_depth == 0) {
    return false;
  }
  const trm_shape *array = &trm_schedule_at(draft, s, slice->operands[0])->shape;
  if (array->rank == 0 || slice->num_operands != (uint32_t)array->rank + 1 ||
      !is_index(&trm_schedule_at(draft, s, slice->operands[1])->shape) ||
      trm_shape_bytes(&slice->shape) == 0) {
    return false;
  }
  for (int32_t d = 1; d < array->rank; ++d) {
    if (slice->shape.dims[d] != array->dims[d]) return false;
  }
  const trm_slot *slot = &draft->slots.items[s->leaves[slice->operands[0]][0]];
  return slot->kind != TRM_SLOT_VIEW && slot->depth < draft->loop_depth && !slot->changes;
}

trm_status trm_schedule_walk_view(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                  trm_error *error) {
  const trm_instruction *slice = trm_schedule_at(draft, s, i);
  const trm_shape *array = &trm_schedule_at(draft, s, slice->operands[0])->shape;
  const uint32_t operands[2] = {s->leaves[slice->operands[0]][0], s->leaves[slice->operands[1]][0]};
  trm_view *view = ARENA_NEW(&draft->schedule->arena, trm_view, 1);
  CHECK_MEMORY(view, "a slice of an array");
  view->stride = trm_shape_bytes(array) / (size_t)array->dims[0];
  view->last = array->dims[0] - slice->shape.dims[0];
  view->index = trm_schedule_at(draft, s, slice->operands[1])->shape.dtype;
  TRY(trm_schedule_new_leaves(draft, &slice->shape, &s->leaves[i], error));
  trm_slot *slot = &draft->slots.items[s->leaves[i][0]];
  slot->kind = TRM_SLOT_VIEW;
  slot->number = operands[0];
  const trm_step step = {.kind = TRM_STEP_VIEW,
                         .computation = s->computation,
                         .instruction = i,
                         .num_operands = 2,
                         .num_results = 1,
                         .scratch = TRM_NO_INDEX,
                         .is_plain = true,
                         .view = view};
  return trm_schedule_add_step(draft, step, operands, s->leaves[i], NULL, error);
}

/* Calls for every operand that is a view: its place in the table of all operands. */
static void visit_uses(const trm_schedule *schedule, trm_view *const *views, bool counts) {
  uint32_t place = 0;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    for (uint32_t k = 0; k < step->num_operands; ++k, ++place) {
      trm_view *view = views[step->slots[k]];
      if (view == NULL) continue;
      if (!counts) view->uses[view->num_uses] = place;
      ++view->num_uses;
    }
  }
}

trm_status trm_schedule_place_views(trm_schedule *schedule, trm_error *error) {
  trm_view **views = trm_allocate_zeroed((size_t)schedule->num_slots + 1, sizeof(trm_view *));
  CHECK_MEMORY(views, "slices of arrays");
  trm_status status = TRM_OK;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    if (step->kind == TRM_STEP_VIEW) views[step->slots[step->num_operands]] = step->view;
  }
  visit_uses(schedule, views, true);
  for (uint32_t i = 0; i < schedule->num_slots && status == TRM_OK; ++i) {
    if (views[i] == NULL) continue;
    views[i]->uses = ARENA_NEW(&schedule->arena, uint32_t, views[i]->num_uses);
    if (views[i]->uses == NULL) status = TRM_RESOURCE_EXHAUSTED;
    views[i]->num_uses = 0;
  }
  if (status == TRM_OK) visit_uses(schedule, views, false);
  trm_free(views);
  if (status != TRM_OK) FAIL_NO_MEMORY("slices of arrays");
  return TRM_OK;
}

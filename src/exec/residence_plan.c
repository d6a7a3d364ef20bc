/* Owns: finding the last uses of slots, after which their arrays on an accelerator can go, or be
 * written over.
 *
 * The steps are walked from the last to the first. In a loop everything is alive at the end of the
 * body that an iteration reads before it writes it, or that is alive after the loop. */
#include <string.h>

#include "base/memory.h"
#include "exec/residence.h"

typedef struct plan {
  trm_schedule *schedule;
  trm_arena arena; /* of sets */
} plan;

/* Sets of slots, by representative. */
static bool *new_set(plan *p, const bool *from) {
  bool *set = ARENA_NEW(&p->arena, bool, (size_t)p->schedule->num_slots + 1);
  if (set != NULL && from != NULL) memcpy(set, from, p->schedule->num_slots * sizeof *set);
  return set;
}

static uint32_t root_of(const plan *p, uint32_t slot) { return p->schedule->slots[slot].parent; }

/* The first step behind a step and those of its ranges. */
static uint32_t behind(const trm_step *step, uint32_t i) {
  return step->num_ranges > 0 ? step->ranges[step->num_ranges - 1].end : i + 1;
}

static trm_status walk(plan *p, trm_step_range range, bool *alive, trm_error *error);

/* The first turn finds what an iteration reads of the one before, the second the last uses. */
static trm_status walk_while(plan *p, const trm_step *step, bool *alive, trm_error *error) {
  const bool *after = new_set(p, alive);
  CHECK_MEMORY(after, "an accelerator's arrays");
  for (int turn = 0; turn < 2; ++turn) {
    TRY(walk(p, step->ranges[1], alive, error));
    for (uint32_t s = 0; s < p->schedule->num_slots; ++s) alive[s] = alive[s] || after[s];
    alive[root_of(p, step->slots[0])] = true;
    TRY(walk(p, step->ranges[0], alive, error));
  }
  return TRM_OK;
}

static trm_status walk_branches(plan *p, const trm_step *step, bool *alive, trm_error *error) {
  const bool *after = new_set(p, alive);
  CHECK_MEMORY(after, "an accelerator's arrays");
  for (uint32_t g = 0; g < step->num_ranges; ++g) {
    bool *inside = new_set(p, after);
    CHECK_MEMORY(inside, "an accelerator's arrays");
    TRY(walk(p, step->ranges[g], inside, error));
    for (uint32_t s = 0; s < p->schedule->num_slots; ++s) alive[s] = alive[s] || inside[s];
  }
  alive[root_of(p, step->slots[0])] = true;
  return TRM_OK;
}

static void walk_plain(plan *p, trm_step *step, bool *alive) {
  for (uint32_t k = 0; k < step->num_results; ++k) {
    alive[root_of(p, step->slots[step->num_operands + k])] = false;
  }
  for (uint32_t k = 0; k < step->num_operands; ++k) {
    const trm_slot *slot = &p->schedule->slots[root_of(p, step->slots[k])];
    step->is_last[k] = !alive[root_of(p, step->slots[k])] && slot->kind != TRM_SLOT_INPUT &&
                       slot->kind != TRM_SLOT_CONSTANT;
  }
  for (uint32_t k = 0; k < step->num_operands; ++k) alive[root_of(p, step->slots[k])] = true;
}

static trm_status walk(plan *p, trm_step_range range, bool *alive, trm_error *error) {
  uint32_t *at = ARENA_NEW(&p->arena, uint32_t, (size_t)(range.end - range.begin) + 1), count = 0;
  CHECK_MEMORY(at, "an accelerator's arrays");
  for (uint32_t i = range.begin; i < range.end; i = behind(&p->schedule->steps[i], i)) {
    at[count++] = i;
  }
  while (count > 0) {
    trm_step *step = &p->schedule->steps[at[--count]];
    if (step->kind == TRM_STEP_WHILE) TRY(walk_while(p, step, alive, error));
    else if (step->kind == TRM_STEP_CONDITIONAL) TRY(walk_branches(p, step, alive, error));
    else walk_plain(p, step, alive);
  }
  return TRM_OK;
}

trm_status trm_residence_plan(trm_schedule *schedule, trm_error *error) {
  if (trm_schedule_accelerator(schedule) == NULL) return TRM_OK;
  plan p = {.schedule = schedule};
  bool *alive = new_set(&p, NULL);
  trm_status status = TRM_OK;
  for (uint32_t i = 0; i < schedule->num_steps && alive != NULL; ++i) {
    trm_step *step = &schedule->steps[i];
    step->is_last = ARENA_NEW(&schedule->arena, bool, (size_t)step->num_operands + 1);
    if (step->is_last == NULL) alive = NULL;
  }
  if (alive == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for an accelerator's arrays");
  } else {
    for (uint32_t s = 0; s < schedule->num_slots; ++s) {
      if (schedule->slots[s].kind == TRM_SLOT_OUTPUT) alive[schedule->slots[s].parent] = true;
    }
    status = walk(&p, (trm_step_range){0, schedule->num_steps}, alive, error);
  }
  trm_arena_free(&p.arena);
  return status;
}

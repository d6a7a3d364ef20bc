/* Owns: the steps of loops and conditionals. A while loop keeps its state in slots of its own;
 * elements that the body returns unchanged are not copied. */
#include <inttypes.h>
#include <stdlib.h>

#include "hlo/loops.h"
#include "host/schedule/schedule_build.h"

/* The time of the kernel that writes `written` over `state` in place, or 0. Searches back to the
 * first step of the body. */
static uint32_t written_in_place(const trm_schedule_draft *draft, uint32_t written, uint32_t state,
                                 uint32_t first_step) {
  for (size_t i = draft->steps.count; i-- > first_step;) {
    const trm_step *step = &draft->steps.items[i];
    if (step->kind != TRM_STEP_KERNEL) continue;
    uint32_t leaf = 0;
    while (leaf < step->num_results && step->slots[step->num_operands + leaf] != written) ++leaf;
    if (leaf == step->num_results) continue;
    bool reads = false;
    for (uint32_t k = 0; k < step->num_operands; ++k) {
      if (step->slots[k] != state) continue;
      if (!trm_kernel_may_overwrite(step->kernel, leaf, k)) return 0;
      reads = true;
    }
    return reads ? draft->slots.items[written].begin : 0;
  }
  return 0;
}

static bool contains(const uint32_t *items, uint32_t count, uint32_t value) {
  for (uint32_t i = 0; i < count; ++i) {
    if (items[i] == value) return true;
  }
  return false;
}

/* Copies the body's results into the state's slots, as if all at once. */
static trm_status loop_back(trm_schedule_draft *draft, const trm_schedule_scope *s, trm_index i,
                            const uint32_t *root, uint32_t *state, const bool *invariant,
                            uint32_t count, uint32_t since, uint32_t first_step, trm_error *error) {
  uint32_t *source = ARENA_NEW(&draft->schedule->arena, uint32_t, count);
  CHECK_MEMORY(source, "loop state");
  bool any_state_read = false;
  for (uint32_t k = 0; k < count; ++k) {
    source[k] = root[k];
    if (invariant[k] || root[k] == state[k]) continue;
    any_state_read = any_state_read || draft->slots.items[root[k]].begin <= since;
  }
  for (uint32_t k = 0; k < count && any_state_read; ++k) {
    /* A copy into another part of the state may overwrite a value of the state before it is read.
     */
    if (invariant[k] || root[k] == state[k] || draft->slots.items[root[k]].begin > since ||
        !contains(state, count, root[k])) {
      continue;
    }
    TRY(trm_schedule_new_slot(draft, TRM_SLOT_ARENA, draft->slots.items[root[k]].bytes, &source[k],
                              error));
    TRY(trm_schedule_add_copy(draft, s, i, root[k], source[k], error));
  }
  for (uint32_t k = 0; k < count; ++k) {
    if (invariant[k] || source[k] == state[k]) continue;
    const uint32_t last_read = draft->slots.items[state[k]].end;
    const uint32_t in_place = written_in_place(draft, source[k], state[k], first_step);
    TRY(trm_schedule_add_copy(draft, s, i, source[k], state[k], error));
    TRY(trm_schedule_add_candidate(draft,
                                   (trm_coalesce){.kind = TRM_COALESCE_LOOP_BACK,
                                                  .target = state[k],
                                                  .source = source[k],
                                                  .time = draft->clock,
                                                  .since = since,
                                                  .last_read = last_read,
                                                  .in_place_at = in_place},
                                   error));
  }
  return TRM_OK;
}

typedef struct first_values {
  const trm_schedule_draft *draft;
  const uint32_t *slots; /* by leaf of the state */
} first_values;

static const void *first_value(const void *context, int32_t leaf) {
  const first_values *values = context;
  const trm_slot *slot = &values->draft->slots.items[values->slots[leaf]];
  return slot->kind == TRM_SLOT_CONSTANT ? slot->constant : NULL;
}

static uint64_t at_least_product(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* A sum over mini-batches, whose instructions state their number, must not end in the middle. A sum
 * of sums is in a branch, and states the whole number. */
static trm_status check_accumulation(const trm_module *module, const trm_computation *body,
                                     uint64_t iterations, trm_error *error) {
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const trm_instruction *instruction = &body->instructions[i];
    const char *text =
        trm_instruction_fused_attribute(module, instruction, "gradient_accumulation_count");
    const unsigned long long count = text == NULL ? 0 : strtoull(text, NULL, 10);
    for (uint32_t k = 0; instruction->opcode == TRM_OP_CONDITIONAL && k < instruction->num_called;
         ++k)
      TRY(check_accumulation(module, &module->computations[instruction->called[k]], iterations,
                             error));
    if (count == 0 || iterations % count == 0) continue;
    FAIL(FAILED_PRECONDITION,
         "Detected a gradient accumulation operation with %llu number of mini batches inside a "
         "loop with %" PRIu64 " iterations. The number of iterations must be a multiple of the "
         "number of mini batches, or gradients would be lost.",
         count, iterations);
  }
  return TRM_OK;
}

/* Slots for what changes, and copies of the first values; `iterations` is 0 where it is not known.
 * Checks of results see whole arrays, so they are whole then. */
static trm_status make_state(trm_schedule_draft *draft, const trm_schedule_scope *s, trm_index i,
                             const uint32_t *init, const trm_loop *loop, uint64_t iterations,
                             uint32_t count, uint32_t *state, trm_error *error) {
  for (uint32_t k = 0; k < count; ++k) {
    state[k] = init[k];
    if (loop->invariant[k]) continue;
    TRY(trm_schedule_new_slot(draft, TRM_SLOT_ARENA, draft->slots.items[init[k]].bytes, &state[k],
                              error));
    draft->slots.items[state[k]].at_top = false;
    draft->slots.items[state[k]].changes = true;
    if (draft->schedule->float_events == 0 && trm_loop_fills(loop, (int32_t)k, iterations)) {
      draft->slots.items[state[k]].written = true;
      continue;
    }
    TRY(trm_schedule_add_copy(draft, s, i, init[k], state[k], error));
    TRY(trm_schedule_add_candidate(
        draft,
        (trm_coalesce){
            .kind = TRM_COALESCE_COPY, .target = state[k], .source = init[k], .time = draft->clock},
        error));
  }
  return TRM_OK;
}

trm_status trm_schedule_walk_while(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                   trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  const uint32_t condition = instruction->called[0], body = instruction->called[1];
  const uint32_t *init = s->leaves[instruction->operands[0]];
  const uint32_t count = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  uint32_t *state = ARENA_NEW(&draft->schedule->arena, uint32_t, count);
  bool *invariant = ARENA_NEW(&draft->schedule->arena, bool, count);
  if (state == NULL || invariant == NULL) FAIL_NO_MEMORY("loop state");
  const trm_loop loop = {.condition = &draft->module->computations[condition],
                         .body = &draft->module->computations[body],
                         .state = &instruction->shape,
                         .invariant = invariant,
                         .first_value = first_value,
                         .context = &(first_values){draft, init}};
  trm_loop_find_invariant(loop.body, invariant, (int32_t)count);
  uint64_t iterations;
  bool is_exact;
  if (!trm_loop_trip_count(&loop, &iterations, &is_exact) || !is_exact) iterations = 0;
  const uint64_t runs = draft->runs, body_runs = at_least_product(runs, iterations);
  if (body_runs > 0) TRY(check_accumulation(draft->module, loop.body, iterations, error));
  TRY(make_state(draft, s, i, init, &loop, iterations, count, state, error));
  uint32_t index;
  trm_step step = {.kind = TRM_STEP_WHILE,
                   .computation = s->computation,
                   .instruction = i,
                   .num_operands = 1,
                   .scratch = TRM_NO_INDEX,
                   .num_ranges = 2};
  step.ranges = ARENA_NEW(&draft->schedule->arena, trm_step_range, 2);
  CHECK_MEMORY(step.ranges, "a loop");
  const uint32_t not_yet = TRM_NO_INDEX;
  TRY(trm_schedule_add_step(draft, step, &not_yet, NULL, &index, error));
  const uint32_t *parameters[1] = {state}, *root;
  ++draft->loop_depth;
  step.ranges[0].begin = (uint32_t)draft->steps.count;
  TRY(trm_schedule_walk(draft, condition, parameters, &root, error));
  step.ranges[0].end = (uint32_t)draft->steps.count;
  ++draft->clock;
  draft->steps.items[index].slots[0] = root[0];
  trm_schedule_touch(draft, root[0]);
  const uint32_t since = draft->clock;
  step.ranges[1].begin = (uint32_t)draft->steps.count;
  draft->runs = body_runs;
  TRY(trm_schedule_walk(draft, body, parameters, &root, error));
  draft->runs = runs;
  TRY(loop_back(draft, s, i, root, state, invariant, count, since, step.ranges[1].begin, error));
  step.ranges[1].end = (uint32_t)draft->steps.count;
  --draft->loop_depth;
  ++draft->clock;
  for (uint32_t k = 0; k < count; ++k) {
    trm_schedule_touch(draft, state[k]);
    if (!invariant[k]) draft->slots.items[state[k]].changes = false;
  }
  s->leaves[i] = state;
  return TRM_OK;
}

trm_status trm_schedule_walk_conditional(trm_schedule_draft *draft, trm_schedule_scope *s,
                                         trm_index i, trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  const uint32_t branches = instruction->num_called;
  const uint32_t count = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  const uint32_t *selector = s->leaves[instruction->operands[0]];
  uint32_t index;
  trm_step step = {.kind = TRM_STEP_CONDITIONAL,
                   .computation = s->computation,
                   .instruction = i,
                   .num_operands = 1,
                   .scratch = TRM_NO_INDEX,
                   .num_ranges = branches};
  step.selector_is_pred =
      trm_schedule_at(draft, s, instruction->operands[0])->shape.dtype == TRM_PRED;
  step.ranges = ARENA_NEW(&draft->schedule->arena, trm_step_range, branches);
  CHECK_MEMORY(step.ranges, "a conditional");
  TRY(trm_schedule_add_step(draft, step, selector, NULL, &index, error));
  TRY(trm_schedule_new_leaves(draft, &instruction->shape, &s->leaves[i], error));
  for (uint32_t k = 0; k < count; ++k) draft->slots.items[s->leaves[i][k]].at_top = false;
  const uint64_t runs = draft->runs;
  if (branches > 1) draft->runs = 0;
  for (uint32_t branch = 0; branch < branches; ++branch) {
    const uint32_t since = ++draft->clock;
    const uint32_t *parameters[1] = {s->leaves[instruction->operands[branch + 1]]}, *root;
    step.ranges[branch].begin = (uint32_t)draft->steps.count;
    TRY(trm_schedule_walk(draft, instruction->called[branch], parameters, &root, error));
    for (uint32_t k = 0; k < count; ++k) {
      TRY(trm_schedule_add_copy(draft, s, i, root[k], s->leaves[i][k], error));
      TRY(trm_schedule_add_candidate(draft,
                                     (trm_coalesce){.kind = TRM_COALESCE_BRANCH,
                                                    .target = s->leaves[i][k],
                                                    .source = root[k],
                                                    .time = draft->clock,
                                                    .since = since},
                                     error));
    }
    step.ranges[branch].end = (uint32_t)draft->steps.count;
  }
  draft->runs = runs;
  ++draft->clock;
  for (uint32_t k = 0; k < count; ++k) trm_schedule_touch(draft, s->leaves[i][k]);
  return TRM_OK;
}

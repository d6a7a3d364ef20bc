/* Owns: walking a scheduled module into steps and slots; build_feeds.c has what talks to the host,
 * build_renames.c what needs no step.
 *
 * Values do not change, so what only renames them (tuples, reshapes, copies) makes no step. A while
 * loop keeps its state in slots of its own; elements that the body hands on unchanged stay where
 * they are and are not copied. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"
#include "exec/build.h"
#include "exec/float_check.h"
#include "hlo/loops.h"
#include "program/program.h"
#include "tremula/log.h"

/* Loops and conditionals inside one another: the walk recurses this deep and no deeper. */
enum { MAX_DEPTH = 256 };

/* Of the whole walk. After our passes nothing is walked twice; an executable from elsewhere could
 * share computations so that the walk doubles at every level. */
static const uint64_t max_instructions = UINT64_C(32) << 20;

static trm_status walk(trm_plan_builder *b, uint32_t computation, const uint32_t *const *parameters,
                       const uint32_t **out_root, trm_error *error);

static trm_status new_slot(trm_plan_builder *b, trm_slot_kind kind, size_t bytes,
                           uint32_t *out_slot, trm_error *error) {
  const uint32_t index = (uint32_t)b->slots.count;
  const trm_slot slot = {.kind = kind,
                         .bytes = bytes,
                         .begin = b->clock,
                         .end = b->clock,
                         .parent = index,
                         .at_top = b->loop_depth == 0};
  if (index == TRM_NO_INDEX || !VECTOR_PUSH(&b->slots, slot)) FAIL_NO_MEMORY("buffers");
  *out_slot = index;
  return TRM_OK;
}

static void touch(trm_plan_builder *b, uint32_t slot) { b->slots.items[slot].end = b->clock; }

trm_status trm_plan_new_leaves(trm_plan_builder *b, const trm_shape *shape, uint32_t **out_leaves,
                               trm_error *error) {
  const int32_t count = trm_shape_num_leaves(shape);
  uint32_t *leaves = ARENA_NEW(&b->plan->arena, uint32_t, (size_t)count);
  CHECK_MEMORY(leaves, "buffers");
  for (int32_t i = 0; i < count; ++i) {
    TRY(new_slot(b, TRM_SLOT_ARENA, trm_shape_bytes(trm_shape_leaf(shape, i)), &leaves[i], error));
  }
  *out_leaves = leaves;
  return TRM_OK;
}

trm_status trm_plan_add_step(trm_plan_builder *b, trm_step step, const uint32_t *operands,
                             const uint32_t *results, uint32_t *out_index, trm_error *error) {
  ++b->clock;
  const size_t total = (size_t)step.num_operands + step.num_results;
  step.slots = ARENA_NEW(&b->plan->arena, uint32_t, total);
  CHECK_MEMORY(step.slots, "a step");
  if (step.num_operands > 0) memcpy(step.slots, operands, step.num_operands * sizeof *operands);
  if (step.num_results > 0) {
    memcpy(step.slots + step.num_operands, results, step.num_results * sizeof *results);
  }
  for (uint32_t i = 0; i < step.num_operands; ++i) {
    if (operands[i] != TRM_NO_INDEX) touch(b, operands[i]);
  }
  for (uint32_t i = 0; i < step.num_results; ++i) {
    trm_slot *slot = &b->slots.items[results[i]];
    if (!slot->written) slot->begin = b->clock;
    slot->written = true;
    slot->end = b->clock;
  }
  if (out_index != NULL) *out_index = (uint32_t)b->steps.count;
  if (!VECTOR_PUSH(&b->steps, step)) FAIL_NO_MEMORY("steps");
  return TRM_OK;
}

static trm_status add_copy(trm_plan_builder *b, const trm_plan_scope *s, trm_index instruction,
                           uint32_t source, uint32_t target, trm_error *error) {
  const trm_step step = {.kind = TRM_STEP_COPY,
                         .computation = s->computation,
                         .instruction = instruction,
                         .num_operands = 1,
                         .num_results = 1,
                         .scratch = TRM_NO_INDEX};
  return trm_plan_add_step(b, step, &source, &target, NULL, error);
}

static trm_status wish(trm_plan_builder *b, trm_coalesce what, trm_error *error) {
  if (!VECTOR_PUSH(&b->wishes, what)) FAIL_NO_MEMORY("buffer assignment");
  return TRM_OK;
}

/* ---- Plain instructions --------------------------------------------------------------------- */

const trm_instruction *trm_plan_at(const trm_plan_builder *b, const trm_plan_scope *s,
                                   trm_index i) {
  if (s->instead != NULL && s->instead[i] != NULL) return s->instead[i];
  return &b->module->computations[s->computation].instructions[i];
}

trm_status trm_plan_gather_operands(const trm_plan_builder *b, const trm_plan_scope *s, trm_index i,
                                    uint32_t first, uint32_t **out_leaves, uint32_t *out_count,
                                    trm_error *error) {
  const trm_instruction *instruction = trm_plan_at(b, s, i);
  uint32_t count = 0;
  for (uint32_t k = first; k < instruction->num_operands; ++k) {
    count += (uint32_t)trm_shape_num_leaves(&trm_plan_at(b, s, instruction->operands[k])->shape);
  }
  uint32_t *leaves = ARENA_NEW(&b->plan->arena, uint32_t, count);
  CHECK_MEMORY(leaves, "operands");
  uint32_t used = 0;
  for (uint32_t k = first; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const uint32_t n = (uint32_t)trm_shape_num_leaves(&trm_plan_at(b, s, operand)->shape);
    if (n > 0) memcpy(leaves + used, s->leaves[operand], n * sizeof *leaves);
    used += n;
  }
  *out_leaves = leaves;
  *out_count = count;
  return TRM_OK;
}

static trm_status walk_constant(trm_plan_builder *b, const trm_plan_scope *s, trm_index i,
                                trm_error *error) {
  const trm_instruction *instruction = trm_plan_at(b, s, i);
  TRY(trm_plan_new_leaves(b, &instruction->shape, &s->leaves[i], error));
  const int32_t count = trm_shape_num_leaves(&instruction->shape);
  for (int32_t k = 0; k < count; ++k) {
    trm_slot *slot = &b->slots.items[s->leaves[i][k]];
    slot->kind = TRM_SLOT_CONSTANT;
    slot->constant = instruction->literal->leaves[k];
  }
  return TRM_OK;
}

/* Wishes for the results that may be written over operands. */
static trm_status wish_in_place(trm_plan_builder *b, const trm_kernel *kernel,
                                const uint32_t *operands, uint32_t num_operands,
                                const uint32_t *results, uint32_t num_results, trm_error *error) {
  for (uint32_t r = 0; r < num_results; ++r) {
    const uint32_t allowed = trm_kernel_in_place(kernel, r);
    for (uint32_t k = 0; k < num_operands && k < 32; ++k) {
      if ((allowed >> k & 1) == 0) continue;
      bool elsewhere = false; /* the same array also read in a way that does not allow it */
      for (uint32_t j = 0; j < num_operands; ++j) {
        elsewhere =
            elsewhere || (operands[j] == operands[k] && (j >= 32 || (allowed >> j & 1) == 0));
      }
      if (elsewhere) continue;
      TRY(wish(b,
               (trm_coalesce){.kind = TRM_COALESCE_IN_PLACE,
                              .target = results[r],
                              .source = operands[k],
                              .time = b->clock},
               error));
    }
  }
  return TRM_OK;
}

static trm_status walk_kernel(trm_plan_builder *b, trm_plan_scope *s, trm_index i,
                              trm_error *error) {
  const trm_instruction *instruction = trm_plan_at(b, s, i);
  trm_kernel *kernel = ARENA_NEW(&b->plan->arena, trm_kernel, 1);
  CHECK_MEMORY(kernel, "a kernel");
  const trm_kernel_request request = {b->module, &b->module->computations[s->computation],
                                      instruction, &b->plan->arena};
  TRY(trm_kernel_create(&request, b->reference_only, kernel, error));
  const bool limits_halves = trm_must_limit_halves(b->module, instruction);
  /* What looks at results looks at the operands too. */
  if (b->plan->float_events != 0 || limits_halves) {
    kernel->in_place_operands = 0;
    kernel->more_in_place = NULL;
  }
  if (!VECTOR_PUSH(&b->kernels, kernel)) {
    trm_kernel_destroy(kernel);
    FAIL_NO_MEMORY("kernels");
  }
  uint32_t *operands, num_operands;
  TRY(trm_plan_gather_operands(b, s, i, 0, &operands, &num_operands, error));
  TRY(trm_plan_new_leaves(b, &instruction->shape, &s->leaves[i], error));
  trm_step step = {.kind = TRM_STEP_KERNEL,
                   .computation = s->computation,
                   .limits_halves = limits_halves,
                   .instruction = i,
                   .num_operands = num_operands,
                   .num_results = (uint32_t)trm_shape_num_leaves(&instruction->shape),
                   .scratch = TRM_NO_INDEX,
                   .kernel = kernel,
                   .persistent = b->plan->persistent_bytes};
  b->plan->persistent_bytes += (kernel->persistent_bytes + 63) / 64 * 64;
  TRY(trm_plan_add_step(b, step, operands, s->leaves[i], NULL, error));
  if (kernel->scratch_bytes > 0) {
    TRY(new_slot(b, TRM_SLOT_ARENA, kernel->scratch_bytes,
                 &b->steps.items[b->steps.count - 1].scratch, error));
  }
  return wish_in_place(b, kernel, operands, num_operands, s->leaves[i], step.num_results, error);
}

/* ---- Loops ---------------------------------------------------------------------------------- */

/* Time of the kernel that writes `written` over `state` in place, or 0. Looks back as far as the
 * first step of the body. */
static uint32_t written_in_place(const trm_plan_builder *b, uint32_t written, uint32_t state,
                                 uint32_t first_step) {
  for (size_t i = b->steps.count; i-- > first_step;) {
    const trm_step *step = &b->steps.items[i];
    if (step->kind != TRM_STEP_KERNEL) continue;
    uint32_t leaf = 0;
    while (leaf < step->num_results && step->slots[step->num_operands + leaf] != written) ++leaf;
    if (leaf == step->num_results) continue;
    const uint32_t allowed = trm_kernel_in_place(step->kernel, leaf);
    bool reads = false;
    for (uint32_t k = 0; k < step->num_operands; ++k) {
      if (step->slots[k] != state) continue;
      if (k >= 32 || (allowed >> k & 1) == 0) return 0;
      reads = true;
    }
    return reads ? b->slots.items[written].begin : 0;
  }
  return 0;
}

static bool contains(const uint32_t *items, uint32_t count, uint32_t value) {
  for (uint32_t i = 0; i < count; ++i) {
    if (items[i] == value) return true;
  }
  return false;
}

/* Brings the body's results into the state's slots, as if all at once. */
static trm_status loop_back(trm_plan_builder *b, const trm_plan_scope *s, trm_index i,
                            const uint32_t *root, uint32_t *state, const bool *invariant,
                            uint32_t count, uint32_t since, uint32_t first_step, trm_error *error) {
  uint32_t *source = ARENA_NEW(&b->plan->arena, uint32_t, count);
  CHECK_MEMORY(source, "loop state");
  bool any_state_read = false;
  for (uint32_t k = 0; k < count; ++k) {
    source[k] = root[k];
    if (invariant[k] || root[k] == state[k]) continue;
    any_state_read = any_state_read || b->slots.items[root[k]].begin <= since;
  }
  for (uint32_t k = 0; k < count && any_state_read; ++k) {
    /* A value from the state itself may be overwritten by a copy before it is read. */
    if (invariant[k] || root[k] == state[k] || b->slots.items[root[k]].begin > since ||
        !contains(state, count, root[k])) {
      continue;
    }
    TRY(new_slot(b, TRM_SLOT_ARENA, b->slots.items[root[k]].bytes, &source[k], error));
    TRY(add_copy(b, s, i, root[k], source[k], error));
  }
  for (uint32_t k = 0; k < count; ++k) {
    if (invariant[k] || source[k] == state[k]) continue;
    const uint32_t last_read = b->slots.items[state[k]].end;
    const uint32_t in_place = written_in_place(b, source[k], state[k], first_step);
    TRY(add_copy(b, s, i, source[k], state[k], error));
    TRY(wish(b,
             (trm_coalesce){.kind = TRM_COALESCE_LOOP_BACK,
                            .target = state[k],
                            .source = source[k],
                            .time = b->clock,
                            .since = since,
                            .last_read = last_read,
                            .in_place_at = in_place},
             error));
  }
  return TRM_OK;
}

typedef struct first_values {
  const trm_plan_builder *builder;
  const uint32_t *slots; /* by leaf of the state */
} first_values;

static const void *first_value(const void *context, int32_t leaf) {
  const first_values *values = context;
  const trm_slot *slot = &values->builder->slots.items[values->slots[leaf]];
  return slot->kind == TRM_SLOT_CONSTANT ? slot->constant : NULL;
}

static uint64_t at_least_product(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* A sum over mini-batches (its instructions name their number) must not end in the middle. */
static trm_status check_accumulation(const trm_module *module, const trm_computation *body,
                                     uint64_t turns, trm_error *error) {
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const char *text =
        trm_pipeline_attribute(module, &body->instructions[i], "gradient_accumulation_count");
    const unsigned long long count = text == NULL ? 0 : strtoull(text, NULL, 10);
    if (count == 0 || turns % count == 0) continue;
    FAIL(FAILED_PRECONDITION,
         "Detected a gradient accumulation operation with %llu number of mini batches inside a "
         "loop with %" PRIu64 " iterations. The number of iterations must be a multiple of the "
         "number of mini batches, or gradients would be lost.",
         count, turns);
  }
  return TRM_OK;
}

static trm_status walk_while(trm_plan_builder *b, trm_plan_scope *s, trm_index i,
                             trm_error *error) {
  const trm_instruction *instruction = trm_plan_at(b, s, i);
  const uint32_t condition = instruction->called[0], body = instruction->called[1];
  const uint32_t *init = s->leaves[instruction->operands[0]];
  const uint32_t count = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  uint32_t *state = ARENA_NEW(&b->plan->arena, uint32_t, count);
  bool *invariant = ARENA_NEW(&b->plan->arena, bool, count);
  if (state == NULL || invariant == NULL) FAIL_NO_MEMORY("loop state");
  const trm_loop loop = {.condition = &b->module->computations[condition],
                         .body = &b->module->computations[body],
                         .state = &instruction->shape,
                         .invariant = invariant,
                         .first_value = first_value,
                         .context = &(first_values){b, init}};
  trm_loop_find_invariant(loop.body, invariant, (int32_t)count);
  uint64_t turns;
  bool is_exact;
  const uint64_t runs = b->runs;
  const uint64_t body_runs =
      trm_loop_trip_count(&loop, &turns, &is_exact) && is_exact ? at_least_product(runs, turns) : 0;
  if (body_runs > 0) TRY(check_accumulation(b->module, loop.body, turns, error));
  for (uint32_t k = 0; k < count; ++k) {
    state[k] = init[k];
    if (invariant[k]) continue;
    TRY(new_slot(b, TRM_SLOT_ARENA, b->slots.items[init[k]].bytes, &state[k], error));
    TRY(add_copy(b, s, i, init[k], state[k], error));
    b->slots.items[state[k]].at_top = false;
    TRY(wish(
        b,
        (trm_coalesce){
            .kind = TRM_COALESCE_COPY, .target = state[k], .source = init[k], .time = b->clock},
        error));
  }
  uint32_t index;
  trm_step step = {.kind = TRM_STEP_WHILE,
                   .computation = s->computation,
                   .instruction = i,
                   .num_operands = 1,
                   .scratch = TRM_NO_INDEX,
                   .num_ranges = 2};
  step.ranges = ARENA_NEW(&b->plan->arena, trm_step_range, 2);
  CHECK_MEMORY(step.ranges, "a loop");
  const uint32_t not_yet = TRM_NO_INDEX;
  TRY(trm_plan_add_step(b, step, &not_yet, NULL, &index, error));
  const uint32_t *parameters[1] = {state}, *root;
  ++b->loop_depth;
  step.ranges[0].begin = (uint32_t)b->steps.count;
  TRY(walk(b, condition, parameters, &root, error));
  step.ranges[0].end = (uint32_t)b->steps.count;
  ++b->clock;
  b->steps.items[index].slots[0] = root[0];
  touch(b, root[0]);
  const uint32_t since = b->clock;
  step.ranges[1].begin = (uint32_t)b->steps.count;
  b->runs = body_runs;
  TRY(walk(b, body, parameters, &root, error));
  b->runs = runs;
  TRY(loop_back(b, s, i, root, state, invariant, count, since, step.ranges[1].begin, error));
  step.ranges[1].end = (uint32_t)b->steps.count;
  --b->loop_depth;
  ++b->clock;
  for (uint32_t k = 0; k < count; ++k) touch(b, state[k]);
  s->leaves[i] = state;
  return TRM_OK;
}

static trm_status walk_conditional(trm_plan_builder *b, trm_plan_scope *s, trm_index i,
                                   trm_error *error) {
  const trm_instruction *instruction = trm_plan_at(b, s, i);
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
  step.selector_is_pred = trm_plan_at(b, s, instruction->operands[0])->shape.dtype == TRM_PRED;
  step.ranges = ARENA_NEW(&b->plan->arena, trm_step_range, branches);
  CHECK_MEMORY(step.ranges, "a conditional");
  TRY(trm_plan_add_step(b, step, selector, NULL, &index, error));
  TRY(trm_plan_new_leaves(b, &instruction->shape, &s->leaves[i], error));
  for (uint32_t k = 0; k < count; ++k) b->slots.items[s->leaves[i][k]].at_top = false;
  const uint64_t runs = b->runs;
  if (branches > 1) b->runs = 0;
  for (uint32_t branch = 0; branch < branches; ++branch) {
    const uint32_t since = ++b->clock;
    const uint32_t *parameters[1] = {s->leaves[instruction->operands[branch + 1]]}, *root;
    step.ranges[branch].begin = (uint32_t)b->steps.count;
    TRY(walk(b, instruction->called[branch], parameters, &root, error));
    for (uint32_t k = 0; k < count; ++k) {
      TRY(add_copy(b, s, i, root[k], s->leaves[i][k], error));
      TRY(wish(b,
               (trm_coalesce){.kind = TRM_COALESCE_BRANCH,
                              .target = s->leaves[i][k],
                              .source = root[k],
                              .time = b->clock,
                              .since = since},
               error));
    }
    step.ranges[branch].end = (uint32_t)b->steps.count;
  }
  b->runs = runs;
  ++b->clock;
  for (uint32_t k = 0; k < count; ++k) touch(b, s->leaves[i][k]);
  return TRM_OK;
}

/* ---- The walk ------------------------------------------------------------------------------- */

/* A bitcast renames bytes, and ours are row-major: with other layouts it means a transposition. */
static trm_status check_bitcast(const trm_plan_builder *b, const trm_plan_scope *s, trm_index i,
                                trm_error *error) {
  char text[512];
  const trm_instruction *bitcast = trm_plan_at(b, s, i),
                        *operand = trm_plan_at(b, s, bitcast->operands[0]);
  if (trm_shape_is_row_major(&bitcast->shape) && trm_shape_is_row_major(&operand->shape)) {
    return TRM_OK;
  }
  FAIL(UNIMPLEMENTED,
       "%s reads an array by its layout, which is not row-major: it was written by a compiler's "
       "layout assignment. Compile the module from before that",
       trm_instruction_text(b->module, bitcast, text, sizeof text));
}

static trm_status walk_instruction(trm_plan_builder *b, trm_plan_scope *s, trm_index i,
                                   trm_error *error) {
  const trm_instruction *instruction = trm_plan_at(b, s, i);
  switch (instruction->opcode) {
    case TRM_OP_PARAMETER:
      s->leaves[i] = (uint32_t *)s->parameters[instruction->number];
      return TRM_OK;
    case TRM_OP_TUPLE: {
      uint32_t count;
      return trm_plan_gather_operands(b, s, i, 0, &s->leaves[i], &count, error);
    }
    case TRM_OP_GET_TUPLE_ELEMENT:
      s->leaves[i] = s->leaves[instruction->operands[0]] +
                     trm_shape_leaf_offset(&trm_plan_at(b, s, instruction->operands[0])->shape,
                                           (int32_t)instruction->number);
      return TRM_OK;
    case TRM_OP_BITCAST:
      TRY(check_bitcast(b, s, i, error));
      s->leaves[i] = s->leaves[instruction->operands[0]];
      return TRM_OK;
    case TRM_OP_RESHAPE:
    case TRM_OP_COPY:
    case TRM_OP_DOMAIN:
    case TRM_OP_OPT_BARRIER:
    case TRM_OP_ADD_DEPENDENCY: s->leaves[i] = s->leaves[instruction->operands[0]]; return TRM_OK;
    case TRM_OP_AFTER_ALL: return TRM_OK;
    case TRM_OP_CONSTANT: return walk_constant(b, s, i, error);
    case TRM_OP_WHILE: return walk_while(b, s, i, error);
    case TRM_OP_CONDITIONAL: return walk_conditional(b, s, i, error);
    case TRM_OP_INFEED: return trm_plan_walk_infeed(b, s, i, error);
    case TRM_OP_OUTFEED: return trm_plan_walk_outfeed(b, s, i, error);
    default:
      if (s->renames[i]) {
        s->leaves[i] = s->leaves[instruction->operands[0]];
        return TRM_OK;
      }
      switch (instruction->call_id) {
        case TRM_CALL_INFEED: return trm_plan_walk_infeed(b, s, i, error);
        case TRM_CALL_OUTFEED: return trm_plan_walk_outfeed(b, s, i, error);
        case TRM_CALL_HOST_CALL: return trm_plan_walk_host_call(b, s, i, error);
        default: return walk_kernel(b, s, i, error);
      }
  }
}

static trm_status walk(trm_plan_builder *b, uint32_t computation, const uint32_t *const *parameters,
                       const uint32_t **out_root, trm_error *error) {
  if (++b->depth > MAX_DEPTH) {
    FAIL(UNIMPLEMENTED, "loops and conditionals are nested more than %d deep", MAX_DEPTH);
  }
  if (b->depth > b->plan->max_depth) b->plan->max_depth = b->depth;
  const uint32_t count = b->module->computations[computation].num_instructions;
  b->walked += (uint64_t)count + 1;
  if (b->walked > max_instructions) {
    FAIL(RESOURCE_EXHAUSTED,
         "the program has more than %" PRIu64 " instructions when the "
         "computations of its loops and conditionals are written out",
         max_instructions);
  }
  trm_plan_scope s = {computation, parameters,
                      trm_allocate_zeroed((size_t)count + 1, sizeof *s.leaves),
                      trm_allocate_zeroed((size_t)count + 1, sizeof *s.instead),
                      trm_allocate_zeroed((size_t)count + 1, sizeof *s.renames)};
  trm_status status =
      s.leaves == NULL || s.instead == NULL || s.renames == NULL
          ? trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while planning values")
          : trm_plan_find_renames(b, &s, error);
  for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
    status = walk_instruction(b, &s, i, error);
  }
  if (status == TRM_OK) *out_root = s.leaves[b->module->computations[computation].root];
  trm_free(s.leaves);
  trm_free(s.instead);
  trm_free(s.renames);
  --b->depth;
  return status;
}

static trm_status walk_entry(trm_plan_builder *b, trm_error *error) {
  trm_plan *plan = b->plan;
  const trm_computation *entry = &b->module->computations[b->module->entry];
  const uint32_t **parameters = ARENA_NEW(&plan->arena, const uint32_t *, entry->num_parameters);
  CHECK_MEMORY(parameters, "parameters");
  ++b->clock;
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_shape *shape = &entry->instructions[entry->parameters[p]].shape;
    uint32_t *leaves;
    TRY(trm_plan_new_leaves(b, shape, &leaves, error));
    parameters[p] = leaves;
    const int32_t count = trm_shape_num_leaves(shape);
    for (int32_t k = 0; k < count; ++k) {
      trm_slot *slot = &b->slots.items[leaves[k]];
      slot->kind = TRM_SLOT_INPUT;
      slot->number = plan->num_inputs++;
    }
  }
  const uint32_t *root;
  TRY(walk(b, b->module->entry, parameters, &root, error));
  const trm_plan_scope top = {.computation = b->module->entry};
  const uint32_t outputs = (uint32_t)trm_shape_num_leaves(&entry->instructions[entry->root].shape);
  for (uint32_t o = 0; o < outputs; ++o) {
    uint32_t slot;
    TRY(new_slot(b, TRM_SLOT_OUTPUT, b->slots.items[root[o]].bytes, &slot, error));
    b->slots.items[slot].number = plan->num_outputs++;
    TRY(add_copy(b, &top, entry->root, root[o], slot, error));
    TRY(wish(b,
             (trm_coalesce){
                 .kind = TRM_COALESCE_COPY, .target = slot, .source = root[o], .time = b->clock},
             error));
  }
  return TRM_OK;
}

static void log_plan(const trm_plan *plan, double start) {
  trm_log(TRM_LOG_INFO, "COMPILER",
          "memory plan: %u steps, %u values in %zu bytes, %zu bytes kept by kernels %9.2f ms",
          plan->num_steps, plan->num_slots, plan->arena_bytes, plan->persistent_bytes,
          trm_now_ms() - start);
}

trm_status trm_plan_build(const trm_module *module, bool reference_only, unsigned float_events,
                          trm_plan **out_plan, trm_error *error) {
  const double start = trm_now_ms();
  trm_plan *plan = trm_allocate_zeroed(1, sizeof *plan);
  CHECK_MEMORY(plan, "a plan");
  plan->module = module;
  plan->float_events = float_events;
  trm_plan_builder b = {
      .plan = plan, .module = module, .reference_only = reference_only, .runs = 1};
  trm_status status = walk_entry(&b, error);
  plan->kernels = b.kernels.items;
  plan->num_kernels = (uint32_t)b.kernels.count;
  if (status == TRM_OK) {
    plan->num_slots = (uint32_t)b.slots.count;
    plan->slots = trm_arena_copy(&plan->arena, b.slots.items, b.slots.count * sizeof(trm_slot));
    plan->num_steps = (uint32_t)b.steps.count;
    plan->steps = trm_arena_copy(&plan->arena, b.steps.items, b.steps.count * sizeof(trm_step));
    plan->num_feeds = (uint32_t)b.feeds.count;
    plan->feeds =
        trm_arena_copy(&plan->arena, b.feeds.items, b.feeds.count * sizeof(trm_feed_info));
    plan->num_host_calls = (uint32_t)b.host_calls.count;
    plan->host_calls = trm_arena_copy(&plan->arena, b.host_calls.items,
                                      b.host_calls.count * sizeof(trm_host_call_info));
    if (plan->slots == NULL || plan->steps == NULL || plan->feeds == NULL ||
        plan->host_calls == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while planning");
    }
  }
  if (status == TRM_OK) status = trm_plan_assign(plan, b.wishes.items, b.wishes.count, error);
  VECTOR_FREE(&b.slots);
  VECTOR_FREE(&b.steps);
  VECTOR_FREE(&b.wishes);
  VECTOR_FREE(&b.feeds);
  VECTOR_FREE(&b.host_calls);
  if (status != TRM_OK) {
    trm_plan_free(plan);
    return status;
  }
  log_plan(plan, start);
  *out_plan = plan;
  return TRM_OK;
}

void trm_plan_free(trm_plan *plan) {
  if (plan == NULL) return;
  for (uint32_t k = 0; k < plan->num_kernels; ++k) trm_kernel_destroy(plan->kernels[k]);
  trm_free(plan->kernels);
  trm_arena_free(&plan->arena);
  trm_free(plan);
}

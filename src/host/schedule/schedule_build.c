/* Owns: the walk over a module that makes steps and slots. schedule_control.c makes the steps of
 * loops and conditionals, schedule_feeds.c those of feeds and host calls; schedule_renames.c finds
 * instructions without a step, schedule_views.c slices of arrays that are read where they are.
 *
 * Values are immutable, so instructions that only rename them (tuples, reshapes, copies) make no
 * step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"
#include "host/schedule/float_check.h"
#include "host/schedule/schedule_build.h"
#include "tremula/log.h"

/* Limit of nested loops and conditionals, and so of the walk's recursion. */
enum { MAX_DEPTH = 256 };

/* Limit of the whole walk. After the passes no computation is walked twice, but an executable from
 * elsewhere could share computations so that the walk doubles at every level. */
static const uint64_t max_instructions = UINT64_C(32) << 20;

/* ---- Plain instructions --------------------------------------------------------------------- */

static trm_status walk_constant(trm_schedule_draft *draft, const trm_schedule_scope *s, trm_index i,
                                trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  TRY(trm_schedule_new_leaves(draft, &instruction->shape, &s->leaves[i], error));
  const int32_t count = trm_shape_num_leaves(&instruction->shape);
  for (int32_t k = 0; k < count; ++k) {
    trm_slot *slot = &draft->slots.items[s->leaves[i][k]];
    slot->kind = TRM_SLOT_CONSTANT;
    slot->constant = instruction->literal->leaves[k];
  }
  return TRM_OK;
}

/* Adds candidates for the results that may be written over operands. */
static trm_status add_in_place(trm_schedule_draft *draft, const trm_kernel *kernel,
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
      TRY(trm_schedule_add_candidate(draft,
                                     (trm_coalesce){.kind = TRM_COALESCE_IN_PLACE,
                                                    .target = results[r],
                                                    .source = operands[k],
                                                    .time = draft->clock},
                                     error));
    }
  }
  return TRM_OK;
}

/* Whether the instruction, and all that it calls, follows from operands alone. What those call in
 * iteration is not looked at. */
static bool is_pure(const trm_module *module, const trm_instruction *instruction, bool may_call) {
  const trm_opcode_replicas kind = instruction->opcode == TRM_OP_CUSTOM_CALL
                                       ? trm_call_replicas(instruction->call_id)
                                       : trm_opcode_replicas_of(instruction->opcode);
  if (kind != TRM_REPLICAS_PURE || (instruction->num_called > 0 && !may_call)) return false;
  for (uint32_t k = 0; k < instruction->num_called; ++k) {
    const trm_computation *called = &module->computations[instruction->called[k]];
    for (trm_index i = 0; i < called->num_instructions; ++i) {
      if (!is_pure(module, &called->instructions[i], false)) return false;
    }
  }
  return true;
}

static trm_status walk_kernel(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                              trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  trm_kernel *kernel = ARENA_NEW(&draft->schedule->arena, trm_kernel, 1);
  CHECK_MEMORY(kernel, "a kernel");
  const trm_kernel_request request = {.module = draft->module,
                                      .computation = &draft->module->computations[s->computation],
                                      .instruction = instruction,
                                      .arena = &draft->schedule->arena,
                                      .is_in_loop = draft->loop_depth > 0};
  TRY(trm_kernel_create(&request, draft->reference_only, kernel, error));
  const bool limits_halves = trm_must_limit_halves(draft->module, instruction);
  /* What looks at results looks at the operands too. */
  if (draft->schedule->float_events != 0 || limits_halves) {
    kernel->in_place_operands = 0;
    kernel->more_in_place = NULL;
    kernel->in_place_everywhere = false;
  }
  if (!VECTOR_PUSH(&draft->kernels, kernel)) {
    trm_kernel_destroy(kernel);
    FAIL_NO_MEMORY("kernels");
  }
  uint32_t *operands, num_operands;
  TRY(trm_schedule_gather_operands(draft, s, i, 0, &operands, &num_operands, error));
  TRY(trm_schedule_new_leaves(draft, &instruction->shape, &s->leaves[i], error));
  trm_step step = {.kind = TRM_STEP_KERNEL,
                   .computation = s->computation,
                   .limits_halves = limits_halves,
                   .is_plain = draft->schedule->float_events == 0 && !limits_halves &&
                               is_pure(draft->module, instruction, true),
                   .instruction = i,
                   .num_operands = num_operands,
                   .num_results = (uint32_t)trm_shape_num_leaves(&instruction->shape),
                   .scratch = TRM_NO_INDEX,
                   .kernel = kernel,
                   .persistent = draft->schedule->persistent_bytes};
  draft->schedule->persistent_bytes += (kernel->persistent_bytes + 63) / 64 * 64;
  TRY(trm_schedule_add_step(draft, step, operands, s->leaves[i], NULL, error));
  if (kernel->scratch_bytes > 0) {
    TRY(trm_schedule_new_slot(draft, TRM_SLOT_ARENA, kernel->scratch_bytes,
                              &draft->steps.items[draft->steps.count - 1].scratch, error));
  }
  return add_in_place(draft, kernel, operands, num_operands, s->leaves[i], step.num_results, error);
}

/* ---- The walk ------------------------------------------------------------------------------- */

static trm_status walk_instruction(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                   trm_error *error) {
  const trm_instruction *instruction = trm_schedule_at(draft, s, i);
  switch (instruction->opcode) {
    case TRM_OP_PARAMETER:
      s->leaves[i] = (uint32_t *)s->parameters[instruction->number];
      return TRM_OK;
    case TRM_OP_TUPLE: {
      uint32_t count;
      return trm_schedule_gather_operands(draft, s, i, 0, &s->leaves[i], &count, error);
    }
    case TRM_OP_GET_TUPLE_ELEMENT:
      s->leaves[i] =
          s->leaves[instruction->operands[0]] +
          trm_shape_leaf_offset(&trm_schedule_at(draft, s, instruction->operands[0])->shape,
                                (int32_t)instruction->number);
      return TRM_OK;
    case TRM_OP_BITCAST:
    case TRM_OP_RESHAPE:
    case TRM_OP_COPY:
    case TRM_OP_DOMAIN:
    case TRM_OP_OPT_BARRIER:
    case TRM_OP_ADD_DEPENDENCY: s->leaves[i] = s->leaves[instruction->operands[0]]; return TRM_OK;
    case TRM_OP_AFTER_ALL: return TRM_OK;
    case TRM_OP_CONSTANT: return walk_constant(draft, s, i, error);
    case TRM_OP_WHILE: return trm_schedule_walk_while(draft, s, i, error);
    case TRM_OP_CONDITIONAL: return trm_schedule_walk_conditional(draft, s, i, error);
    case TRM_OP_INFEED: return trm_schedule_walk_infeed(draft, s, i, error);
    case TRM_OP_OUTFEED: return trm_schedule_walk_outfeed(draft, s, i, error);
    default:
      if (s->renames[i]) {
        s->leaves[i] = s->leaves[instruction->operands[0]];
        return TRM_OK;
      }
      if (trm_schedule_is_view(draft, s, i)) return trm_schedule_walk_view(draft, s, i, error);
      switch (instruction->call_id) {
        case TRM_CALL_INFEED: return trm_schedule_walk_infeed(draft, s, i, error);
        case TRM_CALL_OUTFEED: return trm_schedule_walk_outfeed(draft, s, i, error);
        case TRM_CALL_HOST_CALL: return trm_schedule_walk_host_call(draft, s, i, error);
        default: return walk_kernel(draft, s, i, error);
      }
  }
}

trm_status trm_schedule_walk(trm_schedule_draft *draft, uint32_t computation,
                             const uint32_t *const *parameters, const uint32_t **out_root,
                             trm_error *error) {
  if (++draft->depth > MAX_DEPTH) {
    FAIL(UNIMPLEMENTED, "loops and conditionals are nested more than %d deep", MAX_DEPTH);
  }
  if (draft->depth > draft->schedule->max_depth) draft->schedule->max_depth = draft->depth;
  const uint32_t count = draft->module->computations[computation].num_instructions;
  draft->walked += (uint64_t)count + 1;
  if (draft->walked > max_instructions) {
    FAIL(RESOURCE_EXHAUSTED,
         "the program has more than %" PRIu64 " instructions when the "
         "computations of its loops and conditionals are written out",
         max_instructions);
  }
  trm_schedule_scope s = {computation, parameters,
                          trm_allocate_zeroed((size_t)count + 1, sizeof *s.leaves),
                          trm_allocate_zeroed((size_t)count + 1, sizeof *s.instead),
                          trm_allocate_zeroed((size_t)count + 1, sizeof *s.renames)};
  trm_status status =
      s.leaves == NULL || s.instead == NULL || s.renames == NULL
          ? trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while planning values")
          : trm_schedule_find_renames(draft, &s, error);
  for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
    status = walk_instruction(draft, &s, i, error);
  }
  if (status == TRM_OK) *out_root = s.leaves[draft->module->computations[computation].root];
  trm_free(s.leaves);
  trm_free(s.instead);
  trm_free(s.renames);
  --draft->depth;
  return status;
}

static trm_status walk_entry(trm_schedule_draft *draft, trm_error *error) {
  trm_schedule *schedule = draft->schedule;
  const trm_computation *entry = &draft->module->computations[draft->module->entry];
  const uint32_t **parameters =
      ARENA_NEW(&schedule->arena, const uint32_t *, entry->num_parameters);
  CHECK_MEMORY(parameters, "parameters");
  ++draft->clock;
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_shape *shape = &entry->instructions[entry->parameters[p]].shape;
    uint32_t *leaves;
    TRY(trm_schedule_new_leaves(draft, shape, &leaves, error));
    parameters[p] = leaves;
    const int32_t count = trm_shape_num_leaves(shape);
    for (int32_t k = 0; k < count; ++k) {
      trm_slot *slot = &draft->slots.items[leaves[k]];
      slot->kind = TRM_SLOT_INPUT;
      slot->number = schedule->num_inputs++;
    }
  }
  const uint32_t *root;
  TRY(trm_schedule_walk(draft, draft->module->entry, parameters, &root, error));
  const trm_schedule_scope top = {.computation = draft->module->entry};
  const uint32_t outputs = (uint32_t)trm_shape_num_leaves(&entry->instructions[entry->root].shape);
  for (uint32_t o = 0; o < outputs; ++o) {
    uint32_t slot;
    TRY(trm_schedule_new_slot(draft, TRM_SLOT_OUTPUT, draft->slots.items[root[o]].bytes, &slot,
                              error));
    draft->slots.items[slot].number = schedule->num_outputs++;
    TRY(trm_schedule_add_copy(draft, &top, entry->root, root[o], slot, error));
    TRY(trm_schedule_add_candidate(
        draft,
        (trm_coalesce){
            .kind = TRM_COALESCE_COPY, .target = slot, .source = root[o], .time = draft->clock},
        error));
  }
  return TRM_OK;
}

static void log_schedule(const trm_schedule *schedule, double start) {
  trm_log(TRM_LOG_INFO, "COMPILER",
          "memory plan: %u steps, %u values in %zu bytes, %zu bytes kept by kernels %9.2f ms",
          schedule->num_steps, schedule->num_slots, schedule->arena_bytes,
          schedule->persistent_bytes, trm_now_ms() - start);
}

trm_status trm_schedule_build(const trm_module *module, bool reference_only, unsigned float_events,
                              trm_schedule **out_schedule, trm_error *error) {
  const double start = trm_now_ms();
  trm_schedule *schedule = trm_allocate_zeroed(1, sizeof *schedule);
  CHECK_MEMORY(schedule, "a schedule");
  schedule->module = module;
  schedule->float_events = float_events;
  trm_schedule_draft draft = {
      .schedule = schedule, .module = module, .reference_only = reference_only, .runs = 1};
  trm_status status = walk_entry(&draft, error);
  schedule->kernels = draft.kernels.items;
  schedule->num_kernels = (uint32_t)draft.kernels.count;
  if (status == TRM_OK) {
    schedule->num_slots = (uint32_t)draft.slots.count;
    schedule->slots =
        trm_arena_copy(&schedule->arena, draft.slots.items, draft.slots.count * sizeof(trm_slot));
    schedule->num_steps = (uint32_t)draft.steps.count;
    schedule->steps =
        trm_arena_copy(&schedule->arena, draft.steps.items, draft.steps.count * sizeof(trm_step));
    schedule->num_feeds = (uint32_t)draft.feeds.count;
    schedule->feeds = trm_arena_copy(&schedule->arena, draft.feeds.items,
                                     draft.feeds.count * sizeof(trm_feed_info));
    schedule->num_host_calls = (uint32_t)draft.host_calls.count;
    schedule->host_calls = trm_arena_copy(&schedule->arena, draft.host_calls.items,
                                          draft.host_calls.count * sizeof(trm_host_call_info));
    if (schedule->slots == NULL || schedule->steps == NULL || schedule->feeds == NULL ||
        schedule->host_calls == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while planning");
    }
  }
  if (status == TRM_OK)
    status = trm_schedule_assign(schedule, draft.candidates.items, draft.candidates.count, error);
  VECTOR_FREE(&draft.slots);
  VECTOR_FREE(&draft.steps);
  VECTOR_FREE(&draft.candidates);
  VECTOR_FREE(&draft.feeds);
  VECTOR_FREE(&draft.host_calls);
  if (status != TRM_OK) {
    trm_schedule_free(schedule);
    return status;
  }
  log_schedule(schedule, start);
  *out_schedule = schedule;
  return TRM_OK;
}

trm_status trm_schedule_outline(const trm_module *module, trm_schedule **out_schedule,
                                trm_error *error) {
  trm_schedule *schedule = trm_allocate_zeroed(1, sizeof *schedule);
  CHECK_MEMORY(schedule, "a schedule");
  schedule->module = module;
  const trm_computation *entry = &module->computations[module->entry];
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_shape *shape = &entry->instructions[entry->parameters[p]].shape;
    schedule->num_inputs += (uint32_t)trm_shape_num_leaves(shape);
  }
  schedule->num_outputs = (uint32_t)trm_shape_num_leaves(&entry->instructions[entry->root].shape);
  trm_schedule_draft draft = {.schedule = schedule, .module = module};
  trm_status status = trm_schedule_list_feeds(&draft, error);
  schedule->num_feeds = (uint32_t)draft.feeds.count;
  schedule->feeds = trm_arena_copy(&schedule->arena, draft.feeds.items,
                                   draft.feeds.count * sizeof(trm_feed_info));
  VECTOR_FREE(&draft.feeds);
  if (status == TRM_OK && schedule->feeds == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for a list of feeds");
  }
  if (status == TRM_OK) *out_schedule = schedule;
  else trm_schedule_free(schedule);
  return status;
}

void trm_schedule_free(trm_schedule *schedule) {
  if (schedule == NULL) return;
  for (uint32_t k = 0; k < schedule->num_kernels; ++k) trm_kernel_destroy(schedule->kernels[k]);
  trm_free(schedule->kernels);
  trm_arena_free(&schedule->arena);
  trm_free(schedule);
}

/* Owns: appending steps, sources and notes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cycles.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

trm_status trm_program_add_note(trm_program_draft *draft, const char *format, ...) {
  trm_error *error = NULL;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (draft->finding) return TRM_OK;
  for (size_t n = 0; n < draft->steps.notes.count && n < 64; ++n) {
    if (strcmp(draft->steps.notes.items[n], text) == 0) return TRM_OK;
  }
  if (draft->steps.notes.count >= 64) return TRM_OK;
  const char *copy = trm_arena_string(&draft->program->arena, text, strlen(text));
  if (copy == NULL || !VECTOR_PUSH(&draft->steps.notes, copy)) FAIL_NO_MEMORY("notes");
  return TRM_OK;
}

trm_status trm_program_add_source(trm_program_draft *draft, uint32_t computation, trm_index i,
                                  uint32_t *out_source, trm_error *error) {
  const trm_computation *in = &draft->module->computations[computation];
  const trm_instruction *instruction = &in->instructions[i];
  const trm_metadata *metadata = &instruction->metadata;
  trm_program_source source = {.computation = computation,
                               .instruction = i,
                               .hlo_name = instruction->name,
                               .opcode = trm_opcode_name(instruction->opcode),
                               .op_name = metadata->op_name == NULL ? "" : metadata->op_name,
                               .op_type = metadata->op_type == NULL ? "" : metadata->op_type,
                               .layer = "",
                               .error_kind = trm_error_kind_of(in, instruction),
                               .file = metadata->source_file,
                               .line = metadata->source_line};
  if (strcmp(source.op_name, "XLA_Args") == 0) source.op_name = ""; /* XLA's name for inputs */
  if (source.file != NULL && source.file[0] == '\0') source.file = NULL;
  const char *slash = strrchr(source.op_name, '/');
  if (slash != NULL) {
    source.layer =
        trm_arena_string(&draft->program->arena, source.op_name, (size_t)(slash - source.op_name));
    CHECK_MEMORY(source.layer, "a program");
  }
  *out_source = (uint32_t)draft->steps.sources.count;
  if (!VECTOR_PUSH(&draft->steps.sources, source)) FAIL_NO_MEMORY("a program");
  return TRM_OK;
}

static trm_status push(trm_program_draft *draft, const trm_program_step *step, uint32_t *out_step,
                       trm_error *error) {
  const uint32_t index = (uint32_t)draft->steps.all.count;
  if (index == TRM_NO_INDEX || !VECTOR_PUSH(&draft->steps.all, *step)) FAIL_NO_MEMORY("steps");
  trm_program_step *added = &draft->steps.all.items[index];
  added->parent = draft->steps.parent;
  added->end = index + 1;
  *out_step = index;
  return TRM_OK;
}

trm_status trm_program_open(trm_program_draft *draft, trm_program_step_type type, const char *name,
                            uint32_t source, int32_t ipu, uint32_t *out_step, trm_error *error) {
  const trm_program_step step = {.type = type,
                                 .name = name,
                                 .source = source,
                                 .ipu = ipu,
                                 .stage = draft->stages.current,
                                 .repeat_count = 1,
                                 .compute_set = TRM_NO_INDEX,
                                 .taken = TRM_NO_INDEX};
  TRY(push(draft, &step, out_step, error));
  draft->steps.parent = *out_step;
  return TRM_OK;
}

void trm_program_close(trm_program_draft *draft, uint32_t step) {
  draft->steps.all.items[step].end = (uint32_t)draft->steps.all.count;
  draft->steps.parent = draft->steps.all.items[step].parent;
}

/* ---- Phases --------------------------------------------------------------------------------- */

static trm_program_step_type step_type(trm_phase_kind kind) {
  switch (kind) {
    case TRM_PHASE_COMPUTE:
    case TRM_PHASE_COPY: return TRM_STEP_TYPE_ON_TILE_EXECUTE;
    case TRM_PHASE_EXCHANGE: return TRM_STEP_TYPE_DO_EXCHANGE;
    case TRM_PHASE_GLOBAL_EXCHANGE: return TRM_STEP_TYPE_GLOBAL_EXCHANGE;
    case TRM_PHASE_CROSS_REPLICA: return TRM_STEP_TYPE_CROSS_REPLICA_COPY;
    case TRM_PHASE_SYNC: return TRM_STEP_TYPE_SYNC;
    default: return TRM_STEP_TYPE_STREAM_COPY_MID;
  }
}

static bool is_remote(trm_phase_kind kind) {
  return kind == TRM_PHASE_REMOTE_READ || kind == TRM_PHASE_REMOTE_WRITE;
}

static bool is_stream(trm_phase_kind kind) {
  return kind == TRM_PHASE_HOST_READ || kind == TRM_PHASE_HOST_WRITE || is_remote(kind);
}

/* The delay of a sync, on the mean over tiles. */
static int64_t sync_delay(const trm_target *target) { return target->max_sync_delay; }

static trm_status add_temporary(trm_program_draft *draft, const trm_phase *phase, uint32_t source,
                                uint32_t ipu, uint32_t begin, uint32_t end, trm_error *error) {
  trm_memory_category category = TRM_CATEGORY_VARIABLE;
  if (phase->kind == TRM_PHASE_COPY) category = TRM_CATEGORY_REARRANGEMENT;
  else if (phase->kind == TRM_PHASE_GLOBAL_EXCHANGE || phase->kind == TRM_PHASE_CROSS_REPLICA)
    category = TRM_CATEGORY_GLOBAL_MESSAGE;
  else if (is_stream(phase->kind)) category = TRM_CATEGORY_HOST_MESSAGE;
  else if (phase->temporary_is_message) category = TRM_CATEGORY_MESSAGE;
  const trm_new_variable wanted = {
      .name = trm_memory_category_name(category),
      .source = source,
      .category = category,
      .mapping = trm_mapping_spread(trm_program_target_of(draft, ipu), phase->temporary_worst,
                                    phase->temporary_total, ipu, phase->first_tile)};
  if (wanted.mapping.kind == TRM_MAPPING_NONE) return TRM_OK;
  uint32_t variable;
  TRY(trm_program_add_variable(draft, &wanted, &variable, error));
  draft->values.variables.items[variable].live = (trm_program_interval){begin, end};
  return TRM_OK;
}

static trm_status add_phase(trm_program_draft *draft, const trm_phase *phase, uint32_t source,
                            uint32_t ipu, uint32_t *out_step, trm_error *error) {
  const char *name;
  TRY(trm_program_phase_name(draft, source, phase, ipu, &name, error));
  trm_program_step step = {.type = step_type(phase->kind),
                           .name = name,
                           .source = source,
                           .compute_set = TRM_NO_INDEX,
                           .ipu = (int32_t)ipu,
                           .stage = draft->stages.current,
                           .repeat_count = 1,
                           .taken = TRM_NO_INDEX,
                           .sync_cycles = phase->sync_cycles,
                           .cycles_mean = phase->cycles_mean,
                           .active_tiles = phase->active_tiles,
                           .first_tile = phase->first_tile,
                           .bytes_in_worst = phase->bytes_in_worst,
                           .bytes_in_total = phase->bytes_in_total,
                           .bytes_out_worst = phase->bytes_out_worst,
                           .bytes_out_total = phase->bytes_out_total,
                           .messages_worst = phase->messages_worst,
                           .is_between_domains = phase->is_between_domains,
                           .is_remote = is_remote(phase->kind),
                           .flops = phase->flops};
  if (phase->kind == TRM_PHASE_EXCHANGE && step.sync_cycles == 0) {
    step.sync_cycles = sync_delay(draft->target);
  }
  step.cycles = trm_add_cycles(phase->cycles, step.sync_cycles);
  if (step.type == TRM_STEP_TYPE_ON_TILE_EXECUTE) {
    TRY(trm_program_add_compute_set(draft, phase, name, source, ipu, &step.compute_set, error));
  }
  uint32_t edge;
  if (is_stream(phase->kind)) { /* tiles wait for the host at Begin and End */
    trm_program_step side = {.type = TRM_STEP_TYPE_STREAM_COPY_BEGIN,
                             .name = name,
                             .source = source,
                             .compute_set = TRM_NO_INDEX,
                             .ipu = (int32_t)ipu,
                             .stage = draft->stages.current,
                             .repeat_count = 1,
                             .taken = TRM_NO_INDEX,
                             .sync_cycles = step.sync_cycles / 2,
                             .cycles = step.sync_cycles / 2};
    TRY(push(draft, &side, &edge, error));
    step.cycles -= step.sync_cycles;
    const int64_t rest = step.sync_cycles - side.sync_cycles;
    step.sync_cycles = 0;
    TRY(push(draft, &step, out_step, error));
    side.type = TRM_STEP_TYPE_STREAM_COPY_END;
    side.sync_cycles = side.cycles = rest;
    TRY(push(draft, &side, &edge, error));
    return add_temporary(draft, phase, source, ipu, *out_step, *out_step + 1, error);
  }
  TRY(push(draft, &step, out_step, error));
  return TRM_OK;
}

/* Keeps the messages of an exchange alive until the compute set that reads them has run. */
static trm_status hold_temporaries(trm_program_draft *draft, const trm_tile_cost *cost,
                                   const uint32_t *step_of, uint32_t source, uint32_t ipu,
                                   trm_error *error) {
  for (size_t p = 0; p < cost->phases.count; ++p) {
    const trm_phase *phase = &cost->phases.items[p];
    if (is_stream(phase->kind) || (phase->temporary_worst <= 0 && phase->temporary_total <= 0)) {
      continue;
    }
    uint32_t end = step_of[p] + 1;
    if (phase->kind == TRM_PHASE_EXCHANGE && p + 1 < cost->phases.count) {
      const trm_phase *next = &cost->phases.items[p + 1];
      const bool reads = next->kind == TRM_PHASE_COMPUTE || next->kind == TRM_PHASE_COPY;
      if (reads && next->temporary_worst == 0) end = step_of[p + 1] + 1;
    }
    TRY(add_temporary(draft, phase, source, ipu, step_of[p], end, error));
  }
  if (cost->temporary_worst <= 0 && cost->temporary_total <= 0) return TRM_OK;
  const trm_phase whole = {.kind = TRM_PHASE_COMPUTE,
                           .first_tile = cost->phases.items[0].first_tile,
                           .temporary_worst = cost->temporary_worst,
                           .temporary_total = cost->temporary_total};
  return add_temporary(draft, &whole, source, ipu, step_of[0], step_of[cost->phases.count - 1] + 1,
                       error);
}

/* Notes the operands that nothing reads after a phase whose steps end before `end`. */
static void end_reads(const trm_phase *phase, uint32_t end, trm_cost_steps *out) {
  for (uint32_t k = 0; k < TRM_MAX_FREED; ++k) {
    if ((phase->frees >> k & 1) != 0) out->ends[k] = end;
  }
}

trm_status trm_program_add_cost(trm_program_draft *draft, const trm_tile_cost *cost,
                                uint32_t source, uint32_t ipu, trm_cost_steps *out,
                                trm_error *error) {
  const size_t count = cost->phases.count;
  out->first = out->writes = (uint32_t)draft->steps.all.count;
  out->last = out->first - 1;
  for (uint32_t k = 0; k < TRM_MAX_FREED; ++k) out->ends[k] = TRM_NO_INDEX;
  if (count == 0) return TRM_OK;
  uint32_t *step_of = trm_arena_allocate(&draft->scratch, count, sizeof *step_of);
  CHECK_MEMORY(step_of, "steps");
  bool computes = false;
  for (size_t p = 0; p < count;) {
    const size_t begin = p;
    const int64_t repeats = cost->phases.items[p].repeats;
    uint32_t loop = TRM_NO_INDEX;
    if (repeats > 1) { /* phases with equal counts form one loop */
      const char *name;
      const trm_phase iterations = {.name = "Loop"};
      TRY(trm_program_phase_name(draft, source, &iterations, ipu, &name, error));
      TRY(trm_program_open(draft, TRM_STEP_TYPE_REPEAT, name, source, (int32_t)ipu, &loop, error));
      draft->steps.all.items[loop].repeat_count = (uint64_t)repeats;
      if (cost->is_result_updated) {
        out->writes = loop;
        computes = true;
      }
    }
    for (; p < count && cost->phases.items[p].repeats == repeats; ++p) {
      const trm_phase *phase = &cost->phases.items[p];
      TRY(add_phase(draft, phase, source, ipu, &step_of[p], error));
      const bool is_compute = phase->kind == TRM_PHASE_COMPUTE || phase->kind == TRM_PHASE_COPY;
      if (is_compute && !computes) out->writes = step_of[p];
      computes = computes || is_compute;
    }
    if (loop != TRM_NO_INDEX) trm_program_close(draft, loop);
    for (size_t q = begin; q < p; ++q) { /* a loop reads in each iteration */
      const uint32_t end = loop != TRM_NO_INDEX ? draft->steps.all.items[loop].end : step_of[q] + 1;
      end_reads(&cost->phases.items[q], end, out);
    }
  }
  out->last = (uint32_t)draft->steps.all.count - 1;
  return hold_temporaries(draft, cost, step_of, source, ipu, error);
}

trm_status trm_program_add_phases(trm_program_draft *draft, const trm_phase *phases, size_t count,
                                  uint32_t source, uint32_t ipu, trm_error *error) {
  trm_tile_cost cost = {.arena = &draft->program->arena};
  trm_status status = TRM_OK;
  trm_cost_steps steps;
  for (size_t p = 0; p < count && status == TRM_OK; ++p) {
    status = trm_tile_cost_add(&cost, &phases[p], error);
  }
  if (status == TRM_OK) {
    status = trm_program_add_cost(draft, &cost, source, ipu, &steps, error);
  }
  trm_tile_cost_free(&cost);
  return status;
}

trm_status trm_program_add_copies(trm_program_draft *draft, const char *what, uint32_t source,
                                  uint32_t ipu, int64_t worst, int64_t total, trm_error *error) {
  if (worst <= 0) return TRM_OK;
  trm_tile_cost cost = {.arena = &draft->program->arena};
  const trm_tile_request request = {.target = trm_program_target_of(draft, ipu)};
  trm_status status = trm_tile_add_copy(
      &request, &cost, what, worst, total, 8,
      (uint32_t)trm_least(request.target->tiles_per_ipu, trm_ceil_divide(total, worst)), error);
  trm_cost_steps steps;
  if (status == TRM_OK) {
    status = trm_program_add_cost(draft, &cost, source, ipu, &steps, error);
  }
  trm_tile_cost_free(&cost);
  return status;
}

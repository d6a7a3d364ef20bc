/* Owns: variables in remote memory. They are on tiles only while an instruction uses them: it reads
 * them before and writes them after.
 *
 * Users decide which variables these are, so the first walk collects them. Variables that only the
 * weight update reads (an optimizer's moments) are in remote memory if the update has the attribute
 * "weight_update" with "offload", or "auto" and there is remote memory; with ",sharded" behind it
 * replicas share these variables out (shards.c). The pipeline option
 * offload_gradient_accumulation_buffers adds the sums of gradients, and offload_weights adds
 * everything that the update reads. A value that replaces such a variable in a loop is in remote
 * memory too. */
#include <string.h>

#include "base/cycles.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

enum { IN_UPDATE = 1, ELSEWHERE = 2, OFFLOADED = 4, SUM = 8, RESULT = 16, SHARDED = 32 };

/* The name of the additions of gradients (python/tremula/tf/runtime/tracing/accumulation.py). */
static const char sum_name[] = "GradientAccumulatorAddWithScale";

static uint8_t kind_of_use(const trm_program_draft *draft, const trm_instruction *instruction) {
  const char *update = trm_instruction_fused_attribute(draft->module, instruction, "weight_update");
  if (update == NULL) return ELSEWHERE;
  const bool offloads = strncmp(update, "offload", 7) == 0 ||
                        (strncmp(update, "auto", 4) == 0 && !draft->program->options.ipu_model);
  const uint8_t sharded = trm_remote_wants_shards(draft, instruction) ? SHARDED : 0;
  return IN_UPDATE | (offloads ? OFFLOADED | sharded : 0);
}

static bool adds_gradients(const trm_program_draft *draft, const trm_instruction *instruction) {
  const char *name = instruction->metadata.op_name;
  if (name != NULL && strstr(name, sum_name) != NULL) return true;
  if (instruction->opcode != TRM_OP_FUSION) return false;
  const trm_computation *body = &draft->module->computations[instruction->called[0]];
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    name = body->instructions[i].metadata.op_name;
    if (name != NULL && strstr(name, sum_name) != NULL) return true;
  }
  return false;
}

void trm_remote_note_use(trm_program_draft *draft, const trm_instruction *instruction,
                         const trm_value *value) {
  trm_placement *placement = trm_program_placement_of(draft, value);
  if (placement == NULL) return;
  const uint8_t kind = kind_of_use(draft, instruction);
  placement->remote |= kind;
  const uint32_t source = draft->values.variables.items[value->variable].source;
  if (kind == ELSEWHERE && draft->stages.remote.sums && source != TRM_NO_INDEX &&
      adds_gradients(draft, instruction) &&
      strcmp(draft->steps.sources.items[source].opcode, "while") == 0) {
    placement->remote |= SUM;
  }
}

static bool is_wanted(const trm_program_draft *draft, const trm_placement *placement) {
  const uint8_t uses = placement->remote;
  if (uses & RESULT) return true;
  if (uses & SUM) return draft->stages.remote.sums;
  if (draft->stages.remote.weights && uses & IN_UPDATE) return true;
  return (uses & (IN_UPDATE | ELSEWHERE | OFFLOADED)) == (IN_UPDATE | OFFLOADED);
}

bool trm_remote_is(const trm_program_draft *draft, uint32_t computation, trm_index i, uint32_t leaf,
                   const trm_shape *shape) {
  const trm_placement *placements = draft->placements.preferences[computation][i];
  if (draft->finding || placements == NULL || !is_wanted(draft, &placements[leaf])) {
    return false;
  }
  const int64_t bytes = trm_shape_count(shape) * (int64_t)trm_tile_dtype_bytes(shape->dtype);
  return bytes >= draft->program->options.minimum_remote_bytes;
}

uint32_t trm_remote_shards(const trm_program_draft *draft, uint32_t computation, trm_index i,
                           uint32_t leaf) {
  const trm_placement *placements = draft->placements.preferences[computation][i];
  if (draft->finding || placements == NULL) return 1;
  const bool is_shared = (placements[leaf].remote & (SHARDED | ELSEWHERE)) == SHARDED;
  return is_shared ? draft->program->options.replicas : 1;
}

trm_status trm_remote_note_result(trm_program_draft *draft, const trm_value *state,
                                  const trm_value *result, trm_error *error) {
  const trm_placement *placement = trm_program_placement_of(draft, state);
  if (placement == NULL || !is_wanted(draft, placement)) return TRM_OK;
  const uint8_t sharded = placement->remote & ELSEWHERE ? 0 : placement->remote & SHARDED;
  uint32_t v = result->variable;
  while (v != TRM_NO_INDEX && v != state->variable) {
    const trm_program_variable *variable = &draft->values.variables.items[v];
    if (variable->source == TRM_NO_INDEX || variable->is_input) return TRM_OK;
    const trm_program_source *source = &draft->steps.sources.items[variable->source];
    const trm_instruction *maker =
        &draft->module->computations[source->computation].instructions[source->instruction];
    const trm_shape *shape = &maker->shape;
    const int32_t leaves = trm_shape_num_leaves(shape);
    if (variable->leaf >= (uint32_t)leaves) return TRM_OK;
    TRY(trm_program_make_placements(draft, source->computation, source->instruction, leaves,
                                    error));
    draft->placements.preferences[source->computation][source->instruction][variable->leaf]
        .remote |= RESULT | (trm_remote_wants_shards(draft, maker) ? sharded : 0);
    v = draft->values.follows.items[v];
  }
  return TRM_OK;
}

/* ---- Using them ----------------------------------------------------------------------------- */

static bool is_remote(const trm_program_draft *draft, const trm_value *value) {
  return value->variable != TRM_NO_INDEX &&
         draft->values.variables.items[value->variable].is_remote;
}

/* Bytes of the shard of a variable that a replica has. */
static int64_t shard_bytes(const trm_program_draft *draft, uint32_t v) {
  const trm_program_variable *variable = &draft->values.variables.items[v];
  return trm_ceil_divide(variable->total_bytes, trm_most(1, variable->shards));
}

/* The place of this shard: the variable's tiles have less each. */
static trm_mapping shard_mapping(const trm_program_draft *draft, uint32_t v) {
  const trm_program_variable *variable = &draft->values.variables.items[v];
  const trm_mapping *whole = &variable->mapping;
  if (variable->shards <= 1 || whole->kind == TRM_MAPPING_NONE) return *whole;
  return trm_mapping_linear_grain(trm_program_target_of(draft, whole->ipu), variable->dtype,
                                  trm_ceil_divide(whole->count, variable->shards), 1,
                                  trm_ceil_divide(whole->worst, variable->shards), whole->ipu,
                                  whole->first_tile);
}

/* Adds one copy from or to remote memory. */
static trm_status add_copy(trm_program_draft *draft, bool reads, int64_t bytes, uint32_t source,
                           uint32_t ipu, trm_error *error) {
  if (bytes == 0 || draft->finding) return TRM_OK;
  const trm_target *target = trm_program_target_of(draft, ipu);
  const double rate = target->streaming_bytes_per_second;
  const double cycles = rate > 0 ? (double)bytes / rate * target->clock_frequency : 0;
  const int64_t share = trm_ceil_divide(bytes, target->tiles_per_ipu);
  const trm_phase phase = {.kind = reads ? TRM_PHASE_REMOTE_READ : TRM_PHASE_REMOTE_WRITE,
                           .name = reads ? "RemoteBufferRead" : "RemoteBufferWrite",
                           .cycles = trm_limit_cycles(cycles),
                           .sync_cycles = target->global_sync_cycles,
                           .cycles_mean = cycles,
                           .active_tiles = (uint32_t)trm_least(target->tiles_per_ipu, bytes),
                           .bytes_in_worst = reads ? share : 0,
                           .bytes_in_total = reads ? bytes : 0,
                           .bytes_out_worst = reads ? 0 : share,
                           .bytes_out_total = reads ? 0 : bytes};
  return trm_program_add_phases(draft, &phase, 1, source, ipu, error);
}

trm_status trm_remote_read(trm_program_draft *draft, const trm_value *values, size_t count,
                           uint32_t source, uint32_t ipu, trm_error *error) {
  int64_t bytes = 0;
  for (size_t k = 0; k < count; ++k) {
    if (is_remote(draft, &values[k])) {
      bytes += shard_bytes(draft, values[k].variable);
    }
  }
  return add_copy(draft, true, bytes, source, ipu, error);
}

/* Adds the array on tiles, alive from a step to the newest one. */
static trm_status add_array(trm_program_draft *draft, uint32_t v, uint32_t first_step,
                            trm_error *error) {
  const trm_program_variable *variable = &draft->values.variables.items[v];
  const trm_new_variable wanted = {.name = variable->name,
                                   .source = variable->source,
                                   .mapping = shard_mapping(draft, v),
                                   .category = TRM_CATEGORY_VARIABLE};
  uint32_t array;
  TRY(trm_program_add_variable(draft, &wanted, &array, error));
  draft->values.variables.items[array].live =
      (trm_program_interval){first_step, (uint32_t)draft->steps.all.count};
  return TRM_OK;
}

trm_status trm_remote_write(trm_program_draft *draft, const trm_value *values, size_t count,
                            const trm_value *results, size_t num_results, uint32_t first_step,
                            uint32_t source, uint32_t ipu, trm_error *error) {
  if (draft->finding) return TRM_OK;
  int64_t bytes = 0;
  for (size_t k = 0; k < num_results; ++k) {
    if (is_remote(draft, &results[k])) {
      bytes += shard_bytes(draft, results[k].variable);
    }
  }
  TRY(add_copy(draft, false, bytes, source, ipu, error));
  for (size_t k = 0; k < count + num_results; ++k) {
    const trm_value *value = k < count ? &values[k] : &results[k - count];
    bool is_there = !is_remote(draft, value);
    for (size_t j = 0; j < k && !is_there; ++j) {
      const trm_value *other = j < count ? &values[j] : &results[j - count];
      is_there = other->variable == value->variable;
    }
    if (!is_there) TRY(add_array(draft, value->variable, first_step, error));
  }
  return TRM_OK;
}

bool trm_remote_wants_shards(const trm_program_draft *draft, const trm_instruction *instruction) {
  if (draft->program->options.replicas <= 1) return false;
  const char *update = trm_instruction_fused_attribute(draft->module, instruction, "weight_update");
  return update != NULL && strstr(update, ",sharded") != NULL;
}

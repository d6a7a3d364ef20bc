/* Owns: the memory of one replica, and the addresses of all values in a run.
 *
 * A table holds every pointer that a step needs. A run fills in the addresses of inputs and
 * outputs, and then only calls kernels. */
#include <string.h>

#include "host/exec/engine.h"

/* Numbers of the engine have the high bit; numbers of the caller do not. */
static const uint64_t own_number = UINT64_C(1) << 63;

/* ---- Memory --------------------------------------------------------------------------------- */

/* Whether the replica, and not the caller, has the memory of an output. */
static bool owns(const trm_executable *executable, uint32_t number, size_t output) {
  return number > 0 || executable->float_outputs[output];
}

static trm_status create_own_output(const trm_executable *executable, uint32_t number, size_t o,
                                    trm_own_output *own, trm_error *error) {
  const size_t bytes = executable->outputs[o].bytes;
  const bool is_float = executable->float_outputs[o];
  const int blocks = executable->aliases[o] >= 0 ? 2 : 1;
  for (int b = 0; b < blocks; ++b) {
    own->blocks[b] = trm_allocate_aligned(is_float ? 2 * bytes : bytes);
    CHECK_MEMORY(own->blocks[b], "a replica's results");
  }
  if (!is_float || number == 0) return TRM_OK;
  own->rounded = trm_allocate_aligned(bytes);
  CHECK_MEMORY(own->rounded, "a replica's results");
  return TRM_OK;
}

static trm_status create_own_outputs(const trm_executable *executable, uint32_t number,
                                     trm_replica *replica, trm_error *error) {
  const size_t inputs = executable->num_inputs, outputs = executable->num_outputs;
  replica->own = trm_allocate_zeroed(outputs, sizeof *replica->own);
  replica->inputs = trm_allocate_zeroed(inputs, sizeof *replica->inputs);
  replica->input_versions = trm_allocate_zeroed(inputs, sizeof *replica->input_versions);
  replica->outputs = trm_allocate_zeroed(outputs, sizeof *replica->outputs);
  if (replica->own == NULL || replica->inputs == NULL || replica->input_versions == NULL ||
      replica->outputs == NULL) {
    FAIL_NO_MEMORY("a replica");
  }
  for (size_t o = 0; o < outputs; ++o) {
    if (!owns(executable, number, o)) continue;
    TRY(create_own_output(executable, number, o, &replica->own[o], error));
  }
  return TRM_OK;
}

/* Gives each step its rows of the tables of operands and results. */
static void place_calls(const trm_engine *engine, trm_replica *replica) {
  const trm_schedule *schedule = engine->executable->schedule;
  size_t operands = 0, results = 0;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    replica->calls[i] = (trm_kernel_call){.operands = replica->operands + operands,
                                          .versions = replica->versions + operands,
                                          .results = replica->results + results,
                                          .persistent = replica->persistent + step->persistent,
                                          .exchange = replica->exchange,
                                          .is_stopped = trm_engine_is_stopped,
                                          .engine = engine};
    operands += step->num_operands;
    results += step->num_results;
  }
}

trm_status trm_replica_create(trm_engine *engine, uint32_t number, trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  trm_replica *replica = &engine->replicas[number];
  size_t num_operands = 0, num_results = 0;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    num_operands += schedule->steps[i].num_operands;
    num_results += schedule->steps[i].num_results;
  }
  replica->arena = trm_allocate_block(schedule->arena_bytes);
  replica->persistent = trm_allocate_block(schedule->persistent_bytes);
  replica->pointers = trm_allocate_zeroed(schedule->num_slots, sizeof *replica->pointers);
  replica->operands = trm_allocate_zeroed(num_operands, sizeof *replica->operands);
  replica->results = trm_allocate_zeroed(num_results, sizeof *replica->results);
  replica->versions = trm_allocate_zeroed(num_operands, sizeof *replica->versions);
  replica->calls = trm_allocate_zeroed(schedule->num_steps, sizeof *replica->calls);
  if (replica->arena == NULL || replica->persistent == NULL) {
    FAIL(RESOURCE_EXHAUSTED,
         "out of memory: the program needs %zu bytes for its values and %zu for packed weights%s",
         schedule->arena_bytes, schedule->persistent_bytes,
         engine->num_replicas > 1 ? ", for each replica" : "");
  }
  if (replica->pointers == NULL || replica->operands == NULL || replica->results == NULL ||
      replica->versions == NULL || replica->calls == NULL) {
    FAIL_NO_MEMORY("an engine");
  }
  if (engine->team != NULL) replica->exchange = trm_team_exchange(engine->team, number);
  place_calls(engine, replica);
  TRY(trm_residence_create(schedule, number, &replica->residence, error));
  if (number == 0 && !engine->executable->has_floats) return TRM_OK;
  return create_own_outputs(engine->executable, number, replica, error);
}

void trm_replica_free(const trm_engine *engine, trm_replica *replica) {
  for (size_t o = 0; replica->own != NULL && o < engine->executable->num_outputs; ++o) {
    for (int b = 0; b < 2; ++b) {
      trm_forget_resident(replica->own[o].blocks[b]);
      trm_free(replica->own[o].blocks[b]);
    }
    trm_free(replica->own[o].rounded);
  }
  trm_residence_free(replica->residence);
  const trm_schedule *schedule = engine->executable->schedule;
  trm_free_block(replica->arena, schedule->arena_bytes);
  trm_free_block(replica->persistent, schedule->persistent_bytes);
  trm_free(replica->pointers);
  trm_free(replica->operands);
  trm_free(replica->results);
  trm_free(replica->versions);
  trm_free(replica->calls);
  trm_free(replica->own);
  trm_free(replica->inputs);
  trm_free(replica->input_versions);
  trm_free(replica->outputs);
}

/* ---- Own values ----------------------------------------------------------------------------- */

/* The block that holds the replica's own value with the host's version `version`, or -1. */
static int find_own(const trm_own_output *own, uint64_t version) {
  for (int b = 0; b < 2 && version != 0; ++b) {
    if (own->given[b] == version) return b;
  }
  return -1;
}

/* Chooses this replica's inputs and outputs. */
static trm_status take_own(trm_engine *engine, uint32_t number, const void *const *inputs,
                           const uint64_t *versions, void *const *outputs, trm_error *error) {
  const trm_executable *executable = engine->executable;
  trm_replica *replica = &engine->replicas[number];
  for (size_t i = 0; i < executable->num_inputs; ++i) {
    replica->inputs[i] = executable->float_inputs[i] ? NULL : inputs[i];
    replica->input_versions[i] = versions != NULL ? versions[i] & ~own_number : 0;
  }
  for (size_t o = 0; o < executable->num_outputs; ++o) {
    trm_own_output *own = &replica->own[o];
    replica->outputs[o] = outputs[o];
    if (!owns(executable, number, o)) continue;
    const int64_t input = executable->aliases[o];
    const int kept =
        input < 0 || versions == NULL ? -1 : find_own(own, versions[input] & ~own_number);
    if (kept >= 0) {
      replica->inputs[input] = own->blocks[kept];
      replica->input_versions[input] = own->numbers[kept];
    }
    own->written = kept == 0 ? 1 : 0;
    own->given[own->written] = 0;
    replica->outputs[o] = own->blocks[own->written];
  }
  for (size_t i = 0; i < executable->num_inputs; ++i) {
    if (replica->inputs[i] != NULL || !executable->float_inputs[i]) continue;
    TRY(trm_engine_widen_input(engine, number, i, inputs[i], replica->input_versions[i],
                               &replica->inputs[i], error));
  }
  return TRM_OK;
}

void trm_replica_keep_outputs(trm_engine *engine, uint32_t number,
                              const uint64_t *output_versions) {
  trm_replica *replica = &engine->replicas[number];
  for (size_t o = 0; replica->own != NULL && o < engine->executable->num_outputs; ++o) {
    if (!owns(engine->executable, number, o)) continue;
    trm_own_output *own = &replica->own[o];
    own->given[own->written] = output_versions != NULL ? output_versions[o] & ~own_number : 0;
    own->numbers[own->written] = ++engine->contents | own_number;
  }
}

/* ---- Where everything is -------------------------------------------------------------------- */

static void locate_slots(trm_replica *replica, const trm_schedule *schedule,
                         const void *const *inputs, void *const *outputs) {
  for (uint32_t s = 0; s < schedule->num_slots; ++s) {
    const trm_slot *slot = &schedule->slots[schedule->slots[s].parent];
    switch (slot->kind) {
      case TRM_SLOT_ARENA: replica->pointers[s] = replica->arena + slot->offset; break;
      case TRM_SLOT_INPUT: replica->pointers[s] = (void *)inputs[slot->number]; break;
      case TRM_SLOT_OUTPUT: replica->pointers[s] = outputs[slot->number]; break;
      case TRM_SLOT_CONSTANT: replica->pointers[s] = (void *)slot->constant; break;
      case TRM_SLOT_VIEW: replica->pointers[s] = NULL; break;
    }
  }
}

trm_status trm_replica_locate(trm_engine *engine, uint32_t number, const void *const *inputs,
                              const uint64_t *versions, void *const *outputs, trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  trm_replica *replica = &engine->replicas[number];
  const uint64_t this_run = ++engine->contents | own_number;
  const bool has_own = replica->own != NULL;
  if (has_own) {
    TRY(take_own(engine, number, inputs, versions, outputs, error));
    inputs = replica->inputs;
    outputs = replica->outputs;
  }
  locate_slots(replica, schedule, inputs, outputs);
  const void **operands = replica->operands;
  void **results = replica->results;
  uint64_t *numbers = replica->versions;
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const trm_step *step = &schedule->steps[i];
    for (uint32_t k = 0; k < step->num_operands; ++k) {
      const trm_slot *slot = &schedule->slots[step->slots[k]];
      operands[k] = replica->pointers[step->slots[k]];
      numbers[k] = 0;
      if (slot->kind == TRM_SLOT_CONSTANT) {
        numbers[k] = 1;
      } else if (slot->kind == TRM_SLOT_INPUT) {
        const uint64_t given = has_own            ? replica->input_versions[slot->number]
                               : versions != NULL ? versions[slot->number] & ~own_number
                                                  : 0;
        numbers[k] = given != 0 ? given : this_run;
      } else if (slot->at_top) {
        numbers[k] = this_run;
      }
    }
    for (uint32_t k = 0; k < step->num_results; ++k) {
      results[k] = replica->pointers[step->slots[step->num_operands + k]];
    }
    replica->calls[i].scratch =
        step->scratch != TRM_NO_INDEX ? replica->pointers[step->scratch] : NULL;
    operands += step->num_operands;
    numbers += step->num_operands;
    results += step->num_results;
  }
  if (replica->residence == NULL) return TRM_OK;
  return trm_residence_begin(replica->residence, replica->pointers,
                             has_own ? replica->input_versions : versions, error);
}

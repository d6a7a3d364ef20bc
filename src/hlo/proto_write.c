/* Owns: writing a module as a HloModuleProto that XLA, and trm_hlo_parse_proto, read back.
 *
 * The proto has no order but that of the ids: of the instructions that could come next, a reader
 * takes that with the least id. Ids that tell another order (passes reorder) are replaced.
 * Everything is built in one scratch arena and packed at once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto_write.h"

typedef Tremula__Hlo__HloInstructionProto instruction_proto;
typedef Tremula__Hlo__HloComputationProto computation_proto;
typedef Tremula__Hlo__ShapeProto shape_proto;
typedef trm_proto_writer writer;

/* ---- Ids ------------------------------------------------------------------------------------ */

static int compare_numbers(const void *a, const void *b) {
  const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return left < right ? -1 : left > right;
}

/* Sorts; returns whether all are positive and differ. */
static bool all_differ(int64_t *numbers, size_t count) {
  if (count > 1) qsort(numbers, count, sizeof *numbers, compare_numbers);
  bool fine = count == 0 || numbers[0] > 0;
  for (size_t i = 1; i < count && fine; ++i) fine = numbers[i] != numbers[i - 1];
  return fine;
}

/* Whether the ids tell the order of the instructions. `larger` has room for all of them. */
static bool tells_order(const trm_computation *computation, trm_index *larger) {
  uint32_t count = 0; /* of `larger`: instructions before, with ids that descend to the last */
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    while (count > 0 && computation->instructions[larger[count - 1]].id < instruction->id) --count;
    bool must_wait = count == 0; /* for the last of them, which comes first in spite of its id */
    for (uint32_t k = 0; k < instruction->num_operands && !must_wait; ++k) {
      must_wait = instruction->operands[k] >= larger[count - 1];
    }
    for (uint32_t k = 0; k < instruction->num_control_predecessors && !must_wait; ++k) {
      must_wait = instruction->control_predecessors[k] >= larger[count - 1];
    }
    if (!must_wait) return false;
    larger[count++] = i;
  }
  return true;
}

static trm_status choose_ids(writer *w, trm_error *error) {
  const trm_module *module = w->module;
  size_t total = 0, count = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    total += module->computations[c].num_instructions;
  }
  w->first_id = ARENA_NEW(&w->arena, int64_t, module->num_computations);
  int64_t *ids = trm_allocate_zeroed(total + module->num_computations, sizeof *ids);
  trm_index *larger = trm_allocate_zeroed(total, sizeof *larger);
  if (w->first_id == NULL || ids == NULL || larger == NULL) {
    trm_free(ids);
    trm_free(larger);
    FAIL_NO_MEMORY("ids");
  }
  w->keep_ids = true;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    w->first_id[c] = (int64_t)count + 1;
    w->keep_ids = w->keep_ids && tells_order(computation, larger);
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      ids[count++] = computation->instructions[i].id;
    }
  }
  w->keep_ids = w->keep_ids && all_differ(ids, total);
  for (uint32_t c = 0; c < module->num_computations; ++c) ids[c] = module->computations[c].id;
  w->keep_ids = w->keep_ids && all_differ(ids, module->num_computations);
  trm_free(ids);
  trm_free(larger);
  return TRM_OK;
}

trm_status trm_hlo_settle_ids(trm_module *module, trm_error *error) {
  writer w = {.module = module};
  const trm_status status = choose_ids(&w, error);
  for (uint32_t c = 0; status == TRM_OK && !w.keep_ids && c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    computation->id = (int64_t)c + 1;
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      computation->instructions[i].id = w.first_id[c] + i;
    }
  }
  trm_arena_free(&w.arena);
  return status;
}

static int64_t instruction_id(const writer *w, uint32_t computation, trm_index index) {
  return w->keep_ids ? w->module->computations[computation].instructions[index].id
                     : w->first_id[computation] + index;
}

static int64_t computation_id(const writer *w, uint32_t computation) {
  return w->keep_ids ? w->module->computations[computation].id : (int64_t)computation + 1;
}

/* ---- Instructions and computations ---------------------------------------------------------- */

static trm_status write_references(writer *w, uint32_t c, const trm_instruction *from,
                                   instruction_proto *proto, trm_error *error) {
  proto->n_operand_ids = from->num_operands;
  proto->n_control_predecessor_ids = from->num_control_predecessors;
  proto->n_called_computation_ids = from->num_called;
  proto->operand_ids = ARENA_NEW(&w->arena, int64_t, from->num_operands);
  proto->control_predecessor_ids = ARENA_NEW(&w->arena, int64_t, from->num_control_predecessors);
  proto->called_computation_ids = ARENA_NEW(&w->arena, int64_t, from->num_called);
  if (proto->operand_ids == NULL || proto->control_predecessor_ids == NULL ||
      proto->called_computation_ids == NULL) {
    FAIL_NO_MEMORY("operands");
  }
  for (uint32_t i = 0; i < from->num_operands; ++i) {
    proto->operand_ids[i] = instruction_id(w, c, from->operands[i]);
  }
  for (uint32_t i = 0; i < from->num_control_predecessors; ++i) {
    proto->control_predecessor_ids[i] = instruction_id(w, c, from->control_predecessors[i]);
  }
  const bool is_while = from->opcode == TRM_OP_WHILE; /* the proto has the body first */
  for (uint32_t i = 0; i < from->num_called; ++i) {
    const uint32_t slot = is_while ? from->num_called - 1 - i : i;
    proto->called_computation_ids[i] = computation_id(w, from->called[slot]);
  }
  return TRM_OK;
}

static trm_status write_instruction(writer *w, uint32_t c, trm_index index,
                                    instruction_proto **out_proto, trm_error *error) {
  const trm_instruction *from = &w->module->computations[c].instructions[index];
  NEW_PROTO(w, proto, HloInstructionProto, tremula__hlo__hlo_instruction_proto);
  proto->name = trm_proto_borrow(from->name);
  proto->opcode = trm_proto_borrow(trm_opcode_name(from->opcode));
  proto->id = instruction_id(w, c, index);
  TRY(trm_proto_write_shape(w, &from->shape, &proto->shape, error));
  if (from->literal != NULL) {
    w->plain_layouts = true;
    TRY(trm_proto_write_literal(w, from->literal, &proto->literal, error));
    w->plain_layouts = false;
  }
  TRY(trm_proto_write_attributes(w, from, proto, error));
  TRY(write_references(w, c, from, proto, error));
  *out_proto = proto;
  return TRM_OK;
}

static trm_status write_program_shape(writer *w, const trm_computation *computation,
                                      Tremula__Hlo__ProgramShapeProto **out_proto,
                                      trm_error *error) {
  NEW_PROTO(w, proto, ProgramShapeProto, tremula__hlo__program_shape_proto);
  const size_t count = computation->num_parameters;
  proto->n_parameters = proto->n_parameter_names = count;
  proto->parameters = ARENA_NEW(&w->arena, shape_proto *, count);
  proto->parameter_names = ARENA_NEW(&w->arena, char *, count);
  if (proto->parameters == NULL || proto->parameter_names == NULL) FAIL_NO_MEMORY("parameters");
  for (size_t i = 0; i < count; ++i) {
    const trm_instruction *parameter = &computation->instructions[computation->parameters[i]];
    TRY(trm_proto_write_shape(w, &parameter->shape, &proto->parameters[i], error));
    proto->parameter_names[i] = trm_proto_borrow(parameter->name);
  }
  TRY(trm_proto_write_shape(w, &computation->instructions[computation->root].shape, &proto->result,
                            error));
  *out_proto = proto;
  return TRM_OK;
}

static trm_status write_computation(writer *w, uint32_t c, computation_proto **out_proto,
                                    trm_error *error) {
  const trm_computation *from = &w->module->computations[c];
  NEW_PROTO(w, proto, HloComputationProto, tremula__hlo__hlo_computation_proto);
  proto->name = trm_proto_borrow(from->name);
  proto->id = computation_id(w, c);
  proto->root_id = instruction_id(w, c, from->root);
  proto->n_instructions = from->num_instructions;
  proto->instructions = ARENA_NEW(&w->arena, instruction_proto *, from->num_instructions);
  CHECK_MEMORY(proto->instructions, "instructions");
  for (trm_index i = 0; i < from->num_instructions; ++i) {
    TRY_NOTE(write_instruction(w, c, i, &proto->instructions[i], error),
             "while writing %%%s of computation %s", from->instructions[i].name, from->name);
  }
  TRY(write_program_shape(w, from, &proto->program_shape, error));
  *out_proto = proto;
  return TRM_OK;
}

/* ---- The module ----------------------------------------------------------------------------- */

static trm_status write_aliases(writer *w, Tremula__Hlo__HloModuleProto *proto, trm_error *error) {
  const trm_module *module = w->module;
  if (module->num_aliases == 0) return TRM_OK;
  NEW_PROTO(w, aliases, HloInputOutputAliasProto, tremula__hlo__hlo_input_output_alias_proto);
  aliases->n_entries = module->num_aliases;
  aliases->entries = ARENA_NEW(&w->arena, Tremula__Hlo__HloInputOutputAliasProto__AliasEntryProto *,
                               module->num_aliases);
  CHECK_MEMORY(aliases->entries, "aliases");
  for (uint32_t i = 0; i < module->num_aliases; ++i) {
    const trm_alias *from = &module->aliases[i];
    NEW_PROTO(w, entry, HloInputOutputAliasProto__AliasEntryProto,
              tremula__hlo__hlo_input_output_alias_proto__alias_entry_proto);
    SET_DIMS(&from->output_index, entry, output_shape_index);
    SET_DIMS(&from->parameter_index, entry, parameter_shape_index);
    entry->parameter_number = from->parameter_number;
    entry->kind = from->must_alias ? 2 : 1;
    aliases->entries[i] = entry;
  }
  proto->input_output_alias = aliases;
  return TRM_OK;
}

static trm_status write_schedule(writer *w, Tremula__Hlo__HloModuleProto *proto, trm_error *error) {
  const trm_module *module = w->module;
  if (!module->is_scheduled) return TRM_OK;
  NEW_PROTO(w, schedule, HloScheduleProto, tremula__hlo__hlo_schedule_proto);
  schedule->n_sequences = module->num_computations;
  schedule->sequences = ARENA_NEW(&w->arena, Tremula__Hlo__HloScheduleProto__SequencesEntry *,
                                  module->num_computations);
  CHECK_MEMORY(schedule->sequences, "a schedule");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const uint32_t count = module->computations[c].num_instructions;
    NEW_PROTO(w, entry, HloScheduleProto__SequencesEntry,
              tremula__hlo__hlo_schedule_proto__sequences_entry);
    NEW_PROTO(w, sequence, HloScheduleProto__InstructionSequence,
              tremula__hlo__hlo_schedule_proto__instruction_sequence);
    sequence->n_instruction_ids = count;
    sequence->instruction_ids = ARENA_NEW(&w->arena, int64_t, count);
    CHECK_MEMORY(sequence->instruction_ids, "a schedule");
    for (trm_index i = 0; i < count; ++i) sequence->instruction_ids[i] = instruction_id(w, c, i);
    entry->key = computation_id(w, c);
    entry->value = sequence;
    schedule->sequences[c] = entry;
  }
  proto->schedule = schedule;
  return TRM_OK;
}

static trm_status write_module(writer *w, Tremula__Hlo__HloModuleProto *proto, trm_error *error) {
  const trm_module *module = w->module;
  if (module->entry >= module->num_computations) FAIL(INVALID_ARGUMENT, "the module has no entry");
  const trm_computation *entry = &module->computations[module->entry];
  TRY(choose_ids(w, error));
  proto->name = trm_proto_borrow(module->name);
  proto->id = 1;
  proto->entry_computation_name = trm_proto_borrow(entry->name);
  proto->entry_computation_id = computation_id(w, module->entry);
  proto->n_computations = module->num_computations;
  proto->computations = ARENA_NEW(&w->arena, computation_proto *, module->num_computations);
  CHECK_MEMORY(proto->computations, "computations");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    TRY(write_computation(w, c, &proto->computations[c], error));
  }
  TRY(write_program_shape(w, entry, &proto->host_program_shape, error));
  TRY(write_aliases(w, proto, error));
  if (module->frontend_side_table != NULL) {
    const char *const pairs[] = {TRM_PROTO_SIDE_TABLE_KEY, module->frontend_side_table, NULL};
    TRY(trm_proto_write_map(w, pairs, &proto->frontend_attributes, error));
  }
  return write_schedule(w, proto, error);
}

trm_status trm_module_serialize(const trm_module *module, void **out_data, size_t *out_size,
                                trm_error *error) {
  writer w = {.module = module};
  Tremula__Hlo__HloModuleProto proto;
  tremula__hlo__hlo_module_proto__init(&proto);
  trm_status status = write_module(&w, &proto, error);
  if (status == TRM_OK) {
    const size_t size = tremula__hlo__hlo_module_proto__get_packed_size(&proto);
    uint8_t *data = trm_allocate(size);
    if (data == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED,
                        "out of memory while serialising a module of %zu bytes", size);
    } else {
      tremula__hlo__hlo_module_proto__pack(&proto, data);
      *out_data = data;
      *out_size = size;
    }
  }
  trm_arena_free(&w.arena);
  return status;
}

/* Owns: reading a HloModuleProto: computations callees first, instructions in the order of their
 * ids as far as dependencies allow, names made unique. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/names.h"
#include "hlo/order.h"
#include "hlo/proto.h"

typedef Tremula__Hlo__HloModuleProto module_proto;
typedef Tremula__Hlo__HloComputationProto computation_proto;
typedef Tremula__Hlo__HloInstructionProto instruction_proto;

/* An id, and the place in its list of the object with that id. Sorted by id. */
typedef struct id_entry {
  int64_t id;
  uint32_t place;
} id_entry;

static int compare_ids(const void *a, const void *b) {
  const id_entry *left = a, *right = b;
  if (left->id != right->id) return left->id < right->id ? -1 : 1;
  return left->place < right->place ? -1 : left->place > right->place;
}

/* The place of an id, or TRM_NO_INDEX. */
static uint32_t find_id(const id_entry *entries, uint32_t count, int64_t id) {
  uint32_t low = 0, high = count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (entries[middle].id < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && entries[low].id == id ? entries[low].place : TRM_NO_INDEX;
}

typedef struct reader {
  const module_proto *proto;
  trm_module *module;
  uint32_t num_computations;
  id_entry *computation_ids; /* of the proto's list */
  uint32_t num_sequences;
  id_entry *sequence_ids;   /* of the schedule, by computation */
  uint32_t *computation_of; /* place in the proto -> index in the module */
  trm_names instruction_names, computation_names;
  int64_t suffix; /* the next, of names that are not unique */
} reader;

/* ---- Names ---------------------------------------------------------------------------------- */

/* HLO text allows letters, digits, '_', '.' and '-'; anything else becomes '_'. */
static char *clean_name(trm_arena *arena, const char *name) {
  const size_t length = strlen(name);
  char *clean = trm_arena_allocate(arena, length + 2, 1);
  if (clean == NULL) return NULL;
  const bool starts_well =
      length > 0 && !(name[0] >= '0' && name[0] <= '9') && name[0] != '-' && name[0] != '.';
  char *out = clean;
  if (!starts_well) *out++ = '_';
  for (size_t i = 0; i < length; ++i) {
    const char c = name[i];
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    *out++ = allowed ? c : '_';
  }
  return clean;
}

static trm_status unique_name(reader *r, trm_names *names, const char *name, const char **out_name,
                              trm_error *error) {
  trm_arena *arena = &r->module->arena;
  *out_name = clean_name(arena, name);
  CHECK_MEMORY(*out_name, "a name");
  return trm_names_make_unique(names, arena, &r->suffix, out_name, error);
}

/* ---- The order of computations -------------------------------------------------------------- */

static trm_status index_computations(reader *r, trm_error *error) {
  const module_proto *proto = r->proto;
  if (proto->n_computations > TRM_NO_INDEX / 4) {
    FAIL(RESOURCE_EXHAUSTED, "the module has too many computations");
  }
  r->num_computations = (uint32_t)proto->n_computations;
  r->computation_ids = trm_allocate_zeroed(r->num_computations, sizeof *r->computation_ids);
  r->computation_of = trm_allocate_zeroed(r->num_computations, sizeof *r->computation_of);
  if (r->computation_ids == NULL || r->computation_of == NULL) FAIL_NO_MEMORY("computations");
  for (uint32_t i = 0; i < r->num_computations; ++i) {
    r->computation_ids[i] = (id_entry){proto->computations[i]->id, i};
  }
  if (r->num_computations > 1) {
    qsort(r->computation_ids, r->num_computations, sizeof *r->computation_ids, compare_ids);
  }
  for (uint32_t i = 1; i < r->num_computations; ++i) {
    if (r->computation_ids[i].id == r->computation_ids[i - 1].id) {
      FAIL(INVALID_ARGUMENT, "two computations have the id %" PRId64, r->computation_ids[i].id);
    }
  }
  return TRM_OK;
}

static trm_status index_schedule(reader *r, trm_error *error) {
  const Tremula__Hlo__HloScheduleProto *schedule = r->proto->schedule;
  if (schedule == NULL) return TRM_OK;
  if (schedule->n_sequences > TRM_NO_INDEX / 4) FAIL(INVALID_ARGUMENT, "the schedule is too long");
  r->num_sequences = (uint32_t)schedule->n_sequences;
  r->sequence_ids = trm_allocate_zeroed(r->num_sequences, sizeof *r->sequence_ids);
  CHECK_MEMORY(r->sequence_ids, "a schedule");
  for (uint32_t i = 0; i < r->num_sequences; ++i) {
    r->sequence_ids[i] = (id_entry){schedule->sequences[i]->key, i};
  }
  if (r->num_sequences > 1) {
    qsort(r->sequence_ids, r->num_sequences, sizeof *r->sequence_ids, compare_ids);
  }
  return TRM_OK;
}

/* Ids that are made up (an id 0 is one that is missing) must differ from all that are given. */
static void skip_given_ids(reader *r) {
  int64_t largest = 0;
  for (uint32_t c = 0; c < r->num_computations; ++c) {
    const computation_proto *computation = r->proto->computations[c];
    for (size_t i = 0; i < computation->n_instructions; ++i) {
      const int64_t id = computation->instructions[i]->id;
      if (id > largest) largest = id;
    }
  }
  if (largest < INT64_MAX / 2) r->module->next_id = largest + 1;
}

/* Which computations call which, by their places in the proto. */
static trm_status list_calls(const reader *r, trm_graph *out_calls, trm_error *error) {
  size_t calls = 0;
  for (uint32_t c = 0; c < r->num_computations; ++c) {
    const computation_proto *computation = r->proto->computations[c];
    for (size_t i = 0; i < computation->n_instructions; ++i) {
      calls += computation->instructions[i]->n_called_computation_ids;
    }
  }
  TRY(trm_graph_create(r->num_computations, calls, out_calls, error));
  calls = 0;
  for (uint32_t c = 0; c < r->num_computations; ++c) {
    const computation_proto *computation = r->proto->computations[c];
    for (size_t i = 0; i < computation->n_instructions; ++i) {
      const instruction_proto *instruction = computation->instructions[i];
      for (size_t k = 0; k < instruction->n_called_computation_ids; ++k) {
        const int64_t id = instruction->called_computation_ids[k];
        const uint32_t callee = find_id(r->computation_ids, r->num_computations, id);
        if (callee == TRM_NO_INDEX) {
          FAIL(INVALID_ARGUMENT,
               "%.200s in computation %.200s calls the computation with id %" PRId64
               ", which does not exist",
               instruction->name, computation->name, id);
        }
        out_calls->targets[calls++] = callee;
      }
    }
    out_calls->rows[c + 1] = calls;
  }
  return TRM_OK;
}

/* Fills order[] with places, callees before callers, otherwise as in the proto. */
static trm_status order_computations(const reader *r, uint32_t *order, trm_error *error) {
  trm_graph calls = {0};
  trm_cycle cycle;
  uint32_t count;
  trm_status status = list_calls(r, &calls, error);
  if (status == TRM_OK) status = trm_graph_order(&calls, NULL, order, &count, &cycle, error);
  trm_graph_free(&calls);
  if (status != TRM_OK || cycle.from == TRM_NO_INDEX) return status;
  const char *caller = r->proto->computations[cycle.from]->name;
  const char *callee = r->proto->computations[cycle.to]->name;
  FAIL(INVALID_ARGUMENT,
       "the call graph is cyclic: computation %.200s calls %.200s, which calls it, directly or "
       "through others; HLO has no recursion",
       caller, callee);
}

/* ---- The order of instructions -------------------------------------------------------------- */

/* Working arrays of one computation; indexed by the instruction's place in the proto. */
typedef struct ordering {
  uint32_t count;
  id_entry *ids;
  uint32_t *waiting_for; /* dependencies that have no position yet */
  uint32_t *first_user;  /* count + 1: where its users start in users */
  uint32_t *users;
  uint64_t *key; /* decides between nodes that are ready; all keys differ */
  uint32_t *heap;
  uint32_t heap_size;
  uint32_t *position; /* the index in the module */
  uint32_t *seen;     /* by index in the module: for leaving out repeated control edges */
} ordering;

static void ordering_free(ordering *o) {
  trm_free(o->ids);
  trm_free(o->waiting_for);
  trm_free(o->first_user);
  trm_free(o->users);
  trm_free(o->key);
  trm_free(o->heap);
  trm_free(o->position);
  trm_free(o->seen);
}

static void heap_push(ordering *o, uint32_t place) {
  uint32_t i = o->heap_size++;
  while (i > 0 && o->key[o->heap[(i - 1) / 2]] > o->key[place]) {
    o->heap[i] = o->heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  o->heap[i] = place;
}

static uint32_t heap_pop(ordering *o) {
  const uint32_t result = o->heap[0], last = o->heap[--o->heap_size];
  uint32_t i = 0;
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= o->heap_size) break;
    if (child + 1 < o->heap_size && o->key[o->heap[child + 1]] < o->key[o->heap[child]]) ++child;
    if (o->key[o->heap[child]] >= o->key[last]) break;
    o->heap[i] = o->heap[child];
    i = child;
  }
  o->heap[i] = last;
  return result;
}

/* The k-th dependency of an instruction: operands, then control predecessors. */
static size_t num_dependencies(const instruction_proto *instruction) {
  return instruction->n_operand_ids + instruction->n_control_predecessor_ids;
}
static int64_t dependency_id(const instruction_proto *instruction, size_t k) {
  return k < instruction->n_operand_ids
             ? instruction->operand_ids[k]
             : instruction->control_predecessor_ids[k - instruction->n_operand_ids];
}

static trm_status index_instructions(ordering *o, const computation_proto *proto,
                                     trm_error *error) {
  if (proto->n_instructions > TRM_NO_INDEX / 4) {
    FAIL(RESOURCE_EXHAUSTED, "computation %.200s has too many instructions", proto->name);
  }
  o->count = (uint32_t)proto->n_instructions;
  o->ids = trm_allocate_zeroed(o->count, sizeof *o->ids);
  o->waiting_for = trm_allocate_zeroed(o->count, sizeof *o->waiting_for);
  o->first_user = trm_allocate_zeroed((size_t)o->count + 2, sizeof *o->first_user);
  o->key = trm_allocate_zeroed(o->count, sizeof *o->key);
  o->heap = trm_allocate_zeroed(o->count, sizeof *o->heap);
  o->position = trm_allocate_zeroed(o->count, sizeof *o->position);
  o->seen = trm_allocate_zeroed(o->count, sizeof *o->seen);
  if (o->ids == NULL || o->waiting_for == NULL || o->first_user == NULL || o->key == NULL ||
      o->heap == NULL || o->position == NULL || o->seen == NULL) {
    FAIL_NO_MEMORY("the order of instructions");
  }
  for (uint32_t i = 0; i < o->count; ++i) {
    o->ids[i] = (id_entry){proto->instructions[i]->id, i};
    o->position[i] = TRM_NO_INDEX;
  }
  if (o->count > 1) qsort(o->ids, o->count, sizeof *o->ids, compare_ids);
  for (uint32_t i = 0; i < o->count; ++i) {
    if (o->ids[i].id < 0) {
      FAIL(INVALID_ARGUMENT, "%.200s has the id %" PRId64 "; ids cannot be negative",
           proto->instructions[o->ids[i].place]->name, o->ids[i].id);
    }
    if (i > 0 && o->ids[i].id == o->ids[i - 1].id) {
      FAIL(INVALID_ARGUMENT, "two instructions of computation %.200s have the id %" PRId64,
           proto->name, o->ids[i].id);
    }
    o->key[o->ids[i].place] = i;
  }
  return TRM_OK;
}

static trm_status link_users(ordering *o, const computation_proto *proto, trm_error *error) {
  size_t edges = 0;
  for (uint32_t i = 0; i < o->count; ++i) edges += num_dependencies(proto->instructions[i]);
  if (edges > TRM_NO_INDEX / 2) {
    FAIL(RESOURCE_EXHAUSTED, "computation %.200s has too many operands", proto->name);
  }
  o->users = trm_allocate_zeroed(edges, sizeof *o->users);
  /* The places of the dependencies, so that ids are looked up once. */
  uint32_t *used = trm_allocate_zeroed(edges, sizeof *used);
  trm_status status = TRM_OK;
  if (o->users == NULL || used == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while allocating the users");
  }
  size_t edge = 0;
  for (uint32_t i = 0; i < o->count; ++i) {
    const instruction_proto *instruction = proto->instructions[i];
    for (size_t k = 0; k < num_dependencies(instruction); ++k) {
      const int64_t id = dependency_id(instruction, k);
      const uint32_t place = find_id(o->ids, o->count, id);
      if (place == TRM_NO_INDEX) {
        FAIL_OR_GOTO(done, INVALID_ARGUMENT,
                     "%.200s in computation %.200s uses the instruction with id %" PRId64
                     ", which does not exist there",
                     instruction->name, proto->name, id);
      }
      used[edge++] = place;
      ++o->first_user[place + 2];
      ++o->waiting_for[i];
    }
  }
  for (uint32_t i = 2; i < o->count + 2; ++i) o->first_user[i] += o->first_user[i - 1];
  edge = 0;
  for (uint32_t i = 0; i < o->count; ++i) {
    for (size_t k = 0; k < num_dependencies(proto->instructions[i]); ++k) {
      o->users[o->first_user[used[edge++] + 1]++] = i;
    }
  }
done:
  trm_free(used);
  return status;
}

/* A schedule decides instead of the ids, when there is one. */
static trm_status apply_schedule(ordering *o, const reader *r, const computation_proto *proto,
                                 trm_error *error) {
  const uint32_t sequence = find_id(r->sequence_ids, r->num_sequences, proto->id);
  if (sequence == TRM_NO_INDEX || r->proto->schedule->sequences[sequence]->value == NULL) {
    return TRM_OK;
  }
  const Tremula__Hlo__HloScheduleProto__InstructionSequence *order =
      r->proto->schedule->sequences[sequence]->value;
  if (order->n_instruction_ids != o->count) {
    FAIL(INVALID_ARGUMENT, "the schedule of computation %.200s has %zu instructions of %" PRIu32,
         proto->name, order->n_instruction_ids, o->count);
  }
  for (uint32_t i = 0; i < o->count; ++i) {
    const uint32_t place = find_id(o->ids, o->count, order->instruction_ids[i]);
    /* `seen` is free for now: it finds instructions that are scheduled twice. */
    if (place == TRM_NO_INDEX || o->seen[place]++ != 0) {
      FAIL(INVALID_ARGUMENT, "the schedule of computation %.200s is wrong at instruction %" PRId64,
           proto->name, order->instruction_ids[i]);
    }
    o->key[place] = i;
  }
  memset(o->seen, 0, o->count * sizeof *o->seen);
  return TRM_OK;
}

/* ---- Instructions --------------------------------------------------------------------------- */

static trm_status add_instruction(reader *r, uint32_t computation, ordering *o,
                                  const instruction_proto *proto, uint32_t place,
                                  trm_error *error) {
  trm_module *module = r->module;
  trm_arena *arena = &module->arena;
  trm_instruction instruction;
  TRY(trm_proto_read_instruction(arena, proto, r->proto->stack_frame_index, &instruction, error));
  if (instruction.opcode == TRM_OP_PARAMETER &&
      (instruction.number < 0 || instruction.number >= o->count)) {
    FAIL(INVALID_ARGUMENT, "its parameter number %" PRId64 " is out of range", instruction.number);
  }
  const char *name = proto->name[0] != '\0' ? proto->name : proto->opcode;
  TRY(unique_name(r, &r->instruction_names, name, &instruction.name, error));
  instruction.num_operands = (uint32_t)proto->n_operand_ids;
  instruction.operands = ARENA_NEW(arena, trm_index, proto->n_operand_ids);
  instruction.called = ARENA_NEW(arena, uint32_t, proto->n_called_computation_ids);
  instruction.control_predecessors = ARENA_NEW(arena, trm_index, proto->n_control_predecessor_ids);
  if (instruction.operands == NULL || instruction.called == NULL ||
      instruction.control_predecessors == NULL) {
    FAIL_NO_MEMORY("operands");
  }
  for (size_t i = 0; i < proto->n_operand_ids; ++i) {
    instruction.operands[i] = o->position[find_id(o->ids, o->count, proto->operand_ids[i])];
  }
  instruction.num_called = (uint32_t)proto->n_called_computation_ids;
  for (size_t i = 0; i < proto->n_called_computation_ids; ++i) {
    instruction.called[i] = r->computation_of[find_id(r->computation_ids, r->num_computations,
                                                      proto->called_computation_ids[i])];
  }
  if (instruction.opcode == TRM_OP_WHILE && instruction.num_called == 2) {
    /* The proto has the body first, the IR the condition. */
    const uint32_t body = instruction.called[0];
    instruction.called[0] = instruction.called[1];
    instruction.called[1] = body;
  }
  const uint32_t stamp = module->computations[computation].num_instructions + 1;
  for (size_t i = 0; i < proto->n_control_predecessor_ids; ++i) {
    const trm_index before =
        o->position[find_id(o->ids, o->count, proto->control_predecessor_ids[i])];
    if (o->seen[before] == stamp) continue;
    o->seen[before] = stamp;
    instruction.control_predecessors[instruction.num_control_predecessors++] = before;
  }
  return trm_computation_add(module, computation, &instruction, &o->position[place], error);
}

static trm_status read_instructions(reader *r, uint32_t index, const computation_proto *proto,
                                    ordering *o, trm_error *error) {
  TRY(index_instructions(o, proto, error));
  TRY(link_users(o, proto, error));
  TRY(apply_schedule(o, r, proto, error));
  trm_computation *computation = &r->module->computations[index];
  computation->instructions = ARENA_NEW(&r->module->arena, trm_instruction, o->count);
  CHECK_MEMORY(computation->instructions, "instructions");
  computation->capacity = o->count;
  for (uint32_t i = 0; i < o->count; ++i) {
    if (o->waiting_for[i] == 0) heap_push(o, i);
  }
  while (o->heap_size > 0) {
    const uint32_t place = heap_pop(o);
    TRY_NOTE(add_instruction(r, index, o, proto->instructions[place], place, error),
             "while reading instruction %.200s of computation %.200s",
             proto->instructions[place]->name, proto->name);
    for (uint32_t u = o->first_user[place]; u < o->first_user[place + 1]; ++u) {
      if (--o->waiting_for[o->users[u]] == 0) heap_push(o, o->users[u]);
    }
  }
  computation = &r->module->computations[index];
  for (uint32_t i = 0; i < o->count && computation->num_instructions < o->count; ++i) {
    if (o->position[i] == TRM_NO_INDEX) {
      FAIL(INVALID_ARGUMENT, "the instructions of computation %.200s form a cycle, near %.200s",
           proto->name, proto->instructions[i]->name);
    }
  }
  const uint32_t root = find_id(o->ids, o->count, proto->root_id);
  if (root == TRM_NO_INDEX) {
    FAIL(INVALID_ARGUMENT,
         "computation %.200s has no instruction with the id of its root, %" PRId64, proto->name,
         proto->root_id);
  }
  computation->root = o->position[root];
  return TRM_OK;
}

static trm_status read_computation(reader *r, uint32_t place, trm_error *error) {
  const computation_proto *proto = r->proto->computations[place];
  const char *name;
  uint32_t index;
  TRY(unique_name(r, &r->computation_names, proto->name, &name, error));
  TRY(trm_module_add_computation(r->module, name, &index, error));
  r->module->computations[index].id = proto->id;
  r->computation_of[place] = index;
  ordering o = {0};
  const trm_status status = read_instructions(r, index, proto, &o, error);
  ordering_free(&o);
  return status;
}

/* ---- The module ----------------------------------------------------------------------------- */

static trm_status read_aliases(reader *r, trm_error *error) {
  const Tremula__Hlo__HloInputOutputAliasProto *proto = r->proto->input_output_alias;
  if (proto == NULL || proto->n_entries == 0) return TRM_OK;
  if (proto->n_entries > INT32_MAX) FAIL(INVALID_ARGUMENT, "the module has too many aliases");
  trm_module *module = r->module;
  module->aliases = ARENA_NEW(&module->arena, trm_alias, proto->n_entries);
  CHECK_MEMORY(module->aliases, "aliases");
  module->num_aliases = (uint32_t)proto->n_entries;
  for (size_t i = 0; i < proto->n_entries; ++i) {
    const Tremula__Hlo__HloInputOutputAliasProto__AliasEntryProto *entry = proto->entries[i];
    trm_alias *alias = &module->aliases[i];
    TRY(trm_proto_read_dims(&module->arena, entry->output_shape_index, entry->n_output_shape_index,
                            &alias->output_index, error));
    TRY(trm_proto_read_dims(&module->arena, entry->parameter_shape_index,
                            entry->n_parameter_shape_index, &alias->parameter_index, error));
    alias->parameter_number = entry->parameter_number;
    alias->must_alias = entry->kind == 2;
  }
  return TRM_OK;
}

static trm_status find_entry(reader *r, trm_error *error) {
  const module_proto *proto = r->proto;
  uint32_t place = find_id(r->computation_ids, r->num_computations, proto->entry_computation_id);
  for (uint32_t i = 0; i < r->num_computations && place == TRM_NO_INDEX; ++i) {
    if (strcmp(proto->computations[i]->name, proto->entry_computation_name) == 0) place = i;
  }
  if (place == TRM_NO_INDEX) {
    FAIL(INVALID_ARGUMENT, "the module has no computation with the id of its entry, %" PRId64,
         proto->entry_computation_id);
  }
  r->module->entry = r->computation_of[place];
  return TRM_OK;
}

static trm_status read_side_table(reader *r, trm_error *error) {
  const Tremula__Hlo__FrontendAttributes *attributes = r->proto->frontend_attributes;
  for (size_t i = 0; attributes != NULL && i < attributes->n_map; ++i) {
    if (strcmp(attributes->map[i]->key, TRM_PROTO_SIDE_TABLE_KEY) != 0) continue;
    const char *value = attributes->map[i]->value;
    r->module->frontend_side_table = trm_arena_string(&r->module->arena, value, strlen(value));
    CHECK_MEMORY(r->module->frontend_side_table, "the side table");
  }
  return TRM_OK;
}

/* Ids order side effects, so two instructions must not share one, in different computations
 * either. */
static trm_status check_ids(const trm_module *module, trm_error *error) {
  size_t total = 0, count = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    total += module->computations[c].num_instructions;
  }
  if (total > TRM_NO_INDEX / 2) FAIL(RESOURCE_EXHAUSTED, "the module has too many instructions");
  id_entry *ids = trm_allocate_zeroed(total, sizeof *ids);
  CHECK_MEMORY(ids, "ids");
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    for (trm_index i = 0; i < module->computations[c].num_instructions; ++i) {
      ids[count++] = (id_entry){module->computations[c].instructions[i].id, 0};
    }
  }
  if (total > 1) qsort(ids, total, sizeof *ids, compare_ids);
  int64_t repeated = -1;
  for (size_t i = 1; i < total && repeated < 0; ++i) {
    if (ids[i].id == ids[i - 1].id) repeated = ids[i].id;
  }
  trm_free(ids);
  if (repeated >= 0) FAIL(INVALID_ARGUMENT, "two instructions have the id %" PRId64, repeated);
  return TRM_OK;
}

static trm_status read_module(reader *r, trm_error *error) {
  TRY(index_computations(r, error));
  TRY(index_schedule(r, error));
  skip_given_ids(r);
  uint32_t *order = trm_allocate_zeroed(r->num_computations, sizeof *order);
  trm_status status = TRM_OK;
  if (order == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while ordering computations");
  }
  TRY_OR_GOTO(order_computations(r, order, error), done);
  for (uint32_t i = 0; i < r->num_computations; ++i) {
    TRY_OR_GOTO(read_computation(r, order[i], error), done);
  }
  TRY_OR_GOTO(find_entry(r, error), done);
  TRY_OR_GOTO(check_ids(r->module, error), done);
  TRY_OR_GOTO(read_aliases(r, error), done);
  TRY_OR_GOTO(read_side_table(r, error), done);
  TRY_OR_GOTO(trm_module_settle(r->module, error), done);
  r->module->is_scheduled = r->proto->schedule != NULL && r->proto->schedule->n_sequences > 0;
done:
  trm_free(order);
  return status;
}

trm_status trm_hlo_parse_proto(const void *data, size_t size, trm_module **out_module,
                               trm_error *error) {
  if (data == NULL || size == 0) FAIL(INVALID_ARGUMENT, "an empty file is not a HloModuleProto");
  const uint8_t *bytes = data;
  trm_proto_unwrap(&bytes, &size);
  TRY(trm_proto_scan(bytes, size, error));
  /* An unpacked message takes some 30 times its bytes; a hostile one of empty messages far more. */
  trm_proto_budget budget;
  const size_t slack = (size_t)1 << 24;
  trm_proto_budget_start(&budget, size > (SIZE_MAX - slack) / 128 ? SIZE_MAX : slack + 128 * size);
  const size_t allowed = budget.remaining;
  module_proto *proto = tremula__hlo__hlo_module_proto__unpack(&budget.allocator, size, bytes);
  if (proto == NULL) {
    FAIL(DATA_LOSS,
         "cannot unpack the HloModuleProto: it is damaged, or needs more than %zu bytes of memory",
         allowed);
  }
  reader r = {.proto = proto, .suffix = 1};
  trm_status status = trm_module_create("module", &r.module, error);
  if (status == TRM_OK) {
    r.module->name = clean_name(&r.module->arena, proto->name);
    status = r.module->name == NULL
                 ? trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while naming a module")
                 : read_module(&r, error);
  }
  trm_names_free(&r.instruction_names);
  trm_names_free(&r.computation_names);
  trm_free(r.computation_ids);
  trm_free(r.computation_of);
  trm_free(r.sequence_ids);
  tremula__hlo__hlo_module_proto__free_unpacked(proto, &budget.allocator);
  if (status != TRM_OK) {
    trm_module_free(r.module);
    return status;
  }
  *out_module = r.module;
  return TRM_OK;
}

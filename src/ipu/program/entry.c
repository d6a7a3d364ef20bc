/* Owns: a program as a whole: inputs, outputs, and the two walks over the entry.
 *
 * The first walk finds where to allocate inputs and constants, as their most demanding consumers
 * preference (draft.placements.preferences). The second walk makes the program. Both see the same
 * instructions in the same order, and the planner's cache makes the second walk cheap. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "hlo/infer.h"
#include "hlo/sharding.h"
#include "ipu/program/draft.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

static uint32_t count_shards(const trm_module *module) {
  int32_t most = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const int32_t device = trm_sharding_device(computation->instructions[i].sharding);
      if (device > most) most = device;
    }
  }
  return (uint32_t)most + 1;
}

typedef struct entry_values {
  const trm_value **parameters;
  const bool **owned;
  bool *output_is_update; /* by output leaf: it updates an input */
} entry_values;

/* The names of the inputs, from the side table of a TensorFlow program. */
typedef struct input_table {
  const json_t *names; /* one for each leaf; NULL: the side table has none */
  int64_t arguments;   /* number of leading leaves that the host sends for each run; -1: unknown */
} input_table;

/* Whether an input is a weight, which stays on the IPU. The side table says whether it is a
 * variable. Without a side table it is a weight if an output updates it, or if its uses are those
 * of weights; an input that is only read, as activations are, or that holds integers is sent for
 * each run. */
static bool is_weight(const trm_program_draft *draft, const input_table *table, size_t index,
                      trm_index i, uint32_t leaf, const trm_shape *shape, bool updated) {
  if (updated) return true;
  if (table->arguments >= 0) return index >= (size_t)table->arguments;
  const uint32_t computation = draft->module->entry;
  const trm_tile_preference *preference = trm_program_preference_for(draft, computation, i, leaf);
  if (preference != NULL && preference->kind == TRM_PREFERENCE_ACTIVATION) return false;
  if (preference != NULL && preference->kind == TRM_PREFERENCE_WEIGHTS) return true;
  return trm_dtype_is_floating(shape->dtype);
}

/* Names an input: from the side table's list of inputs if there is one, else from the parameter's
 * metadata, where JAX states the argument ("params['w']"), else from the HLO name and the op that
 * reads it first. */
static trm_status name_input(trm_program_draft *draft, const json_t *names, size_t index,
                             trm_index i, uint32_t leaf, uint32_t source, const char **out_name,
                             trm_error *error) {
  const trm_module *module = draft->module;
  const trm_instruction *parameter = &module->computations[module->entry].instructions[i];
  const trm_placement *placements = draft->placements.preferences[module->entry][i];
  const char *listed = json_string_value(json_array_get(names, index));
  *out_name = parameter->name;
  if (draft->finding) return TRM_OK;
  if (listed != NULL) {
    *out_name = trm_arena_string(&draft->program->arena, listed, strlen(listed));
    draft->steps.sources.items[source].op_name = *out_name;
  } else if (draft->steps.sources.items[source].op_name[0] != '\0') {
    *out_name = draft->steps.sources.items[source].op_name;
  } else if (placements != NULL && placements[leaf].reader != NULL) {
    *out_name = trm_arena_format(&draft->program->arena, "%s (read by %s)", parameter->name,
                                 placements[leaf].reader);
  }
  CHECK_MEMORY(*out_name, "inputs");
  return TRM_OK;
}

/* Marks the leaves of parameter `p` that outputs are the new values of, and these outputs. */
static void mark_updates(const trm_module *module, uint32_t p, bool *updated,
                         bool *output_is_update) {
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *root = &entry->instructions[entry->root].shape;
  const trm_shape *shape = &entry->instructions[entry->parameters[p]].shape;
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    const trm_alias *alias = &module->aliases[a];
    if (alias->parameter_number != (int64_t)p) continue;
    const int64_t leaf = trm_shape_leaf_at(shape, &alias->parameter_index);
    const int64_t output = trm_shape_leaf_at(root, &alias->output_index);
    if (leaf >= 0) updated[leaf] = true;
    if (leaf >= 0 && output >= 0) output_is_update[output] = true;
  }
}

/* Adds the variable of leaf `l` of parameter `i`, which is input `index`. */
static trm_status add_input(trm_program_draft *draft, const input_table *table, size_t index,
                            trm_index i, uint32_t l, bool is_updated, uint32_t *out_variable,
                            trm_error *error) {
  const uint32_t entry = draft->module->entry;
  const trm_instruction *parameter = &draft->module->computations[entry].instructions[i];
  const trm_shape *shape = trm_shape_leaf(&parameter->shape, (int32_t)l);
  uint32_t source;
  TRY(trm_program_add_source(draft, entry, i, &source, error));
  const uint32_t ipu = trm_program_ipu_for(draft, entry, i, l);
  const bool weight = is_weight(draft, table, index, i, l, shape, is_updated);
  const bool remote = weight && trm_remote_is(draft, entry, i, l, shape);
  const char *name;
  TRY(name_input(draft, table->names, index, i, l, source, &name, error));
  const trm_new_variable wanted = {.name = name,
                                   .source = source,
                                   .shape = shape,
                                   .mapping = trm_program_allocate(draft, entry, i, l, shape, ipu),
                                   .category = TRM_CATEGORY_VARIABLE,
                                   .always_live = weight && !remote};
  TRY(trm_program_add_variable(draft, &wanted, out_variable, error));
  trm_program_variable *added = &draft->values.variables.items[*out_variable];
  added->leaf = l;
  added->is_input = true;
  added->is_weight = weight;
  added->is_updated = is_updated;
  added->is_remote = remote;
  added->shards = remote ? trm_remote_shards(draft, entry, i, l) : 1;
  return TRM_OK;
}

static trm_status add_inputs(trm_program_draft *draft, entry_values *v, const input_table *table,
                             int64_t *out_bytes, trm_error *error) {
  const trm_module *module = draft->module;
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *root = &entry->instructions[entry->root].shape;
  const size_t room = (size_t)entry->num_parameters + 1;
  v->parameters = ARENA_NEW(&draft->scratch, const trm_value *, room);
  v->owned = ARENA_NEW(&draft->scratch, const bool *, room);
  v->output_is_update = ARENA_NEW(&draft->scratch, bool, (size_t)trm_shape_num_leaves(root) + 1);
  if (v->parameters == NULL || v->owned == NULL || v->output_is_update == NULL) {
    FAIL_NO_MEMORY("inputs");
  }
  const void *const *inputs = draft->program->options.inputs;
  *out_bytes = 0;
  size_t index = 0;
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_index i = entry->parameters[p];
    const int32_t leaves = trm_shape_num_leaves(&entry->instructions[i].shape);
    trm_value *values = ARENA_NEW(&draft->scratch, trm_value, (size_t)leaves + 1);
    bool *owned = ARENA_NEW(&draft->scratch, bool, (size_t)leaves + 1);
    if (values == NULL || owned == NULL) FAIL_NO_MEMORY("inputs");
    mark_updates(module, p, owned, v->output_is_update);
    TRY(trm_program_make_placements(draft, module->entry, i, leaves, error));
    for (int32_t l = 0; l < leaves; ++l) {
      uint32_t variable;
      TRY(add_input(draft, table, index, i, (uint32_t)l, owned[l], &variable, error));
      values[l] = trm_value_plain(draft, variable);
      if (inputs != NULL) values[l].known = inputs[index];
      ++index;
      if (draft->values.variables.items[variable].is_weight) continue;
      *out_bytes += draft->values.variables.items[variable].total_bytes;
      /* The host sends it again for the next run. */
      draft->values.variables.items[variable].is_streamed = table->arguments >= 0;
      owned[l] = true;
    }
    v->parameters[p] = values;
    v->owned[p] = owned;
  }
  return TRM_OK;
}

/* Adds one copy with the host for all inputs, or for all outputs. */
static trm_status add_stream(trm_program_draft *draft, const char *name, trm_phase_kind kind,
                             int64_t bytes, trm_error *error) {
  if (bytes <= 0 || draft->finding) return TRM_OK;
  const trm_target *target = draft->target;
  const bool in = kind == TRM_PHASE_HOST_READ;
  const int64_t share = trm_ceil_divide(bytes, target->tiles_per_ipu);
  const trm_phase phase = {
      .kind = kind,
      .name = name,
      .cycles = (int64_t)trm_target_host_cycles(target, in, bytes),
      .sync_cycles = target->global_sync_cycles,
      .cycles_mean = (double)bytes / target->host_bytes_per_second * target->clock_frequency,
      .active_tiles = target->tiles_per_ipu,
      .messages_worst = 1,
      .bytes_in_worst = in ? share : 0,
      .bytes_in_total = in ? bytes : 0,
      .bytes_out_worst = in ? 0 : share,
      .bytes_out_total = in ? 0 : bytes};
  return trm_program_add_phases(draft, &phase, 1, TRM_NO_INDEX, 0, error);
}

/* Whether to count the steps that Graphcore's TensorFlow adds to programs. */
static bool has_framework_steps(const trm_program_draft *draft) {
  switch (draft->program->options.framework_steps) {
    case TRM_FRAMEWORK_STEPS_ON: return true;
    case TRM_FRAMEWORK_STEPS_OFF: return false;
    default: return trm_module_is_of_tensorflow(draft->module);
  }
}

/* Adds the steps that send the seed, 8 bytes, to every tile and set its generator. */
static trm_status add_seeds(trm_program_draft *draft, trm_error *error) {
  static const char name[] = "__seed/set/setMasterSeed";
  const trm_target *target = draft->target;
  const uint32_t tiles = target->tiles_per_ipu;
  const bool several = draft->program->num_ipus > 1;
  if (several) { /* the host tells one IPU which program to run, and that IPU tells the others */
    const trm_phase broadcast = {.kind = TRM_PHASE_GLOBAL_EXCHANGE,
                                 .name = "switchControlBroadcast2/GlobalPre",
                                 .cycles = target->exchange_phase_cycles + 1,
                                 .sync_cycles = target->global_sync_cycles,
                                 .active_tiles = tiles,
                                 .bytes_in_worst = 4,
                                 .bytes_in_total = 4 * (int64_t)tiles,
                                 .bytes_out_worst = 4,
                                 .bytes_out_total = 4,
                                 .messages_worst = 1};
    TRY(trm_program_add_phases(draft, &broadcast, 1, TRM_NO_INDEX, 0, error));
    TRY(trm_program_add_copies(draft, "switchControlBroadcast2/OnTileCopy", TRM_NO_INDEX, 0, 4,
                               4 * (int64_t)tiles, error));
  }
  for (uint32_t ipu = 0; ipu < draft->program->num_ipus; ++ipu) {
    const trm_phase phases[] = {{.kind = several ? TRM_PHASE_GLOBAL_EXCHANGE : TRM_PHASE_EXCHANGE,
                                 .name = name,
                                 .cycles = target->exchange_phase_cycles + 2,
                                 .sync_cycles = several ? target->global_sync_cycles : 0,
                                 .active_tiles = tiles,
                                 .bytes_in_worst = 8,
                                 .bytes_in_total = 8 * (int64_t)tiles,
                                 .bytes_out_worst = 8,
                                 .bytes_out_total = 8,
                                 .messages_worst = 1},
                                {.kind = TRM_PHASE_COMPUTE,
                                 .name = name,
                                 .cycles = 120,
                                 .cycles_mean = 120,
                                 .active_tiles = tiles,
                                 .num_groups = 1,
                                 .edges = tiles,
                                 .groups = {{.codelet = "poprand::SetSeedSupervisor",
                                             .count = tiles,
                                             .cycles = 120,
                                             .state_bytes = 12,
                                             .code_bytes = 200}}}};
    TRY(trm_program_add_phases(draft, phases, 2, TRM_NO_INDEX, ipu, error));
  }
  return TRM_OK;
}

/* Adds a variable for an output that repeats elements: the host reads it whole. */
static trm_status write_out(trm_program_draft *draft, int32_t l, const trm_value *value,
                            const trm_shape *shape, trm_value *out_value, trm_error *error) {
  const uint32_t entry = draft->module->entry;
  const trm_instruction *items = draft->module->computations[entry].instructions;
  trm_index i = draft->module->computations[entry].root;
  if (items[i].opcode == TRM_OP_TUPLE && trm_shape_is_array(&items[items[i].operands[l]].shape)) {
    i = items[i].operands[l];
  }
  const uint32_t ipu = trm_value_mapping(draft, value)->ipu;
  uint32_t source, variable;
  TRY(trm_program_add_source(draft, entry, i, &source, error));
  const trm_new_variable wanted = {
      .name = items[i].name,
      .source = source,
      .shape = shape,
      .mapping = trm_mapping_linear(trm_program_target_of(draft, ipu), shape, ipu, 0),
      .category = TRM_CATEGORY_VARIABLE};
  TRY(trm_program_add_variable(draft, &wanted, &variable, error));
  *out_value = trm_value_plain(draft, variable);
  return TRM_OK;
}

static trm_status add_outputs(trm_program_draft *draft, const entry_values *v,
                              const trm_value *values, trm_error *error) {
  const trm_module *module = draft->module;
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *shape = &entry->instructions[entry->root].shape;
  const int32_t leaves = trm_shape_num_leaves(shape);
  int64_t bytes = 0, worst = 0, total = 0;
  trm_value *root = ARENA_NEW(&draft->scratch, trm_value, (size_t)leaves + 1);
  if (root == NULL) FAIL_NO_MEMORY("outputs");
  for (int32_t l = 0; l < leaves; ++l) {
    const trm_shape *leaf = trm_shape_leaf(shape, l);
    const int64_t size = trm_shape_count(leaf) * (int64_t)trm_tile_dtype_bytes(leaf->dtype);
    root[l] = values[l];
    if (!v->output_is_update[l]) {
      bytes += size;
      if (values[l].variable != TRM_NO_INDEX && values[l].source_count < trm_shape_count(leaf)) {
        TRY(write_out(draft, l, &values[l], leaf, &root[l], error));
      }
    } else if (root[l].variable != TRM_NO_INDEX &&
               (!draft->values.variables.items[root[l].variable].is_input ||
                draft->values.variables.items[root[l].variable].is_streamed || root[l].is_view)) {
      /* A new value of a weight that is not computed in place is copied over the old one. */
      worst += trm_mapping_worst_bytes(trm_value_mapping(draft, &root[l]));
      total += size;
    }
    if (root[l].variable != TRM_NO_INDEX) {
      draft->values.variables.items[root[l].variable].is_output = true;
    }
  }
  if (!draft->finding) {
    TRY(trm_program_add_copies(draft, "Copy_UpdateVariables", TRM_NO_INDEX, 0, worst, total,
                               error));
  }
  if ((draft->program->options.synthetic & TRM_SYNTHETIC_PARAMETERS) != 0) bytes = 0;
  TRY(add_stream(draft, "Outputs", TRM_PHASE_HOST_WRITE, bytes, error));
  for (int32_t l = 0; l < leaves; ++l) TRY(trm_program_touch(draft, &root[l], error));
  return TRM_OK;
}

static size_t num_input_leaves(const trm_module *module) {
  const trm_computation *entry = &module->computations[module->entry];
  size_t leaves = 0;
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_shape *shape = &entry->instructions[entry->parameters[p]].shape;
    leaves += (size_t)trm_shape_num_leaves(shape);
  }
  return leaves;
}

static trm_status walk_entry(trm_program_draft *draft, trm_error *error) {
  entry_values v;
  int64_t bytes;
  uint32_t top = TRM_NO_INDEX;
  draft->steps.parent = TRM_NO_INDEX;
  if (!draft->finding) {
    TRY(trm_program_open(draft, TRM_STEP_TYPE_SEQUENCE, draft->module->name, TRM_NO_INDEX, -1, &top,
                         error));
  }
  /* {"inputs": [names], "arguments": number}, if it lists all inputs. */
  const char *text = draft->module->frontend_side_table;
  json_t *side = text == NULL ? NULL : json_loads(text, 0, NULL);
  input_table table = {json_object_get(side, "inputs"), -1};
  const size_t leaves = num_input_leaves(draft->module);
  if (json_array_size(table.names) != leaves) table.names = NULL;
  const json_t *arguments = json_object_get(side, "arguments");
  if (json_is_integer(arguments) && json_integer_value(arguments) <= (json_int_t)leaves) {
    table.arguments = json_integer_value(arguments);
  }
  const trm_status status = add_inputs(draft, &v, &table, &bytes, error);
  json_decref(side);
  TRY(status);
  if ((draft->program->options.synthetic & TRM_SYNTHETIC_PARAMETERS) != 0) bytes = 0;
  TRY(add_stream(draft, "Inputs", TRM_PHASE_HOST_READ, bytes, error));
  if (!draft->finding && has_framework_steps(draft)) {
    TRY(trm_program_add_note(draft,
                             "the steps that the original adds to programs of TensorFlow are "
                             "counted: host-exchange-local-copy and __seed/set (framework_steps)"));
    const uint32_t inputs = draft->module->computations[draft->module->entry].num_parameters;
    const bool made_up = (draft->program->options.synthetic & TRM_SYNTHETIC_PARAMETERS) != 0;
    const int64_t moved = inputs > 0 && !made_up ? trm_most(bytes, 4) : 0;
    TRY(trm_program_add_copies(draft, "host-exchange-local-copy-0/OnTileCopy-0", TRM_NO_INDEX, 0,
                               trm_ceil_divide(moved, draft->target->tiles_per_ipu), moved, error));
    TRY(add_seeds(draft, error));
  }
  const trm_value *root;
  TRY(trm_program_walk(draft, draft->module->entry, v.parameters, v.owned, &root, error));
  TRY(add_outputs(draft, &v, root, error));
  if (!draft->finding) trm_program_close(draft, top);
  return TRM_OK;
}

/* Clears the results of one walk. The preferences and the orders stay for the next walk. */
static void clear_walk(trm_program_draft *draft) {
  draft->steps.all.count = draft->sets.all.count = draft->values.variables.count = 0;
  draft->steps.sources.count = draft->values.places.count = draft->values.more.count = 0;
  draft->values.last_use.count = draft->values.follows.count = draft->copies.of.count = 0;
  draft->values.first.count = draft->values.copy_preferences_of.count = 0;
  draft->sets.signatures.count = draft->values.stage_uses.count = 0;
  draft->stages.current = -1;
  draft->stages.nesting = 0;
  draft->stages.options = NULL;
  draft->program->pipeline = draft->finding ? (trm_pipeline){0} : draft->program->pipeline;
  trm_arena_free(&draft->scratch);
  memset(draft->placements.next_tile, 0,
         draft->program->num_ipus * sizeof *draft->placements.next_tile);
  memset(draft->io.bytes, 0, draft->program->num_ipus * sizeof *draft->io.bytes);
}

static trm_status prepare(trm_program_draft *draft, trm_error *error) {
  trm_program *program = draft->program;
  const trm_module *module = draft->module;
  trm_arena *arena = &program->arena;
  trm_program_choose_selection(program, module, count_shards(module));
  draft->tile_options.replica_ipus = program->num_ipus;
  program->tiles_per_ipu = program->target->tiles_per_ipu;
  draft->placements.preferences = ARENA_NEW(arena, trm_placement **, module->num_computations);
  draft->copies.first = ARENA_NEW(arena, uint32_t *, module->num_computations);
  draft->walk.orders = ARENA_NEW(arena, uint32_t *, module->num_computations);
  draft->placements.next_tile = ARENA_NEW(arena, uint32_t, program->num_ipus);
  draft->io.bytes = ARENA_NEW(arena, int64_t, program->num_ipus);
  draft->io.keeps_tiles = ARENA_NEW(arena, bool, program->num_ipus);
  if (draft->placements.preferences == NULL || draft->copies.first == NULL ||
      draft->walk.orders == NULL || draft->placements.next_tile == NULL ||
      draft->io.bytes == NULL || draft->io.keeps_tiles == NULL) {
    FAIL_NO_MEMORY("a program");
  }
  trm_io_tiles_find(draft);
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    draft->placements.preferences[c] =
        ARENA_NEW(arena, trm_placement *, (size_t)module->computations[c].num_instructions + 1);
    draft->copies.first[c] =
        ARENA_NEW(arena, uint32_t, (size_t)module->computations[c].num_instructions + 1);
    if (draft->placements.preferences[c] == NULL || draft->copies.first[c] == NULL) {
      FAIL_NO_MEMORY("a program");
    }
  }
  return TRM_OK;
}

/* A block without the room that it does not need; it may have no items. */
static void *cut_to_size(void *items, size_t bytes) {
  void *cut = items == NULL ? NULL : trm_reallocate(items, bytes);
  return cut != NULL ? cut : items;
}

/* Moves the vectors to the program. They are the largest part of it, so none is copied. */
static void finish(trm_program_draft *draft) {
  trm_program *program = draft->program;
#define HAND_OVER(vector, member, number)                                                  \
  program->number = (uint32_t)draft->vector.count;                                         \
  program->member =                                                                        \
      cut_to_size(draft->vector.items, draft->vector.count * sizeof *draft->vector.items); \
  draft->vector.items = NULL;                                                              \
  draft->vector.count = draft->vector.capacity = 0
  HAND_OVER(steps.all, steps, num_steps);
  HAND_OVER(sets.all, compute_sets, num_compute_sets);
  HAND_OVER(values.variables, variables, num_variables);
  HAND_OVER(steps.sources, sources, num_sources);
  HAND_OVER(steps.notes, notes, num_notes);
#undef HAND_OVER
}

static trm_status note_recomputation(trm_program_draft *draft, trm_error *error) {
  (void)error;
  const trm_program *program = draft->program;
  if (program->recomputed.values == 0) {
    return trm_program_add_note(draft, "allow_recompute finds nothing to compute again: no cheap "
                                       "result is kept for long");
  }
  return trm_program_add_note(draft,
                              "allow_recompute: %" PRIu32 " results of %.1f MB in all are "
                              "computed again instead of kept",
                              program->recomputed.values, (double)program->recomputed.bytes / 1e6);
}

trm_status trm_program_build(trm_program_draft *draft, trm_error *error) {
  TRY(prepare(draft, error));
  trm_status status = TRM_OK;
  draft->stages.current = -1;
  draft->finding = true;
  TRY_OR_GOTO(walk_entry(draft, error), done);
  clear_walk(draft);
  draft->finding = false;
  TRY_OR_GOTO(walk_entry(draft, error), done);
  if (draft->program->options.recompute && !draft->program->pipeline.present) {
    TRY_OR_GOTO(note_recomputation(draft, error), done);
  }
  TRY_OR_GOTO(trm_program_add_always_live(draft, error), done);
  finish(draft);
done:
  for (size_t l = 0; l < draft->walk.loops.count; ++l) { /* after a failure */
    VECTOR_FREE(&draft->walk.loops.items[l]->touched);
  }
  clear_walk(draft);
  VECTOR_FREE(&draft->steps.all);
  VECTOR_FREE(&draft->sets.all);
  VECTOR_FREE(&draft->values.variables);
  VECTOR_FREE(&draft->steps.sources);
  VECTOR_FREE(&draft->values.places);
  VECTOR_FREE(&draft->values.more);
  VECTOR_FREE(&draft->steps.notes);
  VECTOR_FREE(&draft->values.last_use);
  VECTOR_FREE(&draft->values.follows);
  VECTOR_FREE(&draft->values.first);
  VECTOR_FREE(&draft->copies.of);
  VECTOR_FREE(&draft->sets.signatures);
  VECTOR_FREE(&draft->values.stage_uses);
  VECTOR_FREE(&draft->values.copy_preferences_of);
  VECTOR_FREE(&draft->copies.preferences);
  VECTOR_FREE(&draft->walk.loops);
  VECTOR_FREE(&draft->names.words);
  VECTOR_FREE(&draft->names.layers);
  trm_free(draft->sets.table);
  draft->sets.table = NULL;
  return status;
}

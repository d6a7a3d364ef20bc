/* Owns: a program as a whole: inputs, outputs, and the two walks over the entry.
 *
 * The first walk finds where inputs and constants should be allocated, which their most demanding
 * consumers say (builder.wishes); the second makes the program. Both see the same instructions in
 * the same order; the planner's cache makes the second one cheap. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "hlo/infer.h"
#include "program/builder.h"
#include "target/target.h"
#include "tile/exchange.h"

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
  int64_t arguments;   /* leaves from the first on that the host sends for each run; -1: unknown */
} input_table;

/* An input is a weight (it stays on the IPU) when it is a variable, as far as that is known; else
 * when an output updates it, or when it is used as weights are; one that is only read and is used
 * as activations are, or holds integers, is sent for each run. */
static bool is_weight(const trm_program_builder *builder, const input_table *table, size_t index,
                      trm_index i, uint32_t leaf, const trm_shape *shape, bool updated) {
  if (updated) return true;
  if (table->arguments >= 0) return index >= (size_t)table->arguments;
  const uint32_t computation = builder->module->entry;
  const trm_tile_wish *wish = trm_program_wish_for(builder, computation, i, leaf);
  if (wish != NULL && wish->kind == TRM_WISH_ACTIVATION) return false;
  if (wish != NULL && wish->kind == TRM_WISH_WEIGHTS) return true;
  return trm_dtype_is_floating(shape->dtype);
}

/* The name of an input: from the side table's list of inputs where there is one, else the HLO
 * name and the op that reads it first. */
static trm_status name_input(trm_program_builder *builder, const json_t *names, size_t index,
                             trm_index i, uint32_t leaf, uint32_t source, const char **out_name,
                             trm_error *error) {
  const trm_module *module = builder->module;
  const trm_instruction *parameter = &module->computations[module->entry].instructions[i];
  const trm_placement *placements = builder->wishes[module->entry][i];
  const char *listed = json_string_value(json_array_get(names, index));
  *out_name = parameter->name;
  if (builder->finding) return TRM_OK;
  if (listed != NULL) {
    *out_name = trm_arena_string(&builder->program->arena, listed, strlen(listed));
    builder->sources.items[source].op_name = *out_name;
  } else if (placements != NULL && placements[leaf].reader != NULL) {
    *out_name = trm_arena_format(&builder->program->arena, "%s (read by %s)", parameter->name,
                                 placements[leaf].reader);
  }
  CHECK_MEMORY(*out_name, "inputs");
  return TRM_OK;
}

static trm_status add_inputs(trm_program_builder *builder, entry_values *v,
                             const input_table *table, int64_t *out_bytes, trm_error *error) {
  const trm_module *module = builder->module;
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *root = &entry->instructions[entry->root].shape;
  const size_t room = (size_t)entry->num_parameters + 1;
  v->parameters = ARENA_NEW(&builder->scratch, const trm_value *, room);
  v->owned = ARENA_NEW(&builder->scratch, const bool *, room);
  v->output_is_update = ARENA_NEW(&builder->scratch, bool, (size_t)trm_shape_num_leaves(root) + 1);
  if (v->parameters == NULL || v->owned == NULL || v->output_is_update == NULL) {
    FAIL_NO_MEMORY("inputs");
  }
  *out_bytes = 0;
  size_t index = 0;
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_index i = entry->parameters[p];
    const trm_instruction *parameter = &entry->instructions[i];
    const int32_t leaves = trm_shape_num_leaves(&parameter->shape);
    trm_value *values = ARENA_NEW(&builder->scratch, trm_value, (size_t)leaves + 1);
    bool *owned = ARENA_NEW(&builder->scratch, bool, (size_t)leaves + 1);
    if (values == NULL || owned == NULL) FAIL_NO_MEMORY("inputs");
    for (uint32_t a = 0; a < module->num_aliases; ++a) {
      const trm_alias *alias = &module->aliases[a];
      if (alias->parameter_number != (int64_t)p) continue;
      const int64_t leaf = trm_shape_leaf_at(&parameter->shape, &alias->parameter_index);
      const int64_t output = trm_shape_leaf_at(root, &alias->output_index);
      if (leaf >= 0) owned[leaf] = true;
      if (leaf >= 0 && output >= 0) v->output_is_update[output] = true;
    }
    TRY(trm_program_make_placements(builder, module->entry, i, leaves, error));
    for (int32_t l = 0; l < leaves; ++l) {
      const trm_shape *shape = trm_shape_leaf(&parameter->shape, l);
      uint32_t variable, source;
      TRY(trm_program_add_source(builder, module->entry, i, &source, error));
      const uint32_t ipu = trm_program_ipu_for(builder, module->entry, i, (uint32_t)l);
      const bool weight = is_weight(builder, table, index, i, (uint32_t)l, shape, owned[l]);
      const bool remote = weight && trm_remote_is(builder, module->entry, i, (uint32_t)l, shape);
      const char *name;
      TRY(name_input(builder, table->names, index++, i, (uint32_t)l, source, &name, error));
      const trm_new_variable wanted = {
          .name = name,
          .source = source,
          .shape = shape,
          .mapping = trm_program_allocate(builder, module->entry, i, (uint32_t)l, shape, ipu),
          .category = TRM_CATEGORY_VARIABLE,
          .always_live = weight && !remote};
      TRY(trm_program_add_variable(builder, &wanted, &variable, error));
      trm_program_variable *added = &builder->variables.items[variable];
      added->leaf = (uint32_t)l;
      added->is_input = true;
      added->is_weight = weight;
      added->is_updated = owned[l];
      added->is_remote = remote;
      values[l] = trm_value_plain(builder, variable);
      if (!weight) {
        *out_bytes += added->total_bytes;
        owned[l] = table->arguments < 0; /* sent again for the next run */
      }
    }
    v->parameters[p] = values;
    v->owned[p] = owned;
  }
  return TRM_OK;
}

/* One copy with the host for all inputs, or all outputs. */
static trm_status add_stream(trm_program_builder *builder, const char *name, trm_phase_kind kind,
                             int64_t bytes, trm_error *error) {
  if (bytes <= 0 || builder->finding) return TRM_OK;
  const trm_target *target = builder->target;
  const bool in = kind == TRM_PHASE_HOST_READ;
  const int64_t share = trm_ceil_divide(bytes, target->tiles_per_ipu);
  const trm_phase phase = {
      .kind = kind,
      .name = name,
      .cycles = (int64_t)(target->host_latency_seconds * target->clock_frequency +
                          (double)bytes / target->host_bytes_per_second * target->clock_frequency),
      .sync_cycles = target->global_sync_cycles,
      .cycles_mean = (double)bytes / target->host_bytes_per_second * target->clock_frequency,
      .active_tiles = target->tiles_per_ipu,
      .messages_worst = 1,
      .bytes_in_worst = in ? share : 0,
      .bytes_in_total = in ? bytes : 0,
      .bytes_out_worst = in ? 0 : share,
      .bytes_out_total = in ? 0 : bytes};
  trm_tile_cost cost = {.arena = &builder->program->arena};
  uint32_t first, last, writes;
  trm_status status = trm_tile_cost_add(&cost, &phase, error);
  if (status == TRM_OK) {
    status = trm_program_add_cost(builder, &cost, TRM_NO_INDEX, 0, &first, &last, &writes, error);
  }
  trm_tile_cost_free(&cost);
  return status;
}

static bool is_of_tensorflow(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      if (computation->instructions[i].metadata.op_type != NULL) return true;
    }
  }
  return false;
}

/* Whether the steps that the original adds to programs of TensorFlow are counted. */
static bool has_framework_steps(const trm_program_builder *builder) {
  switch (builder->program->options.framework_steps) {
    case TRM_FRAMEWORK_STEPS_ON: return true;
    case TRM_FRAMEWORK_STEPS_OFF: return false;
    default: return is_of_tensorflow(builder->module);
  }
}

static trm_status add_phases(trm_program_builder *builder, const trm_phase *phases, size_t count,
                             uint32_t ipu, trm_error *error) {
  trm_tile_cost cost = {.arena = &builder->program->arena};
  trm_status status = TRM_OK;
  uint32_t first, last, writes;
  for (size_t p = 0; p < count && status == TRM_OK; ++p) {
    status = trm_tile_cost_add(&cost, &phases[p], error);
  }
  if (status == TRM_OK) {
    status = trm_program_add_cost(builder, &cost, TRM_NO_INDEX, ipu, &first, &last, &writes, error);
  }
  trm_tile_cost_free(&cost);
  return status;
}

/* Sends the seed, 8 bytes, to every tile, which sets its generator. */
static trm_status add_seeds(trm_program_builder *builder, trm_error *error) {
  static const char name[] = "__seed/set/setMasterSeed";
  const trm_target *target = builder->target;
  const uint32_t tiles = target->tiles_per_ipu;
  const bool several = builder->program->num_ipus > 1;
  if (several) { /* one IPU hears from the host which program to run, and tells the others */
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
    TRY(add_phases(builder, &broadcast, 1, 0, error));
    TRY(trm_program_add_copies(builder, "switchControlBroadcast2/OnTileCopy", TRM_NO_INDEX, 0, 4,
                               4 * (int64_t)tiles, error));
  }
  for (uint32_t ipu = 0; ipu < builder->program->num_ipus; ++ipu) {
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
    TRY(add_phases(builder, phases, 2, ipu, error));
  }
  return TRM_OK;
}

static trm_status add_outputs(trm_program_builder *builder, const entry_values *v,
                              const trm_value *root, trm_error *error) {
  const trm_module *module = builder->module;
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *shape = &entry->instructions[entry->root].shape;
  const int32_t leaves = trm_shape_num_leaves(shape);
  int64_t bytes = 0, worst = 0, total = 0;
  for (int32_t l = 0; l < leaves; ++l) {
    const trm_shape *leaf = trm_shape_leaf(shape, l);
    const int64_t size = trm_shape_count(leaf) * (int64_t)trm_tile_dtype_bytes(leaf->dtype);
    if (!v->output_is_update[l]) {
      bytes += size;
    } else if (root[l].variable != TRM_NO_INDEX &&
               (!builder->variables.items[root[l].variable].is_input || root[l].is_view)) {
      /* A new value of a weight, not computed in place: copied over it. */
      worst += trm_mapping_worst_bytes(trm_value_mapping(builder, &root[l]));
      total += size;
    }
    if (root[l].variable != TRM_NO_INDEX) {
      builder->variables.items[root[l].variable].is_output = true;
    }
  }
  if (!builder->finding) {
    TRY(trm_program_add_copies(builder, "Copy_UpdateVariables", TRM_NO_INDEX, 0, worst, total,
                               error));
  }
  if ((builder->program->options.synthetic & TRM_SYNTHETIC_PARAMETERS) != 0) bytes = 0;
  TRY(add_stream(builder, "Outputs", TRM_PHASE_HOST_WRITE, bytes, error));
  for (int32_t l = 0; l < leaves; ++l) TRY(trm_program_touch(builder, &root[l], error));
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

static trm_status walk_entry(trm_program_builder *builder, trm_error *error) {
  entry_values v;
  int64_t bytes;
  uint32_t top = TRM_NO_INDEX;
  builder->parent = TRM_NO_INDEX;
  if (!builder->finding) {
    TRY(trm_program_open(builder, TRM_STEP_TYPE_SEQUENCE, builder->module->name, TRM_NO_INDEX, -1,
                         &top, error));
  }
  /* {"inputs": [names], "arguments": number}, when it lists all of them. */
  const char *text = builder->module->frontend_side_table;
  json_t *side = text == NULL ? NULL : json_loads(text, 0, NULL);
  input_table table = {json_object_get(side, "inputs"), -1};
  const size_t leaves = num_input_leaves(builder->module);
  if (json_array_size(table.names) != leaves) table.names = NULL;
  const json_t *arguments = json_object_get(side, "arguments");
  if (json_is_integer(arguments) && json_integer_value(arguments) <= (json_int_t)leaves) {
    table.arguments = json_integer_value(arguments);
  }
  const trm_status status = add_inputs(builder, &v, &table, &bytes, error);
  json_decref(side);
  TRY(status);
  if ((builder->program->options.synthetic & TRM_SYNTHETIC_PARAMETERS) != 0) bytes = 0;
  TRY(add_stream(builder, "Inputs", TRM_PHASE_HOST_READ, bytes, error));
  if (!builder->finding && has_framework_steps(builder)) {
    TRY(trm_program_add_note(builder,
                             "the steps that the original adds to programs of TensorFlow are "
                             "counted: host-exchange-local-copy and __seed/set (framework_steps)"));
    const uint32_t inputs = builder->module->computations[builder->module->entry].num_parameters;
    const bool made_up = (builder->program->options.synthetic & TRM_SYNTHETIC_PARAMETERS) != 0;
    const int64_t moved = inputs > 0 && !made_up ? trm_most(bytes, 4) : 0;
    TRY(trm_program_add_copies(builder, "host-exchange-local-copy-0/OnTileCopy-0", TRM_NO_INDEX, 0,
                               trm_ceil_divide(moved, builder->target->tiles_per_ipu), moved,
                               error));
    TRY(add_seeds(builder, error));
  }
  const trm_value *root;
  TRY(trm_program_walk(builder, builder->module->entry, v.parameters, v.owned, &root, error));
  TRY(add_outputs(builder, &v, root, error));
  if (!builder->finding) trm_program_close(builder, top);
  return TRM_OK;
}

/* Clears the results of one walk. The wishes and the orders stay for the next walk. */
static void clear_walk(trm_program_builder *builder) {
  builder->steps.count = builder->compute_sets.count = builder->variables.count = 0;
  builder->sources.count = builder->places.count = builder->more.count = 0;
  builder->last_use.count = builder->follows.count = builder->copies_of.count = 0;
  builder->signatures.count = builder->stage_uses.count = 0;
  builder->stage = -1;
  builder->pipeline_nesting = 0;
  builder->stage_options = NULL;
  builder->program->pipeline = builder->finding ? (trm_pipeline){0} : builder->program->pipeline;
  trm_arena_free(&builder->scratch);
  memset(builder->next_tile, 0, builder->program->num_ipus * sizeof *builder->next_tile);
  memset(builder->io_bytes, 0, builder->program->num_ipus * sizeof *builder->io_bytes);
}

static trm_status prepare(trm_program_builder *builder, trm_error *error) {
  trm_program *program = builder->program;
  const trm_module *module = builder->module;
  trm_arena *arena = &program->arena;
  trm_program_choose_selection(program, module, count_shards(module));
  program->tiles_per_ipu = program->target->tiles_per_ipu;
  builder->wishes = ARENA_NEW(arena, trm_placement **, module->num_computations);
  builder->orders = ARENA_NEW(arena, uint32_t *, module->num_computations);
  builder->next_tile = ARENA_NEW(arena, uint32_t, program->num_ipus);
  builder->io_bytes = ARENA_NEW(arena, int64_t, program->num_ipus);
  if (builder->wishes == NULL || builder->orders == NULL || builder->next_tile == NULL ||
      builder->io_bytes == NULL) {
    FAIL_NO_MEMORY("a program");
  }
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    builder->wishes[c] =
        ARENA_NEW(arena, trm_placement *, (size_t)module->computations[c].num_instructions + 1);
    CHECK_MEMORY(builder->wishes[c], "a program");
  }
  return TRM_OK;
}

/* Hands the vectors over to the program. */
static trm_status finish(trm_program_builder *builder, trm_error *error) {
  trm_program *program = builder->program;
#define HAND_OVER(member, number)                                                          \
  program->number = (uint32_t)builder->member.count;                                       \
  program->member = trm_arena_copy(&program->arena, builder->member.items,                 \
                                   builder->member.count * sizeof *builder->member.items); \
  CHECK_MEMORY(program->member, "a program")
  HAND_OVER(steps, num_steps);
  HAND_OVER(compute_sets, num_compute_sets);
  HAND_OVER(variables, num_variables);
  HAND_OVER(sources, num_sources);
  HAND_OVER(notes, num_notes);
#undef HAND_OVER
  return TRM_OK;
}

static trm_status note_recomputation(trm_program_builder *builder, trm_error *error) {
  (void)error;
  const trm_program *program = builder->program;
  if (program->recomputed_values == 0) {
    return trm_program_add_note(builder, "allow_recompute finds nothing to compute again: no cheap "
                                         "result is kept for long");
  }
  return trm_program_add_note(builder,
                              "allow_recompute: %" PRIu32 " results of %.1f MB in all are "
                              "computed again instead of kept",
                              program->recomputed_values, (double)program->recomputed_bytes / 1e6);
}

trm_status trm_program_build(trm_program_builder *builder, trm_error *error) {
  TRY(prepare(builder, error));
  trm_status status = TRM_OK;
  builder->stage = -1;
  builder->finding = true;
  TRY_OR_GOTO(walk_entry(builder, error), done);
  clear_walk(builder);
  builder->finding = false;
  TRY_OR_GOTO(walk_entry(builder, error), done);
  if (builder->program->options.recompute && !builder->program->pipeline.present) {
    TRY_OR_GOTO(note_recomputation(builder, error), done);
  }
  TRY_OR_GOTO(trm_program_add_always_live(builder, error), done);
  TRY_OR_GOTO(finish(builder, error), done);
done:
  for (size_t l = 0; l < builder->loops.count; ++l) { /* after a failure */
    VECTOR_FREE(&builder->loops.items[l]->touched);
  }
  clear_walk(builder);
  VECTOR_FREE(&builder->steps);
  VECTOR_FREE(&builder->compute_sets);
  VECTOR_FREE(&builder->variables);
  VECTOR_FREE(&builder->sources);
  VECTOR_FREE(&builder->places);
  VECTOR_FREE(&builder->more);
  VECTOR_FREE(&builder->notes);
  VECTOR_FREE(&builder->last_use);
  VECTOR_FREE(&builder->follows);
  VECTOR_FREE(&builder->copies_of);
  VECTOR_FREE(&builder->signatures);
  VECTOR_FREE(&builder->stage_uses);
  VECTOR_FREE(&builder->loops);
  VECTOR_FREE(&builder->words);
  trm_free(builder->outline_table);
  builder->outline_table = NULL;
  return status;
}

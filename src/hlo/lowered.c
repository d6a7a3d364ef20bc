/* Owns: reading a module that was lowered from another framework's graph, with notes on that graph
 * (trm_module_read_lowered): what its operations are called, which parameters are state. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/names.h"

static trm_status copy_text(trm_module *module, const char *text, const char **out_text,
                            trm_error *error) {
  *out_text = trm_arena_string(&module->arena, text, strlen(text));
  CHECK_MEMORY(*out_text, "a note");
  return TRM_OK;
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

/* The note on the node that an instruction comes from: op_name is a path, whose last part that is
 * the id of a node counts. *out_node is NULL if there is none. */
static trm_status find_node(trm_module *module, const json_t *nodes, const char *op_name,
                            const json_t **out_node, trm_error *error) {
  *out_node = NULL;
  if (op_name == NULL) return TRM_OK;
  char *path = trm_arena_string(&module->arena, op_name, strlen(op_name));
  CHECK_MEMORY(path, "a name");
  for (char *slash = path; slash != NULL && *out_node == NULL;) {
    slash = strrchr(path, '/');
    *out_node = json_object_get(nodes, slash != NULL ? slash + 1 : path);
    if (slash != NULL) *slash = '\0';
  }
  return TRM_OK;
}

static int compare_pairs(const void *a, const void *b) {
  const char *const *left = a, *const *right = b;
  return strcmp(left[0], right[0]);
}

/* Sets frontend attributes: those of the node, and those that it leaves as they are. */
static trm_status set_attributes(trm_module *module, trm_instruction *instruction,
                                 const json_t *attributes, trm_error *error) {
  size_t before = 0, count = 0;
  const char *const *pairs = instruction->frontend_attributes;
  while (pairs != NULL && pairs[before] != NULL) before += 2;
  const size_t added = json_object_size(attributes);
  if (added == 0) return TRM_OK;
  const char **list = ARENA_NEW(&module->arena, const char *, before + 2 * added + 1);
  CHECK_MEMORY(list, "frontend attributes");
  for (size_t i = 0; i < before; i += 2) {
    if (json_object_get(attributes, pairs[i]) != NULL) continue;
    list[count++] = pairs[i];
    list[count++] = pairs[i + 1];
  }
  const char *key;
  const json_t *value;
  json_object_foreach((json_t *)attributes, key, value) {
    if (!json_is_string(value)) FAIL(INVALID_ARGUMENT, "the attribute '%s' is no text", key);
    TRY(copy_text(module, key, &list[count++], error));
    TRY(copy_text(module, json_string_value(value), &list[count++], error));
  }
  qsort(list, count / 2, 2 * sizeof *list, compare_pairs);
  instruction->frontend_attributes = list;
  return TRM_OK;
}

static trm_status annotate(trm_module *module, trm_instruction *instruction, const json_t *node,
                           trm_error *error) {
  const char *name = json_string_value(json_object_get(node, "name"));
  const char *file = json_string_value(json_object_get(node, "file"));
  const char *type = json_string_value(json_object_get(node, "type")); /* where it was rewritten */
  const json_t *shard = json_object_get(node, "shard");
  if (name == NULL) FAIL(INVALID_ARGUMENT, "a node has no name");
  instruction->metadata.source_file = NULL;
  TRY(copy_text(module, name, &instruction->metadata.op_name, error));
  if (file != NULL) TRY(copy_text(module, file, &instruction->metadata.source_file, error));
  if (type != NULL) TRY(copy_text(module, type, &instruction->metadata.op_type, error));
  instruction->metadata.source_line = (int32_t)json_integer_value(json_object_get(node, "line"));
  if (shard != NULL) {
    if (json_array_size(shard) != 1) {
      FAIL(INVALID_ARGUMENT, "%s is on %zu devices; an operation can be on one", name,
           json_array_size(shard));
    }
    instruction->sharding =
        trm_arena_format(&module->arena, "{maximal device=%" JSON_INTEGER_FORMAT "}",
                         json_integer_value(json_array_get(shard, 0)));
    CHECK_MEMORY(instruction->sharding, "a sharding");
  }
  return set_attributes(module, instruction, json_object_get(node, "attributes"), error);
}

/* The message calls the operation "dense (MatMul, defined at model.py:3)". */
static trm_status refuse_dynamic(trm_module *module, const trm_instruction *instruction,
                                 bool is_known, trm_error *error) {
  const trm_metadata *metadata = &instruction->metadata;
  const char *type = metadata->op_type != NULL ? metadata->op_type : "unknown";
  const char *where = "";
  if (is_known && metadata->source_file != NULL) {
    where = trm_arena_format(&module->arena, ", defined at %s:%" PRId32, metadata->source_file,
                             metadata->source_line);
    CHECK_MEMORY(where, "a message");
  }
  FAIL(INVALID_ARGUMENT,
       "%s (%s%s): the shape of its result depends on values. An IPU program is static: all its "
       "shapes must be known when it is compiled. Use what keeps the shape instead, such as "
       "tf.where(condition, x, 0) for tf.boolean_mask, or do this outside the compiled part.",
       is_known ? metadata->op_name : "An operation", type, where);
}

static bool has_stem(const char *name, const char *stem) {
  const size_t length = strlen(stem);
  return strncmp(name, stem, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

/* Whether an instruction is named after the last part of op_name, as TensorFlow after 2.15 does. */
static bool is_named_by_path(const trm_instruction *instruction) {
  const char *path = instruction->metadata.op_name;
  if (path == NULL || has_stem(instruction->name, trm_opcode_name(instruction->opcode))) {
    return false;
  }
  const char *slash = strrchr(path, '/');
  return has_stem(instruction->name, slash != NULL ? slash + 1 : path);
}

/* Adds the names that stay (renames false), or makes the others. */
static trm_status add_names(trm_module *module, bool renames, trm_names *names, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      trm_instruction *instruction = &computation->instructions[i];
      if (is_named_by_path(instruction) != renames) continue;
      bool added;
      int64_t number = i;
      if (renames) instruction->name = trm_opcode_name(instruction->opcode);
      TRY(trm_names_add(names, instruction->name, &added, error));
      if (!renames) continue;
      TRY(trm_names_make_unique(names, &module->arena, &number, &instruction->name, error));
    }
  }
  return TRM_OK;
}

static bool has_names_by_path(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      if (is_named_by_path(&computation->instructions[i])) return true;
    }
  }
  return false;
}

/* Each instruction gets the name that it has from TensorFlow 2.15, that of its opcode with a
 * number: it is a part of the names in reports. */
static trm_status name_by_opcodes(trm_module *module, trm_error *error) {
  if (!has_names_by_path(module)) return TRM_OK;
  trm_names names = {0};
  trm_status status = add_names(module, false, &names, error);
  if (status == TRM_OK) status = add_names(module, true, &names, error);
  trm_names_free(&names);
  return status;
}

static trm_status annotate_all(trm_module *module, const json_t *nodes, trm_error *error) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      trm_instruction *instruction = &computation->instructions[i];
      const json_t *node;
      TRY(find_node(module, nodes, instruction->metadata.op_name, &node, error));
      if (node != NULL) TRY(annotate(module, instruction, node, error));
      if (instruction->shape.dynamic != 0) {
        return refuse_dynamic(module, instruction, node != NULL, error);
      }
    }
  }
  return TRM_OK;
}

/* ---- State ---------------------------------------------------------------------------------- */

static int64_t largest_id(const trm_module *module) {
  int64_t largest = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      if (computation->instructions[i].id > largest) largest = computation->instructions[i].id;
    }
  }
  return largest;
}

/* Makes a parameter a broadcast of zero, which gets the id. */
static trm_status make_zeros(trm_module *module, trm_index index, int64_t id, trm_error *error) {
  trm_computation *entry = &module->computations[module->entry];
  trm_instruction zero = {.opcode = TRM_OP_CONSTANT, .id = id};
  trm_index operand;
  trm_literal *literal = ARENA_NEW(&module->arena, trm_literal, 1);
  const void **leaves = ARENA_NEW(&module->arena, const void *, 1);
  void *bytes = trm_arena_allocate(&module->arena, 16, 1); /* of the largest type */
  if (literal == NULL || leaves == NULL || bytes == NULL) FAIL_NO_MEMORY("a zero");
  const trm_dtype dtype = entry->instructions[index].shape.dtype;
  if (!trm_shape_make(&module->arena, dtype, 0, NULL, &zero.shape)) FAIL_NO_MEMORY("a zero");
  leaves[0] = bytes;
  *literal = (trm_literal){.shape = zero.shape, .num_leaves = 1, .leaves = leaves};
  zero.literal = literal;
  zero.name = trm_arena_format(&module->arena, "zero.%" PRId64, id);
  CHECK_MEMORY(zero.name, "a zero");
  TRY(trm_computation_add(module, module->entry, &zero, &operand, error));
  trm_instruction *parameter = &module->computations[module->entry].instructions[index];
  parameter->opcode = TRM_OP_BROADCAST;
  parameter->number = 0;
  parameter->operands = trm_arena_copy(&module->arena, &operand, sizeof operand);
  CHECK_MEMORY(parameter->operands, "a zero");
  parameter->num_operands = 1;
  return TRM_OK;
}

/* Drops the aliases of the parameters from `first` on; marks the results that they name, and counts
 * down the numbers of those behind them. */
static trm_status drop_aliases(trm_module *module, uint32_t first, bool *dropped, uint32_t results,
                               trm_error *error) {
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    const trm_alias *alias = &module->aliases[a];
    if (alias->output_index.count < 1 || alias->output_index.items[0] >= results) {
      FAIL(INVALID_ARGUMENT, "a new value of the state is no part of the result");
    }
    if (alias->parameter_number >= first) dropped[alias->output_index.items[0]] = true;
  }
  uint32_t kept = 0;
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    trm_alias alias = module->aliases[a];
    if (alias.parameter_number >= first) continue;
    const int64_t before = alias.output_index.items[0];
    for (int64_t i = 0; i < before; ++i) alias.output_index.items[0] -= dropped[i];
    module->aliases[kept++] = alias;
  }
  module->num_aliases = kept;
  return TRM_OK;
}

/* Takes the results that are marked out of the root, a tuple. */
static trm_status drop_results(trm_module *module, const bool *dropped, trm_error *error) {
  trm_computation *entry = &module->computations[module->entry];
  trm_instruction *root = &entry->instructions[entry->root];
  trm_shape *shapes = ARENA_NEW(&module->arena, trm_shape, root->num_operands);
  trm_index *operands = ARENA_NEW(&module->arena, trm_index, root->num_operands);
  if (shapes == NULL || operands == NULL) FAIL_NO_MEMORY("the results");
  uint32_t kept = 0;
  for (uint32_t i = 0; i < root->num_operands; ++i) {
    if (dropped[i]) continue;
    shapes[kept] = root->shape.elements[i];
    operands[kept++] = root->operands[i];
  }
  root->operands = operands;
  root->num_operands = kept;
  root->shape = trm_shape_of_tuple((int32_t)kept, shapes);
  return TRM_OK;
}

/* How many of the `zeros` last instructions come before an instruction at least: itself, or the
 * last that it depends on. */
static void rank_by_zeros(const trm_computation *entry, uint32_t zeros, uint32_t *rank) {
  const uint32_t others = entry->num_instructions - zeros;
  for (uint32_t z = 0; z < zeros; ++z) rank[others + z] = z + 1;
  for (trm_index i = 0; i < others; ++i) {
    const trm_instruction *instruction = &entry->instructions[i];
    rank[i] = 0;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const uint32_t operand = rank[instruction->operands[k]];
      if (operand > rank[i]) rank[i] = operand;
    }
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k) {
      const uint32_t predecessor = rank[instruction->control_predecessors[k]];
      if (predecessor > rank[i]) rank[i] = predecessor;
    }
  }
}

/* Moves the `zeros` last instructions, which have the largest ids, forward to their users. The
 * order is the one that a reader makes of the ids: of the instructions that could come next, that
 * with the least id. So the ids can be kept, on which random numbers depend. */
static trm_status move_zeros(trm_module *module, trm_computation *entry, uint32_t zeros,
                             trm_error *error) {
  const uint32_t total = entry->num_instructions, others = total - zeros;
  trm_instruction *moved = ARENA_NEW(&module->arena, trm_instruction, total);
  uint32_t *rank = trm_allocate_zeroed(total, sizeof *rank);
  uint32_t *next = trm_allocate_zeroed((size_t)zeros + 2, sizeof *next); /* places, by rank */
  trm_index *place = trm_allocate_zeroed(total, sizeof *place);
  trm_status status = TRM_OK;
  if (moved == NULL || rank == NULL || next == NULL || place == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while moving zeros");
  }
  rank_by_zeros(entry, zeros, rank);
  for (trm_index i = 0; i < total; ++i) ++next[rank[i] + 1];
  for (uint32_t r = 1; r <= zeros; ++r) next[r] += next[r - 1];
  for (trm_index i = others; i < total; ++i) place[i] = next[rank[i]]++;
  for (trm_index i = 0; i < others; ++i) place[i] = next[rank[i]]++;
  for (trm_index i = 0; i < total; ++i) moved[place[i]] = entry->instructions[i];
  entry->instructions = moved;
  entry->capacity = total;
  trm_computation_renumber(entry, place);
done:
  trm_free(rank);
  trm_free(next);
  trm_free(place);
  return status;
}

/* Makes the entry's parameters from number `first` on zeros, and drops their new values. */
static trm_status drop_state(trm_module *module, uint32_t first, trm_error *error) {
  trm_computation *entry = &module->computations[module->entry];
  if (first >= entry->num_parameters) return TRM_OK;
  const trm_instruction *root = &entry->instructions[entry->root];
  if (root->opcode != TRM_OP_TUPLE) {
    FAIL(INVALID_ARGUMENT, "the result of a module with state is no tuple");
  }
  bool *dropped = ARENA_NEW(&module->arena, bool, root->num_operands);
  CHECK_MEMORY(dropped, "the results");
  TRY(drop_aliases(module, first, dropped, root->num_operands, error));
  TRY(drop_results(module, dropped, error));
  const uint32_t zeros = entry->num_parameters - first, before = entry->num_instructions;
  int64_t id = largest_id(module);
  entry->num_parameters = first;
  for (trm_index i = 0; i < before; ++i) {
    const trm_instruction *one = &entry->instructions[i];
    if (one->opcode != TRM_OP_PARAMETER || one->number < first) continue;
    TRY(make_zeros(module, i, ++id, error));
  }
  return move_zeros(module, entry, zeros, error);
}

/* ---- The module ----------------------------------------------------------------------------- */

/* Names the module and its entry; other computations keep their names. */
static trm_status rename_module(trm_module *module, const char *name, trm_error *error) {
  trm_names names = {0};
  int64_t suffix = 1;
  bool added;
  trm_status status = TRM_OK;
  const char *entry;
  TRY(copy_text(module, name, &module->name, error));
  entry = module->name;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    if (c == module->entry) continue;
    TRY_OR_GOTO(trm_names_add(&names, module->computations[c].name, &added, error), done);
  }
  TRY_OR_GOTO(trm_names_make_unique(&names, &module->arena, &suffix, &entry, error), done);
  module->computations[module->entry].name = entry;
done:
  trm_names_free(&names);
  return status;
}

/* Adds pairs [output, parameter] to the aliases. A module with one result has no tuple. */
static trm_status add_aliases(trm_module *module, const json_t *pairs, trm_error *error) {
  const size_t before = module->num_aliases, count = json_array_size(pairs);
  const trm_computation *entry = &module->computations[module->entry];
  if (count == 0) return TRM_OK;
  trm_alias *aliases = ARENA_NEW(&module->arena, trm_alias, before + count);
  CHECK_MEMORY(aliases, "aliases");
  if (before > 0) memcpy(aliases, module->aliases, before * sizeof *aliases);
  for (size_t i = 0; i < count; ++i) {
    const json_t *pair = json_array_get(pairs, i);
    trm_alias *alias = &aliases[before + i];
    alias->parameter_number = json_integer_value(json_array_get(pair, 1));
    if (entry->instructions[entry->root].shape.dtype != TRM_TUPLE) continue;
    alias->output_index.count = 1;
    alias->output_index.items = ARENA_NEW(&module->arena, int64_t, 1);
    CHECK_MEMORY(alias->output_index.items, "aliases");
    alias->output_index.items[0] = json_integer_value(json_array_get(pair, 0));
  }
  module->aliases = aliases;
  module->num_aliases = (uint32_t)(before + count);
  return TRM_OK;
}

static trm_status apply(trm_module *module, const json_t *notes, trm_error *error) {
  const char *name = json_string_value(json_object_get(notes, "name"));
  const char *side_table = json_string_value(json_object_get(notes, "side_table"));
  const json_t *first_state = json_object_get(notes, "first_state");
  TRY(name_by_opcodes(module, error));
  TRY(annotate_all(module, json_object_get(notes, "nodes"), error));
  if (name != NULL) TRY(rename_module(module, name, error));
  if (side_table != NULL) {
    TRY(copy_text(module, side_table, &module->frontend_side_table, error));
  }
  if (json_is_integer(first_state)) {
    TRY(drop_state(module, (uint32_t)json_integer_value(first_state), error));
  }
  return add_aliases(module, json_object_get(notes, "aliases"), error);
}

trm_status trm_module_read_lowered(const void *data, size_t size, const char *notes,
                                   trm_module **out_module, trm_error *error) {
  json_error_t problem;
  json_t *read = json_loads(notes, 0, &problem);
  if (!json_is_object(read)) {
    json_decref(read);
    FAIL(INVALID_ARGUMENT, "the notes on a lowered module are no object of JSON: %s", problem.text);
  }
  trm_module *module = NULL;
  trm_status status = trm_hlo_parse_proto(data, size, &module, error);
  if (status == TRM_OK) status = apply(module, read, error);
  if (status == TRM_OK) status = trm_module_verify(module, error);
  json_decref(read);
  if (status != TRM_OK) {
    trm_module_free(module);
    return status;
  }
  *out_module = module;
  return TRM_OK;
}

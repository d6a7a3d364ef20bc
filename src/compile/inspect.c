/* Owns: functions of libtremula for its own tools (tremula/inspect.h). */
#define _GNU_SOURCE
#include "tremula/inspect.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/nearest.h"
#include "compile/executable.h"
#include "hlo/config.h"
#include "hlo/proto.h"
#include "host/ops/kernel.h"
#include "ipu/program/program.h"

trm_status trm_inspect_compile(const trm_module *module, const trm_option *options,
                               size_t num_options, trm_inspect_observer observer, void *context,
                               trm_executable **out_executable, trm_error *error) {
  return trm_compile_observed(module, options, num_options, observer, context, out_executable,
                              error);
}

trm_status trm_inspect_compile_for_plan(const trm_module *module, const trm_option *options,
                                        size_t num_options, trm_executable **out_executable,
                                        trm_error *error) {
  return trm_compile_for_plan(module, options, num_options, out_executable, error);
}

const char *trm_inspect_nearest(const char *word, const char *const *names, size_t count) {
  return trm_nearest_name(word, names, count);
}

bool trm_inspect_pass(size_t i, trm_inspect_pass_row *out_row) {
  for (trm_pass_table table = TRM_PASSES_SHARED; table <= TRM_PASSES_IPU; ++table) {
    size_t count = 0;
    for (const char *name; (name = trm_pass_name(table, count)) != NULL; ++count) {
      if (count == i) *out_row = (trm_inspect_pass_row){name, table == TRM_PASSES_IPU};
    }
    if (i < count) return true;
    i -= count;
  }
  return false;
}

trm_status trm_inspect_planning(const trm_executable *executable, trm_inspect_observer observer,
                                void *context, trm_error *error) {
  return trm_program_observe_passes(executable->shared, &executable->options.estimate, observer,
                                    context, error);
}

bool trm_inspect_option(size_t i, trm_inspect_option_row *out_row) {
  bool plans;
  const trm_option_row *row = trm_options_row(i, &plans);
  if (row != NULL) *out_row = (trm_inspect_option_row){row->key, row->value, row->help, plans};
  return row != NULL;
}

bool trm_inspect_opcode(size_t i, trm_inspect_opcode_row *out_row) {
  static const char *const classes[] = {
#define OPCODE(id, name, arity, class, ...) #class,
#include "hlo/opcodes.def"
#undef OPCODE
  };
  if (i >= TRM_NUM_OPCODES) return false;
  const trm_opcode opcode = (trm_opcode)i;
  *out_row = (trm_inspect_opcode_row){trm_opcode_name(opcode), classes[i], trm_opcode_arity(opcode),
                                      trm_kernel_exists(opcode)};
  return true;
}

uint64_t trm_inspect_count(const trm_module *module, const char *const *opcodes,
                           size_t num_opcodes) {
  bool counts[TRM_NUM_OPCODES] = {false};
  trm_opcode opcode;
  for (size_t o = 0; o < num_opcodes; ++o) {
    if (trm_opcode_find(opcodes[o], strlen(opcodes[o]), &opcode)) counts[opcode] = true;
  }
  uint64_t count = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      count += counts[computation->instructions[i].opcode];
    }
  }
  return count;
}

bool trm_inspect_is_hashable(const void *data, size_t size) {
  const char *target = trm_call_target(TRM_CALL_USER_OP);
  if (memmem(data, size, target, strlen(target)) == NULL)
    return true; /* not in most modules, which need not be read then */
  trm_module *module;
  trm_error ignored;
  if (trm_module_read(data, size, "a module", &module, &ignored) != TRM_OK) return true;
  bool is_hashable = true;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      is_hashable = is_hashable && !(instruction->call_id == TRM_CALL_USER_OP &&
                                     trm_config_is(instruction, "is_hashable", JSON_FALSE));
    }
  }
  trm_module_free(module);
  return is_hashable;
}

bool trm_inspect_tells_replicas_apart(const void *data, size_t size) {
  trm_module *module;
  trm_error ignored;
  if (trm_module_read(data, size, "a module", &module, &ignored) != TRM_OK) return false;
  const bool tells = trm_module_tells_replicas_apart(module);
  trm_module_free(module);
  return tells;
}

static void hash_text(XXH3_state_t *state, const char *text) {
  XXH3_128bits_update(state, text, strlen(text) + 1);
}

/* A side table is hashed without the names of inputs, and as it is where it is no JSON. */
static void hash_side_table(XXH3_state_t *state, const char *text) {
  json_t *table = json_loads(text, 0, NULL);
  if (table != NULL) json_object_del(table, "inputs");
  char *rest = table == NULL ? NULL : json_dumps(table, JSON_COMPACT | JSON_SORT_KEYS);
  hash_text(state, rest == NULL ? text : rest);
  free(rest);
  json_decref(table);
}

void trm_inspect_hash(const void *data, size_t size, uint64_t out_hash[2]) {
  const uint8_t *bytes = data;
  size_t start = 0, end = 0, length = 0;
  out_hash[0] = out_hash[1] = 0;
  XXH3_state_t *state = XXH3_createState();
  if (state == NULL) return;
  XXH3_128bits_reset(state);
  Tremula__Hlo__FrontendAttributes *found = NULL;
  if (trm_proto_find_attributes(bytes, size, &start, &end, &length))
    found = tremula__hlo__frontend_attributes__unpack(NULL, length, bytes + end - length);
  if (found == NULL) {
    XXH3_128bits_update(state, bytes, size);
  } else {
    XXH3_128bits_update(state, bytes, start);
    XXH3_128bits_update(state, bytes + end, size - end);
    for (size_t i = 0; i < found->n_map; ++i) {
      const Tremula__Hlo__FrontendAttributes__MapEntry *pair = found->map[i];
      const bool is_table = strcmp(pair->key, TRM_PROTO_SIDE_TABLE_KEY) == 0;
      hash_text(state, pair->key);
      (is_table ? hash_side_table : hash_text)(state, pair->value);
    }
    tremula__hlo__frontend_attributes__free_unpacked(found, NULL);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  out_hash[0] = hash.low64, out_hash[1] = hash.high64;
}

bool trm_inspect_input_bounds(const trm_executable *executable, int64_t *out_bounds) {
  return trm_module_bound_inputs(executable->module, out_bounds,
                                 trm_executable_num_inputs(executable));
}

trm_status trm_inspect_with_batch(const trm_module *module, size_t input, int64_t batch,
                                  trm_module **out_module, trm_error *error) {
  return trm_module_with_batch(module, input, batch, out_module, error);
}

const char *trm_inspect_side_table(const trm_executable *executable) {
  return executable->module->frontend_side_table;
}

trm_status trm_inspect_replace_file(const char *path, const void *head, size_t head_size,
                                    const void *data, size_t size, trm_error *error) {
  trm_new_file file;
  TRY(trm_new_file_open(path, &file, error));
  if ((head_size != 0 && fwrite(head, 1, head_size, file.stream) != head_size) ||
      (size != 0 && fwrite(data, 1, size, file.stream) != size)) {
    file.problem = errno;
  }
  return trm_new_file_close(&file, path, true, error);
}

const trm_module *trm_inspect_module(const trm_executable *executable) {
  return executable->module;
}

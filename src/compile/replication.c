/* Owns: the number of replicas that a program may have, and whether their results differ.
 *
 * Passes drop shardings, and executables are loaded later. So the number of shards is found before
 * the passes, and kept in the module's side table under "shards". */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "compile/executable.h"
#include "hlo/sharding.h"
#include "tremula/log.h"

/* The highest IPU in the device mapping of a pipeline (a list of numbers or of lists), or -1. A
 * stage that computes nothing has no sharding. */
static long highest_of_pipeline(const trm_instruction *instruction) {
  const char *text = trm_instruction_frontend_attribute(instruction, "pipeline");
  if (text == NULL) return -1;
  json_t *description = json_loads(text, 0, NULL);
  long highest = -1;
  size_t s;
  json_t *stage;
  json_array_foreach(json_object_get(description, "device_mapping"), s, stage) {
    size_t d = 0;
    do {
      const json_t *one = json_is_array(stage) ? json_array_get(stage, d) : stage;
      if (json_integer_value(one) > highest) highest = (long)json_integer_value(one);
    } while (++d < json_array_size(stage));
  }
  json_decref(description);
  return highest;
}

static trm_status count_shards(const trm_module *module, uint32_t *out_shards, trm_error *error) {
  long highest = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      long device = highest_of_pipeline(instruction);
      const long sharded =
          instruction->sharding != NULL ? trm_sharding_highest_device(instruction->sharding) : -1;
      if (sharded > device) device = sharded;
      if (device >= TRM_MAX_SHARDS) {
        char text[512];
        FAIL(INVALID_ARGUMENT, "%s is sharded to IPU %ld; %d is the highest",
             trm_instruction_text(module, instruction, text, sizeof text), device,
             TRM_MAX_SHARDS - 1);
      }
      if (device > highest) highest = device;
    }
  }
  uint32_t shards = 1;
  while (shards < (uint32_t)highest + 1) shards *= 2;
  *out_shards = shards;
  return TRM_OK;
}

trm_status trm_executable_note_shards(trm_module *module, trm_error *error) {
  uint32_t shards;
  TRY(count_shards(module, &shards, error));
  json_t *table =
      module->frontend_side_table == NULL ? NULL : json_loads(module->frontend_side_table, 0, NULL);
  if (shards == 1 && json_object_get(table, TRM_SHARDS_KEY) == NULL) {
    json_decref(table);
    return TRM_OK;
  }
  if (table == NULL) table = json_object();
  const bool set = json_object_set_new(table, TRM_SHARDS_KEY, json_integer(shards)) == 0;
  char *text = set ? json_dumps(table, JSON_COMPACT) : NULL;
  json_decref(table);
  const char *kept = text == NULL ? NULL : trm_arena_string(&module->arena, text, strlen(text));
  free(text);
  CHECK_MEMORY(kept, "the side table");
  module->frontend_side_table = kept;
  return TRM_OK;
}

uint32_t trm_executable_num_shards(const trm_executable *executable) {
  return trm_module_num_shards(executable->shared);
}

trm_status trm_executable_num_replicas(const trm_executable *executable, uint32_t *out_replicas,
                                       trm_error *error) {
  const uint32_t ipus = executable->options.ipus;
  const uint32_t shards = trm_executable_num_shards(executable);
  if (ipus % shards != 0) {
    FAIL(INTERNAL,
         "Trying to compile a graph for an IPU device with %u IPUs and %u shards. The number of "
         "shards needs to divide the number of IPUs.",
         ipus, shards);
  }
  *out_replicas = ipus / shards;
  return TRM_OK;
}

void trm_executable_compare_replicas(const trm_executable *executable) {
  const trm_module *module = executable->shared;
  const uint32_t ipus = executable->options.ipus, shards = trm_executable_num_shards(executable);
  const uint64_t wanted = (uint64_t)module->replica_count * shards;
  if (wanted == 0 || ipus == wanted) return;
  trm_log(TRM_LOG_WARN, "COMPILER",
          "the module %s is for %" PRIu32 " replicas (replica_count in its header) and is compiled "
          "for %" PRIu32 "; the option ipus=%" PRIu64 " gives it those replicas",
          module->name, module->replica_count, ipus / shards, wanted);
}

/* Whether the result of a custom call depends only on its operands. */
static bool is_pure(const trm_instruction *call) {
  return trm_call_replicas(call->call_id) == TRM_REPLICAS_PURE &&
         !call->custom_call->has_side_effect;
}

bool trm_module_tells_replicas_apart(const trm_module *module) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->opcode == TRM_OP_REPLICA_ID ||
          (instruction->opcode == TRM_OP_CUSTOM_CALL && !is_pure(instruction)) ||
          trm_opcode_class_of(instruction->opcode) == TRM_CLASS_COLLECTIVE ||
          (instruction->opcode != TRM_OP_CUSTOM_CALL && instruction->num_called == 0 &&
           trm_instruction_has_side_effect(module, instruction))) {
        return true;
      }
    }
  }
  return false;
}

bool trm_executable_tells_replicas_apart(const trm_executable *executable) {
  return trm_module_tells_replicas_apart(executable->module);
}

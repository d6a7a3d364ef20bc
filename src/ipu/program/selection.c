/* Owns: the IPU of a replica on which each shard lies.
 *
 * The original numbers shards and maps them to IPUs in one of three orders (SelectionOrder of its
 * IPUConfig). For the IPUs 0 to 3, in two rows of two:
 *   zigzag  0 1 2 3
 *   snake   0 1 3 2   each shard beside the one before it; in groups of four
 *   hoof    0 2 3 1   the first and the last shard beside each other as well
 * AUTO is snake if every stage of every pipeline is on the shard of its number, and zigzag
 * otherwise. */
#include <jansson.h>
#include <string.h>

#include "hlo/sharding.h"
#include "ipu/program/draft.h"

/* Whether stage 0 is on shard 0, stage 1 on shard 1 and so on. */
static bool has_default_mapping(const char *description) {
  json_t *json = json_loads(description, 0, NULL);
  const json_t *mapping = json_object_get(json, "device_mapping");
  bool is_default = json_array_size(mapping) > 0;
  for (size_t s = 0; s < json_array_size(mapping); ++s) {
    const json_t *device = json_array_get(mapping, s);
    if (!json_is_integer(device) || json_integer_value(device) != (json_int_t)s) is_default = false;
  }
  json_decref(json);
  return is_default;
}

static trm_selection_order order_of(const trm_module *module) {
  bool found = false;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      if (instruction->opcode != TRM_OP_WHILE) continue;
      const char *pipeline = trm_instruction_frontend_attribute(instruction, "pipeline");
      if (pipeline == NULL) continue;
      if (!has_default_mapping(pipeline)) return TRM_SELECTION_ZIGZAG;
      found = true;
    }
  }
  return found ? TRM_SELECTION_SNAKE : TRM_SELECTION_ZIGZAG;
}

void trm_program_choose_selection(trm_program *program, const trm_module *module,
                                  uint32_t num_shards) {
  const trm_selection_order asked = program->options.selection_order;
  program->selection_order = asked == TRM_SELECTION_AUTO ? order_of(module) : asked;
  program->num_ipus = num_shards;
  if (program->selection_order != TRM_SELECTION_ZIGZAG) { /* a replica's share of any device */
    program->num_ipus = 1;
    while (program->num_ipus < num_shards) program->num_ipus *= 2;
  }
  if (program->options.num_ipus > program->num_ipus) {
    program->num_ipus = program->options.num_ipus;
  }
}

uint32_t trm_program_ipu_of_shard(const trm_program *program, uint32_t shard) {
  const uint32_t num_ipus = program->num_ipus, half = num_ipus / 2;
  uint32_t ipu = shard;
  if (program->selection_order == TRM_SELECTION_SNAKE && shard % 4 >= 2) {
    ipu = shard - shard % 4 + 5 - shard % 4;
  } else if (program->selection_order == TRM_SELECTION_HOOF && half > 0) {
    ipu = shard < half ? shard * 2 : num_ipus - 1 - shard % half * 2;
  }
  return shard < num_ipus && ipu < num_ipus ? ipu : 0;
}

int32_t trm_program_sharded_ipu(const trm_program *program, const char *sharding) {
  const int32_t device = trm_sharding_device(sharding);
  return device < 0 ? -1 : (int32_t)trm_program_ipu_of_shard(program, (uint32_t)device);
}

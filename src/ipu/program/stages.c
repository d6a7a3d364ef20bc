/* Owns: the stages of a pipeline during the walk over its loop: to which an instruction belongs,
 * who reads a value. */
#include <stdlib.h>
#include <string.h>

#include "ipu/program/draft.h"

const trm_tile_options *trm_pipeline_options(const trm_program_draft *draft,
                                             const trm_instruction *instruction) {
  if (draft->stages.options == NULL) return &draft->tile_options;
  const char *phase = trm_instruction_fused_attribute(draft->module, instruction, "pipeline_phase");
  if (phase != NULL && strcmp(phase, "update") == 0) {
    return &draft->stages.options[draft->program->pipeline.num_entries];
  }
  return draft->stages.current >= 0 ? &draft->stages.options[draft->stages.current]
                                    : &draft->tile_options;
}

int32_t trm_pipeline_stage_of(const trm_program_draft *draft, const trm_instruction *instruction,
                              uint32_t ipu) {
  const trm_pipeline *pipeline = &draft->program->pipeline;
  if (draft->stages.nesting < 2) return -1;
  const char *text = trm_instruction_fused_attribute(draft->module, instruction, "pipeline_stage");
  const char *phase = trm_instruction_fused_attribute(draft->module, instruction, "pipeline_phase");
  uint32_t stage = 0;
  if (text != NULL) {
    const unsigned long number = strtoul(text, NULL, 10);
    stage = number < pipeline->num_stages ? (uint32_t)number : pipeline->num_stages - 1;
  } else { /* an instruction without an attribute belongs to the first stage on its IPU */
    while (stage + 1 < pipeline->num_stages && pipeline->stages[stage].ipu != ipu) ++stage;
    if (pipeline->stages[stage].ipu != ipu) stage = 0;
  }
  const bool backward = phase != NULL && strcmp(phase, "backward") == 0 && pipeline->is_training;
  return (int32_t)(backward ? 2 * pipeline->num_stages - 1 - stage : stage);
}

trm_stage_use trm_pipeline_made(const trm_program_draft *draft, uint32_t now) {
  const bool forward = draft->stages.current >= 0 &&
                       draft->stages.current < (int32_t)draft->program->pipeline.num_stages;
  return (trm_stage_use){.made_in = draft->stages.current,
                         .last_in = draft->stages.current,
                         .forward_end = now,
                         .backward_begin = TRM_NO_INDEX,
                         .segment = forward && draft->stages.checkpoints != NULL
                                        ? draft->stages.checkpoints[draft->stages.current]
                                        : 0};
}

void trm_pipeline_note_checkpoint(trm_program_draft *draft, const trm_instruction *instruction,
                                  const trm_value *leaves) {
  if (draft->stages.checkpoints == NULL || draft->stages.current < 0 ||
      draft->stages.current >= (int32_t)draft->program->pipeline.num_stages ||
      instruction->opcode != TRM_OP_OPT_BARRIER ||
      trm_instruction_frontend_attribute(instruction, "recomputation_checkpoint") == NULL) {
    return;
  }
  ++draft->stages.checkpoints[draft->stages.current];
  const int32_t count = trm_shape_num_leaves(&instruction->shape);
  for (int32_t l = 0; l < count; ++l) {
    const uint32_t v = leaves[l].variable;
    if (v < draft->values.stage_uses.count) draft->values.stage_uses.items[v].comes_in = true;
  }
}

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

enum { MOST_STAGES = 1 << 20, UPDATE_TURN = 2 * MOST_STAGES };

/* Passes share constants, and what repeats them, over all stages. */
static bool is_constant(const trm_computation *computation, const trm_instruction *instruction) {
  if (instruction->opcode == TRM_OP_BROADCAST) {
    instruction = &computation->instructions[instruction->operands[0]];
  }
  return instruction->opcode == TRM_OP_CONSTANT || instruction->opcode == TRM_OP_IOTA;
}

static uint32_t turn_of(const trm_computation *computation, const trm_instruction *instruction) {
  if (is_constant(computation, instruction)) return 0;
  const char *text = trm_instruction_frontend_attribute(instruction, "pipeline_stage");
  const char *phase = trm_instruction_frontend_attribute(instruction, "pipeline_phase");
  if (phase != NULL && strcmp(phase, "update") == 0) return UPDATE_TURN;
  if (text == NULL) return 0;
  const unsigned long number = strtoul(text, NULL, 10);
  const uint32_t stage = number < MOST_STAGES ? (uint32_t)number : MOST_STAGES - 1;
  return phase != NULL && strcmp(phase, "backward") == 0 ? UPDATE_TURN - 1 - stage : 1 + stage;
}

uint32_t trm_pipeline_own_turn(const trm_module *module, const trm_computation *computation,
                               trm_index i) {
  const trm_instruction *instruction = &computation->instructions[i];
  uint32_t turn = turn_of(computation, instruction);
  if (turn > 0 || instruction->opcode != TRM_OP_FUSION || instruction->num_called == 0) return turn;
  const trm_computation *body = &module->computations[instruction->called[0]];
  for (trm_index b = 0; b < body->num_instructions; ++b) {
    const uint32_t of_it = turn_of(body, &body->instructions[b]);
    if (of_it > turn) turn = of_it;
  }
  return turn;
}

/* The entry whose turn it is. */
static uint32_t entry_of(const trm_pipeline *pipeline, uint32_t turn) {
  const bool backward = turn > MOST_STAGES;
  const uint32_t number = backward ? UPDATE_TURN - 1 - turn : turn - 1;
  const uint32_t stage = number < pipeline->num_stages ? number : pipeline->num_stages - 1;
  return backward && pipeline->is_training ? 2 * pipeline->num_stages - 1 - stage : stage;
}

/* The first entry from `first` on that is on an IPU; the number of entries if there is none. */
static uint32_t next_on_ipu(const trm_pipeline *pipeline, uint32_t first, uint32_t ipu) {
  uint32_t e = first;
  while (e < pipeline->num_entries && pipeline->stages[e].ipu != ipu) ++e;
  return e;
}

int32_t trm_pipeline_stage_of(const trm_program_draft *draft, trm_program_scope *scope,
                              trm_index i) {
  const trm_pipeline *pipeline = &draft->program->pipeline;
  const trm_computation *computation = &draft->module->computations[scope->computation];
  const trm_instruction *instruction = &computation->instructions[i];
  if (draft->stages.nesting < 2 || is_constant(computation, instruction)) return -1;
  const uint32_t ipu = (uint32_t)scope->ipus[i],
                 own = trm_pipeline_own_turn(draft->module, computation, i);
  uint32_t turn = own;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const uint32_t operand = scope->turns[instruction->operands[k]];
    if (turn < operand && operand < UPDATE_TURN) turn = operand;
  }
  scope->turns[i] = turn;
  uint32_t entry = turn == 0 || turn == UPDATE_TURN ? 0 : entry_of(pipeline, turn);
  if (turn > own || turn == 0 || turn == UPDATE_TURN) entry = next_on_ipu(pipeline, entry, ipu);
  if (entry == pipeline->num_entries) entry = next_on_ipu(pipeline, 0, ipu);
  return entry < pipeline->num_entries ? (int32_t)entry : 0;
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

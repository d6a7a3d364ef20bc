/* Owns: computing constants at compile time. The reference kernel runs an instruction whose
 * operands are constants and whose result is small. Broadcasts and iotas stay, because they cost
 * less than their values. */
#include <string.h>

#include "passes/edit.h"
#include "passes/evaluate.h"
#include "passes/pass.h"

enum { MAX_BYTES = 64 * 1024 };

/* Bytes of all results: a long chain of constants must not fill the memory. */
static const size_t max_total_bytes = (size_t)64 << 20;

static bool is_foldable(const trm_edit *edit, const trm_instruction *instruction) {
  if (instruction->num_operands == 0 || instruction->num_operands > 16 ||
      instruction->num_called > 0 || instruction->num_control_predecessors > 0 ||
      trm_instruction_has_side_effect(edit->module, instruction) ||
      !trm_shape_is_array(&instruction->shape) ||
      trm_shape_bytes(&instruction->shape) > MAX_BYTES) {
    return false;
  }
  switch (instruction->opcode) {
    case TRM_OP_BROADCAST:
      if (!trm_shape_is_scalar(&instruction->shape)) return false;
      break;
    case TRM_OP_CONCATENATE:
    case TRM_OP_GATHER:
    case TRM_OP_PAD:
    case TRM_OP_RESHAPE:
    case TRM_OP_REVERSE:
    case TRM_OP_SLICE:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_DYNAMIC_SLICE: break;
    default:
      if (!trm_opcode_is_elementwise(instruction->opcode)) return false;
  }
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_instruction *operand =
        trm_edit_at(edit, trm_edit_resolve(edit, instruction->operands[k]));
    if (operand->opcode != TRM_OP_CONSTANT || operand->literal->num_leaves != 1) return false;
  }
  return true;
}

static trm_status run_once(const trm_edit *edit, trm_index i, trm_arena *scratch, void *result,
                           trm_error *error) {
  const trm_instruction *instruction = trm_edit_at(edit, i);
  const void *operands[16];
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    operands[k] = trm_edit_at(edit, instruction->operands[k])->literal->leaves[0];
  }
  if (instruction->opcode == TRM_OP_RESHAPE) {
    memcpy(result, operands[0], trm_shape_bytes(&instruction->shape));
    return TRM_OK;
  }
  return trm_evaluate(edit->module, trm_edit_computation(edit), instruction, scratch, operands,
                      result, error);
}

/* `state`: a size_t, the bytes folded so far in the module. */
static trm_status fold(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  size_t *total = state;
  trm_instruction *instruction = trm_edit_at(edit, i);
  if (*total > max_total_bytes || !is_foldable(edit, instruction)) return TRM_OK;
  *total += trm_shape_bytes(&instruction->shape);
  trm_arena *arena = &edit->module->arena;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    instruction->operands[k] = trm_edit_resolve(edit, instruction->operands[k]);
  }
  trm_literal *literal = ARENA_NEW(arena, trm_literal, 1);
  const void **leaves = ARENA_NEW(arena, const void *, 1);
  void *data = trm_arena_allocate(arena, 1, trm_shape_bytes(&instruction->shape));
  if (literal == NULL || leaves == NULL || data == NULL) FAIL_NO_MEMORY("a constant");
  trm_arena scratch = {0};
  const trm_status status = run_once(edit, i, &scratch, data, error);
  trm_arena_free(&scratch);
  TRY(status);
  leaves[0] = data;
  *literal = (trm_literal){.shape = instruction->shape, .num_leaves = 1, .leaves = leaves};
  const trm_instruction constant = {
      .opcode = TRM_OP_CONSTANT, .shape = instruction->shape, .literal = literal};
  trm_index folded;
  TRY(trm_edit_add(edit, i, constant, &folded, error));
  trm_edit_replace(edit, i, folded);
  return TRM_OK;
}

trm_status trm_pass_fold_constants(trm_module *module, trm_error *error) {
  size_t total = 0;
  return trm_edit_module(module, fold, &total, error);
}

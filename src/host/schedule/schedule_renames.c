/* Owns: finding instructions that need no step because of the way in which others are computed.
 *
 * JAX computes a weight's gradient as [out, in] and transposes it. The product of the swapped
 * operands is the transposed result, so the dot computes that, and the transpose only renames it.
 * TensorFlow's x[t] sets sizes that the array has already. A bitcast-convert gives bytes another
 * type. A pass could do both, but the module must stay as it is for the estimate. */
#include <string.h>

#include "host/schedule/float_check.h"
#include "host/schedule/schedule_build.h"

/* Whether the transpose exchanges the parts of the product's shape that come from the two operands.
 */
static bool swaps_operands(const trm_instruction *transpose, const trm_instruction *dot,
                           int32_t lhs_rank) {
  const int32_t batch = dot->dot->lhs_batch.count, rank = transpose->dimensions.count;
  const int32_t lhs_free = lhs_rank - batch - dot->dot->lhs_contracting.count;
  const int32_t rhs_free = rank - batch - lhs_free;
  if (lhs_free == 0 || rhs_free == 0) return false;
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t from = d < batch ? d : d < batch + rhs_free ? d + lhs_free : d - rhs_free;
    if (transpose->dimensions.items[d] != from) return false;
  }
  return true;
}

static trm_status swap_operands(trm_schedule_draft *draft, const trm_instruction *dot,
                                const trm_instruction *transpose, const trm_instruction **out,
                                trm_error *error) {
  trm_instruction *swapped = trm_arena_copy(&draft->schedule->arena, dot, sizeof *dot);
  trm_dot *numbers = ARENA_NEW(&draft->schedule->arena, trm_dot, 1);
  trm_index *operands = ARENA_NEW(&draft->schedule->arena, trm_index, 2);
  if (swapped == NULL || numbers == NULL || operands == NULL) FAIL_NO_MEMORY("a matrix product");
  *numbers = (trm_dot){.lhs_batch = dot->dot->rhs_batch,
                       .rhs_batch = dot->dot->lhs_batch,
                       .lhs_contracting = dot->dot->rhs_contracting,
                       .rhs_contracting = dot->dot->lhs_contracting};
  operands[0] = dot->operands[1], operands[1] = dot->operands[0];
  swapped->dot = numbers;
  swapped->operands = operands;
  swapped->shape = transpose->shape;
  *out = swapped;
  return TRM_OK;
}

/* Whether a set-dimension-size sets the size that the dimension has already. */
static bool sets_own_size(const trm_computation *c, const trm_instruction *instruction) {
  if (instruction->opcode != TRM_OP_SET_DIMENSION_SIZE) return false;
  const trm_instruction *size = &c->instructions[instruction->operands[1]];
  if (size->opcode != TRM_OP_CONSTANT || size->shape.dtype != TRM_S32) return false;
  int32_t value;
  memcpy(&value, size->literal->leaves[0], sizeof value);
  return value == c->instructions[instruction->operands[0]].shape.dims[instruction->number];
}

/* Whether only the type changes, and not the bytes. */
static bool keeps_bytes(const trm_computation *c, const trm_instruction *instruction) {
  if (instruction->opcode != TRM_OP_BITCAST_CONVERT) return false;
  const trm_dtype from = c->instructions[instruction->operands[0]].shape.dtype;
  const trm_dtype to = instruction->shape.dtype;
  return from != TRM_PRED && to != TRM_PRED && trm_dtype_bits(from) == trm_dtype_bits(to);
}

static bool may_rename(const trm_computation *c, const trm_instruction *instruction) {
  return instruction->opcode == TRM_OP_TRANSPOSE &&
         c->instructions[instruction->operands[0]].opcode == TRM_OP_DOT;
}

static trm_status find_transposed_dots(trm_schedule_draft *draft, trm_schedule_scope *s,
                                       const trm_computation *c, trm_error *error) {
  uint32_t *uses = trm_allocate_zeroed(c->num_instructions, sizeof *uses);
  CHECK_MEMORY(uses, "values");
  uses[c->root] = 1;
  for (trm_index i = 0; i < c->num_instructions; ++i) {
    for (uint32_t k = 0; k < c->instructions[i].num_operands; ++k)
      ++uses[c->instructions[i].operands[k]];
  }
  trm_status status = TRM_OK;
  for (trm_index i = 0; i < c->num_instructions && status == TRM_OK; ++i) {
    const trm_instruction *transpose = &c->instructions[i];
    if (!may_rename(c, transpose)) continue;
    const trm_index at = transpose->operands[0];
    const trm_instruction *dot = &c->instructions[at];
    if (uses[at] != 1 || dot->shape.dtype != transpose->shape.dtype ||
        trm_must_limit_halves(draft->module, dot) ||
        !swaps_operands(transpose, dot, c->instructions[dot->operands[0]].shape.rank)) {
      continue;
    }
    status = swap_operands(draft, dot, transpose, &s->instead[at], error);
    s->renames[i] = status == TRM_OK;
  }
  trm_free(uses);
  return status;
}

trm_status trm_schedule_find_renames(trm_schedule_draft *draft, trm_schedule_scope *s,
                                     trm_error *error) {
  const trm_computation *c = &draft->module->computations[s->computation];
  /* Checks of results read the operands of the instruction as it is written. */
  if (draft->reference_only || draft->schedule->float_events != 0) return TRM_OK;
  bool any = false;
  for (trm_index i = 0; i < c->num_instructions; ++i) {
    s->renames[i] = sets_own_size(c, &c->instructions[i]) || keeps_bytes(c, &c->instructions[i]);
    any = any || may_rename(c, &c->instructions[i]);
  }
  return any ? find_transposed_dots(draft, s, c, error) : TRM_OK;
}

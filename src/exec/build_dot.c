/* Owns: products that are only wanted transposed.
 *
 * JAX computes a weight's gradient as [out, in] and transposes it. The product of the swapped
 * operands is the transposed result, so the dot writes that and the transpose only renames it. This
 * is decided here, not by a pass: the module, which the estimate reads, stays as it is. */
#include <string.h>

#include "exec/build.h"
#include "exec/float_check.h"

/* Whether the transpose exchanges what the operands give to the product's shape. */
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

static trm_status swap_operands(trm_plan_builder *b, const trm_instruction *dot,
                                const trm_instruction *transpose, const trm_instruction **out,
                                trm_error *error) {
  trm_instruction *swapped = trm_arena_copy(&b->plan->arena, dot, sizeof *dot);
  trm_dot *numbers = ARENA_NEW(&b->plan->arena, trm_dot, 1);
  trm_index *operands = ARENA_NEW(&b->plan->arena, trm_index, 2);
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

trm_status trm_plan_find_transposed_dots(trm_plan_builder *b, trm_plan_scope *s, trm_error *error) {
  const trm_computation *c = &b->module->computations[s->computation];
  /* What checks a kernel's numbers looks at the operands of the instruction as it is written. */
  if (b->reference_only || b->plan->float_events != 0) return TRM_OK;
  bool any = false;
  for (trm_index i = 0; i < c->num_instructions && !any; ++i)
    any = c->instructions[i].opcode == TRM_OP_TRANSPOSE &&
          c->instructions[c->instructions[i].operands[0]].opcode == TRM_OP_DOT;
  if (!any) return TRM_OK;
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
    if (transpose->opcode != TRM_OP_TRANSPOSE) continue;
    const trm_index at = transpose->operands[0];
    const trm_instruction *dot = &c->instructions[at];
    if (dot->opcode != TRM_OP_DOT || uses[at] != 1 || dot->shape.dtype != transpose->shape.dtype ||
        trm_must_limit_halves(b->module, dot) ||
        !swaps_operands(transpose, dot, c->instructions[dot->operands[0]].shape.rank)) {
      continue;
    }
    status = swap_operands(b, dot, transpose, &s->instead[at], error);
    s->renames[i] = status == TRM_OK;
  }
  trm_free(uses);
  return status;
}

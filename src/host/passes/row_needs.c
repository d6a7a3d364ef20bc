/* Owns: which rows of its operands a row of a result needs (row_needs.h). */
#include "host/passes/row_needs.h"

#include <string.h>

int32_t trm_row_rank(const trm_shape *shape, int64_t rows) {
  int64_t product = 1;
  for (int32_t d = 0; trm_shape_is_array(shape) && d < shape->rank; ++d) {
    product *= shape->dims[d];
    if (product == rows) return d + 1;
    if (product > rows) return -1;
  }
  return -1;
}

/* What a broadcast needs of its operand. The rows are `rank` leading dimensions of the result; the
 * operand must have all of them, as its own rows, or none. */
static trm_need need_of_broadcast(const trm_instruction *instruction, const trm_shape *operand,
                                  int32_t rank, int64_t rows) {
  int32_t leading = 0;
  for (int32_t i = 0; i < operand->rank; ++i) leading += instruction->dimensions.items[i] < rank;
  if (leading == 0) return TRM_NEED_WHOLE;
  for (int32_t i = 0; i < rank; ++i) {
    if (i >= operand->rank || instruction->dimensions.items[i] != i) return TRM_NEED_NOTHING;
  }
  return leading == rank && trm_row_rank(operand, rows) == rank ? TRM_NEED_ROW : TRM_NEED_NOTHING;
}

static bool are_whole(const trm_instruction *instruction, const trm_shape *operand, int32_t rank) {
  for (int32_t d = 0; d < rank; ++d) {
    const trm_slice_dimension slice = instruction->slice[d];
    if (slice.start != 0 || slice.limit != operand->dims[d] || slice.stride != 1) return false;
  }
  return true;
}

static bool are_behind(const trm_dims *dimensions, int32_t rank) {
  for (int32_t i = 0; i < dimensions->count; ++i) {
    if (dimensions->items[i] < rank) return false;
  }
  return true;
}

trm_need trm_row_need(const trm_computation *computation, const trm_instruction *instruction,
                      uint32_t k, int64_t rows) {
  const trm_shape *operand = &computation->instructions[instruction->operands[k]].shape;
  const int32_t rank = trm_row_rank(trm_shape_leaf(&instruction->shape, 0), rows);
  const trm_need by_row = trm_row_rank(operand, rows) == rank ? TRM_NEED_ROW : TRM_NEED_NOTHING;
  if (rank < 0) return TRM_NEED_NOTHING;
  if (trm_opcode_is_elementwise(instruction->opcode)) {
    return trm_shape_same_dims(operand, &instruction->shape) ? by_row
           : trm_shape_is_scalar(operand)                    ? TRM_NEED_WHOLE
                                                             : TRM_NEED_NOTHING;
  }
  switch (instruction->opcode) {
    case TRM_OP_BROADCAST: return need_of_broadcast(instruction, operand, rank, rows);
    case TRM_OP_BITCAST_CONVERT:
    case TRM_OP_RESHAPE: return trm_row_rank(operand, rows) > 0 ? TRM_NEED_ROW : TRM_NEED_NOTHING;
    case TRM_OP_SLICE: return are_whole(instruction, operand, rank) ? by_row : TRM_NEED_NOTHING;
    case TRM_OP_REDUCE:
      if (k >= instruction->num_operands / 2) return TRM_NEED_WHOLE;
      return are_behind(&instruction->dimensions, rank) ? by_row : TRM_NEED_NOTHING;
    default: return TRM_NEED_NOTHING;
  }
}

/* Adds a need to the known ones. False where rows of a value are needed both by row and whole. */
static bool add_need(trm_need *known, trm_need more) {
  if (more == TRM_NEED_NOTHING || (*known != TRM_NEED_NOTHING && *known != more)) return false;
  *known = more;
  return true;
}

bool trm_row_needs_of_fusion(const trm_computation *body, int64_t rows, trm_need *needs) {
  memset(needs, 0, body->num_instructions * sizeof *needs);
  needs[body->root] = TRM_NEED_ROW;
  for (trm_index i = body->num_instructions; i-- > 0;) {
    const trm_instruction *o = &body->instructions[i];
    if (needs[i] == TRM_NEED_ROW && o->opcode != TRM_OP_TUPLE && trm_row_rank(&o->shape, rows) < 0)
      return false;
    /* A block would count the rows from 0 again. */
    if (needs[i] == TRM_NEED_ROW && o->opcode == TRM_OP_IOTA &&
        o->dimensions.items[0] < trm_row_rank(&o->shape, rows))
      return false;
    if (needs[i] == TRM_NEED_ROW && o->opcode == TRM_OP_CONSTANT) return false;
    for (uint32_t k = 0; k < o->num_operands && needs[i] != TRM_NEED_NOTHING; ++k) {
      const trm_need more = needs[i] == TRM_NEED_WHOLE  ? TRM_NEED_WHOLE
                            : o->opcode == TRM_OP_TUPLE ? TRM_NEED_ROW
                                                        : trm_row_need(body, o, k, rows);
      if (!add_need(&needs[o->operands[k]], more)) return false;
    }
  }
  return true;
}

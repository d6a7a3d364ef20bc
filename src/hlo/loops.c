/* Owns: counting the turns of loops. */
#include "hlo/loops.h"

#include <string.h>

static bool read_integer(const trm_shape *shape, const void *bytes, int64_t *out) {
  if (bytes == NULL) return false;
  switch (shape->dtype) {
    case TRM_S32: *out = *(const int32_t *)bytes; return true;
    case TRM_U32: *out = *(const uint32_t *)bytes; return true;
    case TRM_S64:
    case TRM_U64: *out = *(const int64_t *)bytes; return true;
    default: return false;
  }
}

/* The leaf of the loop's state that an instruction of the condition or body is, or -1. */
static int64_t state_leaf(const trm_loop *loop, const trm_computation *c, trm_index i) {
  const trm_instruction *instruction = &c->instructions[i];
  while (instruction->opcode == TRM_OP_CONVERT || instruction->opcode == TRM_OP_COPY ||
         instruction->opcode == TRM_OP_RESHAPE || instruction->opcode == TRM_OP_BITCAST) {
    instruction = &c->instructions[instruction->operands[0]];
  }
  if (instruction->opcode == TRM_OP_PARAMETER && trm_shape_is_array(&instruction->shape)) return 0;
  if (instruction->opcode != TRM_OP_GET_TUPLE_ELEMENT ||
      c->instructions[instruction->operands[0]].opcode != TRM_OP_PARAMETER) {
    return -1;
  }
  return trm_shape_leaf_offset(loop->state, (int32_t)instruction->number);
}

static bool first_integer(const trm_loop *loop, int64_t leaf, int64_t *out) {
  return read_integer(trm_shape_leaf(loop->state, (int32_t)leaf),
                      loop->first_value(loop->context, (int32_t)leaf), out);
}

/* A number that does not change in the loop. */
static bool fixed_value(const trm_loop *loop, const trm_computation *c, trm_index i, int64_t *out) {
  const trm_instruction *instruction = &c->instructions[i];
  if (instruction->opcode == TRM_OP_CONSTANT && trm_shape_is_scalar(&instruction->shape) &&
      instruction->literal != NULL) {
    return read_integer(&instruction->shape, instruction->literal->leaves[0], out);
  }
  const int64_t leaf = state_leaf(loop, c, i);
  if (leaf < 0 || !loop->invariant[leaf]) return false;
  return first_integer(loop, leaf, out);
}

/* The constant that the body adds to a leaf of the state in each turn. */
static bool step_of(const trm_loop *loop, int64_t leaf, int64_t *out) {
  const trm_computation *body = loop->body;
  const trm_instruction *root = &body->instructions[body->root];
  trm_index i = body->root;
  if (root->opcode == TRM_OP_TUPLE) {
    int64_t offset = 0;
    i = TRM_NO_INDEX;
    for (uint32_t k = 0; k < root->num_operands; ++k) {
      const trm_shape *shape = &body->instructions[root->operands[k]].shape;
      if (offset == leaf && trm_shape_is_array(shape)) i = root->operands[k];
      offset += trm_shape_num_leaves(shape);
    }
    if (i == TRM_NO_INDEX) return false;
  }
  const trm_instruction *instruction = &body->instructions[i];
  if (instruction->opcode != TRM_OP_ADD && instruction->opcode != TRM_OP_SUBTRACT) return false;
  int64_t by;
  if (state_leaf(loop, body, instruction->operands[0]) == leaf &&
      fixed_value(loop, body, instruction->operands[1], &by)) {
    *out = instruction->opcode == TRM_OP_ADD ? by : -by;
    return true;
  }
  if (instruction->opcode == TRM_OP_ADD &&
      state_leaf(loop, body, instruction->operands[1]) == leaf &&
      fixed_value(loop, body, instruction->operands[0], &by)) {
    *out = by;
    return true;
  }
  return false;
}

static trm_comparison mirrored(trm_comparison comparison) {
  switch (comparison) {
    case TRM_CMP_LT: return TRM_CMP_GT;
    case TRM_CMP_GT: return TRM_CMP_LT;
    case TRM_CMP_LE: return TRM_CMP_GE;
    case TRM_CMP_GE: return TRM_CMP_LE;
    default: return comparison;
  }
}

/* Turns of a loop that runs while counter (compare) limit. */
static bool count_turns(int64_t begin, int64_t by, int64_t limit, trm_comparison comparison,
                        uint64_t *out) {
  const double distance = (double)limit - (double)begin, step = (double)by;
  double turns;
  switch (comparison) {
    case TRM_CMP_LT: turns = by <= 0 ? -1 : distance <= 0 ? 0 : (distance + step - 1) / step; break;
    case TRM_CMP_LE: turns = by <= 0 ? -1 : distance < 0 ? 0 : distance / step + 1; break;
    case TRM_CMP_GT: turns = by >= 0 ? -1 : distance >= 0 ? 0 : (distance + step + 1) / step; break;
    case TRM_CMP_GE: turns = by >= 0 ? -1 : distance > 0 ? 0 : distance / step + 1; break;
    case TRM_CMP_NE: turns = by == 0 || distance / step < 0 ? -1 : distance / step; break;
    default: turns = -1; break;
  }
  if (turns < 0 || turns > 9e15) return false;
  *out = (uint64_t)turns;
  return true;
}

/* The turns that a comparison of a counter allows. */
static bool comparison_turns(const trm_loop *loop, const trm_instruction *comparison,
                             uint64_t *out) {
  for (int side = 0; side < 2; ++side) {
    const int64_t leaf = state_leaf(loop, loop->condition, comparison->operands[side]);
    int64_t begin, by, limit;
    if (leaf >= 0 && !loop->invariant[leaf] && first_integer(loop, leaf, &begin) &&
        fixed_value(loop, loop->condition, comparison->operands[1 - side], &limit) &&
        step_of(loop, leaf, &by) &&
        count_turns(begin, by, limit,
                    side == 0 ? comparison->comparison : mirrored(comparison->comparison), out)) {
      return true;
    }
  }
  return false;
}

bool trm_loop_trip_count(const trm_loop *loop, uint64_t *out_count, bool *out_exact) {
  trm_index stack[32];
  uint32_t depth = 0;
  bool known = false;
  *out_exact = true;
  stack[depth++] = loop->condition->root;
  while (depth > 0) {
    const trm_instruction *instruction = &loop->condition->instructions[stack[--depth]];
    uint64_t turns;
    if (instruction->opcode == TRM_OP_AND && depth + 2 <= 32) {
      stack[depth++] = instruction->operands[0];
      stack[depth++] = instruction->operands[1];
    } else if (instruction->opcode == TRM_OP_COMPARE &&
               comparison_turns(loop, instruction, &turns)) {
      if (!known || turns < *out_count) *out_count = turns;
      known = true;
    } else {
      *out_exact = false; /* may end it sooner */
    }
  }
  return known;
}

void trm_loop_find_invariant(const trm_computation *body, bool *invariant, int32_t count) {
  memset(invariant, 0, (size_t)count * sizeof *invariant);
  const trm_instruction *root = &body->instructions[body->root];
  if (root->opcode == TRM_OP_PARAMETER) {
    for (int32_t l = 0; l < count; ++l) invariant[l] = true;
    return;
  }
  if (root->opcode != TRM_OP_TUPLE) return;
  int32_t leaf = 0;
  for (uint32_t k = 0; k < root->num_operands; ++k) {
    const trm_instruction *element = &body->instructions[root->operands[k]];
    const int32_t n = trm_shape_num_leaves(&element->shape);
    const bool same = element->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
                      element->number == (int64_t)k &&
                      body->instructions[element->operands[0]].opcode == TRM_OP_PARAMETER;
    for (int32_t l = 0; l < n && leaf < count; ++l) invariant[leaf++] = same;
  }
}

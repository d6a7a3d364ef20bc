/* Owns: counting the iterations of loops. */
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

int64_t trm_state_element(const trm_computation *c, const trm_instruction *i) {
  const bool is_element = i->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
                          c->instructions[i->operands[0]].opcode == TRM_OP_PARAMETER;
  return is_element ? i->number : -1;
}

/* The leaf of the loop's state that an instruction of the condition or body is, or -1. */
static int64_t state_leaf(const trm_loop *loop, const trm_computation *c, trm_index i) {
  const trm_instruction *instruction = &c->instructions[i];
  while (instruction->opcode == TRM_OP_CONVERT || instruction->opcode == TRM_OP_COPY ||
         instruction->opcode == TRM_OP_RESHAPE || instruction->opcode == TRM_OP_BITCAST) {
    instruction = &c->instructions[instruction->operands[0]];
  }
  if (instruction->opcode == TRM_OP_PARAMETER && trm_shape_is_array(&instruction->shape)) return 0;
  const int64_t element = trm_state_element(c, instruction);
  return element < 0 ? -1 : trm_shape_leaf_offset(loop->state, (int32_t)element);
}

static bool first_integer(const trm_loop *loop, int64_t leaf, int64_t *out) {
  return read_integer(trm_shape_leaf(loop->state, (int32_t)leaf),
                      loop->first_value(loop->context, (int32_t)leaf), out);
}

/* The result of an operation on two integers; false if it is none of these, or does not fit. */
static bool combine(const trm_instruction *instruction, int64_t a, int64_t b, int64_t *out) {
  bool fits;
  switch (instruction->opcode) {
    case TRM_OP_ADD: fits = !__builtin_add_overflow(a, b, out); break;
    case TRM_OP_SUBTRACT: fits = !__builtin_sub_overflow(a, b, out); break;
    case TRM_OP_MULTIPLY: fits = !__builtin_mul_overflow(a, b, out); break;
    case TRM_OP_MAXIMUM: *out = a > b ? a : b; return true;
    case TRM_OP_MINIMUM: *out = a < b ? a : b; return true;
    default: return false;
  }
  const trm_dtype dtype = instruction->shape.dtype;
  if (dtype == TRM_S32) return fits && *out == (int32_t)*out;
  return fits && (dtype == TRM_S64 || (dtype == TRM_U32 && *out == (uint32_t)*out));
}

static bool fixed_number(const trm_loop *loop, const trm_computation *c, trm_index i, int depth,
                         int64_t *out) {
  enum { MOST_DEPTH = 4 };
  const trm_instruction *instruction = &c->instructions[i];
  if (instruction->opcode == TRM_OP_CONSTANT && trm_shape_is_scalar(&instruction->shape) &&
      instruction->literal != NULL) {
    return read_integer(&instruction->shape, instruction->literal->leaves[0], out);
  }
  const int64_t leaf = state_leaf(loop, c, i);
  if (leaf >= 0) return loop->invariant[leaf] && first_integer(loop, leaf, out);
  int64_t a, b;
  return instruction->num_operands == 2 && depth < MOST_DEPTH &&
         trm_shape_is_scalar(&instruction->shape) &&
         fixed_number(loop, c, instruction->operands[0], depth + 1, &a) &&
         fixed_number(loop, c, instruction->operands[1], depth + 1, &b) &&
         combine(instruction, a, b, out);
}

/* A number that does not change in the loop: a constant, an element of the state, or computed from
 * such numbers. */
static bool fixed_value(const trm_loop *loop, const trm_computation *c, trm_index i, int64_t *out) {
  return fixed_number(loop, c, i, 0, out);
}

/* The constant that the body adds to a leaf of the state in each iteration. */
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

/* Iterations of a loop that runs while counter (compare) limit. */
static bool count_iterations(int64_t begin, int64_t by, int64_t limit, trm_comparison comparison,
                             uint64_t *out) {
  const double distance = (double)limit - (double)begin, step = (double)by;
  double iterations;
  switch (comparison) {
    case TRM_CMP_LT:
      iterations = by <= 0 ? -1 : distance <= 0 ? 0 : (distance + step - 1) / step;
      break;
    case TRM_CMP_LE: iterations = by <= 0 ? -1 : distance < 0 ? 0 : distance / step + 1; break;
    case TRM_CMP_GT:
      iterations = by >= 0 ? -1 : distance >= 0 ? 0 : (distance + step + 1) / step;
      break;
    case TRM_CMP_GE: iterations = by >= 0 ? -1 : distance > 0 ? 0 : distance / step + 1; break;
    case TRM_CMP_NE: iterations = by == 0 || distance / step < 0 ? -1 : distance / step; break;
    default: iterations = -1; break;
  }
  if (iterations < 0 || iterations > 9e15) return false;
  *out = (uint64_t)iterations;
  return true;
}

/* The iterations that a comparison of a counter allows. */
static bool comparison_iterations(const trm_loop *loop, const trm_instruction *comparison,
                                  uint64_t *out) {
  for (int side = 0; side < 2; ++side) {
    const int64_t leaf = state_leaf(loop, loop->condition, comparison->operands[side]);
    int64_t begin, by, limit;
    if (leaf >= 0 && !loop->invariant[leaf] && first_integer(loop, leaf, &begin) &&
        fixed_value(loop, loop->condition, comparison->operands[1 - side], &limit) &&
        step_of(loop, leaf, &by) &&
        count_iterations(begin, by, limit,
                         side == 0 ? comparison->comparison : mirrored(comparison->comparison),
                         out)) {
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
    uint64_t iterations;
    if (instruction->opcode == TRM_OP_AND && depth + 2 <= 32) {
      stack[depth++] = instruction->operands[0];
      stack[depth++] = instruction->operands[1];
    } else if (instruction->opcode == TRM_OP_COMPARE &&
               comparison_iterations(loop, instruction, &iterations)) {
      if (!known || iterations < *out_count) *out_count = iterations;
      known = true;
    } else {
      *out_exact = false; /* may end it sooner */
    }
  }
  return known;
}

/* sign * x + offset, where x is instruction i of the body. */
typedef struct linear {
  int64_t sign, offset;
  trm_index i;
} linear;

/* Takes away one sum or difference with a fixed number, or what moves an index below 0 (JAX). */
static bool simplify_linear(const trm_loop *loop, linear *l) {
  const trm_instruction *x = &loop->body->instructions[l->i];
  int64_t by;
  switch (x->opcode) {
    case TRM_OP_CONVERT:
    case TRM_OP_COPY:
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST: l->i = x->operands[0]; return true;
    case TRM_OP_SELECT: {
      const trm_instruction *is_below = &loop->body->instructions[x->operands[0]];
      if (l->sign != 1 || l->offset != 0 || is_below->opcode != TRM_OP_COMPARE ||
          is_below->comparison != TRM_CMP_LT || is_below->operands[0] != x->operands[2] ||
          !fixed_value(loop, loop->body, is_below->operands[1], &by) || by != 0) {
        return false;
      }
      l->i = x->operands[2]; /* the caller sees that this is never below 0 */
      return true;
    }
    case TRM_OP_ADD:
    case TRM_OP_SUBTRACT: break;
    default: return false;
  }
  const bool subtracts = x->opcode == TRM_OP_SUBTRACT;
  const bool is_right = fixed_value(loop, loop->body, x->operands[1], &by);
  if (!is_right && !fixed_value(loop, loop->body, x->operands[0], &by)) return false;
  if (by > INT32_MAX || by < INT32_MIN) return false;
  l->i = x->operands[!is_right];
  l->offset += subtracts && is_right ? -l->sign * by : l->sign * by;
  if (subtracts && !is_right) l->sign = -l->sign;
  return true;
}

bool trm_loop_counts_through(const trm_loop *loop, trm_index index, uint64_t iterations) {
  enum { MOST_STEPS = 8 };
  linear l = {.sign = 1, .i = index};
  for (int step = 0; step < MOST_STEPS; ++step) {
    const int64_t leaf = state_leaf(loop, loop->body, l.i);
    if (leaf < 0 || loop->invariant[leaf]) {
      if (!simplify_linear(loop, &l)) return false;
      continue;
    }
    int64_t first, by;
    if (!first_integer(loop, leaf, &first) || !step_of(loop, leaf, &by)) return false;
    if ((by != 1 && by != -1) || first > INT32_MAX || first < INT32_MIN || iterations > INT32_MAX) {
      return false;
    }
    const int64_t begin = l.sign * first + l.offset, last = (int64_t)iterations - 1;
    return l.sign * by > 0 ? begin == 0 : begin == last;
  }
  return false;
}

void trm_loop_find_needed(const trm_computation *body, bool *instructions, bool *elements,
                          bool (*follows)(void *context, trm_index i), void *context) {
  const trm_instruction *root = &body->instructions[body->root];
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t k = 0; k < root->num_operands; ++k)
      instructions[root->operands[k]] |= elements[k];
    for (trm_index i = body->num_instructions; i-- > 0;) { /* operands come before their users */
      const trm_instruction *o = &body->instructions[i];
      if (!instructions[i]) continue;
      const int64_t element = trm_state_element(body, o);
      if (element >= 0) {
        changes |= !elements[element];
        elements[element] = true;
      }
      if (element < 0 && follows != NULL && !follows(context, i)) continue;
      for (uint32_t k = 0; k < o->num_operands; ++k) instructions[o->operands[k]] = true;
      for (uint32_t k = 0; k < o->num_control_predecessors; ++k) {
        instructions[o->control_predecessors[k]] = true;
      }
    }
  }
}

uint32_t trm_count_readers(const trm_computation *c, int64_t element) {
  uint32_t count = 0;
  for (trm_index i = 0; i < c->num_instructions; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    const bool takes = instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT;
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_instruction *operand = &c->instructions[instruction->operands[k]];
      count += (!takes && instruction->operands[k] == c->parameters[0]) ||
               (operand->opcode == TRM_OP_GET_TUPLE_ELEMENT && operand->number == element &&
                operand->operands[0] == c->parameters[0]);
    }
  }
  const trm_instruction *root = &c->instructions[c->root];
  return count + (root->opcode == TRM_OP_GET_TUPLE_ELEMENT && root->number == element);
}

bool trm_loop_fills(const trm_loop *loop, int32_t leaf, uint64_t iterations) {
  const trm_computation *body = loop->body;
  const trm_instruction *root = &body->instructions[body->root];
  if (root->opcode != TRM_OP_TUPLE || iterations == 0) return false;
  uint32_t k = 0;
  while (k < root->num_operands && trm_shape_leaf_offset(loop->state, (int32_t)k) < leaf) ++k;
  if (k == root->num_operands || trm_shape_leaf_offset(loop->state, (int32_t)k) != leaf) {
    return false;
  }
  const trm_instruction *update = &body->instructions[root->operands[k]];
  if (update->opcode != TRM_OP_DYNAMIC_UPDATE_SLICE || update->num_operands < 3) return false;
  const trm_shape *array = &update->shape;
  const trm_shape *part = &body->instructions[update->operands[1]].shape;
  if (state_leaf(loop, body, update->operands[0]) != leaf || part->dims[0] != 1 ||
      (uint64_t)array->dims[0] != iterations || update->num_operands != (uint32_t)array->rank + 2) {
    return false;
  }
  for (int32_t d = 1; d < array->rank; ++d)
    if (part->dims[d] != array->dims[d]) return false;
  return body->instructions[update->operands[0]].opcode == TRM_OP_GET_TUPLE_ELEMENT &&
         trm_count_readers(body, k) == 1 && trm_count_readers(loop->condition, k) == 0 &&
         trm_loop_counts_through(loop, update->operands[2], iterations);
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
    const bool same = trm_state_element(body, element) == (int64_t)k;
    for (int32_t l = 0; l < n && leaf < count; ++l) invariant[leaf++] = same;
  }
}

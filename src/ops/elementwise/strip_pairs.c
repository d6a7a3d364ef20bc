/* Owns: merging neighbouring operations of strip code, so that a chain makes fewer passes over the
 * first-level cache. */
#include "ops/elementwise/strip_code.h"

static bool is_f32(const trm_vector_ops *ops, trm_opcode opcode, trm_vector_fn function) {
  return function != NULL && function == ops->op[opcode][TRM_V_F32];
}

static bool find_first(const trm_vector_ops *ops, trm_vector_fn function, trm_pair_first *out) {
  if (is_f32(ops, TRM_OP_ADD, function)) *out = TRM_FIRST_ADD;
  else if (is_f32(ops, TRM_OP_SUBTRACT, function)) *out = TRM_FIRST_SUBTRACT;
  else if (is_f32(ops, TRM_OP_MULTIPLY, function)) *out = TRM_FIRST_MULTIPLY;
  else return false;
  return true;
}

/* `swapped`: the first operation's result is the second operation's second operand. */
static bool find_second(const trm_vector_ops *ops, trm_vector_fn function, bool swapped,
                        trm_pair_second *out) {
  if (is_f32(ops, TRM_OP_ADD, function)) *out = TRM_SECOND_ADD;
  else if (is_f32(ops, TRM_OP_MULTIPLY, function)) *out = TRM_SECOND_MULTIPLY;
  else if (is_f32(ops, TRM_OP_SUBTRACT, function)) {
    *out = swapped ? TRM_SECOND_SUBTRACT_FROM : TRM_SECOND_SUBTRACT;
  } else if (is_f32(ops, TRM_OP_MAXIMUM, function)) {
    *out = swapped ? TRM_SECOND_MAXIMUM_OF : TRM_SECOND_MAXIMUM;
  } else {
    return false;
  }
  return true;
}

static bool reads(const strip_operation *operation, uint32_t slot) {
  if (operation->function == NULL) return operation->access->source == slot;
  return operation->in[0] == slot || operation->in[1] == slot || operation->in[2] == slot;
}

/* Whether an operation from `begin` on reads the slot before another one writes it. */
static bool is_read_later(const strip_operation *operations, size_t begin, size_t end,
                          uint32_t slot) {
  for (size_t i = begin; i < end; ++i) {
    if (reads(&operations[i], slot)) return true;
    if (operations[i].out == slot) return false;
  }
  return false;
}

size_t trm_strip_merge_pairs(const trm_vector_ops *ops, const strip_slot *slots,
                             strip_operation *operations, size_t num_operations) {
  size_t kept = 0;
  for (size_t i = 0; i < num_operations; ++i) {
    strip_operation operation = operations[i];
    const strip_operation *next = i + 1 < num_operations ? &operations[i + 1] : NULL;
    trm_pair_first first;
    trm_pair_second second;
    if (next != NULL && slots[operation.out].kind == SLOT_REGISTER &&
        find_first(ops, operation.function, &first) &&
        (next->in[0] == operation.out) != (next->in[1] == operation.out) &&
        find_second(ops, next->function, next->in[1] == operation.out, &second) &&
        (next->out == operation.out ||
         !is_read_later(operations, i + 2, num_operations, operation.out))) {
      const uint32_t other = next->in[0] == operation.out ? next->in[1] : next->in[0];
      operation = (strip_operation){
          ops->pair[first][second], NULL, next->out, {operation.in[0], operation.in[1], other}};
      ++i;
    }
    operations[kept++] = operation;
  }
  return kept;
}

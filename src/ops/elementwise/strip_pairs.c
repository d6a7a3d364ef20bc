/* Owns: merging neighbouring steps of a strip program, so that a chain makes fewer passes over the
 * first-level cache. */
#include "ops/elementwise/strip_program.h"

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

/* `swapped`: the first step's result is the second step's second operand. */
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

static bool reads(const strip_step *step, uint32_t slot) {
  if (step->function == NULL) return step->access->source == slot;
  return step->in[0] == slot || step->in[1] == slot || step->in[2] == slot;
}

/* Whether a step from `begin` on reads the slot before another one writes it. */
static bool is_read_later(const strip_step *steps, size_t begin, size_t end, uint32_t slot) {
  for (size_t i = begin; i < end; ++i) {
    if (reads(&steps[i], slot)) return true;
    if (steps[i].out == slot) return false;
  }
  return false;
}

size_t trm_strip_merge_pairs(const trm_vector_ops *ops, const strip_slot *slots, strip_step *steps,
                             size_t num_steps) {
  size_t kept = 0;
  for (size_t i = 0; i < num_steps; ++i) {
    strip_step step = steps[i];
    const strip_step *next = i + 1 < num_steps ? &steps[i + 1] : NULL;
    trm_pair_first first;
    trm_pair_second second;
    if (next != NULL && slots[step.out].kind == SLOT_REGISTER &&
        find_first(ops, step.function, &first) &&
        (next->in[0] == step.out) != (next->in[1] == step.out) &&
        find_second(ops, next->function, next->in[1] == step.out, &second) &&
        (next->out == step.out || !is_read_later(steps, i + 2, num_steps, step.out))) {
      const uint32_t other = next->in[0] == step.out ? next->in[1] : next->in[0];
      step =
          (strip_step){ops->pair[first][second], NULL, next->out, {step.in[0], step.in[1], other}};
      ++i;
    }
    steps[kept++] = step;
  }
  return kept;
}

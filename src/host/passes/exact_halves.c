/* Owns: float16 arithmetic in a region with the results of the CPU's engine: elementwise
 * instructions compute in float32 and round after every instruction, sums are in float32, and
 * overflows give the value that trm_half_overflow says. */
#include <math.h>

#include "host/ops/elementwise/strip_compile.h"
#include "passes/lower.h"
#include "passes/maker.h"

/* Compares |x| with a number. */
static trm_index size_is(trm_maker *m, trm_index x, trm_comparison how, double number) {
  return trm_compare(m, trm_unary(m, TRM_OP_ABS, x), how, number);
}

/* Replaces values beyond float16, also infinities, by 65504 or NaN, as the module says. */
static trm_index limit(trm_maker *m, trm_index x) {
  const trm_shape shape = trm_shape_at(m, x);
  const double least = shape.dtype == TRM_F16 ? INFINITY : 65520; /* rounds to infinity */
  if (m->edit->module->half_overflow == TRM_HALF_INFINITY) return x;
  if (m->edit->module->half_overflow == TRM_HALF_LARGEST) {
    const trm_index bounds[] = {trm_filled(m, shape, -65504), trm_filled(m, shape, 65504)};
    return trm_make(m, &(trm_instruction){.opcode = TRM_OP_CLAMP,
                                          .shape = shape,
                                          .num_operands = 3,
                                          .operands = (trm_index[]){bounds[0], x, bounds[1]}});
  }
  return trm_select(m, size_is(m, x, TRM_CMP_GE, least), trm_filled(m, shape, NAN), x);
}

/* Limits a result that is infinite. At a pole the infinity is exact, elsewhere the result is too
 * large; an infinity that an operand has stays. */
static trm_index limit_infinity(trm_maker *m, const trm_instruction *i, trm_index x,
                                trm_index limited) {
  trm_index special = limited;
  const trm_index nan = trm_filled(m, trm_shape_at(m, x), NAN);
  switch (i->opcode) {
    case TRM_OP_DIVIDE:
    case TRM_OP_LOG:
    case TRM_OP_LOG_PLUS_ONE:
    case TRM_OP_RSQRT: special = nan; break;
    case TRM_OP_POWER:
      special = trm_select(m, size_is(m, i->operands[0], TRM_CMP_EQ, 0), nan, limited);
      break;
    case TRM_OP_EXPONENTIAL:
    case TRM_OP_EXPONENTIAL_MINUS_ONE: break;
    default: return x;
  }
  for (uint32_t k = 0; k < i->num_operands; ++k) {
    special = trm_select(m, size_is(m, i->operands[k], TRM_CMP_EQ, INFINITY), x, special);
  }
  return special;
}

/* Rounds a float32 to a float16 value. Compilers may drop a conversion to float16 and back, but not
 * reduce-precision, nor a sum and its difference. reduce-precision flushes small numbers to zero;
 * for these x + 0.75 keeps multiples of 2^-24, the spacing of small halves. */
static trm_index round_as_half(trm_maker *m, trm_index x) {
  const trm_index sum = trm_with(m, TRM_OP_ADD, x, 0.75);
  const trm_index rounded = trm_make(m, &(trm_instruction){.opcode = TRM_OP_REDUCE_PRECISION,
                                                           .shape = trm_shape_at(m, x),
                                                           .num_operands = 1,
                                                           .operands = &x,
                                                           .exponent_bits = 5,
                                                           .mantissa_bits = 10});
  return trm_select(m, size_is(m, x, TRM_CMP_LT, 0x1p-14), trm_with(m, TRM_OP_SUBTRACT, sum, 0.75),
                    rounded);
}

/* The instruction in float32. */
static trm_index widen(trm_maker *m, const trm_instruction *i) {
  trm_index wide = 0;
  if (i->opcode == TRM_OP_CONVERT) return trm_convert(m, TRM_F32, i->operands[0]);
  m->status = trm_edit_widen(m->edit, m->like, i->operands, &wide, m->error);
  return wide;
}

static trm_index elementwise(trm_maker *m, const trm_instruction *i) {
  const trm_index wide = widen(m, i), limited = limit(m, wide);
  if (limited == wide) return wide;
  return trm_select(m, size_is(m, wide, TRM_CMP_EQ, INFINITY), limit_infinity(m, i, wide, limited),
                    limited);
}

/* A sum or product of float16 is computed in float32. */
static trm_index combined(trm_maker *m, const trm_instruction *i) {
  const trm_opcode opcode =
      i->num_called == 1 ? trm_computation_combiner(&m->edit->module->computations[i->called[0]])
                         : TRM_NUM_OPCODES;
  const bool is_reduced = i->opcode == TRM_OP_REDUCE || i->opcode == TRM_OP_REDUCE_WINDOW;
  const bool is_sum = opcode == TRM_OP_ADD || opcode == TRM_OP_MULTIPLY;
  return limit(m, is_reduced && is_sum ? widen(m, i) : trm_make(m, i));
}

static bool combines(const trm_instruction *i) {
  return i->opcode == TRM_OP_DOT || i->opcode == TRM_OP_CONVOLUTION || i->opcode == TRM_OP_REDUCE ||
         i->opcode == TRM_OP_REDUCE_WINDOW || i->opcode == TRM_OP_SCATTER ||
         i->opcode == TRM_OP_SELECT_AND_SCATTER;
}

static trm_status compute_exactly(trm_edit *edit, trm_index at, void *state, trm_error *error) {
  (void)state;
  trm_maker m = {.edit = edit, .like = at, .error = error};
  const trm_instruction i = *trm_edit_at(edit, at);
  const bool is_elementwise = trm_strip_rounds(i.opcode);
  if (i.shape.dtype != TRM_F16 || (!is_elementwise && !combines(&i))) return TRM_OK;
  trm_index made = is_elementwise ? elementwise(&m, &i) : combined(&m, &i);
  if (trm_shape_at(&m, made).dtype == TRM_F32) made = round_as_half(&m, made);
  trm_edit_replace(edit, at, trm_convert(&m, TRM_F16, made));
  return m.status;
}

bool trm_can_limit_halves(const trm_instruction *i) {
  return trm_opcode_class_of(i->opcode) == TRM_CLASS_REDUCE
             ? i->shape.dtype == TRM_F16 || i->opcode == TRM_OP_SORT
             : i->opcode != TRM_OP_MAP;
}

trm_status trm_exact_halves(trm_module *module, uint32_t computation, trm_error *error) {
  return trm_edit_running(module, computation, compute_exactly, error);
}

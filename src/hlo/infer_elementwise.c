/* Owns: the shapes of elementwise opcodes. */
#include "hlo/infer.h"

static trm_dtype component_of(trm_dtype dtype) {
  return dtype == TRM_C64 ? TRM_F32 : dtype == TRM_C128 ? TRM_F64 : dtype;
}

static trm_status check_kind(trm_inference *c, uint32_t i) {
  const trm_shape *shape = trm_infer_operand(c, i);
  CHECK(c, trm_opcode_takes(c->instruction->opcode, trm_dtype_kind(shape->dtype)),
        "is not defined for element type %s", trm_dtype_name(shape->dtype));
  return TRM_OK;
}

static trm_status infer_converted(trm_inference *c) {
  const trm_shape *from = trm_infer_operand(c, 0);
  const trm_dtype to = c->instruction->shape.dtype;
  const trm_shape result = {.dtype = to, .rank = from->rank, .dims = from->dims};
  CHECK(c, trm_shape_is_array(&result) && trm_dtype_size(to) > 0,
        "the element type to convert to is not stated");
  CHECK(c, !trm_dtype_is_complex(from->dtype) || trm_dtype_is_complex(to),
        "cannot convert %s to %s; take the real or imaginary part", trm_dtype_name(from->dtype),
        trm_dtype_name(to));
  return trm_infer_give(c, to, from->rank, from->dims);
}

static trm_status infer_unary(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0);
  TRY(check_kind(c, 0));
  switch (c->instruction->opcode) {
    case TRM_OP_CONVERT: return infer_converted(c);
    case TRM_OP_IS_FINITE: return trm_infer_give(c, TRM_PRED, operand->rank, operand->dims);
    case TRM_OP_ABS:
    case TRM_OP_REAL:
    case TRM_OP_IMAG:
      return trm_infer_give(c, component_of(operand->dtype), operand->rank, operand->dims);
    case TRM_OP_REDUCE_PRECISION:
      CHECK(c, c->instruction->exponent_bits >= 1 && c->instruction->mantissa_bits >= 0,
            "needs at least 1 exponent bit and no less than 0 mantissa bits, not %d and %d",
            c->instruction->exponent_bits, c->instruction->mantissa_bits);
      return trm_infer_give_same(c, operand);
    default: return trm_infer_give_same(c, operand);
  }
}

static trm_status infer_stochastic_convert(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0), *random = trm_infer_operand(c, 1);
  CHECK(c, trm_dtype_is_floating(operand->dtype), "is not defined for element type %s",
        trm_dtype_name(operand->dtype));
  CHECK(c, trm_shape_same_dims(operand, random), "operands have different sizes: %s and %s",
        trm_infer_text(c, operand), trm_infer_text(c, random));
  CHECK(c,
        trm_dtype_is_unsigned(random->dtype) &&
            trm_dtype_size(random->dtype) == trm_dtype_size(operand->dtype),
        "the random bits must be unsigned and as wide as %s, not %s",
        trm_dtype_name(operand->dtype), trm_dtype_name(random->dtype));
  return infer_converted(c);
}

static trm_status infer_binary(trm_inference *c) {
  if (c->instruction->opcode == TRM_OP_STOCHASTIC_CONVERT) return infer_stochastic_convert(c);
  const trm_shape *left = trm_infer_operand(c, 0), *right = trm_infer_operand(c, 1);
  CHECK(c, trm_shape_equal(left, right), "operands differ: %s and %s", trm_infer_text(c, left),
        trm_infer_text(c, right));
  TRY(check_kind(c, 0));
  switch (c->instruction->opcode) {
    case TRM_OP_COMPARE:
      CHECK(c,
            !trm_dtype_is_complex(left->dtype) || c->instruction->comparison == TRM_CMP_EQ ||
                c->instruction->comparison == TRM_CMP_NE,
            "complex numbers have no order; only EQ and NE are defined");
      return trm_infer_give(c, TRM_PRED, left->rank, left->dims);
    case TRM_OP_COMPLEX:
      CHECK(c, left->dtype == TRM_F32 || left->dtype == TRM_F64, "takes f32 or f64 parts, not %s",
            trm_dtype_name(left->dtype));
      return trm_infer_give(c, left->dtype == TRM_F32 ? TRM_C64 : TRM_C128, left->rank, left->dims);
    default: return trm_infer_give_same(c, left);
  }
}

static trm_status infer_select(trm_inference *c) {
  const trm_shape *choice = trm_infer_operand(c, 0);
  const trm_shape *on_true = trm_infer_operand(c, 1), *on_false = trm_infer_operand(c, 2);
  CHECK(c, trm_shape_equal(on_true, on_false), "the two values differ: %s and %s",
        trm_infer_text(c, on_true), trm_infer_text(c, on_false));
  CHECK(c, choice->dtype == TRM_PRED && (choice->rank == 0 || trm_shape_same_dims(choice, on_true)),
        "the predicate must be pred[] or a pred of the values' size, not %s for %s",
        trm_infer_text(c, choice), trm_infer_text(c, on_true));
  return trm_infer_give_same(c, on_true);
}

static trm_status infer_clamp(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 1);
  TRY(check_kind(c, 1));
  for (uint32_t i = 0; i < 3; i += 2) {
    const trm_shape *bound = trm_infer_operand(c, i);
    CHECK(
        c,
        bound->dtype == operand->dtype && (bound->rank == 0 || trm_shape_same_dims(bound, operand)),
        "a bound must be a scalar or an array like the operand %s, not %s",
        trm_infer_text(c, operand), trm_infer_text(c, bound));
  }
  return trm_infer_give_same(c, operand);
}

trm_status trm_infer_elementwise(trm_inference *c) {
  TRY(trm_infer_check_arrays(c));
  switch (c->instruction->opcode) {
    case TRM_OP_SELECT: return infer_select(c);
    case TRM_OP_CLAMP: return infer_clamp(c);
    default: return c->instruction->num_operands == 1 ? infer_unary(c) : infer_binary(c);
  }
}

/* Owns: the meaning of each elementwise opcode, for every type and with edge cases. Floats are
 * computed in double and rounded to the result's type. */
#include "host/ops/reference.h"

#include <math.h>

#include "base/small_float.h"

static bool is_scalar_op(trm_opcode opcode) {
  if (opcode == TRM_OP_BITCAST_CONVERT) return true;
  if (opcode == TRM_OP_STOCHASTIC_CONVERT) return false;
  return trm_opcode_is_elementwise(opcode);
}

trm_status trm_scalar_op_create(const trm_module *module, const trm_computation *computation,
                                const trm_instruction *instruction, trm_scalar_op *out_op,
                                trm_error *error) {
  char text[512];
  const trm_opcode opcode = instruction->opcode;
  if (!is_scalar_op(opcode) || instruction->num_operands < 1 || instruction->num_operands > 3) {
    FAIL(UNIMPLEMENTED, "no kernel computes %s: '%s' is not elementwise",
         trm_instruction_text(module, instruction, text, sizeof text), trm_opcode_name(opcode));
  }
  const uint32_t typed = opcode == TRM_OP_SELECT || opcode == TRM_OP_CLAMP ? 1 : 0;
  const trm_dtype from = computation->instructions[instruction->operands[typed]].shape.dtype;
  const trm_dtype to = instruction->shape.dtype;
  const trm_kind from_kind = trm_dtype_kind(from), to_kind = trm_dtype_kind(to);
  const bool is_complex = from_kind == TRM_KIND_COMPLEX || to_kind == TRM_KIND_COMPLEX;
  if (!trm_opcode_takes(opcode, from_kind) || to_kind == TRM_KIND_NONE ||
      (opcode == TRM_OP_COMPLEX && !is_complex) || (is_complex && !trm_complex_op_exists(opcode))) {
    FAIL(UNIMPLEMENTED, "no kernel computes %s: '%s' has no meaning for %s",
         trm_instruction_text(module, instruction, text, sizeof text), trm_opcode_name(opcode),
         trm_dtype_name(from));
  }
  if (opcode == TRM_OP_BITCAST_CONVERT && trm_dtype_bits(from) != trm_dtype_bits(to)) {
    FAIL(UNIMPLEMENTED, "no kernel computes %s: a scalar cannot be cast to another width",
         trm_instruction_text(module, instruction, text, sizeof text));
  }
  *out_op = (trm_scalar_op){.opcode = opcode,
                            .from = from,
                            .to = to,
                            .comparison = instruction->comparison,
                            .comparison_type = instruction->comparison_type,
                            .exponent_bits = instruction->exponent_bits,
                            .mantissa_bits = instruction->mantissa_bits,
                            .half_overflow = module->half_overflow,
                            .casts_wrap = module->casts_wrap};
  return TRM_OK;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

/* The bits of a float as an integer in the order of IEEE's totalOrder: -NaN < -inf < ... < -0 < +0
 * < ... < inf < NaN. f8e8m0fnu has no sign. */
static int64_t total_order_key(trm_dtype dtype, trm_value value) {
  const int bits = trm_dtype_bits(dtype);
  if (dtype == TRM_F8E8M0FNU) return (int64_t)trm_value_bits(dtype, value);
  const int64_t raw = (int64_t)(trm_value_bits(dtype, value) << (64 - bits)) >> (64 - bits);
  return raw < 0 ? raw ^ INT64_MAX : raw;
}

static uint64_t compare(const trm_scalar_op *op, trm_value a, trm_value b) {
  const trm_kind kind = trm_dtype_kind(op->from);
  bool less, equal, greater; /* all false: unordered */
  if (kind == TRM_KIND_FLOAT && op->comparison_type == TRM_CMPTYPE_TOTALORDER) {
    const int64_t x = total_order_key(op->from, a), y = total_order_key(op->from, b);
    less = x<y, equal = x == y, greater = x> y;
  } else if (kind == TRM_KIND_FLOAT) {
    less = a.f<b.f, equal = a.f == b.f, greater = a.f> b.f;
  } else if (kind == TRM_KIND_SIGNED) {
    less = a.s<b.s, equal = a.s == b.s, greater = a.s> b.s;
  } else {
    less = a.u<b.u, equal = a.u == b.u, greater = a.u> b.u;
  }
  switch (op->comparison) {
    case TRM_CMP_EQ: return equal;
    case TRM_CMP_NE: return !equal;
    case TRM_CMP_GE: return greater || equal;
    case TRM_CMP_GT: return greater;
    case TRM_CMP_LE: return less || equal;
    case TRM_CMP_LT: return less;
  }
  return 0;
}

/* ---- Floats --------------------------------------------------------------------------------- */

/* NaN if either is NaN; for equal operands (+0 and -0) the first. */
static double float_max(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  return a >= b ? a : b;
}

static double float_min(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  return a <= b ? a : b;
}

/* Rounds the mantissa to `mantissa_bits` (ties to even); then exponents that `exponent_bits` cannot
 * hold become infinity or zero. It works on the bits of the type: subnormals stay if the result has
 * as many exponent bits as the type. */
static trm_value reduce_precision(const trm_scalar_op *op, trm_value value) {
  if (isnan(value.f)) return value;
  int exponent_width, mantissa_width;
  switch (op->from) {
    case TRM_F16: exponent_width = 5, mantissa_width = 10; break;
    case TRM_BF16: exponent_width = 8, mantissa_width = 7; break;
    case TRM_F32: exponent_width = 8, mantissa_width = 23; break;
    case TRM_F64: exponent_width = 11, mantissa_width = 52; break;
    default:
      exponent_width = trm_small_float_exponent_bits(op->from);
      mantissa_width = trm_small_float_mantissa_bits(op->from);
      break;
  }
  uint64_t element[2] = {trm_value_bits(op->from, value), 0};
  const uint64_t sign = element[0] & UINT64_C(1) << (exponent_width + mantissa_width);
  uint64_t bits = element[0] ^ sign;
  if (op->mantissa_bits < mantissa_width) {
    const int dropped = mantissa_width - op->mantissa_bits;
    const uint64_t last = UINT64_C(1) << dropped;
    bits = (bits + (last / 2 - 1) + (bits >> dropped & 1)) & ~(last - 1);
  }
  if (op->exponent_bits < exponent_width) {
    const int64_t bias = (INT64_C(1) << (op->exponent_bits - 1)) - 1;
    const int64_t exponent =
        (int64_t)(bits >> mantissa_width) - ((INT64_C(1) << (exponent_width - 1)) - 1);
    if (exponent > bias) bits = ((UINT64_C(1) << exponent_width) - 1) << mantissa_width;
    if (exponent <= -bias) bits = 0;
  }
  element[0] = bits | sign;
  return trm_value_load(op->from, element, 0);
}

static double float_unary(trm_opcode opcode, double x) {
  switch (opcode) {
    case TRM_OP_ABS: return fabs(x);
    case TRM_OP_ACOS: return acos(x);
    case TRM_OP_ACOSH: return acosh(x);
    case TRM_OP_ASIN: return asin(x);
    case TRM_OP_ASINH: return asinh(x);
    case TRM_OP_ATAN: return atan(x);
    case TRM_OP_ATANH: return atanh(x);
    case TRM_OP_CBRT: return cbrt(x);
    case TRM_OP_CEIL: return ceil(x);
    case TRM_OP_COSH: return cosh(x);
    case TRM_OP_COSINE: return cos(x);
    case TRM_OP_ERF: return erf(x);
    case TRM_OP_EXPONENTIAL: return exp(x);
    case TRM_OP_EXPONENTIAL_MINUS_ONE: return expm1(x);
    case TRM_OP_FLOOR: return floor(x);
    case TRM_OP_IMAG: return 0.0;
    case TRM_OP_LOG: return log(x);
    case TRM_OP_LOG_PLUS_ONE: return log1p(x);
    case TRM_OP_LOGISTIC: return 1.0 / (1.0 + exp(-x));
    case TRM_OP_NEGATE: return -x;
    case TRM_OP_REAL: return x;
    case TRM_OP_ROUND_NEAREST_AFZ: return round(x);
    case TRM_OP_ROUND_NEAREST_EVEN: return nearbyint(x);
    case TRM_OP_RSQRT: return 1.0 / sqrt(x);
    case TRM_OP_SIGN: return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; /* zeros and NaN stay */
    case TRM_OP_SINE: return sin(x);
    case TRM_OP_SINH: return sinh(x);
    case TRM_OP_SQRT: return sqrt(x);
    case TRM_OP_TAN: return tan(x);
    case TRM_OP_TANH: return tanh(x);
    default: return NAN;
  }
}

static double float_binary(trm_opcode opcode, double a, double b) {
  switch (opcode) {
    case TRM_OP_ADD: return a + b;
    case TRM_OP_SUBTRACT: return a - b;
    case TRM_OP_MULTIPLY: return a * b;
    case TRM_OP_DIVIDE: return a / b;
    case TRM_OP_REMAINDER: return fmod(a, b);
    case TRM_OP_POWER: return pow(a, b);
    case TRM_OP_ATAN2: return atan2(a, b);
    case TRM_OP_MAXIMUM: return float_max(a, b);
    case TRM_OP_MINIMUM: return float_min(a, b);
    default: return NAN;
  }
}

/* ---- Integers: all arithmetic is modulo 2^64, wrapped to the type by the caller ------------- */

static uint64_t integer_power(bool is_signed, uint64_t base, uint64_t exponent) {
  if (is_signed && (int64_t)exponent < 0) { /* 1 / base^-exponent, towards zero; 0 for base 0 */
    return base == UINT64_MAX ? (exponent & 1 ? base : 1) : base == 1;
  }
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

static uint64_t integer_divide(bool is_signed, uint64_t a, uint64_t b) {
  if (b == 0) return UINT64_MAX;
  if (!is_signed) return a / b;
  if (b == UINT64_MAX) return 0 - a; /* division by -1: the smallest number stays */
  return (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t integer_remainder(bool is_signed, uint64_t a, uint64_t b) {
  if (b == 0) return a;
  if (!is_signed) return a % b;
  if (b == UINT64_MAX) return 0;
  return (uint64_t)((int64_t)a % (int64_t)b);
}

/* The upper half of the product of two numbers of `width` bits. */
static uint64_t integer_mulhi(bool is_signed, int width, uint64_t a, uint64_t b) {
  if (width < 64) return is_signed ? (uint64_t)((int64_t)(a * b) >> width) : a * b >> width;
  const uint64_t low = UINT32_MAX, p = (a & low) * (b & low), q = (a & low) * (b >> 32);
  const uint64_t r = (a >> 32) * (b & low) + (p >> 32) + (q & low);
  uint64_t high = (a >> 32) * (b >> 32) + (q >> 32) + (r >> 32);
  if (is_signed && (int64_t)a < 0) high -= b;
  if (is_signed && (int64_t)b < 0) high -= a;
  return high;
}

static uint64_t integer_binary(const trm_scalar_op *op, trm_value a, trm_value b) {
  const bool is_signed = trm_dtype_kind(op->from) == TRM_KIND_SIGNED;
  const uint64_t width = (uint64_t)trm_dtype_bits(op->from);
  const uint64_t mask = UINT64_MAX >> (64 - width);
  /* Shift counts are read as unsigned numbers of the type. */
  const uint64_t count = b.u & mask;
  switch (op->opcode) {
    case TRM_OP_ADD: return a.u + b.u;
    case TRM_OP_SUBTRACT: return a.u - b.u;
    case TRM_OP_MULTIPLY: return a.u * b.u;
    case TRM_OP_MULHI: return integer_mulhi(is_signed, (int)width, a.u, b.u);
    case TRM_OP_DIVIDE: return integer_divide(is_signed, a.u, b.u);
    case TRM_OP_REMAINDER: return integer_remainder(is_signed, a.u, b.u);
    case TRM_OP_POWER: return integer_power(is_signed, a.u, b.u);
    case TRM_OP_MAXIMUM: return is_signed ? (a.s >= b.s ? a.u : b.u) : (a.u >= b.u ? a.u : b.u);
    case TRM_OP_MINIMUM: return is_signed ? (a.s <= b.s ? a.u : b.u) : (a.u <= b.u ? a.u : b.u);
    case TRM_OP_AND: return a.u & b.u;
    case TRM_OP_OR: return a.u | b.u;
    case TRM_OP_XOR: return a.u ^ b.u;
    case TRM_OP_SHIFT_LEFT: return count >= width ? 0 : a.u << count;
    case TRM_OP_SHIFT_RIGHT_LOGICAL: return count >= width ? 0 : (a.u & mask) >> count;
    case TRM_OP_SHIFT_RIGHT_ARITHMETIC: {
      const int64_t value = (int64_t)((a.u & mask) << (64 - width)) >> (64 - width);
      return (uint64_t)(value >> (count >= width ? 63 : count));
    }
    default: return 0;
  }
}

static uint64_t integer_unary(const trm_scalar_op *op, trm_value a) {
  const bool is_signed = trm_dtype_kind(op->from) == TRM_KIND_SIGNED;
  const uint64_t width = (uint64_t)trm_dtype_bits(op->from);
  const uint64_t bits = a.u & UINT64_MAX >> (64 - width);
  switch (op->opcode) {
    case TRM_OP_ABS: return is_signed && a.s < 0 ? 0 - a.u : a.u;
    case TRM_OP_NEGATE: return 0 - a.u;
    case TRM_OP_NOT: return ~a.u;
    case TRM_OP_SIGN: return is_signed && a.s < 0 ? UINT64_MAX : a.u != 0;
    case TRM_OP_POPULATION_COUNT: return (uint64_t)__builtin_popcountll(bits);
    case TRM_OP_COUNT_LEADING_ZEROS:
      return bits == 0 ? width : (uint64_t)__builtin_clzll(bits) - (64 - width);
    case TRM_OP_REAL: return a.u;
    default: return 0;
  }
}

/* On truth values add and maximum are "or", multiply and minimum are "and", subtract is "xor". */
static uint64_t pred_binary(trm_opcode opcode, uint64_t a, uint64_t b) {
  switch (opcode) {
    case TRM_OP_ADD:
    case TRM_OP_OR:
    case TRM_OP_MAXIMUM: return a | b;
    case TRM_OP_MULTIPLY:
    case TRM_OP_AND:
    case TRM_OP_MINIMUM: return a & b;
    case TRM_OP_SUBTRACT:
    case TRM_OP_XOR: return a ^ b;
    case TRM_OP_DIVIDE: return b ? a : 1;
    case TRM_OP_REMAINDER: return b ? 0 : a;
    case TRM_OP_POWER: return a | !b;
    default: return 0;
  }
}

/* ---- All ------------------------------------------------------------------------------------ */

static trm_value clamp(const trm_scalar_op *op, const trm_value *operands) {
  const trm_value low = operands[0], x = operands[1], high = operands[2];
  trm_value result = x;
  switch (trm_dtype_kind(op->from)) {
    case TRM_KIND_FLOAT: result.f = float_min(high.f, float_max(low.f, x.f)); break;
    case TRM_KIND_SIGNED:
      result.s = x.s < low.s ? low.s : x.s;
      if (result.s > high.s) result.s = high.s;
      break;
    default:
      result.u = x.u < low.u ? low.u : x.u;
      if (result.u > high.u) result.u = high.u;
      break;
  }
  return result;
}

static trm_value apply(const trm_scalar_op *op, const trm_value *operands) {
  const trm_kind kind = trm_dtype_kind(op->from);
  trm_value result = {{0}, 0.0};
  switch (op->opcode) {
    case TRM_OP_SELECT: return operands[0].u ? operands[1] : operands[2];
    case TRM_OP_CONVERT: return trm_value_convert(op->from, op->to, op->casts_wrap, operands[0]);
    case TRM_OP_BITCAST_CONVERT: {
      uint64_t element[2];
      trm_value_store(op->from, element, 0, operands[0]);
      return trm_value_load(op->to, element, 0);
    }
    default: break;
  }
  if (kind == TRM_KIND_COMPLEX || trm_dtype_kind(op->to) == TRM_KIND_COMPLEX) {
    return trm_value_round(op->to, trm_complex_op_apply(op, operands));
  }
  switch (op->opcode) {
    case TRM_OP_COMPARE: result.u = compare(op, operands[0], operands[1]); return result;
    case TRM_OP_IS_FINITE:
      result.u = kind == TRM_KIND_FLOAT ? (uint64_t)(isfinite(operands[0].f) != 0) : 1;
      return result;
    case TRM_OP_CLAMP: return clamp(op, operands);
    case TRM_OP_REDUCE_PRECISION: return reduce_precision(op, operands[0]);
    default: break;
  }
  const bool is_binary = trm_opcode_class_of(op->opcode) == TRM_CLASS_BINARY;
  switch (kind) {
    case TRM_KIND_FLOAT:
      result.f = is_binary ? float_binary(op->opcode, operands[0].f, operands[1].f)
                           : float_unary(op->opcode, operands[0].f);
      break;
    case TRM_KIND_PRED:
      if (is_binary) result.u = pred_binary(op->opcode, operands[0].u, operands[1].u);
      else result.u = op->opcode == TRM_OP_NOT ? !operands[0].u : operands[0].u;
      break;
    default:
      result.u =
          is_binary ? integer_binary(op, operands[0], operands[1]) : integer_unary(op, operands[0]);
      break;
  }
  return trm_value_round(op->to, result);
}

/* Replaces an infinite float16 that comes of finite operands, as trm_half_overflow says. */
static double limit_half(const trm_scalar_op *op, const trm_value *operands, double infinity) {
  const trm_opcode_class class = trm_opcode_class_of(op->opcode);
  if ((class != TRM_CLASS_UNARY && class != TRM_CLASS_BINARY) ||
      op->opcode == TRM_OP_BITCAST_CONVERT || op->opcode == TRM_OP_REDUCE_PRECISION) {
    return infinity;
  }
  for (int k = 0; k < (class == TRM_CLASS_BINARY ? 2 : 1); ++k) {
    if (trm_dtype_kind(op->from) == TRM_KIND_FLOAT && !isfinite(operands[k].f)) return infinity;
  }
  switch (op->opcode) {
    case TRM_OP_LOG:
    case TRM_OP_LOG_PLUS_ONE:
    case TRM_OP_RSQRT: return NAN;
    case TRM_OP_DIVIDE:
      if (operands[1].f == 0) return NAN;
      break;
    case TRM_OP_POWER:
      if (operands[0].f == 0) return NAN;
      break;
    default: break;
  }
  return op->half_overflow == TRM_HALF_NAN ? NAN : copysign(65504, infinity);
}

trm_value trm_scalar_op_apply(const trm_scalar_op *op, const trm_value *operands) {
  trm_value result = apply(op, operands);
  if (op->half_overflow != TRM_HALF_INFINITY && op->to == TRM_F16 && isinf(result.f)) {
    result.f = limit_half(op, operands, result.f);
  }
  return result;
}

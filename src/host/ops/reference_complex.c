/* Owns: elementwise opcodes on complex values. */
#include "host/ops/reference.h"

#include <complex.h>
#include <math.h>

bool trm_complex_op_exists(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_ABS:
    case TRM_OP_ADD:
    case TRM_OP_ACOS:
    case TRM_OP_ACOSH:
    case TRM_OP_ASIN:
    case TRM_OP_ASINH:
    case TRM_OP_ATAN:
    case TRM_OP_ATANH:
    case TRM_OP_COSH:
    case TRM_OP_SINH:
    case TRM_OP_ATAN2:
    case TRM_OP_COMPARE:
    case TRM_OP_COMPLEX:
    case TRM_OP_CONVERT:
    case TRM_OP_COSINE:
    case TRM_OP_DIVIDE:
    case TRM_OP_EXPONENTIAL:
    case TRM_OP_EXPONENTIAL_MINUS_ONE:
    case TRM_OP_IMAG:
    case TRM_OP_LOG:
    case TRM_OP_LOG_PLUS_ONE:
    case TRM_OP_LOGISTIC:
    case TRM_OP_MULTIPLY:
    case TRM_OP_NEGATE:
    case TRM_OP_POWER:
    case TRM_OP_REAL:
    case TRM_OP_RSQRT:
    case TRM_OP_SELECT:
    case TRM_OP_SIGN:
    case TRM_OP_SINE:
    case TRM_OP_SQRT:
    case TRM_OP_SUBTRACT:
    case TRM_OP_TAN:
    case TRM_OP_TANH:
    case TRM_OP_BITCAST_CONVERT: return true;
    default: return false;
  }
}

/* As XLA: 1 where the exponent is 0 or the base 1, whatever the other is; a power of 0 is 0 where
 * the exponent's real part is positive, else NaN. */
static double complex power(double complex a, double complex b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  if (a != 0.0) return cpow(a, b);
  return creal(b) > 0.0 && isfinite(cimag(b)) ? 0.0 : CMPLX(NAN, NAN);
}

/* expm1 keeps the real part exact near zero. */
static double complex exponential_minus_one(double complex a) {
  const double x = creal(a), y = cimag(a), half_sine = sin(y / 2.0);
  if (y == 0.0) return CMPLX(expm1(x), y);
  return CMPLX(expm1(x) * cos(y) - 2.0 * half_sine * half_sine, exp(x) * sin(y));
}

/* log1p keeps the real part exact where 1 + a is near the circle of radius 1; elsewhere its
 * operand would overflow or lose the digits of 1 + a. */
static double complex log_plus_one(double complex a) {
  const double x = creal(a), y = cimag(a), size = hypot(1.0 + x, y);
  const bool is_far = size < 0.5 || size > 2.0;
  return CMPLX(is_far ? log(size) : 0.5 * log1p(x * (2.0 + x) + y * y), atan2(y, 1.0 + x));
}

trm_value trm_complex_op_apply(const trm_scalar_op *op, const trm_value *operands) {
  trm_value result = {{0}, 0.0};
  const double complex a = CMPLX(operands[0].f, operands[0].imag);
  const bool is_binary = trm_opcode_class_of(op->opcode) == TRM_CLASS_BINARY;
  const double complex b = is_binary ? CMPLX(operands[1].f, operands[1].imag) : 0.0;
  double complex z = a;
  switch (op->opcode) {
    case TRM_OP_COMPARE: {
      const bool equal = creal(a) == creal(b) && cimag(a) == cimag(b);
      result.u = op->comparison == TRM_CMP_NE ? !equal : op->comparison == TRM_CMP_EQ && equal;
      return result;
    }
    case TRM_OP_COMPLEX: result.f = operands[0].f, result.imag = operands[1].f; return result;
    case TRM_OP_REAL: result.f = creal(a); return result;
    case TRM_OP_IMAG: result.f = cimag(a); return result;
    case TRM_OP_ABS: result.f = cabs(a); return result;
    case TRM_OP_ADD: z = a + b; break;
    case TRM_OP_SUBTRACT: z = a - b; break;
    case TRM_OP_MULTIPLY: z = a * b; break;
    case TRM_OP_DIVIDE: z = a / b; break;
    case TRM_OP_POWER: z = power(a, b); break;
    case TRM_OP_ATAN2: /* the angle of b + i a, where both may be complex */
      z = -I * clog((b + I * a) / csqrt(a * a + b * b));
      break;
    case TRM_OP_NEGATE: z = -a; break;
    case TRM_OP_ACOS: z = cacos(a); break;
    case TRM_OP_ACOSH: z = cacosh(a); break;
    case TRM_OP_ASIN: z = casin(a); break;
    case TRM_OP_ASINH: z = casinh(a); break;
    case TRM_OP_ATAN: z = catan(a); break;
    case TRM_OP_ATANH: z = catanh(a); break;
    case TRM_OP_COSH: z = ccosh(a); break;
    case TRM_OP_SINH: z = csinh(a); break;
    case TRM_OP_COSINE: z = ccos(a); break;
    case TRM_OP_SINE: z = csin(a); break;
    case TRM_OP_TAN: z = ctan(a); break;
    case TRM_OP_TANH: z = ctanh(a); break;
    case TRM_OP_EXPONENTIAL: z = cexp(a); break;
    case TRM_OP_EXPONENTIAL_MINUS_ONE: z = exponential_minus_one(a); break;
    case TRM_OP_LOG: z = clog(a); break;
    case TRM_OP_LOG_PLUS_ONE: z = log_plus_one(a); break;
    case TRM_OP_LOGISTIC: z = 1.0 / (1.0 + cexp(-a)); break;
    case TRM_OP_SQRT: z = csqrt(a); break;
    case TRM_OP_RSQRT: z = 1.0 / csqrt(a); break;
    case TRM_OP_SIGN: {
      const double size = cabs(a);
      z = size == 0.0 ? a : a / size;
      break;
    }
    default: break;
  }
  result.f = creal(z), result.imag = cimag(z);
  return result;
}

/* Owns: floats of 8 bits and fewer (small_float.h). */
#include "base/small_float.h"

#include <math.h>
#include <stddef.h>

/* The meaning of the codes beyond the numbers. */
typedef enum specials {
  SPECIALS_IEEE,    /* the largest exponent: infinity and NaNs */
  SPECIALS_NAN,     /* all ones: NaN */
  SPECIALS_NO_ZERO, /* the code of -0: NaN */
  SPECIALS_NONE
} specials;

typedef struct format {
  int exponent, mantissa, bias;
  specials specials;
} format;

static const format *format_of(trm_dtype dtype) {
  static const format f8e5m2 = {5, 2, 15, SPECIALS_IEEE}, f8e4m3 = {4, 3, 7, SPECIALS_IEEE},
                      f8e3m4 = {3, 4, 3, SPECIALS_IEEE}, f8e4m3fn = {4, 3, 7, SPECIALS_NAN},
                      f8e4m3fnuz = {4, 3, 8, SPECIALS_NO_ZERO},
                      f8e4m3b11fnuz = {4, 3, 11, SPECIALS_NO_ZERO},
                      f8e5m2fnuz = {5, 2, 16, SPECIALS_NO_ZERO},
                      f4e2m1fn = {2, 1, 1, SPECIALS_NONE}, f8e8m0fnu = {8, 0, 127, SPECIALS_NAN};
  switch (dtype) {
    case TRM_F8E5M2: return &f8e5m2;
    case TRM_F8E4M3: return &f8e4m3;
    case TRM_F8E3M4: return &f8e3m4;
    case TRM_F8E4M3FN: return &f8e4m3fn;
    case TRM_F8E4M3FNUZ: return &f8e4m3fnuz;
    case TRM_F8E4M3B11FNUZ: return &f8e4m3b11fnuz;
    case TRM_F8E5M2FNUZ: return &f8e5m2fnuz;
    case TRM_F4E2M1FN: return &f4e2m1fn;
    case TRM_F8E8M0FNU: return &f8e8m0fnu;
    default: return NULL;
  }
}

bool trm_dtype_is_small_float(trm_dtype dtype) { return format_of(dtype) != NULL; }

int trm_small_float_mantissa_bits(trm_dtype dtype) { return format_of(dtype)->mantissa; }
int trm_small_float_exponent_bits(trm_dtype dtype) { return format_of(dtype)->exponent; }

double trm_small_float_decode(trm_dtype dtype, uint8_t bits) {
  if (dtype == TRM_F8E8M0FNU) return bits == 0xff ? (double)NAN : ldexp(1.0, bits - 127);
  const format *f = format_of(dtype);
  const int sign = 1 << (f->exponent + f->mantissa), code = bits & (sign - 1);
  const int exponent = code >> f->mantissa, fraction = code & ((1 << f->mantissa) - 1);
  const bool negative = (bits & sign) != 0;
  double value;
  if (f->specials == SPECIALS_IEEE && exponent == (1 << f->exponent) - 1) {
    value = fraction == 0 ? (double)INFINITY : (double)NAN;
  } else if ((f->specials == SPECIALS_NAN && code == sign - 1) ||
             (f->specials == SPECIALS_NO_ZERO && code == 0 && negative)) {
    value = (double)NAN;
  } else if (exponent == 0) {
    value = ldexp(fraction, 1 - f->bias - f->mantissa);
  } else {
    value = ldexp((1 << f->mantissa) + fraction, exponent - f->bias - f->mantissa);
  }
  const bool keeps_sign = f->specials != SPECIALS_NO_ZERO || !isnan(value);
  return copysign(value, negative && keeps_sign ? -1.0 : 1.0);
}

static uint8_t encode_power(double value) {
  int exponent;
  if (!(value > 0) || isinf(value)) return 0xff;       /* NaN too */
  const double fraction = frexp(value, &exponent) * 2; /* in [1, 2) */
  const int code = exponent - 1 + 127 + (fraction >= 1.5);
  return (uint8_t)(code < 0 ? 0 : code > 0xff ? 0xff : code);
}

uint8_t trm_small_float_encode(trm_dtype dtype, double value) {
  if (dtype == TRM_F8E8M0FNU) return encode_power(value);
  const format *f = format_of(dtype);
  const int sign_bit = 1 << (f->exponent + f->mantissa);
  const int sign = signbit(value) ? sign_bit : 0, most = sign_bit - 1;
  const int infinity = ((1 << f->exponent) - 1) << f->mantissa;
  if (isnan(value)) {
    switch (f->specials) {
      case SPECIALS_IEEE: return (uint8_t)(sign | infinity | 1 << (f->mantissa - 1));
      case SPECIALS_NAN: return (uint8_t)(sign | most);
      case SPECIALS_NO_ZERO: return (uint8_t)sign_bit;
      case SPECIALS_NONE: return (uint8_t)(sign ^ sign_bit); /* a zero, as XLA's conversion */
    }
  }
  const int largest = f->specials == SPECIALS_IEEE  ? infinity - 1
                      : f->specials == SPECIALS_NAN ? most - 1
                                                    : most;
  int code = most + 1;
  if (value == 0) {
    code = 0;
  } else if (!isinf(value)) {
    int exponent;
    const double magnitude = fabs(value);
    (void)frexp(magnitude, &exponent);
    if (exponent < 2 - f->bias) exponent = 2 - f->bias; /* subnormal */
    if (exponent - 1 + f->bias <= 1 << f->exponent) {
      const double units = rint(ldexp(magnitude, f->mantissa + 1 - exponent));
      code = ((exponent - 2 + f->bias) << f->mantissa) + (int)units;
    }
  }
  if (code <= largest) {
    if (code == 0 && f->specials == SPECIALS_NO_ZERO) return 0;
    return (uint8_t)(sign | code);
  }
  switch (f->specials) {
    case SPECIALS_IEEE: return (uint8_t)(sign | infinity);
    case SPECIALS_NAN: return (uint8_t)(sign | most);
    case SPECIALS_NO_ZERO: return (uint8_t)sign_bit;
    case SPECIALS_NONE: break;
  }
  return (uint8_t)(sign | most);
}

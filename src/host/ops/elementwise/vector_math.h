/* The float32 functions of the vectorised loops (vector.c), without branches, so that the compiler
 * vectorises the loops around them. The functions that networks call often compute in float32
 * (vector_math_single.inc.h); the others compute in float64 with short polynomials and round once.
 *
 * Largest errors against the exact result, in units of the last place of float32 (denormals,
 * infinities, zeros and NaNs as in C's libm; checked by tests/c/ops/test_fast_math.c):
 *
 *   exp, log                                                             1
 *   erf, log1p, expm1                                                    1.6
 *   tanh, logistic                                                       2.6
 *   sin, cos, cbrt, atan2                                                0.51
 *   acos, asin, acosh, asinh, atanh, cosh, sinh                          0.51
 *   pow, tan                                                             0.52
 *   sqrt                                                                 0.5
 *   rsqrt (two rounded steps)                                            1.5
 *
 * In float64, the polynomials of exp, log, sin and cos are the power series; that of atan is a
 * Chebyshev interpolation (relative error under 1e-11). */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_MATH_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_MATH_H_

#include "host/ops/elementwise/vector_bits.h"

#define FUNCTION INLINE
#define GENERATOR
#define CALLED
#define VALUE float
#define WORD int32_t
#define MASK int
#define CONSTANT(x) (x)
#define BITS(x) (x)
#define FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#define ADD(x, y) ((x) + (y))
#define SUBTRACT(x, y) ((x) - (y))
#define MULTIPLY(x, y) ((x) * (y))
#define DIVIDE(x, y) ((x) / (y))
#define NEGATE(x) (-(x))
#define ABS(x) abs_f32(x)
#define COPY_SIGN(magnitude, sign) sign_of((magnitude), (sign))
#define LESS(x, y) ((x) < (y))
#define EQUAL(x, y) ((x) == (y))
#define SELECT(mask, x, y) ((mask) ? (x) : (y))
#define PICK(mask, x, y) pick((mask), (x), (y))
#define AT_LEAST(x, low) at_least((x), (low))
#define AT_MOST(x, high) at_most((x), (high))
#define SCALE(y, k, place) scale((y), (int32_t)(float_bits(place) - float_bits(PLACE)))
#define AS_BITS(x) ((int32_t)float_bits(x))
#define AS_FLOAT(w) bits_float((uint32_t)(w))
#define TO_FLOAT(w) ((float)(w))
#define ADD_BITS(v, w) ((int32_t)((uint32_t)(v) + (uint32_t)(w)))
#define SUBTRACT_BITS(v, w) ((int32_t)((uint32_t)(v) - (uint32_t)(w)))
#define AND_BITS(v, w) ((v) & (w))
#define LARGER_BITS(v, w) ((v) > (w) ? (v) : (w))
#define SHIFT_LEFT(w, n) ((int32_t)((uint32_t)(w) << (n)))
#define SHIFT_RIGHT(w, n) ((w) >> (n))

INLINE float at_least(float x, float low) { return x < low ? low : x; }
INLINE float at_most(float x, float high) { return x > high ? high : x; }
/* Chooses by bits. For a conditional the compiler would compute the following code twice. */
INLINE float pick(int condition, float yes, float no) {
  const uint32_t mask = 0u - (uint32_t)condition;
  return bits_float((float_bits(yes) & mask) | (float_bits(no) & ~mask));
}
/* Multiplies by 2^k in two factors, for results that are denormal or infinite; the first product is
 * exact. */
INLINE float scale(float y, int32_t k) {
  const int32_t half = k >> 1, rest = k - half;
  return (y * bits_float((uint32_t)(half + 127) << 23)) * bits_float((uint32_t)(rest + 127) << 23);
}

#include "host/ops/elementwise/vector_math_single.inc.h"

/* Rounds to the nearest integer, ties to even. */
INLINE float rint_f32(float x) {
  const float a = abs_f32(x);
  const float r = sign_of((a + 0x1p23f) - 0x1p23f, x);
  return a < 0x1p23f ? r : x;
}
INLINE float floor_f32(float x) {
  const float r = rint_f32(x);
  return sign_of(r > x ? r - 1.0f : r, x);
}
INLINE float ceil_f32(float x) {
  const float r = rint_f32(x);
  return sign_of(r < x ? r + 1.0f : r, x);
}
/* Rounds to the nearest integer, ties away from zero. */
INLINE float round_f32(float x) {
  const float a = abs_f32(x), r = rint_f32(a);
  return sign_of(a - r == 0.5f ? r + 1.0f : r, x);
}

/* exp(x) = *scale + *scale * (result), for -160 <= x <= 160. */
INLINE double exp_parts(double x, double *scale) {
  const double magic = 0x1.8p52;
  const double t = x * 0x1.71547652b82fep+0 + magic;
  const double k = t - magic;
  const double r = (x - k * 0x1.62e42fefa0000p-1) - k * 0x1.cf79abc9e3b3ap-40;
  *scale = bits_double((double_bits(t) << 52) + 0x3ff0000000000000u);
  double p = 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  return p * r;
}
INLINE double limit(double x, double low, double high) {
  const double a = x < low ? low : x;
  return a > high ? high : a;
}
INLINE double exp_double(double x) {
  double scale;
  const double p = exp_parts(x, &scale);
  return scale + scale * p;
}
INLINE double expm1_double(double x) {
  double scale;
  const double p = exp_parts(x, &scale);
  return scale * p + (scale - 1.0);
}

/* log of a positive, finite, normal double. */
INLINE double log_positive(double x) {
  const uint64_t bits = double_bits(x) + 0x00095f6200000000u;
  const double e = bits_double((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
  const double m = bits_double((bits & 0x000fffffffffffffu) + 0x3fe6a09e00000000u);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z;
  return e * 0x1.62e42fefa39efp-1 + 2.0 * (s + s * p);
}
INLINE double log_double(double x) {
  const double r = log_positive(x);
  const double zero = x == 0.0 ? -(double)INFINITY : r;
  const double end = x < (double)INFINITY ? zero : x;
  return x < 0.0 ? (double)NAN : end;
}
INLINE float cbrt_f32(float x) {
  const float a = abs_f32(x);
  const float r = (float)exp_double(log_positive((double)a) * (1.0 / 3));
  const int usual = (a > 0.0f) & (a < INFINITY);
  return usual ? sign_of(r, x) : x;
}

INLINE float pow_f32(float x, float y) {
  const float a = abs_f32(x), ay = abs_f32(y);
  const double l = log_double((double)a);
  const double p = limit((double)y * l, -150.0, 150.0);
  float r = (float)exp_double(p);
  const float half = y * 0.5f;
  const int integer = rint_f32(y) == y; /* also true for infinities */
  const int odd = integer & (rint_f32(half) != half) & (ay < 0x1p24f);
  const int negative = float_bits(x) >> 31 != 0;
  const int bad = (x < 0.0f) & (a < INFINITY) & !integer;
  r = (a == 1.0f) & (ay == INFINITY) ? 1.0f : r;
  r = negative & odd ? -r : r;
  r = bad ? NAN : r;
  return (x == 1.0f) | (y == 0.0f) ? 1.0f : r;
}

/* Reduces x to r in [-pi/4, pi/4] and the quadrant (in the low bits); for |x| <= 2^28. */
INLINE double reduce_quadrant(double x, uint64_t *quadrant) {
  const double magic = 0x1.8p52;
  const double t = x * 0x1.45f306dc9c883p-1 + magic;
  const double k = t - magic;
  *quadrant = double_bits(t);
  /* pi/2 in parts of 24, 24 and 53 bits: the first two products are exact. */
  return ((x - k * 0x1.921fb4p+0) - k * 0x1.4442d0p-24) - k * 0x1.8469898cc5170p-48;
}
INLINE double sin_near(double r) {
  const double z = r * r;
  double p = 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  return r + r * (p * z);
}
INLINE double cos_near(double r) {
  const double z = r * r;
  double p = 1.0 / 479001600;
  p = p * z - 1.0 / 3628800;
  p = p * z + 1.0 / 40320;
  p = p * z - 1.0 / 720;
  p = p * z + 1.0 / 24;
  p = p * z - 0.5;
  return 1.0 + p * z;
}
INLINE float sin_f32(float x) {
  uint64_t q;
  const double r = reduce_quadrant((double)x, &q);
  const double v = (q & 1u) != 0 ? cos_near(r) : sin_near(r);
  const float w = (float)bits_double(double_bits(v) ^ (q & 2u) << 62);
  return x == 0.0f ? x : w;
}
INLINE float cos_f32(float x) {
  uint64_t q;
  const double r = reduce_quadrant((double)x, &q);
  const double v = (q & 1u) != 0 ? sin_near(r) : cos_near(r);
  return (float)bits_double(double_bits(v) ^ ((q + 1u) & 2u) << 62);
}
INLINE float tan_f32(float x) {
  uint64_t q;
  const double r = reduce_quadrant((double)x, &q);
  const double s = sin_near(r), c = cos_near(r);
  const double v = (q & 1u) != 0 ? -c / s : s / c;
  return x == 0.0f ? x : (float)v;
}

/* The angle of (ax, ay), both at least 0; 0 for the origin. */
INLINE double angle_of(double ay, double ax) {
  const double low = ay < ax ? ay : ax, high = ay < ax ? ax : ay;
  double t = low / high;
  t = high == 0.0 ? 0.0 : t;
  t = low == (double)INFINITY ? 1.0 : t;
  const double z = t * t;
  double p = 0x1.c30f953dfd8b2p-12;
  p = p * z - 0x1.ab7d626dac74dp-9;
  p = p * z + 0x1.7c2f635483b03p-7;
  p = p * z - 0x1.ae6f00c73011dp-6;
  p = p * z + 0x1.67a700f239e6ap-5;
  p = p * z - 0x1.eead8c63726bep-5;
  p = p * z + 0x1.334a996b37bb4p-4;
  p = p * z - 0x1.72bc0da9afc04p-4;
  p = p * z + 0x1.c6e33ed9c1357p-4;
  p = p * z - 0x1.248feac1c21dap-3;
  p = p * z + 0x1.99997f3b2eab3p-3;
  p = p * z - 0x1.5555551b37822p-2;
  p = p * z + 0x1.ffffffffeaa6cp-1;
  p = p * t;
  return ay > ax ? 0x1.921fb54442d18p+0 - p : p;
}
INLINE float atan2_f32(float y, float x) {
  double p = angle_of((double)abs_f32(y), (double)abs_f32(x));
  p = float_bits(x) >> 31 != 0 ? 0x1.921fb54442d18p+1 - p : p;
  const float r = sign_of((float)p, y);
  return (x != x) | (y != y) ? NAN : r;
}

INLINE float asin_f32(float x) {
  const double a = (double)abs_f32(x);
  const float r = sign_of((float)angle_of(a, sqrt((1.0 - a) * (1.0 + a))), x);
  return a <= 1.0 ? r : NAN;
}
INLINE float acos_f32(float x) {
  const double a = (double)abs_f32(x);
  const double p = angle_of(sqrt((1.0 - a) * (1.0 + a)), a);
  const float r = (float)(x < 0.0f ? 0x1.921fb54442d18p+1 - p : p);
  return a <= 1.0 ? r : NAN;
}

/* Clamped to 110: e^110 / 2 is beyond float32's largest number, so the results for larger |x| are
 * infinite too. */
INLINE float cosh_f32(float x) {
  const double e = exp_double(limit((double)abs_f32(x), 0.0, 110.0));
  const float r = (float)(0.5 * (e + 1.0 / e));
  return x != x ? x : r;
}
INLINE float sinh_f32(float x) {
  const double e = expm1_double(limit((double)abs_f32(x), 0.0, 110.0));
  const float r = sign_of((float)(0.5 * (e + e / (e + 1.0))), x);
  return x != x ? x : r;
}
/* Uses the power series below 2^-10, where the logarithm would lose digits. */
INLINE float asinh_f32(float x) {
  const double a = (double)abs_f32(x), z = a * a;
  const double small = a * (1.0 - z * (1.0 / 6 - z * (3.0 / 40)));
  const double r = log_double(a + sqrt(z + 1.0));
  return sign_of((float)(a < 0x1p-10 ? small : r), x);
}
INLINE float acosh_f32(float x) {
  const double t = (double)x - 1.0;
  const float r = (float)log_double(1.0 + (t + sqrt(t * (t + 2.0))));
  return x >= 1.0f ? r : NAN;
}
INLINE float atanh_f32(float x) {
  const double a = (double)abs_f32(x), z = a * a;
  const double small = a * (1.0 + z * (1.0 / 3 + z * (1.0 / 5)));
  const double r = 0.5 * log_double((1.0 + a) / (1.0 - a));
  const float v = sign_of((float)(a < 0x1p-10 ? small : r), x);
  return a <= 1.0 ? v : NAN;
}

/* Rounds to half and back, with the bits of base/half.h. */
INLINE float round_half_f32(float x) {
  const uint32_t bits = float_bits(x), sign = bits & 0x80000000u, magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u)) & 0xffffe000u;
  const uint32_t small = float_bits((bits_float(magnitude) + 0.5f) - 0.5f);
  uint32_t r = magnitude < 0x38800000u ? small : normal;
  r = magnitude >= 0x477ff000u ? 0x7f800000u : r;
  r = magnitude > 0x7f800000u ? (magnitude & 0xffffe000u) | 0x00400000u : r;
  return bits_float(sign | r);
}

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_MATH_H_ */

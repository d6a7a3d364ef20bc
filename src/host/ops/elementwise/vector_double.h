/* The part of vector.c that works on float64. exp, expm1, tanh and logistic are vectorised, as
 * those of float32 in vector_math_single.inc.h, to 1, 2, 3 and 3 units of the last place; other
 * functions are libm's, one element after the other, with the bits of the reference kernels. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_DOUBLE_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_DOUBLE_H_

#include "host/ops/elementwise/vector_bits.h"
#include "host/ops/elementwise/vector_loops.h"

INLINE double max_nan_f64(double x, double y) { return (x >= y) | (x != x) ? x : y; }
INLINE double min_nan_f64(double x, double y) { return (x <= y) | (x != x) ? x : y; }

/* An integer k that is added to it stands in the last bits, as the exponent of 2^k does. */
#define PLACE_F64 (0x1.8p52 + 1023)

/* exp(x) = 2^k (1 + result), for |x| <= 800; *place is k + PLACE_F64. The coefficients are those of
 * the power series. */
INLINE double exp_reduced_f64(double x, double *place) {
  *place = __builtin_fma(x, 0x1.71547652b82fep+0, PLACE_F64);
  const double k = *place - PLACE_F64;
  const double r =
      __builtin_fma(k, -0x1.abc9e3b39803fp-56, __builtin_fma(k, -0x1.62e42fefa39efp-1, x));
  double p = 1.0 / 6227020800;
  p = __builtin_fma(p, r, 1.0 / 479001600);
  p = __builtin_fma(p, r, 1.0 / 39916800);
  p = __builtin_fma(p, r, 1.0 / 3628800);
  p = __builtin_fma(p, r, 1.0 / 362880);
  p = __builtin_fma(p, r, 1.0 / 40320);
  p = __builtin_fma(p, r, 1.0 / 5040);
  p = __builtin_fma(p, r, 1.0 / 720);
  p = __builtin_fma(p, r, 1.0 / 120);
  p = __builtin_fma(p, r, 1.0 / 24);
  p = __builtin_fma(p, r, 1.0 / 6);
  p = __builtin_fma(p, r, 0.5);
  return __builtin_fma(p, r * r, r);
}
INLINE double power_of_two_f64(uint64_t place) { return bits_double(place << 52); }
INLINE double at_least_f64(double x, double low) { return x < low ? low : x; }
INLINE double at_most_f64(double x, double high) { return x > high ? high : x; }

/* In two factors, for results that are denormal or infinite. */
INLINE double exp_f64(double x) {
  double place;
  const double y = 1.0 + exp_reduced_f64(at_most_f64(at_least_f64(x, -746.0), 710.0), &place);
  const uint64_t k = double_bits(place) - double_bits(PLACE_F64) + 4096; /* positive */
  const uint64_t half = k >> 1;
  return (y * power_of_two_f64(half - 2048 + 1023)) * power_of_two_f64(k - half - 2048 + 1023);
}
INLINE double expm1_f64(double x) {
  double place;
  const double p = exp_reduced_f64(at_most_f64(at_least_f64(x, -40.0), 710.0), &place);
  const double s = power_of_two_f64(double_bits(place) - 1); /* half of 2^k */
  const double r = __builtin_fma(s, p, s - 0.5) * 2.0;
  return bits_double(double_bits(x) & INT64_MAX) < 0x1p-54 ? x : r;
}
INLINE double tanh_f64(double x) {
  double place;
  const double a = bits_double(double_bits(x) & INT64_MAX);
  const double p = exp_reduced_f64(at_least_f64(-2.0 * a, -40.0), &place);
  const double s = power_of_two_f64(double_bits(place));
  const double t = __builtin_fma(s, p, s - 1.0);
  const double r = t / (t + 2.0);
  return bits_double((double_bits(r) & INT64_MAX) | (double_bits(x) & UINT64_C(1) << 63));
}
INLINE double logistic_f64(double x) {
  const double e = exp_f64(bits_double(double_bits(x) | UINT64_C(1) << 63));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

LOOP2(maximum_F64, double, double, max_nan_f64(x, y))
LOOP2(minimum_F64, double, double, min_nan_f64(x, y))
LOOP2(remainder_F64, double, double, fmod(x, y))
LOOP2(power_F64, double, double, pow(x, y))
LOOP2(atan2_F64, double, double, atan2(x, y))
LOOP3(clamp_F64, double, double, min_nan_f64(z, max_nan_f64(x, y)))
LOOP1(abs_F64, double, double, bits_double(double_bits(x) & INT64_MAX))
LOOP1(negate_F64, double, double, bits_double(double_bits(x) ^ UINT64_C(1) << 63))
LOOP1(ceil_F64, double, double, ceil(x))
LOOP1(floor_F64, double, double, floor(x))
LOOP1(rint_F64, double, double, nearbyint(x))
LOOP1(round_F64, double, double, round(x))
LOOP1(sqrt_F64, double, double, sqrt(x))
LOOP1(rsqrt_F64, double, double, 1.0 / sqrt(x))
LOOP1(exp_F64, double, double, exp_f64(x))
LOOP1(expm1_F64, double, double, expm1_f64(x))
LOOP1(log_F64, double, double, log(x))
LOOP1(log1p_F64, double, double, log1p(x))
LOOP1(tanh_F64, double, double, tanh_f64(x))
LOOP1(logistic_F64, double, double, logistic_f64(x))
LOOP1(cbrt_F64, double, double, cbrt(x))
LOOP1(erf_F64, double, double, erf(x))
LOOP1(sin_F64, double, double, sin(x))
LOOP1(cos_F64, double, double, cos(x))
LOOP1(tan_F64, double, double, tan(x))
LOOP1(acos_F64, double, double, acos(x))
LOOP1(acosh_F64, double, double, acosh(x))
LOOP1(asin_F64, double, double, asin(x))
LOOP1(asinh_F64, double, double, asinh(x))
LOOP1(atanh_F64, double, double, atanh(x))
LOOP1(cosh_F64, double, double, cosh(x))
LOOP1(sinh_F64, double, double, sinh(x))
LOOP1(is_finite_F64, uint8_t, double, bits_double(double_bits(x) & INT64_MAX) < INFINITY)

INLINE int64_t total_order_f64(double x) {
  const uint64_t bits = double_bits(x);
  return (int64_t)(bits ^ (bits >> 63 != 0 ? (uint64_t)INT64_MAX : 0u));
}

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_DOUBLE_H_ */

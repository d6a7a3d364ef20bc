/* The part of vector_math.h that computes in float32: the functions of networks. The polynomials
 * come from a minimax fit of what they compute, lowest coefficients rounded first.
 *
 * No fused multiply-adds, so that all instruction sets give the same bits: what a step loses is
 * kept small by adding the leading term of each series last. */
#ifndef TREMULA_OPS_ELEMENTWISE_VECTOR_MATH_SINGLE_H_
#define TREMULA_OPS_ELEMENTWISE_VECTOR_MATH_SINGLE_H_

#include "ops/elementwise/vector_bits.h"

/* NaN stays NaN, here and in what follows from it. */
INLINE float at_least(float x, float low) { return x < low ? low : x; }
INLINE float at_most(float x, float high) { return x > high ? high : x; }
/* By bits: of a conditional the compiler would compute what follows it twice. */
INLINE float pick(uint32_t mask, float yes, float no) {
  return bits_float((float_bits(yes) & mask) | (float_bits(no) & ~mask));
}
/* 2^k for -126 <= k <= 127. */
INLINE float power_of_two(int32_t k) { return bits_float((uint32_t)(k + 127) << 23); }

/* The high part has 15 bits: its products with exponents are exact. */
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f

/* exp(x) = 2^*k (1 + result), for -150 ln 2 <= x <= 150 ln 2. */
INLINE float exp_reduced(float x, int32_t *k) {
  const float magic = 0x1.8p23f;
  const float t = x * 0x1.715476p+0f + magic;
  const float n = t - magic;
  *k = (int32_t)(float_bits(t) - float_bits(magic));
  const float r = (x - n * LN2_HIGH) - n * LN2_LOW;
  float p = 0x1.6d7c9ep-10f;
  p = p * r + 0x1.123afep-7f;
  p = p * r + 0x1.5554bep-5f;
  p = p * r + 0x1.555490p-3f;
  p = p * r + 0.5f;
  return p * (r * r) + r;
}
/* In two factors, for results that are denormal or infinite. */
INLINE float exp_limited(float x) {
  int32_t k;
  const float y = 1.0f + exp_reduced(x, &k);
  const int32_t half = k >> 1;
  return (y * power_of_two(half)) * power_of_two(k - half);
}
INLINE float exp_f32(float x) { return exp_limited(at_most(at_least(x, -104.0f), 89.0f)); }
INLINE float expm1_f32(float x) {
  int32_t k;
  const float p = exp_reduced(at_most(at_least(x, -20.0f), 89.0f), &k);
  const float s = power_of_two(k - 1); /* half of it, which does not overflow */
  const float r = (s * p + (s - 0.5f)) * 2.0f;
  return abs_f32(x) < 0x1p-25f ? x : r;
}
/* By exp(-2 |x|) - 1. */
INLINE float tanh_f32(float x) {
  int32_t k;
  const float p = exp_reduced(at_least(-2.0f * abs_f32(x), -20.0f), &k);
  const float s = power_of_two(k);
  const float t = s * p + (s - 1.0f);
  return sign_of(t / (t + 2.0f), x);
}
INLINE float logistic_f32(float x) {
  const float e = exp_limited(at_least(-abs_f32(x), -104.0f));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* log(1 + f) + k ln 2, for 1 + f from sqrt(1/2) to sqrt(2). */
INLINE float log_reduced(float f, float k) {
  const float z = f * f;
  float p = -0x1.425120p-4f;
  p = p * f + 0x1.08239ap-3f;
  p = p * f - 0x1.0cf472p-3f;
  p = p * f + 0x1.226498p-3f;
  p = p * f - 0x1.5475b2p-3f;
  p = p * f + 0x1.99a5e2p-3f;
  p = p * f - 0x1.00022ap-2f;
  p = p * f + 0x1.55554ap-2f;
  const float rest = (p * (f * z) + k * LN2_LOW) - 0.5f * z;
  return (f + rest) + k * LN2_HIGH;
}
/* x = 2^(result) m, for a positive, finite, normal x. */
INLINE int32_t split_exponent(float x, float *m) {
  const uint32_t bits = float_bits(x) - 0x3f3504f3u;
  *m = bits_float((bits & 0x007fffffu) + 0x3f3504f3u);
  return (int32_t)bits >> 23;
}
INLINE float log_f32(float x) {
  const int denormal = x < 0x1p-126f;
  float m;
  const int32_t k = split_exponent(denormal ? x * 0x1p23f : x, &m);
  const float r = log_reduced(m - 1.0f, (float)(denormal ? k - 23 : k));
  const float zero = x == 0.0f ? -INFINITY : r;
  const float end = x < INFINITY ? zero : x;
  return x < 0.0f ? NAN : end;
}
INLINE float log1p_f32(float x) {
  const float u = 1.0f + x;
  const float lost = x < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
  float m;
  const int32_t k = split_exponent(u, &m);
  const float f = (m - 1.0f) + lost * power_of_two(k > 100 ? -100 : -k);
  const float r = log_reduced(f, (float)k);
  const float pole = x == -1.0f ? -INFINITY : r;
  const float end = x < INFINITY ? pole : x;
  const float value = x == 0.0f ? x : end;
  return x < -1.0f ? NAN : value;
}

/* Below 1 a polynomial of the square; from there to 4 by one that is log(erfc). */
INLINE float erf_f32(float x) {
  const float a = at_most(abs_f32(x), 4.0f);
  const uint32_t near = a < 1.0f ? 0xffffffffu : 0u;
  const float t = pick(near, a * a, a);
  float p = pick(near, 0x1.4771fcp-14f, 0x1.86df46p-13f);
  p = p * t + pick(near, -0x1.a3515ep-11f, -0x1.825be2p-9f);
  p = p * t + pick(near, 0x1.53f224p-8f, 0x1.65cbdep-6f);
  p = p * t + pick(near, -0x1.b7f71ap-6f, -0x1.a65372p-4f);
  p = p * t + pick(near, 0x1.ce2ce6p-4f, -0x1.46bae6p-1f);
  p = p * t + pick(near, -0x1.81273ep-2f, -0x1.2088ecp+0f);
  p = p * t + pick(near, 0x1.06eba8p-3f, -0x1.661a16p-12f);
  int32_t k;
  const float e = exp_reduced(p, &k);
  const float s = power_of_two(k);
  const float r = pick(near, a + a * p, 1.0f - (s + s * e));
  return sign_of(r, x);
}

#endif /* TREMULA_OPS_ELEMENTWISE_VECTOR_MATH_SINGLE_H_ */

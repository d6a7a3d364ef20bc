/* Owns: the vectorised loops (vector.h). The file is compiled once for each instruction set, with
 * TRM_ISA as its name. It is written so that the compiler vectorises it and all sets give the same
 * bits: no fused multiply-adds, and sums in a number of lanes that does not depend on the set. */
#include "host/ops/elementwise/vector.h"

#include "host/ops/elementwise/vector_loops.h"
#include "host/ops/elementwise/vector_math.h"

#if defined(__F16C__)
#include <immintrin.h>
#else
#include "base/half.h"
#endif

/* ---- Integers and pred ---------------------------------------------------------------------- */

#define SIGNED_TYPES(M)     \
  M(S8, int8_t, uint8_t, 8) \
  M(S16, int16_t, uint16_t, 16) M(S32, int32_t, uint32_t, 32) M(S64, int64_t, uint64_t, 64)
#define UNSIGNED_TYPES(M)    \
  M(U8, uint8_t, uint8_t, 8) \
  M(U16, uint16_t, uint16_t, 16) M(U32, uint32_t, uint32_t, 32) M(U64, uint64_t, uint64_t, 64)
#define INTEGER_TYPES(M) SIGNED_TYPES(M) UNSIGNED_TYPES(M)

#define INTEGER_LOOPS(V, T, U, bits)                                                           \
  LOOP2(add_##V, T, T, (U)((U)x + (U)y))                                                       \
  LOOP2(subtract_##V, T, T, (U)((U)x - (U)y))                                                  \
  LOOP2(multiply_##V, T, T, (U)((uint64_t)(U)x * (uint64_t)(U)y))                              \
  LOOP2(maximum_##V, T, T, x > y ? x : y)                                                      \
  LOOP2(minimum_##V, T, T, x < y ? x : y)                                                      \
  LOOP2(and_##V, T, T, x &y)                                                                   \
  LOOP2(or_##V, T, T, x | y)                                                                   \
  LOOP2(xor_##V, T, T, x ^ y)                                                                  \
  LOOP1(not_##V, T, T, ~x)                                                                     \
  LOOP1(negate_##V, T, T, (U)(0u - (U)x))                                                      \
  LOOP2(shift_left_##V, T, T, (U)y < bits ? (U)((uint64_t)(U)x << ((U)y & (bits - 1))) : (U)0) \
  LOOP2(shift_logical_##V, T, T, (U)y < bits ? (U)((U)x >> ((U)y & (bits - 1))) : (U)0)        \
  LOOP3(clamp_##V, T, T, (x > y ? x : y) < z ? (x > y ? x : y) : z)                            \
  LOOP1(popcnt_##V, T, T, __builtin_popcountll((uint64_t)(U)x))                                \
  LOOP1(clz_##V, T, T, (U)x == 0 ? bits : __builtin_clzll((uint64_t)(U)x) - (64 - bits))       \
  LOOP2(compare_EQ_##V, uint8_t, T, x == y)                                                    \
  LOOP2(compare_NE_##V, uint8_t, T, x != y)                                                    \
  LOOP2(compare_GE_##V, uint8_t, T, x >= y)                                                    \
  LOOP2(compare_GT_##V, uint8_t, T, x > y)                                                     \
  LOOP2(compare_LE_##V, uint8_t, T, x <= y)                                                    \
  LOOP2(compare_LT_##V, uint8_t, T, x < y)
INTEGER_TYPES(INTEGER_LOOPS)

/* Integers of up to 32 bits are divided as doubles, since vectors divide only floats. Cutting off
 * the fraction is exact: a quotient that is no integer is at least 1 / |y| away from one, and a
 * double rounds it by less than |x / y| / 2^52. */
#define QUOTIENT(T, bits, x, y) (bits <= 32 ? (T)((double)(x) / (double)(y)) : (T)((x) / (y)))
/* y, or 1 where 0 and -1 have results of their own. */
#define DIVISOR(T, y) ((T)((y) == 0 || (y) == (T) - 1 ? 1 : (y)))

#define SIGNED_LOOPS(V, T, U, bits)                                            \
  LOOP1(abs_##V, T, T, x < 0 ? (U)(0u - (U)x) : (U)x)                          \
  LOOP1(sign_##V, T, T, (x > 0) - (x < 0))                                     \
  LOOP2(shift_arithmetic_##V, T, T, x >> ((U)y < bits ? (U)y : (U)(bits - 1))) \
  LOOP2(divide_##V, T, T,                                                      \
        y == 0    ? (T) - 1                                                    \
        : y == -1 ? (T)(U)(0u - (U)x)                                          \
                  : QUOTIENT(T, bits, x, DIVISOR(T, y)))                       \
  LOOP2(remainder_##V, T, T,                                                   \
        y == 0    ? x                                                          \
        : y == -1 ? (T)0                                                       \
                  : (T)((U)x - 1u * (U)QUOTIENT(T, bits, x, DIVISOR(T, y)) * (U)y))
SIGNED_TYPES(SIGNED_LOOPS)

#define UNSIGNED_LOOPS(V, T, U, bits)                                                        \
  LOOP1(abs_##V, T, T, x)                                                                    \
  LOOP1(sign_##V, T, T, x != 0)                                                              \
  LOOP2(divide_##V, T, T, y == 0 ? (T) - 1 : QUOTIENT(T, bits, x, y == 0 ? 1 : y))           \
  LOOP2(remainder_##V, T, T, y == 0 ? x : (T)(x - QUOTIENT(T, bits, x, y == 0 ? 1 : y) * y)) \
  /* The sign bit is spread for unsigned types too. */                                       \
  LOOP2(shift_arithmetic_##V, T, T, (int##bits##_t)x >> (y < bits ? y : (U)(bits - 1)))
UNSIGNED_TYPES(UNSIGNED_LOOPS)

/* The upper half of a product: in a type of twice the bits, or of four products of halves. */
INLINE uint64_t upper_half(uint64_t x, uint64_t y) {
  const uint64_t low = UINT32_MAX, p = (x & low) * (y & low), q = (x & low) * (y >> 32);
  const uint64_t r = (x >> 32) * (y & low) + (p >> 32) + (q & low);
  return (x >> 32) * (y >> 32) + (q >> 32) + (r >> 32);
}
#define UPPER_LOOP(V, T, wide, bits) LOOP2(mulhi_##V, T, T, (T)((wide)x * (wide)y >> bits))
UPPER_LOOP(S8, int8_t, int32_t, 8)
UPPER_LOOP(S16, int16_t, int32_t, 16)
UPPER_LOOP(S32, int32_t, int64_t, 32)
UPPER_LOOP(U8, uint8_t, uint32_t, 8)
UPPER_LOOP(U16, uint16_t, uint32_t, 16)
UPPER_LOOP(U32, uint32_t, uint64_t, 32)
LOOP2(mulhi_U64, uint64_t, uint64_t, upper_half(x, y))
LOOP2(mulhi_S64, int64_t, int64_t,
      (int64_t)(upper_half((uint64_t)x, (uint64_t)y) - (x < 0 ? (uint64_t)y : 0) -
                (y < 0 ? (uint64_t)x : 0)))

LOOP2(and_PRED, uint8_t, uint8_t, x &y)
LOOP2(or_PRED, uint8_t, uint8_t, x | y)
LOOP2(xor_PRED, uint8_t, uint8_t, x ^ y)
LOOP1(not_PRED, uint8_t, uint8_t, x == 0)

/* ---- float32 -------------------------------------------------------------------------------- */

/* Total order: negative NaN < -inf < ... < -0 < 0 < ... < inf < NaN. */
INLINE int32_t total_order(float x) {
  const uint32_t bits = float_bits(x);
  return (int32_t)(bits ^ (bits >> 31 != 0 ? 0x7fffffffu : 0u));
}

/* The loops that float32 and float64 share; `order` maps a number to its place in the total order.
 */
#define FLOAT_LOOPS(V, T, order)                                  \
  LOOP2(add_##V, T, T, x + y)                                     \
  LOOP2(subtract_##V, T, T, x - y)                                \
  LOOP2(multiply_##V, T, T, x *y)                                 \
  LOOP2(divide_##V, T, T, x / y)                                  \
  LOOP1(sign_##V, T, T, x > (T)0 ? (T)1 : x < (T)0 ? (T) - 1 : x) \
  LOOP2(compare_EQ_##V, uint8_t, T, x == y)                       \
  LOOP2(compare_NE_##V, uint8_t, T, x != y)                       \
  LOOP2(compare_GE_##V, uint8_t, T, x >= y)                       \
  LOOP2(compare_GT_##V, uint8_t, T, x > y)                        \
  LOOP2(compare_LE_##V, uint8_t, T, x <= y)                       \
  LOOP2(compare_LT_##V, uint8_t, T, x < y)                        \
  LOOP2(total_EQ_##V, uint8_t, T, order(x) == order(y))           \
  LOOP2(total_NE_##V, uint8_t, T, order(x) != order(y))           \
  LOOP2(total_GE_##V, uint8_t, T, order(x) >= order(y))           \
  LOOP2(total_GT_##V, uint8_t, T, order(x) > order(y))            \
  LOOP2(total_LE_##V, uint8_t, T, order(x) <= order(y))           \
  LOOP2(total_LT_##V, uint8_t, T, order(x) < order(y))

FLOAT_LOOPS(F32, float, total_order)
LOOP2(maximum_F32, float, float, max_nan(x, y))
LOOP2(minimum_F32, float, float, min_nan(x, y))
LOOP2(remainder_F32, float, float, fmodf(x, y))
LOOP2(power_F32, float, float, pow_f32(x, y))
LOOP2(atan2_F32, float, float, atan2_f32(x, y))
LOOP3(clamp_F32, float, float, min_nan(z, max_nan(x, y)))

#include "host/ops/elementwise/vector_pairs.h"

LOOP1(abs_F32, float, float, abs_f32(x))
LOOP1(negate_F32, float, float, bits_float(float_bits(x) ^ 0x80000000u))
LOOP1(ceil_F32, float, float, ceil_f32(x))
LOOP1(floor_F32, float, float, floor_f32(x))
LOOP1(rint_F32, float, float, rint_f32(x))
LOOP1(round_F32, float, float, round_f32(x))
LOOP1(sqrt_F32, float, float, sqrtf(x))
LOOP1(rsqrt_F32, float, float, 1.0f / sqrtf(x))
LOOP1(exp_F32, float, float, exp_f32(x))
LOOP1(expm1_F32, float, float, expm1_f32(x))
LOOP1(log_F32, float, float, log_f32(x))
LOOP1(log1p_F32, float, float, log1p_f32(x))
LOOP1(tanh_F32, float, float, tanh_f32(x))
LOOP1(logistic_F32, float, float, logistic_f32(x))
LOOP1(cbrt_F32, float, float, cbrt_f32(x))
LOOP1(erf_F32, float, float, erf_f32(x))
LOOP1(acos_F32, float, float, acos_f32(x))
LOOP1(acosh_F32, float, float, acosh_f32(x))
LOOP1(asin_F32, float, float, asin_f32(x))
LOOP1(asinh_F32, float, float, asinh_f32(x))
LOOP1(atanh_F32, float, float, atanh_f32(x))
LOOP1(cosh_F32, float, float, cosh_f32(x))
LOOP1(sinh_F32, float, float, sinh_f32(x))
LOOP1(is_finite_F32, uint8_t, float, abs_f32(x) < INFINITY)

#include "host/ops/elementwise/vector_double.h"
FLOAT_LOOPS(F64, double, total_order_f64)

/* The fast reduction of angles ends at 2^28. Strips with a larger angle go element by element
 * through libm, and are rounded once too. */
#define ANGLE_LOOP(name, function, slow)                                                \
  LOOP1(name##_near, float, float, function(x))                                         \
  static void name(SIGNATURE) {                                                         \
    const float *const p = a;                                                           \
    uint32_t largest = 0;                                                               \
    for (size_t i = 0; i < n; ++i) {                                                    \
      const uint32_t x = float_bits(p[i]) & 0x7fffffffu;                                \
      const uint32_t finite = x < 0x7f800000u ? x : 0;                                  \
      largest = finite > largest ? finite : largest;                                    \
    }                                                                                   \
    if (largest <= 0x4d800000u) {                                                       \
      name##_near(out, a, b, c, n);                                                     \
      return;                                                                           \
    }                                                                                   \
    float *const o = out;                                                               \
    for (size_t i = 0; i < n; ++i) {                                                    \
      const float x = p[i];                                                             \
      if (abs_f32(x) > 0x1p28f && abs_f32(x) < INFINITY) o[i] = (float)slow((double)x); \
      else name##_near(&o[i], &x, NULL, NULL, 1);                                       \
    }                                                                                   \
  }
ANGLE_LOOP(sin_F32, sin_f32, sin)
ANGLE_LOOP(cos_F32, cos_f32, cos)
ANGLE_LOOP(tan_F32, tan_f32, tan)

/* ---- Conversions ---------------------------------------------------------------------------- */

#define CONVERTS_FROM(V, T, U, bits)            \
  LOOP1(convert_##V##_PRED, uint8_t, T, x != 0) \
  LOOP1(convert_##V##_S8, int8_t, T, x)         \
  LOOP1(convert_##V##_S16, int16_t, T, x)       \
  LOOP1(convert_##V##_S32, int32_t, T, x)       \
  LOOP1(convert_##V##_S64, int64_t, T, x)       \
  LOOP1(convert_##V##_U8, uint8_t, T, x)        \
  LOOP1(convert_##V##_U16, uint16_t, T, x)      \
  LOOP1(convert_##V##_U32, uint32_t, T, x)      \
  LOOP1(convert_##V##_U64, uint64_t, T, x)      \
  LOOP1(convert_##V##_F32, float, T, x)         \
  LOOP1(convert_##V##_F64, double, T, x)
INTEGER_TYPES(CONVERTS_FROM)

/* As trm_value_convert() with `wraps`: a number out of range, and NaN, becomes the smallest int32
 * or int64. */
#define IN_RANGE(bound) ((x >= -(bound)) & (x < (bound)) ? x : -(bound))
#define TO_INT32 ((int32_t)IN_RANGE(0x1p31f))
#define TO_INT64 ((int64_t)IN_RANGE(0x1p63f))
#define WRAPS_FROM_FLOAT(V, T)                 \
  LOOP1(wrap_##V##_S8, int8_t, T, TO_INT32)    \
  LOOP1(wrap_##V##_S16, int16_t, T, TO_INT32)  \
  LOOP1(wrap_##V##_U8, uint8_t, T, TO_INT32)   \
  LOOP1(wrap_##V##_U16, uint16_t, T, TO_INT32) \
  LOOP1(wrap_##V##_S32, int32_t, T, TO_INT32)  \
  LOOP1(wrap_##V##_U32, uint32_t, T, TO_INT64) \
  LOOP1(wrap_##V##_S64, int64_t, T, TO_INT64)  \
  LOOP1(wrap_##V##_U64, uint64_t, T,           \
        (x >= (T)0x1p63) & (x < (T)0x1p64) ? (uint64_t)x : (uint64_t)TO_INT64)
WRAPS_FROM_FLOAT(F32, float)
WRAPS_FROM_FLOAT(F64, double)
#define WRAPS(V)                                                                             \
  {[TRM_V_S8] = wrap_##V##_S8,   [TRM_V_S16] = wrap_##V##_S16, [TRM_V_S32] = wrap_##V##_S32, \
   [TRM_V_S64] = wrap_##V##_S64, [TRM_V_U8] = wrap_##V##_U8,   [TRM_V_U16] = wrap_##V##_U16, \
   [TRM_V_U32] = wrap_##V##_U32, [TRM_V_U64] = wrap_##V##_U64}

/* The same without: the nearest integer of the type, and 0 for NaN. */
#define BETWEEN(low, high) (x > (low) ? x < (high) ? x : (high) : x <= (low) ? (low) : 0)
#define CONVERTS_FROM_FLOAT(V, T)                                                          \
  LOOP1(convert_##V##_PRED, uint8_t, T, x != (T)0)                                         \
  LOOP1(convert_##V##_S8, int8_t, T, (int32_t)BETWEEN((T) - 128, (T)127))                  \
  LOOP1(convert_##V##_S16, int16_t, T, (int32_t)BETWEEN((T) - 32768, (T)32767))            \
  LOOP1(convert_##V##_U8, uint8_t, T, (int32_t)BETWEEN((T)0, (T)255))                      \
  LOOP1(convert_##V##_U16, uint16_t, T, (int32_t)BETWEEN((T)0, (T)65535))                  \
  LOOP1(convert_##V##_S32, int32_t, T, x >= (T)0x1p31 ? INT32_MAX : x != x ? 0 : TO_INT32) \
  LOOP1(convert_##V##_U32, uint32_t, T,                                                    \
        x >= (T)0x1p32 ? UINT32_MAX : (uint32_t)(int64_t)(x > 0 && x < (T)0x1p32 ? x : 0)) \
  LOOP1(convert_##V##_S64, int64_t, T, x >= (T)0x1p63 ? INT64_MAX : x != x ? 0 : TO_INT64) \
  LOOP1(convert_##V##_U64, uint64_t, T,                                                    \
        x >= (T)0x1p64           ? UINT64_MAX                                              \
        : x > 0 && x < (T)0x1p64 ? (uint64_t)x                                             \
                                 : 0)                                                      \
  LOOP1(convert_##V##_F32, float, T, x)                                                    \
  LOOP1(convert_##V##_F64, double, T, x)
CONVERTS_FROM_FLOAT(F32, float)
CONVERTS_FROM_FLOAT(F64, double)

#if defined(__F16C__)
static void half_to_float(SIGNATURE) {
  UNUSED(b), UNUSED(c);
  float *const o = out;
  const uint16_t *const p = a;
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(o + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p + i))));
#endif
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(o + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + i))));
  for (; i < n; ++i) o[i] = _cvtsh_ss(p[i]);
}
static void float_to_half(SIGNATURE) {
  UNUSED(b), UNUSED(c);
  uint16_t *const o = out;
  const float *const p = a;
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(o + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(p + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) o[i] = (uint16_t)_cvtss_sh(p[i], _MM_FROUND_TO_NEAREST_INT);
}
static void round_half(SIGNATURE) {
  UNUSED(b), UNUSED(c);
  float *const o = out;
  const float *const p = a;
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(
        o + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(p + i), _MM_FROUND_TO_NEAREST_INT)));
  for (; i < n; ++i) o[i] = _cvtsh_ss((uint16_t)_cvtss_sh(p[i], _MM_FROUND_TO_NEAREST_INT));
}
#else
LOOP1(half_to_float, float, uint16_t, trm_half_to_float(x))
LOOP1(float_to_half, uint16_t, float, trm_float_to_half(x))
LOOP1(round_half, float, float, round_half_f32(x))
#endif

/* Limits a float beyond float16's range; 65520 is the least that rounds to more than 65504. */
LOOP1(half_largest, float, float,
      (abs_f32(x) > 65504.0f) & (abs_f32(x) < INFINITY) ? (x > 0.0f ? 65504.0f : -65504.0f) : x)
LOOP1(half_nan, float, float, (abs_f32(x) >= 65520.0f) & (abs_f32(x) < INFINITY) ? NAN : x)
#define IS_NEW_INFINITY \
  ((abs_f32(x) == INFINITY) & (abs_f32(y) < INFINITY) & (abs_f32(z) < INFINITY))
LOOP3(half_pole, float, float, IS_NEW_INFINITY ? NAN : x)
LOOP3(half_large, float, float,
      IS_NEW_INFINITY ? (y == 0.0f  ? NAN
                         : x > 0.0f ? 0x1p127f
                                    : -0x1p127f)
                      : x)

#include "host/ops/elementwise/vector_moves.h"

/* ---- Sums ----------------------------------------------------------------------------------- */

/* Blocks of 1024 are summed in 64 float32 lanes of 16 additions each; lanes and blocks are added in
 * double. */
enum { BLOCK = 1024 };

/* expression: the terms of the sum, from lanes x; element: the same from a float x, for the
 * tail. */
#define SUM_BODY(expression, element)                       \
  double total = 0.0;                                       \
  size_t i = 0;                                             \
  for (; i + LANES <= n;) {                                 \
    const size_t end = n - i < BLOCK ? n : i + BLOCK;       \
    lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};           \
    for (; i + 4 * LANES <= end; i += 4 * LANES) {          \
      lanes x;                                              \
      LOAD_LANES(x, a + i);                                 \
      s0 += expression;                                     \
      LOAD_LANES(x, a + i + LANES);                         \
      s1 += expression;                                     \
      LOAD_LANES(x, a + i + 2 * LANES);                     \
      s2 += expression;                                     \
      LOAD_LANES(x, a + i + 3 * LANES);                     \
      s3 += expression;                                     \
    }                                                       \
    for (; i + LANES <= end; i += LANES) {                  \
      lanes x;                                              \
      LOAD_LANES(x, a + i);                                 \
      s0 += expression;                                     \
    }                                                       \
    s0 = (s0 + s1) + (s2 + s3);                             \
    for (int l = 0; l < LANES; ++l) total += (double)s0[l]; \
  }                                                         \
  for (; i < n; ++i) {                                      \
    const float x = a[i];                                   \
    total += (double)(element);                             \
  }                                                         \
  return total;

static double sum_f32(const float *a, size_t n) { SUM_BODY(x, x) }
static double sum_squares_f32(const float *a, float mean, size_t n) {
  SUM_BODY((x - mean) * (x - mean), (x - mean) * (x - mean))
}
static double sum_half(const uint16_t *a, size_t n) {
  double total = 0.0;
  float block[BLOCK];
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    half_to_float(block, a + i, NULL, NULL, m);
    total += sum_f32(block, m);
  }
  return total;
}

#include "host/ops/elementwise/vector_rows.h"

/* ---- Pooling -------------------------------------------------------------------------------- */

static void keep_greater(float *best, int32_t *place, const float *x, int32_t at, size_t n) {
  IVDEP for (size_t i = 0; i < n; ++i) {
    const int keeps = best[i] > x[i];
    place[i] = keeps ? place[i] : at;
    best[i] = keeps ? best[i] : x[i];
  }
}
static void keep_greater_equal(float *best, int32_t *place, const float *x, int32_t at, size_t n) {
  IVDEP for (size_t i = 0; i < n; ++i) {
    const int keeps = best[i] >= x[i];
    place[i] = keeps ? place[i] : at;
    best[i] = keeps ? best[i] : x[i];
  }
}

/* ---- The table ------------------------------------------------------------------------------ */

#define INTEGER_ENTRIES(name)                                                 \
  [TRM_V_S8] = name##_S8, [TRM_V_S16] = name##_S16, [TRM_V_S32] = name##_S32, \
  [TRM_V_S64] = name##_S64, [TRM_V_U8] = name##_U8, [TRM_V_U16] = name##_U16, \
  [TRM_V_U32] = name##_U32, [TRM_V_U64] = name##_U64
#define FLOAT_ENTRIES(name) [TRM_V_F32] = name##_F32, [TRM_V_F64] = name##_F64
#define INTEGERS(name) {INTEGER_ENTRIES(name)}
#define FLOATS(name) {FLOAT_ENTRIES(name)}
#define NUMBERS(name) {INTEGER_ENTRIES(name), FLOAT_ENTRIES(name)}
#define BITS_OF(name, pred) {INTEGER_ENTRIES(name), [TRM_V_PRED] = pred}
#define ALL(name, pred) {INTEGER_ENTRIES(name), FLOAT_ENTRIES(name), [TRM_V_PRED] = pred}
#define TOTALS(type)                                                                              \
  [TRM_CMP_EQ] = total_EQ_##type, [TRM_CMP_NE] = total_NE_##type, [TRM_CMP_GE] = total_GE_##type, \
  [TRM_CMP_GT] = total_GT_##type, [TRM_CMP_LE] = total_LE_##type, [TRM_CMP_LT] = total_LT_##type

#define CONCATENATE_(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_(a, b)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

extern const trm_vector_ops CONCATENATE(trm_vector_ops_, TRM_ISA);
const trm_vector_ops CONCATENATE(trm_vector_ops_, TRM_ISA) = {
    .name = TEXT(TRM_ISA),
    .op =
        {
            [TRM_OP_ADD] = ALL(add, or_PRED),
            [TRM_OP_MULTIPLY] = ALL(multiply, and_PRED),
            [TRM_OP_MULHI] = INTEGERS(mulhi),
            [TRM_OP_MAXIMUM] = ALL(maximum, or_PRED),
            [TRM_OP_MINIMUM] = ALL(minimum, and_PRED),
            [TRM_OP_SUBTRACT] = ALL(subtract, xor_PRED),
            [TRM_OP_DIVIDE] = NUMBERS(divide),
            [TRM_OP_REMAINDER] = NUMBERS(remainder),
            [TRM_OP_CLAMP] = NUMBERS(clamp),
            [TRM_OP_ABS] = NUMBERS(abs),
            [TRM_OP_SIGN] = NUMBERS(sign),
            [TRM_OP_NEGATE] = NUMBERS(negate),
            [TRM_OP_AND] = BITS_OF(and, and_PRED),
            [TRM_OP_OR] = BITS_OF(or, or_PRED),
            [TRM_OP_XOR] = BITS_OF(xor, xor_PRED),
            [TRM_OP_NOT] = BITS_OF(not, not_PRED),
            [TRM_OP_SHIFT_LEFT] = INTEGERS(shift_left),
            [TRM_OP_SHIFT_RIGHT_LOGICAL] = INTEGERS(shift_logical),
            [TRM_OP_SHIFT_RIGHT_ARITHMETIC] = INTEGERS(shift_arithmetic),
            [TRM_OP_POPULATION_COUNT] = INTEGERS(popcnt),
            [TRM_OP_COUNT_LEADING_ZEROS] = INTEGERS(clz),
            [TRM_OP_POWER] = FLOATS(power),
            [TRM_OP_ATAN2] = FLOATS(atan2),
            [TRM_OP_CEIL] = FLOATS(ceil),
            [TRM_OP_FLOOR] = FLOATS(floor),
            [TRM_OP_ROUND_NEAREST_EVEN] = FLOATS(rint),
            [TRM_OP_ROUND_NEAREST_AFZ] = FLOATS(round),
            [TRM_OP_SQRT] = FLOATS(sqrt),
            [TRM_OP_RSQRT] = FLOATS(rsqrt),
            [TRM_OP_CBRT] = FLOATS(cbrt),
            [TRM_OP_EXPONENTIAL] = FLOATS(exp),
            [TRM_OP_EXPONENTIAL_MINUS_ONE] = FLOATS(expm1),
            [TRM_OP_LOG] = FLOATS(log),
            [TRM_OP_LOG_PLUS_ONE] = FLOATS(log1p),
            [TRM_OP_TANH] = FLOATS(tanh),
            [TRM_OP_LOGISTIC] = FLOATS(logistic),
            [TRM_OP_ERF] = FLOATS(erf),
            [TRM_OP_SINE] = FLOATS(sin),
            [TRM_OP_COSINE] = FLOATS(cos),
            [TRM_OP_TAN] = FLOATS(tan),
            [TRM_OP_ACOS] = FLOATS(acos),
            [TRM_OP_ACOSH] = FLOATS(acosh),
            [TRM_OP_ASIN] = FLOATS(asin),
            [TRM_OP_ASINH] = FLOATS(asinh),
            [TRM_OP_ATANH] = FLOATS(atanh),
            [TRM_OP_COSH] = FLOATS(cosh),
            [TRM_OP_SINH] = FLOATS(sinh),
            [TRM_OP_IS_FINITE] = FLOATS(is_finite),
        },
    .compare =
        {
            [TRM_CMP_EQ] = ALL(compare_EQ, compare_EQ_U8),
            [TRM_CMP_NE] = ALL(compare_NE, compare_NE_U8),
            [TRM_CMP_GE] = ALL(compare_GE, compare_GE_U8),
            [TRM_CMP_GT] = ALL(compare_GT, compare_GT_U8),
            [TRM_CMP_LE] = ALL(compare_LE, compare_LE_U8),
            [TRM_CMP_LT] = ALL(compare_LT, compare_LT_U8),
        },
    .compare_total = {[TRM_V_F32] = {TOTALS(F32)}, [TRM_V_F64] = {TOTALS(F64)}},
    .convert =
        {
            [TRM_V_PRED] = ALL(convert_U8, convert_U8_PRED),
            [TRM_V_S8] = ALL(convert_S8, convert_S8_PRED),
            [TRM_V_S16] = ALL(convert_S16, convert_S16_PRED),
            [TRM_V_S32] = ALL(convert_S32, convert_S32_PRED),
            [TRM_V_S64] = ALL(convert_S64, convert_S64_PRED),
            [TRM_V_U8] = ALL(convert_U8, convert_U8_PRED),
            [TRM_V_U16] = ALL(convert_U16, convert_U16_PRED),
            [TRM_V_U32] = ALL(convert_U32, convert_U32_PRED),
            [TRM_V_U64] = ALL(convert_U64, convert_U64_PRED),
            [TRM_V_F32] = ALL(convert_F32, convert_F32_PRED),
            [TRM_V_F64] = ALL(convert_F64, convert_F64_PRED),
        },
    .wrap = {WRAPS(F32), WRAPS(F64)},
    .select = {select_0, select_1, select_2, select_3},
    .copy = {copy_0, copy_1, copy_2, copy_3},
    .half_to_float = half_to_float,
    .float_to_half = float_to_half,
    .round_half = round_half,
    .half_limit = {[TRM_HALF_LARGEST] = half_largest, [TRM_HALF_NAN] = half_nan},
    .half_pole = half_pole,
    .half_large = half_large,
    .sum_f32 = sum_f32,
    .sum_half = sum_half,
    .max_f32 = max_f32,
    .min_f32 = min_f32,
    .sum_squares_f32 = sum_squares_f32,
    .accumulate_double = accumulate_double,
    .accumulate_8 = accumulate_8,
    .scan_double = scan_double,
    .keep_greater = keep_greater,
    .keep_greater_equal = keep_greater_equal,
    .squares_rows = squares_rows,
    .products_rows = products_rows,
    .pair = {[TRM_FIRST_ADD] = PAIR_ENTRIES(pair_add),
             [TRM_FIRST_SUBTRACT] = PAIR_ENTRIES(pair_subtract),
             [TRM_FIRST_MULTIPLY] = PAIR_ENTRIES(pair_multiply)},
    .scalar = {[TRM_SCALAR_A] = SINGLE_ENTRIES(a),
               [TRM_SCALAR_B] = SINGLE_ENTRIES(b),
               [TRM_SCALAR_A | TRM_SCALAR_C] = {[TRM_OP_CLAMP] = clamp_ac}},
    .scalar_pair = {[TRM_SCALAR_B] = SCALAR_ENTRIES(b),
                    [TRM_SCALAR_C] = SCALAR_ENTRIES(c),
                    [TRM_SCALAR_B | TRM_SCALAR_C] = SCALAR_ENTRIES(bc)},
    .polynomial = polynomial,
    .normalize = normalize,
    .normalize_grad = normalize_grad,
    .strided = {strided_0, strided_1, strided_2, strided_3},
    .transpose = {transpose_0, transpose_1, transpose_words, transpose_3},
};

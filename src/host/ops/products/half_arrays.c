/* Owns: converting arrays of halves and bfloat16s to float32 and back. The CPU's conversions (F16C,
 * AVX-512) give the bits of base/half.h, also for NaNs: both make them quiet and keep the upper
 * bits. */
#include "host/ops/products/half_arrays.h"

#include "base/half.h"
#include "base/integers.h"
#include "base/limits.h"
#include "host/ops/threads.h"

#define CHUNK ((int64_t)1 << 14)

#if defined(__x86_64__)
#include <immintrin.h>

/* clang 14 (scripts/fuzz.sh) does not know "f16c", which every CPU with avx2 has. */
#if defined(__clang__)
#define F16C "avx2"
#else
#define F16C "f16c"
#endif

/* The compilers' libraries say so only where the system keeps the registers of AVX, too. */
static bool has_f16c(void) { return __builtin_cpu_supports(F16C); }

__attribute__((target("avx,f16c"))) static void widen_half_f16c(const uint16_t *from, float *to,
                                                                int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
  }
  for (; i < count; ++i) to[i] = trm_half_to_float(from[i]);
}

__attribute__((target("avx,f16c"))) static void narrow_half_f16c(const float *from, uint16_t *to,
                                                                 int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128((__m128i *)(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < count; ++i) to[i] = trm_float_to_half(from[i]);
}
#endif

static void widen_chunk(trm_dtype dtype, const uint16_t *from, float *to, int64_t count) {
#if defined(__x86_64__)
  if (dtype == TRM_F16 && has_f16c()) {
    widen_half_f16c(from, to, count);
    return;
  }
#endif
  if (dtype == TRM_F16) {
    for (int64_t i = 0; i < count; ++i) to[i] = trm_half_to_float(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = trm_bfloat16_to_float(from[i]);
  }
}

static void narrow_chunk(trm_dtype dtype, const float *from, uint16_t *to, int64_t count) {
#if defined(__x86_64__)
  if (dtype == TRM_F16 && has_f16c()) {
    narrow_half_f16c(from, to, count);
    return;
  }
#endif
  if (dtype == TRM_F16) {
    for (int64_t i = 0; i < count; ++i) to[i] = trm_float_to_half(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = trm_float_to_bfloat16(from[i]);
  }
}

/* Converts the elements [begin, begin + count) of whole arrays. */
typedef void (*convert)(trm_dtype dtype, const void *from, void *to, int64_t begin, int64_t count);

static void widen(trm_dtype dtype, const void *from, void *to, int64_t begin, int64_t count) {
  widen_chunk(dtype, (const uint16_t *)from + begin, (float *)to + begin, count);
}

static void narrow(trm_dtype dtype, const void *from, void *to, int64_t begin, int64_t count) {
  narrow_chunk(dtype, (const float *)from + begin, (uint16_t *)to + begin, count);
}

static void convert_all(convert one, trm_dtype dtype, const void *from, void *to, int64_t count) {
  const int64_t chunks = trm_divide_up(count, CHUNK);
  if (chunks <= 1) { /* the system is not asked for threads */
    one(dtype, from, to, 0, count);
    return;
  }
#pragma omp parallel for schedule(static) if (TRM_OPENMP_THREADS && \
                                                  count >= TRM_CONVERT_LEAST_SHARED)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t begin = chunk * CHUNK;
    one(dtype, from, to, begin, trm_least(CHUNK, count - begin));
  }
}

void trm_halves_widen(trm_dtype dtype, const void *from, float *to, int64_t count) {
  convert_all(widen, dtype, from, to, count);
}

void trm_halves_narrow(trm_dtype dtype, const float *from, void *to, int64_t count) {
  convert_all(narrow, dtype, from, to, count);
}

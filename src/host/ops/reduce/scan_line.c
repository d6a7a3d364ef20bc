/* Owns: running sums of floats (scan_line.h), in double, eight elements at a time. The sums of
 * eight form a tree, which is the same for each instruction set:
 *
 *     pairs         x1 += x0, x3 += x2, x5 += x4, x7 += x6
 *     fours         x2 += x1, x3 += x1, x6 += x5, x7 += x5
 *     eight         x4 += x3, ..., x7 += x3 */
#include "host/ops/reduce/scan_line.h"

#include <stddef.h>
#include <string.h>

enum { GROUP = 8 };

/* Running sums of four elements. An array would be kept in memory. */
typedef struct four {
  double a, b, c, d;
} four;

static inline __attribute__((always_inline)) four load_four(const float *x, int64_t step) {
  const double a = (double)x[0], b = a + (double)x[step];
  const double c = (double)x[2 * step], d = c + (double)x[3 * step];
  return (four){a, b, c + b, d + b};
}

static inline __attribute__((always_inline)) void store_four(double sum, float *out, four t,
                                                             int64_t step) {
  out[0] = (float)(sum + t.a), out[step] = (float)(sum + t.b);
  out[2 * step] = (float)(sum + t.c), out[3 * step] = (float)(sum + t.d);
}

static inline __attribute__((always_inline)) double scan_group(double sum, float *out,
                                                               const float *x, int64_t step) {
  const four low = load_four(x, step);
  four high = load_four(x + 4 * step, step);
  high = (four){high.a + low.d, high.b + low.d, high.c + low.d, high.d + low.d};
  if (out != NULL) store_four(sum, out, low, step), store_four(sum, out + 4 * step, high, step);
  return sum + high.d;
}

static double scan_groups(double sum, float *out, const float *x, int64_t groups, bool is_reverse) {
  const int64_t step = is_reverse ? -1 : 1;
  for (int64_t g = 0; g < groups; ++g, x += step * GROUP) {
    sum = scan_group(sum, out, x, step);
    if (out != NULL) out += step * GROUP;
  }
  return sum;
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static double scan_groups_wide(double first, float *out,
                                                                  const float *x, int64_t groups,
                                                                  bool is_reverse) {
  const __m512i fourth = _mm512_set1_epi64(3), eighth = _mm512_set1_epi64(7);
  const __m512i turned = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const int64_t step = is_reverse ? -GROUP : GROUP;
  if (is_reverse) x -= GROUP - 1, out = out == NULL ? NULL : out - (GROUP - 1);
  __m512d sum = _mm512_set1_pd(first);
  for (int64_t g = 0; g < groups; ++g, x += step) {
    __m512d t = _mm512_cvtps_pd(_mm256_loadu_ps(x));
    if (is_reverse) t = _mm512_permutexvar_pd(turned, t);
    t = _mm512_mask_add_pd(t, 0xAA, t, _mm512_movedup_pd(t));
    t = _mm512_mask_add_pd(t, 0xCC, t, _mm512_permutex_pd(t, 0x55));
    t = _mm512_mask_add_pd(t, 0xF0, t, _mm512_permutexvar_pd(fourth, t));
    if (out != NULL) {
      __m512d sums = _mm512_add_pd(sum, t);
      if (is_reverse) sums = _mm512_permutexvar_pd(turned, sums);
      _mm256_storeu_ps(out, _mm512_cvtpd_ps(sums));
      out += step;
    }
    sum = _mm512_add_pd(sum, _mm512_permutexvar_pd(eighth, t));
  }
  return _mm512_cvtsd_f64(sum);
}
#else
#define scan_groups_wide scan_groups
#endif

double trm_scan_line(const trm_vector_ops *ops, double sum, float *out, const float *x,
                     int64_t count, bool is_reverse) {
  const int64_t groups = count / GROUP, step = is_reverse ? -1 : 1;
  const bool is_wide = strcmp(ops->name, "avx512") == 0;
  sum = (is_wide ? scan_groups_wide : scan_groups)(sum, out, x, groups, is_reverse);
  for (int64_t i = groups * GROUP; i < count; ++i) {
    sum += (double)x[i * step];
    if (out != NULL) out[i * step] = (float)sum;
  }
  return sum;
}

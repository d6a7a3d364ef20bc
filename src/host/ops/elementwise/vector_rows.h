/* The part of vector.c that works on rows: sums of rows in lanes, running sums, batch norm. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_ROWS_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_ROWS_H_

#include "host/ops/elementwise/vector_bits.h"

#ifndef IVDEP
#define IVDEP _Pragma("GCC ivdep")
#endif

/* LANES values in vectors that the CPU has: of larger ones compilers compare number by number. */
#if defined(__AVX512F__)
enum { PART_LANES = 16 };
#elif defined(__AVX2__)
enum { PART_LANES = 8 };
#else
enum { PART_LANES = 4 };
#endif
enum { PARTS = LANES / PART_LANES };
typedef float part __attribute__((vector_size(PART_LANES * sizeof(float))));
typedef int32_t part_bits __attribute__((vector_size(PART_LANES * sizeof(int32_t))));

/* Macros, because a function that returns vectors has another ABI in each instruction set. */
#define PICK_LANES(mask, yes, no) (part)(((part_bits)(yes) & (mask)) | ((part_bits)(no) & ~(mask)))
#define MAX_LANES(x, y) PICK_LANES(((x) >= (y)) | ((x) != (x)), x, y)
#define MIN_LANES(x, y) PICK_LANES(((x) <= (y)) | ((x) != (x)), x, y)

/* Of lanes that lie so far apart the lower one gets the extreme. */
#define MEET(VECTOR_FUNCTION, apart)                                       \
  do {                                                                     \
    for (size_t l = 0; l < PART_LANES; ++l) s1[0][l] = s0[0][l ^ (apart)]; \
    s0[0] = VECTOR_FUNCTION(s0[0], s1[0]);                                 \
  } while (0)

/* Lane i takes every LANESth element; then lanes that lie 8, 4, 2 and 1 apart meet. */
#define EXTREME(name, function, VECTOR_FUNCTION)                                          \
  static float name(const float *a, size_t n) {                                           \
    float best = a[0];                                                                    \
    size_t i = 0;                                                                         \
    if (n >= 2 * LANES) {                                                                 \
      part s0[PARTS], s1[PARTS], x;                                                       \
      memcpy(s0, a, sizeof s0);                                                           \
      memcpy(s1, a + LANES, sizeof s1);                                                   \
      for (i = 2 * LANES; i + 2 * LANES <= n; i += 2 * LANES) {                           \
        for (size_t p = 0; p < PARTS; ++p) {                                              \
          LOAD_LANES(x, a + i + p * PART_LANES);                                          \
          s0[p] = VECTOR_FUNCTION(s0[p], x);                                              \
          LOAD_LANES(x, a + i + LANES + p * PART_LANES);                                  \
          s1[p] = VECTOR_FUNCTION(s1[p], x);                                              \
        }                                                                                 \
      }                                                                                   \
      for (size_t p = 0; p < PARTS; ++p) s0[p] = VECTOR_FUNCTION(s0[p], s1[p]);           \
      for (size_t count = PARTS / 2; count > 0; count /= 2)                               \
        for (size_t p = 0; p < count; ++p) s0[p] = VECTOR_FUNCTION(s0[p], s0[p + count]); \
      if (PART_LANES > 8) MEET(VECTOR_FUNCTION, 8);                                       \
      if (PART_LANES > 4) MEET(VECTOR_FUNCTION, 4);                                       \
      MEET(VECTOR_FUNCTION, 2);                                                           \
      MEET(VECTOR_FUNCTION, 1);                                                           \
      best = s0[0][0];                                                                    \
    }                                                                                     \
    for (; i < n; ++i) best = function(best, a[i]);                                       \
    return best;                                                                          \
  }
EXTREME(max_f32, max_nan, MAX_LANES)
EXTREME(min_f32, min_nan, MIN_LANES)

static void accumulate_double(double *acc, const float *a, size_t n) {
  IVDEP for (size_t i = 0; i < n; ++i) acc[i] += (double)a[i];
}

static void accumulate_8(double *acc, const float *const *rows, size_t n) {
  const float *const a = rows[0], *const b = rows[1], *const c = rows[2], *const d = rows[3];
  const float *const e = rows[4], *const f = rows[5], *const g = rows[6], *const h = rows[7];
  IVDEP for (size_t i = 0; i < n; ++i) acc[i] +=
      (double)(((a[i] + b[i]) + (c[i] + d[i])) + ((e[i] + f[i]) + (g[i] + h[i])));
}

static void scan_double(double *acc, float *out, int64_t out_stride, const float *a, int64_t stride,
                        size_t rows, size_t n) {
  for (size_t r = 0; r < rows; ++r) {
    const float *const x = a + (int64_t)r * stride;
    float *const o = out + (int64_t)r * out_stride;
    IVDEP for (size_t i = 0; i < n; ++i) {
      const double sum = acc[i] + (double)x[i];
      acc[i] = sum;
      o[i] = (float)sum;
    }
  }
}

/* ---- Batch norm ----------------------------------------------------------------------------- */

/* acc[i] += sum over the rows of (rows[r][i] - mean[i])^2, 8 rows as a tree in float32. */
static void squares_rows(double *acc, const float *const *rows, size_t num_rows, const float *mean,
                         size_t n) {
  size_t r = 0;
#define SQUARE(k) ((rows[r + k][i] - m) * (rows[r + k][i] - m))
  for (; r + 8 <= num_rows; r += 8) {
    IVDEP for (size_t i = 0; i < n; ++i) {
      const float m = mean[i];
      acc[i] += (double)(((SQUARE(0) + SQUARE(1)) + (SQUARE(2) + SQUARE(3))) +
                         ((SQUARE(4) + SQUARE(5)) + (SQUARE(6) + SQUARE(7))));
    }
  }
  for (; r < num_rows; ++r) {
    IVDEP for (size_t i = 0; i < n; ++i) {
      const float m = mean[i];
      acc[i] += (double)SQUARE(0);
    }
  }
#undef SQUARE
}

/* acc[i] += sum over the rows of grads[r][i] * (rows[r][i] - mean[i]). */
static void products_rows(double *acc, const float *const *grads, const float *const *rows,
                          size_t num_rows, const float *mean, size_t n) {
  size_t r = 0;
#define PRODUCT(k) (grads[r + k][i] * (rows[r + k][i] - m))
  for (; r + 8 <= num_rows; r += 8) {
    IVDEP for (size_t i = 0; i < n; ++i) {
      const float m = mean[i];
      acc[i] += (double)(((PRODUCT(0) + PRODUCT(1)) + (PRODUCT(2) + PRODUCT(3))) +
                         ((PRODUCT(4) + PRODUCT(5)) + (PRODUCT(6) + PRODUCT(7))));
    }
  }
  for (; r < num_rows; ++r) {
    IVDEP for (size_t i = 0; i < n; ++i) {
      const float m = mean[i];
      acc[i] += (double)PRODUCT(0);
    }
  }
#undef PRODUCT
}

static void normalize(float *out, const float *x, const float *mean, const float *scale,
                      const float *offset, size_t n) {
  IVDEP for (size_t i = 0; i < n; ++i) out[i] = (x[i] - mean[i]) * scale[i] + offset[i];
}

static void normalize_grad(float *out, const float *grad, const float *x, const float *mean,
                           const float *scale, const float *grad_mean, const float *slope,
                           size_t n) {
  IVDEP for (size_t i = 0; i < n; ++i) out[i] =
      scale[i] * ((grad[i] - grad_mean[i]) - (x[i] - mean[i]) * slope[i]);
}

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_ROWS_H_ */

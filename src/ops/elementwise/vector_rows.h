/* The part of vector.c that works on rows: sums of rows in lanes, running sums, batch norm. */
#ifndef TREMULA_OPS_ELEMENTWISE_VECTOR_ROWS_H_
#define TREMULA_OPS_ELEMENTWISE_VECTOR_ROWS_H_

#include "ops/elementwise/vector_bits.h"

#ifndef IVDEP
#define IVDEP _Pragma("GCC ivdep")
#endif

typedef int32_t lane_bits __attribute__((vector_size(LANES * sizeof(int32_t))));

/* Macros, because a function that returns vectors has another ABI in each instruction set. */
#define PICK_LANES(mask, yes, no) (lanes)(((lane_bits)(yes) & (mask)) | ((lane_bits)(no) & ~(mask)))
#define MAX_LANES(x, y) PICK_LANES(((x) >= (y)) | ((x) != (x)), x, y)
#define MIN_LANES(x, y) PICK_LANES(((x) <= (y)) | ((x) != (x)), x, y)

static const lane_bits rotations[] = {{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7},
                                      {4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11},
                                      {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13},
                                      {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14}};

#define EXTREME(name, function, VECTOR_FUNCTION)                          \
  static float name(const float *a, size_t n) {                           \
    float best = a[0];                                                    \
    size_t i = 0;                                                         \
    if (n >= 2 * LANES) {                                                 \
      lanes s0, s1, x;                                                    \
      LOAD_LANES(s0, a);                                                  \
      LOAD_LANES(s1, a + LANES);                                          \
      for (i = 2 * LANES; i + 2 * LANES <= n; i += 2 * LANES) {           \
        LOAD_LANES(x, a + i);                                             \
        s0 = VECTOR_FUNCTION(s0, x);                                      \
        LOAD_LANES(x, a + i + LANES);                                     \
        s1 = VECTOR_FUNCTION(s1, x);                                      \
      }                                                                   \
      s0 = VECTOR_FUNCTION(s0, s1);                                       \
      for (size_t k = 0; k < sizeof rotations / sizeof *rotations; ++k) { \
        for (size_t l = 0; l < LANES; ++l) s1[l] = s0[rotations[k][l]];   \
        s0 = VECTOR_FUNCTION(s0, s1);                                     \
      }                                                                   \
      best = s0[0];                                                       \
    }                                                                     \
    for (; i < n; ++i) best = function(best, a[i]);                       \
    return best;                                                          \
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

#endif /* TREMULA_OPS_ELEMENTWISE_VECTOR_ROWS_H_ */

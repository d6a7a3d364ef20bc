/* Owns: products of a matrix and a vector. A row-major matrix times a vector: every sum is 32
 * partial sums, added in a fixed order. A vector times a row-major matrix: every sum is two partial
 * sums, of the even and of the odd rows. So results depend neither on the CPU nor on the number of
 * threads. */
#include "ops/linear/matrix_vector.h"

#include <string.h>

#include "ops/threads.h"

#define LANES 16
#define ROWS 4 /* rows that share the loads of the vector; vectors of columns */

enum { MOST_ELEMENTS = 1 << 18 }; /* that stay in the second-level cache */

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

static inline __attribute__((always_inline)) float add_up(const lanes *sum) {
  float parts[LANES];
  memcpy(parts, sum, sizeof parts);
  for (int width = LANES / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) parts[i] += parts[i + width];
  }
  return parts[0];
}

/* `count` <= ROWS rows. */
static inline __attribute__((always_inline)) void multiply_rows(const trm_matrix_vector *p,
                                                                const float *matrix,
                                                                const float *vector, float *out,
                                                                int64_t count) {
  lanes even[ROWS], odd[ROWS];
  for (int64_t r = 0; r < count; ++r) even[r] = odd[r] = (lanes){0};
  int64_t k = 0;
  for (; k + 2 * LANES <= p->inner; k += 2 * LANES) {
    lanes v0, v1;
    memcpy(&v0, vector + k, sizeof v0);
    memcpy(&v1, vector + k + LANES, sizeof v1);
#pragma GCC unroll 4
    for (int64_t r = 0; r < count; ++r) {
      lanes m0, m1;
      memcpy(&m0, matrix + r * p->row_stride + k, sizeof m0);
      memcpy(&m1, matrix + r * p->row_stride + k + LANES, sizeof m1);
      even[r] += m0 * v0;
      odd[r] += m1 * v1;
    }
  }
  for (int64_t r = 0; r < count; ++r) {
    const lanes sum = even[r] + odd[r];
    float total = add_up(&sum);
    for (int64_t j = k; j < p->inner; ++j) total += matrix[r * p->row_stride + j] * vector[j];
    out[r] = total;
  }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* their start comes after the choice among the clones */
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default"))) /* GCC 11 has them */
#else
#define CLONES
#endif

CLONES static void multiply_range(const trm_matrix_vector *p, const float *matrix,
                                  const float *vector, float *out, int64_t begin, int64_t end) {
  int64_t r = begin;
  for (; r + ROWS <= end; r += ROWS) {
    multiply_rows(p, matrix + r * p->row_stride, vector, out + r, ROWS);
  }
  for (; r < end; ++r) multiply_rows(p, matrix + r * p->row_stride, vector, out + r, 1);
}

typedef struct product {
  const trm_matrix_vector *p;
  const float *matrix, *vector;
  float *out;
} product;

static void run_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const product *own = context;
  multiply_range(own->p, own->matrix, own->vector, own->out, begin, end);
}

void trm_matrix_vector_run(const void *data, const void *matrix, const void *vector, void *out) {
  const trm_matrix_vector *p = data;
  const product own = {p, matrix, vector, out};
  trm_parallel_ranges(trm_threads_for((size_t)(p->rows * p->inner) * sizeof(float)), p->rows,
                      run_range, &own);
}

/* ---- A vector times a matrix ----------------------------------------------------------------- */

/* `count` <= ROWS times LANES columns. */
static inline __attribute__((always_inline)) void multiply_columns(const trm_matrix_vector *p,
                                                                   const float *matrix,
                                                                   const float *vector, float *out,
                                                                   int64_t count) {
  lanes sums[2][ROWS];
  for (int64_t c = 0; c < count; ++c) sums[0][c] = sums[1][c] = (lanes){0};
  int64_t k = 0;
  for (; k + 2 <= p->inner; k += 2) {
#pragma GCC unroll 2
    for (int64_t odd = 0; odd < 2; ++odd) {
      const float *row = matrix + (k + odd) * p->row_stride, v = vector[k + odd];
#pragma GCC unroll 4
      for (int64_t c = 0; c < count; ++c) {
        lanes m;
        memcpy(&m, row + c * LANES, sizeof m);
        sums[odd][c] += m * v;
      }
    }
  }
  for (int64_t c = 0; c < count; ++c) {
    lanes m = {0};
    if (k < p->inner) memcpy(&m, matrix + k * p->row_stride + c * LANES, sizeof m);
    sums[0][c] += m * (k < p->inner ? vector[k] : 0);
    sums[0][c] += sums[1][c];
    memcpy(out + c * LANES, &sums[0][c], sizeof m);
  }
}

/* Units of LANES columns; the last ones are moved back to the matrix's end. */
CLONES static void multiply_units(const trm_matrix_vector *p, const float *matrix,
                                  const float *vector, float *out, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end;) {
    const bool is_wide = u + ROWS <= end && (u + ROWS) * LANES <= p->rows;
    const int64_t last = p->rows - LANES, at = is_wide || u * LANES < last ? u * LANES : last;
    if (is_wide) multiply_columns(p, matrix + at, vector, out + at, ROWS);
    else multiply_columns(p, matrix + at, vector, out + at, 1);
    u += is_wide ? ROWS : 1;
  }
}

static void run_units(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const product *own = context;
  multiply_units(own->p, own->matrix, own->vector, own->out, begin, end);
}

bool trm_vector_matrix_serves(int64_t columns, int64_t inner) {
  return columns >= LANES && columns * inner <= MOST_ELEMENTS;
}

void trm_vector_matrix_run(const void *data, const void *matrix, const void *vector, void *out) {
  const trm_matrix_vector *p = data;
  const product own = {p, matrix, vector, out};
  trm_parallel_ranges(trm_threads_for((size_t)(p->rows * p->inner) * sizeof(float)),
                      (p->rows + LANES - 1) / LANES, run_units, &own);
}

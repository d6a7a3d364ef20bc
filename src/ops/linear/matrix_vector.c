/* A row-major matrix times a vector. Every sum has 32 partial sums, added up in one order, so that
 * neither the CPU nor the number of threads changes a result. */
#include "ops/linear/matrix_vector.h"

#include <string.h>

#include "ops/threads.h"

#define LANES 16
#define ROWS 4 /* rows that share the loads of the vector */

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
__attribute__((target_clones("avx512f", "avx2", "default"))) /* names that GCC 11 has too */
#endif
static void
multiply_range(const trm_matrix_vector *p, const float *matrix, const float *vector, float *out,
               int64_t begin, int64_t end) {
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

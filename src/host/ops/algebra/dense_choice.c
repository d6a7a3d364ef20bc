/* Owns: choosing the build of dense.c for this CPU, and products on several threads. */
#include <string.h>

#include "host/ops/algebra/dense.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

extern const trm_dense_ops trm_dense_ops_baseline;
#if defined(__x86_64__)
extern const trm_dense_ops trm_dense_ops_avx2, trm_dense_ops_avx512;
#endif

const trm_dense_ops *trm_dense_ops_get(void) {
#if defined(__x86_64__)
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx512") == 0) return &trm_dense_ops_avx512;
  if (strcmp(name, "avx2") == 0) return &trm_dense_ops_avx2;
#endif
  return &trm_dense_ops_baseline;
}

/* The build for AVX-512 multiplies bytes by an instruction of its own, which asks for a signed
 * right side. */
static const trm_dense_ops *ops_for(trm_dense_type type, const trm_dense_product *product) {
  const trm_dense_ops *ops = trm_dense_ops_get();
#if defined(__x86_64__)
  if (type == TRM_DENSE_BYTES && ops == &trm_dense_ops_avx512 &&
      (!product->are_signed[1] || !__builtin_cpu_supports("avx512vnni"))) {
    return &trm_dense_ops_avx2;
  }
#endif
  return ops;
}

size_t trm_dense_scratch(trm_dense_routine routine, int64_t m, int64_t n, int64_t columns,
                         size_t size) {
  const int64_t k = m < n ? m : n;
  int64_t entries = 0;
  switch (routine) {
    case TRM_DENSE_CHOLESKY: entries = n * n; break;
    case TRM_DENSE_SOLVE: entries = n * columns; break;
    case TRM_DENSE_QR: entries = k * m; break;
    case TRM_DENSE_Q: entries = columns * m; break;
    case TRM_DENSE_EIGEN: entries = n * (3 * n + 300); break;
    case TRM_NUM_DENSE_ROUTINES: break;
  }
  return (size_t)entries * size + 4096;
}

typedef struct whole {
  const trm_dense_product *product;
  void (*multiply)(const trm_dense_product *product);
  int64_t size, sum_size; /* of an element of a and b, and of c */
  int64_t unit;           /* rows or columns that stay together */
  bool by_rows;
} whole;

static void multiply_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const whole *w = context;
  trm_dense_product chunk = *w->product;
  const int64_t first = begin * w->unit, all = w->by_rows ? chunk.m : chunk.n;
  const int64_t count = (end * w->unit < all ? end * w->unit : all) - first;
  char *const c = chunk.c;
  if (w->by_rows) {
    chunk.m = count;
    chunk.a.data = (const char *)chunk.a.data + first * chunk.a.rows * w->size;
    chunk.c = c + first * chunk.stride * w->sum_size;
  } else {
    chunk.n = count;
    chunk.b.data = (const char *)chunk.b.data + first * chunk.b.columns * w->size;
    chunk.c = c + first * w->sum_size;
  }
  w->multiply(&chunk);
}

void trm_dense_multiply(trm_dense_type type, const trm_dense_product *product, int threads) {
  const int64_t sum_size = type == TRM_DENSE_F64 || type == TRM_DENSE_U64 ? 8 : 4;
  const whole w = {.product = product,
                   .multiply = ops_for(type, product)->multiply[type],
                   .size = type == TRM_DENSE_BYTES ? 1 : sum_size,
                   .sum_size = sum_size,
                   .unit = product->m >= product->n ? 6 : 16,
                   .by_rows = product->m >= product->n};
  const int worth =
      threads <= 1 ? 1 : trm_threads_for((size_t)(product->m * product->n * product->k / 2));
  const int64_t all = w.by_rows ? product->m : product->n;
  trm_parallel_ranges(worth < threads ? worth : threads, (all + w.unit - 1) / w.unit,
                      multiply_range, &w);
}

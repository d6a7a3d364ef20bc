/* Owns: choosing the build of matrix_vector_loops.c for this CPU, and products on several
 * threads. */
#include "host/ops/products/matrix_vector.h"
#include "base/integers.h"

#include <string.h>

#include "base/limits.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

extern const trm_matrix_vector_loops trm_matrix_vector_loops_baseline;
#if defined(__x86_64__)
extern const trm_matrix_vector_loops trm_matrix_vector_loops_avx2, trm_matrix_vector_loops_avx512;
#endif

const trm_matrix_vector_loops *trm_matrix_vector_find(const char *name) {
#if defined(__x86_64__)
  if (strcmp(name, "avx512") == 0) return &trm_matrix_vector_loops_avx512;
  if (strcmp(name, "avx2") == 0) return &trm_matrix_vector_loops_avx2;
#endif
  return strcmp(name, "baseline") == 0 ? &trm_matrix_vector_loops_baseline : NULL;
}

enum { CHUNK_LINES = 64 }; /* more would leave too few chunks, fewer would make many sums */

/* How a CPU reads lines of floats fastest: a Zen 5 one by one, with the next line fetched ahead; an
 * Intel CPU several, because it translates their addresses side by side. */
static bool reads_by_line(void) {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

static void plan_reading(trm_matrix_vector *product) {
  const int64_t line = product->inner_stride;
  const bool has_floats = product->dtype == TRM_F32, is_by_line = has_floats && reads_by_line();
  const bool is_long = has_floats && !is_by_line && line >= TRM_VECTOR_LEAST_LONG_LINE;
  product->is_by_line = is_by_line;
  product->ahead = is_long ? TRM_VECTOR_LEAST_LONG_LINE / 4 : TRM_MATRIX_VECTOR_GROUP * line;
}

bool trm_matrix_vector_plan(trm_matrix_vector *product) {
  const bool is_along_inner = product->inner_stride == 1;
  /* The loop along the outputs reads whole vectors of up to 16. */
  if (!is_along_inner && (product->output_stride != 1 || product->outputs < 16)) return false;
  const int64_t size = (int64_t)trm_dtype_size(product->dtype);
  const bool is_far = product->inner * product->inner_stride * size > TRM_VECTOR_MOST_NEAR;
  if (is_far) plan_reading(product);
  const bool is_dense = !is_along_inner && product->inner_stride == product->outputs;
  product->chunks = 1;
  /* Halves are read faster when each thread has some of the outputs. */
  if (is_far && is_dense && product->batch_rank == 0 && product->dtype == TRM_F32) {
    product->chunks = (product->inner + CHUNK_LINES - 1) / CHUNK_LINES;
  }
  return true;
}

size_t trm_matrix_vector_scratch_bytes(const trm_matrix_vector *product) {
  return product->chunks > 1 ? (size_t)(product->chunks * product->outputs) * sizeof(float) : 0;
}

typedef struct job {
  const trm_matrix_vector *p;
  const char *matrix;
  const float *vector;
  float *out;
  trm_matrix_vector_loop loop;
  int64_t units;  /* of each batch */
  float *sums;    /* scratch for the sums of each chunk */
  int64_t *added; /* how many chunks, from the first one on, are in `out` */
} job;

static void run_units(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *own = context;
  const trm_matrix_vector *p = own->p;
  const int64_t size = (int64_t)trm_dtype_size(p->dtype);
  for (int64_t u = begin; u < end;) {
    const int64_t b = u / own->units, first = u % own->units;
    const int64_t last = trm_least(own->units, first + end - u);
    int64_t matrix = 0, vector = 0, rest = b;
    for (int32_t d = p->batch_rank - 1; d >= 0; --d) {
      matrix += rest % p->batch[d] * p->matrix_strides[d];
      vector += rest % p->batch[d] * p->vector_strides[d];
      rest /= p->batch[d];
    }
    own->loop(p, own->matrix + matrix * size, own->vector + vector, own->out + b * p->outputs,
              first * TRM_MATRIX_VECTOR_UNIT, trm_least(p->outputs, last * TRM_MATRIX_VECTOR_UNIT));
    u += last - first;
  }
}

static void add(float *out, const float *sums, int64_t count) {
  for (int64_t c = 0; c < count; ++c) out[c] += sums[c];
}

/* Sums of CHUNK_LINES lines. The thread that has the first chunk adds its chunks as it goes. */
static void run_chunks(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *own = context;
  const int64_t outputs = own->p->outputs;
  for (int64_t i = begin; i < end; ++i) {
    trm_matrix_vector lines = *own->p;
    const int64_t first = i * CHUNK_LINES, line = first * lines.inner_stride;
    lines.inner = trm_least(CHUNK_LINES, lines.inner - first);
    float *sums = i == 0 ? own->out : own->sums + (begin == 0 ? 0 : i) * outputs;
    own->loop(&lines, own->matrix + line * (int64_t)trm_dtype_size(lines.dtype),
              own->vector + first, sums, 0, outputs);
    if (begin == 0 && i > 0) add(own->out, sums, outputs);
  }
  if (begin == 0) *own->added = end;
}

void trm_matrix_vector_run(const void *data, const void *matrix, const void *vector, void *out,
                           void *scratch) {
  const trm_matrix_vector *p = data;
  const trm_matrix_vector_loops *loops = trm_matrix_vector_find(trm_vector_ops_get()->name);
  int64_t batches = 1, added = 0;
  for (int32_t d = 0; d < p->batch_rank; ++d) batches *= p->batch[d];
  const job own = {.p = p,
                   .matrix = matrix,
                   .vector = vector,
                   .out = out,
                   .loop = p->inner_stride == 1 ? loops->along_inner : loops->along_outputs,
                   .units = (p->outputs + TRM_MATRIX_VECTOR_UNIT - 1) / TRM_MATRIX_VECTOR_UNIT,
                   .sums = scratch,
                   .added = &added};
  const size_t bytes = (size_t)(batches * p->outputs * p->inner) * trm_dtype_size(p->dtype);
  const int threads = trm_threads_for(bytes);
  if (p->chunks == 1) {
    trm_parallel_ranges(threads, batches * own.units, run_units, &own);
    return;
  }
  trm_parallel_ranges(threads, p->chunks, run_chunks, &own);
  for (; added < p->chunks; ++added) add(out, own.sums + added * p->outputs, p->outputs);
}

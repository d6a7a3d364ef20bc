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

/* How a CPU reads a matrix from memory fastest (bench/notes/products.md). */
typedef enum reading { IN_GROUPS, BY_LINE, INTO_L2 } reading;

/* Intel's CPUs read several lines, because they translate their addresses side by side. A Zen 5
 * reads lines of floats one by one, with the next line fetched ahead. A Zen 3 or 4 (family 25)
 * reads as fast as memory is only if lines are fetched into the second-level cache, which waits for
 * more of them than the first-level one. */
static reading reading_of_cpu(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_is("amdfam19h")) return INTO_L2;
  if (__builtin_cpu_is("amd")) return BY_LINE;
#endif
  return IN_GROUPS;
}

/* For a matrix of so many bytes that is in no near cache, whose lines are `line` elements apart. */
static void plan_reading(trm_matrix_vector *product, int64_t line, int64_t bytes) {
  const bool has_floats = product->dtype == TRM_F32, is_along_inner = product->inner_stride == 1;
  const reading way = reading_of_cpu();
  product->is_by_line = has_floats && way == BY_LINE;
  product->is_ahead_l2 = way == INTO_L2;
  const int64_t group = TRM_MATRIX_VECTOR_GROUP * line;
  if (is_along_inner) {
    const bool gains = !has_floats || bytes >= TRM_VECTOR_LEAST_FETCHED;
    product->ahead = way == INTO_L2 && gains ? group : 0;
  } else if (has_floats && way == IN_GROUPS && line >= TRM_VECTOR_LEAST_LONG_LINE) {
    product->ahead = TRM_VECTOR_LEAST_LONG_LINE / 4;
  } else {
    product->ahead = way == INTO_L2 ? 2 * group : group;
  }
}

bool trm_matrix_vector_plan(trm_matrix_vector *product) {
  const bool is_along_inner = product->inner_stride == 1;
  /* The loop along the outputs reads whole vectors of up to 16. */
  if (!is_along_inner && (product->output_stride != 1 || product->outputs < 16)) return false;
  const int64_t size = (int64_t)trm_dtype_size(product->dtype);
  const int64_t line = is_along_inner ? product->output_stride : product->inner_stride;
  const int64_t bytes = (is_along_inner ? product->outputs : product->inner) * line * size;
  const bool is_far = bytes > TRM_VECTOR_MOST_NEAR;
  if (is_far) plan_reading(product, line, bytes);
  const bool is_dense = !is_along_inner && product->inner_stride == product->outputs;
  product->chunks = 1;
  /* Halves are read faster when each thread has some of the outputs. */
  if (is_far && is_dense && product->batch_rank == 0 && product->dtype == TRM_F32) {
    product->chunks = (product->inner + CHUNK_LINES - 1) / CHUNK_LINES;
  }
  return true;
}

size_t trm_matrix_vector_scratch_bytes(const trm_matrix_vector *product) {
  const size_t chunks = (size_t)product->chunks, outputs = (size_t)product->outputs;
  return chunks > 1 ? chunks * (outputs * sizeof(float) + sizeof(int64_t)) : 0;
}

typedef struct job {
  const trm_matrix_vector *p;
  const char *matrix;
  const float *vector;
  float *out;
  const trm_matrix_vector_loops *loops;
  trm_matrix_vector_loop loop;
  int64_t units; /* of each batch */
  int64_t *ends; /* by a chunk: up to which one its line of sums has their sum; 0: none has */
  float *sums;   /* scratch: a line for each chunk */
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

/* ---- Chunks of lines -------------------------------------------------------------------------- */

/* The sums of both halves of a range are added, and so are theirs, down to chunks. So every thread
 * adds up what it has, and the caller reads few sums of the others: reading them from another
 * core's cache is slow. */

static float *sums_of(const job *own, int64_t chunk) {
  return chunk == 0 ? own->out : own->sums + chunk * own->p->outputs;
}

static int64_t middle_of(int64_t begin, int64_t end) { return end - (end - begin) / 2; }

static void multiply_chunk(const job *own, int64_t chunk, float *sums) {
  trm_matrix_vector lines = *own->p;
  const int64_t first = chunk * CHUNK_LINES, line = first * lines.inner_stride;
  lines.inner = trm_least(CHUNK_LINES, lines.inner - first);
  own->loop(&lines, own->matrix + line * (int64_t)trm_dtype_size(lines.dtype), own->vector + first,
            sums, 0, lines.outputs);
}

/* `spare` has a line for each time that the range can be halved. */
static void sum_range(const job *own, int64_t begin, int64_t end, float *sums, float *spare) {
  if (end - begin == 1) {
    multiply_chunk(own, begin, sums);
    return;
  }
  const int64_t middle = middle_of(begin, end), outputs = own->p->outputs;
  sum_range(own, begin, middle, sums, spare);
  sum_range(own, middle, end, spare, spare + outputs);
  own->loops->add(sums, spare, outputs);
}

/* Of the range [first, last) the largest parts that a thread with chunks [begin, end) has whole. */
static void sum_own(const job *own, int64_t first, int64_t last, int64_t begin, int64_t end) {
  if (end <= first || last <= begin) return;
  if (begin <= first && last <= end) {
    sum_range(own, first, last, sums_of(own, first), own->sums + (first + 1) * own->p->outputs);
    own->ends[first] = last;
    return;
  }
  const int64_t middle = middle_of(first, last);
  sum_own(own, first, middle, begin, end);
  sum_own(own, middle, last, begin, end);
}

static void run_chunks(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *own = context;
  sum_own(own, 0, own->p->chunks, begin, end);
}

/* What the threads could not add. */
static void add_parts(const job *own, int64_t first, int64_t last) {
  if (own->ends[first] == last) return;
  const int64_t middle = middle_of(first, last);
  add_parts(own, first, middle);
  add_parts(own, middle, last);
  own->loops->add(sums_of(own, first), sums_of(own, middle), own->p->outputs);
}

void trm_matrix_vector_run(const void *data, const void *matrix, const void *vector, void *out,
                           void *scratch) {
  const trm_matrix_vector *p = data;
  const trm_matrix_vector_loops *loops = trm_matrix_vector_find(trm_vector_ops_get()->name);
  int64_t batches = 1;
  for (int32_t d = 0; d < p->batch_rank; ++d) batches *= p->batch[d];
  const job own = {.p = p,
                   .matrix = matrix,
                   .vector = vector,
                   .out = out,
                   .loops = loops,
                   .loop = p->inner_stride == 1 ? loops->along_inner : loops->along_outputs,
                   .units = (p->outputs + TRM_MATRIX_VECTOR_UNIT - 1) / TRM_MATRIX_VECTOR_UNIT,
                   .ends = scratch,
                   .sums = (float *)((int64_t *)scratch + p->chunks)};
  const size_t bytes = (size_t)(batches * p->outputs * p->inner) * trm_dtype_size(p->dtype);
  const int threads = trm_threads_for(bytes);
  if (p->chunks == 1) {
    trm_parallel_ranges(threads, batches * own.units, run_units, &own);
    return;
  }
  memset(own.ends, 0, (size_t)p->chunks * sizeof *own.ends);
  trm_parallel_ranges(threads, p->chunks, run_chunks, &own);
  add_parts(&own, 0, p->chunks);
}

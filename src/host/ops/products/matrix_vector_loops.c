/* Owns: the loops of products of a matrix and a vector. The file is compiled once for each
 * instruction set, with TRM_ISA as its name; matrix_vector.c chooses one.
 *
 * Lines along the outputs: GROUP of them are read side by side, or one by one
 * (trm_matrix_vector_plan chooses). Lines of floats are added one after the other, a group of
 * halves as a tree. What is read next is fetched ahead, because a CPU's own prefetching ends with
 * the page, often a line. Lines along the inner dimension: an output is 32 partial sums, added in a
 * fixed order, and the lines of some outputs are read side by side. */
#include <string.h>

#include "base/half.h"
#include "host/ops/products/matrix_vector.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* A register, because GCC splits wider vectors badly. */
#if defined(__AVX512F__)
#define LANES 16
#define ROWS 4 /* outputs that share the loads of the vector */
#elif defined(__AVX2__)
#define LANES 8
#define ROWS 2
#else
#define LANES 4
#define ROWS 1
#endif

enum {
  GROUP = TRM_MATRIX_VECTOR_GROUP,
  SLAB = 4096,     /* outputs that stay in the first-level cache from group to group */
  CACHE_LINE = 64, /* bytes */
  SUMS = 32,
  VECTORS = SUMS / LANES
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef uint16_t shorts __attribute__((vector_size(LANES * sizeof(uint16_t))));

#define INLINE static inline __attribute__((always_inline))

INLINE lanes load_half(const uint16_t *from) {
#if defined(__AVX512F__)
  return (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
#elif defined(__AVX2__)
  return (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const void *)from));
#else
  lanes v;
  for (int i = 0; i < LANES; ++i) v[i] = trm_half_to_float(from[i]);
  return v;
#endif
}

/* LANES elements of a matrix, from element `at` on. */
INLINE lanes load(const void *matrix, int64_t at, const trm_dtype dtype) {
  if (dtype == TRM_F32) {
    return *(const lanes *)((const float *)matrix + at);
  }
  const uint16_t *from = (const uint16_t *)matrix + at;
  if (dtype == TRM_F16) return load_half(from);
  shorts bits;
  memcpy(&bits, from, sizeof bits);
  return (lanes)(__builtin_convertvector(bits, words) << 16);
}

INLINE float load_one(const void *matrix, int64_t at, const trm_dtype dtype) {
  if (dtype == TRM_F32) return ((const float *)matrix)[at];
  const uint16_t bits = ((const uint16_t *)matrix)[at];
  return dtype == TRM_F16 ? trm_half_to_float(bits) : trm_bfloat16_to_float(bits);
}

/* Where elements are fetched to that are read later: nowhere, or into a cache. */
typedef enum target { NOWHERE, INTO_L1, INTO_L2 } target;

/* Whether the vector after `elements` others begins a cache line, if the first of them does. */
INLINE bool begins_line(int64_t elements, const trm_dtype dtype) {
  const int64_t size = dtype == TRM_F32 ? 4 : 2;
  return LANES * size >= CACHE_LINE || elements % (CACHE_LINE / size) == 0;
}

INLINE void fetch(const void *matrix, int64_t at, const trm_dtype dtype, const target to) {
  const char *address = (const char *)matrix + at * (dtype == TRM_F32 ? 4 : 2);
  if (to == INTO_L1) __builtin_prefetch(address);
  if (to == INTO_L2) __builtin_prefetch(address, 0, 2);
}

/* ---- Lines along the outputs ----------------------------------------------------------------- */

/* `sum` and `count` products of LANES outputs, from element `at` of the first line on. */
INLINE lanes add_lines(const trm_matrix_vector *p, const void *matrix, int64_t at, const float *v,
                       lanes sum, const int count, const trm_dtype dtype) {
  lanes partials[GROUP];
#pragma GCC unroll 8
  for (int i = 0; i < count; ++i)
    partials[i] = load(matrix, at + i * p->inner_stride, dtype) * v[i];
  if (dtype == TRM_F32) {
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) sum += partials[i];
    return sum;
  }
#pragma GCC unroll 3
  for (int width = count / 2; width > 0; width /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < width; ++i) partials[i] += partials[i + width];
  }
  return sum + partials[0];
}

/* Adds `count` lines, from line k on, to outputs [begin, end), whose number is a multiple of LANES.
 * Fetches the elements that lie `ahead` further on. */
INLINE void add_group(const trm_matrix_vector *p, const void *matrix, const float *vector,
                      float *out, int64_t begin, int64_t end, int64_t k, const int count,
                      const trm_dtype dtype, const int64_t ahead, const target to) {
  const int64_t line = k * p->inner_stride;
  for (int64_t c = begin; c < end; c += LANES) {
    if (to != NOWHERE && begins_line(c - begin, dtype)) {
#pragma GCC unroll 8
      for (int i = 0; i < count; ++i) {
        fetch(matrix, line + i * p->inner_stride + c + ahead, dtype, to);
      }
    }
    lanes *sums = (lanes *)(out + c);
    *sums = add_lines(p, matrix, line + c, vector + k, *sums, count, dtype);
  }
}

/* The last outputs, fewer than LANES: a vector that ends with them keeps its sums. */
INLINE void add_last(const trm_matrix_vector *p, const void *matrix, const float *vector,
                     float *out, int64_t begin, const trm_dtype dtype) {
  const int64_t at = p->outputs - LANES;
  lanes sum = {0};
  int64_t k = 0;
  for (; k + GROUP <= p->inner; k += GROUP) {
    sum = add_lines(p, matrix, k * p->inner_stride + at, vector + k, sum, GROUP, dtype);
  }
  for (; k < p->inner; ++k) {
    sum = add_lines(p, matrix, k * p->inner_stride + at, vector + k, sum, 1, dtype);
  }
  for (int64_t c = begin; c < p->outputs; ++c) out[c] = sum[c - at];
}

INLINE void run_along_outputs(const trm_matrix_vector *p, const void *matrix, const float *vector,
                              float *out, int64_t begin, int64_t end, const trm_dtype dtype,
                              const target to) {
  const int64_t whole = begin + (end - begin) / LANES * LANES;
  const bool is_by_line = p->is_by_line && end - begin == p->inner_stride;
  for (int64_t c = begin; c < whole; c += SLAB) {
    const int64_t slab = c + SLAB < whole ? c + SLAB : whole;
    memset(out + c, 0, (size_t)(slab - c) * sizeof *out);
    int64_t k = 0;
    for (; !is_by_line && k + GROUP <= p->inner; k += GROUP) {
      add_group(p, matrix, vector, out, c, slab, k, GROUP, dtype, p->ahead, to);
    }
    for (; k < p->inner; ++k) {
      add_group(p, matrix, vector, out, c, slab, k, 1, dtype, p->inner_stride, to);
    }
  }
  if (whole < end) add_last(p, matrix, vector, out, whole, dtype);
}

/* ---- Lines along the inner dimension --------------------------------------------------------- */

typedef float quad __attribute__((vector_size(16)));

INLINE float add_up(const lanes sums[VECTORS]) {
  lanes partials[VECTORS];
#pragma GCC unroll 8
  for (int i = 0; i < VECTORS; ++i) partials[i] = sums[i];
#pragma GCC unroll 3
  for (int width = VECTORS / 2; width > 0; width /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < width; ++i) partials[i] += partials[i + width];
  }
#if defined(__AVX512F__)
  const __m512 all = (__m512)partials[0];
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
#elif defined(__AVX2__)
  const __m256 eight = (__m256)partials[0];
#endif
#if defined(__AVX2__)
  const quad four =
      (quad)_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
  const quad four = (quad)partials[0];
#endif
  return (four[0] + four[2]) + (four[1] + four[3]);
}

/* `count` <= ROWS outputs from output r on. */
INLINE void multiply_rows(const trm_matrix_vector *p, const void *matrix, const float *vector,
                          float *out, int64_t r, const int count, const trm_dtype dtype,
                          const target to) {
  lanes sums[ROWS][VECTORS];
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < VECTORS; ++j) sums[i][j] = (lanes){0};
  }
  int64_t k = 0;
  for (; k + SUMS <= p->inner; k += SUMS) {
#pragma GCC unroll 8
    for (int j = 0; j < VECTORS; ++j) {
      const lanes v = *(const lanes *)(vector + k + j * LANES);
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i) {
        const int64_t at = (r + i) * p->output_stride + k + j * LANES;
        if (begins_line(j * LANES, dtype)) fetch(matrix, at + p->ahead, dtype, to);
        sums[i][j] += load(matrix, at, dtype) * v;
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i) {
    float total = add_up(sums[i]);
    for (int64_t j = k; j < p->inner; ++j) {
      total += load_one(matrix, (r + i) * p->output_stride + j, dtype) * vector[j];
    }
    out[r + i] = total;
  }
}

INLINE void run_along_inner(const trm_matrix_vector *p, const void *matrix, const float *vector,
                            float *out, int64_t begin, int64_t end, const trm_dtype dtype,
                            const target to) {
  int64_t r = begin;
  for (; r + ROWS <= end; r += ROWS) multiply_rows(p, matrix, vector, out, r, ROWS, dtype, to);
  for (; r < end; ++r) multiply_rows(p, matrix, vector, out, r, 1, dtype, to);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The loops of each way of fetching, because a branch in them costs a fifth of the time. */
#define FOR_TARGET(run, dtype)                               \
  if (p->ahead == 0) {                                       \
    run(p, matrix, vector, out, begin, end, dtype, NOWHERE); \
  } else if (p->is_ahead_l2) {                               \
    run(p, matrix, vector, out, begin, end, dtype, INTO_L2); \
  } else {                                                   \
    run(p, matrix, vector, out, begin, end, dtype, INTO_L1); \
  }

#define FOR_EACH_TYPE(run)                          \
  switch (p->dtype) {                               \
    case TRM_F16: FOR_TARGET(run, TRM_F16) break;   \
    case TRM_BF16: FOR_TARGET(run, TRM_BF16) break; \
    default: FOR_TARGET(run, TRM_F32)               \
  }

static void along_outputs(const trm_matrix_vector *p, const void *matrix, const float *vector,
                          float *out, int64_t begin, int64_t end) {
  FOR_EACH_TYPE(run_along_outputs)
}

static void along_inner(const trm_matrix_vector *p, const void *matrix, const float *vector,
                        float *out, int64_t begin, int64_t end) {
  FOR_EACH_TYPE(run_along_inner)
}

static void add(float *restrict sums, const float *restrict others, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += others[i];
}

#define CONCATENATE_(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_(a, b)

extern const trm_matrix_vector_loops CONCATENATE(trm_matrix_vector_loops_, TRM_ISA);
const trm_matrix_vector_loops CONCATENATE(trm_matrix_vector_loops_, TRM_ISA) = {along_outputs,
                                                                                along_inner, add};

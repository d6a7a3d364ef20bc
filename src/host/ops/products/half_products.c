/* Owns: choosing the arithmetic for products of halves, and splitting halves into pieces. */
#include "host/ops/products/half_products.h"

#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "base/half.h"
#include "host/ops/threads.h"

/* ---- The choice ------------------------------------------------------------------------------ */

trm_half_units trm_half_units_here(void) {
  /* The values are sets of bits. */
  const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
  const unsigned wide = dnnl_cpu_isa_avx512_core, half = dnnl_cpu_isa_avx512_core_bf16;
  const unsigned tiles = dnnl_cpu_isa_avx512_core_amx;
  return (trm_half_units){.amx_bfloat16 = (isa & tiles) == tiles,
                          .avx512_bfloat16 = (isa & half) == half,
                          .avx512 = (isa & wide) == wide};
}

/* Whether a problem is large enough for tiles, which have 16 rows and columns and sum 32
 * products. */
static bool fills_tiles(const trm_half_problem *p) {
  return p->rows >= 16 && p->columns >= 16 && p->inner >= 32;
}

trm_half_products trm_half_products_choose(trm_half_units units, trm_half_products wanted,
                                           const trm_half_problem *p) {
  const bool halves = p->lhs == TRM_F16 && p->rhs == TRM_F16;
  const bool bfloat16s = p->lhs == TRM_BF16 && p->rhs == TRM_BF16;
  if (!units.avx512 || (!halves && !bfloat16s)) return TRM_HALF_PRODUCTS_FLOAT;
  if (wanted == TRM_HALF_PRODUCTS_AUTO) {
    const bool is_fast = bfloat16s ? units.avx512_bfloat16 : units.amx_bfloat16 && p->by_tiles;
    if (!is_fast || !fills_tiles(p)) return TRM_HALF_PRODUCTS_FLOAT;
    if (bfloat16s) return TRM_HALF_PRODUCTS_BFLOAT16;
    return p->result == TRM_F16 ? TRM_HALF_PRODUCTS_PIECES3 : TRM_HALF_PRODUCTS_PIECES4;
  }
  /* A bfloat16 is one piece. */
  if (bfloat16s && wanted != TRM_HALF_PRODUCTS_FLOAT) return TRM_HALF_PRODUCTS_BFLOAT16;
  return wanted;
}

int32_t trm_half_products_pieces(trm_half_products products) {
  switch (products) {
    case TRM_HALF_PRODUCTS_PIECES3: return 3;
    case TRM_HALF_PRODUCTS_PIECES4: return 4;
    case TRM_HALF_PRODUCTS_BFLOAT16: return 1;
    default: return 0;
  }
}

const char *trm_half_products_suffix(trm_half_products products) {
  switch (products) {
    case TRM_HALF_PRODUCTS_PIECES3: return ".pieces3";
    case TRM_HALF_PRODUCTS_PIECES4: return ".pieces4";
    case TRM_HALF_PRODUCTS_BFLOAT16: return ".bfloat16";
    default: return "";
  }
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

void trm_half_split_push(trm_half_split *split, int64_t size, int64_t from_stride,
                         int64_t to_stride) {
  const int32_t d = split->rank++;
  split->dims[d] = size;
  split->from_strides[d] = from_stride, split->to_strides[d] = to_stride;
}

int64_t trm_half_split_count(const trm_half_split *split) {
  int64_t count = split->pieces;
  for (int32_t d = 0; d < split->rank; ++d) count *= split->dims[d];
  return count;
}

/* Whether piece p is the lower one. */
static inline bool is_low(const trm_half_split *split, int32_t p) {
  return (p & (split->is_right ? 2 : 1)) != 0;
}

/* The pieces of a finite number (hi, lo). An infinity or NaN has zeros in all pieces but the
 * first. */
static void split_one(const trm_half_split *split, uint16_t half, uint16_t *to) {
  const float value = trm_half_to_float(half);
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const bool is_finite = (half & 0x7c00) != 0x7c00;
  uint16_t both[2] = {(uint16_t)(bits >> 16), 0};
  if (is_finite) {
    both[0] = trm_float_to_bfloat16(value);
    const float rest = value - trm_bfloat16_to_float(both[0]); /* exact, and a bfloat16 */
    memcpy(&bits, &rest, sizeof bits);
    both[1] = (uint16_t)(bits >> 16);
  }
  for (int32_t p = 0; p < split->pieces; ++p) {
    to[p * split->piece_stride] = p == 0 || is_finite ? both[is_low(split, p)] : 0;
  }
}

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANES = 16 };

__attribute__((target("avx512f"))) static int64_t split_vectors(const trm_half_split *split,
                                                                const uint16_t *from, uint16_t *to,
                                                                int64_t count) {
  const __m512i one = _mm512_set1_epi32(1), bias = _mm512_set1_epi32(0x7fff);
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    const __m512 value = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + i)));
    const __m512i bits = _mm512_castps_si512(value);
    const __mmask16 finite = _mm512_cmpneq_epi32_mask(_mm512_and_si512(bits, exponent), exponent);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    const __m512i rounded = _mm512_mask_add_epi32(bits, finite, bits, _mm512_add_epi32(bias, odd));
    const __m512i high = _mm512_srli_epi32(rounded, 16);
    const __m512 rest = _mm512_sub_ps(value, _mm512_castsi512_ps(_mm512_slli_epi32(high, 16)));
    const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(rest), 16);
    const __m256i both[2] = {_mm512_cvtepi32_epi16(_mm512_maskz_mov_epi32(finite, high)),
                             _mm512_cvtepi32_epi16(_mm512_maskz_mov_epi32(finite, low))};
    _mm256_storeu_si256((__m256i *)(to + i), _mm512_cvtepi32_epi16(high));
    for (int32_t p = 1; p < split->pieces; ++p) {
      _mm256_storeu_si256((__m256i *)(to + p * split->piece_stride + i), both[is_low(split, p)]);
    }
  }
  return i;
}
#endif

/* The last dimension from one place on. */
static void split_line(const trm_half_split *split, const uint16_t *from, uint16_t *to) {
  const int64_t count = split->dims[split->rank - 1];
  const int64_t stride = split->from_strides[split->rank - 1];
  int64_t i = 0;
  if (split->dtype == TRM_BF16) {
    if (stride == 1) memcpy(to, from, (size_t)count * sizeof *to);
    else
      for (; i < count; ++i) to[i] = from[i * stride];
    return;
  }
#if defined(__x86_64__)
  if (stride == 1 && __builtin_cpu_supports("avx512f")) i = split_vectors(split, from, to, count);
#endif
  for (; i < count; ++i) split_one(split, from[i * stride], to + i);
}

typedef struct split_job {
  const trm_half_split *split;
  const uint16_t *from;
  uint16_t *to;
} split_job;

static void split_lines(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const split_job *job = context;
  const trm_half_split *split = job->split;
  const int32_t outer = split->rank - 1;
  int64_t index[TRM_HALF_SPLIT_RANK] = {0}, rest = begin, from = split->from_start, to = 0;
  for (int32_t d = outer - 1; d >= 0; --d) {
    index[d] = rest % split->dims[d], rest /= split->dims[d];
    from += index[d] * split->from_strides[d], to += index[d] * split->to_strides[d];
  }
  for (int64_t line = begin; line < end; ++line) {
    split_line(split, job->from + from, job->to + to);
    for (int32_t d = outer - 1; d >= 0; --d) {
      from += split->from_strides[d], to += split->to_strides[d];
      if (++index[d] < split->dims[d]) break;
      from -= split->from_strides[d] * split->dims[d];
      to -= split->to_strides[d] * split->dims[d];
      index[d] = 0;
    }
  }
}

void trm_half_split_run(const void *data, const void *from, const void *b, void *to) {
  (void)b;
  const trm_half_split *split = data;
  int64_t lines = 1;
  for (int32_t d = 0; d < split->rank - 1; ++d) lines *= split->dims[d];
  const split_job job = {split, from, to};
  const size_t bytes = (size_t)trm_half_split_count(split) * sizeof(uint16_t);
  trm_parallel_ranges(trm_threads_for(bytes), lines, split_lines, &job);
}

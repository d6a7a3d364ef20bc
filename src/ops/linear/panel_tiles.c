/* Owns: packing and multiplying panels with AVX-512 and with AVX2. Both give the same bits. */
#include "ops/linear/panel_tiles.h"

#include <string.h>

#include "ops/elementwise/vector.h"
#include "ops/linear/transposes.h"
#include "ops/threads.h"

#if defined(__x86_64__)
/* Whether panels and results are whole, of halves, the other way round. The compiler makes a
 * function for each of these and each number of rows. */
typedef enum form { PART, WHOLE, HALF_PART, HALF_WHOLE, SWAPPED } form;

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#define NAME(name) name##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl"))) static
#define INLINE __attribute__((target("avx512f,avx512bw,avx512vl"), always_inline)) static inline
#define LANES 16
#define WIDE 32
#define TALL 14
#define EACH_ROWS(ROWS) \
  ROWS(1)               \
  ROWS(2)               \
  ROWS(3)               \
  ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
#define FLOATS __m512
#define MASK __mmask16
#define MASK_OF mask_of_avx512
#define LOAD _mm512_load_ps
#define LOAD_ANYWHERE _mm512_loadu_ps
#define LOAD_SOME _mm512_maskz_loadu_ps
#define STORE _mm512_store_ps
#define STORE_ANYWHERE _mm512_storeu_ps
#define STORE_SOME _mm512_mask_storeu_ps
#define ZERO _mm512_setzero_ps
#define FMA _mm512_fmadd_ps
#define SET1 _mm512_set1_ps
#define TRANSPOSE trm_transpose_16x16
#define LOAD_HALF load_half_avx512
#define STORE_HALF store_half_avx512

INLINE MASK MASK_OF(int64_t columns) {
  return (MASK)(columns >= LANES ? 0xffff : columns <= 0 ? 0 : (1u << columns) - 1);
}

/* The first `count` of 16 halves. */
INLINE __m512 LOAD_HALF(const uint16_t *from, int64_t count) {
  if (count >= LANES) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(MASK_OF(count), from));
}
INLINE void STORE_HALF(uint16_t *to, int64_t count, __m512 v) {
  const __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  if (count >= LANES) _mm256_storeu_si256((void *)to, halves);
  else _mm256_mask_storeu_epi16(to, MASK_OF(count), halves);
}

#include "ops/linear/panel_tiles.def"
static const trm_panel_tiles tiles_avx512 = {
    WIDE, TALL, true, 1024, pack_lines_avx512, pack_columns_avx512, widen_avx512, multiply_avx512};

#undef NAME
#undef TARGET
#undef INLINE
#undef LANES
#undef WIDE
#undef TALL
#undef EACH_ROWS
#undef FLOATS
#undef MASK
#undef MASK_OF
#undef LOAD
#undef LOAD_ANYWHERE
#undef LOAD_SOME
#undef STORE
#undef STORE_ANYWHERE
#undef STORE_SOME
#undef ZERO
#undef FMA
#undef SET1
#undef TRANSPOSE
#undef LOAD_HALF
#undef STORE_HALF

/* ---- AVX2 ------------------------------------------------------------------------------------ */

#define NAME(name) name##_avx2
#define TARGET __attribute__((target("avx2,fma,f16c"))) static
#define INLINE __attribute__((target("avx2,fma,f16c"), always_inline)) static inline
#define LANES 8
#define WIDE 16
#define TALL 6
#define EACH_ROWS(ROWS) ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#define FLOATS __m256
#define MASK __m256i
#define MASK_OF mask_of_avx2
#define LOAD _mm256_load_ps
#define LOAD_ANYWHERE _mm256_loadu_ps
#define LOAD_SOME(mask, from) _mm256_maskload_ps(from, mask)
#define STORE _mm256_store_ps
#define STORE_ANYWHERE _mm256_storeu_ps
#define STORE_SOME _mm256_maskstore_ps
#define ZERO _mm256_setzero_ps
#define FMA _mm256_fmadd_ps
#define SET1 _mm256_set1_ps
#define TRANSPOSE trm_transpose_8x8
#define LOAD_HALF load_half_avx2
#define STORE_HALF store_half_avx2

INLINE MASK MASK_OF(int64_t columns) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const int count = columns >= LANES ? LANES : columns <= 0 ? 0 : (int)columns;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
}

/* The first `count` of 8 halves. */
INLINE __m256 LOAD_HALF(const uint16_t *from, int64_t count) {
  uint16_t some[LANES] = {0};
  if (count > 0) memcpy(some, from, (size_t)(count < LANES ? count : LANES) * sizeof *some);
  return _mm256_cvtph_ps(_mm_loadu_si128((const void *)some));
}
INLINE void STORE_HALF(uint16_t *to, int64_t count, __m256 v) {
  const __m128i halves = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
  if (count > 0) memcpy(to, &halves, (size_t)(count < LANES ? count : LANES) * sizeof *to);
}

#include "ops/linear/panel_tiles.def"
/* A panel of 320 lines stays in the first-level cache. */
static const trm_panel_tiles tiles_avx2 = {
    WIDE, TALL, false, 320, pack_lines_avx2, pack_columns_avx2, widen_avx2, multiply_avx2};

const trm_panel_tiles *trm_panel_tiles_get(void) {
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx512") == 0) return &tiles_avx512;
  return strcmp(name, "avx2") == 0 ? &tiles_avx2 : NULL;
}

#else

const trm_panel_tiles *trm_panel_tiles_get(void) { return NULL; }

#endif

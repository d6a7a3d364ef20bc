/* Owns: packing and multiplying panels with AVX-512 and with AVX2. Both give the same bits. */
#include "host/ops/products/panel_tiles.h"

#include <string.h>

#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"
#include "host/ops/transposes.h"

#if defined(__x86_64__)
/* Whether panels and results are whole, of halves, the other way round. The compiler makes a
 * function for each of these and each number of rows. */
typedef enum form { PART, WHOLE, HALF_PART, HALF_WHOLE, SWAPPED } form;

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#define TARGETS "avx512f,avx512bw,avx512vl"
#include "host/ops/products/vector_words_avx512.inc.h"
#define TALL 14
#define EACH_ROWS(ROWS) \
  ROWS(1)               \
  ROWS(2)               \
  ROWS(3)               \
  ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
#define TRANSPOSE trm_transpose_16x16
#define LOAD_HALF load_half_avx512
#define STORE_HALF store_half_avx512

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

#include "host/ops/products/panel_tiles.inc.h"
static const trm_panel_tiles tiles_avx512 = {
    WIDE, TALL, true, 1024, pack_lines_avx512, pack_columns_avx512, widen_avx512, multiply_avx512};

#include "host/ops/products/vector_words_end.inc.h"
#undef TALL
#undef EACH_ROWS
#undef TRANSPOSE
#undef LOAD_HALF
#undef STORE_HALF

/* ---- AVX2 ------------------------------------------------------------------------------------ */

#define TARGETS "avx2,fma,f16c"
#include "host/ops/products/vector_words_avx2.inc.h"
#define TALL 6
#define EACH_ROWS(ROWS) ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#define TRANSPOSE trm_transpose_8x8
#define LOAD_HALF load_half_avx2
#define STORE_HALF store_half_avx2

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

#include "host/ops/products/panel_tiles.inc.h"
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

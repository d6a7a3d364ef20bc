/* The words of products and convolutions in registers for vectors of AVX2.
 * Included after TARGETS, the instruction sets, is defined; vector_words_end.inc.h takes the words
 * back. The register tile comes with them. */
#define NAME(name) name##_avx2
#define TARGET __attribute__((target(TARGETS))) static
#define INLINE __attribute__((target(TARGETS), always_inline)) static inline
#define LANES 8
#define WIDE (2 * LANES) /* columns of a register tile */
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
#define ADD _mm256_add_ps
#define SET1 _mm256_set1_ps

/* The first `count` lanes. */
INLINE MASK MASK_OF(int64_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const int some = count >= LANES ? LANES : count <= 0 ? 0 : (int)count;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(some), lanes);
}

#include "host/ops/products/register_tile.inc.h"

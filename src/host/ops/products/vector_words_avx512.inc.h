/* The words of products and convolutions in registers for vectors of AVX-512.
 * Included after TARGETS, the instruction sets, is defined; vector_words_end.inc.h takes the words
 * back. The register tile comes with them. */
#define NAME(name) name##_avx512
#define TARGET __attribute__((target(TARGETS))) static
#define INLINE __attribute__((target(TARGETS), always_inline)) static inline
#define LANES 16
#define WIDE (2 * LANES) /* columns of a register tile */
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
#define ADD _mm512_add_ps
#define SET1 _mm512_set1_ps

/* The first `count` lanes. */
INLINE MASK MASK_OF(int64_t count) {
  return (MASK)(count >= LANES ? 0xffff : count <= 0 ? 0 : (1u << count) - 1);
}

#include "host/ops/products/register_tile.inc.h"

/* Owns: Winograd's transforms and products with AVX-512 and with AVX2. Both give the same bits. */
#include "ops/linear/winograd_tiles.h"

#include <string.h>

#include "ops/elementwise/vector.h"
#include "ops/linear/transposes.h"

#if defined(__x86_64__)
/* What lies around an image. */
static const float zeros[TRM_WINOGRAD_MOST_CHANNELS];

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#define NAME(name) name##_avx512
#define TARGET __attribute__((target("avx512f"))) static
#define INLINE __attribute__((target("avx512f"), always_inline)) static inline
#define LANES 16
#define ROWS 12          /* tiles of a panel */
#define UNIT 8           /* input channels of a gradient that are multiplied together */
#define WIDE (2 * LANES) /* outputs of a panel */
#define PANELS 2
#define FLOATS __m512
#define LOAD _mm512_load_ps
#define LOAD_ANYWHERE _mm512_loadu_ps
#define STORE _mm512_store_ps
#define STORE_ANYWHERE _mm512_storeu_ps
#define ZERO _mm512_setzero_ps
#define FMA _mm512_fmadd_ps
#define SET1 _mm512_set1_ps

#include "ops/linear/winograd_tiles.def"

#include "ops/linear/winograd_gradient.def" /* uses the former */
static const trm_winograd_tiles tiles_avx512 = {
    ROWS, WIDE, PANELS, UNIT, transform_filters_avx512, run_task_avx512, run_gradient_avx512};

#undef NAME
#undef TARGET
#undef INLINE
#undef LANES
#undef ROWS
#undef UNIT
#undef WIDE
#undef PANELS
#undef FLOATS
#undef LOAD
#undef LOAD_ANYWHERE
#undef STORE
#undef STORE_ANYWHERE
#undef ZERO
#undef FMA
#undef SET1

/* ---- AVX2 ------------------------------------------------------------------------------------ */

#define NAME(name) name##_avx2
#define TARGET __attribute__((target("avx2,fma"))) static
#define INLINE __attribute__((target("avx2,fma"), always_inline)) static inline
#define LANES 8
#define ROWS 6
#define UNIT 6
#define WIDE (2 * LANES)
#define PANELS 4
#define FLOATS __m256
#define LOAD _mm256_load_ps
#define LOAD_ANYWHERE _mm256_loadu_ps
#define STORE _mm256_store_ps
#define STORE_ANYWHERE _mm256_storeu_ps
#define ZERO _mm256_setzero_ps
#define FMA _mm256_fmadd_ps
#define SET1 _mm256_set1_ps

#include "ops/linear/winograd_tiles.def"

#include "ops/linear/winograd_gradient.def" /* uses the former */
static const trm_winograd_tiles tiles_avx2 = {
    ROWS, WIDE, PANELS, UNIT, transform_filters_avx2, run_task_avx2, run_gradient_avx2};

const trm_winograd_tiles *trm_winograd_tiles_get(void) {
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx512") == 0) return &tiles_avx512;
  return strcmp(name, "avx2") == 0 ? &tiles_avx2 : NULL;
}

#else

const trm_winograd_tiles *trm_winograd_tiles_get(void) { return NULL; }

#endif

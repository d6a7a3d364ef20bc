/* Owns: the panels of weight_gradient.c with AVX-512 and with AVX2. A sum has the same order with
 * both, and so the same bits. */
#include "host/ops/convolutions/weight_gradient_panels.h"

#include <string.h>

#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LINE = 16 /* floats of a cache line */ };

/* Some rows that are packed together: `images` images from `image` on, `rows` rows from `row`. */
typedef struct strip {
  int64_t image, images, row, rows;
} strip;

/* What the next strip reads, which is fetched while this one is multiplied. */
typedef struct ahead {
  const float *from;
  int64_t pixels, stride, count; /* floats from pixel to pixel, and of a pixel */
} ahead;

static strip strip_at(const trm_weight_gradient *g, int64_t image, int64_t end, int64_t row) {
  return (strip){image, trm_least(g->images, end - image), row,
                 trm_least(g->rows, g->y_size[0] - row)};
}

/* The rows of x and dy of a strip; `x` and `dy` are at the first channel of a task. */
static ahead x_of(const trm_weight_gradient *g, const float *x, const strip *s, int64_t channels) {
  int64_t row = s->row * g->stride[0] - g->pad[0];
  const int64_t last = row + (s->rows - 1) * g->stride[0] + (g->k_size[0] - 1) * g->dilation[0];
  if (row < 0) row = 0;
  const int64_t rows =
      s->images > 1 ? s->images * g->x_size[0] : trm_least(last + 1, g->x_size[0]) - row;
  return (ahead){x + (s->image * g->x_size[0] + row) * g->x_size[1] * g->in_channels,
                 rows * g->x_size[1], g->in_channels, channels};
}
static ahead dy_of(const trm_weight_gradient *g, const float *dy, const strip *s, int64_t outputs) {
  return (ahead){dy + (s->image * g->y_size[0] + s->row) * g->y_size[1] * g->out_channels,
                 s->images * s->rows * g->y_size[1], g->out_channels, outputs};
}

/* A tile of sums and where it goes. */
typedef struct tile {
  const int64_t *rows; /* where each row of outputs begins in the panel of x */
  int64_t num_rows, width, step;
  int64_t line; /* of the gradient, in floats */
  bool is_first;
} tile;

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#define TARGETS "avx512f"
#include "host/ops/products/vector_words_avx512.inc.h"
#define UNIT 8            /* input channels of a panel */
#define GROUP (4 * LANES) /* input channels that are packed together */

/* Packs up to GROUP channels of `count` pixels, `step` floats apart; `panel` floats from panel to
 * panel. */
INLINE void NAME(pack_pixels)(const float *from, int64_t step, int64_t count, int64_t channels,
                              int64_t panel, float *to) {
  __mmask16 masks[GROUP / LANES];
#pragma GCC unroll 4
  for (int k = 0; k < GROUP / LANES; ++k) masks[k] = MASK_OF(channels - k * LANES);
  for (int64_t i = 0; i < count; ++i, from += step, to += UNIT) {
#pragma GCC unroll 4
    for (int k = 0; k < GROUP / LANES; ++k) {
      if (k * LANES >= channels) break;
      const __m512 v = _mm512_maskz_loadu_ps(masks[k], from + k * LANES);
      float *a = to + 2 * k * panel;
      _mm256_store_ps(a, _mm512_castps512_ps256(v));
      _mm256_store_ps(a + panel, _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    }
  }
}

#include "host/ops/convolutions/weight_gradient_panels.inc.h"
static const trm_gradient_panels panels_avx512 = {UNIT, WIDE, run_task_avx512};

#include "host/ops/products/vector_words_end.inc.h"
#undef UNIT
#undef GROUP

/* ---- AVX2 ------------------------------------------------------------------------------------ */

#define TARGETS "avx2,fma"
#include "host/ops/products/vector_words_avx2.inc.h"
#define UNIT 6
#define GROUP (8 * UNIT)

/* Writes the six channels of a pixel in a panel. */
INLINE void store_unit(float *to, __m256 v) {
  _mm_storeu_ps(to, _mm256_castps256_ps128(v));
  _mm_storel_pi((__m64 *)(void *)(to + 4), _mm256_extractf128_ps(v, 1));
}

/* Packs up to GROUP channels of `count` pixels, `step` floats apart; `panel` floats from panel to
 * panel. */
INLINE void NAME(pack_pixels)(const float *from, int64_t step, int64_t count, int64_t channels,
                              int64_t panel, float *to) {
  const bool is_whole = channels >= GROUP + LANES - UNIT; /* a vector reads two channels more */
  for (int64_t i = 0; i < count; ++i, from += step, to += UNIT) {
    if (is_whole) {
#pragma GCC unroll 8
      for (int k = 0; k < GROUP; k += UNIT) {
        store_unit(to + k / UNIT * panel, _mm256_loadu_ps(from + k));
      }
      continue;
    }
    for (int64_t k = 0; k < GROUP && k < channels; k += UNIT) {
      store_unit(to + k / UNIT * panel, LOAD_SOME(MASK_OF(channels - k), from + k));
    }
  }
}

#include "host/ops/convolutions/weight_gradient_panels.inc.h"
static const trm_gradient_panels panels_avx2 = {UNIT, WIDE, run_task_avx2};

const trm_gradient_panels *trm_gradient_panels_get(void) {
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx512") == 0) return &panels_avx512;
  return strcmp(name, "avx2") == 0 ? &panels_avx2 : NULL;
}

#else

const trm_gradient_panels *trm_gradient_panels_get(void) { return NULL; }

#endif

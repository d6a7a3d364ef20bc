/* Owns: convolutions of thin groups, on blocks of 16 channels that span several groups.
 *
 * A vector of x is permuted once for each input channel i of a group, so that every lane has
 * channel i of its own group. It is multiplied with the weights of the three kernel columns that
 * meet it, so no product is with a zero. One thread sums each result in one order, whatever the
 * number of threads and the instruction set. */
#include "host/ops/convolutions/grouped_convolution.h"

#include <string.h>

#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

/* What depends on the instruction set. */
typedef struct grouped_ops {
  void (*make_strip)(const trm_grouped_convolution *c, const char *x, const float *w, char *y,
                     int64_t n, int64_t first);
  void (*make_gradients)(const trm_grouped_convolution *c, const float *x, const float *dy,
                         float *dw, int64_t block, int64_t begin, int64_t end);
  int64_t widest; /* group */
} grouped_ops;

enum {
  BLOCK = TRM_GROUPED_LANES,
  STRIP = 8,         /* rows of outputs that one thread makes at a time */
  CHUNK = 4,         /* input channels whose gradients are kept in registers */
  MAX_BUFFER = 1024, /* pixels of a thread's window of rows, on its stack: 64 KiB */
};

/* Columns of x that a row of outputs reaches, padding included. */
static int64_t padded_width(const trm_grouped_convolution *c) {
  return (c->y_size[1] - 1) * c->stride[1] + 3;
}

#if defined(__x86_64__)
#include <immintrin.h>

static int64_t bytes_of(const trm_grouped_convolution *c) { return c->is_half ? 2 : 4; }

/* The rows of x that the current row of outputs needs: row r in slot r mod k_size[0]. */
typedef struct window {
  const char *image; /* channel 0 of the block */
  int64_t next;      /* the first row that has not been copied */
} window;

/* Calls a function for the group and stride, which it then knows when it is compiled. */
#define FOR_EACH_FORM(function, c, ...)                                              \
  do {                                                                               \
    if ((c)->group == 4 && (c)->stride[1] == 1) function(c, __VA_ARGS__, 4, 1);      \
    else if ((c)->group == 4) function(c, __VA_ARGS__, 4, 2);                        \
    else if ((c)->group == 8 && (c)->stride[1] == 1) function(c, __VA_ARGS__, 8, 1); \
    else if ((c)->group == 8) function(c, __VA_ARGS__, 8, 2);                        \
    else if ((c)->stride[1] == 1) function(c, __VA_ARGS__, 16, 1);                   \
    else function(c, __VA_ARGS__, 16, 2);                                            \
  } while (0)

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#define TARGETS "avx512f"
#include "host/ops/products/vector_words_avx512.inc.h"
#define TILE 14
#define INDEX __m512i
#define LOAD_HALVES(from) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define STORE_HALVES(to, v) \
  _mm256_storeu_si256((__m256i *)(void *)(to), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define SPREAD_INDEX spread_index_avx512
#define SPREAD spread_avx512

/* Every lane's index of channel i of its group. */
INLINE INDEX SPREAD_INDEX(int64_t group, int64_t i) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i base = _mm512_andnot_si512(_mm512_set1_epi32((int)group - 1), lane);
  return _mm512_add_epi32(base, _mm512_set1_epi32((int)i));
}

/* Channel i of each lane's group, for the vector at channel `at` of the block. */
INLINE FLOATS SPREAD(const float *pixel, int64_t at, int64_t group, int64_t i, INDEX index) {
  (void)at;
  if (group == BLOCK) return _mm512_set1_ps(pixel[i]);
  return _mm512_permutexvar_ps(index, LOAD(pixel));
}

#include "host/ops/convolutions/grouped_convolution.inc.h"
static const grouped_ops ops_avx512 = {make_strip_avx512, make_gradients_avx512, 8};

#include "host/ops/products/vector_words_end.inc.h"
#undef TILE
#undef INDEX
#undef LOAD_HALVES
#undef STORE_HALVES
#undef SPREAD_INDEX
#undef SPREAD

/* ---- AVX2 ------------------------------------------------------------------------------------ */

#define TARGETS "avx2,fma,f16c"
#include "host/ops/products/vector_words_avx2.inc.h"
#define TILE 7
#define INDEX __m256i
#define LOAD_HALVES(from) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from)))
#define STORE_HALVES(to, v) \
  _mm_storeu_si128((__m128i *)(void *)(to), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define SPREAD_INDEX spread_index_avx2
#define SPREAD spread_avx2

INLINE INDEX SPREAD_INDEX(int64_t group, int64_t i) {
  (void)group;
  return _mm256_set1_epi32((int)i);
}

/* A group of 4 is a half of the vector; others are wider than it. */
INLINE FLOATS SPREAD(const float *pixel, int64_t at, int64_t group, int64_t i, INDEX index) {
  if (group == 4) return _mm256_permutevar_ps(LOAD(pixel + at), index);
  return _mm256_broadcast_ss(pixel + (group == 8 ? at : 0) + i);
}

#include "host/ops/convolutions/grouped_convolution.inc.h"
static const grouped_ops ops_avx2 = {make_strip_avx2, make_gradients_avx2, 16};

/* Those for the instruction set that trm_vector_ops_get chooses, or NULL. */
static const grouped_ops *ops_get(void) {
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx512") == 0) return &ops_avx512;
  return strcmp(name, "avx2") == 0 ? &ops_avx2 : NULL;
}

#else

static const grouped_ops *ops_get(void) { return NULL; }

#endif

bool trm_grouped_convolution_serves(const trm_grouped_convolution *c) {
  const grouped_ops *ops = ops_get();
  return ops != NULL && (c->group == 4 || c->group == 8 || c->group == 16) &&
         c->group <= ops->widest && c->channels % BLOCK == 0 && c->k_size[1] == 3 &&
         c->dilation[0] == 1 && c->dilation[1] == 1 && c->stride[0] <= c->k_size[0] &&
         (c->stride[1] == 1 || c->stride[1] == 2) && c->pad[1] <= 2 && c->k_size[0] <= 7 &&
         (c->k_size[0] * padded_width(c) + c->y_size[1] + 4) <= MAX_BUFFER;
}

int64_t trm_grouped_convolution_partial_sums(const trm_grouped_convolution *c) {
  return c->batch < 8 ? c->batch : 8;
}

void trm_grouped_convolution_forward(const void *data, const void *x, const void *w, void *y) {
  const trm_grouped_convolution *c = data;
  const grouped_ops *ops = ops_get();
  const int64_t strips = (c->y_size[0] + STRIP - 1) / STRIP;
#pragma omp parallel for schedule(static) if (TRM_OPENMP_THREADS && c->batch * strips > 1)
  for (int64_t i = 0; i < c->batch * strips; ++i) {
    ops->make_strip(c, x, w, y, i / strips, i % strips * STRIP);
  }
}

void trm_grouped_convolution_backward_weights(const void *data, const void *x, const void *dy,
                                              void *dw) {
  const trm_grouped_convolution *c = data;
  const grouped_ops *ops = ops_get();
  const int64_t partials = trm_grouped_convolution_partial_sums(c), blocks = c->channels / BLOCK;
  const int64_t count = blocks * c->k_size[0] * 3 * c->group * BLOCK;
  float *sums = dw;
#pragma omp parallel for schedule(static) if (TRM_OPENMP_THREADS && blocks * partials > 1)
  for (int64_t i = 0; i < blocks * partials; ++i) {
    const int64_t partial = i / blocks;
    ops->make_gradients(c, x, dy, sums + partial * count, i % blocks, c->batch * partial / partials,
                        c->batch * (partial + 1) / partials);
  }
  for (int64_t partial = 1; partial < partials; ++partial) {
    for (int64_t i = 0; i < count; ++i) sums[i] += sums[partial * count + i];
  }
}

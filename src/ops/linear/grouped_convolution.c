/* Owns: convolutions of thin groups, on vectors of 16 channels that span several groups.
 *
 * A vector of x is permuted once for each input channel i of a group, so that every lane has
 * channel i of its own group. It is multiplied with the weights of the three kernel columns that
 * meet it, so no product is with a zero. One thread sums each result in one order, whatever the
 * number of threads. */
#include "ops/linear/grouped_convolution.h"

#include <string.h>

#include "ops/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES TRM_GROUPED_LANES
#define TARGET __attribute__((target("avx512f"))) static
#define INLINE __attribute__((target("avx512f"), always_inline)) static inline
#define STRIP 8         /* rows of outputs that one thread makes at a time */
#define CHUNK 4         /* input channels whose gradients are kept in registers */
#define MAX_BUFFER 1024 /* vectors of a thread's window of rows, on its stack: 64 KiB */

/* Columns of x that a row of outputs reaches, padding included. */
static int64_t padded_width(const trm_grouped_convolution *c) {
  return (c->y_size[1] - 1) * c->stride[1] + 3;
}

bool trm_grouped_convolution_serves(const trm_grouped_convolution *c) {
  return (c->group == 4 || c->group == 8) && c->channels % LANES == 0 && c->k_size[1] == 3 &&
         c->dilation[0] == 1 && c->dilation[1] == 1 && c->stride[0] <= c->k_size[0] &&
         (c->stride[1] == 1 || c->stride[1] == 2) && c->pad[1] <= 2 && c->k_size[0] <= 7 &&
         (c->k_size[0] * padded_width(c) + c->y_size[1] + 4) <= MAX_BUFFER &&
         __builtin_cpu_supports("avx512f");
}

int64_t trm_grouped_convolution_partial_sums(const trm_grouped_convolution *c) {
  return c->batch < 8 ? c->batch : 8;
}

/* Every lane's index of channel i of its group. */
INLINE __m512i spread_index(int64_t group, int64_t i) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i base = _mm512_andnot_si512(_mm512_set1_epi32((int)group - 1), lane);
  return _mm512_add_epi32(base, _mm512_set1_epi32((int)i));
}

/* Copies 16 channels of a row of floats or halves, one vector after the other, with zeros left and
 * right. Rows in memory lie a power of two apart and would evict each other from the cache. */
INLINE void copy_row(const char *from, bool halves, int64_t size, int64_t channels, int64_t pad,
                     int64_t width, __m512 *to) {
  const int64_t end = pad + size < width ? pad + size : width;
  for (int64_t t = 0; t < pad; ++t) to[t] = _mm512_setzero_ps();
  if (halves) {
    for (int64_t t = pad; t < end; ++t, from += channels * 2) {
      to[t] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
    }
  } else {
    for (int64_t t = pad; t < end; ++t, from += channels * 4) to[t] = _mm512_loadu_ps(from);
  }
  for (int64_t t = end; t < width; ++t) to[t] = _mm512_setzero_ps();
}

static int64_t bytes_of(const trm_grouped_convolution *c) { return c->is_half ? 2 : 4; }

/* The rows of x that the current row of outputs needs: row r in slot r mod k_size[0]. */
typedef struct window {
  const char *image; /* channel 0 of the block */
  int64_t next;      /* the first row that has not been copied */
} window;

INLINE void advance(const trm_grouped_convolution *c, window *own, int64_t row, __m512 *buffer) {
  const int64_t width = padded_width(c), first = row * c->stride[0] - c->pad[0];
  int64_t last = first + c->k_size[0];
  if (last > c->x_size[0]) last = c->x_size[0];
  if (own->next < first) own->next = first;
  if (own->next < 0) own->next = 0;
  for (; own->next < last; ++own->next) {
    copy_row(own->image + own->next * c->x_size[1] * c->channels * bytes_of(c), c->is_half,
             c->x_size[1], c->channels, c->pad[1], width,
             buffer + own->next % c->k_size[0] * width);
  }
}

/* Makes `count` neighbouring outputs of one row, the first of which is column `first`. */
INLINE void make_tile(const trm_grouped_convolution *c, const __m512 *buffer, const float *w,
                      char *y, int64_t row, int64_t first, int64_t count, int64_t group,
                      int64_t stride) {
  const int64_t width = padded_width(c);
  __m512 sums[14];
#pragma GCC unroll 14
  for (int64_t t = 0; t < count; ++t) sums[t] = _mm512_setzero_ps();
  const int64_t columns = (count - 1) * stride + 3;
  for (int64_t k = 0; k < c->k_size[0]; ++k) {
    const int64_t source = row * c->stride[0] + k - c->pad[0];
    if (source < 0 || source >= c->x_size[0]) continue;
    const __m512 *from = buffer + source % c->k_size[0] * width + first * stride;
    const float *weights = w + k * 3 * group * LANES;
    for (int64_t i = 0; i < group; ++i, weights += LANES) {
      const __m512i index = spread_index(group, i);
      const __m512 w0 = _mm512_loadu_ps(weights);
      const __m512 w1 = _mm512_loadu_ps(weights + group * LANES);
      const __m512 w2 = _mm512_loadu_ps(weights + 2 * group * LANES);
#pragma GCC unroll 32
      for (int64_t u = 0; u < columns; ++u) {
        const __m512 spread = _mm512_permutexvar_ps(index, from[u]);
        const int64_t t0 = u / stride, t1 = (u - 1) / stride, t2 = (u - 2) / stride;
        if (u % stride == 0 && t0 < count) sums[t0] = _mm512_fmadd_ps(spread, w0, sums[t0]);
        if (u >= 1 && (u - 1) % stride == 0 && t1 < count) {
          sums[t1] = _mm512_fmadd_ps(spread, w1, sums[t1]);
        }
        if (u >= 2 && u % stride == 0) sums[t2] = _mm512_fmadd_ps(spread, w2, sums[t2]);
      }
    }
  }
#pragma GCC unroll 14
  for (int64_t t = 0; t < count; ++t) {
    char *to = y + (first + t) * c->channels * bytes_of(c);
    if (c->is_half) {
      const __m256i halves = _mm512_cvtps_ph(sums[t], _MM_FROUND_TO_NEAREST_INT);
      _mm256_storeu_si256((__m256i *)(void *)to, halves);
    } else {
      _mm512_storeu_ps(to, sums[t]);
    }
  }
}

INLINE void make_row(const trm_grouped_convolution *c, const __m512 *buffer, const float *w,
                     char *y, int64_t row, int64_t group, int64_t stride) {
  const int64_t width = c->y_size[1];
  int64_t t = 0;
  for (; t + 14 <= width; t += 14) make_tile(c, buffer, w, y, row, t, 14, group, stride);
  for (; t + 7 <= width; t += 7) make_tile(c, buffer, w, y, row, t, 7, group, stride);
  for (; t < width; ++t) make_tile(c, buffer, w, y, row, t, 1, group, stride);
}

TARGET void make_strip(const trm_grouped_convolution *c, const char *x, const float *w, char *y,
                       int64_t n, int64_t first) {
  __m512 buffer[MAX_BUFFER];
  const int64_t last = first + STRIP < c->y_size[0] ? first + STRIP : c->y_size[0];
  const int64_t block_weights = c->k_size[0] * 3 * c->group * LANES;
  for (int64_t block = 0; block < c->channels / LANES; ++block) {
    const int64_t pixel = n * c->x_size[0] * c->x_size[1];
    window rows = {x + (pixel * c->channels + block * LANES) * bytes_of(c), 0};
    for (int64_t row = first; row < last; ++row) {
      advance(c, &rows, row, buffer);
      const float *weights = w + block * block_weights;
      const int64_t line = (n * c->y_size[0] + row) * c->y_size[1];
      char *to = y + (line * c->channels + block * LANES) * bytes_of(c);
      if (c->group == 4 && c->stride[1] == 1) make_row(c, buffer, weights, to, row, 4, 1);
      else if (c->group == 4) make_row(c, buffer, weights, to, row, 4, 2);
      else if (c->stride[1] == 1) make_row(c, buffer, weights, to, row, 8, 1);
      else make_row(c, buffer, weights, to, row, 8, 2);
    }
  }
}

void trm_grouped_convolution_forward(const void *data, const void *x, const void *w, void *y) {
  const trm_grouped_convolution *c = data;
  const int64_t strips = (c->y_size[0] + STRIP - 1) / STRIP;
#pragma omp parallel for schedule(static) if (TRM_OPENMP_THREADS && c->batch * strips > 1)
  for (int64_t i = 0; i < c->batch * strips; ++i) {
    make_strip(c, x, w, y, i / strips, i % strips * STRIP);
  }
}

/* Adds the products of one row of x with one of dy (which has two zeros before and after) to the
 * gradients of input channels [first, first + CHUNK) and all three kernel columns. The row is
 * summed apart, which keeps the rounding errors of large images small. */
INLINE void add_gradients(const trm_grouped_convolution *c, const __m512 *x, const __m512 *dy,
                          float *dw, int64_t first, int64_t group, int64_t stride) {
  const int64_t width = c->y_size[1];
  __m512 sums[3][CHUNK];
  __m512i index[CHUNK];
#pragma GCC unroll 4
  for (int64_t i = 0; i < CHUNK; ++i) {
    index[i] = spread_index(group, first + i);
    sums[0][i] = sums[1][i] = sums[2][i] = _mm512_setzero_ps();
  }
  if (stride == 1) { /* column u of x meets dy[u - k] */
    for (int64_t u = 0; u < width + 2; ++u) {
      const __m512 column = x[u], d0 = dy[u + 2], d1 = dy[u + 1], d2 = dy[u];
#pragma GCC unroll 4
      for (int64_t i = 0; i < CHUNK; ++i) {
        const __m512 spread = _mm512_permutexvar_ps(index[i], column);
        sums[0][i] = _mm512_fmadd_ps(spread, d0, sums[0][i]);
        sums[1][i] = _mm512_fmadd_ps(spread, d1, sums[1][i]);
        sums[2][i] = _mm512_fmadd_ps(spread, d2, sums[2][i]);
      }
    }
  } else { /* column 2 t is the first of output t and the last of t - 1 */
    for (int64_t t = 0; t <= width; ++t) {
      const __m512 before = dy[t + 1], d = dy[t + 2], even = x[2 * t];
      const __m512 odd = x[t < width ? 2 * t + 1 : 2 * t]; /* past the end: dy is zero */
#pragma GCC unroll 4
      for (int64_t i = 0; i < CHUNK; ++i) {
        const __m512 spread = _mm512_permutexvar_ps(index[i], even);
        sums[0][i] = _mm512_fmadd_ps(spread, d, sums[0][i]);
        sums[1][i] = _mm512_fmadd_ps(_mm512_permutexvar_ps(index[i], odd), d, sums[1][i]);
        sums[2][i] = _mm512_fmadd_ps(spread, before, sums[2][i]);
      }
    }
  }
#pragma GCC unroll 3
  for (int64_t k = 0; k < 3; ++k) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < CHUNK; ++i) {
      float *to = dw + (k * group + first + i) * LANES;
      _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), sums[k][i]));
    }
  }
}

INLINE void add_row_gradients(const trm_grouped_convolution *c, const __m512 *x, const __m512 *dy,
                              float *dw, int64_t row, int64_t group, int64_t stride) {
  for (int64_t k = 0; k < c->k_size[0]; ++k) {
    const int64_t source = row * c->stride[0] + k - c->pad[0];
    if (source < 0 || source >= c->x_size[0]) continue;
    for (int64_t first = 0; first < group; first += CHUNK) {
      add_gradients(c, x + source % c->k_size[0] * padded_width(c), dy, dw + k * 3 * group * LANES,
                    first, group, stride);
    }
  }
}

/* The gradients of one block of 16 channels from images [begin, end). */
TARGET void make_gradients(const trm_grouped_convolution *c, const float *x, const float *dy,
                           float *dw, int64_t block, int64_t begin, int64_t end) {
  __m512 buffer[MAX_BUFFER];
  __m512 *gradient = buffer + c->k_size[0] * padded_width(c);
  const int64_t count = c->k_size[0] * 3 * c->group * LANES, width = c->y_size[1];
  float *to = dw + block * count;
  memset(to, 0, (size_t)count * sizeof(float));
  for (int64_t n = begin; n < end; ++n) {
    const float *image = x + n * c->x_size[0] * c->x_size[1] * c->channels + block * LANES;
    window rows = {(const char *)image, 0};
    for (int64_t row = 0; row < c->y_size[0]; ++row) {
      advance(c, &rows, row, buffer);
      const float *line = dy + (n * c->y_size[0] + row) * width * c->channels + block * LANES;
      copy_row((const char *)line, false, width, c->channels, 2, width + 4, gradient);
      if (c->group == 4 && c->stride[1] == 1) add_row_gradients(c, buffer, gradient, to, row, 4, 1);
      else if (c->group == 4) add_row_gradients(c, buffer, gradient, to, row, 4, 2);
      else if (c->stride[1] == 1) add_row_gradients(c, buffer, gradient, to, row, 8, 1);
      else add_row_gradients(c, buffer, gradient, to, row, 8, 2);
    }
  }
}

void trm_grouped_convolution_backward_weights(const void *data, const void *x, const void *dy,
                                              void *dw) {
  const trm_grouped_convolution *c = data;
  const int64_t parts = trm_grouped_convolution_partial_sums(c), blocks = c->channels / LANES;
  const int64_t count = blocks * c->k_size[0] * 3 * c->group * LANES;
  float *sums = dw;
#pragma omp parallel for schedule(static) if (TRM_OPENMP_THREADS && blocks * parts > 1)
  for (int64_t i = 0; i < blocks * parts; ++i) {
    const int64_t part = i / blocks;
    make_gradients(c, x, dy, sums + part * count, i % blocks, c->batch * part / parts,
                   c->batch * (part + 1) / parts);
  }
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t i = 0; i < count; ++i) sums[i] += sums[part * count + i];
  }
}

#else

bool trm_grouped_convolution_serves(const trm_grouped_convolution *c) {
  (void)c;
  return false;
}

int64_t trm_grouped_convolution_partial_sums(const trm_grouped_convolution *c) {
  (void)c;
  return 1;
}

/* Never called, because no problem is served. */
void trm_grouped_convolution_forward(const void *data, const void *x, const void *w, void *y) {
  (void)data, (void)x, (void)w, (void)y;
}

void trm_grouped_convolution_backward_weights(const void *data, const void *x, const void *dy,
                                              void *dw) {
  (void)data, (void)x, (void)dy, (void)dw;
}

#endif

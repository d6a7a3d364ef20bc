/* Thin groups with one instruction set, which grouped_convolution.c describes by macros. A block is
 * 16 channels; PARTS vectors make it up. */

/* Copies the 16 channels of a block of a row of floats or halves, one pixel after the other, with
 * zeros left and right. Rows in memory lie a power of two apart and would evict each other from the
 * cache. */
INLINE void NAME(copy_row)(const char *from, bool halves, int64_t size, int64_t channels,
                           int64_t pad, int64_t width, float *to) {
  const int64_t end = pad + size < width ? pad + size : width;
  memset(to, 0, (size_t)(pad * BLOCK) * sizeof *to);
  to += pad * BLOCK;
  for (int64_t t = pad; t < end; ++t, to += BLOCK, from += channels * (halves ? 2 : 4)) {
#pragma GCC unroll 2
    for (int v = 0; v < BLOCK; v += LANES) {
      STORE(to + v, halves ? LOAD_HALVES(from + 2 * v)
                           : LOAD_ANYWHERE((const float *)(const void *)from + v));
    }
  }
  if (end < width) memset(to, 0, (size_t)((width - end) * BLOCK) * sizeof *to);
}

INLINE void NAME(advance)(const trm_grouped_convolution *c, window *own, int64_t row,
                          float *buffer) {
  const int64_t width = padded_width(c), first = row * c->stride[0] - c->pad[0];
  int64_t last = first + c->k_size[0];
  if (last > c->x_size[0]) last = c->x_size[0];
  if (own->next < first) own->next = first;
  if (own->next < 0) own->next = 0;
  for (; own->next < last; ++own->next) {
    NAME(copy_row)
    (own->image + own->next * c->x_size[1] * c->channels * bytes_of(c), c->is_half, c->x_size[1],
     c->channels, c->pad[1], width, buffer + own->next % c->k_size[0] * width * BLOCK);
  }
}

/* Makes one vector of `count` neighbouring outputs of one row, the first of which is column
 * `first`. `w` and `y` are at the vector's first channel, which is channel `at` of the block. */
INLINE void NAME(make_tile)(const trm_grouped_convolution *c, const float *buffer, const float *w,
                            char *y, int64_t row, int64_t first, int64_t count, int64_t at,
                            int64_t group, int64_t stride) {
  const int64_t width = padded_width(c);
  FLOATS sums[TILE];
#pragma GCC unroll 14
  for (int64_t t = 0; t < count; ++t) sums[t] = ZERO();
  const int64_t columns = (count - 1) * stride + 3;
  for (int64_t k = 0; k < c->k_size[0]; ++k) {
    const int64_t source = row * c->stride[0] + k - c->pad[0];
    if (source < 0 || source >= c->x_size[0]) continue;
    const float *from = buffer + (source % c->k_size[0] * width + first * stride) * BLOCK;
    const float *weights = w + k * 3 * group * BLOCK;
    for (int64_t i = 0; i < group; ++i, weights += BLOCK) {
      const INDEX index = SPREAD_INDEX(group, i);
      const FLOATS w0 = LOAD_ANYWHERE(weights);
      const FLOATS w1 = LOAD_ANYWHERE(weights + group * BLOCK);
      const FLOATS w2 = LOAD_ANYWHERE(weights + 2 * group * BLOCK);
#pragma GCC unroll 32
      for (int64_t u = 0; u < columns; ++u) {
        const FLOATS spread = SPREAD(from + u * BLOCK, at, group, i, index);
        const int64_t t0 = u / stride, t1 = (u - 1) / stride, t2 = (u - 2) / stride;
        if (u % stride == 0 && t0 < count) sums[t0] = FMA(spread, w0, sums[t0]);
        if (u >= 1 && (u - 1) % stride == 0 && t1 < count) sums[t1] = FMA(spread, w1, sums[t1]);
        if (u >= 2 && u % stride == 0) sums[t2] = FMA(spread, w2, sums[t2]);
      }
    }
  }
#pragma GCC unroll 14
  for (int64_t t = 0; t < count; ++t) {
    char *to = y + (first + t) * c->channels * bytes_of(c);
    if (c->is_half) STORE_HALVES(to, sums[t]);
    else STORE_ANYWHERE((float *)(void *)to, sums[t]);
  }
}

INLINE void NAME(make_row)(const trm_grouped_convolution *c, const float *buffer, const float *w,
                           char *y, int64_t row, int64_t group, int64_t stride) {
  const int64_t width = c->y_size[1];
#pragma GCC unroll 1
  for (int64_t at = 0; at < BLOCK; at += LANES, w += LANES, y += LANES * bytes_of(c)) {
    int64_t t = 0;
    for (; t + TILE <= width; t += TILE) {
      NAME(make_tile)(c, buffer, w, y, row, t, TILE, at, group, stride);
    }
    for (; t + TILE / 2 <= width; t += TILE / 2) {
      NAME(make_tile)(c, buffer, w, y, row, t, TILE / 2, at, group, stride);
    }
    for (; t < width; ++t) NAME(make_tile)(c, buffer, w, y, row, t, 1, at, group, stride);
  }
}

TARGET void NAME(make_strip)(const trm_grouped_convolution *c, const char *x, const float *w,
                             char *y, int64_t n, int64_t first) {
  _Alignas(64) float buffer[MAX_BUFFER * BLOCK];
  const int64_t last = first + STRIP < c->y_size[0] ? first + STRIP : c->y_size[0];
  const int64_t block_weights = c->k_size[0] * 3 * c->group * BLOCK;
  for (int64_t block = 0; block < c->channels / BLOCK; ++block) {
    const int64_t pixel = n * c->x_size[0] * c->x_size[1];
    window rows = {x + (pixel * c->channels + block * BLOCK) * bytes_of(c), 0};
    for (int64_t row = first; row < last; ++row) {
      NAME(advance)(c, &rows, row, buffer);
      const float *weights = w + block * block_weights;
      const int64_t line = (n * c->y_size[0] + row) * c->y_size[1];
      char *to = y + (line * c->channels + block * BLOCK) * bytes_of(c);
      FOR_EACH_FORM(NAME(make_row), c, buffer, weights, to, row);
    }
  }
}

/* Adds the products of one row of x with one of dy (which has two zeros before and after) to the
 * gradients of input channels [first, first + CHUNK) and all three kernel columns. The row is
 * summed apart, which keeps the rounding errors of large images small. */
INLINE void NAME(add_gradients)(const trm_grouped_convolution *c, const float *x, const float *dy,
                                float *dw, int64_t first, int64_t at, int64_t group,
                                int64_t stride) {
  const int64_t width = c->y_size[1];
  FLOATS sums[3][CHUNK];
  INDEX index[CHUNK];
#pragma GCC unroll 4
  for (int64_t i = 0; i < CHUNK; ++i) {
    index[i] = SPREAD_INDEX(group, first + i);
    sums[0][i] = sums[1][i] = sums[2][i] = ZERO();
  }
  dy += at;
  if (stride == 1) { /* column u of x meets dy[u - k] */
    for (int64_t u = 0; u < width + 2; ++u, x += BLOCK, dy += BLOCK) {
      const FLOATS d0 = LOAD(dy + 2 * BLOCK), d1 = LOAD(dy + BLOCK), d2 = LOAD(dy);
#pragma GCC unroll 4
      for (int64_t i = 0; i < CHUNK; ++i) {
        const FLOATS spread = SPREAD(x, at, group, first + i, index[i]);
        sums[0][i] = FMA(spread, d0, sums[0][i]);
        sums[1][i] = FMA(spread, d1, sums[1][i]);
        sums[2][i] = FMA(spread, d2, sums[2][i]);
      }
    }
  } else { /* column 2 t is the first of output t and the last of t - 1 */
    for (int64_t t = 0; t <= width; ++t, x += 2 * BLOCK, dy += BLOCK) {
      const FLOATS before = LOAD(dy + BLOCK), d = LOAD(dy + 2 * BLOCK);
      const float *odd = t < width ? x + BLOCK : x; /* past the end: dy is zero */
#pragma GCC unroll 4
      for (int64_t i = 0; i < CHUNK; ++i) {
        const FLOATS spread = SPREAD(x, at, group, first + i, index[i]);
        sums[0][i] = FMA(spread, d, sums[0][i]);
        sums[1][i] = FMA(SPREAD(odd, at, group, first + i, index[i]), d, sums[1][i]);
        sums[2][i] = FMA(spread, before, sums[2][i]);
      }
    }
  }
#pragma GCC unroll 3
  for (int64_t k = 0; k < 3; ++k) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < CHUNK; ++i) {
      float *to = dw + (k * group + first + i) * BLOCK + at;
      STORE_ANYWHERE(to, ADD(LOAD_ANYWHERE(to), sums[k][i]));
    }
  }
}

INLINE void NAME(add_row_gradients)(const trm_grouped_convolution *c, const float *x,
                                    const float *dy, float *dw, int64_t row, int64_t group,
                                    int64_t stride) {
  for (int64_t k = 0; k < c->k_size[0]; ++k) {
    const int64_t source = row * c->stride[0] + k - c->pad[0];
    if (source < 0 || source >= c->x_size[0]) continue;
    const float *from = x + source % c->k_size[0] * padded_width(c) * BLOCK;
    for (int64_t first = 0; first < group; first += CHUNK) {
      for (int64_t at = 0; at < BLOCK; at += LANES) {
        NAME(add_gradients)(c, from, dy, dw + k * 3 * group * BLOCK, first, at, group, stride);
      }
    }
  }
}

/* The gradients of one block of 16 channels from images [begin, end). */
TARGET void NAME(make_gradients)(const trm_grouped_convolution *c, const float *x, const float *dy,
                                 float *dw, int64_t block, int64_t begin, int64_t end) {
  _Alignas(64) float buffer[MAX_BUFFER * BLOCK];
  float *gradient = buffer + c->k_size[0] * padded_width(c) * BLOCK;
  const int64_t count = c->k_size[0] * 3 * c->group * BLOCK, width = c->y_size[1];
  float *to = dw + block * count;
  memset(to, 0, (size_t)count * sizeof(float));
  for (int64_t n = begin; n < end; ++n) {
    const float *image = x + n * c->x_size[0] * c->x_size[1] * c->channels + block * BLOCK;
    window rows = {(const char *)image, 0};
    for (int64_t row = 0; row < c->y_size[0]; ++row) {
      NAME(advance)(c, &rows, row, buffer);
      const float *line = dy + (n * c->y_size[0] + row) * width * c->channels + block * BLOCK;
      NAME(copy_row)((const char *)line, false, width, c->channels, 2, width + 4, gradient);
      FOR_EACH_FORM(NAME(add_row_gradients), c, buffer, gradient, to, row);
    }
  }
}

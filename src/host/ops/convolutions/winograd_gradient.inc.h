/* Gradients of weights by Winograd's transforms with one instruction set, which winograd_tiles.c
 * describes by macros: with the tiles d of x and e of dy, dw is G'(sum of (B d B') * (A' e A))G,
 * where * multiplies element by element, as in the derivative of the convolution. */

/* A' e A of a vector of outputs: A' is [1 0; 1 1; 1 -1; 0 -1]. */
INLINE void NAME(transform_dy)(const float *const pixels[4], int64_t channel, int64_t plane,
                               float *to) {
  const FLOATS a = LOAD_ANYWHERE(pixels[0] + channel), b = LOAD_ANYWHERE(pixels[1] + channel);
  const FLOATS c = LOAD_ANYWHERE(pixels[2] + channel), d = LOAD_ANYWHERE(pixels[3] + channel);
  const FLOATS left[4] = {a, a + c, a - c, ZERO() - c}, right[4] = {b, b + d, b - d, ZERO() - d};
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r, to += 4 * plane) {
    STORE(to, left[r]);
    STORE(to + plane, left[r] + right[r]);
    STORE(to + 2 * plane, left[r] - right[r]);
    STORE(to + 3 * plane, ZERO() - right[r]);
  }
}

/* The pixel of image n, or zeros if it is not in the image. */
INLINE const float *NAME(pixel)(const float *from, const int64_t size[2], int64_t channels,
                                int64_t n, int64_t row, int64_t column) {
  const bool is_there = row >= 0 && row < size[0] && column >= 0 && column < size[1];
  return is_there ? from + ((n * size[0] + row) * size[1] + column) * channels : zeros;
}

/* Transforms tiles [first, last) of x and dy, for a block of channels of each. */
INLINE void NAME(transform_both)(const trm_gradient_job *job, const trm_gradient_block *b,
                                 int64_t first, int64_t last, float *left, float *right) {
  const trm_weight_gradient *g = job->g;
  const int64_t down = trm_divide_up(g->y_size[0], 2), across = trm_divide_up(g->y_size[1], 2);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t n = tile / (down * across);
    const int64_t row = tile / across % down * 2, column = tile % across * 2;
    const float *pixels[16], *gradients[4];
    for (int64_t k = 0; k < 16; ++k) {
      pixels[k] = NAME(pixel)(job->x + b->in, g->x_size, g->in_channels, n, row - g->pad[0] + k / 4,
                              column - g->pad[1] + k % 4);
    }
    for (int64_t k = 0; k < 4; ++k) {
      gradients[k] =
          NAME(pixel)(job->dy + b->out, g->y_size, g->out_channels, n, row + k / 2, column + k % 2);
    }
    float *to = left + (tile - first) * b->line;
    for (int64_t c = 0; c < b->channels; c += LANES) {
      NAME(transform_input)(pixels, c, b->left_plane, to + c);
    }
    for (int64_t c = 0; c < b->outputs; c += LANES) {
      to = right + (c / WIDE * g->tiles + tile - first) * WIDE + c % WIDE;
      NAME(transform_dy)(gradients, c, b->right_plane, to);
    }
  }
}

/* Adds, or writes, the products of `tiles` tiles of UNIT input channels and WIDE outputs. */
INLINE void NAME(add_products)(const float *x, int64_t line, const float *dy, int64_t tiles,
                               bool is_first, float *to) {
  FLOATS sums[UNIT][2];
  NAME(clear_tile)(sums, UNIT);
  NAME(add_lines)(sums, UNIT, x, 1, line, dy, tiles);
  NAME(store_tile)(sums, UNIT, UNIT, WIDE, !is_first, to, WIDE);
}

/* G' m G of a vector of outputs. Adds zero times each result to *not_finite. */
INLINE void NAME(write_gradient)(const float *from, int64_t plane, int64_t element, float *to,
                                 FLOATS *not_finite) {
  const FLOATS half = SET1(0.5f);
  FLOATS m[3][4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const FLOATS b = LOAD(from + (4 + k) * plane), c = LOAD(from + (8 + k) * plane);
    const FLOATS even = half * (b + c);
    m[0][k] = LOAD(from + k * plane) + even;
    m[1][k] = half * (b - c);
    m[2][k] = even + LOAD(from + (12 + k) * plane);
  }
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r, to += 3 * element) {
    const FLOATS even = half * (m[r][1] + m[r][2]);
    const FLOATS all[3] = {m[r][0] + even, half * (m[r][1] - m[r][2]), even + m[r][3]};
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k) {
      STORE_ANYWHERE(to + k * element, all[k]);
      *not_finite = FMA(all[k], ZERO(), *not_finite);
    }
  }
}

TARGET bool NAME(run_gradient)(const trm_gradient_job *job, int64_t index, float *workspace) {
  const trm_weight_gradient *g = job->g;
  const trm_gradient_block b = trm_winograd_gradient_block(g, index, UNIT, WIDE);
  float *left = workspace, *right = left + TRM_WINOGRAD_PLANES * b.left_plane;
  float *sums = right + TRM_WINOGRAD_PLANES * b.right_plane;
  memset(left, 0, (size_t)(TRM_WINOGRAD_PLANES * b.left_plane) * sizeof *left);    /* UNIT's rest */
  memset(right, 0, (size_t)(TRM_WINOGRAD_PLANES * b.right_plane) * sizeof *right); /* WIDE's */
  for (int64_t first = b.first_tile; first < b.last_tile; first += g->tiles) {
    const int64_t last = trm_least(first + g->tiles, b.last_tile);
    NAME(transform_both)(job, &b, first, last, left, right);
    for (int64_t k = 0; k < TRM_WINOGRAD_PLANES; ++k) {
      float *to = sums + k * b.sum_plane;
      for (int64_t o = 0; o < b.outputs; o += WIDE) {
        const float *dy = right + k * b.right_plane + o * g->tiles;
        for (int64_t i = 0; i < b.channels; i += UNIT, to += UNIT * WIDE) {
          NAME(add_products)
          (left + k * b.left_plane + i, b.line, dy, last - first, first == b.first_tile, to);
        }
      }
    }
  }
  FLOATS not_finite = ZERO();
  const int64_t element = g->in_channels * g->out_channels, rows = trm_round_up(b.channels, UNIT);
  float *dw = b.chunk == 0 ? job->dw : job->other + (b.chunk - 1) * trm_gradient_count(g);
  dw += b.in * g->out_channels + b.out;
  for (int64_t i = 0; i < b.channels; ++i) {
    for (int64_t o = 0; o < b.outputs; o += LANES) {
      NAME(write_gradient)
      (sums + (o / WIDE * rows + i) * WIDE + o % WIDE, b.sum_plane, element,
       dw + i * g->out_channels + o, &not_finite);
    }
  }
  return NAME(is_zero)(&not_finite);
}

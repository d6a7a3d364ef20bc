/* Winograd's transforms and products with one instruction set, which winograd_tiles.c describes by
 * macros. */

/* ---- Filters --------------------------------------------------------------------------------- */

/* Copies the filters of TRM_WINOGRAD_STRIP channels from `channel` on and WIDE outputs from
 * `output` on, as [element][channel][output], with zeros for outputs that are not there. */
INLINE void NAME(gather_filters)(const trm_winograd *w, const float *from, int64_t channel,
                                 int64_t output, float to[9][TRM_WINOGRAD_STRIP][WIDE]) {
  const int64_t outputs = w->outputs - output < WIDE ? w->outputs - output : WIDE;
  if (outputs < WIDE) memset(to, 0, 9 * sizeof *to);
  from += w->w_start + channel * w->w_channel + output * w->w_output;
  for (int64_t k = 0; k < 9; ++k) {
    const float *element = from + k / 3 * w->w_spatial[0] + k % 3 * w->w_spatial[1];
    if (w->w_output == 1) {
      for (int64_t i = 0; i < TRM_WINOGRAD_STRIP; ++i) {
        memcpy(to[k][i], element + i * w->w_channel, (size_t)outputs * sizeof *from);
      }
    } else if (w->w_channel == 1) {
      for (int64_t o = 0; o < outputs; o += 8) {
        trm_transpose_8x8(element + o * w->w_output, w->w_output, to[k][0] + o, WIDE);
      }
    } else {
      for (int64_t i = 0; i < TRM_WINOGRAD_STRIP; ++i) {
        for (int64_t o = 0; o < outputs; ++o) {
          to[k][i][o] = element[i * w->w_channel + o * w->w_output];
        }
      }
    }
  }
}

/* G g of three elements, and the same again for the rows of the result: G is
 * [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]. */
TARGET void NAME(transform_filters)(const trm_winograd *w, const float *from, int64_t panel,
                                    int64_t strip, float *to) {
  float elements[9][TRM_WINOGRAD_STRIP][WIDE] __attribute__((aligned(64)));
  const int64_t plane = trm_winograd_filter_plane(w, WIDE), channel = strip * TRM_WINOGRAD_STRIP;
  NAME(gather_filters)(w, from, channel, panel * WIDE, elements);
  to += panel * TRM_WINOGRAD_PLANES * plane + channel * WIDE;
  const FLOATS half = SET1(0.5f);
  for (int64_t i = 0; i < TRM_WINOGRAD_STRIP; ++i) {
    for (int64_t o = 0; o < WIDE; o += LANES) {
      FLOATS g[4][3];
#pragma GCC unroll 3
      for (int k = 0; k < 3; ++k) {
        const FLOATS a = LOAD(elements[k][i] + o), b = LOAD(elements[3 + k][i] + o),
                     c = LOAD(elements[6 + k][i] + o);
        const FLOATS ends = half * (a + c), middle = half * b;
        g[0][k] = a, g[1][k] = ends + middle, g[2][k] = ends - middle, g[3][k] = c;
      }
      float *into = to + i * WIDE + o;
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r, into += 4 * plane) {
        const FLOATS ends = half * (g[r][0] + g[r][2]), middle = half * g[r][1];
        STORE(into, g[r][0]);
        STORE(into + plane, ends + middle);
        STORE(into + 2 * plane, ends - middle);
        STORE(into + 3 * plane, g[r][2]);
      }
    }
  }
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* B d B' of a vector of channels: B is [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]. */
INLINE void NAME(transform_input)(const float *const pixels[16], int64_t channel, int64_t plane,
                                  float *to) {
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r, to += 4 * plane) {
    FLOATS d[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const FLOATS a = LOAD_ANYWHERE(pixels[(r == 0 ? 0 : r == 2 ? 8 : 4) + k] + channel);
      const FLOATS b = LOAD_ANYWHERE(pixels[(r == 2 ? 4 : r == 3 ? 12 : 8) + k] + channel);
      d[k] = r == 1 ? a + b : a - b;
    }
    STORE(to, d[0] - d[2]);
    STORE(to + plane, d[1] + d[2]);
    STORE(to + 2 * plane, d[2] - d[1]);
    STORE(to + 3 * plane, d[1] - d[3]);
  }
}

TARGET void NAME(transform_inputs)(const trm_winograd_task *task, int64_t plane) {
  const trm_winograd *w = task->w;
  const int64_t down = trm_winograd_down(w, 0), across = trm_winograd_down(w, 1);
  float *to = task->inputs;
  for (int64_t tile = task->first_tile; tile < task->last_tile; tile += ROWS) {
    const float *pixels[ROWS][16];
    for (int64_t r = 0; r < ROWS; ++r) {
      const int64_t t = tile + r, n = t / (down * across);
      const int64_t row = t / across % down * 2 - w->pad[0], column = t % across * 2 - w->pad[1];
      for (int64_t k = 0; k < 16; ++k) {
        const int64_t h = row + k / 4, v = column + k % 4;
        const bool is_there =
            t < task->last_tile && h >= 0 && h < w->x_size[0] && v >= 0 && v < w->x_size[1];
        pixels[r][k] =
            is_there ? task->x + ((n * w->x_size[0] + h) * w->x_size[1] + v) * w->channels : zeros;
      }
    }
    for (int64_t c = 0; c < w->channels; c += LANES) {
      for (int64_t r = 0; r < ROWS; ++r, to += LANES) {
        NAME(transform_input)(pixels[r], c, plane, to);
      }
    }
  }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* The products of ROWS tiles of x and the filters of a panel of outputs, in one plane. */
INLINE void NAME(multiply)(const float *inputs, const float *filters, int64_t channels, float *to) {
  FLOATS sums[ROWS][2];
  NAME(clear_tile)(sums, ROWS);
  for (int64_t c = 0; c < channels; c += LANES, inputs += ROWS * LANES, filters += LANES * WIDE) {
#pragma GCC unroll 16
    for (int l = 0; l < LANES; ++l) {
      const float *line = filters + l * WIDE;
      NAME(add_line)(sums, ROWS, inputs + l, LANES, LOAD(line), LOAD(line + LANES));
    }
  }
  NAME(store_tile)(sums, ROWS, ROWS, WIDE, false, to, WIDE);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* A m A' of a vector of outputs: A is [1 1 1 0; 0 1 -1 -1]. */
INLINE void NAME(transform_product)(const float *from, int64_t plane, FLOATS y[2][2]) {
  FLOATS m[2][4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const FLOATS a = LOAD(from + k * plane), b = LOAD(from + (4 + k) * plane),
                 c = LOAD(from + (8 + k) * plane), d = LOAD(from + (12 + k) * plane);
    m[0][k] = a + (b + c), m[1][k] = (b - c) - d;
  }
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) {
    y[r][0] = m[r][0] + (m[r][1] + m[r][2]);
    y[r][1] = (m[r][1] - m[r][2]) - m[r][3];
  }
}

/* Writes the results of panels [first, last). Adds zero times each result to *not_finite. */
TARGET void NAME(write_results)(const trm_winograd_task *task, int64_t first, int64_t last,
                                int64_t plane, FLOATS *not_finite) {
  const trm_winograd *w = task->w;
  const int64_t down = trm_winograd_down(w, 0), across = trm_winograd_down(w, 1);
  const int64_t line = w->y_size[1] * w->outputs;
  const int64_t tiles = task->last_tile - task->first_tile;
  const int64_t panel = trm_divide_up(tiles, ROWS) * ROWS * WIDE;
  const int64_t begin = first * WIDE, end = last * WIDE < w->outputs ? last * WIDE : w->outputs;
  const FLOATS zero = ZERO();
  FLOATS sum = *not_finite;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t t = task->first_tile + tile, n = t / (down * across);
    const int64_t row = t / across % down * 2, column = t % across * 2;
    const bool is_low = row + 1 < w->y_size[0], is_wide = column + 1 < w->y_size[1];
    float *to = task->y + ((n * w->y_size[0] + row) * w->y_size[1] + column) * w->outputs;
    for (int64_t o = begin; o < end; o += LANES) {
      const float *from = task->products + (o - begin) / WIDE * panel + tile * WIDE + o % WIDE;
      FLOATS y[2][2];
      NAME(transform_product)(from, plane, y);
      STORE_ANYWHERE(to + o, y[0][0]);
      sum = FMA(y[0][0], zero, sum);
      if (is_wide) {
        STORE_ANYWHERE(to + w->outputs + o, y[0][1]);
        sum = FMA(y[0][1], zero, sum);
      }
      if (!is_low) continue;
      STORE_ANYWHERE(to + line + o, y[1][0]);
      sum = FMA(y[1][0], zero, sum);
      if (is_wide) {
        STORE_ANYWHERE(to + line + w->outputs + o, y[1][1]);
        sum = FMA(y[1][1], zero, sum);
      }
    }
  }
  *not_finite = sum;
}

/* ---- The whole ------------------------------------------------------------------------------- */

INLINE bool NAME(is_zero)(const FLOATS *v) {
  float lanes[LANES] __attribute__((aligned(64)));
  STORE(lanes, *v);
  bool is_zero = true;
  for (int l = 0; l < LANES; ++l) is_zero = is_zero && lanes[l] == 0;
  return is_zero;
}

TARGET bool NAME(run_task)(const trm_winograd_task *task) {
  const trm_winograd *w = task->w;
  const int64_t tiles = task->last_tile - task->first_tile;
  const int64_t plane = trm_winograd_tile_plane(tiles, ROWS, w->channels);
  const int64_t product_plane = trm_winograd_tile_plane(tiles, ROWS, PANELS * WIDE);
  const int64_t filter_plane = trm_winograd_filter_plane(w, WIDE);
  FLOATS not_finite = ZERO();
  NAME(transform_inputs)(task, plane);
  for (int64_t first = task->first_panel; first < task->last_panel; first += PANELS) {
    const int64_t last = first + PANELS < task->last_panel ? first + PANELS : task->last_panel;
    for (int64_t k = 0; k < TRM_WINOGRAD_PLANES; ++k) {
      float *to = task->products + k * product_plane;
      for (int64_t p = first; p < last; ++p) {
        const float *filters = task->filters + (p * TRM_WINOGRAD_PLANES + k) * filter_plane;
        const float *inputs = task->inputs + k * plane;
        for (int64_t t = 0; t < tiles; t += ROWS, to += ROWS * WIDE, inputs += ROWS * w->channels) {
          NAME(multiply)(inputs, filters, w->channels, to);
        }
      }
    }
    NAME(write_results)(task, first, last, product_plane, &not_finite);
  }
  return NAME(is_zero)(&not_finite);
}

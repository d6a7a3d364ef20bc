/* Packing and multiplying panels with one instruction set, which weight_gradient_panels.c describes
 * by macros. */

INLINE void NAME(clear_pixels)(int64_t count, int64_t channels, int64_t panel, float *to) {
  if (count == 0) return;
  for (int64_t c = 0; c < channels; c += UNIT, to += panel) {
    memset(to, 0, (size_t)(count * UNIT) * sizeof *to);
  }
}

/* Fetches share `k` of `all`. */
INLINE void NAME(fetch)(const ahead *a, int64_t k, int64_t all) {
  const int64_t end = a->pixels * (k + 1) / all;
  for (int64_t i = a->pixels * k / all; i < end; ++i) {
    const float *from = a->from + i * a->stride;
    for (int64_t c = 0; c < a->count; c += LINE) _mm_prefetch(from + c, _MM_HINT_T1);
  }
}

/* Packs `channels` channels from `first` on. */
TARGET void NAME(pack_left)(const trm_weight_gradient *g, const float *x, const strip *s,
                            int64_t first, int64_t channels, float *to) {
  const int64_t panel = trm_panel_pixels(g) * UNIT, width = trm_panel_size(g, 1, g->y_size[1]);
  const int64_t height = trm_panel_size(g, 0, s->rows), step = trm_panel_pick(g, 1);
  /* Columns [begin, end) of a panel are in the image. */
  const int64_t begin = trm_least(trm_divide_up(g->pad[1], step), width);
  int64_t end = trm_least(width, trm_divide_up(g->x_size[1] + g->pad[1], step));
  if (end < begin) end = begin;
  for (int64_t n = s->image; n < s->image + s->images; ++n) {
    for (int64_t h = 0; h < height; ++h, to += width * UNIT) {
      const int64_t row = (s->row * trm_panel_stride(g, 0) + h) * trm_panel_pick(g, 0) - g->pad[0];
      if (row < 0 || row >= g->x_size[0]) {
        NAME(clear_pixels)(width, channels, panel, to);
        continue;
      }
      const int64_t pixel = (n * g->x_size[0] + row) * g->x_size[1] + begin * step - g->pad[1];
      const float *from = x + pixel * g->in_channels + first;
      NAME(clear_pixels)(begin, channels, panel, to);
      NAME(clear_pixels)(width - end, channels, panel, to + end * UNIT);
      for (int64_t c = 0; c < channels; c += GROUP) {
        NAME(pack_pixels)
        (from + c, step * g->in_channels, end - begin, channels - c, panel,
         to + begin * UNIT + c / UNIT * panel);
      }
    }
  }
}

TARGET void NAME(pack_right)(const trm_weight_gradient *g, const float *dy, const strip *s,
                             int64_t first, int64_t channels, float *to) {
  const int64_t count = s->rows * g->y_size[1]; /* of an image, one after the other */
  const int64_t image = g->y_size[0] * g->y_size[1];
  for (int64_t c = 0; c < channels; c += WIDE) {
    for (int64_t n = s->image; n < s->image + s->images; ++n, to += count * WIDE) {
      const float *from = dy + (n * image + s->row * g->y_size[1]) * g->out_channels + first + c;
      NAME(pack_lines)(from, g->out_channels, count, channels - c, to);
    }
  }
}

/* Adds, or writes, `channels` lines of a tile. */
INLINE void NAME(add_tile)(const tile *t, const float *x, const float *dy, float *dw,
                           int64_t channels, int64_t outputs) {
  FLOATS sums[UNIT][2];
  NAME(clear_tile)(sums, UNIT);
  for (int64_t r = 0; r < t->num_rows; ++r, dy += t->width * WIDE) {
    NAME(add_lines)(sums, UNIT, x + t->rows[r], 1, t->step, dy, t->width);
  }
  NAME(store_tile)(sums, UNIT, channels, outputs, !t->is_first, dw, t->line);
}

/* Adds the products of the packed panels to a block of the gradient, which begins at `dw`. */
TARGET void NAME(multiply)(const trm_weight_gradient *g, const strip *s, const float *left,
                           const float *right, int64_t channels, int64_t outputs, bool is_first,
                           const ahead next[2], float *dw) {
  const int64_t width = trm_panel_size(g, 1, g->y_size[1]), height = trm_panel_size(g, 0, s->rows);
  int64_t rows[TRM_GRADIENT_POSITIONS], num_rows = 0;
  for (int64_t n = 0; n < s->images; ++n) {
    for (int64_t r = 0; r < s->rows; ++r) {
      rows[num_rows++] = (n * height + r * trm_panel_stride(g, 0)) * width * UNIT;
    }
  }
  const tile t = {rows,    num_rows, g->y_size[1], trm_panel_stride(g, 1) * UNIT, g->out_channels,
                  is_first};
  const int64_t pixels = trm_panel_pixels(g), positions = num_rows * g->y_size[1];
  const int64_t down = trm_divide_up(channels, UNIT), all = trm_divide_up(outputs, WIDE) * down;
  for (int64_t o = 0; o < outputs; o += WIDE) {
    for (int64_t i = 0; i < channels; i += UNIT) {
      NAME(fetch)(&next[0], o / WIDE * down + i / UNIT, all);
      NAME(fetch)(&next[1], o / WIDE * down + i / UNIT, all);
      for (int64_t h = 0; h < g->k_size[0]; ++h) {
        for (int64_t w = 0; w < g->k_size[1]; ++w) {
          const int64_t at = (h * g->dilation[0] * width + w * g->dilation[1]) * UNIT;
          const int64_t kernel = (h * g->k_size[1] + w) * g->in_channels;
          NAME(add_tile)
          (&t, left + i * pixels + at, right + o * positions,
           dw + (kernel + i) * g->out_channels + o, channels - i, outputs - o);
        }
      }
    }
  }
}

TARGET void NAME(run_task)(const trm_gradient_job *job, int64_t index, float *left, float *right) {
  const trm_weight_gradient *g = job->g;
  const int64_t across = trm_divide_up(g->out_channels, g->out_block);
  const int64_t down = trm_divide_up(g->in_channels, g->in_block);
  const int64_t out = index % across * g->out_block, in = index / across % down * g->in_block;
  const int64_t chunk = index / across / down;
  const int64_t outputs = trm_least(g->out_block, g->out_channels - out);
  const int64_t channels = trm_least(g->in_block, g->in_channels - in);
  const int64_t begin = trm_range_begin(g->batch, chunk, g->chunks);
  const int64_t end = trm_range_begin(g->batch, chunk + 1, g->chunks);
  float *dw = chunk == 0 ? job->dw : job->other + (chunk - 1) * trm_gradient_count(g);
  strip s = strip_at(g, begin, end, 0);
  for (bool is_first = true; s.image < end; is_first = false) {
    const strip following = s.row + s.rows < g->y_size[0]
                                ? strip_at(g, s.image, end, s.row + s.rows)
                                : strip_at(g, s.image + s.images, end, 0);
    ahead next[2] = {{0}, {0}};
    if (following.image < end) {
      next[0] = x_of(g, job->x + in, &following, channels);
      next[1] = dy_of(g, job->dy + out, &following, outputs);
    }
    NAME(pack_left)(g, job->x, &s, in, channels, left);
    NAME(pack_right)(g, job->dy, &s, out, outputs, right);
    NAME(multiply)
    (g, &s, left, right, channels, outputs, is_first, next, dw + in * g->out_channels + out);
    s = following;
  }
}

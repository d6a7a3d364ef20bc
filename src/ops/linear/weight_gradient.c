/* Owns: gradients of weights as products of packed panels.
 *
 * A task makes the gradients of a block of input channels and a block of output channels from a
 * range of images. It packs some rows of x and dy at a time: x in panels of 8 channels, with zeros
 * around the image, dy in panels of 32. A tile of 8 x 32 sums stays in registers while a panel of
 * each is read; then it is added to the gradient in memory. A kernel of several elements reads the
 * panel of x at several places. */
#include "ops/linear/weight_gradient.h"

#include <string.h>

#include "ops/threads.h"

enum {
  LANES = 16,
  UNIT = 8,            /* input channels of a panel */
  GROUP = 4 * LANES,   /* input channels that are packed together */
  WIDE = 2 * LANES,    /* output channels of a panel */
  POSITIONS = 224,     /* of dy that are packed at a time, about; two panels fit in 48 KB */
  LEAST_SUMMED = 1500, /* positions of a part: shorter sums cost too much to add up */
  MOST_PARTS = 8,
  TASKS = 8,        /* wanted, so that a few threads share them evenly */
  MOST_BLOCK = 256, /* channels */
  LEAST_BLOCK = 64,
};
#define LEAST_OPERATIONS 4e6 /* smaller gradients stay with oneDNN */
#define MOST_WORKSPACE ((size_t)4 << 20)

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t unit) { return divide_up(a, unit) * unit; }

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Between neighbouring outputs: in the panel of x, and in x between neighbours of the panel. A
 * kernel of one element reads only what it needs, packed densely. */
static int64_t panel_stride(const trm_weight_gradient *g, int d) {
  return g->k_size[d] == 1 ? 1 : g->stride[d];
}
static int64_t pick(const trm_weight_gradient *g, int d) {
  return g->k_size[d] == 1 ? g->stride[d] : 1;
}

/* Rows or columns of a panel of x, for so many of dy. */
static int64_t panel_size(const trm_weight_gradient *g, int d, int64_t count) {
  return (count - 1) * panel_stride(g, d) + (g->k_size[d] - 1) * g->dilation[d] + 1;
}

/* Pixels of a panel of x. */
static int64_t panel_pixels(const trm_weight_gradient *g) {
  return g->images * panel_size(g, 0, g->rows) * panel_size(g, 1, g->y_size[1]);
}

/* Floats of a thread's panels. */
static int64_t left_count(const trm_weight_gradient *g) {
  return round_up(g->in_block, LANES) * panel_pixels(g);
}
static int64_t right_count(const trm_weight_gradient *g) {
  return round_up(g->out_block, WIDE) * g->images * g->rows * g->y_size[1];
}
static size_t workspace_bytes(const trm_weight_gradient *g) {
  return (size_t)round_up(left_count(g) + right_count(g), LANES) * sizeof(float);
}
static int64_t weight_count(const trm_weight_gradient *g) {
  return g->k_size[0] * g->k_size[1] * g->in_channels * g->out_channels;
}

size_t trm_weight_gradient_scratch_bytes(const trm_weight_gradient *g) {
  return (size_t)((g->parts - 1) * round_up(weight_count(g), LANES)) * sizeof(float) +
         (size_t)g->threads * workspace_bytes(g);
}

/* ---- Planning -------------------------------------------------------------------------------- */

/* Images of a kernel of one element without padding are one line, cut where it divides. */
static void flatten(trm_weight_gradient *g) {
  for (int d = 0; d < 2; ++d) {
    if (g->k_size[d] != 1 || g->stride[d] != 1 || g->pad[d] != 0) return;
  }
  const int64_t all = g->y_size[0] * g->y_size[1];
  int64_t width = least(all, POSITIONS);
  while (all % width != 0) --width;
  if (width <= g->y_size[1]) return;
  g->x_size[0] = g->y_size[0] = all / width;
  g->x_size[1] = g->y_size[1] = width;
}

static void choose_panels(trm_weight_gradient *g) {
  const int64_t rows = g->y_size[0], width = g->y_size[1];
  if (rows * width <= POSITIONS) {
    g->rows = rows;
    g->images = least(POSITIONS / (rows * width), g->batch / g->parts);
    return;
  }
  g->images = 1;
  g->rows = POSITIONS / width > 0 ? POSITIONS / width : 1;
  g->rows = divide_up(rows, divide_up(rows, g->rows));
}

static int64_t blocks(int64_t channels, int64_t block) { return divide_up(channels, block); }

static int64_t tasks_of(const trm_weight_gradient *g) {
  return g->parts * blocks(g->in_channels, g->in_block) * blocks(g->out_channels, g->out_block);
}

/* Halves blocks of channels until there are so many tasks. */
static void divide_blocks(trm_weight_gradient *g, int64_t tasks, int64_t least_block) {
  while (tasks_of(g) < tasks && (g->in_block > least_block || g->out_block > least_block)) {
    int64_t *larger = g->in_block > g->out_block ? &g->in_block : &g->out_block;
    *larger = round_up(divide_up(*larger, 2), WIDE);
  }
}

/* Large blocks pack little, many tasks share well. */
static void choose_tasks(trm_weight_gradient *g) {
  const int64_t positions = g->batch * g->y_size[0] * g->y_size[1];
  g->in_block = least(g->in_channels, MOST_BLOCK);
  g->out_block = least(g->out_channels, MOST_BLOCK);
  g->parts = 1;
  while (tasks_of(g) < TASKS && 2 * g->parts <= least(g->batch, MOST_PARTS) &&
         positions / (2 * g->parts) >= LEAST_SUMMED) {
    g->parts *= 2;
  }
  divide_blocks(g, TASKS, LEAST_BLOCK);
}

void trm_weight_gradient_share(trm_weight_gradient *g, int threads) {
  g->threads = threads;
  if (2 * threads > TASKS) divide_blocks(g, 2 * (int64_t)threads, WIDE);
}

static bool is_dense(const trm_convolution_problem *p) {
  int64_t stride = p->in_channels * p->out_channels;
  if (p->w.outer != 1 || p->w.inner != p->out_channels) return false;
  for (int i = p->spatial - 1; i >= 0; --i) {
    if (p->k_size[i] > 1 && p->w.spatial[i] != stride) return false;
    stride *= p->k_size[i];
  }
  return true;
}

bool trm_weight_gradient_plan(const trm_convolution_problem *p, trm_weight_gradient *out_gradient) {
  if (p->kind != TRM_BACKWARD_WEIGHTS || p->groups > 1 || p->spatial > 2 || !is_dense(p) ||
      p->in_channels < LANES || p->out_channels < LANES) {
    return false;
  }
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) return false;
#else
  return false;
#endif
  trm_weight_gradient g = {
      .batch = p->batch, .in_channels = p->in_channels, .out_channels = p->out_channels};
  double operations = 2 * (double)(p->batch * p->in_channels * p->out_channels);
  for (int d = 0; d < 2; ++d) { /* one dimension: a single row */
    const int from = d - (2 - p->spatial);
    const bool is_there = from >= 0;
    g.x_size[d] = is_there ? p->x_size[from] : 1;
    g.y_size[d] = is_there ? p->y_size[from] : 1;
    g.k_size[d] = is_there ? p->k_size[from] : 1;
    g.stride[d] = is_there ? p->stride[from] : 1;
    g.dilation[d] = is_there ? p->dilation[from] : 1;
    g.pad[d] = is_there ? p->pad_low[from] : 0;
    operations *= (double)(g.y_size[d] * g.k_size[d]);
  }
  if (operations < LEAST_OPERATIONS) return false;
  flatten(&g);
  choose_tasks(&g);
  choose_panels(&g);
  if (g.rows * g.images > POSITIONS || workspace_bytes(&g) > MOST_WORKSPACE) return false;
  *out_gradient = g;
  return true;
}

/* ---- Running --------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f"))) static
#define INLINE __attribute__((target("avx512f"), always_inline)) static inline

typedef struct run_job {
  const trm_weight_gradient *g;
  const float *x, *dy;
  float *dw;    /* of part 0 */
  float *other; /* of the parts from 1 on */
  char *workspaces;
} run_job;

/* Some rows that are packed together: `images` images from `image` on, `rows` rows from `row`. */
typedef struct strip {
  int64_t image, images, row, rows;
} strip;

INLINE __mmask16 mask_of(int64_t channels) {
  return (__mmask16)(channels >= LANES ? 0xffff : channels <= 0 ? 0 : (1u << channels) - 1);
}

/* What the next strip reads, which is fetched while this one is multiplied. */
typedef struct ahead {
  const float *from;
  int64_t pixels, stride, count; /* floats from pixel to pixel, and of a pixel */
} ahead;

/* Fetches share `k` of `all`. */
INLINE void fetch(const ahead *a, int64_t k, int64_t all) {
  const int64_t end = a->pixels * (k + 1) / all;
  for (int64_t i = a->pixels * k / all; i < end; ++i) {
    const float *from = a->from + i * a->stride;
    for (int64_t c = 0; c < a->count; c += LANES) _mm_prefetch(from + c, _MM_HINT_T1);
  }
}

/* Packs up to GROUP channels of `count` pixels, `step` floats apart; `panel` floats from panel to
 * panel. */
INLINE void pack_pixels(const float *from, int64_t step, int64_t count, int64_t channels,
                        int64_t panel, float *to) {
  __mmask16 masks[GROUP / LANES];
#pragma GCC unroll 4
  for (int k = 0; k < GROUP / LANES; ++k) masks[k] = mask_of(channels - k * LANES);
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

INLINE void clear_pixels(int64_t count, int64_t channels, int64_t panel, float *to) {
  if (count == 0) return;
  for (int64_t c = 0; c < channels; c += UNIT, to += panel) {
    memset(to, 0, (size_t)(count * UNIT) * sizeof *to);
  }
}

/* Packs `channels` channels from `first` on. */
TARGET void pack_left(const trm_weight_gradient *g, const float *x, const strip *s, int64_t first,
                      int64_t channels, float *to) {
  const int64_t panel = panel_pixels(g) * UNIT, width = panel_size(g, 1, g->y_size[1]);
  const int64_t height = panel_size(g, 0, s->rows), step = pick(g, 1);
  /* Columns [begin, end) of a panel are in the image. */
  const int64_t begin = least(divide_up(g->pad[1], step), width);
  int64_t end = least(width, divide_up(g->x_size[1] + g->pad[1], step));
  if (end < begin) end = begin;
  for (int64_t n = s->image; n < s->image + s->images; ++n) {
    for (int64_t h = 0; h < height; ++h, to += width * UNIT) {
      const int64_t row = (s->row * panel_stride(g, 0) + h) * pick(g, 0) - g->pad[0];
      if (row < 0 || row >= g->x_size[0]) {
        clear_pixels(width, channels, panel, to);
        continue;
      }
      const int64_t pixel = (n * g->x_size[0] + row) * g->x_size[1] + begin * step - g->pad[1];
      const float *from = x + pixel * g->in_channels + first;
      clear_pixels(begin, channels, panel, to);
      clear_pixels(width - end, channels, panel, to + end * UNIT);
      for (int64_t c = 0; c < channels; c += GROUP) {
        pack_pixels(from + c, step * g->in_channels, end - begin, channels - c, panel,
                    to + begin * UNIT + c / UNIT * panel);
      }
    }
  }
}

TARGET void pack_right(const trm_weight_gradient *g, const float *dy, const strip *s, int64_t first,
                       int64_t channels, float *to) {
  const int64_t count = s->rows * g->y_size[1]; /* of an image, one after the other */
  const int64_t image = g->y_size[0] * g->y_size[1];
  for (int64_t c = 0; c < channels; c += WIDE) {
    const __mmask16 low = mask_of(channels - c), high = mask_of(channels - c - LANES);
    for (int64_t n = s->image; n < s->image + s->images; ++n) {
      const float *from = dy + (n * image + s->row * g->y_size[1]) * g->out_channels + first + c;
      for (int64_t i = 0; i < count; ++i, from += g->out_channels, to += WIDE) {
        _mm512_store_ps(to, _mm512_maskz_loadu_ps(low, from));
        _mm512_store_ps(to + LANES, _mm512_maskz_loadu_ps(high, from + LANES));
      }
    }
  }
}

/* A tile of sums and where it goes. */
typedef struct tile {
  const int64_t *rows; /* where each row of outputs begins in the panel of x */
  int64_t num_rows, width, step;
  int64_t line; /* of the gradient, in floats */
  bool is_first;
} tile;

/* Adds, or writes, `channels` lines of a tile. */
INLINE void add_tile(const tile *t, const float *x, const float *dy, float *dw, int64_t channels,
                     int64_t outputs) {
  __m512 sums[UNIT][2];
#pragma GCC unroll 8
  for (int i = 0; i < UNIT; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  for (int64_t r = 0; r < t->num_rows; ++r) {
    const float *from = x + t->rows[r];
    for (int64_t q = 0; q < t->width; ++q, from += t->step, dy += WIDE) {
      const __m512 a = _mm512_load_ps(dy), b = _mm512_load_ps(dy + LANES);
#pragma GCC unroll 8
      for (int i = 0; i < UNIT; ++i) {
        const __m512 v = _mm512_set1_ps(from[i]);
        sums[i][0] = _mm512_fmadd_ps(v, a, sums[i][0]);
        sums[i][1] = _mm512_fmadd_ps(v, b, sums[i][1]);
      }
    }
  }
  const __mmask16 low = mask_of(outputs), high = mask_of(outputs - LANES);
#pragma GCC unroll 8
  for (int i = 0; i < UNIT; ++i, dw += t->line) {
    if (i >= channels) break;
    __m512 a = sums[i][0], b = sums[i][1];
    if (!t->is_first) {
      a = _mm512_add_ps(a, _mm512_maskz_loadu_ps(low, dw));
      b = _mm512_add_ps(b, _mm512_maskz_loadu_ps(high, dw + LANES));
    }
    _mm512_mask_storeu_ps(dw, low, a);
    _mm512_mask_storeu_ps(dw + LANES, high, b);
  }
}

/* Adds the products of the packed panels to a block of the gradient, which begins at `dw`. */
TARGET void multiply(const trm_weight_gradient *g, const strip *s, const float *left,
                     const float *right, int64_t channels, int64_t outputs, bool is_first,
                     const ahead next[2], float *dw) {
  const int64_t width = panel_size(g, 1, g->y_size[1]), height = panel_size(g, 0, s->rows);
  int64_t rows[POSITIONS], num_rows = 0;
  for (int64_t n = 0; n < s->images; ++n) {
    for (int64_t r = 0; r < s->rows; ++r) {
      rows[num_rows++] = (n * height + r * panel_stride(g, 0)) * width * UNIT;
    }
  }
  const tile t = {rows,    num_rows, g->y_size[1], panel_stride(g, 1) * UNIT, g->out_channels,
                  is_first};
  const int64_t pixels = panel_pixels(g), positions = num_rows * g->y_size[1];
  const int64_t down = divide_up(channels, UNIT), all = divide_up(outputs, WIDE) * down;
  for (int64_t o = 0; o < outputs; o += WIDE) {
    for (int64_t i = 0; i < channels; i += UNIT) {
      fetch(&next[0], o / WIDE * down + i / UNIT, all);
      fetch(&next[1], o / WIDE * down + i / UNIT, all);
      for (int64_t h = 0; h < g->k_size[0]; ++h) {
        for (int64_t w = 0; w < g->k_size[1]; ++w) {
          const int64_t at = (h * g->dilation[0] * width + w * g->dilation[1]) * UNIT;
          const int64_t kernel = (h * g->k_size[1] + w) * g->in_channels;
          add_tile(&t, left + i * pixels + at, right + o * positions,
                   dw + (kernel + i) * g->out_channels + o, channels - i, outputs - o);
        }
      }
    }
  }
}

static strip strip_at(const trm_weight_gradient *g, int64_t image, int64_t end, int64_t row) {
  return (strip){image, least(g->images, end - image), row, least(g->rows, g->y_size[0] - row)};
}

/* The rows of x and dy of a strip; `x` and `dy` are at the first channel of a task. */
static ahead x_of(const trm_weight_gradient *g, const float *x, const strip *s, int64_t channels) {
  int64_t row = s->row * g->stride[0] - g->pad[0];
  const int64_t last = row + (s->rows - 1) * g->stride[0] + (g->k_size[0] - 1) * g->dilation[0];
  if (row < 0) row = 0;
  const int64_t rows =
      s->images > 1 ? s->images * g->x_size[0] : least(last + 1, g->x_size[0]) - row;
  return (ahead){x + (s->image * g->x_size[0] + row) * g->x_size[1] * g->in_channels,
                 rows * g->x_size[1], g->in_channels, channels};
}
static ahead dy_of(const trm_weight_gradient *g, const float *dy, const strip *s, int64_t outputs) {
  return (ahead){dy + (s->image * g->y_size[0] + s->row) * g->y_size[1] * g->out_channels,
                 s->images * s->rows * g->y_size[1], g->out_channels, outputs};
}

TARGET void run_task(const run_job *job, int64_t index, float *left, float *right) {
  const trm_weight_gradient *g = job->g;
  const int64_t across = blocks(g->out_channels, g->out_block);
  const int64_t down = blocks(g->in_channels, g->in_block);
  const int64_t out = index % across * g->out_block, in = index / across % down * g->in_block;
  const int64_t part = index / across / down;
  const int64_t outputs = least(g->out_block, g->out_channels - out);
  const int64_t channels = least(g->in_block, g->in_channels - in);
  const int64_t begin = trm_range_begin(g->batch, part, g->parts);
  const int64_t end = trm_range_begin(g->batch, part + 1, g->parts);
  float *dw = part == 0 ? job->dw : job->other + (part - 1) * round_up(weight_count(g), LANES);
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
    pack_left(g, job->x, &s, in, channels, left);
    pack_right(g, job->dy, &s, out, outputs, right);
    multiply(g, &s, left, right, channels, outputs, is_first, next,
             dw + in * g->out_channels + out);
    s = following;
  }
}

static void run_tasks(const void *context, int64_t begin, int64_t end, int thread) {
  const run_job *job = context;
  float *left = (float *)(void *)(job->workspaces + (size_t)thread * workspace_bytes(job->g));
  float *right = left + left_count(job->g);
  for (int64_t i = begin; i < end; ++i) run_task(job, i, left, right);
}

TARGET void add_parts(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const run_job *job = context;
  const int64_t count = round_up(weight_count(job->g), LANES);
  for (int64_t part = 1; part < job->g->parts; ++part) {
    const float *from = job->other + (part - 1) * count;
    for (int64_t i = begin; i < end; ++i) job->dw[i] += from[i];
  }
}

void trm_weight_gradient_run(const void *data, const void *x, const void *dy, void *dw,
                             void *scratch) {
  const trm_weight_gradient *g = data;
  const int64_t other = (g->parts - 1) * round_up(weight_count(g), LANES);
  const run_job job = {g, x, dy, dw, scratch, (char *)scratch + (size_t)other * sizeof(float)};
  trm_parallel_ranges(g->threads, tasks_of(g), run_tasks, &job);
  if (g->parts == 1) return;
  const size_t bytes = (size_t)(g->parts * weight_count(g)) * sizeof(float);
  trm_parallel_ranges(trm_threads_for(bytes), weight_count(g), add_parts, &job);
}

#else

/* Never called, because no problem is served. */
void trm_weight_gradient_run(const void *data, const void *x, const void *dy, void *dw,
                             void *scratch) {
  (void)data, (void)x, (void)dy, (void)dw, (void)scratch;
}

#endif

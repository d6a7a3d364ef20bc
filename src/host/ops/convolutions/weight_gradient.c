/* Owns: gradients of weights as products of packed panels.
 *
 * A task makes the gradients of a block of input channels and a block of output channels from a
 * range of images. It packs some rows of x and dy at a time: x in panels of 8 channels, with zeros
 * around the image, dy in panels of 32 (with AVX2: 6 and 16). A tile of 8 x 32 sums stays in
 * registers while a panel of each is read; then it is added to the gradient in memory. A kernel of
 * several elements reads the panel of x at several places. */
#include <stdatomic.h>
#include <string.h>

#include "base/limits.h"
#include "host/ops/convolutions/weight_gradient_panels.h"
#include "host/ops/convolutions/winograd_tiles.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

enum {
  LINE = 16,       /* floats of a cache line */
  BLOCK_UNIT = 32, /* channels, of which blocks are made */
  TASKS = 8,       /* wanted, so that a few threads share them evenly */
  TILES = 64,      /* that are transformed at a time */
};

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Floats of a thread's panels. */
static int64_t left_count(const trm_weight_gradient *g) {
  const int64_t unit = trm_gradient_panels_get()->unit;
  return trm_round_up(trm_round_up(g->in_block, 2 * unit) * trm_panel_pixels(g), LINE);
}
static int64_t right_count(const trm_weight_gradient *g) {
  return trm_round_up(g->out_block, BLOCK_UNIT) * g->images * g->rows * g->y_size[1];
}
static size_t workspace_bytes(const trm_weight_gradient *g) {
  if (g->direct != NULL) {
    const trm_winograd_tiles *tiles = trm_winograd_tiles_get();
    const trm_gradient_block b = trm_winograd_gradient_block(g, 0, tiles->unit, tiles->wide);
    return (size_t)(TRM_WINOGRAD_PLANES * (b.left_plane + b.right_plane + b.sum_plane)) *
           sizeof(float);
  }
  return (size_t)trm_round_up(left_count(g) + right_count(g), LINE) * sizeof(float);
}

size_t trm_weight_gradient_scratch_bytes(const trm_weight_gradient *g) {
  const size_t direct = g->direct != NULL ? trm_weight_gradient_scratch_bytes(g->direct) : 0;
  const size_t bytes = (size_t)((g->chunks - 1) * trm_gradient_count(g)) * sizeof(float) +
                       (size_t)g->threads * workspace_bytes(g);
  return bytes > direct ? bytes : direct;
}

/* ---- Planning -------------------------------------------------------------------------------- */

/* Images of a kernel of one element without padding are one line, cut where it divides. */
static void flatten(trm_weight_gradient *g) {
  for (int d = 0; d < 2; ++d) {
    if (g->k_size[d] != 1 || g->stride[d] != 1 || g->pad[d] != 0) return;
  }
  const int64_t all = g->y_size[0] * g->y_size[1];
  int64_t width = trm_least(all, TRM_GRADIENT_POSITIONS);
  while (all % width != 0) --width;
  if (width <= g->y_size[1]) return;
  g->x_size[0] = g->y_size[0] = all / width;
  g->x_size[1] = g->y_size[1] = width;
}

static void choose_panels(trm_weight_gradient *g) {
  const int64_t rows = g->y_size[0], width = g->y_size[1];
  if (rows * width <= TRM_GRADIENT_POSITIONS) {
    g->rows = rows;
    g->images = trm_least(TRM_GRADIENT_POSITIONS / (rows * width), g->batch / g->chunks);
    return;
  }
  g->images = 1;
  g->rows = TRM_GRADIENT_POSITIONS / width > 0 ? TRM_GRADIENT_POSITIONS / width : 1;
  g->rows = trm_divide_up(rows, trm_divide_up(rows, g->rows));
}

static int64_t tasks_of(const trm_weight_gradient *g) {
  return g->chunks * trm_divide_up(g->in_channels, g->in_block) *
         trm_divide_up(g->out_channels, g->out_block);
}

/* Halves blocks of channels until there are so many tasks. */
static void divide_blocks(trm_weight_gradient *g, int64_t tasks, int64_t least_block) {
  while (tasks_of(g) < tasks && (g->in_block > least_block || g->out_block > least_block)) {
    int64_t *larger = g->in_block > g->out_block ? &g->in_block : &g->out_block;
    *larger = trm_round_up(trm_divide_up(*larger, 2), BLOCK_UNIT);
  }
}

/* Large blocks pack little, many tasks share well. */
static void choose_tasks(trm_weight_gradient *g, int64_t in_block, int64_t out_block) {
  const int64_t positions = g->batch * g->y_size[0] * g->y_size[1];
  g->in_block = trm_least(g->in_channels, in_block);
  g->out_block = trm_least(g->out_channels, out_block);
  g->chunks = 1;
  while (tasks_of(g) < TASKS && 2 * g->chunks <= trm_least(g->batch, TRM_GRADIENT_MOST_CHUNKS) &&
         positions / (2 * g->chunks) >= TRM_GRADIENT_LEAST_SUMMED) {
    g->chunks *= 2;
  }
  divide_blocks(g, TASKS, TRM_GRADIENT_LEAST_BLOCK);
}

void trm_weight_gradient_share(trm_weight_gradient *g, int threads) {
  g->threads = threads;
  if (2 * threads > TASKS) divide_blocks(g, 2 * (int64_t)threads, BLOCK_UNIT);
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
      p->in_channels < TRM_GRADIENT_LEAST_CHANNELS ||
      p->out_channels < TRM_GRADIENT_LEAST_CHANNELS) {
    return false;
  }
  if (trm_gradient_panels_get() == NULL) return false;
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
  if (operations < TRM_GRADIENT_LEAST_OPERATIONS) return false;
  flatten(&g);
  choose_tasks(&g, TRM_GRADIENT_MOST_BLOCK, TRM_GRADIENT_MOST_BLOCK);
  choose_panels(&g);
  if (g.rows * g.images > TRM_GRADIENT_POSITIONS ||
      workspace_bytes(&g) > TRM_GRADIENT_MOST_WORKSPACE)
    return false;
  *out_gradient = g;
  return true;
}

bool trm_weight_gradient_transform(const trm_weight_gradient *direct,
                                   trm_weight_gradient *out_gradient) {
  trm_weight_gradient g = *direct;
  for (int d = 0; d < 2; ++d) {
    if (g.k_size[d] != 3 || g.stride[d] != 1 || g.dilation[d] != 1) return false;
  }
  if (!trm_winograd_pays(g.batch, g.in_channels, g.out_channels, g.y_size)) return false;
  choose_tasks(&g, TRM_GRADIENT_MOST_TRANSFORMED, TRM_GRADIENT_MOST_TRANSFORMED);
  g.tiles = TILES;
  g.direct = direct;
  *out_gradient = g;
  return true;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void run_transformed(const void *context, int64_t begin, int64_t end, int thread) {
  const trm_gradient_job *job = context;
  char *workspace = job->workspaces + (size_t)thread * workspace_bytes(job->g);
  for (int64_t i = begin; i < end; ++i) {
    if (!trm_winograd_tiles_get()->run_gradient(job, i, (float *)(void *)workspace)) {
      atomic_store(job->is_finite, false);
    }
  }
}

static void run_tasks(const void *context, int64_t begin, int64_t end, int thread) {
  const trm_gradient_job *job = context;
  float *left = (float *)(void *)(job->workspaces + (size_t)thread * workspace_bytes(job->g));
  float *right = left + left_count(job->g);
  const trm_gradient_panels *panels = trm_gradient_panels_get();
  for (int64_t i = begin; i < end; ++i) panels->run_task(job, i, left, right);
}

static void add_chunks(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const trm_gradient_job *job = context;
  const int64_t count = trm_gradient_count(job->g);
  for (int64_t chunk = 1; chunk < job->g->chunks; ++chunk) {
    const float *from = job->other + (chunk - 1) * count;
    float *to = job->dw + begin;
    trm_vector_ops_get()->op[TRM_OP_ADD][TRM_V_F32](to, to, from + begin, NULL,
                                                    (size_t)(end - begin));
  }
}

void trm_weight_gradient_run(const void *data, const void *x, const void *dy, void *dw,
                             void *scratch) {
  const trm_weight_gradient *g = data;
  const int64_t other = (g->chunks - 1) * trm_gradient_count(g);
  atomic_bool is_finite;
  atomic_init(&is_finite, true);
  const trm_gradient_job job = {
      g, x, dy, dw, scratch, (char *)scratch + (size_t)other * sizeof(float), &is_finite};
  trm_parallel_ranges(g->threads, tasks_of(g), g->direct != NULL ? run_transformed : run_tasks,
                      &job);
  if (!atomic_load(&is_finite)) {
    trm_weight_gradient_run(g->direct, x, dy, dw, scratch);
    return;
  }
  if (g->chunks == 1) return;
  const size_t bytes = (size_t)(g->chunks * trm_gradient_count(g)) * sizeof(float);
  const int64_t count = g->k_size[0] * g->k_size[1] * g->in_channels * g->out_channels;
  trm_parallel_ranges(trm_threads_for(bytes), count, add_chunks, &job);
}

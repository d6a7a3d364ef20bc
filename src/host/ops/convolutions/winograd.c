/* Owns: which convolutions Winograd's way computes, and its kernel. A task is some tiles and some
 * panels of outputs: a thread transforms x there, multiplies plane by plane, and transforms the
 * products, all in its second-level cache. */
#include "host/ops/convolutions/winograd.h"

#include <stdatomic.h>
#include <string.h>

#include "base/limits.h"
#include "host/ops/convolutions/winograd_tiles.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/products/half_arrays.h"
#include "host/ops/products/sequence.h"
#include "host/ops/threads.h"

#define HEADER_BYTES 64

/* ---- Planning -------------------------------------------------------------------------------- */

static int64_t tiles_of(const trm_winograd *w) {
  return w->batch * trm_winograd_down(w, 0) * trm_winograd_down(w, 1);
}

/* By how much there are fewer products, in percent. */
static double gain_of(const trm_winograd *w) {
  return 900 * (double)(w->batch * w->y_size[0] * w->y_size[1]) /
         (TRM_WINOGRAD_PLANES * (double)tiles_of(w));
}

bool trm_winograd_pays(int64_t batch, int64_t channels, int64_t outputs, const int64_t y_size[2]) {
  if (trm_winograd_tiles_get() == NULL || channels % TRM_WINOGRAD_UNIT != 0 ||
      outputs % TRM_WINOGRAD_UNIT != 0 || channels > TRM_WINOGRAD_MOST_CHANNELS) {
    return false;
  }
  const trm_winograd w = {.batch = batch, .y_size = {y_size[0], y_size[1]}};
  return tiles_of(&w) >= TRM_WINOGRAD_LEAST_ALL && gain_of(&w) >= TRM_WINOGRAD_LEAST_GAIN &&
         2 * channels * outputs >= TRM_WINOGRAD_LEAST_CHANNELS * (channels + outputs);
}

bool trm_winograd_plan(const trm_convolution_problem *p, trm_winograd *out_winograd) {
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
  if (p->kind == TRM_BACKWARD_WEIGHTS || p->groups > 1 || p->spatial != 2 || p->is_x_cropped ||
      !trm_convolution_is_channels_last(p, &p->x, p->in_channels, p->x_size) ||
      !trm_convolution_is_channels_last(p, &p->y, p->out_channels, p->y_size)) {
    return false;
  }
  trm_winograd w = {.batch = p->batch,
                    .channels = is_data ? p->out_channels : p->in_channels,
                    .outputs = is_data ? p->in_channels : p->out_channels,
                    .w_start = p->w.start,
                    .w_channel = is_data ? p->w.outer : p->w.inner,
                    .w_output = is_data ? p->w.inner : p->w.outer};
  for (int d = 0; d < 2; ++d) {
    if (p->k_size[d] != 3 || p->stride[d] != 1 || p->dilation[d] != 1) return false;
    w.x_size[d] = is_data ? p->y_size[d] : p->x_size[d];
    w.y_size[d] = is_data ? p->x_size[d] : p->y_size[d];
    w.pad[d] = is_data ? 2 - p->pad_low[d] : p->pad_low[d];
    w.w_spatial[d] = p->w.spatial[d];
    if (is_data) { /* a convolution of y with the kernel from its end */
      w.w_start += 2 * w.w_spatial[d];
      w.w_spatial[d] = -w.w_spatial[d];
    }
  }
  *out_winograd = w;
  const bool is_wide = strcmp(trm_vector_ops_get()->name, "avx512") == 0;
  return trm_winograd_pays(w.batch, w.channels, w.outputs, w.y_size) &&
         gain_of(&w) >= (is_wide ? TRM_WINOGRAD_AVX512_LEAST_GAIN : TRM_WINOGRAD_LEAST_GAIN);
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct state {
  trm_winograd w;
  trm_kernel direct;
  trm_dtype dtype;
  int64_t x_count, weights_count, y_count; /* of halves or bfloat16s; 0: of floats */
  bool keeps_filters; /* in the persistent block, behind the version of the weights */
  int threads;
  int64_t panels;                  /* of outputs */
  int64_t task_tiles, task_panels; /* of a task, at most */
} state;

typedef struct run {
  const state *own;
  const float *x, *weights;
  float *filters, *y;
  char *workspaces;
  atomic_bool is_finite;
} run;

static size_t filter_bytes(const state *own) {
  const int64_t plane = trm_winograd_filter_plane(&own->w, trm_winograd_tiles_get()->wide);
  return (size_t)(own->panels * TRM_WINOGRAD_PLANES * plane) * sizeof(float);
}
static int64_t input_count(const state *own) {
  const int64_t rows = trm_winograd_tiles_get()->rows;
  return TRM_WINOGRAD_PLANES * trm_winograd_tile_plane(own->task_tiles, rows, own->w.channels);
}
static size_t workspace_bytes(const state *own) {
  const trm_winograd_tiles *tiles = trm_winograd_tiles_get();
  const int64_t plane =
      trm_winograd_tile_plane(own->task_tiles, tiles->rows, tiles->panels * tiles->wide);
  return (size_t)(input_count(own) + TRM_WINOGRAD_PLANES * plane) * sizeof(float);
}

/* A large convolution gets tasks of many tiles, a small one as many tasks as there are threads. */
static void choose_tasks(state *own) {
  const int64_t tiles = tiles_of(&own->w), rows = trm_winograd_tiles_get()->rows;
  const int64_t shared =
      trm_divide_up(trm_divide_up(tiles, TRM_WINOGRAD_MOST_TILES), own->threads) * own->threads;
  const int64_t blocks = trm_divide_up(tiles, TRM_WINOGRAD_MOST_TILES);
  const int64_t wanted = tiles / shared >= TRM_WINOGRAD_LEAST_TILES ? shared : blocks;
  own->task_tiles = trm_divide_up(trm_divide_up(tiles, wanted), rows) * rows;
  int64_t chunks = 1;
  while (wanted * chunks < own->threads && 2 * chunks <= own->panels) chunks *= 2;
  own->task_panels = trm_divide_up(own->panels, chunks);
}

static void transform_filters(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const run *each = context;
  const trm_winograd *w = &each->own->w;
  const int64_t strips = w->channels / TRM_WINOGRAD_STRIP;
  for (int64_t i = begin; i < end; ++i) {
    trm_winograd_tiles_get()->transform_filters(w, each->weights, i / strips, i % strips,
                                                each->filters);
  }
}

static void run_tasks(const void *context, int64_t begin, int64_t end, int thread) {
  run *each = (run *)(uintptr_t)context;
  const state *own = each->own;
  const int64_t tiles = tiles_of(&own->w);
  const int64_t chunks = trm_divide_up(own->panels, own->task_panels);
  trm_winograd_task task = {.w = &own->w, .x = each->x, .filters = each->filters, .y = each->y};
  task.inputs = (float *)(void *)(each->workspaces + (size_t)thread * workspace_bytes(own));
  task.products = task.inputs + input_count(own);
  for (int64_t i = begin; i < end; ++i) {
    task.first_tile = i / chunks * own->task_tiles;
    task.last_tile = task.first_tile + own->task_tiles;
    if (task.last_tile > tiles) task.last_tile = tiles;
    task.first_panel = i % chunks * own->task_panels;
    task.last_panel = task.first_panel + own->task_panels;
    if (task.last_panel > own->panels) task.last_panel = own->panels;
    if (!trm_winograd_tiles_get()->run_task(&task)) atomic_store(&each->is_finite, false);
  }
}

/* The numbers of halves and bfloat16s, on which the convolution runs, are the first of the
 * scratch. */
static size_t float_bytes(const state *own) {
  const int64_t count = own->x_count + own->weights_count + own->y_count;
  return (size_t)trm_divide_up(count, 16) * 16 * sizeof(float);
}

static const float *widen(const state *own, const void *from, float *to, int64_t count) {
  if (own->dtype == TRM_F32) return from;
  trm_halves_widen(own->dtype, from, to, count);
  return to;
}

static trm_status run_winograd(const trm_kernel *kernel, const trm_kernel_call *call,
                               trm_error *error) {
  const state *own = kernel->state;
  const size_t bytes = filter_bytes(own);
  float *const floats = call->scratch;
  char *const scratch = (char *)call->scratch + float_bytes(own);
  run each = {.own = own,
              .x = widen(own, call->operands[0], floats, own->x_count),
              .filters = (float *)(void *)scratch,
              .y = own->y_count == 0 ? call->results[0] : floats + own->x_count,
              .workspaces = scratch + (own->keeps_filters ? 0 : bytes)};
  atomic_init(&each.is_finite, true);
  bool is_kept = false;
  if (own->keeps_filters) {
    uint64_t *kept = call->persistent;
    const uint64_t version = call->versions != NULL ? call->versions[1] : 0;
    is_kept = version != 0 && *kept == version;
    *kept = version;
    each.filters = (float *)(void *)((char *)call->persistent + HEADER_BYTES);
  }
  if (!is_kept) {
    const int64_t strips = own->w.channels / TRM_WINOGRAD_STRIP;
    each.weights =
        widen(own, call->operands[1], floats + own->x_count + own->y_count, own->weights_count);
    trm_parallel_ranges(own->threads, own->panels * strips, transform_filters, &each);
  }
  const int64_t blocks = trm_divide_up(tiles_of(&own->w), own->task_tiles);
  const int64_t chunks = trm_divide_up(own->panels, own->task_panels);
  trm_parallel_ranges(own->threads, blocks * chunks, run_tasks, &each);
  if (!atomic_load(&each.is_finite)) return own->direct.run(&own->direct, call, error);
  if (own->y_count > 0) {
    trm_halves_narrow(own->dtype, each.y, call->results[0], own->y_count);
  }
  return TRM_OK;
}

static void destroy_winograd(trm_kernel *kernel) {
  state *own = kernel->state;
  trm_kernel_destroy(&own->direct);
  kernel->state = NULL;
}

trm_status trm_winograd_create(const trm_kernel_request *request, const trm_winograd *winograd,
                               const char *name, const trm_kernel *direct, trm_kernel *out_kernel,
                               trm_error *error) {
  state *own = ARENA_NEW(request->arena, state, 1);
  if (own == NULL) {
    trm_kernel unused = *direct;
    trm_kernel_destroy(&unused);
    FAIL_NO_MEMORY("a convolution");
  }
  const double operations = 2 * TRM_WINOGRAD_PLANES * (double)tiles_of(winograd) *
                            (double)(winograd->channels * winograd->outputs);
  /* Four operations cost as much as touching a byte. */
  const size_t work = operations / 4 < 0x1p60 ? (size_t)(operations / 4) : (size_t)1 << 60;
  *own = (state){.w = *winograd,
                 .direct = *direct,
                 .dtype = request->instruction->shape.dtype,
                 .keeps_filters = trm_operand_may_repeat(request, 1),
                 .threads = trm_threads_choose(work, trm_threads_available()),
                 .panels = trm_divide_up(winograd->outputs, trm_winograd_tiles_get()->wide)};
  if (own->dtype != TRM_F32) {
    own->x_count = trm_shape_count(trm_operand_shape(request, 0));
    own->weights_count = trm_shape_count(trm_operand_shape(request, 1));
    own->y_count = trm_shape_count(&request->instruction->shape);
  }
  choose_tasks(own);
  size_t scratch = float_bytes(own) + (size_t)own->threads * workspace_bytes(own);
  if (!own->keeps_filters) scratch += filter_bytes(own);
  *out_kernel = (trm_kernel){
      .name = name,
      .scratch_bytes = scratch > direct->scratch_bytes ? scratch : direct->scratch_bytes,
      .persistent_bytes = own->keeps_filters ? HEADER_BYTES + filter_bytes(own) : 0,
      .state = own,
      .run = run_winograd,
      .destroy = destroy_winograd};
  return TRM_OK;
}

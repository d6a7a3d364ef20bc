/* Owns: running sums and other scans: windows that all begin at the first element of their
 * dimension, or all end at its last one, in one pass over the array.
 *
 * Lanes are lines along the dimension. If there are dimensions after it, neighbouring lines are
 * neighbours in memory, and a row of them is one vector. Otherwise sums of floats take one line at
 * a time (scan_line.h); for other computations a block of lines is transposed in the first-level
 * cache, scanned, and transposed back. With few, long lines the lanes are chunks of a line: first
 * the totals of the chunks are computed, then the running sum of the totals, then the chunks. Lanes
 * and chunks depend only on the shape, never on the threads.
 *
 * The computation must be associative, as in XLA's rewriting of such windows. */
#include <string.h>

#include "base/integers.h"
#include "base/limits.h"
#include "host/ops/reduce/fast_window.h"
#include "host/ops/reduce/scan_line.h"
#include "host/ops/threads.h"

enum {
  TILE_LINES = 64, /* in a block that is transposed: as many lines, and elements of each */
  TILE = TILE_LINES * TILE_LINES,
  PADDED_LINE = TILE_LINES + 16, /* in elements: lines of a tile must not share a cache set */
  CHUNK = 1024 + 32
};

typedef struct scan_state {
  window_reducer reducer;
  bool is_reverse, is_columns;
  int64_t outer, inner;  /* lines: outer x inner, inner elements apart */
  int64_t in_dim, count; /* elements of a line; how many of them results need */
  int64_t out_dim;
  int64_t shift;         /* result o is the scan at o + shift; before 0 the initial value */
  int64_t lanes, groups; /* in one unit; units of one index of outer */
  int64_t chunks;        /* of a line; 0: lanes are lines */
  size_t file_bytes, files_bytes;
} scan_state;

/* Buffers of a thread. A tile's rows are positions, its columns lanes. */
typedef struct scan_file {
  char *acc, *raw, *in, *out, *lines, *scratch;
} scan_file;

typedef struct scan_run {
  const scan_state *state;
  const trm_kernel_call *call;
  const trm_vector_ops *ops;
  char *files;
  double *totals; /* of chunks, then the scans before them: lane elements, in 8 bytes each */
  bool is_for_totals;
} scan_run;

/* Lanes to scan: the place of position 0 of lane 0, and the step to the next lane, in elements. */
typedef struct scan_lanes {
  int64_t in, out, in_lane, out_lane, n, count;
} scan_lanes;

static scan_file file_of(const scan_run *run, int thread) {
  char *at = run->files + (size_t)thread * run->state->file_bytes;
  const size_t tile = TILE * sizeof(uint64_t);
  scan_file file = {.acc = at};
  file.raw = file.acc + REDUCE_BLOCK * sizeof(uint64_t);
  file.in = file.raw + tile;
  file.out = file.in + tile;
  file.lines = file.out + tile;
  file.scratch = file.lines + TILE_LINES * PADDED_LINE * sizeof(uint64_t);
  return file;
}

/* ---- Combining ------------------------------------------------------------------------------- */

static void combine(const scan_run *run, const scan_file *file, void *out, const void *before,
                    const void *x, int64_t n) {
  const window_reducer *reducer = &run->state->reducer;
  if (reducer->mode == WINDOW_DIRECT) {
    reducer->direct(out, before, x, x, (size_t)n);
    return;
  }
  const void *args[2] = {run->state->is_reverse ? x : before, run->state->is_reverse ? before : x};
  trm_function_apply(&reducer->function, args, &out, (size_t)n, file->scratch);
}

/* Combines rows of n lanes with acc, and writes acc after each row; strides in lane elements.
 * !has_begun: the first row becomes acc. */
static void scan_rows(const scan_run *run, const scan_file *file, bool has_begun, const char *x,
                      int64_t x_stride, char *out, int64_t out_stride, int64_t rows, int64_t n) {
  const window_reducer *reducer = &run->state->reducer;
  const int64_t size = (int64_t)1 << reducer->lane_log2;
  if (reducer->mode == WINDOW_SUM) {
    double *acc = (double *)(void *)file->acc;
    if (!has_begun) memset(acc, 0, (size_t)n * sizeof *acc);
    run->ops->scan_double(acc, (float *)(void *)out, out_stride, (const float *)(const void *)x,
                          x_stride, (size_t)rows, (size_t)n);
    return;
  }
  const char *before = has_begun ? file->acc : NULL;
  for (int64_t r = 0; r < rows; ++r, x += x_stride * size, out += out_stride * size) {
    if (before == NULL) memcpy(out, x, (size_t)(n * size));
    else combine(run, file, out, before, x, n);
    before = out;
  }
  memcpy(file->acc, before, (size_t)(n * size));
}

static void begin_with_initial(const scan_run *run, const scan_file *file, int64_t n) {
  const window_reducer *reducer = &run->state->reducer;
  const void *initial = run->call->operands[1];
  float wide;
  if (reducer->widens) {
    run->ops->half_to_float(&wide, initial, NULL, NULL, 1);
    initial = &wide;
  }
  if (reducer->mode == WINDOW_SUM) {
    memcpy(&wide, initial, sizeof wide);
    for (int64_t i = 0; i < n; ++i) ((double *)(void *)file->acc)[i] = (double)wide;
  } else {
    run->ops->strided[reducer->lane_log2](file->acc, initial, 0, (size_t)n);
  }
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

static const char *source(const scan_run *run, int64_t place) {
  return (const char *)run->call->operands[0] + place * ((int64_t)1 << run->state->reducer.log2);
}
static char *target(const scan_run *run, int64_t place) {
  return (char *)run->call->results[0] + place * ((int64_t)1 << run->state->reducer.log2);
}

/* Loads rows [i, i + rows) as lane elements, *out_stride apart, to *out_x. */
static void load_rows(const scan_run *run, const scan_file *file, const scan_lanes *lanes,
                      int64_t i, int64_t rows, const char **out_x, int64_t *out_stride) {
  const scan_state *state = run->state;
  const window_reducer *reducer = &state->reducer;
  const int64_t n = lanes->n, sign = state->is_reverse ? -1 : 1;
  if (state->is_columns) {
    const int64_t first = lanes->in + sign * i * state->inner;
    *out_x = source(run, first), *out_stride = sign * state->inner;
    if (!reducer->widens) return;
    for (int64_t r = 0; r < rows; ++r) {
      run->ops->half_to_float(file->in + (r * n << 2), source(run, first + sign * r * state->inner),
                              NULL, NULL, (size_t)n);
    }
    *out_x = file->in, *out_stride = n;
    return;
  }
  const int64_t lowest = state->is_reverse ? lanes->in - (i + rows - 1) : lanes->in + i;
  for (int64_t l = 0; l < n; ++l) {
    memcpy(file->lines + (l * PADDED_LINE << reducer->log2),
           source(run, lowest + l * lanes->in_lane), (size_t)rows << reducer->log2);
  }
  char *raw = reducer->widens ? file->raw : file->in;
  run->ops->transpose[reducer->log2](raw, n, file->lines, PADDED_LINE, (size_t)n, (size_t)rows);
  if (reducer->widens) {
    run->ops->half_to_float(file->in, raw, NULL, NULL, (size_t)(rows * n));
  }
  *out_x = file->in + (state->is_reverse ? (rows - 1) * n << reducer->lane_log2 : 0);
  *out_stride = sign * n;
}

/* Writes the rows of the tile file->out that are results; the first row is position i. */
static void store_rows(const scan_run *run, const scan_file *file, const scan_lanes *lanes,
                       int64_t i, int64_t rows) {
  const scan_state *state = run->state;
  const window_reducer *reducer = &state->reducer;
  const int64_t n = lanes->n, sign = state->is_reverse ? -1 : 1;
  const int64_t skipped = i < state->shift ? state->shift - i : 0;
  if (skipped >= rows) return;
  if (state->is_columns) {
    for (int64_t r = skipped; r < rows; ++r) {
      char *to = target(run, lanes->out + sign * (i + r - state->shift) * state->inner);
      const char *from = file->out + (r * n << reducer->lane_log2);
      if (reducer->widens) run->ops->float_to_half(to, from, NULL, NULL, (size_t)n);
      else memcpy(to, from, (size_t)n << reducer->log2);
    }
    return;
  }
  /* The rows of the tile are in the order of memory, so the skipped ones come first or last. */
  const int64_t kept = rows - skipped;
  const char *from = file->out + (state->is_reverse ? 0 : skipped * n << reducer->lane_log2);
  if (reducer->widens) {
    run->ops->float_to_half(file->raw, from, NULL, NULL, (size_t)(kept * n));
    from = file->raw;
  }
  run->ops->transpose[reducer->log2](file->lines, PADDED_LINE, from, n, (size_t)kept, (size_t)n);
  const int64_t lowest = state->is_reverse ? lanes->out - (i + rows - 1 - state->shift)
                                           : lanes->out + (i + skipped - state->shift);
  for (int64_t l = 0; l < n; ++l) {
    memcpy(target(run, lowest + l * lanes->out_lane),
           file->lines + (l * PADDED_LINE << reducer->log2), (size_t)kept << reducer->log2);
  }
}

/* Sums of floats need no tile if the elements of a line are contiguous. */
static void sum_lines(const scan_run *run, const scan_file *file, const scan_lanes *lanes,
                      bool has_begun) {
  const scan_state *state = run->state;
  const int64_t sign = state->is_reverse ? -1 : 1;
  const int64_t skipped = run->is_for_totals ? lanes->count
                          : state->shift < 0 ? 0
                                             : trm_least(state->shift, lanes->count);
  double *acc = (double *)(void *)file->acc;
  for (int64_t l = 0; l < lanes->n; ++l) {
    const float *x = (const float *)(const void *)source(run, lanes->in + l * lanes->in_lane);
    const int64_t out = lanes->out + l * lanes->out_lane + sign * (skipped - state->shift);
    double sum = has_begun ? acc[l] : 0;
    sum = trm_scan_line(run->ops, sum, NULL, x, skipped, state->is_reverse);
    if (skipped < lanes->count) {
      sum = trm_scan_line(run->ops, sum, (float *)(void *)target(run, out), x + sign * skipped,
                          lanes->count - skipped, state->is_reverse);
    }
    acc[l] = sum;
  }
}

static void scan(const scan_run *run, const scan_file *file, const scan_lanes *lanes,
                 bool has_begun) {
  const scan_state *state = run->state;
  const window_reducer *reducer = &state->reducer;
  if (reducer->mode == WINDOW_SUM && !state->is_columns && !reducer->widens) {
    sum_lines(run, file, lanes, has_begun);
    return;
  }
  const int64_t n = lanes->n, most = state->is_columns ? TILE / n : TILE_LINES;
  for (int64_t i = 0; i < lanes->count; i += most) {
    const int64_t rows = lanes->count - i < most ? lanes->count - i : most;
    const char *x;
    int64_t x_stride;
    load_rows(run, file, lanes, i, rows, &x, &x_stride);
    const bool is_direct = state->is_columns && !reducer->widens && i >= state->shift;
    char *out = file->out;
    int64_t out_stride = n;
    if (is_direct) {
      out_stride = state->is_reverse ? -state->inner : state->inner;
      out = target(run, lanes->out + (i - state->shift) * out_stride);
    } else if (!state->is_columns && state->is_reverse) {
      out += (rows - 1) * n << reducer->lane_log2, out_stride = -n;
    }
    scan_rows(run, file, has_begun, x, x_stride, out, out_stride, rows, n);
    has_begun = true;
    if (!is_direct && !run->is_for_totals) store_rows(run, file, lanes, i, rows);
  }
}

/* Fills results [begin, end) of the lanes with acc. */
static void fill(const scan_run *run, const scan_file *file, const scan_lanes *lanes, int64_t begin,
                 int64_t end) {
  const scan_state *state = run->state;
  const window_reducer *reducer = &state->reducer;
  if (begin >= end) return;
  const char *row = file->acc;
  if (reducer->mode == WINDOW_SUM) {
    const double *acc = (const double *)(const void *)file->acc;
    for (int64_t l = 0; l < lanes->n; ++l) ((float *)(void *)file->in)[l] = (float)acc[l];
    row = file->in;
  }
  if (reducer->widens) {
    run->ops->float_to_half(file->raw, row, NULL, NULL, (size_t)lanes->n);
    row = file->raw;
  }
  const int64_t step = state->is_reverse ? -state->inner : state->inner;
  const size_t size = (size_t)1 << reducer->log2;
  for (int64_t o = begin; o < end; ++o) {
    for (int64_t l = 0; l < lanes->n; ++l) {
      memcpy(target(run, lanes->out + o * step + l * lanes->out_lane), row + (size_t)l * size,
             size);
    }
  }
}

/* ---- Units ----------------------------------------------------------------------------------- */

/* Position 0 of line (outer, inner). */
static scan_lanes line_at(const scan_state *state, int64_t outer, int64_t inner) {
  const int64_t last_in = state->is_reverse ? (state->in_dim - 1) * state->inner : 0;
  const int64_t last_out = state->is_reverse ? (state->out_dim - 1) * state->inner : 0;
  return (scan_lanes){.in = outer * state->in_dim * state->inner + last_in + inner,
                      .out = outer * state->out_dim * state->inner + last_out + inner,
                      .in_lane = 1,
                      .out_lane = 1,
                      .n = 1,
                      .count = state->count};
}

static void scan_lines(const void *context, int64_t begin, int64_t end, int thread) {
  const scan_run *run = context;
  const scan_state *state = run->state;
  const scan_file file = file_of(run, thread);
  for (int64_t u = begin; u < end; ++u) {
    scan_lanes lanes;
    if (state->is_columns) {
      const int64_t first = u % state->groups * state->lanes;
      lanes = line_at(state, u / state->groups, first);
      lanes.n = trm_least(state->inner - first, state->lanes);
    } else {
      lanes = line_at(state, u * state->lanes, 0);
      lanes.n = trm_least(state->outer - u * state->lanes, state->lanes);
      lanes.in_lane = state->in_dim, lanes.out_lane = state->out_dim;
    }
    begin_with_initial(run, &file, lanes.n);
    fill(run, &file, &lanes, 0, trm_least(-state->shift, state->out_dim));
    scan(run, &file, &lanes, true);
    const int64_t behind = state->in_dim - state->shift;
    fill(run, &file, &lanes, behind > 0 ? behind : 0, state->out_dim);
  }
}

/* Units: groups of chunks of a line, and one for the rest of the line. */
static void scan_chunks(const void *context, int64_t begin, int64_t end, int thread) {
  const scan_run *run = context;
  const scan_state *state = run->state;
  const scan_file file = file_of(run, thread);
  const int64_t stride = state->chunks + 1; /* of totals, with one for the rest */
  const size_t acc_bytes =
      state->reducer.mode == WINDOW_SUM ? sizeof(double) : (size_t)1 << state->reducer.lane_log2;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t line = u / (state->groups + 1), group = u % (state->groups + 1);
    const bool is_rest = group == state->groups;
    const int64_t first = is_rest ? state->chunks : group * TILE_LINES;
    const int64_t sign = state->is_reverse ? -1 : 1;
    scan_lanes lanes = line_at(state, line, 0);
    lanes.in += sign * first * CHUNK, lanes.out += sign * first * CHUNK;
    lanes.in_lane = lanes.out_lane = sign * CHUNK;
    lanes.n = is_rest ? 1 : trm_least(state->chunks - first, TILE_LINES);
    lanes.count = is_rest ? state->count - state->chunks * CHUNK : CHUNK;
    char *totals = (char *)(run->totals + line * stride + first);
    if (run->is_for_totals) {
      if (is_rest) continue; /* nothing needs the total of the rest */
      scan(run, &file, &lanes, false);
      for (int64_t l = 0; l < lanes.n; ++l)
        memcpy(totals + l * 8, file.acc + (size_t)l * acc_bytes, acc_bytes);
      continue;
    }
    for (int64_t l = 0; l < lanes.n; ++l)
      memcpy(file.acc + (size_t)l * acc_bytes, totals + l * 8, acc_bytes);
    scan(run, &file, &lanes, true);
  }
}

/* Turns the totals of a line's chunks into the scans before each chunk. */
static void scan_totals(const scan_run *run, int64_t line) {
  const scan_state *state = run->state;
  const scan_file file = file_of(run, 0);
  const scan_lanes lanes = line_at(state, line, 0);
  double *totals = run->totals + line * (state->chunks + 1);
  begin_with_initial(run, &file, 1);
  fill(run, &file, &lanes, 0, trm_least(-state->shift, state->out_dim));
  for (int64_t c = 0; c <= state->chunks; ++c) {
    double total = totals[c], before;
    memcpy(&before, file.acc, sizeof before);
    totals[c] = before;
    if (c == state->chunks) break;
    if (state->reducer.mode == WINDOW_SUM) {
      total += before;
    } else {
      double combined = 0;
      combine(run, &file, &combined, &before, &total, 1);
      total = combined;
    }
    memcpy(file.acc, &total, sizeof total);
  }
}

static trm_status run_scan(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const scan_state *state = kernel->state;
  scan_run run = {.state = state,
                  .call = call,
                  .ops = trm_vector_ops_get(),
                  .files = call->scratch,
                  .totals = (double *)(void *)((char *)call->scratch + state->files_bytes)};
  const int64_t lines = state->outer * state->inner;
  if (lines == 0 || state->out_dim == 0) return TRM_OK;
  const size_t bytes = (size_t)(lines * (state->in_dim + state->out_dim)) << state->reducer.log2;
  const int threads = trm_threads_for(bytes);
  if (state->chunks == 0) {
    const int64_t units =
        state->is_columns ? state->outer * state->groups : (lines + TILE_LINES - 1) / TILE_LINES;
    trm_parallel_ranges(threads, units, scan_lines, &run);
    return TRM_OK;
  }
  const int64_t units = state->outer * (state->groups + 1);
  run.is_for_totals = true;
  trm_parallel_ranges(threads, units, scan_chunks, &run);
  for (int64_t line = 0; line < state->outer; ++line) scan_totals(&run, line);
  run.is_for_totals = false;
  trm_parallel_ranges(threads, units, scan_chunks, &run);
  return TRM_OK;
}

/* ---- Creating -------------------------------------------------------------------------------- */

/* Whether all windows begin at the first element, or all end at the last one. Short windows are
 * faster one by one. */
static bool is_scan(const window_layout *layout, bool *out_reverse, int64_t *out_shift) {
  enum { SHORT = 8 };
  if (layout->rank == 0) return false;
  for (int32_t d = 0; d < layout->rank; ++d) {
    const trm_window_dimension *w = &layout->window[d];
    if (w->stride != 1 || w->base_dilation != 1 || w->window_dilation != 1) return false;
    if (d < layout->rank - 1 && (w->size != 1 || w->padding_low != 0 || w->padding_high != 0))
      return false;
  }
  const trm_window_dimension *w = &layout->window[layout->rank - 1];
  const int64_t in = layout->in_dims[layout->rank - 1], out = layout->out_dims[layout->rank - 1];
  if (w->size <= SHORT || in <= SHORT) return false;
  /* The window of result o holds [o - padding, o - padding + size). */
  *out_reverse = out - 1 > w->padding_low;
  *out_shift = *out_reverse ? in - out + w->padding_low : w->size - 1 - w->padding_low;
  return !*out_reverse || w->size - w->padding_low >= in;
}

trm_status trm_fast_scan_create(const trm_kernel_request *request, const window_layout *layout,
                                const window_reducer *reducer, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  *out_supported = false;
  scan_state made = {.reducer = *reducer, .outer = 1, .inner = layout->inner};
  if (!is_scan(layout, &made.is_reverse, &made.shift)) return TRM_OK;
  for (int32_t d = 0; d < layout->rank - 1; ++d) made.outer *= layout->in_dims[d];
  made.in_dim = layout->in_dims[layout->rank - 1],
  made.out_dim = layout->out_dims[layout->rank - 1];
  const int64_t needed = made.out_dim + made.shift;
  made.count = needed < 0 ? 0 : trm_least(needed, made.in_dim);
  made.is_columns = made.inner > 1;
  made.lanes = made.is_columns ? REDUCE_BLOCK : TILE_LINES;
  made.groups = (made.inner + made.lanes - 1) / made.lanes;
  if (!made.is_columns && made.outer <= TRM_SCAN_MOST_LINES &&
      made.count >= TRM_SCAN_LEAST_CHUNKS * CHUNK && made.shift <= 0 &&
      made.out_dim <= made.in_dim - made.shift) {
    made.chunks = made.count / CHUNK;
    made.groups = (made.chunks + TILE_LINES - 1) / TILE_LINES;
  }
  made.file_bytes = (REDUCE_BLOCK + 3 * TILE + TILE_LINES * PADDED_LINE) * sizeof(uint64_t) +
                    ((reducer->function.scratch_bytes + 63) & ~(size_t)63);
  made.files_bytes = made.file_bytes * (size_t)trm_threads_limit();
  const int64_t totals = made.chunks > 0 ? made.outer * (made.chunks + 1) : 0;
  scan_state *state = ARENA_NEW(request->arena, scan_state, 1);
  CHECK_MEMORY(state, "a running sum");
  *state = made;
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.scan",
                             .scratch_bytes = made.files_bytes + (size_t)totals * sizeof(double),
                             .state = state,
                             .run = run_scan};
  return TRM_OK;
}

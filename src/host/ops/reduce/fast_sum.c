/* Owns: fast sums of floats. The shape alone determines the pieces. A piece is summed in short
 * float32 sums and doubles, and the pieces are added in order. So a sum does not depend on the
 * threads, and its error is far smaller than that of adding one element after the other. */
#include <string.h>

#include "host/ops/reduce/fast_reduce.h"
#include "host/ops/threads.h"

/* Neighbouring columns are summed together, so that rows are read in the order of memory. The sums
 * of WIDE_BLOCK columns stay in the first-level cache. */
enum { PIECE = 65536, WIDE_BLOCK = 4096 };

typedef struct row_source {
  const trm_vector_ops *ops;
  const char *data;
  trm_dtype dtype;
  int32_t rank;
  const int64_t *dims, *strides; /* of the rows */
} row_source;

/* One row of n floats: in place, or converted to `out`. */
static const float *load_row(const row_source *rows, int64_t offset, int64_t n, float *out) {
  if (rows->dtype == TRM_F32) return (const float *)(const void *)rows->data + offset;
  rows->ops->half_to_float(out, (const uint16_t *)(const void *)rows->data + offset, NULL, NULL,
                           (size_t)n);
  return out;
}

/* Adds up rows of n floats (or halves) in double: acc[i] = sum over rows r of row(r)[i]. Eight rows
 * at a time are added in float32. tmp: 8 * n floats. */
static void sum_rows(const row_source *rows, int64_t begin, int64_t end, int64_t column, int64_t n,
                     double *acc, float *tmp) {
  memset(acc, 0, (size_t)n * sizeof *acc);
  for (int64_t r = begin; r < end;) {
    const float *eight[8];
    const int64_t m = end - r < 8 ? 1 : 8;
    for (int64_t i = 0; i < m; ++i, ++r) {
      const int64_t offset = column + trm_reduce_offset(rows->rank, rows->dims, rows->strides, r);
      eight[i] = load_row(rows, offset, n, tmp + i * n);
    }
    if (m == 8) rows->ops->accumulate_8(acc, eight, (size_t)n);
    else rows->ops->accumulate_double(acc, eight[0], (size_t)n);
  }
}

typedef struct sum_state {
  reduce_layout layout;
  trm_dtype dtype;
  int64_t group;                /* rows that count as one wide row, if rows are narrow */
  int64_t width;                /* columns of a block */
  int64_t blocks, chunks, rows; /* column blocks; chunks of rows; (wide) rows */
  int64_t pieces; /* of the reduced line of one result, if the innermost dimension is reduced */
  bool has_partials;
  size_t file_bytes; /* of one thread */
  size_t partial_bytes;
} sum_state;

typedef struct sum_run {
  const sum_state *state;
  const trm_kernel_call *call;
  double initial;
  double *partials;
  char *files;
} sum_run;

static void store(trm_dtype dtype, void *result, int64_t i, double value) {
  float f = (float)value;
  if (dtype == TRM_F32) ((float *)result)[i] = f;
  else trm_vector_ops_get()->float_to_half((uint16_t *)result + i, &f, NULL, NULL, 1);
}

/* Units: kept (without the innermost) x column blocks x chunks of rows. */
static void sum_columns(const void *context, int64_t begin, int64_t end, int thread) {
  const sum_run *run = context;
  const sum_state *state = run->state;
  const reduce_layout *layout = &state->layout;
  double *acc = (double *)(void *)(run->files + (size_t)thread * state->file_bytes);
  float *tmp = (float *)(void *)(acc + state->width);
  row_source rows = {trm_vector_ops_get(), NULL,
                     state->dtype,         layout->num_reduced,
                     layout->reduced_dims, layout->reduced_strides};
  const uint8_t log2 = trm_log2_size(state->dtype);
  int64_t wide_dims[TRM_MAX_RANK], wide_strides[TRM_MAX_RANK];
  const int32_t last = layout->num_reduced - 1;
  if (state->group > 1) {
    memcpy(wide_dims, layout->reduced_dims, sizeof wide_dims);
    memcpy(wide_strides, layout->reduced_strides, sizeof wide_strides);
    wide_dims[last] /= state->group;
    wide_strides[last] *= state->group;
    rows.dims = wide_dims;
    rows.strides = wide_strides;
  }
  for (int64_t u = begin; u < end; ++u) {
    const int64_t chunk = u % state->chunks, block = u / state->chunks % state->blocks;
    const int64_t kept = u / state->chunks / state->blocks;
    const int64_t column = block * state->width;
    const int64_t width = layout->inner * state->group;
    const int64_t n = width - column < state->width ? width - column : state->width;
    const int64_t base =
        trm_reduce_offset(layout->num_kept, layout->kept_dims, layout->kept_strides, kept);
    rows.data = (const char *)run->call->operands[0] + (base << log2);
    const int64_t first = state->rows * chunk / state->chunks;
    const int64_t stop = state->rows * (chunk + 1) / state->chunks;
    sum_rows(&rows, first, stop, column, n, acc, tmp);
    for (int64_t g = 1; g < state->group; ++g)
      for (int64_t i = 0; i < layout->inner; ++i) acc[i] += acc[g * layout->inner + i];
    const int64_t columns = n / state->group;
    const int64_t place = kept * layout->inner + column;
    for (int64_t i = 0; i < columns; ++i) {
      if (state->has_partials) {
        run->partials[chunk * layout->kept_count * layout->inner + place + i] = acc[i];
      } else store(state->dtype, run->call->results[0], place + i, run->initial + acc[i]);
    }
  }
}

static double sum_piece(const sum_state *state, const char *data, int64_t piece) {
  const reduce_layout *layout = &state->layout;
  const int64_t cuts = (layout->inner + PIECE - 1) / PIECE;
  const int64_t start = piece % cuts * PIECE;
  const int64_t n = layout->inner - start < PIECE ? layout->inner - start : PIECE;
  const int64_t offset = start + trm_reduce_offset(layout->num_reduced, layout->reduced_dims,
                                                   layout->reduced_strides, piece / cuts);
  const trm_vector_ops *ops = trm_vector_ops_get();
  return state->dtype == TRM_F32
             ? ops->sum_f32((const float *)(const void *)data + offset, (size_t)n)
             : ops->sum_half((const uint16_t *)(const void *)data + offset, (size_t)n);
}

/* Units: results, or results x pieces. */
static void sum_row_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const sum_run *run = context;
  const sum_state *state = run->state;
  const reduce_layout *layout = &state->layout;
  const uint8_t log2 = trm_log2_size(state->dtype);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t kept = state->has_partials ? u / state->pieces : u;
    const int64_t base =
        trm_reduce_offset(layout->num_kept, layout->kept_dims, layout->kept_strides, kept);
    const char *data = (const char *)run->call->operands[0] + (base << log2);
    if (state->has_partials) {
      run->partials[u] = sum_piece(state, data, u % state->pieces);
      continue;
    }
    double total = 0.0;
    for (int64_t p = 0; p < state->pieces; ++p) total += sum_piece(state, data, p);
    store(state->dtype, run->call->results[0], kept, run->initial + total);
  }
}

static trm_status run_sum(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const sum_state *state = kernel->state;
  const reduce_layout *layout = &state->layout;
  float initial;
  if (state->dtype == TRM_F32) memcpy(&initial, call->operands[1], sizeof initial);
  else trm_vector_ops_get()->half_to_float(&initial, call->operands[1], NULL, NULL, 1);
  const sum_run run = {state, call, (double)initial, call->scratch,
                       (char *)call->scratch + state->partial_bytes};
  const int64_t total = layout->kept_count * layout->reduced_count * layout->inner;
  const int64_t results = layout->kept_count * (layout->inner_is_kept ? layout->inner : 1);
  if (total == 0) {
    for (int64_t i = 0; i < results; ++i) store(state->dtype, call->results[0], i, run.initial);
    return TRM_OK;
  }
  const int threads = trm_threads_for((size_t)total << trm_log2_size(state->dtype));
  const int64_t partials = layout->inner_is_kept ? state->chunks : state->pieces;
  const int64_t units = layout->inner_is_kept
                            ? layout->kept_count * state->blocks * state->chunks
                            : layout->kept_count * (state->has_partials ? partials : 1);
  trm_parallel_ranges(threads, units, layout->inner_is_kept ? sum_columns : sum_row_range, &run);
  if (!state->has_partials) return TRM_OK;
  for (int64_t i = 0; i < results; ++i) {
    double sum = run.initial;
    for (int64_t p = 0; p < partials; ++p)
      sum += layout->inner_is_kept ? run.partials[p * results + i] : run.partials[i * partials + p];
    store(state->dtype, call->results[0], i, sum);
  }
  return TRM_OK;
}

/* One row of floats, which is one piece. */
static trm_status run_row(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const sum_state *state = kernel->state;
  const double sum = sum_piece(state, call->operands[0], 0);
  *(float *)call->results[0] = (float)((double)*(const float *)call->operands[1] + sum);
  return TRM_OK;
}

trm_status trm_fast_sum_create(const trm_kernel_request *request, const reduce_layout *layout,
                               trm_kernel *out_kernel, trm_error *error) {
  sum_state *state = ARENA_NEW(request->arena, sum_state, 1);
  CHECK_MEMORY(state, "a reduction");
  state->layout = *layout;
  state->dtype = trm_operand_shape(request, 0)->dtype;
  const int64_t total = layout->kept_count * layout->reduced_count * layout->inner;
  const int64_t results = layout->kept_count * (layout->inner_is_kept ? layout->inner : 1);
  state->group = state->chunks = 1;
  if (layout->inner_is_kept && total > 0) {
    /* The largest divisor of the innermost reduced dimension that makes a row wide enough. */
    const int32_t last = layout->num_reduced - 1;
    if (last >= 0 && layout->inner < REDUCE_BLOCK / 4 &&
        layout->reduced_strides[last] == layout->inner) {
      for (int64_t g = REDUCE_BLOCK / layout->inner; g > 1 && state->group == 1; --g)
        if (layout->reduced_dims[last] % g == 0) state->group = g;
    }
    state->rows = layout->reduced_count / state->group;
    state->width = state->dtype == TRM_F32 ? WIDE_BLOCK : REDUCE_BLOCK;
    state->blocks = (layout->inner * state->group + state->width - 1) / state->width;
    const int64_t units = layout->kept_count * state->blocks;
    if (units < 16 && total >= PIECE && state->rows >= 128)
      state->chunks = state->rows / 64 < 16 ? state->rows / 64 : 16;
    state->has_partials = state->chunks > 1;
    if (state->has_partials)
      state->partial_bytes = (size_t)(state->chunks * results) * sizeof(double);
  } else if (total > 0) {
    state->pieces = layout->reduced_count * ((layout->inner + PIECE - 1) / PIECE);
    state->has_partials = layout->kept_count < 16 && state->pieces > 1 && total >= 4 * PIECE;
    if (state->has_partials)
      state->partial_bytes = (size_t)(layout->kept_count * state->pieces) * sizeof(double);
  }
  state->partial_bytes = (state->partial_bytes + 63) & ~(size_t)63;
  const size_t converted = state->dtype == TRM_F32 ? 0 : 8 * sizeof(float);
  state->file_bytes = (size_t)state->width * (sizeof(double) + converted);
  const bool is_row =
      state->pieces == 1 && layout->kept_count == 1 && state->dtype == TRM_F32 && total < PIECE;
  *out_kernel = (trm_kernel){
      .name = "fast.sum",
      .scratch_bytes =
          state->partial_bytes +
          (layout->inner_is_kept ? state->file_bytes * (size_t)trm_threads_limit() : 0),
      .state = state,
      .run = is_row ? run_row : run_sum};
  return TRM_OK;
}

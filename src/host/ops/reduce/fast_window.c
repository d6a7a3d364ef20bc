/* Owns: fast reduce-window. Lanes are channels if the last dimensions have no window (NHWC),
 * else results along the last dimension. Float sums are accumulated in double, other floats in
 * float32. */
#include "host/ops/reduce/fast_window.h"

#include <string.h>

#include "host/ops/threads.h"

typedef struct pool_state {
  window_layout layout;
  window_reducer reducer;
  int64_t line;   /* lanes: so many results along the last windowed dimension; 0: channels */
  int64_t blocks; /* of lanes */
  size_t file_bytes;
} pool_state;

typedef struct pool_run {
  const pool_state *state;
  const trm_kernel_call *call;
  const trm_vector_ops *ops;
  char *files;
} pool_run;

typedef struct pool_lanes {
  char *acc, *next, *in, *raw, *scratch;
} pool_lanes;

/* Combines acc[first..first + n) with n elements at `offset`, `stride` apart. */
static void take(const pool_run *run, pool_lanes *lanes, int64_t offset, int64_t stride,
                 int64_t first, int64_t n) {
  const pool_state *state = run->state;
  const trm_vector_ops *ops = run->ops;
  const void *x = (const char *)run->call->operands[0] + (offset << state->reducer.log2);
  if (stride != 1) {
    ops->strided[state->reducer.log2](lanes->raw, x, stride, (size_t)n);
    x = lanes->raw;
  }
  if (state->reducer.widens) {
    ops->half_to_float(lanes->in, x, NULL, NULL, (size_t)n);
    x = lanes->in;
  }
  char *acc = lanes->acc +
              (state->reducer.mode == WINDOW_SUM ? first * 8 : first << state->reducer.lane_log2);
  switch (state->reducer.mode) {
    case WINDOW_SUM: ops->accumulate_double((double *)(void *)acc, x, (size_t)n); break;
    case WINDOW_DIRECT: state->reducer.direct(acc, acc, x, x, (size_t)n); break;
    case WINDOW_FUNCTION: {
      const void *args[2] = {acc, x};
      void *results[1] = {lanes->next};
      trm_function_apply(&state->reducer.function, args, results, (size_t)n, lanes->scratch);
      memcpy(acc, lanes->next, (size_t)n << state->reducer.lane_log2);
      break;
    }
  }
}

static void begin_lanes(const pool_run *run, pool_lanes *lanes, int64_t n) {
  const pool_state *state = run->state;
  const void *initial = run->call->operands[1];
  if (state->reducer.mode == WINDOW_SUM) {
    float value;
    if (state->reducer.dtype == TRM_F32) memcpy(&value, initial, sizeof value);
    else run->ops->half_to_float(&value, initial, NULL, NULL, 1);
    double *acc = (double *)(void *)lanes->acc;
    for (int64_t i = 0; i < n; ++i) acc[i] = (double)value;
    return;
  }
  float wide;
  if (state->reducer.widens) {
    run->ops->half_to_float(&wide, initial, NULL, NULL, 1);
    initial = &wide;
  }
  run->ops->strided[state->reducer.lane_log2](lanes->acc, initial, 0, (size_t)n);
}

static void end_lanes(const pool_run *run, const pool_lanes *lanes, int64_t place, int64_t n) {
  const pool_state *state = run->state;
  char *result = (char *)run->call->results[0] + (place << state->reducer.log2);
  const void *from = lanes->acc;
  if (state->reducer.mode == WINDOW_SUM) {
    const double *acc = (const double *)(const void *)lanes->acc;
    float *out = (float *)(void *)lanes->in;
    for (int64_t i = 0; i < n; ++i) out[i] = (float)acc[i];
    from = out;
  }
  if (state->reducer.widens) run->ops->float_to_half(result, from, NULL, NULL, (size_t)n);
  else memcpy(result, from, (size_t)n << state->reducer.log2);
}

/* Combines all elements of the windows of results [start, start + n) along the last windowed
 * dimension. */
static void take_line(const pool_run *run, pool_lanes *lanes, int64_t position, int64_t start,
                      int64_t n) {
  const window_layout *layout = &run->state->layout;
  const int32_t last = layout->rank - 1;
  const trm_window_dimension *w = &layout->window[last];
  window_walk walk;
  int64_t offset;
  trm_window_start(&walk, layout, last, position);
  while (trm_window_next(&walk, &offset)) {
    for (int64_t k = 0; k < w->size; ++k) {
      /* The results whose k-th element is inside: 0 <= o * stride + shift < dim. */
      const int64_t shift = k * w->window_dilation - w->padding_low;
      int64_t low = shift < 0 ? (-shift + w->stride - 1) / w->stride : 0;
      const int64_t room = layout->in_dims[last] - shift;
      int64_t high = room <= 0 ? 0 : (room + w->stride - 1) / w->stride;
      if (low < start) low = start;
      if (high > start + n) high = start + n;
      if (low < high)
        take(run, lanes, offset + low * w->stride + shift, w->stride, low - start, high - low);
    }
  }
}

/* Units: positions x blocks of lanes. */
static void pool_range(const void *context, int64_t begin, int64_t end, int thread) {
  const pool_run *run = context;
  const pool_state *state = run->state;
  const window_layout *layout = &state->layout;
  char *file = run->files + (size_t)thread * state->file_bytes;
  const size_t each = REDUCE_BLOCK * sizeof(uint64_t);
  pool_lanes lanes = {file, file + each, file + 2 * each, file + 3 * each, file + 4 * each};
  const int64_t width = state->line > 0 ? state->line : layout->inner;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t position = u / state->blocks, start = u % state->blocks * REDUCE_BLOCK;
    const int64_t n = width - start < REDUCE_BLOCK ? width - start : REDUCE_BLOCK;
    begin_lanes(run, &lanes, n);
    if (state->line > 0) {
      take_line(run, &lanes, position, start, n);
    } else {
      window_walk walk;
      int64_t offset;
      trm_window_start(&walk, layout, layout->rank, position);
      while (trm_window_next(&walk, &offset)) take(run, &lanes, offset + start, 1, 0, n);
    }
    end_lanes(run, &lanes, position * width + start, n);
  }
}

static trm_status run_pool(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const pool_state *state = kernel->state;
  const window_layout *layout = &state->layout;
  const pool_run run = {state, call, trm_vector_ops_get(), call->scratch};
  int64_t window = 1;
  for (int32_t d = 0; d < layout->rank; ++d) window *= layout->window[d].size;
  const int64_t positions = state->line > 0 ? layout->positions / state->line : layout->positions;
  const int64_t width = state->line > 0 ? state->line : layout->inner;
  if (layout->positions == 0 || width == 0) return TRM_OK;
  const size_t work = (size_t)(positions * width) * (size_t)(window < 64 ? window : 64) * 4;
  trm_parallel_ranges(trm_threads_for(work), positions * state->blocks, pool_range, &run);
  return TRM_OK;
}

trm_status trm_fast_window_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                  bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  if (instruction->num_operands != 2 || !trm_shape_is_array(&instruction->shape)) return TRM_OK;
  const trm_shape *operand = trm_operand_shape(request, 0);
  const trm_dtype dtype = operand->dtype;
  const uint32_t called = instruction->called[0];
  const trm_computation *body = &request->module->computations[called];
  if (trm_operand_shape(request, 1)->dtype != dtype || instruction->shape.dtype != dtype ||
      instruction->window->rank != operand->rank)
    return TRM_OK;
  pool_state *state = ARENA_NEW(request->arena, pool_state, 1);
  CHECK_MEMORY(state, "a window reduction");
  bool supported;
  TRY(trm_function_compile(request->module, called, request->arena, &state->reducer.function,
                           &supported, error));
  if (!supported || state->reducer.function.num_parameters != 2 ||
      state->reducer.function.num_results != 1)
    return TRM_OK;
  for (int i = 0; i < 2; ++i)
    if (body->instructions[body->parameters[i]].shape.dtype != dtype) return TRM_OK;
  window_layout *layout = &state->layout;
  trm_window_layout(instruction->window, operand, &instruction->shape, layout);
  for (int32_t d = 0; d < layout->rank; ++d)
    if (layout->window[d].size < 1 || layout->window[d].stride < 1 ||
        layout->window[d].base_dilation < 1 || layout->window[d].window_dilation < 1 ||
        layout->window[d].reversal) {
      return TRM_OK;
    }
  if (layout->inner == 1 && layout->rank > 0 &&
      layout->window[layout->rank - 1].base_dilation == 1) {
    state->line = layout->out_dims[layout->rank - 1];
    if (state->line == 0) state->line = 1;
  }
  const trm_opcode opcode = state->reducer.function.single_opcode;
  const bool is_float = dtype == TRM_F32 || dtype == TRM_F16;
  state->reducer.dtype = dtype;
  state->reducer.log2 = state->reducer.lane_log2 = trm_log2_size(dtype);
  state->reducer.direct = trm_reduce_vector_fn(opcode, dtype);
  state->reducer.mode = state->reducer.direct != NULL ? WINDOW_DIRECT : WINDOW_FUNCTION;
  if (is_float && opcode == TRM_OP_ADD) state->reducer.mode = WINDOW_SUM;
  if (dtype == TRM_F16 && (opcode == TRM_OP_MAXIMUM || opcode == TRM_OP_MINIMUM)) {
    state->reducer.mode = WINDOW_DIRECT;
    state->reducer.direct = trm_reduce_vector_fn(opcode, TRM_F32);
  }
  state->reducer.widens = dtype == TRM_F16 && state->reducer.mode != WINDOW_FUNCTION;
  if (state->reducer.widens) state->reducer.lane_log2 = 2;
  TRY(trm_fast_scan_create(request, layout, &state->reducer, out_kernel, out_supported, error));
  if (*out_supported) return TRM_OK;
  const int64_t width = state->line > 0 ? state->line : layout->inner;
  state->blocks = (width + REDUCE_BLOCK - 1) / REDUCE_BLOCK;
  state->file_bytes = 4 * REDUCE_BLOCK * sizeof(uint64_t) +
                      ((state->reducer.function.scratch_bytes + 63) & ~(size_t)63);
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.reduce-window",
                             .scratch_bytes = state->file_bytes * (size_t)trm_threads_limit(),
                             .state = state,
                             .run = run_pool};
  return TRM_OK;
}

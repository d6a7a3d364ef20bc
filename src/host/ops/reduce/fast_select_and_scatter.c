/* Owns: fast select-and-scatter in the form of max pooling's gradient: select is a >= b or a > b,
 * and scatter adds floats. Lanes are channels. Threads split dimensions that no window crosses: the
 * outer ones without a window, and blocks of channels. Sums are float32. */
#include <string.h>

#include "host/ops/reduce/fast_window.h"
#include "host/ops/threads.h"

enum { LANE_BLOCK = 64 };

typedef struct select_state {
  window_layout layout;
  trm_dtype dtype;
  bool greater_equal;
  int64_t outer;          /* images: product of the leading dimensions without a window */
  int64_t image, windows; /* elements and windows of one image */
  int64_t blocks, count;
  size_t file_bytes, sums_bytes;
} select_state;

typedef struct select_run {
  const select_state *state;
  const trm_kernel_call *call;
  const trm_vector_ops *ops;
  float *sums; /* in the layout of the operand */
  float initial;
  char *files;
} select_run;

static const float *floats_at(const select_run *run, uint32_t operand, int64_t offset, int64_t n,
                              float *tmp) {
  const void *array = run->call->operands[operand];
  if (run->state->dtype == TRM_F32) return (const float *)array + offset;
  run->ops->half_to_float(tmp, (const uint16_t *)array + offset, NULL, NULL, (size_t)n);
  return tmp;
}

/* Units: images x blocks of channels. */
static void select_range(const void *context, int64_t begin, int64_t end, int thread) {
  const select_run *run = context;
  const select_state *state = run->state;
  const window_layout *layout = &state->layout;
  float *best = (float *)(void *)(run->files + (size_t)thread * state->file_bytes);
  int32_t *place = (int32_t *)(void *)(best + LANE_BLOCK);
  float *tmp = (float *)(void *)(place + LANE_BLOCK);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t image = u / state->blocks, lane = u % state->blocks * LANE_BLOCK;
    const int64_t n = layout->inner - lane < LANE_BLOCK ? layout->inner - lane : LANE_BLOCK;
    float *sums = run->sums + image * state->image;
    for (int64_t i = lane; i < state->image; i += layout->inner)
      for (int64_t k = 0; k < n; ++k) sums[i + k] = run->initial;
    for (int64_t w = 0; w < state->windows; ++w) {
      window_walk walk;
      int64_t offset;
      const int64_t position = image * state->windows + w;
      bool first = true;
      trm_window_start(&walk, layout, layout->rank, position);
      while (trm_window_next(&walk, &offset)) {
        const float *x = floats_at(run, 0, offset + lane, n, tmp);
        const int32_t at = (int32_t)(offset - image * state->image + lane);
        if (first) {
          memcpy(best, x, (size_t)n * sizeof *best);
          for (int64_t k = 0; k < n; ++k) place[k] = at;
          first = false;
        } else if (state->greater_equal) {
          run->ops->keep_greater_equal(best, place, x, at, (size_t)n);
        } else {
          run->ops->keep_greater(best, place, x, at, (size_t)n);
        }
      }
      if (first) continue;
      const float *source = floats_at(run, 1, position * layout->inner + lane, n, tmp);
      for (int64_t k = 0; k < n; ++k) sums[place[k] + k] += source[k];
    }
  }
}

static void round_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const select_run *run = context;
  run->ops->float_to_half((uint16_t *)run->call->results[0] + begin, run->sums + begin, NULL, NULL,
                          (size_t)(end - begin));
}

static trm_status run_select(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  const select_state *state = kernel->state;
  select_run run = {.state = state,
                    .call = call,
                    .ops = trm_vector_ops_get(),
                    .sums = state->dtype == TRM_F32 ? call->results[0] : call->scratch,
                    .files = (char *)call->scratch + state->sums_bytes};
  if (state->dtype == TRM_F32) memcpy(&run.initial, call->operands[2], sizeof run.initial);
  else run.ops->half_to_float(&run.initial, call->operands[2], NULL, NULL, 1);
  if (state->count == 0) return TRM_OK;
  const int threads = trm_threads_for((size_t)state->count * 16);
  trm_parallel_ranges(threads, state->outer * state->blocks, select_range, &run);
  if (state->dtype == TRM_F16) trm_parallel_ranges(threads, state->count, round_range, &run);
  return TRM_OK;
}

/* Whether the computation is p0 >= p1 (or p0 > p1). */
static bool is_selector(const trm_computation *computation, bool *out_greater_equal) {
  const trm_instruction *root = &computation->instructions[computation->root];
  if (computation->num_parameters != 2 || root->opcode != TRM_OP_COMPARE ||
      root->comparison_type == TRM_CMPTYPE_TOTALORDER)
    return false;
  const trm_index a = computation->parameters[0], b = computation->parameters[1];
  const bool forwards = root->operands[0] == a && root->operands[1] == b;
  const bool backwards = root->operands[0] == b && root->operands[1] == a;
  const trm_comparison ge = forwards ? TRM_CMP_GE : TRM_CMP_LE;
  const trm_comparison gt = forwards ? TRM_CMP_GT : TRM_CMP_LT;
  if ((!forwards && !backwards) || (root->comparison != ge && root->comparison != gt)) return false;
  *out_greater_equal = root->comparison == ge;
  return true;
}

trm_status trm_fast_select_and_scatter_create(const trm_kernel_request *request,
                                              trm_kernel *out_kernel, bool *out_supported,
                                              trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *operand = trm_operand_shape(request, 0), *source = trm_operand_shape(request, 1);
  const trm_dtype dtype = operand->dtype;
  if ((dtype != TRM_F32 && dtype != TRM_F16) || source->dtype != dtype ||
      instruction->shape.dtype != dtype || trm_operand_shape(request, 2)->dtype != dtype ||
      instruction->num_called != 2 || instruction->window->rank != operand->rank)
    return TRM_OK;
  bool greater_equal, supported;
  trm_function scatter;
  trm_opcode opcode;
  if (!is_selector(&request->module->computations[instruction->called[0]], &greater_equal))
    return TRM_OK;
  TRY(trm_function_compile(request->module, instruction->called[1], request->arena, &scatter,
                           &supported, error));
  if (!supported || !trm_function_single_opcode(&scatter, &opcode) || opcode != TRM_OP_ADD)
    return TRM_OK;
  select_state *state = ARENA_NEW(request->arena, select_state, 1);
  CHECK_MEMORY(state, "a select-and-scatter");
  trm_window_layout(instruction->window, operand, source, &state->layout);
  const window_layout *layout = &state->layout;
  state->dtype = dtype;
  state->greater_equal = greater_equal;
  state->count = trm_shape_count(operand);
  state->outer = 1;
  bool leads = true;
  for (int32_t d = 0; d < layout->rank; ++d) {
    const trm_window_dimension *w = &layout->window[d];
    if (w->size < 1 || w->stride < 1 || w->base_dilation != 1 || w->window_dilation < 1 ||
        w->reversal)
      return TRM_OK;
    leads = leads && w->size == 1 && w->stride == 1 && w->padding_low == 0 && w->padding_high == 0;
    if (leads) state->outer *= layout->in_dims[d];
  }
  if (state->count > 0) {
    state->image = state->count / state->outer;
    state->windows = layout->positions / state->outer;
    if (state->image > INT32_MAX) return TRM_OK;
  }
  state->blocks = (layout->inner + LANE_BLOCK - 1) / LANE_BLOCK;
  state->file_bytes = 3 * LANE_BLOCK * sizeof(float);
  if (dtype == TRM_F16)
    state->sums_bytes = ((size_t)state->count * sizeof(float) + 63) & ~(size_t)63;
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = "fast.select-and-scatter",
      .scratch_bytes = state->sums_bytes + state->file_bytes * (size_t)trm_threads_limit(),
      .state = state,
      .run = run_select};
  return TRM_OK;
}

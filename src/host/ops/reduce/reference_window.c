/* Owns: reference kernels of reduce-window and select-and-scatter. */
#include "host/ops/reduce/reference_reduce.h"

/* The place of window element `in_window` of the window at `window_index` in the operand, or -1
 * when it falls on padding or between dilated elements. */
static int64_t window_place(const trm_window *window, const trm_shape *operand,
                            const int64_t *strides, const int64_t *window_index,
                            const int64_t *in_window) {
  int64_t place = 0;
  for (int32_t d = 0; d < operand->rank; ++d) {
    const trm_window_dimension *w = &window->dims[d];
    const int64_t position =
        window_index[d] * w->stride + in_window[d] * w->window_dilation - w->padding_low;
    if (position < 0 || position % w->base_dilation != 0) return -1;
    const int64_t element = position / w->base_dilation;
    if (element >= operand->dims[d]) return -1;
    place += strides[d] * element;
  }
  return place;
}

static void window_odometer(const trm_window *window, trm_odometer *out_odometer) {
  int64_t sizes[TRM_MAX_RANK];
  for (int32_t d = 0; d < window->rank; ++d) sizes[d] = window->dims[d].size;
  trm_odometer_init(out_odometer, window->rank, sizes);
}

/* The accumulation begins with the initial value, so padding, which has that value, is skipped. */
static trm_status run_reduce_window(const trm_kernel *kernel, const trm_kernel_call *call,
                                    trm_error *error) {
  (void)error;
  trm_reducer reducer = trm_reducer_begin(kernel, call);
  const trm_reference_state *state = reducer.state;
  const trm_window *window = state->instruction.window;
  const trm_shape *operand = &state->operands[0], *result = trm_shape_leaf(&state->shape, 0);
  int64_t strides[TRM_MAX_RANK];
  trm_shape_strides(operand, strides);
  trm_odometer at, inner;
  trm_odometer_init(&at, result->rank, result->dims);
  window_odometer(window, &inner);
  const int64_t window_count = trm_dims_count(inner.rank, inner.dims);
  const int64_t count = trm_shape_count(result);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    trm_reducer_start(&reducer);
    for (int64_t j = 0; j < window_count; ++j, trm_odometer_next(&inner)) {
      const int64_t place = window_place(window, operand, strides, at.index, inner.index);
      if (place >= 0) trm_reducer_add(&reducer, place);
    }
    trm_reducer_store(&reducer, i);
  }
  return TRM_OK;
}

/* Operands: the array, the source (one value a window), the initial value. In each window the
 * element that `select` prefers gets the source value, combined by `scatter`. A plain sum of
 * floats is kept in double until the end. */
static trm_status run_select_and_scatter(const trm_kernel *kernel, const trm_kernel_call *call,
                                         trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_evaluator *select = state->evaluators[0], *scatter = state->evaluators[1];
  trm_value *select_slots = (trm_value *)call->scratch;
  trm_value *scatter_slots = (trm_value *)(void *)((char *)call->scratch + select->slot_bytes);
  trm_value *sums = (trm_value *)(void *)((char *)scatter_slots + scatter->slot_bytes);
  trm_evaluator_prepare(select, select_slots);
  trm_evaluator_prepare(scatter, scatter_slots);
  const bool float_sum = trm_reducer_is_float_sum(scatter);
  const trm_window *window = state->instruction.window;
  const trm_shape *operand = &state->operands[0], *source = &state->operands[1];
  const int64_t operand_count = trm_shape_count(operand), count = trm_shape_count(source);
  const trm_value initial = trm_value_load(state->operands[2].dtype, call->operands[2], 0);
  for (int64_t i = 0; i < operand_count; ++i) sums[i] = initial;
  int64_t strides[TRM_MAX_RANK];
  trm_shape_strides(operand, strides);
  trm_odometer at, inner;
  trm_odometer_init(&at, source->rank, source->dims);
  window_odometer(window, &inner);
  const int64_t window_count = trm_dims_count(inner.rank, inner.dims);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    int64_t chosen = -1;
    for (int64_t j = 0; j < window_count; ++j, trm_odometer_next(&inner)) {
      const int64_t place = window_place(window, operand, strides, at.index, inner.index);
      if (place < 0) continue;
      if (chosen >= 0) {
        select_slots[0] = trm_value_load(operand->dtype, call->operands[0], chosen);
        select_slots[1] = trm_value_load(operand->dtype, call->operands[0], place);
        trm_evaluator_run(select, select_slots);
        if (select_slots[select->results[0]].u) continue; /* the one chosen before stays */
      }
      chosen = place;
    }
    if (chosen < 0) continue;
    const trm_value value = trm_value_load(source->dtype, call->operands[1], i);
    if (float_sum) {
      sums[chosen].f += value.f;
      continue;
    }
    scatter_slots[0] = value;
    scatter_slots[1] = sums[chosen];
    trm_evaluator_run(scatter, scatter_slots);
    sums[chosen] = scatter_slots[scatter->results[0]];
  }
  for (int64_t i = 0; i < operand_count; ++i) {
    trm_value_store(state->shape.dtype, call->results[0], i, sums[i]);
  }
  return TRM_OK;
}

trm_status trm_reference_window_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_supported = true;
  if (instruction->opcode == TRM_OP_REDUCE_WINDOW) {
    TRY(trm_reference_kernel_create(request, "reference.reduce-window", run_reduce_window, 1,
                                    out_kernel, error));
    TRY(trm_reducer_check(request, out_kernel, error));
  } else {
    TRY(trm_reference_kernel_create(request, "reference.select-and-scatter", run_select_and_scatter,
                                    2, out_kernel, error));
    const trm_reference_state *state = trm_reference_state_of(out_kernel);
    if (state->evaluators[0]->num_parameters != 2 || state->evaluators[1]->num_parameters != 2) {
      return trm_reference_refuse(request, "its computations do not take two values", error);
    }
    out_kernel->scratch_bytes +=
        sizeof(trm_value) * (size_t)trm_shape_count(trm_operand_shape(request, 0));
  }
  if (instruction->window->rank != trm_operand_shape(request, 0)->rank) {
    return trm_reference_refuse(request, "its window has another rank than its operand", error);
  }
  return TRM_OK;
}

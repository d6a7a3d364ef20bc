/* Owns: the reference kernel of reduce, and the reducer that it shares with reduce-window. */
#include "host/ops/reduce/reference_reduce.h"

bool trm_reducer_is_float_sum(const trm_evaluator *evaluator) {
  return trm_evaluator_single_opcode(evaluator) == TRM_OP_ADD &&
         trm_dtype_kind(evaluator->result_types[0]) == TRM_KIND_FLOAT;
}

trm_status trm_reducer_check(const trm_kernel_request *request, trm_kernel *kernel,
                             trm_error *error) {
  const trm_evaluator *evaluator = trm_reference_state_of(kernel)->evaluators[0];
  if (evaluator->num_parameters != request->instruction->num_operands ||
      evaluator->num_results != request->instruction->num_operands / 2) {
    return trm_reference_refuse(request, "its computation does not fit its operands", error);
  }
  kernel->scratch_bytes += sizeof(trm_value) * evaluator->num_results;
  return TRM_OK;
}

trm_reducer trm_reducer_begin(const trm_kernel *kernel, const trm_kernel_call *call) {
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_reducer reducer = {.state = state,
                               .call = call,
                               .evaluator = state->evaluators[0],
                               .slots = (trm_value *)call->scratch,
                               .count = state->num_operands / 2,
                               .is_float_sum = trm_reducer_is_float_sum(state->evaluators[0])};
  trm_evaluator_prepare(reducer.evaluator, reducer.slots);
  return reducer;
}

void trm_reducer_start(trm_reducer *reducer) {
  for (uint32_t k = 0; k < reducer->count; ++k) {
    const uint32_t initial = reducer->count + k;
    reducer->slots[k] = trm_value_load(reducer->state->operands[initial].dtype,
                                       reducer->call->operands[initial], 0);
  }
}

void trm_reducer_add(trm_reducer *reducer, int64_t place) {
  const trm_shape *operands = reducer->state->operands;
  const void *const *data = reducer->call->operands;
  trm_value *slots = reducer->slots;
  const uint32_t n = reducer->count;
  if (reducer->is_float_sum) {
    slots[0].f += trm_value_load(operands[0].dtype, data[0], place).f;
    return;
  }
  for (uint32_t k = 0; k < n; ++k) {
    slots[n + k] = trm_value_load(operands[k].dtype, data[k], place);
  }
  trm_evaluator_run(reducer->evaluator, slots);
  /* Results may be parameters: reads all before writing any. */
  trm_value *next = slots + reducer->evaluator->num_slots;
  for (uint32_t k = 0; k < n; ++k) next[k] = slots[reducer->evaluator->results[k]];
  for (uint32_t k = 0; k < n; ++k) slots[k] = next[k];
}

void trm_reducer_store(trm_reducer *reducer, int64_t result) {
  for (uint32_t k = 0; k < reducer->count; ++k) {
    trm_value_store(trm_shape_leaf(&reducer->state->shape, (int32_t)k)->dtype,
                    reducer->call->results[k], result, reducer->slots[k]);
  }
}

static trm_status run_reduce(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  trm_reducer reducer = trm_reducer_begin(kernel, call);
  const trm_reference_state *state = reducer.state;
  const trm_shape *operand = &state->operands[0], *result = trm_shape_leaf(&state->shape, 0);
  const trm_dims *reduced = &state->instruction.dimensions;
  int64_t strides[TRM_MAX_RANK], kept[TRM_MAX_RANK], reduced_dims[TRM_MAX_RANK];
  trm_shape_strides(operand, strides);
  trm_dims_others(reduced, operand->rank, kept);
  bool is_reduced[TRM_MAX_RANK];
  int32_t num_reduced = 0;
  int64_t reduced_strides[TRM_MAX_RANK];
  for (int32_t d = 0; d < operand->rank; ++d) {
    is_reduced[d] = trm_dims_contain(reduced, d);
    if (!is_reduced[d]) continue;
    reduced_dims[num_reduced] = operand->dims[d];
    reduced_strides[num_reduced++] = strides[d];
  }
  const int64_t reduced_count = trm_dims_count(num_reduced, reduced_dims);
  trm_odometer at;
  trm_odometer_init(&at, result->rank, result->dims);
  const int64_t count = trm_shape_count(result);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    int64_t base = 0;
    for (int32_t d = 0; d < result->rank; ++d) base += strides[kept[d]] * at.index[d];
    trm_reducer_start(&reducer);
    trm_odometer inner;
    trm_odometer_init(&inner, num_reduced, reduced_dims);
    for (int64_t j = 0; j < reduced_count; ++j, trm_odometer_next(&inner)) {
      trm_reducer_add(&reducer, base + trm_linear_index(num_reduced, reduced_strides, inner.index));
    }
    trm_reducer_store(&reducer, i);
  }
  return TRM_OK;
}

trm_status trm_reference_reduce_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  *out_supported = true;
  TRY(trm_reference_kernel_create(request, "reference.reduce", run_reduce, 1, out_kernel, error));
  return trm_reducer_check(request, out_kernel, error);
}

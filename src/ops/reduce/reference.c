/* Reference kernel of reduce. */
#include "ops/reference.h"

/* Whether to add in double and round once: a plain sum of floats (design, decision 13). Any other
 * computation is followed as it is written, element by element in row-major order. */
static bool is_float_sum(const trm_evaluator *evaluator) {
  return trm_evaluator_single_opcode(evaluator) == TRM_OP_ADD &&
         trm_dtype_kind(evaluator->result_types[0]) == TRM_KIND_FLOAT;
}

/* Operands: N arrays, N initial values. to_apply takes N accumulators and N elements. */
static trm_status run_reduce(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_evaluator *evaluator = state->evaluators[0];
  trm_value *slots = (trm_value *)call->scratch;
  trm_evaluator_prepare(evaluator, slots);
  const uint32_t n = state->num_operands / 2;
  const trm_shape *operand = &state->operands[0], *result = trm_shape_leaf(&state->shape, 0);
  const trm_dims *reduced = &state->instruction.dimensions;
  int64_t strides[TRM_MAX_RANK], kept[TRM_MAX_RANK], reduced_dims[TRM_MAX_RANK];
  trm_shape_strides(operand, strides);
  trm_dims_others(reduced, operand->rank, kept);
  bool is_reduced[TRM_MAX_RANK];
  int32_t num_reduced = 0;
  int64_t reduced_strides[TRM_MAX_RANK];
  for (int32_t d = 0; d < operand->rank; d++) {
    is_reduced[d] = trm_dims_contain(reduced, d);
    if (!is_reduced[d]) continue;
    reduced_dims[num_reduced] = operand->dims[d];
    reduced_strides[num_reduced++] = strides[d];
  }
  const int64_t reduced_count = trm_dims_count(num_reduced, reduced_dims);
  const bool float_sum = is_float_sum(evaluator);
  trm_odometer at;
  trm_odometer_init(&at, result->rank, result->dims);
  const int64_t count = trm_shape_count(result);
  for (int64_t i = 0; i < count; i++, trm_odometer_next(&at)) {
    int64_t base = 0;
    for (int32_t d = 0; d < result->rank; d++) base += strides[kept[d]] * at.index[d];
    for (uint32_t k = 0; k < n; k++) {
      slots[k] = trm_value_load(state->operands[n + k].dtype, call->operands[n + k], 0);
    }
    trm_odometer inner;
    trm_odometer_init(&inner, num_reduced, reduced_dims);
    for (int64_t j = 0; j < reduced_count; j++, trm_odometer_next(&inner)) {
      const int64_t place = base + trm_linear_index(num_reduced, reduced_strides, inner.index);
      if (float_sum) {
        slots[0].f += trm_value_load(operand->dtype, call->operands[0], place).f;
        continue;
      }
      for (uint32_t k = 0; k < n; k++) {
        slots[n + k] = trm_value_load(state->operands[k].dtype, call->operands[k], place);
      }
      trm_evaluator_run(evaluator, slots);
      /* Results may be parameters: take all before writing any. */
      trm_value *next = slots + evaluator->num_slots;
      for (uint32_t k = 0; k < n; k++) next[k] = slots[evaluator->results[k]];
      for (uint32_t k = 0; k < n; k++) slots[k] = next[k];
    }
    for (uint32_t k = 0; k < n; k++) {
      trm_value_store(trm_shape_leaf(&state->shape, (int32_t)k)->dtype, call->results[k], i,
                      slots[k]);
    }
  }
  return TRM_OK;
}

trm_status trm_reference_reduce_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  *out_supported = true;
  TRY(trm_reference_kernel_create(request, "reference.reduce", run_reduce, 1, out_kernel, error));
  const trm_evaluator *evaluator = trm_reference_state_of(out_kernel)->evaluators[0];
  if (evaluator->num_parameters != request->instruction->num_operands ||
      evaluator->num_results != request->instruction->num_operands / 2) {
    return trm_reference_refuse(request, "its computation does not fit its operands", error);
  }
  out_kernel->scratch_bytes += sizeof(trm_value) * evaluator->num_results;
  return TRM_OK;
}

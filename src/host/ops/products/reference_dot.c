/* Owns: the reference kernel of dot: batch, contracting and free dimensions in any order. Floats of
 * every width are summed in double and rounded once; integers wrap. */
#include "host/ops/products/reference_linear.h"

void trm_value_multiply_add(trm_kind kind, trm_value *sum, trm_value a, trm_value b) {
  switch (kind) {
    case TRM_KIND_FLOAT: sum->f += a.f * b.f; break;
    case TRM_KIND_COMPLEX:
      sum->f += a.f * b.f - a.imag * b.imag;
      sum->imag += a.f * b.imag + a.imag * b.f;
      break;
    case TRM_KIND_PRED: sum->u |= a.u & b.u; break;
    default: sum->u += a.u * b.u; break;
  }
}

trm_value trm_value_load_as(trm_dtype dtype, trm_dtype as, const void *array, int64_t index) {
  const trm_value value = trm_value_load(dtype, array, index);
  const trm_kind from = trm_dtype_kind(dtype), to = trm_dtype_kind(as);
  /* Values of one kind are exact in trm_value, whatever the width. */
  return from == to ? value : trm_value_convert(dtype, as, false, value);
}

/* Dimensions of both operands that advance together (contracting ones), as one odometer. */
static trm_status run_dot(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_dot *dot = state->instruction.dot;
  const trm_shape *lhs = &state->operands[0], *rhs = &state->operands[1];
  const trm_kind kind = trm_dtype_kind(state->shape.dtype);
  int64_t lhs_strides[TRM_MAX_RANK], rhs_strides[TRM_MAX_RANK];
  trm_shape_strides(lhs, lhs_strides);
  trm_shape_strides(rhs, rhs_strides);

  /* The stride of each result dimension in the operands: batch, lhs's others, rhs's others. */
  int64_t result_lhs[TRM_MAX_RANK] = {0}, result_rhs[TRM_MAX_RANK] = {0};
  int32_t rank = 0;
  for (; rank < dot->lhs_batch.count; ++rank) {
    result_lhs[rank] = lhs_strides[dot->lhs_batch.items[rank]];
    result_rhs[rank] = rhs_strides[dot->rhs_batch.items[rank]];
  }
  for (int32_t d = 0; d < lhs->rank; ++d) {
    if (trm_dims_contain(&dot->lhs_batch, d) || trm_dims_contain(&dot->lhs_contracting, d)) {
      continue;
    }
    result_lhs[rank++] = lhs_strides[d];
  }
  for (int32_t d = 0; d < rhs->rank; ++d) {
    if (trm_dims_contain(&dot->rhs_batch, d) || trm_dims_contain(&dot->rhs_contracting, d)) {
      continue;
    }
    result_rhs[rank++] = rhs_strides[d];
  }
  int64_t sum_dims[TRM_MAX_RANK], sum_lhs[TRM_MAX_RANK], sum_rhs[TRM_MAX_RANK];
  const int32_t sum_rank = dot->lhs_contracting.count;
  for (int32_t i = 0; i < sum_rank; ++i) {
    sum_dims[i] = lhs->dims[dot->lhs_contracting.items[i]];
    sum_lhs[i] = lhs_strides[dot->lhs_contracting.items[i]];
    sum_rhs[i] = rhs_strides[dot->rhs_contracting.items[i]];
  }
  const int64_t sum_count = trm_dims_count(sum_rank, sum_dims);

  trm_odometer at, inner;
  trm_odometer_init(&at, state->shape.rank, state->shape.dims);
  trm_odometer_init(&inner, sum_rank, sum_dims);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    const int64_t lhs_base = trm_linear_index(at.rank, result_lhs, at.index);
    const int64_t rhs_base = trm_linear_index(at.rank, result_rhs, at.index);
    trm_value sum = {{0}, 0.0};
    for (int64_t j = 0; j < sum_count; ++j, trm_odometer_next(&inner)) {
      const int64_t a = lhs_base + trm_linear_index(sum_rank, sum_lhs, inner.index);
      const int64_t b = rhs_base + trm_linear_index(sum_rank, sum_rhs, inner.index);
      trm_value_multiply_add(
          kind, &sum, trm_value_load_as(lhs->dtype, state->shape.dtype, call->operands[0], a),
          trm_value_load_as(rhs->dtype, state->shape.dtype, call->operands[1], b));
    }
    trm_value_store(state->shape.dtype, call->results[0], i, sum);
  }
  return TRM_OK;
}

trm_status trm_reference_dot_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                    bool *out_supported, trm_error *error) {
  *out_supported = true;
  if (request->instruction->dot == NULL) {
    return trm_reference_refuse(request, "it has no dimension numbers", error);
  }
  return trm_reference_kernel_create(request, "reference.dot", run_dot, 0, out_kernel, error);
}

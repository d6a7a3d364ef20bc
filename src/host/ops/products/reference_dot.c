/* Owns: the reference kernel of dot: batch, contracting and free dimensions in any order. Floats of
 * every width are summed in double and rounded once; integers wrap. */
#include "host/ops/products/reference_linear.h"

/* *sum += a * b in the arithmetic of a kind. */
static void multiply_add(trm_kind kind, trm_value *sum, trm_value a, trm_value b) {
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

/* Element i, converted where the kinds differ. */
static trm_value load_as(trm_dtype as, const trm_value_run *run, int64_t i) {
  const trm_value value = trm_value_load(run->dtype, run->array, run->start + i * run->stride);
  const trm_kind from = trm_dtype_kind(run->dtype), to = trm_dtype_kind(as);
  /* Values of one kind are exact in trm_value, whatever the width. */
  return from == to ? value : trm_value_convert(run->dtype, as, false, value);
}

void trm_value_add_products(trm_dtype as, int64_t count, trm_value_run a, trm_value_run b,
                            trm_value *sum) {
  if (as == TRM_F32 && a.dtype == TRM_F32 && b.dtype == TRM_F32) {
    /* The same sum as below, without a choice for each element: most tests wait for this. */
    const float *x = a.array, *y = b.array; /* null where there is no element */
    double total = sum->f;
    for (int64_t i = 0; i < count; ++i) {
      total += (double)x[a.start + i * a.stride] * (double)y[b.start + i * b.stride];
    }
    sum->f = total;
    return;
  }
  const trm_kind kind = trm_dtype_kind(as);
  for (int64_t i = 0; i < count; ++i)
    multiply_add(kind, sum, load_as(as, &a, i), load_as(as, &b, i));
}

/* The contracting dimensions of both operands advance together: the last one as a run, the others
 * as one odometer. */
static trm_status run_dot(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_dot *dot = state->instruction.dot;
  const trm_shape *lhs = &state->operands[0], *rhs = &state->operands[1];
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
  const int32_t last = sum_rank - 1, outer_rank = sum_rank == 0 ? 0 : last;
  const int64_t outer_count = trm_dims_count(outer_rank, sum_dims);

  trm_odometer at, inner;
  trm_odometer_init(&at, state->shape.rank, state->shape.dims);
  trm_odometer_init(&inner, outer_rank, sum_dims);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    const int64_t lhs_base = trm_linear_index(at.rank, result_lhs, at.index);
    const int64_t rhs_base = trm_linear_index(at.rank, result_rhs, at.index);
    trm_value sum = {{0}, 0.0};
    for (int64_t j = 0; j < outer_count; ++j, trm_odometer_next(&inner)) {
      const trm_value_run a = {lhs->dtype, call->operands[0],
                               lhs_base + trm_linear_index(outer_rank, sum_lhs, inner.index),
                               sum_rank == 0 ? 0 : sum_lhs[last]};
      const trm_value_run b = {rhs->dtype, call->operands[1],
                               rhs_base + trm_linear_index(outer_rank, sum_rhs, inner.index),
                               sum_rank == 0 ? 0 : sum_rhs[last]};
      trm_value_add_products(state->shape.dtype, sum_rank == 0 ? 1 : sum_dims[last], a, b, &sum);
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

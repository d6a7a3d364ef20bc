/* Owns: reference kernels of the opcodes that move elements to places that other operands state:
 * dynamic-slice, dynamic-update-slice, gather and scatter. */
#include "host/ops/reference.h"

/* Loads an index of any integer type. A huge unsigned index stays out of bounds. */
static int64_t load_index(const trm_shape *shape, const void *array, int64_t i) {
  const trm_value value = trm_value_load(shape->dtype, array, i);
  if (trm_dtype_kind(shape->dtype) != TRM_KIND_SIGNED && value.u > INT64_MAX) return INT64_MAX;
  return value.s;
}

static int64_t clamp_index(int64_t index, int64_t high) {
  return index < 0 ? 0 : index > high ? high : index;
}

/* Loads the start of a slice of `sizes` in `operand`, moved so that the slice lies inside. The
 * start is one scalar operand for each dimension, or one vector. */
static void load_starts(const trm_reference_state *state, const trm_kernel_call *call,
                        uint32_t first, const int64_t *sizes, int64_t *out_starts) {
  const trm_shape *operand = &state->operands[0];
  const bool is_vector = state->num_operands == first + 1 && state->operands[first].rank == 1;
  for (int32_t d = 0; d < operand->rank; ++d) {
    const uint32_t k = is_vector ? first : first + (uint32_t)d;
    const int64_t start = load_index(&state->operands[k], call->operands[k], is_vector ? d : 0);
    out_starts[d] = clamp_index(start, operand->dims[d] - sizes[d]);
  }
}

static trm_status run_dynamic_slice(const trm_kernel *kernel, const trm_kernel_call *call,
                                    trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const size_t size = trm_dtype_size(state->shape.dtype);
  int64_t strides[TRM_MAX_RANK], starts[TRM_MAX_RANK];
  trm_shape_strides(&state->operands[0], strides);
  load_starts(state, call, 1, state->shape.dims, starts);
  const int64_t base = trm_linear_index(state->shape.rank, strides, starts);
  trm_odometer at;
  trm_odometer_init(&at, state->shape.rank, state->shape.dims);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    trm_copy_element(size, call->results[0], i, call->operands[0],
                     base + trm_linear_index(state->shape.rank, strides, at.index));
  }
  return TRM_OK;
}

static trm_status run_dynamic_update_slice(const trm_kernel *kernel, const trm_kernel_call *call,
                                           trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *update = &state->operands[1];
  const size_t size = trm_dtype_size(state->shape.dtype);
  const size_t bytes = trm_shape_bytes(&state->shape);
  if (bytes > 0 && call->results[0] != call->operands[0]) {
    memcpy(call->results[0], call->operands[0], bytes);
  }
  int64_t strides[TRM_MAX_RANK], starts[TRM_MAX_RANK];
  trm_shape_strides(&state->shape, strides);
  load_starts(state, call, 2, update->dims, starts);
  const int64_t base = trm_linear_index(state->shape.rank, strides, starts);
  trm_odometer at;
  trm_odometer_init(&at, update->rank, update->dims);
  const int64_t count = trm_shape_count(update);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    trm_copy_element(size, call->results[0],
                     base + trm_linear_index(update->rank, strides, at.index), call->operands[1],
                     i);
  }
  return TRM_OK;
}

/* Reads the index vector at the batch position `batch` (the dimensions of start_indices other than
 * index_vector_dim, in order) and spreads it over the operand's dimensions by `map`. Batching
 * dimensions of the operand take their position from the matching dimension of the indices. */
static void load_index_vector(const trm_shape *indices, const void *array, int64_t vector_dim,
                              const trm_dims *map, const trm_dims *operand_batching,
                              const trm_dims *indices_batching, const int64_t *batch,
                              int32_t operand_rank, int64_t *out_start) {
  int64_t strides[TRM_MAX_RANK], index[TRM_MAX_RANK + 1];
  trm_shape_strides(indices, strides);
  for (int32_t d = 0, b = 0; d < indices->rank; ++d) index[d] = d == vector_dim ? 0 : batch[b++];
  const int64_t base = trm_linear_index(indices->rank, strides, index);
  const int64_t step = vector_dim < indices->rank ? strides[vector_dim] : 0;
  for (int32_t d = 0; d < operand_rank; ++d) out_start[d] = 0;
  for (int32_t i = 0; i < map->count; ++i) {
    out_start[map->items[i]] = load_index(indices, array, base + i * step);
  }
  for (int32_t i = 0; i < operand_batching->count; ++i) {
    out_start[operand_batching->items[i]] = index[indices_batching->items[i]];
  }
}

static trm_status run_gather(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_gather *gather = state->instruction.gather;
  const trm_shape *operand = &state->operands[0], *indices = &state->operands[1];
  const size_t size = trm_dtype_size(state->shape.dtype);
  int64_t strides[TRM_MAX_RANK];
  trm_shape_strides(operand, strides);
  trm_odometer at;
  trm_odometer_init(&at, state->shape.rank, state->shape.dims);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    /* An index of the result is a batch index and an offset in the slice, mixed as offset_dims
     * says. */
    int64_t batch[TRM_MAX_RANK], offsets[TRM_MAX_RANK], start[TRM_MAX_RANK];
    int32_t num_batch = 0, num_offsets = 0;
    for (int32_t d = 0; d < state->shape.rank; ++d) {
      if (trm_dims_contain(&gather->offset_dims, d)) offsets[num_offsets++] = at.index[d];
      else batch[num_batch++] = at.index[d];
    }
    load_index_vector(indices, call->operands[1], gather->index_vector_dim,
                      &gather->start_index_map, &gather->operand_batching_dims,
                      &gather->start_indices_batching_dims, batch, operand->rank, start);
    int64_t place = 0;
    for (int32_t d = 0, o = 0; d < operand->rank; ++d) {
      start[d] = clamp_index(start[d], operand->dims[d] - gather->slice_sizes.items[d]);
      const bool dropped = trm_dims_contain(&gather->collapsed_slice_dims, d) ||
                           trm_dims_contain(&gather->operand_batching_dims, d);
      place += strides[d] * (start[d] + (dropped ? 0 : offsets[o++]));
    }
    trm_copy_element(size, call->results[0], i, call->operands[0], place);
  }
  return TRM_OK;
}

/* The place in the operand for the update at `index`, or -1 if it is out of bounds. A window that
 * is partly outside is skipped as a whole. */
static int64_t scatter_place(const trm_reference_state *state, const void *index_array,
                             const trm_shape *operand, const trm_shape *indices,
                             const trm_shape *updates, const int64_t *strides,
                             const int64_t *index) {
  const trm_scatter *scatter = state->instruction.scatter;
  int64_t batch[TRM_MAX_RANK], window[TRM_MAX_RANK], sizes[TRM_MAX_RANK], start[TRM_MAX_RANK];
  int32_t num_batch = 0, num_window = 0;
  for (int32_t d = 0; d < updates->rank; ++d) {
    if (trm_dims_contain(&scatter->update_window_dims, d)) {
      sizes[num_window] = updates->dims[d];
      window[num_window++] = index[d];
    } else {
      batch[num_batch++] = index[d];
    }
  }
  load_index_vector(indices, index_array, scatter->index_vector_dim,
                    &scatter->scatter_dims_to_operand_dims, &scatter->input_batching_dims,
                    &scatter->scatter_indices_batching_dims, batch, operand->rank, start);
  int64_t place = 0;
  for (int32_t d = 0, w = 0; d < operand->rank; ++d) {
    const bool inserted = trm_dims_contain(&scatter->inserted_window_dims, d) ||
                          trm_dims_contain(&scatter->input_batching_dims, d);
    const int64_t size = inserted ? 1 : sizes[w];
    const int64_t offset = inserted ? 0 : window[w++];
    if (start[d] < 0 || start[d] > operand->dims[d] - size) return -1;
    place += strides[d] * (start[d] + offset);
  }
  return place;
}

/* Operands: N arrays, the indices, N updates. to_apply takes N old and N new values. */
static trm_status run_scatter(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_evaluator *evaluator = state->evaluators[0];
  trm_value *slots = (trm_value *)call->scratch;
  const uint32_t n = (state->num_operands - 1) / 2;
  const trm_shape *operand = &state->operands[0], *indices = &state->operands[n];
  const trm_shape *updates = &state->operands[n + 1];
  for (uint32_t k = 0; k < n; ++k) {
    const size_t bytes = trm_shape_bytes(&state->operands[k]);
    if (bytes > 0 && call->results[k] != call->operands[k]) {
      memcpy(call->results[k], call->operands[k], bytes);
    }
  }
  int64_t strides[TRM_MAX_RANK];
  trm_shape_strides(operand, strides);
  trm_evaluator_prepare(evaluator, slots);
  trm_odometer at;
  trm_odometer_init(&at, updates->rank, updates->dims);
  const int64_t count = trm_shape_count(updates);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    const int64_t place =
        scatter_place(state, call->operands[n], operand, indices, updates, strides, at.index);
    if (place < 0) continue;
    for (uint32_t k = 0; k < n; ++k) {
      slots[k] = trm_value_load(state->operands[k].dtype, call->results[k], place);
      slots[n + k] = trm_value_load(state->operands[n + 1 + k].dtype, call->operands[n + 1 + k], i);
    }
    trm_evaluator_run(evaluator, slots);
    for (uint32_t k = 0; k < n; ++k) {
      trm_value_store(state->operands[k].dtype, call->results[k], place,
                      slots[evaluator->results[k]]);
    }
  }
  return TRM_OK;
}

trm_status trm_reference_indexed_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                        bool *out_supported, trm_error *error) {
  *out_supported = true;
  switch (request->instruction->opcode) {
    case TRM_OP_DYNAMIC_SLICE:
      return trm_reference_kernel_create(request, "reference.dynamic-slice", run_dynamic_slice, 0,
                                         out_kernel, error);
    case TRM_OP_DYNAMIC_UPDATE_SLICE:
      TRY(trm_reference_kernel_create(request, "reference.dynamic-update-slice",
                                      run_dynamic_update_slice, 0, out_kernel, error));
      out_kernel->in_place_operands = 1;
      return TRM_OK;
    case TRM_OP_GATHER:
      return trm_reference_kernel_create(request, "reference.gather", run_gather, 0, out_kernel,
                                         error);
    case TRM_OP_SCATTER: {
      TRY(trm_reference_kernel_create(request, "reference.scatter", run_scatter, 1, out_kernel,
                                      error));
      const trm_evaluator *evaluator = trm_reference_state_of(out_kernel)->evaluators[0];
      if (evaluator->num_parameters != request->instruction->num_operands - 1) {
        return trm_reference_refuse(request, "its computation has too many parameters or too few",
                                    error);
      }
      return TRM_OK; /* not in place, because the updates may be the operand itself */
    }
    default: return trm_reference_refuse(request, "it is not an indexed data movement", error);
  }
}

/* Owns: reference kernels of the opcodes that move elements to known places: broadcast, reshape,
 * transpose, slice, concatenate, pad, reverse, iota and the like. */
#include "host/ops/reference.h"

/* Element i of the result is element place(state, index of i) of operand 0. */
typedef int64_t (*place_fn)(const trm_reference_state *state, const int64_t *index,
                            const int64_t *strides);

static int64_t place_broadcast(const trm_reference_state *state, const int64_t *index,
                               const int64_t *strides) {
  int64_t place = 0;
  const trm_shape *operand = &state->operands[0];
  for (int32_t d = 0; d < operand->rank; ++d) {
    /* A dimension of size one is repeated. */
    if (operand->dims[d] == 1) continue;
    place += strides[d] * index[state->instruction.dimensions.items[d]];
  }
  return place;
}

static int64_t place_transpose(const trm_reference_state *state, const int64_t *index,
                               const int64_t *strides) {
  int64_t place = 0;
  for (int32_t d = 0; d < state->shape.rank; ++d) {
    place += strides[state->instruction.dimensions.items[d]] * index[d];
  }
  return place;
}

static int64_t place_slice(const trm_reference_state *state, const int64_t *index,
                           const int64_t *strides) {
  int64_t place = 0;
  for (int32_t d = 0; d < state->shape.rank; ++d) {
    const trm_slice_dimension *slice = &state->instruction.slice[d];
    place += strides[d] * (slice->start + index[d] * slice->stride);
  }
  return place;
}

static int64_t place_reverse(const trm_reference_state *state, const int64_t *index,
                             const int64_t *strides) {
  int64_t place = 0;
  for (int32_t d = 0; d < state->shape.rank; ++d) {
    const bool reversed = trm_dims_contain(&state->instruction.dimensions, d);
    place += strides[d] * (reversed ? state->shape.dims[d] - 1 - index[d] : index[d]);
  }
  return place;
}

static trm_status run_place(const trm_kernel *kernel, const trm_kernel_call *call,
                            trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  place_fn place;
  switch (state->instruction.opcode) {
    case TRM_OP_BROADCAST: place = place_broadcast; break;
    case TRM_OP_TRANSPOSE: place = place_transpose; break;
    case TRM_OP_SLICE: place = place_slice; break;
    default: place = place_reverse; break;
  }
  const size_t size = trm_dtype_size(state->shape.dtype);
  int64_t strides[TRM_MAX_RANK];
  trm_shape_strides(&state->operands[0], strides);
  trm_odometer at;
  trm_odometer_init(&at, state->shape.rank, state->shape.dims);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    trm_copy_element(size, call->results[0], i, call->operands[0], place(state, at.index, strides));
  }
  return TRM_OK;
}

/* Reshape, copy, bitcast, bitcast-convert (row-major and little-endian: also between widths). */
static trm_status run_same_bytes(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const int32_t leaves = trm_shape_num_leaves(&state->shape);
  for (int32_t i = 0; i < leaves; ++i) {
    const size_t bytes = trm_shape_bytes(trm_shape_leaf(&state->shape, i));
    if (bytes > 0 && call->results[i] != call->operands[i]) {
      memcpy(call->results[i], call->operands[i], bytes);
    }
  }
  return TRM_OK;
}

/* bitcast-convert with elements of less than a byte on one side: they fill the other side's
 * elements from the lowest bits up. */
static trm_status run_repack(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *from = &state->operands[0], *to = &state->shape;
  const bool splits = trm_dtype_bits(from->dtype) > trm_dtype_bits(to->dtype);
  const trm_shape *narrow = splits ? to : from, *wide = splits ? from : to;
  const int bits = trm_dtype_bits(narrow->dtype), parts = trm_dtype_bits(wide->dtype) / bits;
  const size_t size = trm_dtype_size(wide->dtype);
  const int64_t count = trm_shape_count(wide);
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = (size_t)i * size;
    if (!splits) memset((char *)call->results[0] + at, 0, size);
    for (int part = 0; part < parts; ++part) {
      const size_t byte = at + (size_t)(part * bits / 8), place = (size_t)(i * parts + part);
      const int shift = part * bits % 8, mask = (1 << bits) - 1;
      if (splits) {
        ((uint8_t *)call->results[0])[place] =
            (uint8_t)(((const uint8_t *)call->operands[0])[byte] >> shift & mask);
      } else {
        ((uint8_t *)call->results[0])[byte] |=
            (uint8_t)((((const uint8_t *)call->operands[0])[place] & mask) << shift);
      }
    }
  }
  return TRM_OK;
}

static trm_status run_concatenate(const trm_kernel *kernel, const trm_kernel_call *call,
                                  trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const int64_t dimension = state->instruction.dimensions.items[0];
  const size_t size = trm_dtype_size(state->shape.dtype);
  int64_t strides[TRM_MAX_RANK];
  trm_shape_strides(&state->shape, strides);
  int64_t offset = 0;
  for (uint32_t k = 0; k < state->num_operands; ++k) {
    const trm_shape *operand = &state->operands[k];
    trm_odometer at;
    trm_odometer_init(&at, operand->rank, operand->dims);
    const int64_t count = trm_shape_count(operand);
    for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
      const int64_t place = trm_linear_index(operand->rank, strides, at.index);
      trm_copy_element(size, call->results[0], place + offset * strides[dimension],
                       call->operands[k], i);
    }
    offset += operand->dims[dimension];
  }
  return TRM_OK;
}

static trm_status run_pad(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *operand = &state->operands[0];
  const size_t size = trm_dtype_size(state->shape.dtype);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i) {
    trm_copy_element(size, call->results[0], i, call->operands[1], 0);
  }
  int64_t strides[TRM_MAX_RANK];
  trm_shape_strides(&state->shape, strides);
  trm_odometer at;
  trm_odometer_init(&at, operand->rank, operand->dims);
  const int64_t operand_count = trm_shape_count(operand);
  for (int64_t i = 0; i < operand_count; ++i, trm_odometer_next(&at)) {
    int64_t place = 0;
    bool inside = true; /* negative padding removes elements */
    for (int32_t d = 0; d < operand->rank; ++d) {
      const trm_padding_dimension *padding = &state->instruction.padding[d];
      const int64_t position = padding->low + at.index[d] * (padding->interior + 1);
      if (position < 0 || position >= state->shape.dims[d]) inside = false;
      place += strides[d] * position;
    }
    if (inside) trm_copy_element(size, call->results[0], place, call->operands[0], i);
  }
  return TRM_OK;
}

static trm_status run_iota(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  trm_odometer at;
  trm_odometer_init(&at, state->shape.rank, state->shape.dims);
  const int64_t count = trm_shape_count(&state->shape);
  const trm_dims *dimensions = &state->instruction.dimensions;
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    trm_value value = {{0}, 0.0};
    if (dimensions->count > 0) value.s = at.index[dimensions->items[0]];
    trm_value_store(state->shape.dtype, call->results[0], i,
                    trm_value_convert(TRM_S64, state->shape.dtype, false, value));
  }
  return TRM_OK;
}

static trm_status run_get_dimension_size(const trm_kernel *kernel, const trm_kernel_call *call,
                                         trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_value size = {{.s = state->operands[0].dims[state->instruction.number]}, 0.0};
  trm_value_store(state->shape.dtype, call->results[0], 0, size);
  return TRM_OK;
}

/* All shapes are static here, so the size can only be the one that the dimension has. */
static trm_status run_set_dimension_size(const trm_kernel *kernel, const trm_kernel_call *call,
                                         trm_error *error) {
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const int64_t dimension = state->instruction.number;
  const int64_t size = trm_value_load(state->operands[1].dtype, call->operands[1], 0).s;
  if (size != state->operands[0].dims[dimension]) {
    FAIL(UNIMPLEMENTED,
         "%%%s sets the size of dimension %lld to %lld, but the shape is static and says %lld; "
         "dynamic shapes are not supported",
         state->instruction.name, (long long)dimension, (long long)size,
         (long long)state->operands[0].dims[dimension]);
  }
  const size_t bytes = trm_shape_bytes(&state->shape);
  if (bytes > 0 && call->results[0] != call->operands[0]) {
    memcpy(call->results[0], call->operands[0], bytes);
  }
  return TRM_OK;
}

/* partition-id: programs are not partitioned. */
static trm_status run_zero(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  memset(call->results[0], 0, trm_shape_bytes(&trm_reference_state_of(kernel)->shape));
  return TRM_OK;
}

trm_status trm_reference_data_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                     bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const char *name;
  trm_kernel_run_fn run;
  bool in_place = false;
  switch (instruction->opcode) {
    case TRM_OP_BROADCAST: name = "reference.broadcast", run = run_place; break;
    case TRM_OP_TRANSPOSE: name = "reference.transpose", run = run_place; break;
    case TRM_OP_SLICE: name = "reference.slice", run = run_place; break;
    case TRM_OP_REVERSE: name = "reference.reverse", run = run_place; break;
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST:
    case TRM_OP_COPY:
    case TRM_OP_BITCAST_CONVERT:
      name = "reference.copy", run = run_same_bytes, in_place = true;
      if (instruction->opcode == TRM_OP_BITCAST_CONVERT &&
          trm_dtype_bits(instruction->shape.dtype) !=
              trm_dtype_bits(trm_operand_shape(request, 0)->dtype) &&
          (trm_dtype_bits(instruction->shape.dtype) < 8 ||
           trm_dtype_bits(trm_operand_shape(request, 0)->dtype) < 8)) {
        name = "reference.repack", run = run_repack, in_place = false;
        break;
      }
      if (trm_shape_bytes(&instruction->shape) != trm_shape_bytes(trm_operand_shape(request, 0))) {
        return trm_reference_refuse(request, "the result and the operand differ in bytes", error);
      }
      break;
    case TRM_OP_CONCATENATE: name = "reference.concatenate", run = run_concatenate; break;
    case TRM_OP_PAD: name = "reference.pad", run = run_pad; break;
    case TRM_OP_IOTA: name = "reference.iota", run = run_iota; break;
    case TRM_OP_GET_DIMENSION_SIZE:
      name = "reference.get-dimension-size", run = run_get_dimension_size;
      break;
    case TRM_OP_SET_DIMENSION_SIZE:
      name = "reference.set-dimension-size", run = run_set_dimension_size, in_place = true;
      break;
    case TRM_OP_PARTITION_ID: name = "reference.partition-id", run = run_zero; break;
    default: return trm_reference_refuse(request, "it is not a data movement", error);
  }
  *out_supported = true;
  TRY(trm_reference_kernel_create(request, name, run, 0, out_kernel, error));
  if (in_place) out_kernel->in_place_operands = 1;
  return TRM_OK;
}

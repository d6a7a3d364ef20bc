/* Owns: collectives that only move elements. Every replica writes its own results. */
#include "host/ops/collective/collective.h"

static void copy(void *to, size_t to_offset, const void *from, size_t from_offset, size_t bytes) {
  if (bytes > 0) memcpy((char *)to + to_offset, (const char *)from + from_offset, bytes);
}

/* The result is the operands of the group, one after the other along the dimension. */
void trm_collective_gather(const trm_collective_state *state, const trm_members *group,
                           const trm_kernel_call *const *calls, const trm_kernel_call *mine,
                           uint32_t leaf) {
  const trm_shape *operand = &state->base.operands[leaf];
  const size_t size = trm_dtype_size(operand->dtype);
  int64_t rows = 1;
  for (int32_t d = 0; d < state->dimension; ++d) rows *= operand->dims[d];
  const size_t row = rows > 0 ? (size_t)(trm_shape_count(operand) / rows) * size : 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (uint32_t k = 0; k < group->count; ++k) {
      copy(mine->results[leaf], ((size_t)r * group->count + k) * row,
           calls[trm_member(group, k)]->operands[leaf], (size_t)r * row, row);
    }
  }
}

/* Piece `position` of every member's operand, one after the other along `concat`. */
void trm_collective_exchange_blocks(const trm_collective_state *state, const trm_members *group,
                                    const trm_kernel_call *const *calls,
                                    const trm_kernel_call *mine) {
  if (state->split < 0) {
    const size_t bytes = trm_shape_bytes(&state->base.operands[0]);
    for (uint32_t k = 0; k < group->count; ++k) {
      copy(mine->results[k], 0, calls[trm_member(group, k)]->operands[group->position], 0, bytes);
    }
    return;
  }
  const trm_shape *operand = &state->base.operands[0];
  const size_t size = trm_dtype_size(operand->dtype);
  const int32_t rank = operand->rank;
  int64_t piece[TRM_MAX_RANK], result[TRM_MAX_RANK], from[TRM_MAX_RANK], to[TRM_MAX_RANK];
  for (int32_t d = 0; d < rank; ++d) result[d] = piece[d] = operand->dims[d];
  piece[state->split] /= group->count;
  result[state->split] = piece[state->split];
  result[state->concat] = piece[state->concat] * group->count;
  trm_shape_strides(operand, from);
  const trm_shape whole = {.dtype = operand->dtype, .rank = rank, .dims = result};
  trm_shape_strides(&whole, to);
  const int64_t row = piece[rank - 1];
  const int64_t rows = trm_dims_count(rank - 1, piece);
  for (uint32_t k = 0; k < group->count; ++k) {
    const void *operand_k = calls[trm_member(group, k)]->operands[0];
    const int64_t source = from[state->split] * piece[state->split] * group->position;
    const int64_t target = to[state->concat] * piece[state->concat] * k;
    trm_odometer at;
    trm_odometer_init(&at, rank - 1, piece);
    for (int64_t r = 0; r < rows; ++r, trm_odometer_next(&at)) {
      copy(mine->results[0], (size_t)(target + trm_linear_index(rank - 1, to, at.index)) * size,
           operand_k, (size_t)(source + trm_linear_index(rank - 1, from, at.index)) * size,
           (size_t)row * size);
    }
  }
}

static int64_t integer_at(const trm_shape *shape, const void *elements, int64_t i) {
  const trm_value value = trm_value_load(shape->dtype, elements, i);
  if (trm_dtype_kind(shape->dtype) == TRM_KIND_SIGNED) return value.s;
  return value.u > INT64_MAX ? INT64_MAX : (int64_t)value.u;
}

/* A slice as rows of its sender and of its receiver. */
typedef struct row_slice {
  int64_t from, to, count;
} row_slice;

static row_slice find_slice(const trm_collective_state *state, const trm_kernel_call *sender,
                            int64_t slice) {
  const trm_shape *shapes = state->base.operands;
  row_slice p = {integer_at(&shapes[2], sender->operands[2], slice),
                 integer_at(&shapes[4], sender->operands[4], slice),
                 integer_at(&shapes[3], sender->operands[3], slice)};
  const int64_t rows = shapes[0].dims[0], room = shapes[1].dims[0];
  if (p.from < 0 || p.from > rows || p.to < 0 || p.to > room || p.count < 0) {
    return (row_slice){0, 0, 0};
  }
  if (p.count > rows - p.from) p.count = rows - p.from;
  if (p.count > room - p.to) p.count = room - p.to;
  return p;
}

void trm_collective_exchange_rows(const trm_collective_state *state, const trm_members *group,
                                  const trm_kernel_call *const *calls,
                                  const trm_kernel_call *mine) {
  const trm_shape *shapes = state->base.operands;
  const size_t row =
      shapes[1].dims[0] == 0 ? 0 : trm_shape_bytes(&shapes[1]) / (size_t)shapes[1].dims[0];
  const int64_t each = trm_shape_count(&shapes[2]) / group->count;
  copy(mine->results[0], 0, mine->operands[1], 0, trm_shape_bytes(&shapes[1]));
  for (uint32_t k = 0; k < group->count; ++k) {
    const trm_kernel_call *sender = calls[trm_member(group, k)];
    for (int64_t i = 0; i < each; ++i) {
      const row_slice p = find_slice(state, sender, group->position * each + i);
      copy(mine->results[0], (size_t)p.to * row, sender->operands[0], (size_t)p.from * row,
           (size_t)p.count * row);
    }
  }
}

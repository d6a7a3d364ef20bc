/* Index vectors become places (fast_positions.h): the batch positions by counting, then one
 * component of all index vectors after the other, in a loop for its type. */
#include "ops/data/fast_positions.h"

bool trm_positions_is_integer(trm_dtype dtype) {
  return (dtype >= TRM_S8 && dtype <= TRM_S64) || (dtype >= TRM_U8 && dtype <= TRM_U64);
}

int64_t trm_positions_load(trm_dtype dtype, const void *array, int64_t i) {
  switch (dtype) {
    case TRM_S8: return ((const int8_t *)array)[i];
    case TRM_S16: return ((const int16_t *)array)[i];
    case TRM_S32: return ((const int32_t *)array)[i];
    case TRM_S64: return ((const int64_t *)array)[i];
    case TRM_U8: return ((const uint8_t *)array)[i];
    case TRM_U16: return ((const uint16_t *)array)[i];
    case TRM_U32: return ((const uint32_t *)array)[i];
    default: {
      const uint64_t value = ((const uint64_t *)array)[i];
      return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
  }
}

/* Where each position's index vector is, and its part of the places. */
static void walk(const trm_positions *p, int64_t first, int64_t count, int64_t *at,
                 int64_t *operand, int64_t *other) {
  int64_t index[TRM_MAX_RANK], a = 0, o = 0, r = 0;
  const int32_t last = p->batch_rank - 1;
  for (int32_t b = last; b >= 0; --b) {
    index[b] = first % p->batch_dims[b];
    first /= p->batch_dims[b];
    a += index[b] * p->batch_index_strides[b];
    o += index[b] * p->batch_operand_strides[b];
    r += index[b] * p->batch_other_strides[b];
  }
  if (last < 0) { /* one position */
    at[0] = operand[0] = other[0] = 0;
    return;
  }
  for (int64_t i = 0; i < count;) {
    const int64_t left = p->batch_dims[last] - index[last];
    const int64_t run = left < count - i ? left : count - i;
    for (int64_t j = 0; j < run; ++j) {
      at[i + j] = a + j * p->batch_index_strides[last];
      operand[i + j] = o + j * p->batch_operand_strides[last];
      other[i + j] = r + j * p->batch_other_strides[last];
    }
    i += run;
    index[last] += run;
    a += run * p->batch_index_strides[last];
    o += run * p->batch_operand_strides[last];
    r += run * p->batch_other_strides[last];
    for (int32_t b = last; b > 0 && index[b] == p->batch_dims[b]; --b) {
      a += p->batch_index_strides[b - 1] - index[b] * p->batch_index_strides[b];
      o += p->batch_operand_strides[b - 1] - index[b] * p->batch_operand_strides[b];
      r += p->batch_other_strides[b - 1] - index[b] * p->batch_other_strides[b];
      index[b] = 0;
      ++index[b - 1];
    }
  }
}

/* Adds one component of the index vectors. */
#define ADD_STARTS(load)                                             \
  for (int64_t i = 0; i < count; ++i) {                              \
    const int64_t start = (load), positive = start < 0 ? 0 : start;  \
    const int64_t clamped = positive > highest ? highest : positive; \
    if (marks) outside[i] |= clamped != start;                       \
    operand[i] += clamped * stride;                                  \
  }

static inline __attribute__((always_inline)) void add_component(const trm_positions *p, int32_t c,
                                                                const void *indices, int64_t count,
                                                                const int64_t *at, bool marks,
                                                                bool *outside, int64_t *operand) {
  const int64_t highest = p->indexed_highest[c], stride = p->indexed_strides[c];
  const int64_t component = c * p->vector_stride;
  if (p->index_dtype == TRM_S32) {
    const int32_t *const all = (const int32_t *)indices + component;
    ADD_STARTS(all[at[i]])
  } else if (p->index_dtype == TRM_S64) {
    const int64_t *const all = (const int64_t *)indices + component;
    ADD_STARTS(all[at[i]])
  } else {
    ADD_STARTS(trm_positions_load(p->index_dtype, indices, at[i] + component))
  }
}

void trm_positions_find(const trm_positions *p, const void *indices, int64_t first, int64_t count,
                        bool clamps, int64_t *operand, int64_t *out_other) {
  int64_t at[TRM_POSITIONS_AT_ONCE];
  walk(p, first, count, at, operand, out_other);
  if (clamps) {
    for (int32_t c = 0; c < p->num_indexed; ++c) {
      add_component(p, c, indices, count, at, false, NULL, operand);
    }
    return;
  }
  bool outside[TRM_POSITIONS_AT_ONCE] = {false};
  for (int32_t c = 0; c < p->num_indexed; ++c) {
    add_component(p, c, indices, count, at, true, outside, operand);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (outside[i]) operand[i] = -1;
  }
}

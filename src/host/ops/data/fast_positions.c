/* Owns: turning index vectors into places (fast_positions.h). Batch positions are counted; then a
 * loop for the type adds one component of all index vectors after the other. */
#include "host/ops/data/fast_positions.h"

#include "host/ops/elementwise/vector.h"

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

/* A batch position: its index in each dimension, the place of its index vector, and its part of the
 * places. */
typedef struct cursor {
  int64_t index[TRM_MAX_RANK], at, operand, other;
} cursor;

static cursor start_at(const trm_positions *p, int64_t position) {
  cursor c = {.at = 0};
  for (int32_t b = p->batch_rank - 1; b >= 0; --b) {
    c.index[b] = position % p->batch_dims[b];
    position /= p->batch_dims[b];
    c.at += c.index[b] * p->batch_index_strides[b];
    c.operand += c.index[b] * p->batch_operand_strides[b];
    c.other += c.index[b] * p->batch_other_strides[b];
  }
  return c;
}

/* How many of the next `count` positions lie in one row of the innermost dimension. */
static int64_t row_length(const trm_positions *p, const cursor *c, int64_t count) {
  const int64_t remaining = p->batch_dims[p->batch_rank - 1] - c->index[p->batch_rank - 1];
  return remaining < count ? remaining : count;
}

/* Advances by `count` positions of one row. */
static void move_on(const trm_positions *p, cursor *c, int64_t count) {
  const int32_t last = p->batch_rank - 1;
  c->index[last] += count;
  c->at += count * p->batch_index_strides[last];
  c->operand += count * p->batch_operand_strides[last];
  c->other += count * p->batch_other_strides[last];
  for (int32_t b = last; b > 0 && c->index[b] == p->batch_dims[b]; --b) {
    c->at += p->batch_index_strides[b - 1] - c->index[b] * p->batch_index_strides[b];
    c->operand += p->batch_operand_strides[b - 1] - c->index[b] * p->batch_operand_strides[b];
    c->other += p->batch_other_strides[b - 1] - c->index[b] * p->batch_other_strides[b];
    c->index[b] = 0;
    ++c->index[b - 1];
  }
}

static void walk(const trm_positions *p, int64_t first, int64_t count, int64_t *at,
                 int64_t *operand, int64_t *other) {
  cursor c = start_at(p, first);
  for (int64_t i = 0, run; i < count; i += run) {
    run = row_length(p, &c, count - i);
    const int32_t last = p->batch_rank - 1;
    for (int64_t j = 0; j < run; ++j) {
      at[i + j] = c.at + j * p->batch_index_strides[last];
      operand[i + j] = c.operand + j * p->batch_operand_strides[last];
      other[i + j] = c.other + j * p->batch_other_strides[last];
    }
    move_on(p, &c, run);
  }
}

/* Gathers elements of type E of one row, where index vectors are scalars. */
#define GATHER_ROW(E)                                                             \
  for (int64_t j = 0; j < run; ++j) {                                             \
    ((E *)result)[c.other + j * to] =                                             \
        ((const E *)operand)[c.operand + (int64_t)places[j] * stride + j * from]; \
  }                                                                               \
  break

/* Starts of 32 bits that are moved into [0, highest]: apart from the loads, so that more of these
 * are under way at a time. */
typedef struct limits {
  trm_vector_fn above, below; /* NULL: all starts are at least 0 */
  uint32_t zeros[TRM_POSITIONS_AT_ONCE], highest[TRM_POSITIONS_AT_ONCE];
} limits;

/* For up to `count` starts at a time. */
static void prepare_limits(const trm_positions *p, int64_t count, limits *out) {
  const trm_vector_ops *ops = trm_vector_ops_get();
  const bool is_signed = p->index_dtype == TRM_S32;
  const int64_t most = is_signed ? INT32_MAX : UINT32_MAX, highest = p->indexed_highest[0];
  out->above = ops->op[TRM_OP_MINIMUM][is_signed ? TRM_V_S32 : TRM_V_U32];
  out->below = is_signed ? ops->op[TRM_OP_MAXIMUM][TRM_V_S32] : NULL;
  for (int i = 0; i < TRM_POSITIONS_AT_ONCE && i < count; ++i) {
    out->zeros[i] = 0;
    out->highest[i] = (uint32_t)(highest < most ? highest : most);
  }
}

static void find_places(const limits *c, const uint32_t *starts, int64_t step, int64_t n,
                        uint32_t *places) {
  if (step != 1) {
    for (int64_t j = 0; j < n; ++j) places[j] = starts[j * step];
    starts = places;
  }
  if (c->below != NULL) {
    c->below(places, starts, c->zeros, c->zeros, (size_t)n);
    starts = places;
  }
  c->above(places, starts, c->highest, c->highest, (size_t)n);
}

bool trm_positions_gather(const trm_positions *p, uint8_t log2_size, const void *operand,
                          const void *indices, void *result, int64_t begin, int64_t end) {
  if (p->num_indexed != 1 || (p->index_dtype != TRM_S32 && p->index_dtype != TRM_U32) ||
      log2_size > 3) {
    return false;
  }
  const int32_t last = p->batch_rank - 1;
  const int64_t stride = p->indexed_strides[0];
  const int64_t step = p->batch_index_strides[last], to = p->batch_other_strides[last];
  const int64_t from = p->batch_operand_strides[last];
  uint32_t places[TRM_POSITIONS_AT_ONCE];
  limits inside;
  prepare_limits(p, end - begin, &inside);
  cursor c = start_at(p, begin);
  for (int64_t i = begin, run; i < end; i += run) {
    run = row_length(p, &c, end - i < TRM_POSITIONS_AT_ONCE ? end - i : TRM_POSITIONS_AT_ONCE);
    find_places(&inside, (const uint32_t *)indices + c.at, step, run, places);
    switch (log2_size) {
      case 0: GATHER_ROW(uint8_t);
      case 1: GATHER_ROW(uint16_t);
      case 2: GATHER_ROW(uint32_t);
      default: GATHER_ROW(uint64_t);
    }
    move_on(p, &c, run);
  }
  return true;
}

void trm_positions_collapse(trm_positions *p) {
  int32_t rank = 0;
  for (int32_t b = 0; b < p->batch_rank; ++b) {
    const int64_t size = p->batch_dims[b];
    const bool joins = rank > 0 &&
                       p->batch_index_strides[rank - 1] == p->batch_index_strides[b] * size &&
                       p->batch_other_strides[rank - 1] == p->batch_other_strides[b] * size &&
                       p->batch_operand_strides[rank - 1] == p->batch_operand_strides[b] * size;
    if (joins) --rank;
    p->batch_dims[rank] = joins ? p->batch_dims[rank] * size : size;
    p->batch_index_strides[rank] = p->batch_index_strides[b];
    p->batch_other_strides[rank] = p->batch_other_strides[b];
    p->batch_operand_strides[rank++] = p->batch_operand_strides[b];
  }
  if (rank == 0) p->batch_dims[rank++] = 1; /* one position, with strides 0 */
  p->batch_rank = rank;
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

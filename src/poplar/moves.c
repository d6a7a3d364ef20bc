/* Owns: planning and making moves of elements: copies, edges that are not contiguous, operands of
 * library steps. */
#include <string.h>

#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"
#include "poplar/plan.h"

/* ---- Planning ------------------------------------------------------------------------------- */

trm_status trm_poplar_plan_move(trm_poplar_plan *plan, const trm_poplar_run *from,
                                uint64_t num_from, const trm_poplar_run *to, uint64_t num_to,
                                size_t size, trm_poplar_error *error) {
  trm_poplar_move move = {.first = plan->segments.count, .size = (uint32_t)size};
  uint64_t f = 0, t = 0, in_from = 0, in_to = 0;
  while (f < num_from && t < num_to) {
    const trm_poplar_run *a = &from[f], *b = &to[t];
    const uint64_t left = a->length - in_from, room = b->length - in_to;
    const uint64_t taken = left < room ? left : room;
    const int64_t bytes = (int64_t)size;
    const trm_poplar_segment segment = {
        .from = a->variable,
        .to = b->variable,
        .from_offset = (a->offset + (int64_t)in_from * a->stride) * bytes,
        .to_offset = (b->offset + (int64_t)in_to * b->stride) * bytes,
        .from_step = a->stride * bytes,
        .to_step = b->stride * bytes,
        .length = taken};
    if (!VECTOR_PUSH(&plan->segments, segment)) THROW_NO_MEMORY("a copy");
    move.elements += taken;
    in_from = taken == left ? 0 : in_from + taken;
    in_to = taken == room ? 0 : in_to + taken;
    f += taken == left;
    t += taken == room;
  }
  const size_t count = plan->segments.count - move.first;
  if (count > UINT32_MAX || plan->moves.count >= UINT32_MAX) THROW_NO_MEMORY("a copy");
  move.count = (uint32_t)count;
  if (!VECTOR_PUSH(&plan->moves, move)) THROW_NO_MEMORY("a copy");
  return TRM_OK;
}

int64_t trm_poplar_plan_buffer(trm_poplar_plan *plan, uint64_t bytes) {
  const size_t offset = plan->buffer_bytes;
  plan->buffer_bytes += ((size_t)bytes + 63) & ~(size_t)63;
  return (int64_t)offset;
}

/* ---- Moving --------------------------------------------------------------------------------- */

/* count elements of `size` bytes, steps apart. */
#define COPY_LOOP(type)                                          \
  for (uint64_t i = 0; i < count; ++i) {                         \
    type value;                                                  \
    memcpy(&value, from + (int64_t)i * from_step, sizeof value); \
    memcpy(to + (int64_t)i * to_step, &value, sizeof value);     \
  }

static void copy_strided(char *to, int64_t to_step, const char *from, int64_t from_step,
                         uint64_t count, size_t size) {
  switch (size) {
    case 1: COPY_LOOP(uint8_t) return;
    case 2: COPY_LOOP(uint16_t) return;
    case 4: COPY_LOOP(uint32_t) return;
    default: COPY_LOOP(uint64_t)
  }
}

static void copy_segment(char *const *bases, const trm_poplar_segment *s, uint64_t begin,
                         uint64_t end, size_t size) {
  char *to = bases[s->to] + s->to_offset + (int64_t)begin * s->to_step;
  const char *from = bases[s->from] + s->from_offset + (int64_t)begin * s->from_step;
  const int64_t bytes = (int64_t)size;
  if (s->from_step == bytes && s->to_step == bytes) memcpy(to, from, (end - begin) * size);
  else copy_strided(to, s->to_step, from, s->from_step, end - begin, size);
}

/* How many segments from the first on are a matrix that is transposed: those are adjacent on the
 * side on which the elements of one are not. */
static uint32_t matrix_of(const trm_poplar_segment *first, uint32_t count, size_t size) {
  const int64_t bytes = (int64_t)size;
  if (count < 2) return 1;
  const int64_t from = first[1].from_offset - first->from_offset;
  const int64_t to = first[1].to_offset - first->to_offset;
  const bool is_transposed =
      (from == bytes && first->to_step == bytes) || (to == bytes && first->from_step == bytes);
  uint32_t found = 1;
  while (is_transposed && found < count) {
    const trm_poplar_segment *a = &first[found - 1], *b = &first[found];
    if (a->from != b->from || a->to != b->to || a->from_step != b->from_step ||
        a->to_step != b->to_step || a->length != b->length ||
        b->from_offset - a->from_offset != from || b->to_offset - a->to_offset != to) {
      break;
    }
    ++found;
  }
  return found;
}

/* A cache line's width of columns at a time, as the engine's own transposes (fast_move.c). */
static void copy_matrix(char *const *bases, const trm_poplar_segment *first, uint32_t count,
                        size_t size) {
  enum { LINE_BYTES = 64, ROWS = 64 };
  const int64_t bytes = (int64_t)size, width = LINE_BYTES / bytes;
  const bool reads = first[1].from_offset - first->from_offset == bytes;
  const int64_t rows = reads ? (int64_t)first->length : count;
  const int64_t columns = reads ? count : (int64_t)first->length;
  const int64_t in_step = reads ? first->from_step : first[1].from_offset - first->from_offset;
  const int64_t out_step = reads ? first[1].to_offset - first->to_offset : first->to_step;
  const char *in = bases[first->from] + first->from_offset;
  char *out = bases[first->to] + first->to_offset;
  const trm_vector_ops *ops = trm_vector_ops_get();
  for (int64_t c = 0; c < columns; c += width) {
    const int64_t wide = columns - c < width ? columns - c : width;
    for (int64_t r = 0; r < rows; r += ROWS) {
      const int64_t high = rows - r < ROWS ? rows - r : ROWS;
      ops->transpose[__builtin_ctzll(size)](out + c * out_step + r * bytes, out_step / bytes,
                                            in + r * in_step + c * bytes, in_step / bytes,
                                            (size_t)high, (size_t)wide);
    }
  }
}

typedef struct work {
  char *const *bases;
  const trm_poplar_segment *segments;
  size_t size;
  bool is_one; /* the range is of the elements of one segment */
} work;

static void copy_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const work *w = context;
  if (w->is_one) {
    copy_segment(w->bases, w->segments, (uint64_t)begin, (uint64_t)end, w->size);
    return;
  }
  while (begin < end) {
    const trm_poplar_segment *first = &w->segments[begin];
    const uint32_t count = matrix_of(first, (uint32_t)(end - begin), w->size);
    if (count == 1) {
      copy_segment(w->bases, first, 0, first->length, w->size);
    } else {
      copy_matrix(w->bases, first, count, w->size);
    }
    begin += count;
  }
}

void trm_poplar_move_elements(const trm_poplar_plan *plan, char *const *bases, uint32_t number) {
  const trm_poplar_move *move = &plan->moves.items[number];
  if (move->count == 0) return;
  const work w = {bases, &plan->segments.items[move->first], move->size, move->count == 1};
  const int64_t count = w.is_one ? (int64_t)w.segments->length : (int64_t)move->count;
  const size_t bytes = 2 * (size_t)move->elements * move->size;
  if (bytes < (size_t)64 * 1024) copy_range(&w, 0, count, 0);
  else trm_parallel_ranges(trm_threads_for(bytes), count, copy_range, &w);
}

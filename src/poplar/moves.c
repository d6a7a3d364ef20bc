/* Owns: planning and making moves of elements: copies, edges that are not contiguous, operands of
 * library steps. */
#include <string.h>

#include "host/ops/threads.h"
#include "poplar/plan.h"

/* ---- Planning ------------------------------------------------------------------------------- */

trm_status trm_poplar_plan_move(trm_poplar_plan *plan, const trm_poplar_run *from,
                                uint64_t num_from, const trm_poplar_run *to, uint64_t num_to,
                                size_t size, uint32_t *out_move, trm_poplar_error *error) {
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
  *out_move = (uint32_t)plan->moves.count;
  if (!VECTOR_PUSH(&plan->moves, move)) THROW_NO_MEMORY("a copy");
  return TRM_OK;
}

int64_t trm_poplar_plan_buffer(trm_poplar_plan *plan, uint64_t bytes) {
  const size_t offset = plan->buffer_bytes;
  plan->buffer_bytes += ((size_t)bytes + 63) & ~(size_t)63;
  return (int64_t)offset;
}

/* ---- Moving --------------------------------------------------------------------------------- */

/* Segments that are read together, and how many of their elements. */
enum { GROUP = 16, DEPTH = 16 };

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

/* How many segments from the first on read columns side by side and write rows, or the reverse: as
 * of a transposed matrix. */
static uint32_t group_of(const trm_poplar_segment *first, uint32_t count, size_t size) {
  const int64_t bytes = (int64_t)size;
  if (first->from_step == bytes && first->to_step == bytes) return 1;
  const uint32_t most = count < GROUP ? count : GROUP;
  bool reads = true, writes = true;
  uint32_t found = 1;
  while (found < most) {
    const trm_poplar_segment *a = &first[found - 1], *b = &first[found];
    reads = reads && b->from_offset == a->from_offset + bytes;
    writes = writes && b->to_offset == a->to_offset + bytes;
    if (a->from != b->from || a->to != b->to || a->from_step != b->from_step ||
        a->to_step != b->to_step || a->length != b->length || !(reads || writes)) {
      break;
    }
    ++found;
  }
  return found;
}

/* Copies the segments of a group in squares of `type`, so that both sides use lines of memory as a
 * whole: a square is read along its adjacent places, and written along the segments. */
#define COPY_GROUP(name, type)                                                                  \
  static void name(const char *from, char *to, const trm_poplar_segment *first, uint32_t count, \
                   bool reads) {                                                                \
    type square[DEPTH][GROUP];                                                                  \
    for (uint64_t begin = 0; begin < first->length; begin += DEPTH) {                           \
      const uint64_t rest = first->length - begin, taken = rest < DEPTH ? rest : DEPTH;         \
      for (uint64_t i = 0; i < taken; ++i) {                                                    \
        const char *row = from + (int64_t)(begin + i) * first->from_step;                       \
        if (reads) memcpy(square[i], row + first->from_offset, count * sizeof(type));           \
        else                                                                                    \
          for (uint32_t g = 0; g < count; ++g) {                                                \
            memcpy(&square[i][g], row + first[g].from_offset, sizeof(type));                    \
          }                                                                                     \
      }                                                                                         \
      for (uint32_t g = 0; g < count; ++g) {                                                    \
        char *column = to + first[g].to_offset + (int64_t)begin * first->to_step;               \
        for (uint64_t i = 0; i < taken; ++i) {                                                  \
          memcpy(column + (int64_t)i * first->to_step, &square[i][g], sizeof(type));            \
        }                                                                                       \
      }                                                                                         \
    }                                                                                           \
  }
COPY_GROUP(copy_group_8, uint8_t)
COPY_GROUP(copy_group_16, uint16_t)
COPY_GROUP(copy_group_32, uint32_t)
COPY_GROUP(copy_group_64, uint64_t)

static void copy_group(char *const *bases, const trm_poplar_segment *first, uint32_t count,
                       size_t size) {
  const char *from = bases[first->from];
  char *to = bases[first->to];
  const bool reads = first[1].from_offset == first->from_offset + (int64_t)size;
  switch (size) {
    case 1: copy_group_8(from, to, first, count, reads); return;
    case 2: copy_group_16(from, to, first, count, reads); return;
    case 4: copy_group_32(from, to, first, count, reads); return;
    default: copy_group_64(from, to, first, count, reads);
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
    const uint32_t count = group_of(first, (uint32_t)(end - begin), w->size);
    if (count == 1) {
      copy_segment(w->bases, first, 0, first->length, w->size);
    } else {
      copy_group(w->bases, first, count, w->size);
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

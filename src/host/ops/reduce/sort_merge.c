/* Owns: sorting by a comparator, bottom up. The merges of a level are streams that advance in step:
 * each step compares the heads of all streams in one call of the compiled comparator. If a level
 * has few merges, they are cut into chunks, whose ends are searched in step too. A comparator that
 * is an order gives the same result for every cut. */
#include "host/ops/reduce/sort_merge.h"

#include <string.h>

enum { STREAMS = 256, BLOCK = 1 << 14 };

/* A merge of a[0..a_count) and b[0..b_count) to `to`. Entries are offsets of elements. */
typedef struct stream {
  const int64_t *a, *b;
  int64_t a_count, b_count;
  int64_t *to;
} stream;

typedef struct merger {
  const sort_merge *merge;
  const trm_kernel_call *call;
  int64_t *order, *other;
  char *columns; /* for each parameter STREAMS elements of up to 8 bytes */
  uint8_t *result;
  void *function;
  stream *streams;
  uint32_t count;
} merger;

static size_t align_up(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

size_t trm_sort_merge_bytes(const sort_merge *merge) {
  const size_t entries = (size_t)(merge->n * merge->block);
  return 2 * align_up(entries * sizeof(int64_t)) +
         align_up(2 * merge->num_operands * STREAMS * sizeof(uint64_t)) + align_up(STREAMS) +
         align_up(STREAMS * sizeof(stream)) + align_up(merge->less.scratch_bytes);
}

static merger make_merger(const sort_merge *merge, const trm_kernel_call *call, char *scratch) {
  const size_t entries = (size_t)(merge->n * merge->block);
  merger m = {.merge = merge, .call = call};
  m.order = (int64_t *)(void *)scratch;
  scratch += align_up(entries * sizeof(int64_t));
  m.other = (int64_t *)(void *)scratch;
  scratch += align_up(entries * sizeof(int64_t));
  m.columns = scratch;
  scratch += align_up(2 * merge->num_operands * STREAMS * sizeof(uint64_t));
  m.result = (uint8_t *)scratch;
  scratch += align_up(STREAMS);
  m.streams = (stream *)(void *)scratch;
  scratch += align_up(STREAMS * sizeof(stream));
  m.function = scratch;
  return m;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

/* Loads the element at `offset` into slot `s` of one side; side 0 may go before side 1. */
static inline void load_side(const merger *m, uint32_t side, uint32_t s, int64_t offset) {
  for (uint32_t k = 0; k < m->merge->num_operands; ++k) {
    char *column = m->columns + (2 * k + side) * STREAMS * sizeof(uint64_t);
    const char *operand = m->call->operands[k];
    switch (m->merge->log2[k]) {
      case 0: ((uint8_t *)column)[s] = ((const uint8_t *)operand)[offset]; break;
      case 1: memcpy(column + 2 * s, operand + 2 * offset, 2); break;
      case 2: memcpy(column + 4 * s, operand + 4 * offset, 4); break;
      default: memcpy(column + 8 * s, operand + 8 * offset, 8); break;
    }
  }
}

/* Copies the elements of one slot to another. */
static void move_slot(const merger *m, uint32_t to, uint32_t from) {
  for (uint32_t p = 0; p < 2 * m->merge->num_operands; ++p) {
    const size_t size = (size_t)1 << m->merge->log2[p / 2];
    char *column = m->columns + p * STREAMS * sizeof(uint64_t);
    memcpy(column + to * size, column + from * size, size);
  }
}

/* result[s] = slot s's side 0 goes before its side 1. */
static void compare_slots(const merger *m, uint32_t count) {
  const void *args[2 * REDUCE_MAX_OPERANDS];
  void *result = m->result;
  for (uint32_t p = 0; p < 2 * m->merge->num_operands; ++p) {
    args[p] = m->columns + p * STREAMS * sizeof(uint64_t);
  }
  trm_function_apply(&m->merge->less, args, &result, count, m->function);
}

/* ---- Merging -------------------------------------------------------------------------------- */

static void finish(const stream *s) {
  memcpy(s->to, s->a, (size_t)s->a_count * sizeof *s->to);
  memcpy(s->to + s->a_count, s->b, (size_t)s->b_count * sizeof *s->to);
}

/* Runs all streams to their ends. */
static void run_streams(merger *m) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < m->count; ++s) {
    const stream next = m->streams[s];
    if (next.a_count == 0 || next.b_count == 0) {
      finish(&next);
      continue;
    }
    load_side(m, 0, count, *next.b);
    load_side(m, 1, count, *next.a);
    m->streams[count++] = next;
  }
  while (count > 0) {
    compare_slots(m, count);
    for (uint32_t s = 0; s < count;) {
      stream *now = &m->streams[s];
      const bool take_b = m->result[s] != 0;
      if (take_b) {
        *now->to++ = *now->b++;
        if (--now->b_count > 0) load_side(m, 0, s, *now->b);
      } else {
        *now->to++ = *now->a++;
        if (--now->a_count > 0) load_side(m, 1, s, *now->a);
      }
      if (now->a_count > 0 && now->b_count > 0) {
        ++s;
        continue;
      }
      finish(now);
      if (--count > s) { /* the last slot moves here, with its comparison */
        *now = m->streams[count];
        m->result[s] = m->result[count];
        move_slot(m, s, count);
      }
    }
  }
  m->count = 0;
}

static void add_stream(merger *m, stream s) {
  m->streams[m->count++] = s;
  if (m->count == STREAMS) run_streams(m);
}

/* Cuts a merge at `chunks` - 1 places of its result; from_a[i] is the number of elements of a
 * before cut i. */
static void cut_merge(merger *m, const stream *whole, uint32_t chunks, int64_t *from_a) {
  const int64_t total = whole->a_count + whole->b_count;
  int64_t low[STREAMS], high[STREAMS];
  for (uint32_t p = 0; p <= chunks; ++p) from_a[p] = 0;
  for (uint32_t p = 1; p < chunks; ++p) {
    const int64_t d = total * p / chunks;
    low[p] = d > whole->b_count ? d - whole->b_count : 0;
    high[p] = d < whole->a_count ? d : whole->a_count;
  }
  for (;;) {
    uint32_t slot[STREAMS], count = 0;
    for (uint32_t p = 1; p < chunks; ++p) {
      if (low[p] >= high[p]) continue;
      const int64_t middle = low[p] + (high[p] - low[p]) / 2, d = total * p / chunks;
      load_side(m, 0, count, whole->b[d - middle - 1]);
      load_side(m, 1, count, whole->a[middle]);
      slot[count++] = p;
    }
    if (count == 0) break;
    compare_slots(m, count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t p = slot[i];
      const int64_t middle = low[p] + (high[p] - low[p]) / 2;
      if (m->result[i] != 0) high[p] = middle;
      else low[p] = middle + 1;
    }
  }
  from_a[chunks] = whole->a_count;
  for (uint32_t p = 1; p < chunks; ++p) {
    /* A comparator that is no order may cut backwards; both sides advance nevertheless. */
    const int64_t step = total * p / chunks - total * (p - 1) / chunks;
    int64_t i = low[p];
    if (i < from_a[p - 1]) i = from_a[p - 1];
    if (i > from_a[p - 1] + step) i = from_a[p - 1] + step;
    from_a[p] = i;
  }
}

static void merge_pair(merger *m, stream whole, uint32_t chunks) {
  if (chunks < 2 || whole.a_count == 0 || whole.b_count == 0) {
    add_stream(m, whole);
    return;
  }
  int64_t from_a[STREAMS + 1];
  run_streams(m); /* the cut uses the columns */
  cut_merge(m, &whole, chunks, from_a);
  const int64_t total = whole.a_count + whole.b_count;
  for (uint32_t p = 0; p < chunks; ++p) {
    const int64_t begin = total * p / chunks, end = total * (p + 1) / chunks;
    const int64_t a = from_a[p], a_count = from_a[p + 1] - a;
    add_stream(m, (stream){whole.a + a, whole.b + (begin - a), a_count, end - begin - a_count,
                           whole.to + begin});
  }
}

/* Sorts the entries of `lines` lines of n each. */
static void sort_block(merger *m, int64_t lines) {
  const int64_t n = m->merge->n;
  for (int64_t width = 1; width < n; width *= 2) {
    const int64_t merges = lines * ((n + 2 * width - 1) / (2 * width));
    /* The search for the end of a chunk of less than 64 elements costs too much. */
    int64_t chunks = merges >= STREAMS / 2 ? 1 : STREAMS / merges;
    if (chunks > width / 32) chunks = width / 32;
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t *from = m->order + line * n;
      for (int64_t low = 0; low < n; low += 2 * width) {
        const int64_t middle = low + width < n ? low + width : n;
        const int64_t high = low + 2 * width < n ? low + 2 * width : n;
        merge_pair(m,
                   (stream){from + low, from + middle, middle - low, high - middle,
                            m->other + line * n + low},
                   (uint32_t)chunks);
      }
    }
    run_streams(m);
    int64_t *const swap = m->order;
    m->order = m->other;
    m->other = swap;
  }
}

#define PLACE(T) \
  for (int64_t i = 0; i < n; ++i) ((T *)result)[base + i * stride] = ((const T *)operand)[order[i]]

void trm_sort_merge_lines(const sort_merge *merge, const trm_kernel_call *call, int64_t begin,
                          int64_t end, void *scratch) {
  const int64_t n = merge->n, stride = merge->stride;
  for (int64_t first = begin; first < end; first += merge->block) {
    const int64_t lines = end - first < merge->block ? end - first : merge->block;
    merger m = make_merger(merge, call, scratch);
    for (int64_t l = 0; l < lines; ++l) {
      const int64_t base = (first + l) / stride * stride * n + (first + l) % stride;
      for (int64_t i = 0; i < n; ++i) m.order[l * n + i] = base + i * stride;
    }
    sort_block(&m, lines);
    for (int64_t l = 0; l < lines; ++l) {
      const int64_t base = (first + l) / stride * stride * n + (first + l) % stride;
      const int64_t *order = m.order + l * n;
      for (uint32_t k = 0; k < merge->num_operands; ++k) {
        void *result = call->results[k];
        const void *operand = call->operands[k];
        switch (merge->log2[k]) {
          case 0: PLACE(uint8_t); break;
          case 1: PLACE(uint16_t); break;
          case 2: PLACE(uint32_t); break;
          default: PLACE(uint64_t); break;
        }
      }
    }
  }
}

trm_status trm_sort_merge_create(const trm_kernel_request *request, int64_t n, int64_t stride,
                                 sort_merge *out_merge, bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_merge = (sort_merge){.num_operands = instruction->num_operands,
                            .n = n,
                            .stride = stride,
                            .block = n >= BLOCK || n == 0 ? 1 : BLOCK / n};
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    out_merge->log2[k] = trm_log2_size(trm_operand_shape(request, k)->dtype);
  }
  const trm_computation *body = &request->module->computations[instruction->called[0]];
  *out_supported = false;
  if (body->num_parameters != 2 * instruction->num_operands) return TRM_OK;
  return trm_function_compile(request->module, instruction->called[0], request->arena,
                              &out_merge->less, out_supported, error);
}

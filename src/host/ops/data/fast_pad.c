/* Owns: the fast kernel of pad, which writes every element of the result once. */
#include <string.h>

#include "host/ops/data/fast_data.h"
#include "host/ops/threads.h"

enum { BLOCK = 4096 }; /* elements of a row that one thread writes at a time */

/* Where the operand lies in the result, by dimension. */
typedef struct pad_dimension {
  int64_t size;        /* of the result */
  int64_t first, step; /* the place of the operand's first element, and the way to the next */
  int64_t count;       /* how many of its elements are there */
  int64_t stride;      /* the way from one to the next in the operand */
} pad_dimension;

typedef struct pad_state {
  int32_t rank;
  uint8_t log2_size;
  pad_dimension dims[TRM_MAX_RANK];
  int64_t base; /* the first element that is there, in the operand */
  int64_t rows, num_blocks;
} pad_state;

typedef struct pad_run {
  const pad_state *state;
  const trm_vector_ops *ops;
  char *to;
  const char *from, *value;
} pad_run;

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

#define PAIRS(T)                                                            \
  do {                                                                      \
    T *const out = (T *)(void *)to, v = *(const T *)(const void *)value;    \
    const T *const in = (const T *)(const void *)from;                      \
    for (int64_t i = 0; i < n; ++i) out[2 * i] = in[i], out[2 * i + 1] = v; \
  } while (0)

/* n elements with the value behind each. */
static void write_pairs(char *to, const char *from, const char *value, int64_t n,
                        uint8_t log2_size) {
  switch (log2_size) {
    case 0: PAIRS(uint8_t); break;
    case 1: PAIRS(uint16_t); break;
    case 2: PAIRS(uint32_t); break;
    default: PAIRS(uint64_t); break;
  }
}

/* n of the operand's elements with their gaps, in `room` places: the last gap may be cut off. */
static void write_elements(const pad_run *run, char *to, const char *from, int64_t n,
                           int64_t room) {
  const pad_dimension *d = &run->state->dims[run->state->rank - 1];
  const uint8_t log2_size = run->state->log2_size;
  if (d->step == 1 && d->stride == 1) {
    memcpy(to, from, (size_t)n << log2_size);
  } else if (d->step == 2 && d->stride == 1) {
    const int64_t pairs = room / 2;
    write_pairs(to, from, run->value, pairs, log2_size);
    if (pairs == n) return;
    memcpy(to + ((2 * pairs) << log2_size), from + (pairs << log2_size), (size_t)1 << log2_size);
  } else {
    run->ops->strided[log2_size](to, run->value, 0, (size_t)room);
    trm_move_scatter(to, d->step, from, d->stride, n, log2_size);
  }
}

/* How many of places 0, step, 2 step, ... are before `end`. */
static int64_t num_before(int64_t end, int64_t step) {
  return end <= 0 ? 0 : (end + step - 1) / step;
}

/* Places [begin, end) of a row; `from` is the operand's part of the row, NULL where it has none. */
static void write_part(const pad_run *run, char *row, const char *from, int64_t begin,
                       int64_t end) {
  const pad_dimension *d = &run->state->dims[run->state->rank - 1];
  const uint8_t log2_size = run->state->log2_size;
  void (*fill)(void *, const void *, int64_t, size_t) = run->ops->strided[log2_size];
  /* The operand's elements [k, stop) lie at [start, behind). */
  int64_t k = 0, stop = 0, start = end, behind = end;
  if (from != NULL) {
    k = num_before(begin - d->first, d->step);
    stop = clamp(num_before(end - d->first, d->step), 0, d->count);
    if (k < stop) start = d->first + k * d->step, behind = d->first + stop * d->step;
    if (behind > end) behind = end;
  }
  if (start > begin) fill(row + (begin << log2_size), run->value, 0, (size_t)(start - begin));
  if (k < stop) {
    write_elements(run, row + (start << log2_size), from + ((k * d->stride) << log2_size), stop - k,
                   behind - start);
  }
  if (behind < end) fill(row + (behind << log2_size), run->value, 0, (size_t)(end - behind));
}

/* The operand's part of the row with this number; NULL: none. */
static const char *part_of_row(const pad_run *run, int64_t row) {
  const pad_state *state = run->state;
  int64_t offset = state->base;
  for (int32_t k = state->rank - 2; k >= 0; --k) {
    const pad_dimension *d = &state->dims[k];
    int64_t at = row % d->size - d->first;
    row /= d->size;
    if (at < 0 || (d->step > 1 && at % d->step != 0)) return NULL;
    if (d->step > 1) at /= d->step;
    if (at >= d->count) return NULL;
    offset += at * d->stride;
  }
  return state->dims[state->rank - 1].count == 0 ? NULL : run->from + (offset << state->log2_size);
}

static void write_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const pad_run *run = context;
  const pad_state *state = run->state;
  const int64_t size = state->dims[state->rank - 1].size;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / state->num_blocks, block = i % state->num_blocks;
    write_part(run, run->to + ((row * size) << state->log2_size), part_of_row(run, row),
               block * BLOCK, clamp((block + 1) * BLOCK, 0, size));
  }
}

static trm_status run_pad(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const pad_state *state = kernel->state;
  const pad_run run = {state, trm_vector_ops_get(), call->results[0], call->operands[0],
                       call->operands[1]};
  const int64_t count = state->rows * state->dims[state->rank - 1].size;
  const int threads = trm_threads_for((size_t)count << (state->log2_size + 1));
  trm_parallel_ranges(threads, state->rows * state->num_blocks, write_range, &run);
  return TRM_OK;
}

static pad_dimension place(const trm_padding_dimension *p, int64_t size, int64_t operand_size,
                           int64_t stride, int64_t *out_skipped) {
  const int64_t step = p->interior + 1;
  /* The first element that is not cut off, and the number of elements that are remaining. */
  const int64_t skipped = p->low < 0 ? (-p->low + step - 1) / step : 0;
  const int64_t first = p->low + skipped * step;
  const int64_t room = first < size ? (size - first + step - 1) / step : 0;
  const int64_t remaining = operand_size - skipped;
  *out_skipped = skipped;
  return (pad_dimension){size, first, step,
                         remaining <= 0     ? 0
                         : remaining < room ? remaining
                                            : room,
                         stride};
}

/* Whether a dimension can be one with the one before it: nothing is added to it, nothing cut off.
 */
static bool can_merge(const pad_dimension *before, const pad_dimension *d) {
  return before->step == 1 && d->count == d->size && d->step == 1 &&
         before->stride == d->stride * d->size;
}

trm_status trm_fast_pad_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                               trm_error *error) {
  const trm_shape *shape = &request->instruction->shape, *operand = trm_operand_shape(request, 0);
  pad_state *state = ARENA_NEW(request->arena, pad_state, 1);
  CHECK_MEMORY(state, "a pad");
  int64_t strides[TRM_MAX_RANK], skipped;
  trm_row_major_strides(operand, strides);
  state->log2_size = (uint8_t)__builtin_ctzll(trm_dtype_size(shape->dtype));
  for (int32_t k = 0; k < shape->rank; ++k) {
    const pad_dimension d = place(&request->instruction->padding[k], shape->dims[k],
                                  operand->dims[k], strides[k], &skipped);
    pad_dimension *before = state->rank > 0 ? &state->dims[state->rank - 1] : NULL;
    state->base += skipped * strides[k];
    if (d.size == 1 && d.count == 1) continue;
    if (before != NULL && can_merge(before, &d)) {
      before->size *= d.size, before->first *= d.size, before->count *= d.size;
      before->stride = d.stride;
    } else {
      state->dims[state->rank++] = d;
    }
  }
  if (state->rank == 0) state->dims[state->rank++] = (pad_dimension){1, 0, 1, 1, 1};
  const int64_t size = state->dims[state->rank - 1].size, count = trm_shape_count(shape);
  state->num_blocks = (size + BLOCK - 1) / BLOCK;
  state->rows = count == 0 ? 0 : count / size;
  *out_kernel = (trm_kernel){.name = "fast.pad", .state = state, .run = run_pad};
  return TRM_OK;
}

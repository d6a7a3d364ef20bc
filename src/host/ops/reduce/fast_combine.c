/* Owns: fast reductions with any associative computation (HLO demands that): maxima, products, and,
 * or, arg-max and the like. Elements are combined in their order, many lanes at once. Lanes are
 * results, or segments of one long row. A single commutative opcode is one vector function. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/reduce/fast_reduce.h"
#include "host/ops/threads.h"

enum { ROW_PIECE = 65536 };

typedef struct combine_state {
  reduce_layout layout;
  trm_function function;
  trm_vector_fn direct;                   /* a vector function in place of `function` */
  float (*row)(const float *a, size_t n); /* reduces a whole row; NULL: there is none */
  uint32_t n;                             /* operands */
  uint8_t log2[REDUCE_MAX_OPERANDS];
  int64_t blocks, chunks, chunk_results; /* column blocks; chunks of the rows */
  int64_t pieces;                        /* of a row, for `row`; 1: it is not cut */
  size_t lane_bytes, file_bytes, partial_bytes;
} combine_state;

typedef struct combine_run {
  const combine_state *state;
  const trm_kernel_call *call;
  char *partials, *files;
} combine_run;

/* The buffers of a thread, one for each operand: accumulators, their next values, loaded
 * elements. */
typedef struct lanes {
  const combine_state *state;
  void *acc[REDUCE_MAX_OPERANDS], *next[REDUCE_MAX_OPERANDS], *in[REDUCE_MAX_OPERANDS];
  void *scratch;
} lanes;

static lanes open_lanes(const combine_run *run, int thread) {
  const combine_state *state = run->state;
  char *file = run->files + (size_t)thread * state->file_bytes;
  lanes l = {.state = state, .scratch = file + 3 * state->lane_bytes};
  for (uint32_t k = 0; k < state->n; ++k) {
    const size_t at = k * REDUCE_BLOCK * sizeof(uint64_t);
    l.acc[k] = file + at;
    l.next[k] = file + state->lane_bytes + at;
    l.in[k] = file + 2 * state->lane_bytes + at;
  }
  return l;
}

/* acc = f(left, right) on m lanes. */
static void combine(lanes *l, void *const *left, void *const *right, int64_t m) {
  const combine_state *state = l->state;
  if (state->direct != NULL) {
    state->direct(l->acc[0], left[0], right[0], right[0], (size_t)m);
    return;
  }
  const void *args[2 * REDUCE_MAX_OPERANDS];
  for (uint32_t k = 0; k < state->n; ++k) args[k] = left[k], args[state->n + k] = right[k];
  trm_function_apply(&state->function, args, l->next, (size_t)m, l->scratch);
  for (uint32_t k = 0; k < state->n; ++k) {
    void *const swap = l->acc[k];
    l->acc[k] = l->next[k];
    l->next[k] = swap;
  }
}

/* Sets pointers to element `offset` of every operand, for reading. */
static void point_to(const combine_state *state, const trm_kernel_call *call, int64_t offset,
                     void **out) {
  for (uint32_t k = 0; k < state->n; ++k) {
    union {
      const void *in;
      void *out;
    } address = {call->operands[k]};
    out[k] = (char *)address.out + (offset << state->log2[k]);
  }
}

static void load_lanes(const combine_state *state, const trm_kernel_call *call, int64_t offset,
                       int64_t stride, int64_t m, void *const *out) {
  const trm_vector_ops *ops = trm_vector_ops_get();
  for (uint32_t k = 0; k < state->n; ++k) {
    const char *from = (const char *)call->operands[k] + (offset << state->log2[k]);
    if (stride == 1) memcpy(out[k], from, (size_t)m << state->log2[k]);
    else ops->strided[state->log2[k]](out[k], from, stride, (size_t)m);
  }
}

/* Combines m accumulators with the initial value and writes them to results. */
static void finish(lanes *l, const trm_kernel_call *call, int64_t place, int64_t m) {
  const combine_state *state = l->state;
  const trm_vector_ops *ops = trm_vector_ops_get();
  for (uint32_t k = 0; k < state->n; ++k)
    ops->strided[state->log2[k]](l->in[k], call->operands[state->n + k], 0, (size_t)m);
  combine(l, l->in, l->acc, m);
  for (uint32_t k = 0; k < state->n; ++k)
    memcpy((char *)call->results[k] + (place << state->log2[k]), l->acc[k],
           (size_t)m << state->log2[k]);
}

/* The place of the partial results of a chunk. */
static char *partial(const combine_run *run, uint32_t k, int64_t chunk, int64_t place) {
  const combine_state *state = run->state;
  const int64_t all = state->chunks * state->chunk_results;
  return run->partials + ((int64_t)k * all + chunk * state->chunk_results + place) * 8;
}

/* The innermost dimension is kept: units are kept x column blocks x chunks of rows. */
static void combine_columns(const void *context, int64_t begin, int64_t end, int thread) {
  const combine_run *run = context;
  const combine_state *state = run->state;
  const reduce_layout *layout = &state->layout;
  lanes l = open_lanes(run, thread);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t chunk = u % state->chunks, block = u / state->chunks % state->blocks;
    const int64_t kept = u / state->chunks / state->blocks, column = block * REDUCE_BLOCK;
    const int64_t m = layout->inner - column < REDUCE_BLOCK ? layout->inner - column : REDUCE_BLOCK;
    const int64_t base =
        column + trm_reduce_offset(layout->num_kept, layout->kept_dims, layout->kept_strides, kept);
    const int64_t first = layout->reduced_count * chunk / state->chunks;
    const int64_t stop = layout->reduced_count * (chunk + 1) / state->chunks;
    for (int64_t r = first; r < stop; ++r) {
      const int64_t offset = base + trm_reduce_offset(layout->num_reduced, layout->reduced_dims,
                                                      layout->reduced_strides, r);
      if (r == first) {
        load_lanes(state, run->call, offset, 1, m, l.acc);
        continue;
      }
      void *row[REDUCE_MAX_OPERANDS];
      point_to(state, run->call, offset, row);
      combine(&l, l.acc, row, m);
    }
    const int64_t place = kept * layout->inner + column;
    if (state->chunks == 1) {
      finish(&l, run->call, place, m);
      continue;
    }
    for (uint32_t k = 0; k < state->n; ++k)
      for (int64_t i = 0; i < m; ++i)
        memcpy(partial(run, k, chunk, place + i), (char *)l.acc[k] + (i << state->log2[k]),
               (size_t)1 << state->log2[k]);
  }
}

/* Combines the partial results of the chunks, in order. */
static void combine_partials(const combine_run *run) {
  const combine_state *state = run->state;
  lanes l = open_lanes(run, 0);
  for (int64_t place = 0; place < state->chunk_results; ++place) {
    for (int64_t c = 0; c < state->chunks; ++c) {
      void *one[REDUCE_MAX_OPERANDS];
      for (uint32_t k = 0; k < state->n; ++k) one[k] = partial(run, k, c, place);
      if (c > 0) combine(&l, l.acc, one, 1);
      else
        for (uint32_t k = 0; k < state->n; ++k) memcpy(l.acc[k], one[k], 8);
    }
    finish(&l, run->call, place, 1);
  }
}

/* Reduces m accumulators to the first by combining neighbours, which keeps the order. */
static void fold(lanes *l, int64_t m) {
  const combine_state *state = l->state;
  const trm_vector_ops *ops = trm_vector_ops_get();
  if (state->direct != NULL) { /* commutative: combines halves */
    while (m > 1) {
      const int64_t half = m / 2;
      void *const right = (char *)l->acc[0] + ((m - half) << state->log2[0]);
      state->direct(l->acc[0], l->acc[0], right, right, (size_t)half);
      m -= half;
    }
    return;
  }
  while (m > 1) {
    const int64_t half = m / 2;
    void *left[REDUCE_MAX_OPERANDS], *right[REDUCE_MAX_OPERANDS];
    uint64_t odd[REDUCE_MAX_OPERANDS];
    for (uint32_t k = 0; k < state->n; ++k) {
      const size_t size = (size_t)1 << state->log2[k];
      left[k] = l->in[k];
      right[k] = (char *)l->in[k] + REDUCE_BLOCK / 2 * sizeof(uint64_t);
      memcpy(&odd[k], (char *)l->acc[k] + (size_t)(m - 1) * size, size);
      ops->strided[state->log2[k]](left[k], l->acc[k], 2, (size_t)half);
      ops->strided[state->log2[k]](right[k], (char *)l->acc[k] + size, 2, (size_t)half);
    }
    combine(l, left, right, half);
    for (uint32_t k = 0; k < state->n && m % 2 != 0; ++k) {
      const size_t size = (size_t)1 << state->log2[k];
      memcpy((char *)l->acc[k] + (size_t)half * size, &odd[k], size);
    }
    m = half + m % 2;
  }
}

/* Reduces n contiguous elements to acc[0]. With a direct function lanes take every m-th element;
 * otherwise each lane takes a segment. n is a multiple of the lanes or less than a block. */
static void reduce_run(lanes *l, const trm_kernel_call *call, int64_t offset, int64_t n,
                       int64_t *out_done) {
  const combine_state *state = l->state;
  const int64_t m = n < REDUCE_BLOCK ? n : REDUCE_BLOCK, each = n / m;
  const int64_t lane_stride = state->direct != NULL ? 1 : each;
  const int64_t step = state->direct != NULL ? m : 1;
  load_lanes(state, call, offset, lane_stride, m, l->acc);
  for (int64_t i = 1; i < each; ++i) {
    void *row[REDUCE_MAX_OPERANDS];
    if (lane_stride == 1) {
      point_to(state, call, offset + i * step, row);
      combine(l, l->acc, row, m);
    } else {
      load_lanes(state, call, offset + i * step, lane_stride, m, l->in);
      combine(l, l->acc, l->in, m);
    }
  }
  fold(l, m);
  *out_done = each * m;
}

/* The same for a function that reduces a whole row. */
static void reduce_rows(const void *context, int64_t begin, int64_t end, int thread) {
  const combine_run *run = context;
  const combine_state *state = run->state;
  const reduce_layout *layout = &state->layout;
  const float *const from = run->call->operands[0], *const initial = run->call->operands[1];
  float *const results = run->call->results[0];
  (void)thread;
  for (int64_t kept = begin; kept < end; ++kept) {
    const int64_t base =
        trm_reduce_offset(layout->num_kept, layout->kept_dims, layout->kept_strides, kept);
    float both[2] = {initial[0], 0.0f};
    for (int64_t r = 0; r < layout->reduced_count; ++r) {
      const int64_t offset =
          trm_reduce_offset(layout->num_reduced, layout->reduced_dims, layout->reduced_strides, r);
      both[1] = state->row(from + base + offset, (size_t)layout->inner);
      both[0] = state->row(both, 2);
    }
    results[kept] = both[0];
  }
}

/* Long rows of few results: units are pieces of rows. */
static void reduce_pieces(const void *context, int64_t begin, int64_t end, int thread) {
  const combine_run *run = context;
  const combine_state *state = run->state;
  const reduce_layout *layout = &state->layout;
  float *const partials = (float *)(void *)run->partials;
  (void)thread;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t row = u / state->pieces, start = u % state->pieces * ROW_PIECE;
    const int64_t remaining = layout->inner - start;
    const int64_t offset = start +
                           trm_reduce_offset(layout->num_kept, layout->kept_dims,
                                             layout->kept_strides, row / layout->reduced_count) +
                           trm_reduce_offset(layout->num_reduced, layout->reduced_dims,
                                             layout->reduced_strides, row % layout->reduced_count);
    partials[u] = state->row((const float *)run->call->operands[0] + offset,
                             (size_t)(remaining < ROW_PIECE ? remaining : ROW_PIECE));
  }
}

static void combine_pieces(const combine_run *run) {
  const combine_state *state = run->state;
  const float *const partials = (const float *)(const void *)run->partials;
  const size_t each = (size_t)(state->layout.reduced_count * state->pieces);
  for (int64_t kept = 0; kept < state->layout.kept_count; ++kept) {
    const float both[2] = {*(const float *)run->call->operands[1],
                           state->row(partials + (size_t)kept * each, each)};
    ((float *)run->call->results[0])[kept] = state->row(both, 2);
  }
}

/* The innermost dimension is reduced, and there are few results or long rows: units are results. */
static void combine_rows(const void *context, int64_t begin, int64_t end, int thread) {
  const combine_run *run = context;
  const combine_state *state = run->state;
  const reduce_layout *layout = &state->layout;
  lanes l = open_lanes(run, thread);
  for (int64_t kept = begin; kept < end; ++kept) {
    const int64_t base =
        trm_reduce_offset(layout->num_kept, layout->kept_dims, layout->kept_strides, kept);
    uint64_t total[REDUCE_MAX_OPERANDS] = {0};
    bool has_total = false;
    for (int64_t r = 0; r < layout->reduced_count; ++r) {
      int64_t offset = base + trm_reduce_offset(layout->num_reduced, layout->reduced_dims,
                                                layout->reduced_strides, r);
      for (int64_t rest = layout->inner, done; rest > 0; rest -= done, offset += done) {
        reduce_run(&l, run->call, offset, rest, &done);
        if (has_total) {
          void *left[REDUCE_MAX_OPERANDS], *right[REDUCE_MAX_OPERANDS];
          for (uint32_t k = 0; k < state->n; ++k) {
            memcpy(l.in[k], l.acc[k], 8);
            left[k] = &total[k], right[k] = l.in[k];
          }
          combine(&l, left, right, 1);
        }
        for (uint32_t k = 0; k < state->n; ++k) memcpy(&total[k], l.acc[k], 8);
        has_total = true;
      }
    }
    finish(&l, run->call, kept, 1);
  }
}

/* The innermost dimension is reduced and short, and there are many results: lanes are results. A
 * unit is a block of the innermost kept dimension. */
static void combine_results(const void *context, int64_t begin, int64_t end, int thread) {
  const combine_run *run = context;
  const combine_state *state = run->state;
  const reduce_layout *layout = &state->layout;
  const int32_t last = layout->num_kept - 1;
  lanes l = open_lanes(run, thread);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t outer = u / state->blocks, start = u % state->blocks * REDUCE_BLOCK;
    const int64_t remaining = layout->kept_dims[last] - start;
    const int64_t m = remaining < REDUCE_BLOCK ? remaining : REDUCE_BLOCK;
    const int64_t place = outer * layout->kept_dims[last] + start;
    const int64_t base =
        trm_reduce_offset(layout->num_kept, layout->kept_dims, layout->kept_strides, place);
    for (int64_t r = 0; r < layout->reduced_count; ++r) {
      const int64_t offset = base + trm_reduce_offset(layout->num_reduced, layout->reduced_dims,
                                                      layout->reduced_strides, r);
      for (int64_t i = 0; i < layout->inner; ++i) {
        const bool first = r == 0 && i == 0;
        load_lanes(state, run->call, offset + i, layout->kept_strides[last], m,
                   first ? l.acc : l.in);
        if (!first) combine(&l, l.acc, l.in, m);
      }
    }
    finish(&l, run->call, place, m);
  }
}

static bool lanes_are_results(const combine_state *state) {
  const reduce_layout *layout = &state->layout;
  if (layout->num_kept == 0) return false;
  const int64_t width = layout->kept_dims[layout->num_kept - 1];
  return width >= TRM_COMBINE_LEAST_LANES &&
         layout->inner <=
             (state->direct == NULL ? TRM_COMBINE_MOST_CALLED : TRM_COMBINE_MOST_DIRECT);
}

static trm_status run_combine(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const combine_state *state = kernel->state;
  const reduce_layout *layout = &state->layout;
  const combine_run run = {state, call, call->scratch,
                           (char *)call->scratch + state->partial_bytes};
  const int64_t total = layout->kept_count * layout->reduced_count * layout->inner;
  const int64_t results = layout->kept_count * (layout->inner_is_kept ? layout->inner : 1);
  if (results == 0) return TRM_OK;
  if (total == 0) {
    for (uint32_t k = 0; k < state->n; ++k)
      trm_vector_ops_get()->strided[state->log2[k]](call->results[k], call->operands[state->n + k],
                                                    0, (size_t)results);
    return TRM_OK;
  }
  const int threads = trm_threads_for((size_t)total * state->n * 4);
  if (layout->inner_is_kept) {
    trm_parallel_ranges(threads, layout->kept_count * state->blocks * state->chunks,
                        combine_columns, &run);
    if (state->chunks > 1) combine_partials(&run);
  } else if (state->pieces > 1) {
    trm_parallel_ranges(threads, layout->kept_count * layout->reduced_count * state->pieces,
                        reduce_pieces, &run);
    combine_pieces(&run);
  } else if (state->row != NULL && layout->inner >= TRM_COMBINE_LEAST_ROW) {
    trm_parallel_ranges(threads, layout->kept_count, reduce_rows, &run);
  } else if (lanes_are_results(state)) {
    trm_parallel_ranges(
        threads, layout->kept_count / layout->kept_dims[layout->num_kept - 1] * state->blocks,
        combine_results, &run);
  } else {
    trm_parallel_ranges(threads, layout->kept_count, combine_rows, &run);
  }
  return TRM_OK;
}

trm_status trm_fast_combine_create(const trm_kernel_request *request, const reduce_layout *layout,
                                   const trm_function *function, trm_kernel *out_kernel,
                                   trm_error *error) {
  combine_state *state = ARENA_NEW(request->arena, combine_state, 1);
  CHECK_MEMORY(state, "a reduction");
  state->layout = *layout;
  state->function = *function;
  state->n = request->instruction->num_operands / 2;
  for (uint32_t k = 0; k < state->n; ++k)
    state->log2[k] = trm_log2_size(trm_operand_shape(request, k)->dtype);
  if (state->n == 1)
    state->direct =
        trm_reduce_vector_fn(function->single_opcode, trm_operand_shape(request, 0)->dtype);
  if (state->n == 1 && trm_operand_shape(request, 0)->dtype == TRM_F32) {
    const trm_vector_ops *ops = trm_vector_ops_get();
    if (function->single_opcode == TRM_OP_MAXIMUM) state->row = ops->max_f32;
    if (function->single_opcode == TRM_OP_MINIMUM) state->row = ops->min_f32;
  }
  const int64_t results = layout->kept_count * (layout->inner_is_kept ? layout->inner : 1);
  const int64_t width = layout->inner_is_kept  ? layout->inner
                        : layout->num_kept > 0 ? layout->kept_dims[layout->num_kept - 1]
                                               : 1;
  state->blocks = (width + REDUCE_BLOCK - 1) / REDUCE_BLOCK;
  state->chunks = 1;
  state->chunk_results = results;
  if (layout->inner_is_kept && layout->kept_count * state->blocks < 8 &&
      layout->reduced_count >= TRM_COMBINE_LEAST_REDUCED &&
      layout->reduced_count * results >= TRM_COMBINE_LEAST_SHARED) {
    state->chunks = 8;
    state->partial_bytes = (size_t)(state->chunks * results) * 8 * state->n;
  }
  state->pieces = 1;
  if (!layout->inner_is_kept && state->row != NULL && results <= TRM_COMBINE_MOST_RESULTS &&
      results > 0 && layout->reduced_count > 0 && layout->inner >= 2 * ROW_PIECE) {
    state->pieces = (layout->inner + ROW_PIECE - 1) / ROW_PIECE;
    state->partial_bytes =
        (size_t)(results * layout->reduced_count * state->pieces) * sizeof(float);
  }
  state->partial_bytes = (state->partial_bytes + 63) & ~(size_t)63;
  state->lane_bytes = state->n * REDUCE_BLOCK * sizeof(uint64_t);
  state->file_bytes = 3 * state->lane_bytes + ((function->scratch_bytes + 63) & ~(size_t)63);
  *out_kernel = (trm_kernel){
      .name = "fast.reduce",
      .scratch_bytes = state->partial_bytes + state->file_bytes * (size_t)trm_threads_limit(),
      .state = state,
      .run = run_combine};
  return TRM_OK;
}

/* The custom call "tremula.reductions": several reductions of arrays of one shape, or of products
 * of two of them, in one pass over memory (host/passes/reductions.c).
 *
 * The arrays are rows of columns. A reduction is over the columns, over the rows, or over both.
 * Rows are cut in chunks that follow from the shape; a chunk takes eight rows at a time, and each
 * reduction reads them from the cache. Sums and extremes have the bits of fast_sum.c and
 * fast_combine.c, but for sums over both dimensions, which these cut otherwise. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/reduce/fast_reduce.h"
#include "host/ops/reduce/reductions.h"
#include "host/ops/reference.h"
#include "host/ops/threads.h"

enum { AT_ONCE = 8 };

typedef enum reduced { OVER_COLUMNS, OVER_ROWS, OVER_BOTH } reduced;

typedef struct reduction {
  reduced over;
  trm_opcode opcode;    /* add, maximum or minimum */
  uint32_t left, right; /* operands: arrays; right is TRM_NO_INDEX where left is reduced itself */
  uint32_t initial;     /* operand */
  size_t partial_at;    /* in the block of a chunk, where not OVER_COLUMNS: doubles, or floats */
} reduction;

typedef struct reductions_state {
  int64_t rows, columns, chunks;
  uint32_t count;
  reduction *items;
  size_t chunk_bytes, file_bytes; /* partial results of a chunk; products of a thread */
  size_t touched;
} reductions_state;

typedef struct reductions_run {
  const reductions_state *state;
  const trm_kernel_call *call;
} reductions_run;

static float extreme(trm_opcode opcode, const float *a, size_t n) {
  const trm_vector_ops *ops = trm_vector_ops_get();
  return opcode == TRM_OP_MAXIMUM ? ops->max_f32(a, n) : ops->min_f32(a, n);
}

/* One number into those that are there. */
static void put(const reduction *item, void *into, double sum, float one, bool is_first) {
  if (item->opcode == TRM_OP_ADD) {
    double *total = into;
    *total = (is_first ? 0.0 : *total) + sum;
  } else {
    float *best = into;
    const float both[2] = {is_first ? one : *best, one};
    *best = extreme(item->opcode, both, 2);
  }
}

/* Rows into the sums or extremes of their columns. */
static void put_rows(const reduction *item, void *into, const float *const *rows, int64_t num,
                     int64_t columns, bool is_first) {
  const trm_vector_ops *ops = trm_vector_ops_get();
  const size_t n = (size_t)columns;
  if (item->opcode == TRM_OP_ADD) {
    if (is_first) memset(into, 0, n * sizeof(double));
    if (num == AT_ONCE) ops->accumulate_8(into, rows, n);
    for (int64_t r = 0; num < AT_ONCE && r < num; ++r) ops->accumulate_double(into, rows[r], n);
    return;
  }
  const trm_vector_fn function = ops->op[item->opcode][TRM_V_F32];
  if (is_first) memcpy(into, rows[0], n * sizeof(float));
  for (int64_t r = is_first; r < num; ++r) function(into, into, rows[r], rows[r], n);
}

static void store_row(const reductions_run *run, uint32_t k, int64_t row, const float *from) {
  const reduction *item = &run->state->items[k];
  const float initial = *(const float *)run->call->operands[item->initial];
  const size_t n = (size_t)run->state->columns;
  float *const result = (float *)run->call->results[k] + row;
  if (item->opcode == TRM_OP_ADD) {
    *result = (float)((double)initial + trm_vector_ops_get()->sum_f32(from, n));
  } else {
    const float both[2] = {initial, extreme(item->opcode, from, n)};
    *result = extreme(item->opcode, both, 2);
  }
}

/* `num` rows of a reduction's operand: as they are, or multiplied. */
static void point_to_rows(const reductions_run *run, const reduction *item, int64_t row,
                          int64_t num, float *products, const float **out_rows) {
  const int64_t n = run->state->columns;
  for (int64_t r = 0; r < num; ++r) {
    out_rows[r] = (const float *)run->call->operands[item->left] + (row + r) * n;
    if (item->right == TRM_NO_INDEX) continue;
    const float *right = (const float *)run->call->operands[item->right] + (row + r) * n;
    float *product = products + r * n;
    trm_vector_ops_get()->op[TRM_OP_MULTIPLY][TRM_V_F32](product, out_rows[r], right, right,
                                                         (size_t)n);
    out_rows[r] = product;
  }
}

static void reduce_rows(const reductions_run *run, uint32_t k, int64_t row, int64_t num,
                        char *partials, float *products, bool is_first) {
  const reduction *item = &run->state->items[k];
  const trm_vector_ops *ops = trm_vector_ops_get();
  const size_t n = (size_t)run->state->columns;
  const float *rows[AT_ONCE];
  point_to_rows(run, item, row, num, products, rows);
  void *into = partials + item->partial_at;
  if (item->over == OVER_ROWS) {
    put_rows(item, into, rows, num, run->state->columns, is_first);
    return;
  }
  for (int64_t r = 0; r < num; ++r) {
    if (item->over == OVER_COLUMNS) store_row(run, k, row + r, rows[r]);
    else if (item->opcode == TRM_OP_ADD)
      put(item, into, ops->sum_f32(rows[r], n), 0.0f, is_first && r == 0);
    else put(item, into, 0.0, extreme(item->opcode, rows[r], n), is_first && r == 0);
  }
}

static void reduce_chunks(const void *context, int64_t begin, int64_t end, int thread) {
  const reductions_run *run = context;
  const reductions_state *state = run->state;
  char *const files = (char *)run->call->scratch + (size_t)state->chunks * state->chunk_bytes;
  float *products = (float *)(void *)(files + (size_t)thread * state->file_bytes);
  for (int64_t c = begin; c < end; ++c) {
    char *partials = (char *)run->call->scratch + (size_t)c * state->chunk_bytes;
    const int64_t first = state->rows * c / state->chunks;
    const int64_t stop = state->rows * (c + 1) / state->chunks;
    for (int64_t row = first; row < stop; row += AT_ONCE) {
      const int64_t num = stop - row < AT_ONCE ? stop - row : AT_ONCE;
      for (uint32_t k = 0; k < state->count; ++k) {
        reduce_rows(run, k, row, num, partials, products, row == first);
      }
    }
  }
}

/* Brings the chunks together, in order. */
static void finish(const reductions_run *run, uint32_t k) {
  const reductions_state *state = run->state;
  const reduction *item = &state->items[k];
  if (item->over == OVER_COLUMNS) return;
  const float initial = *(const float *)run->call->operands[item->initial];
  float *results = run->call->results[k];
  const char *partials = (const char *)run->call->scratch + item->partial_at;
  for (int64_t i = 0; i < (item->over == OVER_ROWS ? state->columns : 1); ++i) {
    double sum = (double)initial;
    float best = initial;
    for (int64_t c = 0; c < state->chunks; ++c) {
      const void *partial = partials + (size_t)c * state->chunk_bytes;
      if (item->opcode == TRM_OP_ADD) put(item, &sum, ((const double *)partial)[i], 0.0f, false);
      else put(item, &best, 0.0, ((const float *)partial)[i], false);
    }
    results[i] = item->opcode == TRM_OP_ADD ? (float)sum : best;
  }
}

static trm_status run_reductions(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  (void)error;
  const reductions_run run = {kernel->state, call};
  trm_parallel_ranges(trm_threads_for(run.state->touched), run.state->chunks, reduce_chunks, &run);
  for (uint32_t k = 0; k < run.state->count; ++k) finish(&run, k);
  return TRM_OK;
}

/* ---- Creating ------------------------------------------------------------------------------- */

bool trm_reductions_cut(const trm_shape *shape, const trm_dims *dimensions, int32_t cut,
                        int64_t *out_rows, int64_t *out_columns) {
  int32_t before = 0;
  for (int32_t i = 0; i < dimensions->count; ++i) before += dimensions->items[i] < cut;
  const int32_t behind = dimensions->count - before;
  *out_rows = *out_columns = 1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    *(d < cut ? out_rows : out_columns) *= shape->dims[d];
  }
  return dimensions->count > 0 && (before == 0 || before == cut) &&
         (behind == 0 || behind == shape->rank - cut);
}

int32_t trm_reductions_cut_of(const trm_instruction *reduce, const trm_shape *shape) {
  const int32_t count = reduce->dimensions.count;
  bool has_first = false;
  for (int32_t i = 0; i < count; ++i) has_first |= reduce->dimensions.items[i] == 0;
  return count == shape->rank ? 0 : has_first ? count : shape->rank - count;
}

static bool read_item(const trm_module *module, const trm_computation *body, trm_index index,
                      int32_t cut, reduction *out) {
  const trm_instruction *reduce = &body->instructions[index];
  if (reduce->opcode != TRM_OP_REDUCE || reduce->num_operands != 2) return false;
  const trm_instruction *array = &body->instructions[reduce->operands[0]];
  const bool is_product = array->opcode == TRM_OP_MULTIPLY;
  const trm_instruction *left = is_product ? &body->instructions[array->operands[0]] : array;
  const trm_instruction *right = is_product ? &body->instructions[array->operands[1]] : array;
  const trm_instruction *initial = &body->instructions[reduce->operands[1]];
  if (left->opcode != TRM_OP_PARAMETER || right->opcode != TRM_OP_PARAMETER ||
      initial->opcode != TRM_OP_PARAMETER || array->shape.dtype != TRM_F32)
    return false;
  int64_t rows, columns;
  if (!trm_reductions_cut(&array->shape, &reduce->dimensions, cut, &rows, &columns)) return false;
  const int32_t count = reduce->dimensions.count;
  *out = (reduction){.over = count == array->shape.rank          ? OVER_BOTH
                             : reduce->dimensions.items[0] < cut ? OVER_ROWS
                                                                 : OVER_COLUMNS,
                     .opcode = trm_computation_combiner(&module->computations[reduce->called[0]]),
                     .left = (uint32_t)left->number,
                     .right = is_product ? (uint32_t)right->number : TRM_NO_INDEX,
                     .initial = (uint32_t)initial->number};
  return trm_reductions_combine_by(out->opcode);
}

static bool read_items(const trm_kernel_request *request, reductions_state *state) {
  const trm_computation *body = &request->module->computations[request->instruction->called[0]];
  const trm_instruction *root = &body->instructions[body->root];
  const trm_index only = body->root;
  const trm_index *results = root->opcode == TRM_OP_TUPLE ? root->operands : &only;
  const trm_shape *shape = trm_operand_shape(request, 0);
  int32_t cut = 0;
  for (uint32_t k = 0; k < state->count && cut == 0; ++k) {
    cut = trm_reductions_cut_of(&body->instructions[results[k]], shape);
  }
  if (cut == 0) cut = 1;
  for (uint32_t k = 0; k < state->count; ++k) {
    if (!read_item(request->module, body, results[k], cut, &state->items[k])) return false;
  }
  trm_reductions_cut(shape, &(trm_dims){0}, cut, &state->rows, &state->columns);
  return state->rows > 0 && state->columns > 0;
}

trm_status trm_reductions_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                 bool *out_supported, trm_error *error) {
  reductions_state *state = ARENA_NEW(request->arena, reductions_state, 1);
  CHECK_MEMORY(state, "reductions");
  state->count = (uint32_t)trm_shape_num_leaves(&request->instruction->shape);
  state->items = ARENA_NEW(request->arena, reduction, (size_t)state->count + 1);
  CHECK_MEMORY(state->items, "reductions");
  if (!read_items(request, state)) {
    return trm_reference_refuse(request, "its computation is not reductions of arrays", error);
  }
  state->chunks =
      state->rows < 2 * TRM_REDUCTIONS_LEAST_CHUNK ? 1 : state->rows / TRM_REDUCTIONS_LEAST_CHUNK;
  if (state->chunks > TRM_REDUCTIONS_MOST_CHUNKS) state->chunks = TRM_REDUCTIONS_MOST_CHUNKS;
  for (uint32_t k = 0; k < state->count; ++k) {
    reduction *item = &state->items[k];
    const int64_t partials = item->over == OVER_ROWS ? state->columns : 1;
    item->partial_at = state->chunk_bytes;
    if (item->over != OVER_COLUMNS) {
      state->chunk_bytes += ((size_t)partials * sizeof(double) + 63) & ~(size_t)63;
    }
    if (item->right != TRM_NO_INDEX) {
      state->file_bytes = (AT_ONCE * (size_t)state->columns * sizeof(float) + 63) & ~(size_t)63;
    }
  }
  for (uint32_t i = 0; i < request->instruction->num_operands; ++i) {
    state->touched += trm_shape_bytes(trm_operand_shape(request, i));
  }
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.reductions",
                             .scratch_bytes = (size_t)state->chunks * state->chunk_bytes +
                                              (size_t)trm_threads_limit() * state->file_bytes,
                             .state = state,
                             .run = run_reductions};
  return TRM_OK;
}

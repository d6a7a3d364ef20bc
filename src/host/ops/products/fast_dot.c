/* Owns: dots of integers, float64 and complex numbers, with the blocked product of dense.h.
 * Integers are added modulo 2^32, or 2^64 for results of 64 bits, so all sums are exact. A complex
 * product is four products of its parts. dot_ways.c has who serves the other types. */
#include <string.h>

#include "host/ops/algebra/dense.h"
#include "host/ops/reference.h"
#include "host/ops/threads.h"

enum { LHS, RHS };

/* An operand as a matrix [rows, columns] for each batch, with the places of its elements. */
typedef struct side {
  trm_dtype dtype;
  int64_t rows, columns;
  const int64_t *batch_offsets, *row_offsets, *column_offsets;
  bool is_copied; /* it has other strides or another type, so it is copied to a dense matrix */
} side;

typedef struct dot_state {
  trm_dense_type type;
  trm_dtype dtype;     /* of the result */
  size_t size;         /* of a sum; of a part of a complex one */
  size_t operand_size; /* of a number in the products */
  int parts;           /* 2: complex */
  int64_t batch, m, n, k;
  side sides[2];
  size_t copy_bytes[2], sum_bytes, scratch; /* of one batch */
  bool is_narrowed;
} dot_state;

/* ---- Operands ------------------------------------------------------------------------------- */

typedef struct copy_run {
  const dot_state *state;
  const side *from;
  const void *data;
  int64_t base;
  void *to;
} copy_run;

#define COPY_ROWS(S, D)                                                            \
  for (int64_t i = begin; i < end; ++i) {                                          \
    const S *const in = (const S *)run->data + run->base + s->row_offsets[i];      \
    D *const out = (D *)run->to + i * s->columns;                                  \
    for (int64_t j = 0; j < s->columns; ++j) out[j] = (D)in[s->column_offsets[j]]; \
  }                                                                                \
  break
#define COPY_TO(D)                        \
  switch (s->dtype) {                     \
    case TRM_S8: COPY_ROWS(int8_t, D);    \
    case TRM_S16: COPY_ROWS(int16_t, D);  \
    case TRM_S32: COPY_ROWS(int32_t, D);  \
    case TRM_S64: COPY_ROWS(int64_t, D);  \
    case TRM_U8: COPY_ROWS(uint8_t, D);   \
    case TRM_U16: COPY_ROWS(uint16_t, D); \
    case TRM_U32: COPY_ROWS(uint32_t, D); \
    default: COPY_ROWS(uint64_t, D);      \
  }

static void copy_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const copy_run *run = context;
  const side *s = run->from;
  if (s->dtype == TRM_C128) {
    const size_t size = 2 * sizeof(double);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < s->columns; ++j) {
        trm_copy_element(size, run->to, i * s->columns + j, run->data,
                         run->base + s->row_offsets[i] + s->column_offsets[j]);
      }
    }
  } else if (s->dtype == TRM_F64 || s->dtype == TRM_C64) { /* eight bytes as they are */
    do {
      COPY_ROWS(uint64_t, uint64_t);
    } while (false);
  } else if (run->state->type == TRM_DENSE_BYTES) {
    do {
      COPY_ROWS(uint8_t, uint8_t);
    } while (false);
  } else if (run->state->type == TRM_DENSE_U32) {
    COPY_TO(uint32_t)
  } else {
    COPY_TO(uint64_t)
  }
}

/* The operand of a batch, in units of `size` bytes; copied if necessary. */
static trm_dense_matrix find_matrix(const dot_state *state, int which, const void *data,
                                    int64_t batch, char *scratch, int threads) {
  const side *s = &state->sides[which];
  const int64_t base = s->batch_offsets[batch], parts = state->parts;
  if (!s->is_copied) {
    return (trm_dense_matrix){(const char *)data + base * parts * (int64_t)state->operand_size,
                              s->rows > 1 ? s->row_offsets[1] * parts : 0,
                              s->columns > 1 ? s->column_offsets[1] * parts : parts};
  }
  const copy_run run = {state, s, data, base, scratch};
  const int worth = threads <= 1 ? 1 : trm_threads_for(2 * state->copy_bytes[which]);
  trm_parallel_ranges(worth, s->rows, copy_range, &run);
  return (trm_dense_matrix){scratch, s->columns * parts, parts};
}

/* ---- Products ------------------------------------------------------------------------------- */

static trm_dense_matrix part_of(const dot_state *state, trm_dense_matrix matrix, int part) {
  matrix.data = (const char *)matrix.data + (size_t)part * state->operand_size;
  return matrix;
}

#define NARROW(R) \
  for (int64_t i = 0; i < count; ++i) ((R *)to)[i] = (R)((const uint32_t *)sums)[i];
#define JOIN(R)                                          \
  for (int64_t i = 0; i < count; ++i) {                  \
    ((R *)to)[2 * i] = ((const R *)sums)[i];             \
    ((R *)to)[2 * i + 1] = ((const R *)sums)[count + i]; \
  }

static void multiply_one(const dot_state *state, const trm_kernel_call *call, int64_t batch,
                         char *scratch, int threads) {
  const int64_t count = state->m * state->n;
  trm_dense_matrix operands[2];
  for (int which = 0; which < 2; ++which) {
    operands[which] = find_matrix(state, which, call->operands[which], batch, scratch, threads);
    scratch += state->copy_bytes[which];
  }
  const size_t bytes = (size_t)count * trm_dtype_size(state->dtype);
  char *const to = (char *)call->results[0] + (size_t)batch * bytes;
  const bool is_direct = state->parts == 1 && !state->is_narrowed;
  char *const sums = is_direct ? to : scratch;
  memset(sums, 0, is_direct ? bytes : state->sum_bytes);
  for (int i = 0; i < state->parts; ++i) {
    for (int j = 0; j < state->parts; ++j) {
      const trm_dense_product product = {
          .m = state->m,
          .n = state->n,
          .k = state->k,
          .subtracts = i == 1 && j == 1,
          .a = part_of(state, operands[LHS], i),
          .b = part_of(state, operands[RHS], j),
          .c = sums + (i != j ? (size_t)count * state->size : 0),
          .stride = state->n,
          .are_signed = {state->sides[LHS].dtype == TRM_S8, state->sides[RHS].dtype == TRM_S8}};
      trm_dense_multiply(state->type, &product, threads);
    }
  }
  if (state->parts == 2 && state->size == sizeof(float)) {
    JOIN(float)
  } else if (state->parts == 2) {
    JOIN(double)
  } else if (state->is_narrowed && trm_dtype_size(state->dtype) == 1) {
    NARROW(uint8_t)
  } else if (state->is_narrowed) {
    NARROW(uint16_t)
  }
}

typedef struct dot_run {
  const dot_state *state;
  const trm_kernel_call *call;
  int threads;
} dot_run;

static void batch_range(const void *context, int64_t begin, int64_t end, int thread) {
  const dot_run *run = context;
  char *const scratch = (char *)run->call->scratch + (size_t)thread * run->state->scratch;
  for (int64_t b = begin; b < end; ++b) {
    multiply_one(run->state, run->call, b, scratch, run->threads);
  }
}

static trm_status run_dot(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const dot_state *state = kernel->state;
  const int available = trm_threads_available();
  const bool shares = state->batch >= available;
  const dot_run run = {state, call, shares ? 1 : available};
  const size_t work = (size_t)(state->batch * state->m * state->n * state->k) / 2;
  trm_parallel_ranges(shares ? trm_threads_for(work) : 1, state->batch, batch_range, &run);
  return TRM_OK;
}

/* ---- Creation ------------------------------------------------------------------------------- */

/* The offsets of all indices of the dimensions, in row-major order. NULL: no memory. */
static int64_t *list_offsets(trm_arena *arena, const trm_shape *shape, int32_t rank,
                             const int64_t *dimensions, int64_t *out_count) {
  int64_t strides[TRM_MAX_RANK], dims[TRM_MAX_RANK], steps[TRM_MAX_RANK];
  trm_shape_strides(shape, strides);
  for (int32_t i = 0; i < rank; ++i) {
    dims[i] = shape->dims[dimensions[i]], steps[i] = strides[dimensions[i]];
  }
  *out_count = trm_dims_count(rank, dims);
  int64_t *const offsets = ARENA_NEW(arena, int64_t, (size_t)*out_count);
  trm_odometer at;
  trm_odometer_init(&at, rank, dims);
  for (int64_t i = 0; i < *out_count && offsets != NULL; ++i, trm_odometer_next(&at)) {
    offsets[i] = trm_linear_index(rank, steps, at.index);
  }
  return offsets;
}

static bool is_even(const int64_t *offsets, int64_t count) {
  for (int64_t i = 2; i < count; ++i) {
    if (offsets[i] != i * offsets[1]) return false;
  }
  return true;
}

static bool plan_side(const trm_kernel_request *request, int which, const trm_dims *batch,
                      const trm_dims *contracting, dot_state *state) {
  const trm_shape *shape = trm_operand_shape(request, (uint32_t)which);
  trm_dims taken = {batch->count + contracting->count, NULL};
  int64_t both[2 * TRM_MAX_RANK], others[TRM_MAX_RANK];
  for (int32_t i = 0; i < taken.count; ++i) {
    both[i] = i < batch->count ? batch->items[i] : contracting->items[i - batch->count];
  }
  taken.items = both;
  const int32_t num_others = trm_dims_others(&taken, shape->rank, others);
  side *s = &state->sides[which];
  int64_t free_count;
  const int64_t *const batches =
      list_offsets(request->arena, shape, batch->count, batch->items, &state->batch);
  const int64_t *const inner =
      list_offsets(request->arena, shape, contracting->count, contracting->items, &state->k);
  const int64_t *const free_offsets =
      list_offsets(request->arena, shape, num_others, others, &free_count);
  if (batches == NULL || inner == NULL || free_offsets == NULL) return false;
  s->dtype = shape->dtype;
  s->rows = which == LHS ? free_count : state->k;
  s->columns = which == LHS ? state->k : free_count;
  s->batch_offsets = batches;
  s->row_offsets = which == LHS ? free_offsets : inner;
  s->column_offsets = which == LHS ? inner : free_offsets;
  s->is_copied = trm_dtype_size(shape->dtype) != state->operand_size * (size_t)state->parts ||
                 !is_even(s->row_offsets, s->rows) || !is_even(s->column_offsets, s->columns);
  if (which == LHS) state->m = free_count;
  else state->n = free_count;
  const size_t bytes = (size_t)(s->rows * s->columns * state->parts) * state->operand_size;
  state->copy_bytes[which] = s->is_copied ? (bytes + 63) & ~(size_t)63 : 0;
  return true;
}

static bool is_integer(trm_dtype dtype) {
  return (dtype >= TRM_S8 && dtype <= TRM_S64) || (dtype >= TRM_U8 && dtype <= TRM_U64);
}

/* Chooses the type of the numbers in the product. */
static bool choose_type(trm_dtype lhs, trm_dtype rhs, dot_state *state) {
  const trm_dtype result = state->dtype;
  state->parts = result == TRM_C64 || result == TRM_C128 ? 2 : 1;
  state->operand_size = state->size = trm_dtype_size(result) / (size_t)state->parts;
  if (is_integer(result) && is_integer(lhs) && is_integer(rhs)) {
    state->is_narrowed = state->size < sizeof(uint32_t);
    if (state->is_narrowed) state->size = sizeof(uint32_t);
    const bool are_bytes = trm_dtype_size(lhs) == 1 && trm_dtype_size(rhs) == 1;
    state->type = state->size == sizeof(uint64_t) ? TRM_DENSE_U64
                  : are_bytes                     ? TRM_DENSE_BYTES
                                                  : TRM_DENSE_U32;
    state->operand_size = state->type == TRM_DENSE_BYTES ? 1 : state->size;
    return true;
  }
  state->type = result == TRM_C64 ? TRM_DENSE_F32 : TRM_DENSE_F64;
  return (result == TRM_F64 || state->parts == 2) && lhs == result && rhs == result;
}

trm_status trm_fast_dot_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                               bool *out_supported, trm_error *error) {
  const trm_dot *dot = request->instruction->dot;
  const trm_shape *lhs = trm_operand_shape(request, LHS), *rhs = trm_operand_shape(request, RHS);
  *out_supported = false;
  dot_state *state = ARENA_NEW(request->arena, dot_state, 1);
  CHECK_MEMORY(state, "a matrix product");
  state->dtype = request->instruction->shape.dtype;
  if (dot == NULL || trm_shape_count(lhs) == 0 || trm_shape_count(rhs) == 0 ||
      !choose_type(lhs->dtype, rhs->dtype, state)) {
    return TRM_OK;
  }
  const bool is_planned = plan_side(request, LHS, &dot->lhs_batch, &dot->lhs_contracting, state) &&
                          plan_side(request, RHS, &dot->rhs_batch, &dot->rhs_contracting, state);
  CHECK_MEMORY(is_planned ? state : NULL, "a matrix product");
  if (state->parts == 2 || state->is_narrowed) {
    const size_t bytes = (size_t)(state->m * state->n * state->parts) * state->size;
    state->sum_bytes = (bytes + 63) & ~(size_t)63;
  }
  state->scratch = state->copy_bytes[LHS] + state->copy_bytes[RHS] + state->sum_bytes;
  const int64_t most = trm_threads_limit();
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = "fast.dot",
      .scratch_bytes = state->scratch * (size_t)(state->batch < most ? state->batch : most),
      .state = state,
      .run = run_dot};
  return TRM_OK;
}

/* Fast kernels of the opcodes that move slices to or from places told by other operands. A slice
 * (or a window of updates) is one move, made with the kernel; a run finds the bases. */
#include <string.h>

#include "ops/data/fast_data.h"
#include "ops/elementwise/strip.h"
#include "ops/threads.h"

static bool is_integer(trm_dtype dtype) {
  return (dtype >= TRM_S8 && dtype <= TRM_S64) || (dtype >= TRM_U8 && dtype <= TRM_U64);
}

/* An index of any integer type; a huge unsigned one stays out of bounds. */
static int64_t load_index(trm_dtype dtype, const void *array, int64_t i) {
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

static int64_t clamp_index(int64_t index, int64_t high) {
  return index < 0 ? 0 : index > high ? high : index;
}

static bool contains(const trm_dims *dims, int64_t dimension) {
  for (int32_t i = 0; i < dims->count; ++i)
    if (dims->items[i] == dimension) return true;
  return false;
}

/* ---- dynamic-slice, dynamic-update-slice ---------------------------------------------------- */

typedef struct slice_state {
  trm_move move;
  size_t bytes; /* of the result, for dynamic-update-slice */
  int32_t rank;
  uint32_t first; /* operand that holds the first start */
  bool is_vector; /* all starts in one operand */
  trm_dtype dtypes[TRM_MAX_RANK];
  int64_t highest[TRM_MAX_RANK], strides[TRM_MAX_RANK];
} slice_state;

static int64_t find_base(const slice_state *state, const trm_kernel_call *call) {
  int64_t base = 0;
  for (int32_t d = 0; d < state->rank; ++d) {
    const void *array = call->operands[state->first + (state->is_vector ? 0 : (uint32_t)d)];
    const int64_t start = load_index(state->dtypes[d], array, state->is_vector ? d : 0);
    base += clamp_index(start, state->highest[d]) * state->strides[d];
  }
  return base;
}

static trm_status run_dynamic_slice(const trm_kernel *kernel, const trm_kernel_call *call,
                                    trm_error *error) {
  (void)error;
  const slice_state *state = kernel->state;
  const int64_t base = find_base(state, call) << state->move.log2_size;
  trm_move_run(&state->move, call->results[0], (const char *)call->operands[0] + base, true);
  return TRM_OK;
}

static trm_status run_dynamic_update_slice(const trm_kernel *kernel, const trm_kernel_call *call,
                                           trm_error *error) {
  (void)error;
  const slice_state *state = kernel->state;
  const int64_t base = find_base(state, call) << state->move.log2_size;
  trm_move_bytes(call->results[0], call->operands[0], state->bytes);
  trm_move_run(&state->move, (char *)call->results[0] + base, call->operands[1], true);
  return TRM_OK;
}

static trm_status create_slice(const trm_kernel_request *request, trm_kernel *out_kernel,
                               bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const bool updates = instruction->opcode == TRM_OP_DYNAMIC_UPDATE_SLICE;
  const trm_shape *large = trm_operand_shape(request, 0);
  const trm_shape *small = updates ? trm_operand_shape(request, 1) : &instruction->shape;
  slice_state *state = ARENA_NEW(request->arena, slice_state, 1);
  CHECK_MEMORY(state, "a data kernel");
  state->bytes = trm_shape_bytes(large);
  state->rank = large->rank;
  state->first = updates ? 2 : 1;
  state->is_vector = instruction->num_operands == state->first + 1 &&
                     trm_operand_shape(request, state->first)->rank == 1;
  if (!state->is_vector && instruction->num_operands != state->first + (uint32_t)large->rank)
    return TRM_OK;
  trm_row_major_strides(large, state->strides);
  int64_t dense[TRM_MAX_RANK];
  trm_row_major_strides(small, dense);
  for (int32_t d = 0; d < large->rank; ++d) {
    state->highest[d] = large->dims[d] - small->dims[d];
    state->dtypes[d] =
        trm_operand_shape(request, state->first + (state->is_vector ? 0 : (uint32_t)d))->dtype;
    if (!is_integer(state->dtypes[d])) return TRM_OK;
  }
  trm_move_make(large->rank, small->dims, updates ? state->strides : dense,
                updates ? dense : state->strides, trm_dtype_size(large->dtype), &state->move);
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = updates ? "fast.dynamic-update-slice" : "fast.dynamic-slice",
                             .in_place_operands = updates ? 1 : 0,
                             .state = state,
                             .run = updates ? run_dynamic_update_slice : run_dynamic_slice};
  return TRM_OK;
}

/* ---- gather and scatter --------------------------------------------------------------------- */

/* What both share: the batch positions, and where in the operand each one's slice starts. */
typedef struct indexed_state {
  trm_move move; /* gather: of one slice */
  int32_t operand_rank, batch_rank, num_indexed;
  trm_dtype index_dtype;
  int64_t num_positions;
  int64_t batch_dims[TRM_MAX_RANK];            /* of the indices without the vector dimension */
  int64_t batch_index_strides[TRM_MAX_RANK];   /* in the indices */
  int64_t batch_other_strides[TRM_MAX_RANK];   /* in the result (gather) or the updates (scatter) */
  int64_t batch_operand_strides[TRM_MAX_RANK]; /* batching dimensions; 0 otherwise */
  int64_t vector_stride;
  int64_t indexed_strides[TRM_MAX_RANK]; /* of the operand, by component of the index vector */
  int64_t indexed_highest[TRM_MAX_RANK];
  bool never_fits;   /* scatter: a window larger than the operand */
  bool is_divisible; /* scatter: threads may share the innermost dimension */
  /* scatter: */
  size_t bytes; /* of the operand */
  trm_function function;
  bool assigns;
  int32_t window_rank; /* dims and strides of the window; the last runs on in both, or is 1 */
  int64_t window_dims[TRM_MAX_RANK + 1], window_operand[TRM_MAX_RANK + 1],
      window_updates[TRM_MAX_RANK + 1];
  int64_t slice_count;
  uint8_t log2_size;
} indexed_state;

/* Fills the parts that gather and scatter share. `others` are the dimensions of the result (or the
 * updates) that are batch dimensions; strides are those of the result (or the updates). */
static bool plan_indices(indexed_state *state, const trm_shape *operand, const trm_shape *indices,
                         const trm_shape *other, const trm_dims *other_window,
                         int64_t vector_dimension, const trm_dims *map,
                         const trm_dims *operand_batching, const trm_dims *indices_batching,
                         const int64_t *slice_sizes) {
  int64_t operand_strides[TRM_MAX_RANK], index_strides[TRM_MAX_RANK], other_strides[TRM_MAX_RANK];
  trm_row_major_strides(operand, operand_strides);
  trm_row_major_strides(indices, index_strides);
  trm_row_major_strides(other, other_strides);
  state->operand_rank = operand->rank;
  state->index_dtype = indices->dtype;
  state->log2_size = (uint8_t)__builtin_ctzll(trm_dtype_size(operand->dtype));
  state->num_positions = 1;
  state->vector_stride = vector_dimension < indices->rank ? index_strides[vector_dimension] : 0;
  int32_t o = 0;
  for (int32_t d = 0; d < indices->rank; ++d) {
    if (d == vector_dimension) continue;
    while (o < other->rank && contains(other_window, o)) ++o;
    if (o == other->rank) return false;
    const int32_t b = state->batch_rank++;
    state->batch_dims[b] = indices->dims[d];
    state->batch_index_strides[b] = index_strides[d];
    state->batch_other_strides[b] = other_strides[o++];
    for (int32_t i = 0; i < operand_batching->count; ++i) {
      if (indices_batching->items[i] == d)
        state->batch_operand_strides[b] = operand_strides[operand_batching->items[i]];
    }
    state->num_positions *= indices->dims[d];
  }
  state->num_indexed = map->count;
  for (int32_t i = 0; i < map->count; ++i) {
    const int64_t d = map->items[i];
    state->indexed_strides[i] = operand_strides[d];
    state->indexed_highest[i] = operand->dims[d] - slice_sizes[d];
  }
  for (int32_t d = 0; d < operand->rank; ++d)
    if (slice_sizes[d] > operand->dims[d]) state->never_fits = true;
  return is_integer(indices->dtype);
}

/* The position's offsets; false when its slice is out of bounds (and clamps is not asked). */
static bool find_position(const indexed_state *state, const void *indices, int64_t position,
                          bool clamps, int64_t *out_operand, int64_t *out_other) {
  int64_t at = 0, operand = 0, other = 0;
  for (int32_t b = state->batch_rank - 1; b >= 0; --b) {
    const int64_t index = position % state->batch_dims[b];
    position /= state->batch_dims[b];
    at += index * state->batch_index_strides[b];
    other += index * state->batch_other_strides[b];
    operand += index * state->batch_operand_strides[b];
  }
  for (int32_t i = 0; i < state->num_indexed; ++i) {
    const int64_t start = load_index(state->index_dtype, indices, at + i * state->vector_stride);
    const int64_t highest = state->indexed_highest[i];
    if (!clamps && (start < 0 || start > highest)) return false;
    operand += clamp_index(start, highest) * state->indexed_strides[i];
  }
  *out_operand = operand;
  *out_other = other;
  return true;
}

typedef struct gather_run {
  const indexed_state *state;
  const trm_kernel_call *call;
} gather_run;

static void gather_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const gather_run *run = context;
  const indexed_state *state = run->state;
  char *result = run->call->results[0];
  const char *operand = run->call->operands[0];
  const bool is_run = state->move.kind == MOVE_RUNS && state->move.outer == 1;
  for (int64_t i = begin; i < end; ++i) {
    int64_t from, to;
    find_position(state, run->call->operands[1], i, true, &from, &to);
    if (is_run)
      memcpy(result + (to << state->log2_size), operand + (from << state->log2_size),
             (size_t)state->move.count << state->log2_size);
    else
      trm_move_run(&state->move, result + (to << state->log2_size),
                   operand + (from << state->log2_size), false);
  }
}

static trm_status run_gather(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  const indexed_state *state = kernel->state;
  const gather_run run = {state, call};
  if (state->move.kind == MOVE_NOTHING || state->num_positions == 0) return TRM_OK;
  const size_t work =
      (size_t)state->num_positions * (((size_t)state->move.count << (state->log2_size + 1)) + 32);
  trm_parallel_ranges(trm_threads_for(work), state->num_positions, gather_range, &run);
  return TRM_OK;
}

static trm_status create_gather(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_gather *gather = instruction->gather;
  const trm_shape *operand = trm_operand_shape(request, 0), *result = &instruction->shape;
  indexed_state *state = ARENA_NEW(request->arena, indexed_state, 1);
  CHECK_MEMORY(state, "a data kernel");
  if (!plan_indices(state, operand, trm_operand_shape(request, 1), result, &gather->offset_dims,
                    gather->index_vector_dim, &gather->start_index_map,
                    &gather->operand_batching_dims, &gather->start_indices_batching_dims,
                    gather->slice_sizes.items) ||
      state->never_fits)
    return TRM_OK;
  int64_t operand_strides[TRM_MAX_RANK], result_strides[TRM_MAX_RANK];
  int64_t dims[TRM_MAX_RANK], to[TRM_MAX_RANK], from[TRM_MAX_RANK];
  trm_row_major_strides(operand, operand_strides);
  trm_row_major_strides(result, result_strides);
  int32_t rank = 0;
  for (int32_t d = 0; d < operand->rank; ++d) {
    if (contains(&gather->collapsed_slice_dims, d) || contains(&gather->operand_batching_dims, d))
      continue;
    if (rank == gather->offset_dims.count) return TRM_OK;
    dims[rank] = gather->slice_sizes.items[d];
    from[rank] = operand_strides[d];
    to[rank] = result_strides[gather->offset_dims.items[rank]];
    ++rank;
  }
  trm_move_make(rank, dims, to, from, trm_dtype_size(operand->dtype), &state->move);
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.gather", .state = state, .run = run_gather};
  return TRM_OK;
}

typedef struct scatter_run {
  const indexed_state *state;
  const trm_kernel_call *call;
} scatter_run;

/* Applies one run of updates. */
static void apply_run(const indexed_state *state, char *operand, const char *updates, int64_t n,
                      void *scratch) {
  if (state->assigns) {
    memcpy(operand, updates, (size_t)n << state->log2_size);
    return;
  }
  const void *args[2] = {operand, updates};
  void *results[1] = {operand};
  trm_function_apply(&state->function, args, results, (size_t)n, scratch);
}

/* A thread does the part [begin, end) of the innermost dimension of all windows, in the order of
 * the positions, so that what is added twice is added in the same order by any number of threads.
 */
static void scatter_range(const void *context, int64_t begin, int64_t end, int thread) {
  const scatter_run *run = context;
  const indexed_state *state = run->state;
  char *scratch = (char *)run->call->scratch +
                  (size_t)thread * ((state->function.scratch_bytes + 63) & ~(size_t)63);
  char *result = run->call->results[0];
  const char *updates = run->call->operands[2];
  const int32_t walked = state->window_rank - 1;
  for (int64_t i = 0; i < state->num_positions; ++i) {
    int64_t to, from, index[TRM_MAX_RANK + 1] = {0};
    if (!find_position(state, run->call->operands[1], i, false, &to, &from)) continue;
    for (bool more = true; more;) {
      apply_run(state, result + ((to + begin) << state->log2_size),
                updates + ((from + begin) << state->log2_size), end - begin, scratch);
      more = false;
      for (int32_t d = walked - 1; d >= 0 && !more; --d) {
        to += state->window_operand[d], from += state->window_updates[d];
        more = ++index[d] < state->window_dims[d];
        if (more) break;
        to -= state->window_dims[d] * state->window_operand[d];
        from -= state->window_dims[d] * state->window_updates[d];
        index[d] = 0;
      }
    }
  }
}

static trm_status run_scatter(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const indexed_state *state = kernel->state;
  trm_move_bytes(call->results[0], call->operands[0], state->bytes);
  if (state->never_fits || state->num_positions == 0 || state->slice_count == 0) return TRM_OK;
  const scatter_run run = {state, call};
  const int64_t inner = state->window_dims[state->window_rank - 1];
  const size_t work = (size_t)(state->num_positions * state->slice_count) << (state->log2_size + 1);
  int threads = state->is_divisible ? trm_threads_for(work) : 1;
  if (inner < 64 * threads) threads = 1;
  trm_parallel_ranges(threads, inner, scatter_range, &run);
  return TRM_OK;
}

/* The window's dimensions, collapsed, the innermost contiguous in operand and updates. */
static void plan_window(indexed_state *state, int32_t rank, const int64_t *dims,
                        const int64_t *operand, const int64_t *updates) {
  int32_t r = 0;
  for (int32_t d = 0; d < rank; ++d) {
    if (dims[d] == 1) continue;
    if (r > 0 && state->window_operand[r - 1] == operand[d] * dims[d] &&
        state->window_updates[r - 1] == updates[d] * dims[d]) {
      --r;
      state->window_dims[r] *= dims[d];
    } else {
      state->window_dims[r] = dims[d];
    }
    state->window_operand[r] = operand[d];
    state->window_updates[r++] = updates[d];
  }
  if (r == 0 || state->window_operand[r - 1] != 1 || state->window_updates[r - 1] != 1) {
    state->window_dims[r] = state->window_operand[r] = state->window_updates[r] = 1;
    ++r;
  }
  state->window_rank = r;
}

/* Whether parts of the innermost dimension of all windows never meet: windows start at multiples of
 * its size, wherever the indices put them. */
static bool is_divisible(const indexed_state *state, const trm_scatter *scatter,
                         const int64_t *operand_strides) {
  const int64_t inner = state->window_dims[state->window_rank - 1];
  if (inner == 0) return false;
  bool divides = true;
  for (int32_t d = 0; d < state->window_rank - 1; ++d)
    divides = divides && state->window_operand[d] % inner == 0;
  const trm_dims *const moved[2] = {&scatter->scatter_dims_to_operand_dims,
                                    &scatter->input_batching_dims};
  for (int k = 0; k < 2; ++k) {
    for (int32_t i = 0; i < moved[k]->count; ++i)
      divides = divides && operand_strides[moved[k]->items[i]] % inner == 0;
  }
  return divides;
}

static trm_status create_scatter(const trm_kernel_request *request, trm_kernel *out_kernel,
                                 bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_scatter *scatter = instruction->scatter;
  if (instruction->num_operands != 3 || instruction->num_called != 1) return TRM_OK;
  const trm_shape *operand = trm_operand_shape(request, 0),
                  *updates = trm_operand_shape(request, 2);
  indexed_state *state = ARENA_NEW(request->arena, indexed_state, 1);
  CHECK_MEMORY(state, "a data kernel");
  int64_t sizes[TRM_MAX_RANK] = {0}, dims[TRM_MAX_RANK], to[TRM_MAX_RANK], from[TRM_MAX_RANK];
  int64_t operand_strides[TRM_MAX_RANK], updates_strides[TRM_MAX_RANK];
  trm_row_major_strides(operand, operand_strides);
  trm_row_major_strides(updates, updates_strides);
  int32_t rank = 0;
  state->slice_count = 1;
  for (int32_t d = 0; d < operand->rank; ++d) {
    sizes[d] = 1;
    if (contains(&scatter->inserted_window_dims, d) || contains(&scatter->input_batching_dims, d))
      continue;
    if (rank == scatter->update_window_dims.count) return TRM_OK;
    const int64_t dimension = scatter->update_window_dims.items[rank];
    sizes[d] = dims[rank] = updates->dims[dimension];
    to[rank] = operand_strides[d];
    from[rank++] = updates_strides[dimension];
    state->slice_count *= sizes[d];
  }
  if (!plan_indices(state, operand, trm_operand_shape(request, 1), updates,
                    &scatter->update_window_dims, scatter->index_vector_dim,
                    &scatter->scatter_dims_to_operand_dims, &scatter->input_batching_dims,
                    &scatter->scatter_indices_batching_dims, sizes))
    return TRM_OK;
  plan_window(state, rank, dims, to, from);
  state->is_divisible = is_divisible(state, scatter, operand_strides);
  state->bytes = trm_shape_bytes(operand);
  const uint32_t called = instruction->called[0];
  const trm_computation *body = &request->module->computations[called];
  const trm_instruction *root = &body->instructions[body->root];
  if (body->num_parameters != 2 || !trm_shape_is_array(&root->shape) ||
      root->shape.dtype != operand->dtype || updates->dtype != operand->dtype)
    return TRM_OK;
  state->assigns = root->opcode == TRM_OP_PARAMETER && root->number == 1;
  if (!state->assigns) {
    bool supported;
    TRY(trm_function_compile(request->module, called, request->arena, &state->function, &supported,
                             error));
    if (!supported) return TRM_OK;
    for (trm_index i = 0; i < 2; ++i)
      if (body->instructions[body->parameters[i]].shape.dtype != operand->dtype) return TRM_OK;
  }
  const size_t scratch = (state->function.scratch_bytes + 63) & ~(size_t)63;
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.scatter",
                             .scratch_bytes = scratch * (size_t)trm_threads_limit(),
                             .in_place_operands = 1,
                             .state = state,
                             .run = run_scatter};
  return TRM_OK;
}

trm_status trm_fast_indexed_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                   bool *out_supported, trm_error *error) {
  *out_supported = false;
  switch (request->instruction->opcode) {
    case TRM_OP_GATHER: return create_gather(request, out_kernel, out_supported, error);
    case TRM_OP_SCATTER: return create_scatter(request, out_kernel, out_supported, error);
    default: return create_slice(request, out_kernel, out_supported, error);
  }
}

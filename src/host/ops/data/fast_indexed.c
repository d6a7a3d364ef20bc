/* Owns: fast kernels of the opcodes that move slices to or from places that other operands state. A
 * slice (or a window of updates) is one move, made with the kernel; a run finds the places. */
#include <string.h>

#include "host/ops/data/fast_data.h"
#include "host/ops/data/fast_positions.h"
#include "host/ops/elementwise/strip.h"
#include "host/ops/threads.h"

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
  uint32_t first; /* the operand with the first start */
  bool is_vector; /* one operand holds all starts */
  trm_dtype dtypes[TRM_MAX_RANK];
  int64_t highest[TRM_MAX_RANK], strides[TRM_MAX_RANK];
} slice_state;

static int64_t find_base(const slice_state *state, const trm_kernel_call *call) {
  int64_t base = 0;
  for (int32_t d = 0; d < state->rank; ++d) {
    const void *array = call->operands[state->first + (state->is_vector ? 0 : (uint32_t)d)];
    const int64_t start = trm_positions_load(state->dtypes[d], array, state->is_vector ? d : 0);
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
    if (!trm_positions_is_integer(state->dtypes[d])) return TRM_OK;
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

typedef struct indexed_state {
  trm_positions positions;
  trm_move move;     /* of gather: one slice */
  bool never_fits;   /* of scatter: a window is larger than the operand */
  bool is_divisible; /* of scatter: threads may share the innermost dimension */
  /* Of scatter: */
  size_t bytes; /* of the operand */
  trm_function function;
  bool assigns;
  /* Does many updates of single elements, in order; NULL: windows are larger. */
  void (*update_elements)(void *operand, const int64_t *to, const void *updates,
                          const int64_t *from, int64_t count);
  /* Of the window, as are dims and strides; the last dimension is contiguous in both, or is 1. */
  int32_t window_rank;
  int64_t window_dims[TRM_MAX_RANK + 1], window_operand[TRM_MAX_RANK + 1],
      window_updates[TRM_MAX_RANK + 1];
  int64_t slice_count;
  uint8_t log2_size;
} indexed_state;

/* Fills the members that gather and scatter share. `others`: the batch dimensions of the result (or
 * the updates); strides are those of the result (or the updates). */
static bool plan_indices(indexed_state *state, const trm_shape *operand, const trm_shape *indices,
                         const trm_shape *other, const trm_dims *other_window,
                         int64_t vector_dimension, const trm_dims *map,
                         const trm_dims *operand_batching, const trm_dims *indices_batching,
                         const int64_t *slice_sizes) {
  int64_t operand_strides[TRM_MAX_RANK], index_strides[TRM_MAX_RANK], other_strides[TRM_MAX_RANK];
  trm_row_major_strides(operand, operand_strides);
  trm_row_major_strides(indices, index_strides);
  trm_row_major_strides(other, other_strides);
  trm_positions *p = &state->positions;
  p->index_dtype = indices->dtype;
  state->log2_size = (uint8_t)__builtin_ctzll(trm_dtype_size(operand->dtype));
  p->count = 1;
  p->vector_stride = vector_dimension < indices->rank ? index_strides[vector_dimension] : 0;
  int32_t o = 0;
  for (int32_t d = 0; d < indices->rank; ++d) {
    if (d == vector_dimension) continue;
    while (o < other->rank && contains(other_window, o)) ++o;
    if (o == other->rank) return false;
    const int32_t b = p->batch_rank++;
    p->batch_dims[b] = indices->dims[d];
    p->batch_index_strides[b] = index_strides[d];
    p->batch_other_strides[b] = other_strides[o++];
    for (int32_t i = 0; i < operand_batching->count; ++i) {
      if (indices_batching->items[i] == d)
        p->batch_operand_strides[b] = operand_strides[operand_batching->items[i]];
    }
    p->count *= indices->dims[d];
  }
  p->num_indexed = map->count;
  for (int32_t i = 0; i < map->count; ++i) {
    const int64_t d = map->items[i];
    p->indexed_strides[i] = operand_strides[d];
    p->indexed_highest[i] = operand->dims[d] - slice_sizes[d];
  }
  trm_positions_collapse(p);
  for (int32_t d = 0; d < operand->rank; ++d)
    if (slice_sizes[d] > operand->dims[d]) state->never_fits = true;
  return trm_positions_is_integer(indices->dtype);
}

typedef struct gather_run {
  const indexed_state *state;
  const trm_kernel_call *call;
} gather_run;

#define COPY_ELEMENTS(E) \
  for (int64_t i = 0; i < count; ++i) ((E *)result)[to[i]] = ((const E *)operand)[from[i]]

/* Copies slices of one element. False for a size without a type. */
static bool copy_elements(uint8_t log2_size, void *result, const int64_t *to, const void *operand,
                          const int64_t *from, int64_t count) {
  switch (log2_size) {
    case 0: COPY_ELEMENTS(uint8_t); return true;
    case 1: COPY_ELEMENTS(uint16_t); return true;
    case 2: COPY_ELEMENTS(uint32_t); return true;
    case 3: COPY_ELEMENTS(uint64_t); return true;
    default: return false;
  }
}

static void gather_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const gather_run *run = context;
  const indexed_state *state = run->state;
  char *result = run->call->results[0];
  const char *operand = run->call->operands[0];
  const bool is_run = state->move.kind == MOVE_RUNS && state->move.outer == 1;
  const bool is_element = is_run && state->move.count == 1;
  if (is_element && trm_positions_gather(&state->positions, state->log2_size, operand,
                                         run->call->operands[1], result, begin, end)) {
    return;
  }
  for (int64_t i = begin; i < end; i += TRM_POSITIONS_AT_ONCE) {
    int64_t from[TRM_POSITIONS_AT_ONCE], to[TRM_POSITIONS_AT_ONCE];
    const int64_t count = end - i < TRM_POSITIONS_AT_ONCE ? end - i : TRM_POSITIONS_AT_ONCE;
    trm_positions_find(&state->positions, run->call->operands[1], i, count, true, from, to);
    if (is_element && copy_elements(state->log2_size, result, to, operand, from, count)) continue;
    for (int64_t k = 0; k < count; ++k) {
      char *const target = result + (to[k] << state->log2_size);
      const char *const source = operand + (from[k] << state->log2_size);
      if (is_run) memcpy(target, source, (size_t)state->move.count << state->log2_size);
      else trm_move_run(&state->move, target, source, false);
    }
  }
}

static trm_status run_gather(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  const indexed_state *state = kernel->state;
  const gather_run run = {state, call};
  if (state->move.kind == MOVE_NOTHING || state->positions.count == 0) return TRM_OK;
  const size_t work =
      (size_t)state->positions.count * (((size_t)state->move.count << (state->log2_size + 1)) + 32);
  trm_parallel_ranges(trm_threads_for(work), state->positions.count, gather_range, &run);
  return TRM_OK;
}

/* Makes the elements of slices that are apart on both sides positions of their own, with the index
 * of their slice: then neighbours in the result are gathered together. */
static void gather_elements(indexed_state *state, int32_t rank, const int64_t *dims,
                            const int64_t *to, const int64_t *from) {
  trm_positions *p = &state->positions;
  if (state->move.kind != MOVE_SCATTERED || rank + p->batch_rank > TRM_MAX_RANK) return;
  for (int32_t b = p->batch_rank - 1; b >= 0; --b) {
    p->batch_dims[rank + b] = p->batch_dims[b];
    p->batch_index_strides[rank + b] = p->batch_index_strides[b];
    p->batch_other_strides[rank + b] = p->batch_other_strides[b];
    p->batch_operand_strides[rank + b] = p->batch_operand_strides[b];
  }
  for (int32_t d = 0; d < rank; ++d) {
    p->batch_dims[d] = dims[d];
    p->batch_index_strides[d] = 0;
    p->batch_other_strides[d] = to[d];
    p->batch_operand_strides[d] = from[d];
  }
  p->batch_rank += rank;
  p->count *= state->move.count;
  trm_move_make(0, NULL, NULL, NULL, (size_t)1 << state->log2_size, &state->move);
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
  gather_elements(state, rank, dims, to, from);
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.gather", .state = state, .run = run_gather};
  return TRM_OK;
}

/* Updates of single elements. A place below 0 is out of bounds. */
#define UPDATE_ELEMENTS(name, E, expression)                                                   \
  static void name(void *operand, const int64_t *to, const void *updates, const int64_t *from, \
                   int64_t count) {                                                            \
    E *const out = operand;                                                                    \
    for (int64_t i = 0; i < count; ++i) {                                                      \
      const E y = ((const E *)updates)[from[i]];                                               \
      if (to[i] < 0) continue;                                                                 \
      const E x = out[to[i]];                                                                  \
      (void)x;                                                                                 \
      out[to[i]] = (E)(expression);                                                            \
    }                                                                                          \
  }
UPDATE_ELEMENTS(set_1, uint8_t, y)
UPDATE_ELEMENTS(set_2, uint16_t, y)
UPDATE_ELEMENTS(set_4, uint32_t, y)
UPDATE_ELEMENTS(set_8, uint64_t, y)
UPDATE_ELEMENTS(add_f32, float, x + y)
UPDATE_ELEMENTS(add_f64, double, x + y)
UPDATE_ELEMENTS(add_u32, uint32_t, x + y)
UPDATE_ELEMENTS(add_u64, uint64_t, x + y)

/* Chooses the function for updates of single elements; NULL: there is none. */
static void choose_update(const trm_computation *body, indexed_state *state) {
  const trm_instruction *root = &body->instructions[body->root];
  static void (*const set[])(void *, const int64_t *, const void *, const int64_t *, int64_t) = {
      set_1, set_2, set_4, set_8};
  if (state->window_rank != 1 || state->window_dims[0] != 1 || state->log2_size > 3) return;
  if (state->assigns) state->update_elements = set[state->log2_size];
  if (root->opcode != TRM_OP_ADD) return;
  const trm_index *const given = root->operands, *const wanted = body->parameters;
  if ((given[0] != wanted[0] || given[1] != wanted[1]) &&
      (given[0] != wanted[1] || given[1] != wanted[0])) {
    return;
  }
  switch (root->shape.dtype) {
    case TRM_F32: state->update_elements = add_f32; break;
    case TRM_F64: state->update_elements = add_f64; break;
    case TRM_S32:
    case TRM_U32: state->update_elements = add_u32; break;
    case TRM_S64:
    case TRM_U64: state->update_elements = add_u64; break;
    default: break;
  }
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

/* The part [begin, end) of the innermost dimension of one window. */
static void scatter_window(const indexed_state *state, char *result, int64_t to,
                           const char *updates, int64_t from, int64_t begin, int64_t end,
                           void *scratch) {
  int64_t index[TRM_MAX_RANK + 1] = {0};
  for (bool more = true; more;) {
    apply_run(state, result + ((to + begin) << state->log2_size),
              updates + ((from + begin) << state->log2_size), end - begin, scratch);
    more = false;
    for (int32_t d = state->window_rank - 2; d >= 0 && !more; --d) {
      to += state->window_operand[d], from += state->window_updates[d];
      more = ++index[d] < state->window_dims[d];
      if (more) break;
      to -= state->window_dims[d] * state->window_operand[d];
      from -= state->window_dims[d] * state->window_updates[d];
      index[d] = 0;
    }
  }
}

/* A thread does the part [begin, end) of the innermost dimension of all windows, in the order of
 * the positions. So every element gets its updates in the same order for any number of threads. */
static void scatter_range(const void *context, int64_t begin, int64_t end, int thread) {
  const scatter_run *run = context;
  const indexed_state *state = run->state;
  char *scratch = (char *)run->call->scratch +
                  (size_t)thread * ((state->function.scratch_bytes + 63) & ~(size_t)63);
  char *result = run->call->results[0];
  const char *updates = run->call->operands[2];
  for (int64_t i = 0; i < state->positions.count; i += TRM_POSITIONS_AT_ONCE) {
    int64_t to[TRM_POSITIONS_AT_ONCE], from[TRM_POSITIONS_AT_ONCE];
    const int64_t remaining = state->positions.count - i;
    const int64_t count = remaining < TRM_POSITIONS_AT_ONCE ? remaining : TRM_POSITIONS_AT_ONCE;
    trm_positions_find(&state->positions, run->call->operands[1], i, count, false, to, from);
    if (state->update_elements != NULL) {
      state->update_elements(result, to, updates, from, count);
      continue;
    }
    for (int64_t k = 0; k < count; ++k) {
      if (to[k] >= 0) scatter_window(state, result, to[k], updates, from[k], begin, end, scratch);
    }
  }
}

static trm_status run_scatter(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const indexed_state *state = kernel->state;
  trm_move_bytes(call->results[0], call->operands[0], state->bytes);
  if (state->never_fits || state->positions.count == 0 || state->slice_count == 0) return TRM_OK;
  const scatter_run run = {state, call};
  const int64_t inner = state->window_dims[state->window_rank - 1];
  const size_t work = (size_t)(state->positions.count * state->slice_count)
                      << (state->log2_size + 1);
  int threads = state->is_divisible ? trm_threads_for(work) : 1;
  if (inner < 64 * threads) threads = 1;
  trm_parallel_ranges(threads, inner, scatter_range, &run);
  return TRM_OK;
}

/* Plans the window: its collapsed dimensions, the innermost contiguous in operand and updates. */
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

/* Whether parts of the innermost dimension of all windows never overlap: windows start at multiples
 * of the dimension's size for all indices. */
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
  for (trm_index i = 0; i < 2; ++i)
    if (body->instructions[body->parameters[i]].shape.dtype != operand->dtype && !state->assigns)
      return TRM_OK;
  choose_update(body, state);
  if (!state->assigns && state->update_elements == NULL) {
    bool supported;
    TRY(trm_function_compile(request->module, called, request->arena, &state->function, &supported,
                             error));
    if (!supported) return TRM_OK;
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

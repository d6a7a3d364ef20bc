/* Fast sort for the comparators that compare one operand's two elements, less or greater, as
 * TensorFlow's sort and top-k have them. Always stable. Keys become integers of the same order;
 * NaNs, which no plain float comparison orders, are merged exactly as the reference does it. */
#include <math.h>
#include <string.h>

#include "ops/reduce/fast.h"
#include "ops/threads.h"

enum { INSERTION = 16 };

typedef struct sort_entry {
  union {
    int64_t key;
    double number;
  };
  int64_t place;
} sort_entry;

typedef struct sort_state {
  uint32_t num_operands, key; /* the operand that is compared */
  trm_dtype dtype;
  bool descends, is_total;
  int64_t n, stride, lines;
  uint8_t log2[REDUCE_MAX_OPERANDS];
  size_t file_bytes;
} sort_state;

typedef struct sort_run {
  const sort_state *state;
  const trm_kernel_call *call;
} sort_run;

static int64_t integer_key(trm_dtype dtype, const void *array, int64_t i) {
  switch (dtype) {
    case TRM_PRED: case TRM_U8: return ((const uint8_t *)array)[i];
    case TRM_S8: return ((const int8_t *)array)[i];
    case TRM_S16: return ((const int16_t *)array)[i];
    case TRM_U16: return ((const uint16_t *)array)[i];
    case TRM_S32: return ((const int32_t *)array)[i];
    case TRM_U32: return ((const uint32_t *)array)[i];
    case TRM_U64: return (int64_t)(((const uint64_t *)array)[i] ^ UINT64_C(1) << 63);
    default: return ((const int64_t *)array)[i];
  }
}

static float float_key(trm_dtype dtype, const void *array, int64_t i) {
  if (dtype == TRM_F32) return ((const float *)array)[i];
  float value;
  trm_vector_ops_get()->half_to_float(&value, (const uint16_t *)array + i, NULL, NULL, 1);
  return value;
}

static int64_t order_of_bits(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits < 0 ? (int64_t)(bits ^ INT32_MAX) : (int64_t)bits;
}

/* Fills the entries of one line; returns whether a NaN makes numbers of them instead of keys. */
static bool load_keys(const sort_state *state, const void *array, int64_t base,
                      sort_entry *entries) {
  const bool is_float = state->dtype == TRM_F32 || state->dtype == TRM_F16;
  bool has_nan = false;
  for (int64_t i = 0; i < state->n; i++) {
    const int64_t at = base + i * state->stride;
    int64_t key;
    if (!is_float) {
      key = integer_key(state->dtype, array, at);
    } else {
      const float value = float_key(state->dtype, array, at);
      if (isnan(value)) has_nan = true;
      key = order_of_bits(state->is_total || value != 0.0f ? value : 0.0f);
    }
    entries[i].key = state->descends ? ~key : key;
    entries[i].place = i;
  }
  if (!has_nan || state->is_total) return false;
  for (int64_t i = 0; i < state->n; i++) {
    const double value = (double)float_key(state->dtype, array, base + i * state->stride);
    entries[i].number = state->descends ? -value : value;
  }
  return true;
}

static void insertion_sort(sort_entry *entries, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    const sort_entry e = entries[i];
    int64_t k = i;
    for (; k > 0 && entries[k - 1].key > e.key; k--) entries[k] = entries[k - 1];
    entries[k] = e;
  }
}

/* Bottom-up merging, from runs of `width`; returns where the result is. */
static sort_entry *merge_runs(sort_entry *from, sort_entry *to, int64_t n, int64_t width,
                              bool is_number) {
  for (; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      const int64_t middle = low + width < n ? low + width : n;
      const int64_t high = low + 2 * width < n ? low + 2 * width : n;
      int64_t a = low, b = middle, i = low;
      if (is_number) {
        while (a < middle && b < high)
          to[i++] = from[b].number < from[a].number ? from[b++] : from[a++];
      } else {
        while (a < middle && b < high) {
          const bool take_b = from[b].key < from[a].key;
          to[i++] = from[take_b ? b : a];
          b += take_b, a += !take_b;
        }
      }
      memcpy(to + i, from + a, (size_t)(middle - a) * sizeof *to);
      i += middle - a;
      memcpy(to + i, from + b, (size_t)(high - b) * sizeof *to);
    }
    sort_entry *const swap = from;
    from = to;
    to = swap;
  }
  return from;
}

#define PLACE(T)                                                                      \
  do {                                                                                \
    for (int64_t i = 0; i < n; i++)                                                   \
      ((T *)result)[base + i * stride] = ((const T *)operand)[base + order[i].place * stride]; \
  } while (0)

static void place_line(const sort_state *state, const trm_kernel_call *call, int64_t base,
                       const sort_entry *order) {
  const int64_t n = state->n, stride = state->stride;
  for (uint32_t k = 0; k < state->num_operands; k++) {
    void *result = call->results[k];
    const void *operand = call->operands[k];
    switch (state->log2[k]) {
      case 0: PLACE(uint8_t); break;
      case 1: PLACE(uint16_t); break;
      case 2: PLACE(uint32_t); break;
      default: PLACE(uint64_t); break;
    }
  }
}

static void sort_range(const void *context, int64_t begin, int64_t end, int thread) {
  const sort_run *run = context;
  const sort_state *state = run->state;
  sort_entry *entries =
      (sort_entry *)(void *)((char *)run->call->scratch + (size_t)thread * state->file_bytes);
  for (int64_t line = begin; line < end; line++) {
    const int64_t base = line / state->stride * state->stride * state->n + line % state->stride;
    const bool is_number = load_keys(state, run->call->operands[state->key], base, entries);
    int64_t width = 1;
    if (!is_number) {
      width = INSERTION;
      for (int64_t i = 0; i < state->n; i += INSERTION)
        insertion_sort(entries + i, state->n - i < INSERTION ? state->n - i : INSERTION);
    }
    place_line(state, run->call, base,
               merge_runs(entries, entries + state->n, state->n, width, is_number));
  }
}

static trm_status run_sort(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const sort_state *state = kernel->state;
  const sort_run run = {state, call};
  if (state->lines == 0) return TRM_OK;
  trm_parallel_ranges(trm_threads_for((size_t)(state->lines * state->n) * 64), state->lines,
                      sort_range, &run);
  return TRM_OK;
}

/* Whether the comparator is p(2k) < p(2k + 1), or >, in either order. */
static bool find_key(const trm_computation *computation, sort_state *state) {
  const trm_instruction *root = &computation->instructions[computation->root];
  if (root->opcode != TRM_OP_COMPARE || computation->num_parameters != 2 * state->num_operands)
    return false;
  const trm_instruction *a = &computation->instructions[root->operands[0]];
  const trm_instruction *b = &computation->instructions[root->operands[1]];
  if (a->opcode != TRM_OP_PARAMETER || b->opcode != TRM_OP_PARAMETER ||
      a->number / 2 != b->number / 2 || a->number == b->number)
    return false;
  if (root->comparison != TRM_CMP_LT && root->comparison != TRM_CMP_GT) return false;
  state->key = (uint32_t)(a->number / 2);
  state->descends = (root->comparison == TRM_CMP_GT) != (a->number > b->number);
  state->is_total = root->comparison_type == TRM_CMPTYPE_TOTALORDER;
  return true;
}

trm_status trm_fast_sort_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *shape = trm_operand_shape(request, 0);
  if (instruction->num_operands < 1 || instruction->num_operands > REDUCE_MAX_OPERANDS ||
      instruction->num_called != 1 || shape->rank == 0 || instruction->dimensions.count != 1)
    return TRM_OK;
  sort_state *state = ARENA_NEW(request->arena, sort_state, 1);
  CHECK_MEMORY(state, "a sort");
  state->num_operands = instruction->num_operands;
  if (!find_key(&request->module->computations[instruction->called[0]], state)) return TRM_OK;
  for (uint32_t k = 0; k < state->num_operands; k++) {
    const size_t size = trm_dtype_size(trm_operand_shape(request, k)->dtype);
    if (size != 1 && size != 2 && size != 4 && size != 8) return TRM_OK;
    state->log2[k] = trm_log2_size(trm_operand_shape(request, k)->dtype);
  }
  state->dtype = trm_operand_shape(request, state->key)->dtype;
  const bool is_key = state->dtype == TRM_F16 || state->dtype == TRM_F32 ||
                      (state->dtype >= TRM_PRED && state->dtype <= TRM_U64);
  if (!is_key) return TRM_OK;
  const int64_t dimension = instruction->dimensions.items[0], count = trm_shape_count(shape);
  state->n = shape->dims[dimension];
  state->stride = 1;
  for (int64_t d = dimension + 1; d < shape->rank; d++) state->stride *= shape->dims[d];
  state->lines = count == 0 ? 0 : count / state->n;
  state->file_bytes = ((size_t)state->n * 2 * sizeof(sort_entry) + 63) & ~(size_t)63;
  const int64_t limit = trm_threads_limit();
  const int64_t threads = state->lines < limit ? state->lines : limit;
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.sort",
                             .scratch_bytes = state->file_bytes * (size_t)threads,
                             .state = state,
                             .run = run_sort};
  return TRM_OK;
}

/* Owns: fast sorts, which are always stable. If the comparator compares keys (sort_keys.h), the
 * keys become unsigned numbers. Few numbers are merged, many are sorted digit by digit, the last
 * key first. Merging by comparisons (sort_merge.c) serves all other comparators, and NaNs among
 * floats without a total order. */
#include <string.h>

#include "hlo/infer.h"
#include "host/ops/reduce/sort_keys.h"
#include "host/ops/reduce/sort_merge.h"
#include "host/ops/threads.h"

enum { INSERTION = 16, MERGED = 512, WIDE_DIGITS = 1 << 15, MAX_DIGITS = 2048 };

/* A key of 64 bits with its place. Narrower keys share one number with their place. */
typedef struct wide_entry {
  union {
    uint64_t key;
    double number;
  };
  uint64_t place;
} wide_entry;

typedef struct sort_state {
  uint32_t num_operands;
  sort_keys keys;
  sort_merge merge; /* of comparators without keys, or with NaNs */
  int64_t n, stride, lines;
  uint8_t log2[REDUCE_MAX_OPERANDS];
  bool carries; /* the values of the single operand travel with the key, so none is looked up */
  size_t file_bytes;
} sort_state;

typedef struct sort_run {
  const sort_state *state;
  const trm_kernel_call *call;
} sort_run;

/* ---- Entries -------------------------------------------------------------------------------- */

static void insertion_sort(uint64_t *entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const uint64_t e = entries[i];
    int64_t k = i;
    for (; k > 0 && entries[k - 1] > e; --k) entries[k] = entries[k - 1];
    entries[k] = e;
  }
}

uint64_t *trm_sort_numbers(uint64_t *from, uint64_t *to, int64_t n) {
  for (int64_t i = 0; i < n; i += INSERTION)
    insertion_sort(from + i, n - i < INSERTION ? n - i : INSERTION);
  for (int64_t width = INSERTION; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      const int64_t middle = low + width < n ? low + width : n;
      const int64_t high = low + 2 * width < n ? low + 2 * width : n;
      int64_t a = low, b = middle, i = low;
      while (a < middle && b < high) {
        const uint64_t x = from[a], y = from[b];
        const bool take_b = y < x;
        to[i++] = take_b ? y : x;
        b += take_b, a += !take_b;
      }
      memcpy(to + i, from + a, (size_t)(middle - a) * sizeof *to);
      i += middle - a;
      memcpy(to + i, from + b, (size_t)(high - b) * sizeof *to);
    }
    uint64_t *const swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* One pass for each digit of the key's bits, from the lowest. It is stable. A digit that is equal
 * in all numbers is only counted. */
#define RADIX(name, T, FIELD)                                                                 \
  static T *name(T *from, T *to, int64_t n, int first_bit, int bits) {                        \
    const int width = n >= WIDE_DIGITS && bits > 16 ? 11 : 8;                                 \
    const uint64_t mask = (UINT64_C(1) << width) - 1;                                         \
    for (int shift = first_bit; shift < first_bit + bits; shift += width) {                   \
      uint32_t counts[MAX_DIGITS] = {0};                                                      \
      for (int64_t i = 0; i < n; ++i) counts[FIELD(from[i]) >> shift & mask]++;               \
      if (counts[FIELD(from[0]) >> shift & mask] == (uint64_t)n) continue;                    \
      uint32_t sum = 0;                                                                       \
      for (uint64_t d = 0; d <= mask; ++d) {                                                  \
        const uint32_t count = counts[d];                                                     \
        counts[d] = sum;                                                                      \
        sum += count;                                                                         \
      }                                                                                       \
      for (int64_t i = 0; i < n; ++i) to[counts[FIELD(from[i]) >> shift & mask]++] = from[i]; \
      T *const swap = from;                                                                   \
      from = to;                                                                              \
      to = swap;                                                                              \
    }                                                                                         \
    return from;                                                                              \
  }
#define NARROW_FIELD(entry) (entry)
#define WIDE_FIELD(entry) ((entry).key)
RADIX(radix_narrow, uint64_t, NARROW_FIELD)
RADIX(radix_wide, wide_entry, WIDE_FIELD)

/* Sorts numbers with NaNs, which have no order, by the same comparisons as the reference kernel.
 * Returns the array with the result. */
static wide_entry *merge_numbers(wide_entry *from, wide_entry *to, int64_t n) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      const int64_t middle = low + width < n ? low + width : n;
      const int64_t high = low + 2 * width < n ? low + 2 * width : n;
      int64_t a = low, b = middle, i = low;
      while (a < middle && b < high) {
        to[i++] = from[b].number < from[a].number ? from[b++] : from[a++];
      }
      memcpy(to + i, from + a, (size_t)(middle - a) * sizeof *to);
      i += middle - a;
      memcpy(to + i, from + b, (size_t)(high - b) * sizeof *to);
    }
    wide_entry *const swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* ---- A line --------------------------------------------------------------------------------- */

/* A thread's scratch for a line of n: keys, two arrays of entries, places, and a column for values
 * of a function. */
typedef struct line_files {
  uint64_t *keys;
  wide_entry *first, *second;
  uint32_t *places;
  void *column, *function;
} line_files;

static size_t align_up(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static size_t layout_files(const sort_state *state, char *base, line_files *out) {
  const size_t n = (size_t)state->n;
  size_t at = 0, function = 0;
  for (uint32_t k = 0; k < state->keys.count; ++k) {
    const size_t bytes = state->keys.keys[k].function.scratch_bytes;
    if (bytes > function) function = bytes;
  }
#define TAKE(field, bytes) out->field = (void *)(base + at), at += align_up(bytes)
  TAKE(keys, n * sizeof(uint64_t));
  TAKE(first, n * sizeof(wide_entry));
  TAKE(second, n * sizeof(wide_entry));
  TAKE(places, n * sizeof(uint32_t));
  TAKE(column, 2 * n * sizeof(uint64_t));
  TAKE(function, function);
#undef TAKE
  return at;
}

/* Values of the key for the line, in the order of places. */
static bool load_keys(const sort_state *state, const sort_key *key, const trm_kernel_call *call,
                      int64_t base, const uint32_t *places, const line_files *files) {
  const void *operand = call->operands[key->operand];
  if (key->kind != SORT_KEY_FUNCTION) {
    return trm_sort_load_keys(key, operand, base, state->stride, places, state->n, files->keys);
  }
  const uint8_t log2 = state->log2[key->operand];
  const void *args[2 * REDUCE_MAX_OPERANDS];
  void *value = (char *)files->column + (size_t)state->n * sizeof(uint64_t);
  for (int64_t i = 0; i < state->n; ++i) {
    const int64_t from = base + (places == NULL ? i : (int64_t)places[i]) * state->stride;
    memcpy((char *)files->column + ((size_t)i << log2),
           (const char *)operand + ((size_t)from << log2), (size_t)1 << log2);
  }
  for (uint32_t p = 0; p < 2 * state->num_operands; ++p) args[p] = files->column;
  trm_function_apply(&key->function, args, &value, (size_t)state->n, files->function);
  return trm_sort_load_keys(key, value, 0, 1, NULL, state->n, files->keys);
}

#define PLACE(T)                                                                        \
  do {                                                                                  \
    const T *const from = (const T *)operand + base;                                    \
    T *const to = (T *)result + base;                                                   \
    for (int64_t i = 0; i < n; ++i) to[i * stride] = from[(int64_t)places[i] * stride]; \
  } while (0)

static void place_line(const sort_state *state, const trm_kernel_call *call, int64_t base,
                       const uint32_t *places) {
  const int64_t n = state->n, stride = state->stride;
  for (uint32_t k = 0; k < state->num_operands; ++k) {
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

/* Sorts by one key of at most 32 bits; *out_places gets the order. */
static uint64_t *sort_narrow(const sort_state *state, const sort_key *key, const line_files *files,
                             const uint32_t *payload) {
  uint64_t *entries = (uint64_t *)(void *)files->first, *other = (uint64_t *)(void *)files->second;
  for (int64_t i = 0; i < state->n; ++i) entries[i] = files->keys[i] << 32 | payload[i];
  if (state->n <= MERGED && !state->carries) return trm_sort_numbers(entries, other, state->n);
  return radix_narrow(entries, other, state->n, 32, trm_sort_key_bits(key));
}

/* Sorts small values of one operand, which are stored with the key. */
static void sort_values(const sort_state *state, const trm_kernel_call *call, int64_t base,
                        const line_files *files) {
  const int64_t n = state->n, stride = state->stride;
#define VALUES(T)                                                                            \
  do {                                                                                       \
    const T *const from = (const T *)call->operands[0] + base;                               \
    T *const to = (T *)call->results[0] + base;                                              \
    for (int64_t i = 0; i < n; ++i) files->places[i] = (uint32_t)from[i * stride];           \
    const uint64_t *sorted = sort_narrow(state, &state->keys.keys[0], files, files->places); \
    for (int64_t i = 0; i < n; ++i) to[i * stride] = (T)sorted[i];                           \
  } while (0)
  switch (state->log2[0]) {
    case 0: VALUES(uint8_t); break;
    case 1: VALUES(uint16_t); break;
    default: VALUES(uint32_t); break;
  }
#undef VALUES
}

static double load_number(trm_dtype dtype, const void *array, int64_t i) {
  float value;
  switch (dtype) {
    case TRM_F64: return ((const double *)array)[i];
    case TRM_F32: return (double)((const float *)array)[i];
    case TRM_BF16: {
      const uint32_t bits = (uint32_t)((const uint16_t *)array)[i] << 16;
      memcpy(&value, &bits, sizeof value);
      return (double)value;
    }
    default:
      trm_vector_ops_get()->half_to_float(&value, (const uint16_t *)array + i, NULL, NULL, 1);
      return (double)value;
  }
}

static void sort_numbers(const sort_state *state, const trm_kernel_call *call, int64_t base,
                         const line_files *files) {
  const sort_key *key = &state->keys.keys[0];
  for (int64_t i = 0; i < state->n; ++i) {
    const double value =
        load_number(key->dtype, call->operands[key->operand], base + i * state->stride);
    files->first[i].number = key->descends ? -value : value;
    files->first[i].place = (uint64_t)i;
  }
  const wide_entry *sorted = merge_numbers(files->first, files->second, state->n);
  for (int64_t i = 0; i < state->n; ++i) files->places[i] = (uint32_t)sorted[i].place;
  place_line(state, call, base, files->places);
}

/* Sorts one line. False: keys that only the comparator can order include a NaN. */
static bool sort_line(const sort_state *state, const trm_kernel_call *call, int64_t base,
                      const line_files *files) {
  uint32_t *places = files->places;
  for (uint32_t k = state->keys.count; k-- > 0;) {
    const sort_key *key = &state->keys.keys[k];
    const bool is_first = k + 1 == state->keys.count;
    if (load_keys(state, key, call, base, is_first ? NULL : places, files)) {
      if (state->keys.count > 1 || key->kind != SORT_KEY_PLAIN) return false;
      sort_numbers(state, call, base, files);
      return true;
    }
    if (state->carries) {
      sort_values(state, call, base, files);
      return true;
    }
    for (int64_t i = 0; is_first && i < state->n; ++i) places[i] = (uint32_t)i;
    if (trm_sort_key_bits(key) <= 32) {
      /* Merging needs distinct entries: numbers of elements instead of places. */
      uint32_t *numbers = (uint32_t *)files->column;
      for (int64_t i = 0; i < state->n; ++i) numbers[i] = (uint32_t)i;
      const uint64_t *sorted = sort_narrow(state, key, files, numbers);
      for (int64_t i = 0; i < state->n; ++i) numbers[i] = places[(uint32_t)sorted[i]];
      memcpy(places, numbers, (size_t)state->n * sizeof *places);
    } else {
      for (int64_t i = 0; i < state->n; ++i) {
        files->first[i] = (wide_entry){{files->keys[i]}, places[i]};
      }
      const wide_entry *sorted = radix_wide(files->first, files->second, state->n, 0, 64);
      for (int64_t i = 0; i < state->n; ++i) places[i] = (uint32_t)sorted[i].place;
    }
  }
  place_line(state, call, base, places);
  return true;
}

static int64_t line_base(const sort_state *state, int64_t line) {
  return line / state->stride * state->stride * state->n + line % state->stride;
}

static void sort_range(const void *context, int64_t begin, int64_t end, int thread) {
  const sort_run *run = context;
  const sort_state *state = run->state;
  char *file = (char *)run->call->scratch + (size_t)thread * state->file_bytes;
  line_files files;
  (void)layout_files(state, file, &files);
  if (state->keys.count == 0) {
    trm_sort_merge_lines(&state->merge, run->call, begin, end, file);
    return;
  }
  for (int64_t line = begin; line < end; ++line) {
    if (!sort_line(state, run->call, line_base(state, line), &files)) {
      trm_sort_merge_lines(&state->merge, run->call, line, line + 1, file);
    }
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

trm_status trm_fast_sort_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *shape = trm_operand_shape(request, 0);
  *out_supported = false;
  if (instruction->num_operands < 1 || instruction->num_operands > REDUCE_MAX_OPERANDS ||
      instruction->num_called != 1 || shape->rank == 0 || instruction->dimensions.count != 1)
    return TRM_OK;
  sort_state *state = ARENA_NEW(request->arena, sort_state, 1);
  CHECK_MEMORY(state, "a sort");
  state->num_operands = instruction->num_operands;
  for (uint32_t k = 0; k < state->num_operands; ++k) {
    const size_t size = trm_dtype_size(trm_operand_shape(request, k)->dtype);
    if (size != 1 && size != 2 && size != 4 && size != 8) return TRM_OK;
    state->log2[k] = trm_log2_size(trm_operand_shape(request, k)->dtype);
  }
  const int64_t dimension = instruction->dimensions.items[0], count = trm_shape_count(shape);
  state->n = shape->dims[dimension];
  if (state->n >= UINT32_MAX) return TRM_OK;
  state->stride = 1;
  for (int64_t d = dimension + 1; d < shape->rank; ++d) state->stride *= shape->dims[d];
  state->lines = count == 0 ? 0 : count / state->n;
  TRY(trm_sort_find_keys(request->module, instruction->called[0], request->arena, &state->keys,
                         error));
  bool merges;
  TRY(trm_sort_merge_create(request, state->n, state->stride, &state->merge, &merges, error));
  bool needs_merge = state->keys.count == 0; /* also for NaNs without an order */
  for (uint32_t k = 0; k < state->keys.count; ++k) {
    const sort_key *key = &state->keys.keys[k];
    needs_merge = needs_merge || (!key->is_total && trm_dtype_is_floating(key->dtype) &&
                                  (state->keys.count > 1 || key->kind != SORT_KEY_PLAIN));
  }
  if (needs_merge && !merges) return TRM_OK;
  state->carries = state->num_operands == 1 && state->keys.count == 1 && state->log2[0] <= 2 &&
                   state->keys.keys[0].kind != SORT_KEY_FUNCTION && state->n > MERGED;
  line_files unused;
  state->file_bytes = layout_files(state, NULL, &unused);
  if (needs_merge && trm_sort_merge_bytes(&state->merge) > state->file_bytes) {
    state->file_bytes = trm_sort_merge_bytes(&state->merge);
  }
  const int64_t limit = trm_threads_limit();
  const int64_t threads = state->lines < limit ? state->lines : limit;
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.sort",
                             .scratch_bytes = state->file_bytes * (size_t)threads,
                             .state = state,
                             .run = run_sort};
  return TRM_OK;
}

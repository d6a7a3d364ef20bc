/* Owns: fast topk of elements of up to 32 bits, along the last dimension; of equal elements the
 * earlier one comes first. A buffer takes the elements that are better than the k-th best so far.
 * Few entries stay sorted; many are sorted when the buffer is full, and the best k are kept. */
#include <string.h>

#include "host/ops/reduce/sort_keys.h"
#include "host/ops/threads.h"

enum { CHUNK = 4096, FEW = 64 };

typedef struct topk_state {
  sort_key key;
  trm_dtype index_type;
  int64_t n, k, lines, capacity; /* of the buffer */
  uint8_t log2;
  size_t file_bytes;
} topk_state;

typedef struct topk_run {
  const topk_state *state;
  const trm_kernel_call *call;
} topk_run;

static void store_line(const topk_state *state, const trm_kernel_call *call, int64_t line,
                       const uint64_t *best) {
  const size_t size = (size_t)1 << state->log2;
  const char *from = (const char *)call->operands[0] + (size_t)(line * state->n) * size;
  char *to = (char *)call->results[0] + (size_t)(line * state->k) * size;
  for (int64_t i = 0; i < state->k; ++i) {
    const uint32_t place = (uint32_t)best[i];
    memcpy(to + (size_t)i * size, from + place * size, size);
    if (state->index_type == TRM_S32) {
      ((int32_t *)call->results[1])[line * state->k + i] = (int32_t)place;
    } else {
      ((int64_t *)call->results[1])[line * state->k + i] = place;
    }
  }
}

/* Inserts the entry into the sorted best ones; the worst goes if there are k. */
static int64_t insert(uint64_t *best, int64_t count, int64_t k, uint64_t entry) {
  int64_t at = count < k ? count++ : k - 1;
  for (; at > 0 && best[at - 1] > entry; --at) best[at] = best[at - 1];
  best[at] = entry;
  return count;
}

static void topk_range(const void *context, int64_t begin, int64_t end, int thread) {
  const topk_run *run = context;
  const topk_state *state = run->state;
  uint64_t *keys =
      (uint64_t *)(void *)((char *)run->call->scratch + (size_t)thread * state->file_bytes);
  for (int64_t line = begin; line < end; ++line) {
    uint64_t *buffer = keys + CHUNK, *other = buffer + state->capacity, worst = UINT64_MAX;
    int64_t count = 0;
    for (int64_t first = 0; first < state->n; first += CHUNK) {
      const int64_t n = state->n - first < CHUNK ? state->n - first : CHUNK;
      (void)trm_sort_load_keys(&state->key, run->call->operands[0], line * state->n + first, 1,
                               NULL, n, keys);
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t entry = keys[i] << 32 | (uint64_t)(first + i);
        if (entry >= worst) continue;
        if (state->k <= FEW) {
          count = insert(buffer, count, state->k, entry);
          if (count == state->k) worst = buffer[count - 1];
          continue;
        }
        buffer[count++] = entry;
        if (count < state->capacity) continue;
        uint64_t *sorted = trm_sort_numbers(buffer, other, count);
        other = sorted == buffer ? other : buffer;
        buffer = sorted;
        count = state->k;
        worst = buffer[count - 1];
      }
    }
    if (state->k > FEW) buffer = trm_sort_numbers(buffer, other, count);
    store_line(state, run->call, line, buffer);
  }
}

static trm_status run_topk(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const topk_state *state = kernel->state;
  const topk_run run = {state, call};
  trm_parallel_ranges(trm_threads_for((size_t)(state->lines * state->n) * 8), state->lines,
                      topk_range, &run);
  return TRM_OK;
}

trm_status trm_fast_topk_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  const trm_shape *operand = trm_operand_shape(request, 0);
  const trm_shape *result = &request->instruction->shape;
  *out_supported = false;
  if (trm_shape_num_leaves(result) != 2 || operand->rank < 1) return TRM_OK;
  const trm_shape *values = trm_shape_leaf(result, 0), *indices = trm_shape_leaf(result, 1);
  const trm_dtype dtype = operand->dtype;
  const int64_t n = operand->dims[operand->rank - 1], k = values->dims[values->rank - 1];
  const bool is_narrow =
      (dtype >= TRM_PRED && dtype <= TRM_F32 && dtype != TRM_S64 && dtype != TRM_U64) ||
      dtype == TRM_BF16;
  if (!is_narrow || (indices->dtype != TRM_S32 && indices->dtype != TRM_S64) || k < 1 || k > n ||
      n >= INT32_MAX || trm_shape_count(values) == 0) {
    return TRM_OK;
  }
  topk_state *state = ARENA_NEW(request->arena, topk_state, 1);
  CHECK_MEMORY(state, "a topk");
  *state = (topk_state){
      .key = {.dtype = dtype, .is_total = true, .descends = request->instruction->largest},
      .index_type = indices->dtype,
      .n = n,
      .k = k,
      .lines = trm_shape_count(operand) / n,
      .capacity = 2 * k < 64 ? 64 : 2 * k,
      .log2 = trm_log2_size(dtype)};
  state->file_bytes = ((size_t)(CHUNK + 2 * state->capacity) * sizeof(uint64_t) + 63) & ~(size_t)63;
  const int64_t limit = trm_threads_limit();
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = "fast.topk",
      .scratch_bytes = state->file_bytes * (size_t)(state->lines < limit ? state->lines : limit),
      .state = state,
      .run = run_topk};
  return TRM_OK;
}

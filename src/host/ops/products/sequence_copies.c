/* Owns: steps of a sequence that widen, round, cut and copy operands. */
#include "host/ops/products/half_arrays.h"
#include "host/ops/products/sequence.h"

typedef struct conversion {
  trm_dtype dtype;
  int64_t count;
} conversion;

static void run_widen(const void *data, const void *a, const void *b, void *out) {
  (void)b;
  const conversion *own = data;
  trm_halves_widen(own->dtype, a, out, own->count);
}

static void run_narrow(const void *data, const void *a, const void *b, void *out) {
  (void)b;
  const conversion *own = data;
  trm_halves_narrow(own->dtype, a, out, own->count);
}

trm_status trm_sequence_add_widen(trm_sequence *sequence, trm_dtype dtype, int64_t count,
                                  bool is_kept, trm_place *place, trm_error *error) {
  if (dtype == TRM_F32) return TRM_OK;
  conversion *own = ARENA_NEW(trm_sequence_arena(sequence), conversion, 1);
  CHECK_MEMORY(own, "a kernel");
  *own = (conversion){dtype, count};
  const size_t bytes = (size_t)count * sizeof(float);
  const trm_place to =
      is_kept ? trm_sequence_persistent(sequence, bytes) : trm_sequence_scratch(sequence, bytes);
  TRY(trm_sequence_add_function(sequence, run_widen, own, *place, *place, to, error));
  *place = to;
  return TRM_OK;
}

trm_status trm_sequence_add_narrow(trm_sequence *sequence, trm_dtype dtype, int64_t count,
                                   trm_place from, trm_error *error) {
  conversion *own = ARENA_NEW(trm_sequence_arena(sequence), conversion, 1);
  CHECK_MEMORY(own, "a kernel");
  *own = (conversion){dtype, count};
  return trm_sequence_add_function(sequence, run_narrow, own, from, from, trm_place_result(0),
                                   error);
}

trm_status trm_sequence_add_split(trm_sequence *sequence, const trm_half_split *split, bool is_kept,
                                  trm_place *place, trm_error *error) {
  const trm_half_split *own = trm_arena_copy(trm_sequence_arena(sequence), split, sizeof *split);
  CHECK_MEMORY(own, "a kernel");
  const size_t bytes = (size_t)trm_half_split_count(split) * sizeof(uint16_t);
  const trm_place to =
      is_kept ? trm_sequence_persistent(sequence, bytes) : trm_sequence_scratch(sequence, bytes);
  TRY(trm_sequence_add_function(sequence, trm_half_split_run, own, *place, *place, to, error));
  *place = to;
  return TRM_OK;
}

static void run_copy(const void *data, const void *a, const void *b, void *out) {
  (void)b;
  const trm_strided_copy *own = data;
  const float *from = (const float *)a + own->from_start;
  float *to = out;
  int64_t index[TRM_STRIDED_COPY_RANK] = {0};
  const int32_t last = own->rank - 1;
  const int64_t count = own->dims[last];
  const int64_t from_stride = own->from_strides[last], to_stride = own->to_strides[last];
  for (;;) {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
    int32_t d = last - 1;
    for (; d >= 0; --d) {
      from += own->from_strides[d];
      to += own->to_strides[d];
      if (++index[d] < own->dims[d]) break;
      from -= own->from_strides[d] * own->dims[d];
      to -= own->to_strides[d] * own->dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

trm_status trm_sequence_add_copy(trm_sequence *sequence, const trm_strided_copy *copy,
                                 trm_place from, trm_place to, trm_error *error) {
  const trm_strided_copy *own = trm_arena_copy(trm_sequence_arena(sequence), copy, sizeof *copy);
  CHECK_MEMORY(own, "a kernel");
  return trm_sequence_add_function(sequence, run_copy, own, from, from, to, error);
}

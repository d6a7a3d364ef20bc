/* Owns: the custom call "tremula.dropout": (x, seed) -> x times a factor for elements that are
 * kept, else zero.
 *
 * The seed alone decides which elements are kept. So the gradient is the same call on the incoming
 * gradient, and no mask is stored. Operands: f16 or f32 of any shape; s32[2] or u32[2], the Philox
 * key, low word first. backend_config {"rate":R,"scale":S,"noise_shape":[...]}: element i of the
 * noise, in row-major order, is word i % 4 of block i / 4, and keeps if it is >= R * 2^32. A noise
 * dimension of 1 serves all of x along it. Without noise_shape the noise has x's shape. */
#include "host/ops/reference.h"

#include <math.h>

#include "base/half.h"
#include "hlo/config.h"
#include "host/ops/random/bits.h"
#include "host/ops/threads.h"

enum { WORDS = TRM_PHILOX_WORDS, SEGMENT = 4096 };

typedef struct dropout {
  trm_dtype dtype;
  uint64_t threshold;
  float scale;
  /* x is cut into rows of `length`, each with consecutive noise words (steps) or one word. */
  int32_t rank; /* of the dimensions outside a row */
  int64_t dims[TRM_MAX_RANK], strides[TRM_MAX_RANK];
  int64_t rows, length, segments;
  bool steps;
} dropout;

typedef struct dropout_run {
  const dropout *state;
  const void *x;
  void *result;
  uint64_t key;
} dropout_run;

static void keep_floats(const dropout *state, const float *x, const uint32_t *words, int64_t count,
                        float *result) {
  for (int64_t i = 0; i < count; ++i) {
    const float kept = x[i] * state->scale;
    result[i] = words[i] >= state->threshold ? kept : 0.0f;
  }
}

static void keep_halves(const dropout *state, const uint16_t *x, const uint32_t *words,
                        int64_t count, uint16_t *result) {
  for (int64_t i = 0; i < count; ++i) {
    result[i] = words[i] >= state->threshold
                    ? trm_float_to_half(trm_half_to_float(x[i]) * state->scale)
                    : 0;
  }
}

static void keep(const dropout_run *run, int64_t at, const uint32_t *words, int64_t count) {
  if (run->state->dtype == TRM_F32) {
    keep_floats(run->state, (const float *)run->x + at, words, count, (float *)run->result + at);
  } else {
    keep_halves(run->state, (const uint16_t *)run->x + at, words, count,
                (uint16_t *)run->result + at);
  }
}

/* The first noise word of a row. */
static uint64_t noise_of_row(const dropout *state, int64_t row) {
  int64_t noise = 0;
  for (int32_t d = state->rank - 1; d >= 0; --d) {
    noise += row % state->dims[d] * state->strides[d];
    row /= state->dims[d];
  }
  return (uint64_t)noise;
}

static void run_segments(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const dropout_run *run = (const dropout_run *)context;
  const dropout *state = run->state;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t row = unit / state->segments, from = unit % state->segments * SEGMENT;
    const int64_t to = from + SEGMENT < state->length ? from + SEGMENT : state->length;
    uint64_t noise = noise_of_row(state, row);
    uint32_t words[WORDS];
    if (!state->steps) {
      uint32_t block[4];
      const uint32_t counter[4] = {(uint32_t)(noise / 4), (uint32_t)(noise / 4 >> 32), 0, 0};
      trm_philox(counter, run->key, block);
      for (int i = 0; i < WORDS; ++i) words[i] = block[noise % 4];
    }
    noise += (uint64_t)from;
    for (int64_t i = from; i < to;) {
      const int64_t skipped = state->steps ? (int64_t)(noise % 4) : 0;
      const int64_t count = to - i < WORDS - skipped ? to - i : WORDS - skipped;
      if (state->steps) trm_philox_lanes(noise / 4, 0, run->key, words);
      keep(run, row * state->length + i, words + skipped, count);
      i += count;
      noise += (uint64_t)count;
    }
  }
}

static trm_status run_dropout(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const dropout *state = (const dropout *)kernel->state;
  uint32_t seed[2];
  memcpy(seed, call->operands[1], sizeof seed);
  const dropout_run run = {state, call->operands[0], call->results[0],
                           (uint64_t)seed[1] << 32 | seed[0]};
  const size_t work = (size_t)(state->rows * state->length) * 16;
  trm_parallel_ranges(trm_threads_for(work), state->rows * state->segments, run_segments, &run);
  return TRM_OK;
}

/* Cuts x into rows. Neighbouring dimensions of the same kind count as one. */
static trm_status cut_rows(dropout *state, const trm_shape *x, const json_t *noise_shape,
                           trm_error *error) {
  if (noise_shape != NULL &&
      (!json_is_array(noise_shape) || json_array_size(noise_shape) != (size_t)x->rank)) {
    FAIL(INVALID_ARGUMENT, "'noise_shape' of tremula.dropout must be a list of %d numbers",
         x->rank);
  }
  int64_t dims[TRM_MAX_RANK], strides[TRM_MAX_RANK], stride = 1;
  int32_t count = 0; /* dimensions, from the innermost */
  for (int32_t d = x->rank - 1; d >= 0; --d) {
    const json_t *noise = noise_shape == NULL ? NULL : json_array_get(noise_shape, (size_t)d);
    const int64_t size = noise == NULL ? x->dims[d] : json_integer_value(noise);
    if (size != x->dims[d] && size != 1) {
      FAIL(INVALID_ARGUMENT, "dimension %d of 'noise_shape' of tremula.dropout must be %lld or 1",
           d, (long long)x->dims[d]);
    }
    if (x->dims[d] == 1) continue;
    const int64_t step = size == 1 ? 0 : stride;
    if (count > 0 && (step != 0) == (strides[count - 1] != 0)) {
      dims[count - 1] *= x->dims[d];
    } else {
      dims[count] = x->dims[d];
      strides[count++] = step;
    }
    stride *= size;
  }
  state->length = count > 0 ? dims[0] : 1;
  state->steps = count > 0 && strides[0] != 0;
  state->segments = (state->length + SEGMENT - 1) / SEGMENT;
  state->rows = 1;
  state->rank = count > 0 ? count - 1 : 0;
  for (int32_t d = 0; d < state->rank; ++d) {
    state->dims[d] = dims[count - 1 - d];
    state->strides[d] = strides[count - 1 - d];
    state->rows *= state->dims[d];
  }
  return TRM_OK;
}

static trm_status read_config(dropout *state, const trm_shape *x, const json_t *config,
                              trm_error *error) {
  const json_t *rate = json_object_get(config, "rate"), *scale = json_object_get(config, "scale");
  if (!json_is_number(rate) || !json_is_number(scale) || !(json_number_value(rate) >= 0.0) ||
      !(json_number_value(rate) <= 1.0)) {
    FAIL(INVALID_ARGUMENT,
         "the backend_config of tremula.dropout must give 'rate', a number from 0 to 1, and "
         "'scale', a number");
  }
  state->threshold = (uint64_t)rint(json_number_value(rate) * 0x1p32);
  state->scale = (float)json_number_value(scale);
  return cut_rows(state, x, json_object_get(config, "noise_shape"), error);
}

trm_status trm_dropout_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                              bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *x = instruction->num_operands == 2 ? trm_operand_shape(request, 0) : NULL;
  const trm_shape *seed = x != NULL ? trm_operand_shape(request, 1) : NULL;
  if (x == NULL || (x->dtype != TRM_F32 && x->dtype != TRM_F16) ||
      !trm_shape_equal(x, &instruction->shape) ||
      (seed->dtype != TRM_S32 && seed->dtype != TRM_U32) || trm_shape_count(seed) != 2) {
    return trm_reference_refuse(request,
                                "tremula.dropout takes an f16 or f32 array and a seed of two "
                                "32-bit integers, and gives an array of the first one's shape",
                                error);
  }
  dropout *state = ARENA_NEW(request->arena, dropout, 1);
  CHECK_MEMORY(state, "a dropout");
  state->dtype = x->dtype;
  json_t *config = trm_instruction_config(instruction, 0, NULL);
  const trm_status status = read_config(state, x, config, error);
  json_decref(config);
  char text[512];
  TRY_NOTE(status, "in %s", trm_instruction_text(request->module, instruction, text, sizeof text));
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = "fast.dropout", .in_place_operands = 1, .state = state, .run = run_dropout};
  return TRM_OK;
}

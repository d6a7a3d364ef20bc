/* Owns: the custom call "tremula.round-half-stochastically": f32 -> f16.
 *
 * A number is rounded up or down with probabilities whose mean is the number. A finite number of at
 * least 65520, which rounding to nearest would make infinite, becomes the value that the module's
 * half_overflow says. The random bits of element i depend only on the seed of the call and i. With
 * backend_config {"alike":true} the seed is equal on all replicas. A second operand, the result of
 * a tremula.random-stream, replaces the stream that the seed makes. */
#include "host/ops/reference.h"

#include <string.h>

#include "base/half.h"
#include "hlo/config.h"
#include "host/ops/random/bits.h"
#include "host/ops/threads.h"

typedef struct round_half {
  int64_t count;
  bool alike, stream_is_operand;
  trm_half_overflow half_overflow;
} round_half;

typedef struct round_half_run {
  const round_half *state;
  const float *x;
  uint16_t *result;
  trm_random_stream stream;
} round_half_run;

/* Rounds a finite number below 65520. */
static uint16_t round_at_random(float value, uint32_t random) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x477fe000u) return (uint16_t)(sign | 0x7bffu); /* 65504 and above */
  if (magnitude >= 0x38800000u) {
    return (uint16_t)(sign | ((magnitude - 0x38000000u + (random & 0x1fffu)) >> 13));
  }
  /* Subnormal: a multiple of 2^-24. The value is mantissa * 2^(exponent - 150). */
  const uint32_t exponent = magnitude >> 23;
  uint64_t mantissa = exponent == 0 ? 0 : (magnitude & 0x7fffffu) | 0x800000u;
  uint32_t drop = 126 - exponent; /* at least 14 */
  if (drop > 32) {
    mantissa = drop - 32 < 64 ? mantissa >> (drop - 32) : 0;
    drop = 32;
  }
  const uint64_t noise = random & ((UINT64_C(1) << drop) - 1);
  return (uint16_t)(sign | ((mantissa + noise) >> drop));
}

static uint16_t round_one(const round_half *state, float value, uint32_t random) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const bool finite = magnitude < 0x7f800000u;
  if (finite && magnitude >= 0x477ff000u) {
    static const uint16_t limits[] = {
        [TRM_HALF_INFINITY] = 0x7c00u, [TRM_HALF_LARGEST] = 0x7bffu, [TRM_HALF_NAN] = 0x7e00u};
    return (uint16_t)((bits >> 16 & 0x8000u) | limits[state->half_overflow]);
  }
  return finite ? round_at_random(value, random) : trm_float_to_half(value);
}

/* `begin` and `end` count blocks of four elements. */
static void run_blocks(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const round_half_run *run = context;
  const int64_t count = run->state->count;
  for (int64_t block = begin; block < end; ++block) {
    uint32_t words[4] = {0};
    trm_random_block(&run->stream, (uint64_t)block, 0, words);
    const int64_t first = 4 * block, last = first + 4 < count ? first + 4 : count;
    for (int64_t i = first; i < last; ++i) {
      run->result[i] = round_one(run->state, run->x[i], words[i - first]);
    }
  }
}

static trm_status run_round_half(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  (void)error;
  const round_half *state = kernel->state;
  const round_half_run run = {
      state, call->operands[0], call->results[0],
      state->stream_is_operand
          ? trm_random_stream_read(call->operands[1])
          : trm_random_stream_make(state->alike ? &call->shared_seed : &call->seed, 1)};
  const size_t work = (size_t)state->count * 24;
  trm_parallel_ranges(trm_threads_for(work), (state->count + 3) / 4, run_blocks, &run);
  return TRM_OK;
}

trm_status trm_round_half_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                 bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const bool has_stream = instruction->num_operands == 2 &&
                          trm_operand_shape(request, 1)->dtype == TRM_U64 &&
                          trm_shape_count(trm_operand_shape(request, 1)) == TRM_STREAM_WORDS;
  const trm_shape *x =
      instruction->num_operands == 1 || has_stream ? trm_operand_shape(request, 0) : NULL;
  if (x == NULL || x->dtype != TRM_F32 || instruction->shape.dtype != TRM_F16 ||
      !trm_shape_same_dims(x, &instruction->shape)) {
    return trm_reference_refuse(
        request, "a rounding takes an f32 array and gives an f16 array of its shape", error);
  }
  round_half *state = ARENA_NEW(request->arena, round_half, 1);
  CHECK_MEMORY(state, "a rounding");
  *state = (round_half){.count = trm_shape_count(x),
                        .half_overflow = request->module->half_overflow,
                        .stream_is_operand = has_stream,
                        .alike = trm_config_is(instruction, "alike", JSON_TRUE)};
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "reference.round-half", .state = state, .run = run_round_half};
  return TRM_OK;
}

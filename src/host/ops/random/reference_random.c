/* Owns: kernels of rng, rng-bit-generator and the custom call "tremula.random". rng-bit-generator
 * gives the bits that XLA gives on a CPU. The other two draw from a stream of the instruction, its
 * seeds and the seed of the call; element i of a result depends on nothing else. */
#include "host/ops/reference.h"

#include "hlo/config.h"
#include "host/ops/random/bits.h"
#include "host/ops/random/distribution.h"

/* ---- rng ------------------------------------------------------------------------------------ */

static trm_status run_rng(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_dtype dtype = state->shape.dtype;
  const uint64_t numbers[2] = {call->seed, (uint64_t)state->instruction.id};
  const trm_random_stream stream = trm_random_stream_make(numbers, 2);
  const bool is_float = trm_dtype_kind(dtype) == TRM_KIND_FLOAT;
  const trm_distribution distribution = state->instruction.distribution == 2 ? TRM_NORMAL
                                        : is_float                           ? TRM_UNIFORM
                                                                             : TRM_UNIFORM_INT;
  trm_distribution_fill(distribution, dtype, trm_value_load(dtype, call->operands[0], 0),
                        trm_value_load(dtype, call->operands[1], 0), &stream, call->results[0],
                        trm_shape_count(&state->shape));
  return TRM_OK;
}

static trm_status create_rng(const trm_kernel_request *request, trm_kernel *out_kernel,
                             trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_kind kind = trm_dtype_kind(instruction->shape.dtype);
  const bool is_normal = instruction->distribution == 2;
  if ((instruction->distribution != 1 && !is_normal) || kind == TRM_KIND_NONE ||
      kind == TRM_KIND_COMPLEX || (is_normal && kind != TRM_KIND_FLOAT) ||
      instruction->num_operands < 2) {
    return trm_reference_refuse(request, "the distribution or its type is not known", error);
  }
  return trm_reference_kernel_create(request, "reference.rng", run_rng, 0, out_kernel, error);
}

/* ---- rng-bit-generator ---------------------------------------------------------------------- */

/* Philox numbers the blocks by a counter of 128 bits: state[1] is its lower half, the upper half is
 * state[2] or, in a state of two, the key. A block gives four 32-bit values or two of 64 bits;
 * narrower values are the low bits of 32-bit ones. */
static void generate_philox(const uint64_t *state, size_t state_count, uint64_t *out_state,
                            trm_dtype dtype, void *result, int64_t count) {
  const bool is_wide = trm_dtype_size(dtype) == 8;
  const int64_t per_block = is_wide ? 2 : 4;
  const uint64_t upper = state_count > 2 ? state[2] : state[0];
  const uint64_t blocks = (uint64_t)((count + per_block - 1) / per_block);
  uint32_t words[4] = {0};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t part = i % per_block;
    if (part == 0) {
      const uint64_t lower = state[1] + (uint64_t)(i / per_block);
      const uint64_t carried = upper + (lower < state[1]);
      const uint32_t counter[4] = {(uint32_t)lower, (uint32_t)(lower >> 32), (uint32_t)carried,
                                   (uint32_t)(carried >> 32)};
      trm_philox(counter, state[0], words);
    }
    trm_value value = {{.u = words[part]}, 0.0};
    if (is_wide) value.u = (uint64_t)words[2 * part + 1] << 32 | words[2 * part];
    trm_value_store(dtype, result, i, value);
  }
  out_state[0] = state[0];
  out_state[1] = state[1] + blocks;
  if (state_count > 2) out_state[2] = state[2] + (out_state[1] < state[1]);
}

/* ThreeFry numbers the blocks by a counter of 64 bits. A block gives one 64-bit value, or two of 32
 * bits that stand side by side in the first dimension of even size; without one, in the longest
 * dimension, whose last pair is cut. */
static void generate_threefry(const uint64_t *state, uint64_t *out_state, const trm_shape *shape,
                              void *result) {
  const bool is_wide = trm_dtype_size(shape->dtype) == 8;
  int32_t split = -1;
  for (int32_t d = 0; d < shape->rank && split < 0; ++d) {
    if (shape->dims[d] % 2 == 0) split = d;
  }
  for (int32_t d = 0; split < 0 && d < shape->rank; ++d) {
    bool is_longest = true;
    for (int32_t e = 0; e < shape->rank; ++e) {
      if (shape->dims[e] > shape->dims[d] || (shape->dims[e] == shape->dims[d] && e < d)) {
        is_longest = false;
      }
    }
    if (is_longest) split = d;
  }
  trm_odometer at;
  trm_odometer_init(&at, shape->rank, shape->dims);
  const int64_t count = trm_shape_count(shape);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    /* The place in an array whose split dimension is cut into two halves. */
    int64_t block = i;
    int64_t part = 0;
    if (!is_wide && shape->rank > 0) {
      block = 0;
      for (int32_t d = 0; d < shape->rank; ++d) {
        const bool halved = d == split;
        if (halved) part = at.index[d] % 2;
        block = block * (halved ? (shape->dims[d] + 1) / 2 : shape->dims[d]) +
                (halved ? at.index[d] / 2 : at.index[d]);
      }
    }
    const uint64_t number = state[1] + (uint64_t)block;
    const uint32_t counter[2] = {(uint32_t)number, (uint32_t)(number >> 32)};
    uint32_t words[2];
    trm_threefry(counter, state[0], words);
    trm_value value = {{.u = words[part]}, 0.0};
    if (is_wide) value.u = (uint64_t)words[1] << 32 | words[0];
    trm_value_store(shape->dtype, result, i, value);
  }
  int64_t blocks = count;
  if (!is_wide && shape->rank > 0 && count > 0) {
    blocks = count / shape->dims[split] * ((shape->dims[split] + 1) / 2);
  }
  out_state[0] = state[0];
  out_state[1] = state[1] + (uint64_t)blocks;
}

static trm_status run_bit_generator(const trm_kernel *kernel, const trm_kernel_call *call,
                                    trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *shape = trm_shape_leaf(&state->shape, 1);
  const size_t state_count = (size_t)trm_shape_count(&state->operands[0]);
  uint64_t before[3], after[3];
  memcpy(before, call->operands[0], state_count * sizeof *before);
  if (state->instruction.algorithm == 1) {
    generate_threefry(before, after, shape, call->results[1]);
  } else {
    generate_philox(before, state_count, after, shape->dtype, call->results[1],
                    trm_shape_count(shape));
  }
  memcpy(call->results[0], after, state_count * sizeof *after);
  return TRM_OK;
}

static trm_status create_bit_generator(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *state = trm_operand_shape(request, 0);
  const int64_t size = trm_shape_count(state);
  const bool is_threefry = instruction->algorithm == 1;
  if (instruction->algorithm < 0 || instruction->algorithm > 2 || state->dtype != TRM_U64 ||
      state->rank != 1 || trm_shape_num_leaves(&instruction->shape) != 2 ||
      (is_threefry ? size != 2 : size != 2 && size != 3) ||
      !trm_kind_is_integer(trm_dtype_kind(trm_shape_leaf(&instruction->shape, 1)->dtype))) {
    return trm_reference_refuse(
        request, "it takes a state u64[2] (Philox also u64[3]) and gives integers", error);
  }
  return trm_reference_kernel_create(request, "reference.rng-bit-generator", run_bit_generator, 0,
                                     out_kernel, error);
}

/* ---- tremula.random ------------------------------------------------------------------------- */

typedef struct random_call {
  trm_distribution distribution;
  uint64_t seed, seed2, id;
  trm_value low, high; /* if they are not operands */
  bool bounds_are_operands;
  bool stream_is_operand; /* the result of a tremula.random-stream */
  bool gives_stream;      /* the call is a tremula.random-stream */
  bool of_rounding;       /* the stream is for a rounding */
  bool alike;             /* and its seed is equal on all replicas */
  trm_dtype dtype;
  int64_t count;
} random_call;

static trm_status check_range(const random_call *state, trm_value low, trm_value high,
                              trm_error *error) {
  if (state->distribution != TRM_UNIFORM_INT) return TRM_OK;
  const bool is_signed = trm_dtype_kind(state->dtype) == TRM_KIND_SIGNED;
  if (is_signed ? low.s < high.s : low.u < high.u) return TRM_OK;
  FAIL(INVALID_ARGUMENT, "random integers need minval < maxval, but minval is %lld and maxval %lld",
       (long long)low.s, (long long)high.s);
}

/* Bounds of integers that are unknown at compile time are two scalar operands. */
static trm_status check_operands(const trm_kernel_request *request, random_call *state,
                                 trm_error *error) {
  const uint32_t count = request->instruction->num_operands;
  const trm_shape *last = count % 2 == 1 ? trm_operand_shape(request, count - 1) : NULL;
  state->stream_is_operand = last != NULL && !state->gives_stream && last->dtype == TRM_U64 &&
                             trm_shape_count(last) == TRM_STREAM_WORDS;
  const uint32_t num_bounds = count - state->stream_is_operand;
  if (num_bounds == 0) return TRM_OK;
  if (state->gives_stream) state->dtype = trm_operand_shape(request, 0)->dtype;
  bool fits = num_bounds == 2;
  for (uint32_t i = 0; i < 2 && fits; ++i) {
    const trm_shape *shape = trm_operand_shape(request, i);
    fits = shape->dtype == state->dtype && shape->rank == 0;
  }
  if (!fits) {
    return trm_reference_refuse(request,
                                "tremula.random takes no operands, or minval and maxval as "
                                "scalars of the result's type, and perhaps a stream",
                                error);
  }
  state->bounds_are_operands = true;
  return TRM_OK;
}

static trm_random_stream stream_of(const random_call *state, const trm_kernel_call *call) {
  const uint64_t numbers[4] = {state->seed, state->seed2, state->id, call->seed};
  if (state->of_rounding) {
    return trm_random_stream_make(state->alike ? &call->shared_seed : &call->seed, 1);
  }
  return state->stream_is_operand
             ? trm_random_stream_read(call->operands[state->bounds_are_operands ? 2 : 0])
             : trm_random_stream_make(numbers, 4);
}

static trm_status read_bounds(const random_call *state, const trm_kernel_call *call,
                              trm_value out_bounds[2], trm_error *error) {
  for (int k = 0; k < 2; ++k) out_bounds[k] = trm_value_load(state->dtype, call->operands[k], 0);
  return check_range(state, out_bounds[0], out_bounds[1], error);
}

static trm_status run_random_stream(const trm_kernel *kernel, const trm_kernel_call *call,
                                    trm_error *error) {
  const random_call *state = kernel->state;
  const trm_random_stream stream = stream_of(state, call);
  const uint64_t words[TRM_STREAM_WORDS] = {stream.key, 0, stream.high};
  trm_value bounds[2];
  if (state->bounds_are_operands) TRY(read_bounds(state, call, bounds, error));
  memcpy(call->results[0], words, sizeof words);
  return TRM_OK;
}

static trm_status run_random_call(const trm_kernel *kernel, const trm_kernel_call *call,
                                  trm_error *error) {
  const random_call *state = (const random_call *)kernel->state;
  const trm_random_stream stream = stream_of(state, call);
  trm_value bounds[2] = {state->low, state->high};
  if (state->bounds_are_operands) TRY(read_bounds(state, call, bounds, error));
  trm_distribution_fill(state->distribution, state->dtype, bounds[0], bounds[1], &stream,
                        call->results[0], state->count);
  return TRM_OK;
}

static trm_status read_bound(const json_t *value, trm_kind kind, const char *key,
                             trm_value *out_bound, trm_error *error) {
  if (kind == TRM_KIND_FLOAT && json_is_number(value)) {
    out_bound->f = json_number_value(value);
  } else if (kind != TRM_KIND_FLOAT && json_is_integer(value)) {
    out_bound->s = json_integer_value(value);
  } else {
    FAIL(INVALID_ARGUMENT, "the backend_config of tremula.random must give '%s' as %s", key,
         kind == TRM_KIND_FLOAT ? "a number" : "an integer");
  }
  return TRM_OK;
}

static trm_status read_member(random_call *state, const char *key, const json_t *value,
                              trm_error *error) {
  const trm_kind kind = trm_dtype_kind(state->dtype);
  const bool is_bound = strcmp(key, "minval") == 0 || strcmp(key, "maxval") == 0;
  if (is_bound && state->gives_stream) return TRM_OK; /* they are the reader's */
  if (strcmp(key, "minval") == 0) return read_bound(value, kind, key, &state->low, error);
  if (strcmp(key, "maxval") == 0) return read_bound(value, kind, key, &state->high, error);
  if (strcmp(key, "distribution") == 0) {
    if (trm_distribution_find(json_string_value(value), &state->distribution)) return TRM_OK;
    FAIL(INVALID_ARGUMENT,
         "the backend_config of tremula.random must give 'distribution' as \"uniform\", "
         "\"normal\", \"truncated_normal\" or \"uniform_int\"");
  }
  uint64_t *number = strcmp(key, "seed") == 0    ? &state->seed
                     : strcmp(key, "seed2") == 0 ? &state->seed2
                     : strcmp(key, "id") == 0    ? &state->id
                                                 : NULL;
  if (number == NULL || !json_is_integer(value)) {
    FAIL(INVALID_ARGUMENT, "the backend_config of tremula.random has %s '%s'",
         number == NULL ? "an unknown key" : "no integer for", key);
  }
  *number = (uint64_t)json_integer_value(value);
  return TRM_OK;
}

static trm_status read_config(random_call *state, json_t *config, trm_error *error) {
  const char *key;
  json_t *value;
  if (json_object_get(config, "distribution") == NULL) {
    FAIL(INVALID_ARGUMENT, "the backend_config of tremula.random names no 'distribution'");
  }
  json_object_foreach(config, key, value) TRY(read_member(state, key, value, error));
  const bool given = json_object_get(config, "minval") != NULL;
  if (given && state->bounds_are_operands) {
    FAIL(INVALID_ARGUMENT, "tremula.random is given its bounds twice, as operands and in its "
                           "backend_config");
  }
  if (state->gives_stream) return TRM_OK;
  if (given && json_object_get(config, "maxval") != NULL)
    TRY(check_range(state, state->low, state->high, error));
  const bool is_float = trm_dtype_kind(state->dtype) == TRM_KIND_FLOAT;
  if (is_float != (state->distribution != TRM_UNIFORM_INT)) {
    FAIL(INVALID_ARGUMENT,
         "tremula.random gives %s, but its distribution is for %s; use \"uniform_int\" for "
         "integers and the others for floats",
         trm_dtype_name(state->dtype), is_float ? "integers" : "floats");
  }
  return TRM_OK;
}

static trm_status create_random_call(const trm_kernel_request *request, trm_kernel *out_kernel,
                                     trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_kind kind = trm_dtype_kind(instruction->shape.dtype);
  if (kind != TRM_KIND_FLOAT && !trm_kind_is_integer(kind)) {
    return trm_reference_refuse(request, "tremula.random gives floats and integers", error);
  }
  random_call *state = ARENA_NEW(request->arena, random_call, 1);
  CHECK_MEMORY(state, "random numbers");
  state->dtype = instruction->shape.dtype;
  state->count = trm_shape_count(&instruction->shape);
  state->gives_stream = instruction->call_id == TRM_CALL_RANDOM_STREAM;
  state->of_rounding =
      state->gives_stream && !trm_config_is(instruction, "distribution", JSON_STRING);
  state->alike = trm_config_is(instruction, "alike", JSON_TRUE);
  if (state->gives_stream && (state->dtype != TRM_U64 || state->count != TRM_STREAM_WORDS)) {
    return trm_reference_refuse(request, "tremula.random-stream gives u64[3]", error);
  }
  if (kind == TRM_KIND_FLOAT) state->high.f = 1.0; /* [0, 1), or mean 0 and deviation 1 */
  TRY(check_operands(request, state, error));
  json_error_t problem;
  json_t *config = trm_instruction_config(instruction, 0, &problem);
  if (!json_is_object(config)) {
    json_decref(config);
    FAIL(INVALID_ARGUMENT, "the backend_config of tremula.random is not a JSON object: %s",
         problem.text);
  }
  const trm_status status = state->of_rounding ? TRM_OK : read_config(state, config, error);
  json_decref(config);
  char text[512];
  TRY_NOTE(status, "in %s", trm_instruction_text(request->module, instruction, text, sizeof text));
  memset(out_kernel, 0, sizeof *out_kernel);
  out_kernel->name = "reference.random";
  out_kernel->state = state;
  out_kernel->run = state->gives_stream ? run_random_stream : run_random_call;
  return TRM_OK;
}

trm_status trm_reference_random_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_supported = true;
  switch (instruction->opcode) {
    case TRM_OP_RNG: return create_rng(request, out_kernel, error);
    case TRM_OP_RNG_BIT_GENERATOR: return create_bit_generator(request, out_kernel, error);
    default: return create_random_call(request, out_kernel, error);
  }
}

/* Owns: dropout, random numbers and stochastic rounding (ops/random: dropout.c, distribution.c,
 * round_half.c), statistics of batch norms, and TensorFlow's casts to integers, as plain HLO. */
#include "passes/lower.h"

#include <math.h>
#include <string.h>

#include "hlo/config.h"
#include "host/ops/random/distribution.h"
#include "passes/maker.h"
#include "passes/pass.h"

/* Random bits of Philox as u32 or u64, in order. The stream, u64[3], is a key and the number of the
 * first block, whose lower half comes first. */
static trm_index random_bits(trm_maker *m, trm_shape shape, trm_index stream) {
  enum { PHILOX = 2 };
  const trm_shape pair = trm_make_tuple_shape(m, 2, (trm_shape[]){trm_shape_at(m, stream), shape});
  return trm_element(m,
                     trm_make(m, &(trm_instruction){.opcode = TRM_OP_RNG_BIT_GENERATOR,
                                                    .shape = pair,
                                                    .num_operands = 1,
                                                    .operands = &stream,
                                                    .algorithm = PHILOX}),
                     1);
}

/* ---- Dropout -------------------------------------------------------------------------------- */

/* The noise for all of x. Along a dimension in which the noise has size 1, one word serves all
 * elements. */
static trm_index noise_for(trm_maker *m, const trm_shape *x, const json_t *noise_shape,
                           trm_index stream) {
  int64_t dims[TRM_MAX_RANK], along[TRM_MAX_RANK];
  int32_t rank = 0;
  for (int32_t d = 0; d < x->rank; ++d) {
    const json_t *noise = json_array_get(noise_shape, (size_t)d);
    if (noise != NULL && json_integer_value(noise) == 1 && x->dims[d] != 1) continue;
    dims[rank] = x->dims[d];
    along[rank++] = d;
  }
  const trm_index noise = random_bits(m, trm_make_shape(m, TRM_U32, rank, dims), stream);
  if (rank == x->rank) return noise;
  return trm_broadcast(m, trm_shape_as(*x, TRM_U32), noise, (trm_dims){rank, along});
}

/* The stream of a key of two words of 32 bits. */
static trm_index stream_of(trm_maker *m, trm_index key) {
  const trm_shape pair = trm_make_shape(m, trm_shape_at(m, key).dtype, 2, (int64_t[]){1, 2});
  key = trm_recast(m, TRM_OP_RESHAPE, pair, key);
  key = trm_recast(m, TRM_OP_BITCAST_CONVERT, trm_make_shape(m, TRM_U64, 1, (int64_t[]){1}), key);
  const trm_index zeros = trm_filled(m, trm_make_shape(m, TRM_U64, 1, (int64_t[]){2}), 0);
  return trm_concatenate(m, (trm_index[]){key, zeros}, 2);
}

static trm_index lower_dropout(trm_maker *m, const trm_instruction *call) {
  json_t *config = trm_instruction_config(call, 0, NULL);
  const double rate = json_number_value(json_object_get(config, "rate"));
  const float scale = (float)json_number_value(json_object_get(config, "scale"));
  const trm_index noise = noise_for(m, &call->shape, json_object_get(config, "noise_shape"),
                                    stream_of(m, call->operands[1]));
  json_decref(config);
  const trm_index kept =
      trm_compare(m, trm_convert(m, TRM_U64, noise), TRM_CMP_GE, rint(rate * 0x1p32));
  const trm_index x = trm_convert(m, TRM_F32, call->operands[0]);
  const trm_index scaled = trm_with(m, TRM_OP_MULTIPLY, x, (double)scale);
  const trm_index zeros = trm_filled(m, trm_shape_at(m, x), 0);
  return trm_convert(m, call->shape.dtype, trm_select(m, kept, scaled, zeros));
}

/* ---- Random numbers ------------------------------------------------------------------------- */

/* What a tremula.random draws. */
typedef struct draw {
  trm_distribution kind;
  double low, high; /* of integers, if they are no operands */
} draw;

/* Whether that is floats from 0 to 1 or with mean 0 and deviation 1, as TensorFlow and Keras want
 * them, or integers whose bounds a double holds. */
static bool is_plain(const trm_instruction *call, draw *out) {
  const trm_dtype dtype = call->shape.dtype;
  json_t *config = trm_instruction_config(call, 0, NULL);
  const char *name = json_string_value(json_object_get(config, "distribution"));
  const json_t *low = json_object_get(config, "minval"), *high = json_object_get(config, "maxval");
  const bool is_narrow = dtype == TRM_F32 || dtype == TRM_F16 || dtype == TRM_BF16;
  const bool is_known = trm_distribution_find(name, &out->kind);
  const bool is_integer = is_known && out->kind == TRM_UNIFORM_INT;
  out->low = json_number_value(low);
  out->high = high != NULL || is_integer ? json_number_value(high) : 1;
  json_decref(config);
  return is_integer ? fabs(out->low) < 0x1p53 && fabs(out->high) < 0x1p53
                    : is_known && is_narrow && out->low == 0 && out->high == 1;
}

/* The upper bits of words as float32 numbers, times `unit`; `more` is added to them before. */
static trm_index upper_bits(trm_maker *m, trm_index words, int dropped, double more, double unit) {
  trm_index upper = trm_with(m, TRM_OP_SHIFT_RIGHT_LOGICAL, words, dropped);
  if (more != 0) upper = trm_with(m, TRM_OP_ADD, upper, more);
  return trm_with(m, TRM_OP_MULTIPLY, trm_convert(m, TRM_F32, upper), unit);
}

/* Box and Muller's normal numbers of two words each. */
static trm_index normal_numbers(trm_maker *m, trm_index words) {
  const float turn = 6.28318530717958647692f * 0x1p-24f;
  const trm_index high = trm_with(m, TRM_OP_SHIFT_RIGHT_LOGICAL, words, 32);
  const trm_index radius = upper_bits(m, trm_convert(m, TRM_U32, words), 8, 1, 0x1p-24);
  const trm_index angle = upper_bits(m, trm_convert(m, TRM_U32, high), 8, 0, (double)turn);
  const trm_index square = trm_with(m, TRM_OP_MULTIPLY, trm_unary(m, TRM_OP_LOG, radius), -2);
  return trm_binary(m, TRM_OP_MULTIPLY, trm_unary(m, TRM_OP_SQRT, square),
                    trm_unary(m, TRM_OP_COSINE, angle));
}

/* x where it is nearer than two deviations to the mean, else y. */
static trm_index near_or(trm_maker *m, trm_index x, trm_index y) {
  return trm_select(m, trm_compare(m, trm_unary(m, TRM_OP_ABS, x), TRM_CMP_LT, 2), x, y);
}

/* The state of the loop that draws truncated normal numbers: the numbers so far, f32[n,1], 2 where
 * there is none, and the stream. */
enum { NUMBERS, STREAM, STATE };

/* One more variant of the blocks (trm_random_block): two candidates for each number. */
static uint32_t next_candidates(trm_maker *outer, trm_shape state) {
  trm_subcomputation sub;
  trm_maker *m = trm_subcomputation_begin(outer, &sub, 1, &state);
  const trm_index numbers = trm_element(m, 0, NUMBERS), stream = trm_element(m, 0, STREAM);
  const int64_t dims[] = {trm_shape_count(&state.elements[NUMBERS]), 2};
  const trm_shape pairs = trm_make_shape(m, TRM_U64, 2, dims);
  const trm_index drawn = normal_numbers(m, random_bits(m, pairs, stream));
  const trm_index other =
      near_or(m, trm_slice_last(m, drawn, 0, 1), trm_slice_last(m, drawn, 1, 2));
  const trm_shape word = trm_make_shape(m, TRM_U64, 1, (int64_t[]){1});
  const trm_index zero = trm_filled(m, word, 0), step = trm_filled(m, word, 0x1p48);
  const trm_index steps = trm_concatenate(m, (trm_index[]){zero, step, zero}, 3);
  const trm_index next[] = {near_or(m, numbers, other), trm_binary(m, TRM_OP_ADD, stream, steps)};
  return trm_subcomputation_end(outer, &sub, trm_tuple(m, state, next));
}

static uint32_t is_one_missing(trm_maker *outer, trm_shape state) {
  trm_subcomputation sub;
  trm_maker *m = trm_subcomputation_begin(outer, &sub, 1, &state);
  const trm_index sizes = trm_unary(m, TRM_OP_ABS, trm_element(m, 0, NUMBERS));
  const trm_index largest = trm_reduce(m, TRM_OP_MAXIMUM, sizes, -1);
  return trm_subcomputation_end(outer, &sub, trm_compare(m, largest, TRM_CMP_GE, 2));
}

static trm_index truncated_numbers(trm_maker *m, int64_t count, trm_index stream) {
  const trm_shape numbers = trm_make_shape(m, TRM_F32, 2, (int64_t[]){count, 1});
  const trm_shape state =
      trm_make_tuple_shape(m, STATE, (trm_shape[]){numbers, trm_shape_at(m, stream)});
  const trm_index first = trm_tuple(m, state, (trm_index[]){trm_filled(m, numbers, 2), stream});
  uint32_t called[] = {is_one_missing(m, state), next_candidates(m, state)};
  return trm_element(m, trm_while(m, state, first, called), NUMBERS);
}

/* A bound of integers in 64 bits, as an array. */
static trm_index bound(trm_maker *m, const trm_instruction *call, uint32_t k, double number) {
  const trm_shape wide = trm_shape_as(call->shape, TRM_U64);
  if (call->num_operands == 1) return trm_filled(m, wide, number);
  const bool is_signed = trm_dtype_kind(call->shape.dtype) == TRM_KIND_SIGNED;
  const trm_index x = trm_convert(m, is_signed ? TRM_S64 : TRM_U64, call->operands[k]);
  return trm_broadcast(m, wide, trm_convert(m, TRM_U64, x), (trm_dims){0});
}

/* low + bits % (high - low); where both are equal, all bits. */
static trm_index integers(trm_maker *m, const trm_instruction *call, draw d, trm_index bits) {
  if (call->num_operands == 1 && d.low == d.high) return bits;
  const trm_index low = bound(m, call, 0, d.low);
  const trm_index range = trm_binary(m, TRM_OP_SUBTRACT, bound(m, call, 1, d.high), low);
  return trm_binary(m, TRM_OP_ADD, trm_binary(m, TRM_OP_REMAINDER, bits, range), low);
}

static trm_index lower_random(trm_maker *m, const trm_instruction *call) {
  static const int dropped[] = {[TRM_F32] = 9, [TRM_F16] = 22, [TRM_BF16] = 25};
  const trm_dtype dtype = call->shape.dtype;
  const trm_index stream = call->operands[call->num_operands - 1];
  draw d;
  trm_index made;
  is_plain(call, &d); /* trm_can_lower says so */
  if (d.kind == TRM_TRUNCATED_NORMAL) {
    made = truncated_numbers(m, trm_shape_count(&call->shape), stream);
    made = trm_recast(m, TRM_OP_RESHAPE, trm_shape_as(call->shape, TRM_F32), made);
  } else {
    made = random_bits(m, trm_shape_as(call->shape, TRM_U64), stream);
    if (d.kind == TRM_UNIFORM_INT) made = integers(m, call, d, made);
    else if (d.kind == TRM_NORMAL) made = normal_numbers(m, made);
    else {
      made = upper_bits(m, trm_convert(m, TRM_U32, made), dropped[dtype], 0,
                        ldexp(1, dropped[dtype] - 32));
    }
  }
  return trm_convert(m, dtype, made);
}

/* ---- Stochastic rounding -------------------------------------------------------------------- */

/* The rounded half of a finite number below 65504: its bits, or its mantissa below 2^-14, lose
 * `dropped` bits. Noise is added to these, of which there may be 32, before. */
static trm_index round_at_random(trm_maker *m, trm_index magnitude, trm_index random) {
  const trm_shape words = trm_shape_at(m, magnitude);
  const trm_index exponent = trm_with(m, TRM_OP_SHIFT_RIGHT_LOGICAL, magnitude, 23);
  const trm_index is_normal = trm_compare(m, magnitude, TRM_CMP_GE, 0x38800000);
  const trm_index low = trm_with(m, TRM_OP_AND, magnitude, 0x7fffff);
  const trm_index mantissa =
      trm_select(m, trm_compare(m, exponent, TRM_CMP_GE, 1), trm_with(m, TRM_OP_OR, low, 0x800000),
                 trm_filled(m, words, 0));
  const trm_index rest = trm_with(m, TRM_OP_SUBTRACT, magnitude, 0x38000000);
  const trm_index small = trm_binary(m, TRM_OP_SUBTRACT, trm_filled(m, words, 126), exponent);
  const trm_index dropped = trm_select(m, is_normal, trm_filled(m, words, 13), small);
  const trm_index all = trm_convert(m, TRM_U64, trm_select(m, is_normal, rest, mantissa));
  const trm_index value =
      trm_binary(m, TRM_OP_SHIFT_RIGHT_LOGICAL, trm_with(m, TRM_OP_SHIFT_LEFT, all, 32),
                 trm_convert(m, TRM_U64, dropped));
  const trm_index unused = trm_binary(m, TRM_OP_SUBTRACT, trm_filled(m, words, 32),
                                      trm_with(m, TRM_OP_MINIMUM, dropped, 32));
  const trm_index noise = trm_binary(m, TRM_OP_SHIFT_LEFT, random, unused);
  const trm_index sum = trm_binary(m, TRM_OP_ADD, value, trm_convert(m, TRM_U64, noise));
  return trm_convert(m, TRM_U32, trm_with(m, TRM_OP_SHIFT_RIGHT_LOGICAL, sum, 32));
}

static trm_index lower_rounding(trm_maker *m, const trm_instruction *call) {
  static const uint16_t overflow[] = {
      [TRM_HALF_INFINITY] = 0x7c00, [TRM_HALF_LARGEST] = 0x7bff, [TRM_HALF_NAN] = 0x7e00};
  const struct {
    double least;                   /* bits of a float32 */
    double half;                    /* what it becomes from there on */
  } rows[] = {{0x477fe000, 0x7bff}, /* 65504 */
              {0x477ff000, overflow[m->edit->module->half_overflow]},
              {0x7f800000, 0x7c00}};
  const trm_shape words = trm_shape_as(call->shape, TRM_U32);
  const trm_index random = random_bits(m, words, call->operands[1]);
  const trm_index bits = trm_recast(m, TRM_OP_BITCAST_CONVERT, words, call->operands[0]);
  const trm_index magnitude = trm_with(m, TRM_OP_AND, bits, 0x7fffffff);
  const trm_index upper = trm_with(m, TRM_OP_SHIFT_RIGHT_LOGICAL, magnitude, 13);
  const trm_index nan = trm_with(m, TRM_OP_OR, trm_with(m, TRM_OP_AND, upper, 0x3ff), 0x7e00);
  trm_index half = round_at_random(m, magnitude, random);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
    half = trm_select(m, trm_compare(m, magnitude, TRM_CMP_GE, rows[k].least),
                      trm_filled(m, words, rows[k].half), half);
  }
  half = trm_select(m, trm_compare(m, magnitude, TRM_CMP_GT, 0x7f800000), nan, half);
  const trm_index sign =
      trm_with(m, TRM_OP_AND, trm_with(m, TRM_OP_SHIFT_RIGHT_LOGICAL, bits, 16), 0x8000);
  half = trm_convert(m, TRM_U16, trm_binary(m, TRM_OP_OR, half, sign));
  return trm_recast(m, TRM_OP_BITCAST_CONVERT, trm_shape_as(call->shape, TRM_F16), half);
}

/* ---- Batch norms ---------------------------------------------------------------------------- */

/* The mean and the variance of x for each feature, or the gradients of scale and offset. */
static trm_index lower_statistics(trm_maker *m, const trm_instruction *call) {
  json_t *config = trm_instruction_config(call, 0, NULL);
  const int64_t feature = json_integer_value(json_object_get(config, "feature_index"));
  const double epsilon = json_number_value(json_object_get(config, "epsilon"));
  const int32_t kept = (int32_t)feature;
  const bool is_gradient = call->call_id == TRM_CALL_BATCH_NORM_GRADIENT_STATISTICS;
  json_decref(config);
  trm_index in[5], results[2];
  for (uint32_t k = 0; k < call->num_operands; ++k) {
    in[k] = trm_convert(m, TRM_F32, call->operands[k]);
  }
  const trm_shape whole = trm_shape_at(m, in[0]);
  const int64_t size = whole.dims[feature];
  const double share = size == 0 ? 0 : (double)size / (double)trm_shape_count(&whole);
  const trm_index sum = is_gradient ? in[2] : trm_reduce(m, TRM_OP_ADD, in[0], kept);
  const trm_index mean = is_gradient ? sum : trm_with(m, TRM_OP_MULTIPLY, sum, share);
  const trm_index wide = trm_broadcast(m, whole, mean, (trm_dims){1, (int64_t *)&feature});
  const trm_index off = trm_binary(m, TRM_OP_SUBTRACT, in[0], wide);
  const trm_index product = trm_binary(m, TRM_OP_MULTIPLY, off, is_gradient ? in[4] : off);
  const trm_index all = trm_reduce(m, TRM_OP_ADD, product, kept);
  if (is_gradient) {
    const trm_index variance = trm_with(m, TRM_OP_ADD, in[3], epsilon);
    results[0] = trm_binary(m, TRM_OP_MULTIPLY, all, trm_unary(m, TRM_OP_RSQRT, variance));
    results[1] = trm_reduce(m, TRM_OP_ADD, in[4], kept);
  } else {
    results[0] = mean;
    results[1] = trm_with(m, TRM_OP_MULTIPLY, all, share);
  }
  return trm_tuple(m, call->shape, results);
}

/* ---- Streams -------------------------------------------------------------------------------- */

static const char *const engine_seeds[] = {TRM_STAYS, "the engine seeds random numbers", NULL};

/* Whether the call is one that the engine seeds, and that can be lowered with a stream. The stream
 * is the last operand, behind one of a rounding, and behind none or two bounds. */
static bool takes_stream(const trm_instruction *call, bool has_one) {
  draw d;
  if (trm_shape_count(&call->shape) == 0) return false;
  return call->call_id == TRM_CALL_RANDOM
             ? call->num_operands % 2 == has_one && is_plain(call, &d)
             : call->call_id == TRM_CALL_ROUND_HALF && call->num_operands == 1u + has_one;
}

/* The same custom call by another target, without effects. */
static trm_custom_call *call_of(trm_maker *m, const trm_instruction *like, trm_call_id id) {
  trm_custom_call *call = trm_keep(m, like->custom_call, sizeof *call);
  if (call != NULL) call->target = trm_call_target(id), call->has_side_effect = false;
  return call;
}

/* The engine makes the stream of the call's id, and checks bounds that are operands. */
static trm_index stream_for(trm_maker *m, trm_index i) {
  trm_instruction stream = *trm_edit_at(m->edit, i);
  m->like = i;
  if (stream.call_id == TRM_CALL_ROUND_HALF) stream.num_operands = 0;
  stream.custom_call = call_of(m, &stream, TRM_CALL_RANDOM_STREAM);
  stream.num_control_predecessors = 0;
  stream.shape = trm_make_shape(m, TRM_U64, 1, (int64_t[]){TRM_STREAM_WORDS});
  stream.frontend_attributes = engine_seeds;
  const trm_index made = trm_make(m, &stream);
  if (m->status != TRM_OK) return 0;
  const int64_t id = trm_edit_at(m->edit, i)->id;
  trm_edit_at(m->edit, i)->id = trm_edit_at(m->edit, made)->id;
  trm_edit_at(m->edit, made)->id = id;
  return made;
}

static void give_stream(trm_maker *m, trm_index i, trm_index streams, uint32_t k) {
  trm_instruction call = *trm_edit_at(m->edit, i);
  trm_index operands[3];
  m->like = i;
  if (call.num_operands > 0) memcpy(operands, call.operands, call.num_operands * sizeof *operands);
  operands[call.num_operands++] =
      trm_slice_last(m, streams, TRM_STREAM_WORDS * k, TRM_STREAM_WORDS * (k + 1));
  call.custom_call = call_of(m, &call, call.call_id);
  call.operands = operands;
  const trm_index made = trm_make(m, &call);
  if (m->status == TRM_OK) trm_edit_replace(m->edit, i, made);
}

trm_status trm_split_random(trm_module *module, uint32_t computation, trm_error *error) {
  const uint32_t count = module->computations[computation].num_instructions;
  trm_index *streams = trm_allocate((size_t)(count + 1) * 2 * sizeof *streams);
  CHECK_MEMORY(streams, "random numbers");
  trm_index *calls = streams + count + 1;
  uint32_t used = 0;
  trm_edit edit;
  trm_maker m = {.edit = &edit, .error = error};
  m.status = trm_edit_begin(&edit, module, computation, error);
  for (trm_index i = 0; i < count && m.status == TRM_OK; ++i) {
    if (!takes_stream(trm_edit_at(&edit, i), false)) continue;
    calls[used] = i;
    streams[used++] = stream_for(&m, i);
  }
  /* One array has all streams, so that one goes to the accelerator. */
  const trm_index all = used > 0 ? trm_concatenate(&m, streams, used) : 0;
  if (used > 0) trm_edit_at(&edit, all)->frontend_attributes = engine_seeds;
  for (uint32_t k = 0; k < used && m.status == TRM_OK; ++k) give_stream(&m, calls[k], all, k);
  trm_free(streams);
  return trm_edit_end(&edit, m.status, error);
}

/* ---- All ------------------------------------------------------------------------------------ */

typedef trm_index lowering(trm_maker *m, const trm_instruction *call);
static lowering *const lowerings[TRM_NUM_CALLS] = {
    [TRM_CALL_DROPOUT] = lower_dropout,
    [TRM_CALL_RANDOM] = lower_random,
    [TRM_CALL_ROUND_HALF] = lower_rounding,
    [TRM_CALL_BATCH_NORM_STATISTICS] = lower_statistics,
    [TRM_CALL_BATCH_NORM_GRADIENT_STATISTICS] = lower_statistics};

bool trm_can_lower(const trm_computation *computation, const trm_instruction *call) {
  if (lowerings[call->call_id] == NULL || trm_shape_count(&call->shape) == 0) return false;
  switch (call->call_id) {
    case TRM_CALL_DROPOUT:
      return trm_shape_equal(&computation->instructions[call->operands[0]].shape, &call->shape);
    case TRM_CALL_RANDOM:
    case TRM_CALL_ROUND_HALF: return takes_stream(call, true);
    default: return true;
  }
}

/* A float as an integer by the rule of trm_value_convert() for programs that wrap: accelerators
 * give the nearest integer, and 0 for NaN. */
static trm_index wrap_float(trm_maker *m, const trm_instruction *cast) {
  const trm_dtype to = cast->shape.dtype;
  const bool is_wide = to == TRM_U32 || trm_dtype_bits(to) == 64;
  const double bound = is_wide ? 0x1p63 : 0x1p31;
  const trm_index from = cast->operands[0];
  const bool is_double = trm_shape_at(m, from).dtype == TRM_F64;
  const trm_index x = trm_convert(m, is_double ? TRM_F64 : TRM_F32, from);
  const trm_index least = trm_filled(m, trm_shape_at(m, x), -bound);
  /* A NaN is neither. */
  trm_index clamped = trm_select(m, trm_compare(m, x, TRM_CMP_GE, -bound), x, least);
  clamped = trm_select(m, trm_compare(m, x, TRM_CMP_LT, bound), clamped, least);
  trm_index made = trm_convert(m, to, trm_convert(m, is_wide ? TRM_S64 : TRM_S32, clamped));
  if (to == TRM_U64) {
    const trm_index is_upper = trm_compare(m, x, TRM_CMP_GE, 0x1p63);
    const trm_index upper = trm_convert(m, to, trm_select(m, is_upper, x, least));
    made = trm_select(m, is_upper,
                      trm_select(m, trm_compare(m, x, TRM_CMP_LT, 0x1p64), upper, made), made);
  }
  return made;
}

static bool wraps(const trm_edit *edit, const trm_instruction *cast) {
  if (cast->opcode != TRM_OP_CONVERT || !edit->module->casts_wrap) return false;
  const trm_kind to = trm_dtype_kind(cast->shape.dtype);
  const trm_dtype from = trm_edit_at(edit, cast->operands[0])->shape.dtype;
  return trm_dtype_kind(from) == TRM_KIND_FLOAT &&
         (to == TRM_KIND_SIGNED || to == TRM_KIND_UNSIGNED);
}

/* XLA of 2026 ends the process at bounds that are scalars, where x is a reshape of an array. */
static trm_index fill_bounds(trm_maker *m, const trm_instruction *clamp) {
  trm_instruction filled = *clamp;
  trm_index x[] = {clamp->operands[0], clamp->operands[1], clamp->operands[2]};
  for (int k = 0; k < 3; k += 2) {
    if (trm_shape_at(m, x[k]).rank == 0) x[k] = trm_broadcast(m, clamp->shape, x[k], (trm_dims){0});
  }
  filled.operands = x;
  return trm_make(m, &filled);
}

static trm_status lower(trm_edit *edit, trm_index at, void *state, trm_error *error) {
  (void)state;
  trm_maker m = {.edit = edit, .like = at, .error = error};
  const trm_instruction call = *trm_edit_at(edit, at);
  trm_index made = at;
  if (call.opcode == TRM_OP_CLAMP && call.shape.rank > 0) made = fill_bounds(&m, &call);
  if (wraps(edit, &call)) made = wrap_float(&m, &call);
  if (lowerings[call.call_id] != NULL) made = lowerings[call.call_id](&m, &call);
  trm_edit_replace(edit, at, made);
  return m.status;
}

trm_status trm_lower(trm_module *module, uint32_t computation, trm_error *error) {
  return trm_edit_running(module, computation, lower, error);
}

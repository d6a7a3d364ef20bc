/* Owns: dropout, random numbers and stochastic rounding as plain HLO (ops/random: dropout.c,
 * distribution.c, round_half.c). */
#include "passes/lower.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "hlo/config.h"
#include "passes/maker.h"
#include "passes/pass.h"

/* ---- Philox --------------------------------------------------------------------------------- */

/* Computes the low and high 32 bits of the 64-bit products x * number. */
static void multiply(trm_maker *m, trm_shape shape, trm_index x, uint32_t number, trm_index *low,
                     trm_index *high) {
  const trm_shape wide = trm_shape_as(shape, TRM_U64);
  const trm_index product = trm_binary(
      m, TRM_OP_MULTIPLY, wide, trm_unary(m, TRM_OP_CONVERT, wide, x), trm_filled(m, wide, number));
  *low = trm_unary(m, TRM_OP_CONVERT, shape, product);
  *high =
      trm_unary(m, TRM_OP_CONVERT, shape,
                trm_binary(m, TRM_OP_SHIFT_RIGHT_LOGICAL, wide, product, trm_filled(m, wide, 32)));
}

/* trm_philox of arrays of counters and keys, all of one shape. */
static void philox(trm_maker *m, trm_shape shape, trm_index c[4], trm_index key0, trm_index key1) {
  for (int round = 0; round < 10; ++round) {
    trm_index p_low, p_high, q_low, q_high;
    multiply(m, shape, c[0], UINT32_C(0xD2511F53), &p_low, &p_high);
    multiply(m, shape, c[2], UINT32_C(0xCD9E8D57), &q_low, &q_high);
    c[0] = trm_binary(m, TRM_OP_XOR, shape, trm_binary(m, TRM_OP_XOR, shape, q_high, c[1]), key0);
    c[1] = q_low;
    c[2] = trm_binary(m, TRM_OP_XOR, shape, trm_binary(m, TRM_OP_XOR, shape, p_high, c[3]), key1);
    c[3] = p_low;
    key0 = trm_binary(m, TRM_OP_ADD, shape, key0, trm_filled(m, shape, UINT32_C(0x9E3779B9)));
    key1 = trm_binary(m, TRM_OP_ADD, shape, key1, trm_filled(m, shape, UINT32_C(0xBB67AE85)));
  }
}

/* Elements [from, to) of a one-dimensional array. */
static trm_index slice_row(trm_maker *m, trm_index x, trm_dtype dtype, int64_t from, int64_t to) {
  const trm_slice_dimension part = {.start = from, .limit = to, .stride = 1};
  trm_slice_dimension *slice = trm_arena_copy(&m->edit->module->arena, &part, sizeof part);
  const trm_shape shape = trm_make_shape(m, dtype, 1, (int64_t[]){to - from});
  if (m->status == TRM_OK && slice == NULL) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a region");
  }
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_SLICE,
                                        .shape = shape,
                                        .num_operands = 1,
                                        .operands = &x,
                                        .slice = slice});
}

/* Element `at` of a one-dimensional array, repeated to `shape`. */
static trm_index key_word(trm_maker *m, trm_shape shape, trm_index seed, int64_t at) {
  const trm_index word = slice_row(m, seed, shape.dtype, at, at + 1);
  const trm_shape scalar = {.dtype = shape.dtype};
  return trm_broadcast(m, shape, trm_unary(m, TRM_OP_RESHAPE, scalar, word), (trm_dims){0});
}

/* The words of blocks 0 to `count`, each an array. The stream is a key of two words and, where
 * has_high, the counter's upper half. `variant`: the counter's second word, or TRM_NO_INDEX. */
static void random_blocks(trm_maker *m, int64_t count, trm_index variant, trm_index stream,
                          bool has_high, trm_index c[4]) {
  const trm_shape shape = trm_make_shape(m, TRM_U32, 1, &count);
  c[0] = trm_make(m, &(trm_instruction){.opcode = TRM_OP_IOTA,
                                        .shape = shape,
                                        .dimensions = trm_make_dims(m, 1, (int64_t[]){0})});
  c[1] = c[2] = c[3] = trm_filled(m, shape, 0);
  if (variant != TRM_NO_INDEX) c[1] = trm_broadcast(m, shape, variant, (trm_dims){0});
  if (has_high) c[2] = key_word(m, shape, stream, 2), c[3] = key_word(m, shape, stream, 3);
  philox(m, shape, c, key_word(m, shape, stream, 0), key_word(m, shape, stream, 1));
}

/* The words as an array of that shape: words first, first + 4 / used, ... of each block. */
static trm_index random_words(trm_maker *m, trm_shape like, int used, int first, trm_index stream,
                              bool has_high) {
  const trm_shape result = trm_shape_as(like, TRM_U32);
  const int64_t count = trm_shape_count(&like), blocks = (count + used - 1) / used;
  const trm_shape columns = trm_make_shape(m, TRM_U32, 2, (int64_t[]){blocks, 1});
  const trm_shape table = trm_make_shape(m, TRM_U32, 2, (int64_t[]){blocks, used});
  trm_index c[4];
  random_blocks(m, blocks, TRM_NO_INDEX, stream, has_high, c);
  for (int w = 0; w < used; ++w)
    c[w] = trm_unary(m, TRM_OP_RESHAPE, columns, c[w * 4 / used + first]);
  const trm_index all =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_CONCATENATE,
                                     .shape = table,
                                     .num_operands = (uint32_t)used,
                                     .operands = c,
                                     .dimensions = trm_make_dims(m, 1, (int64_t[]){1})});
  const trm_index row =
      trm_unary(m, TRM_OP_RESHAPE, trm_make_shape(m, TRM_U32, 1, (int64_t[]){used * blocks}), all);
  return trm_unary(m, TRM_OP_RESHAPE, result, slice_row(m, row, TRM_U32, 0, count));
}

/* ---- Dropout -------------------------------------------------------------------------------- */

/* The noise for all of x. Along a dimension in which the noise has size 1, one word serves all
 * elements. */
static trm_index noise_for(trm_maker *m, const trm_shape *x, const json_t *noise_shape,
                           trm_index seed) {
  int64_t dims[TRM_MAX_RANK], along[TRM_MAX_RANK];
  int32_t rank = 0;
  for (int32_t d = 0; d < x->rank; ++d) {
    const json_t *noise = json_array_get(noise_shape, (size_t)d);
    if (noise != NULL && json_integer_value(noise) == 1 && x->dims[d] != 1) continue;
    dims[rank] = x->dims[d];
    along[rank++] = d;
  }
  const trm_index noise =
      random_words(m, trm_make_shape(m, TRM_U32, rank, dims), 4, 0, seed, false);
  if (rank == x->rank) return noise;
  return trm_broadcast(m, trm_shape_as(*x, TRM_U32), noise, trm_make_dims(m, rank, along));
}

static trm_index lower_dropout(trm_maker *m, const trm_instruction *call) {
  json_t *config = trm_instruction_config(call, 0, NULL);
  const trm_shape own = trm_shape_as(call->shape, call->shape.dtype);
  const trm_shape single = trm_shape_as(own, TRM_F32);
  const double rate = json_number_value(json_object_get(config, "rate"));
  const float scale = (float)json_number_value(json_object_get(config, "scale"));
  const uint64_t threshold = (uint64_t)rint(rate * 0x1p32);
  const trm_shape pair = trm_make_shape(m, TRM_U32, 1, (int64_t[]){2});
  const trm_dtype given = trm_edit_at(m->edit, call->operands[1])->shape.dtype;
  trm_index seed = trm_unary(m, TRM_OP_RESHAPE, trm_shape_as(pair, given), call->operands[1]);
  if (given != TRM_U32) seed = trm_unary(m, TRM_OP_BITCAST_CONVERT, pair, seed);
  const trm_index noise = noise_for(m, &own, json_object_get(config, "noise_shape"), seed);
  json_decref(config);
  const trm_shape wide = trm_shape_as(own, TRM_U64);
  const trm_index kept = trm_compare(m, trm_unary(m, TRM_OP_CONVERT, wide, noise), TRM_CMP_GE,
                                     trm_filled(m, wide, (double)threshold));
  const bool is_half = own.dtype != TRM_F32;
  const trm_index x =
      is_half ? trm_unary(m, TRM_OP_CONVERT, single, call->operands[0]) : call->operands[0];
  const trm_index scaled =
      trm_binary(m, TRM_OP_MULTIPLY, single, x, trm_filled(m, single, (double)scale));
  const trm_index result =
      trm_ternary(m, TRM_OP_SELECT, single, kept, scaled, trm_filled(m, single, 0));
  return is_half ? trm_unary(m, TRM_OP_CONVERT, own, result) : result;
}

/* ---- Random numbers ------------------------------------------------------------------------- */

typedef enum drawing {
  DRAWS_OTHERS,
  DRAWS_UNIFORM,
  DRAWS_NORMAL,
  DRAWS_NEAR,
  DRAWS_INTEGERS
} drawing;

/* What a tremula.random draws: floats from 0 to 1 or with mean 0 and deviation 1, as TensorFlow and
 * Keras want them, or integers whose bounds, if there are any, a double holds; or others. */
static drawing drawing_of(const trm_instruction *call, double bounds[2]) {
  static const char *const names[] = {"", "uniform", "normal", "truncated_normal", "uniform_int"};
  const trm_dtype dtype = call->shape.dtype;
  json_t *config = trm_instruction_config(call, 0, NULL);
  const char *name = json_string_value(json_object_get(config, "distribution"));
  const json_t *low = json_object_get(config, "minval"), *high = json_object_get(config, "maxval");
  const bool is_narrow = dtype == TRM_F32 || dtype == TRM_F16 || dtype == TRM_BF16;
  int kind = DRAWS_INTEGERS;
  while (kind > DRAWS_OTHERS && (name == NULL || strcmp(name, names[kind]) != 0)) --kind;
  bounds[0] = json_number_value(low);
  bounds[1] = high != NULL || kind == DRAWS_INTEGERS ? json_number_value(high) : 1;
  json_decref(config);
  const bool is_known = kind == DRAWS_INTEGERS
                            ? fabs(bounds[0]) < 0x1p53 && fabs(bounds[1]) < 0x1p53
                            : is_narrow && bounds[0] == 0 && bounds[1] == 1;
  return is_known ? (drawing)kind : DRAWS_OTHERS;
}

/* The upper bits of words as float32 numbers, times `unit`; `more` is added to them before. */
static trm_index upper_bits(trm_maker *m, trm_index words, int dropped, double more, double unit) {
  const trm_shape bits = trm_shape_as(trm_edit_at(m->edit, words)->shape, TRM_U32);
  const trm_shape single = trm_shape_as(bits, TRM_F32);
  trm_index upper =
      trm_binary(m, TRM_OP_SHIFT_RIGHT_LOGICAL, bits, words, trm_filled(m, bits, dropped));
  if (more != 0) upper = trm_binary(m, TRM_OP_ADD, bits, upper, trm_filled(m, bits, more));
  return trm_binary(m, TRM_OP_MULTIPLY, single, trm_unary(m, TRM_OP_CONVERT, single, upper),
                    trm_filled(m, single, unit));
}

/* Box and Muller's normal numbers of two words each. */
static trm_index normal_numbers(trm_maker *m, trm_index first, trm_index second) {
  const float turn = 6.28318530717958647692f * 0x1p-24f;
  const trm_index radius = upper_bits(m, first, 8, 1, 0x1p-24);
  const trm_index angle = upper_bits(m, second, 8, 0, (double)turn);
  const trm_shape shape = trm_shape_as(trm_edit_at(m->edit, radius)->shape, TRM_F32);
  const trm_index square = trm_binary(
      m, TRM_OP_MULTIPLY, shape, trm_unary(m, TRM_OP_LOG, shape, radius), trm_filled(m, shape, -2));
  return trm_binary(m, TRM_OP_MULTIPLY, shape, trm_unary(m, TRM_OP_SQRT, shape, square),
                    trm_unary(m, TRM_OP_COSINE, shape, angle));
}

/* x where it is nearer than two deviations to the mean, else y. */
static trm_index near_or(trm_maker *m, trm_index x, trm_index y) {
  const trm_shape shape = trm_shape_as(trm_edit_at(m->edit, x)->shape, TRM_F32);
  const trm_index size = trm_unary(m, TRM_OP_ABS, shape, x);
  return trm_ternary(m, TRM_OP_SELECT, shape,
                     trm_compare(m, size, TRM_CMP_LT, trm_filled(m, shape, 2)), x, y);
}

/* The state of the loop that draws truncated normal numbers: the variant of the blocks, the numbers
 * so far, 2 where there is none, and the stream. */
enum { VARIANT, NUMBERS, STREAM, STATE };

/* One more variant of the blocks: two candidates for each number that is still missing. */
static uint32_t next_candidates(trm_maker *outer, trm_shape state) {
  trm_part part;
  trm_maker *m = trm_part_begin(outer, &part, 1, &state);
  const trm_shape variant = state.elements[VARIANT], numbers = state.elements[NUMBERS];
  trm_index next[STATE], c[4];
  for (int k = 0; k < STATE; ++k) next[k] = trm_element(m, state, 0, k);
  const trm_index word =
      trm_binary(m, TRM_OP_SHIFT_LEFT, variant, next[VARIANT], trm_filled(m, variant, 16));
  random_blocks(m, trm_shape_count(&numbers), word, next[STREAM], true, c);
  const trm_index second = normal_numbers(m, c[2], c[3]);
  next[NUMBERS] = near_or(m, next[NUMBERS], near_or(m, normal_numbers(m, c[0], c[1]), second));
  next[VARIANT] = trm_binary(m, TRM_OP_ADD, variant, next[VARIANT], trm_filled(m, variant, 1));
  return trm_part_end(outer, &part, trm_tuple(m, state, next));
}

static uint32_t is_one_missing(trm_maker *outer, trm_shape state) {
  const trm_shape one = {.dtype = TRM_F32};
  trm_part larger, part;
  trm_maker *m = trm_part_begin(outer, &larger, 2, (trm_shape[]){one, one});
  uint32_t combiner = trm_part_end(outer, &larger, trm_binary(m, TRM_OP_MAXIMUM, one, 0, 1));
  m = trm_part_begin(outer, &part, 1, &state);
  const trm_index sizes =
      trm_unary(m, TRM_OP_ABS, state.elements[NUMBERS], trm_element(m, state, 0, NUMBERS));
  const trm_index largest =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_REDUCE,
                                     .shape = one,
                                     .num_operands = 2,
                                     .operands = (trm_index[]){sizes, trm_filled(m, one, 0)},
                                     .dimensions = trm_make_dims(m, 1, (int64_t[]){0}),
                                     .num_called = 1,
                                     .called = &combiner});
  return trm_part_end(outer, &part, trm_compare(m, largest, TRM_CMP_GE, trm_filled(m, one, 2)));
}

static trm_index truncated_numbers(trm_maker *m, int64_t count, trm_index stream) {
  const trm_shape parts[STATE] = {[VARIANT] = {.dtype = TRM_U32},
                                  [NUMBERS] = trm_make_shape(m, TRM_F32, 1, &count),
                                  [STREAM] = trm_make_shape(m, TRM_U32, 1, (int64_t[]){4})};
  const trm_shape state = trm_make_tuple_shape(m, STATE, parts);
  const trm_index first = trm_tuple(m, state,
                                    (trm_index[]){[VARIANT] = trm_filled(m, parts[VARIANT], 0),
                                                  [NUMBERS] = trm_filled(m, parts[NUMBERS], 2),
                                                  [STREAM] = stream});
  uint32_t called[] = {is_one_missing(m, state), next_candidates(m, state)};
  const trm_index last = trm_make(m, &(trm_instruction){.opcode = TRM_OP_WHILE,
                                                        .shape = state,
                                                        .num_operands = 1,
                                                        .operands = (trm_index *)&first,
                                                        .num_called = 2,
                                                        .called = called});
  return trm_element(m, state, last, NUMBERS);
}

/* low + words % (high - low), in 64 bits; where both are equal, all bits. */
static trm_index integers(trm_maker *m, trm_shape shape, const double bounds[2], trm_index low_word,
                          trm_index high_word) {
  const trm_shape wide = trm_shape_as(shape, TRM_U64);
  const trm_index upper =
      trm_binary(m, TRM_OP_SHIFT_LEFT, wide, trm_unary(m, TRM_OP_CONVERT, wide, high_word),
                 trm_filled(m, wide, 32));
  trm_index bits =
      trm_binary(m, TRM_OP_OR, wide, upper, trm_unary(m, TRM_OP_CONVERT, wide, low_word));
  if (bounds[0] != bounds[1]) {
    bits = trm_binary(m, TRM_OP_REMAINDER, wide, bits, trm_filled(m, wide, bounds[1] - bounds[0]));
    bits = trm_binary(m, TRM_OP_ADD, wide, bits, trm_filled(m, wide, bounds[0]));
  }
  return trm_unary(m, TRM_OP_CONVERT, shape, bits);
}

static trm_index lower_random(trm_maker *m, const trm_instruction *call) {
  static const int dropped[] = {[TRM_F32] = 9, [TRM_F16] = 22, [TRM_BF16] = 25};
  const trm_shape own = trm_shape_as(call->shape, call->shape.dtype);
  const trm_index stream = call->operands[0];
  double bounds[2];
  const drawing kind = drawing_of(call, bounds);
  trm_index numbers;
  if (kind == DRAWS_NEAR) {
    numbers = truncated_numbers(m, trm_shape_count(&own), stream);
    numbers = trm_unary(m, TRM_OP_RESHAPE, trm_shape_as(own, TRM_F32), numbers);
  } else {
    const trm_index first = random_words(m, own, 2, 0, stream, true);
    const int bits = kind == DRAWS_UNIFORM ? dropped[own.dtype] : 0;
    if (bits > 0) numbers = upper_bits(m, first, bits, 0, ldexp(1, bits - 32));
    else {
      const trm_index second = random_words(m, own, 2, 1, stream, true);
      if (kind == DRAWS_INTEGERS) return integers(m, own, bounds, first, second);
      numbers = normal_numbers(m, first, second);
    }
  }
  return own.dtype == TRM_F32 ? numbers : trm_unary(m, TRM_OP_CONVERT, own, numbers);
}

/* ---- Stochastic rounding -------------------------------------------------------------------- */

/* Instructions on arrays of 32 bits. */
typedef struct words {
  trm_maker *m;
  trm_shape shape;
} words;

static trm_index number(const words *w, double x) { return trm_filled(w->m, w->shape, x); }
static trm_index with(const words *w, trm_opcode opcode, trm_index x, double y) {
  return trm_binary(w->m, opcode, w->shape, x, number(w, y));
}
static trm_index from(const words *w, trm_index x, double least, trm_index yes, trm_index no) {
  return trm_ternary(w->m, TRM_OP_SELECT, w->shape,
                     trm_compare(w->m, x, TRM_CMP_GE, number(w, least)), yes, no);
}

/* Of a number below 2^-14, in units of 2^-24: mantissa * 2^(exponent - 126), and noise below. */
static trm_index round_small(const words *w, trm_index magnitude, trm_index random) {
  const trm_shape shape = w->shape, wide = trm_shape_as(shape, TRM_U64);
  const trm_index exponent = with(w, TRM_OP_SHIFT_RIGHT_LOGICAL, magnitude, 23);
  const trm_index low = with(w, TRM_OP_AND, magnitude, 0x7fffff);
  const trm_index mantissa = from(w, exponent, 1, with(w, TRM_OP_OR, low, 0x800000), number(w, 0));
  const trm_index all = trm_binary(w->m, TRM_OP_SUBTRACT, shape, number(w, 126), exponent);
  const trm_index dropped = with(w, TRM_OP_MINIMUM, all, 32);
  const trm_index shifted = trm_binary(w->m, TRM_OP_SHIFT_RIGHT_LOGICAL, shape, mantissa,
                                       trm_binary(w->m, TRM_OP_SUBTRACT, shape, all, dropped));
  const trm_index mask =
      trm_binary(w->m, TRM_OP_SHIFT_RIGHT_LOGICAL, shape, number(w, UINT32_MAX),
                 trm_binary(w->m, TRM_OP_SUBTRACT, shape, number(w, 32), dropped));
  const trm_index noise = trm_binary(w->m, TRM_OP_AND, shape, random, mask);
  const trm_index sum =
      trm_binary(w->m, TRM_OP_ADD, wide, trm_unary(w->m, TRM_OP_CONVERT, wide, shifted),
                 trm_unary(w->m, TRM_OP_CONVERT, wide, noise));
  return trm_unary(w->m, TRM_OP_CONVERT, shape,
                   trm_binary(w->m, TRM_OP_SHIFT_RIGHT_LOGICAL, wide, sum,
                              trm_unary(w->m, TRM_OP_CONVERT, wide, dropped)));
}

static trm_index lower_rounding(trm_maker *m, const trm_instruction *call) {
  static const uint16_t limits[] = {
      [TRM_HALF_INFINITY] = 0x7c00, [TRM_HALF_LARGEST] = 0x7bff, [TRM_HALF_NAN] = 0x7e00};
  const words w = {m, trm_shape_as(call->shape, TRM_U32)};
  const trm_shape narrow = trm_shape_as(call->shape, TRM_U16);
  const trm_index random = random_words(m, w.shape, 4, 0, call->operands[1], true);
  const trm_index bits = trm_unary(m, TRM_OP_BITCAST_CONVERT, w.shape, call->operands[0]);
  const trm_index magnitude = with(&w, TRM_OP_AND, bits, 0x7fffffff);
  const trm_index sign =
      with(&w, TRM_OP_AND, with(&w, TRM_OP_SHIFT_RIGHT_LOGICAL, bits, 16), 0x8000);
  const trm_index shifted = with(&w, TRM_OP_SUBTRACT, magnitude, 0x38000000);
  const trm_index noise = with(&w, TRM_OP_AND, random, 0x1fff);
  const trm_index sum = trm_binary(m, TRM_OP_ADD, w.shape, shifted, noise);
  const trm_index upper = with(&w, TRM_OP_SHIFT_RIGHT_LOGICAL, magnitude, 13);
  const trm_index nan = with(&w, TRM_OP_OR, with(&w, TRM_OP_AND, upper, 0x3ff), 0x7e00);
  trm_index half = round_small(&w, magnitude, random);
  half = from(&w, magnitude, 0x38800000, with(&w, TRM_OP_SHIFT_RIGHT_LOGICAL, sum, 13), half);
  half = from(&w, magnitude, 0x477fe000, number(&w, 0x7bff), half); /* 65504 */
  half = from(&w, magnitude, 0x477ff000, number(&w, limits[m->edit->module->half_overflow]), half);
  half = from(&w, magnitude, 0x7f800000, number(&w, 0x7c00), half);
  half = from(&w, magnitude, 0x7f800001, nan, half);
  half = trm_binary(m, TRM_OP_OR, w.shape, half, sign);
  return trm_unary(m, TRM_OP_BITCAST_CONVERT, trm_shape_as(call->shape, TRM_F16),
                   trm_unary(m, TRM_OP_CONVERT, narrow, half));
}

/* ---- Streams -------------------------------------------------------------------------------- */

static const char *const engine_seeds[] = {TRM_STAYS, "the engine seeds random numbers", NULL};

/* What the engine seeds, and has no stream yet. */
static bool wants_stream(const trm_instruction *call) {
  double bounds[2];
  if (trm_shape_count(&call->shape) == 0) return false;
  return call->call_id == TRM_CALL_RANDOM
             ? call->num_operands == 0 && drawing_of(call, bounds) != DRAWS_OTHERS
             : call->call_id == TRM_CALL_ROUND_HALF && call->num_operands == 1;
}

/* The same custom call by another target, without effects. */
static trm_custom_call *call_of(trm_maker *m, const trm_instruction *like, trm_call_id id) {
  trm_custom_call *call = trm_arena_copy(&m->edit->module->arena, like->custom_call, sizeof *call);
  if (call != NULL) {
    call->target = trm_call_target(id);
    call->has_side_effect = false;
  } else if (m->status == TRM_OK) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for random numbers");
  }
  return call;
}

/* The engine makes the stream of the call's id. */
static trm_index stream_for(trm_maker *m, trm_index i) {
  trm_instruction stream = *trm_edit_at(m->edit, i);
  m->like = i;
  stream.custom_call = call_of(m, &stream, TRM_CALL_RANDOM_STREAM);
  stream.num_operands = stream.num_control_predecessors = 0;
  stream.shape = trm_make_shape(m, TRM_U32, 1, (int64_t[]){4});
  stream.frontend_attributes = engine_seeds;
  const trm_index made = trm_make(m, &stream);
  if (m->status != TRM_OK) return 0;
  const int64_t id = trm_edit_at(m->edit, i)->id;
  trm_edit_at(m->edit, i)->id = trm_edit_at(m->edit, made)->id;
  trm_edit_at(m->edit, made)->id = id;
  return made;
}

static void give_stream(trm_maker *m, trm_index i, trm_index streams, int64_t at) {
  trm_instruction call = *trm_edit_at(m->edit, i);
  m->like = i;
  const trm_index stream = slice_row(m, streams, TRM_U32, at, at + 4);
  trm_index operands[] = {call.num_operands > 0 ? call.operands[0] : stream, stream};
  call.custom_call = call_of(m, &call, call.call_id);
  ++call.num_operands;
  call.operands = operands;
  const trm_index made = trm_make(m, &call);
  if (m->status == TRM_OK) trm_edit_replace(m->edit, i, made);
}

/* One array has all streams, so that one goes to the accelerator. */
static trm_index join_streams(trm_maker *m, const trm_index *streams, uint32_t count) {
  return trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_CONCATENATE,
                            .shape = trm_make_shape(m, TRM_U32, 1, (int64_t[]){4 * (int64_t)count}),
                            .num_operands = count,
                            .operands = (trm_index *)streams,
                            .dimensions = trm_make_dims(m, 1, (int64_t[]){0}),
                            .frontend_attributes = engine_seeds});
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
    if (!wants_stream(trm_edit_at(&edit, i))) continue;
    calls[used] = i;
    streams[used++] = stream_for(&m, i);
  }
  const trm_index all = used > 0 ? join_streams(&m, streams, used) : 0;
  for (uint32_t k = 0; k < used && m.status == TRM_OK; ++k) give_stream(&m, calls[k], all, 4 * k);
  trm_free(streams);
  return trm_edit_end(&edit, m.status, error);
}

/* ---- All ------------------------------------------------------------------------------------ */

bool trm_can_lower(const trm_computation *computation, const trm_instruction *call) {
  double bounds[2];
  if (call->opcode != TRM_OP_CUSTOM_CALL || trm_shape_count(&call->shape) == 0) return false;
  switch (call->call_id) {
    case TRM_CALL_DROPOUT:
      return trm_shape_equal(&computation->instructions[call->operands[0]].shape, &call->shape);
    case TRM_CALL_RANDOM:
      return call->num_operands == 1 && drawing_of(call, bounds) != DRAWS_OTHERS;
    case TRM_CALL_ROUND_HALF: return call->num_operands == 2;
    default: return false;
  }
}

/* XLA of 2026 ends the process at bounds that are scalars, where x is a reshape of an array. */
static trm_index fill_bounds(trm_maker *m, const trm_instruction *clamp) {
  const trm_shape shape = trm_shape_as(clamp->shape, clamp->shape.dtype);
  trm_index x[3];
  for (int k = 0; k < 3; ++k) {
    const bool is_scalar = trm_edit_at(m->edit, clamp->operands[k])->shape.rank == 0;
    x[k] =
        is_scalar ? trm_broadcast(m, shape, clamp->operands[k], (trm_dims){0}) : clamp->operands[k];
  }
  return trm_ternary(m, TRM_OP_CLAMP, shape, x[0], x[1], x[2]);
}

static trm_status lower(trm_edit *edit, trm_index at, void *state, trm_error *error) {
  (void)state;
  trm_maker m = {.edit = edit, .like = at, .error = error};
  const trm_instruction call = *trm_edit_at(edit, at);
  trm_index made = at;
  if (call.opcode == TRM_OP_CLAMP && call.shape.rank > 0) made = fill_bounds(&m, &call);
  switch (call.call_id) {
    case TRM_CALL_DROPOUT: made = lower_dropout(&m, &call); break;
    case TRM_CALL_RANDOM: made = lower_random(&m, &call); break;
    case TRM_CALL_ROUND_HALF: made = lower_rounding(&m, &call); break;
    default: break;
  }
  trm_edit_replace(edit, at, made);
  return m.status;
}

trm_status trm_lower(trm_module *module, uint32_t computation, trm_error *error) {
  return trm_edit_running(module, computation, lower, error);
}

void trm_number_anew(trm_module *module) {
  int64_t id = 1;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    trm_computation *computation = &module->computations[c];
    computation->id = id++;
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      computation->instructions[i].id = id++;
    }
  }
}

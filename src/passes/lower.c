/* Owns: dropout and uniform random numbers as plain HLO, with the bits of the kernels
 * (ops/random/dropout.c, distribution.c). */
#include "passes/lower.h"

#include <math.h>
#include <string.h>

#include "hlo/config.h"
#include "passes/maker.h"

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

/* A row of `count` random words. Each block of four gives `used` words: all, or every second one.
 * The stream is a key of two words and, if has_high, the upper half of the counter. */
static trm_index random_words(trm_maker *m, int64_t count, int used, trm_index stream,
                              bool has_high) {
  const int64_t blocks = (count + used - 1) / used;
  const trm_shape shape = trm_make_shape(m, TRM_U32, 1, &blocks);
  const trm_shape columns = trm_make_shape(m, TRM_U32, 2, (int64_t[]){blocks, 1});
  const trm_shape table = trm_make_shape(m, TRM_U32, 2, (int64_t[]){blocks, used});
  trm_index c[4];
  c[0] = trm_make(m, &(trm_instruction){.opcode = TRM_OP_IOTA,
                                        .shape = shape,
                                        .dimensions = trm_make_dims(m, 1, (int64_t[]){0})});
  c[1] = c[2] = c[3] = trm_filled(m, shape, 0);
  if (has_high) c[2] = key_word(m, shape, stream, 2), c[3] = key_word(m, shape, stream, 3);
  philox(m, shape, c, key_word(m, shape, stream, 0), key_word(m, shape, stream, 1));
  for (int w = 0; w < used; ++w) c[w] = trm_unary(m, TRM_OP_RESHAPE, columns, c[w * 4 / used]);
  const trm_index all =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_CONCATENATE,
                                     .shape = table,
                                     .num_operands = (uint32_t)used,
                                     .operands = c,
                                     .dimensions = trm_make_dims(m, 1, (int64_t[]){1})});
  const trm_index row =
      trm_unary(m, TRM_OP_RESHAPE, trm_make_shape(m, TRM_U32, 1, (int64_t[]){used * blocks}), all);
  return slice_row(m, row, TRM_U32, 0, count);
}

/* ---- Dropout -------------------------------------------------------------------------------- */

/* The noise for all of x. Along a dimension in which the noise has size 1, one word serves all
 * elements. */
static trm_index noise_for(trm_maker *m, const trm_shape *x, const json_t *noise_shape,
                           trm_index seed) {
  int64_t dims[TRM_MAX_RANK], along[TRM_MAX_RANK], count = 1;
  int32_t rank = 0;
  for (int32_t d = 0; d < x->rank; ++d) {
    const json_t *noise = json_array_get(noise_shape, (size_t)d);
    if (noise != NULL && json_integer_value(noise) == 1 && x->dims[d] != 1) continue;
    dims[rank] = x->dims[d];
    along[rank++] = d;
    count *= x->dims[d];
  }
  const trm_index noise = trm_unary(m, TRM_OP_RESHAPE, trm_make_shape(m, TRM_U32, rank, dims),
                                    random_words(m, count, 4, seed, false));
  if (rank == x->rank) return noise;
  return trm_broadcast(m, trm_shape_as(*x, TRM_U32), noise, trm_make_dims(m, rank, along));
}

static trm_index lower_dropout(trm_maker *m, const trm_instruction *call, const json_t *config) {
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

/* ---- Uniform numbers ------------------------------------------------------------------------ */

/* float32 from 0 to 1: TensorFlow and Keras compute other ranges from it. */
static bool is_unit_uniform(const trm_instruction *call) {
  if (call->call_id != TRM_CALL_RANDOM || call->shape.dtype != TRM_F32) return false;
  json_t *config = trm_instruction_config(call, 0, NULL);
  const char *name = json_string_value(json_object_get(config, "distribution"));
  const json_t *low = json_object_get(config, "minval"), *high = json_object_get(config, "maxval");
  const bool is_unit = name != NULL && strcmp(name, "uniform") == 0 &&
                       (low == NULL || json_number_value(low) == 0) &&
                       (high == NULL || json_number_value(high) == 1);
  json_decref(config);
  return is_unit;
}

static trm_index lower_uniform(trm_maker *m, const trm_instruction *call, trm_index stream) {
  const trm_shape single = trm_shape_as(call->shape, TRM_F32),
                  bits = trm_shape_as(call->shape, TRM_U32);
  const trm_index noise = trm_unary(m, TRM_OP_RESHAPE, bits,
                                    random_words(m, trm_shape_count(&single), 2, stream, true));
  return trm_binary(
      m, TRM_OP_MULTIPLY, single,
      trm_unary(m, TRM_OP_CONVERT, single,
                trm_binary(m, TRM_OP_SHIFT_RIGHT_LOGICAL, bits, noise, trm_filled(m, bits, 9))),
      trm_filled(m, single, 0x1p-23));
}

static trm_status split_random(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  trm_instruction call = *trm_edit_at(edit, i), stream = call;
  if (call.num_operands > 0 || trm_shape_count(&call.shape) == 0 || !is_unit_uniform(&call)) {
    return TRM_OK;
  }
  trm_custom_call *targets = ARENA_NEW(&edit->module->arena, trm_custom_call, 2);
  CHECK_MEMORY(targets, "a random number");
  targets[0] = targets[1] = *call.custom_call;
  targets[0].target = trm_call_target(TRM_CALL_RANDOM_STREAM);
  targets[1].has_side_effect = false;
  stream.custom_call = &targets[0];
  call.custom_call = &targets[1];
  stream.num_control_predecessors = 0;
  trm_index made;
  if (!trm_shape_make(&edit->module->arena, TRM_U32, 1, (int64_t[]){4}, &stream.shape)) {
    FAIL_NO_MEMORY("a random number");
  }
  TRY(trm_edit_add(edit, i, stream, &made, error));
  /* The engine derives the seed from the id, so the stream keeps the id of the call. */
  trm_edit_at(edit, i)->id = trm_edit_at(edit, made)->id;
  trm_edit_at(edit, made)->id = call.id;
  call.num_operands = 1;
  call.operands = &made;
  TRY(trm_edit_add(edit, i, call, &made, error));
  trm_edit_replace(edit, i, made);
  return TRM_OK;
}

trm_status trm_split_random(trm_module *module, uint32_t computation, trm_error *error) {
  return trm_edit_instructions(module, computation, split_random, NULL, error);
}

bool trm_can_lower(const trm_instruction *call, const trm_shape *first_operand) {
  if (call->opcode != TRM_OP_CUSTOM_CALL || trm_shape_count(&call->shape) == 0) return false;
  if (is_unit_uniform(call)) return call->num_operands == 1;
  return call->call_id == TRM_CALL_DROPOUT && trm_shape_equal(first_operand, &call->shape);
}

static trm_status lower(trm_edit *edit, trm_index at, void *state, trm_error *error) {
  (void)state;
  trm_maker m = {.edit = edit, .like = at, .error = error};
  const trm_instruction call = *trm_edit_at(edit, at);
  if (call.opcode != TRM_OP_CUSTOM_CALL) return TRM_OK;
  json_t *config = trm_instruction_config(&call, 0, NULL);
  trm_edit_replace(edit, at,
                   call.call_id == TRM_CALL_DROPOUT ? lower_dropout(&m, &call, config)
                                                    : lower_uniform(&m, &call, call.operands[0]));
  json_decref(config);
  return m.status;
}

trm_status trm_lower(trm_module *module, uint32_t computation, trm_error *error) {
  return trm_edit_instructions(module, computation, lower, NULL, error);
}

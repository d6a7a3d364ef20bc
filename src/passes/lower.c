/* Owns: dropout and uniform random numbers as plain HLO (ops/random/dropout.c, distribution.c). */
#include "passes/lower.h"

#include <math.h>
#include <string.h>

#include "hlo/config.h"
#include "hlo/literal.h"
#include "passes/edit.h"

/* A computation that grows. After the first failure nothing happens any more. */
typedef struct lowering {
  trm_module *module;
  uint32_t computation;
  trm_status status;
  trm_error *error;
} lowering;

static trm_index add(lowering *l, const trm_instruction *prototype) {
  trm_index made = 0;
  if (l->status == TRM_OK) {
    l->status = trm_computation_add(l->module, l->computation, prototype, &made, l->error);
  }
  return made;
}

static trm_shape shape_of(lowering *l, trm_dtype dtype, int32_t rank, const int64_t *dims) {
  trm_shape shape = {.dtype = dtype};
  if (l->status == TRM_OK && !trm_shape_make(&l->module->arena, dtype, rank, dims, &shape)) {
    l->status = trm_fail(l->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a region");
  }
  return shape;
}

static trm_shape as_type(trm_shape shape, trm_dtype dtype) {
  shape.dtype = dtype;
  shape.layout = NULL;
  return shape;
}

/* Attributes live in the module's arena. */
static trm_dims axes(lowering *l, int32_t count, const int64_t *items) {
  int64_t *copy = trm_arena_copy(&l->module->arena, items, (size_t)count * sizeof *items);
  if (l->status == TRM_OK && copy == NULL) {
    l->status = trm_fail(l->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a region");
  }
  return (trm_dims){.count = copy != NULL ? count : 0, .items = copy};
}

static trm_index unary(lowering *l, trm_opcode opcode, trm_shape shape, trm_index x) {
  return add(
      l, &(trm_instruction){.opcode = opcode, .shape = shape, .num_operands = 1, .operands = &x});
}

static trm_index binary(lowering *l, trm_opcode opcode, trm_shape shape, trm_index x, trm_index y) {
  return add(
      l, &(trm_instruction){
             .opcode = opcode, .shape = shape, .num_operands = 2, .operands = (trm_index[]){x, y}});
}

/* An array whose dimensions `along` are those of x. */
static trm_index broadcast(lowering *l, trm_shape shape, trm_index x, trm_dims along) {
  return add(l, &(trm_instruction){.opcode = TRM_OP_BROADCAST,
                                   .shape = shape,
                                   .num_operands = 1,
                                   .operands = &x,
                                   .dimensions = along});
}

/* An array of one number, whose bytes are given. */
static trm_index filled(lowering *l, trm_shape shape, const void *number) {
  trm_literal *literal;
  if (l->status != TRM_OK) return 0;
  const trm_shape scalar = {.dtype = shape.dtype};
  l->status = trm_literal_make(&l->module->arena, &scalar, &literal, l->error);
  if (l->status != TRM_OK) return 0;
  memcpy((void *)(uintptr_t)literal->leaves[0], number, trm_shape_bytes(&scalar));
  const trm_index one =
      add(l, &(trm_instruction){.opcode = TRM_OP_CONSTANT, .shape = scalar, .literal = literal});
  return shape.rank == 0 ? one : broadcast(l, shape, one, (trm_dims){0});
}

static trm_index words(lowering *l, trm_shape shape, uint64_t number) {
  const uint32_t narrow = (uint32_t)number;
  return filled(l, shape, shape.dtype == TRM_U64 ? (const void *)&number : &narrow);
}

/* ---- Philox --------------------------------------------------------------------------------- */

/* The halves of the 64-bit products of words and a number. */
static void multiply(lowering *l, trm_shape shape, trm_index x, uint32_t number, trm_index *low,
                     trm_index *high) {
  const trm_shape wide = as_type(shape, TRM_U64);
  const trm_index product =
      binary(l, TRM_OP_MULTIPLY, wide, unary(l, TRM_OP_CONVERT, wide, x), words(l, wide, number));
  *low = unary(l, TRM_OP_CONVERT, shape, product);
  *high = unary(l, TRM_OP_CONVERT, shape,
                binary(l, TRM_OP_SHIFT_RIGHT_LOGICAL, wide, product, words(l, wide, 32)));
}

/* trm_philox of the counters and keys, arrays of one shape. */
static void philox(lowering *l, trm_shape shape, trm_index c[4], trm_index key0, trm_index key1) {
  for (int round = 0; round < 10; ++round) {
    trm_index p_low, p_high, q_low, q_high;
    multiply(l, shape, c[0], UINT32_C(0xD2511F53), &p_low, &p_high);
    multiply(l, shape, c[2], UINT32_C(0xCD9E8D57), &q_low, &q_high);
    c[0] = binary(l, TRM_OP_XOR, shape, binary(l, TRM_OP_XOR, shape, q_high, c[1]), key0);
    c[1] = q_low;
    c[2] = binary(l, TRM_OP_XOR, shape, binary(l, TRM_OP_XOR, shape, p_high, c[3]), key1);
    c[3] = p_low;
    key0 = binary(l, TRM_OP_ADD, shape, key0, words(l, shape, UINT32_C(0x9E3779B9)));
    key1 = binary(l, TRM_OP_ADD, shape, key1, words(l, shape, UINT32_C(0xBB67AE85)));
  }
}

/* Elements [from, to) of an array of one dimension. */
static trm_index slice_row(lowering *l, trm_index x, trm_dtype dtype, int64_t from, int64_t to) {
  const trm_slice_dimension part = {.start = from, .limit = to, .stride = 1};
  trm_slice_dimension *slice = trm_arena_copy(&l->module->arena, &part, sizeof part);
  const trm_shape shape = shape_of(l, dtype, 1, (int64_t[]){to - from});
  if (l->status == TRM_OK && slice == NULL) {
    l->status = trm_fail(l->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a region");
  }
  return add(l, &(trm_instruction){.opcode = TRM_OP_SLICE,
                                   .shape = shape,
                                   .num_operands = 1,
                                   .operands = &x,
                                   .slice = slice});
}

/* Element `at` of an array of two words, as an array of that shape. */
static trm_index key_word(lowering *l, trm_shape shape, trm_index seed, int64_t at) {
  const trm_index word = slice_row(l, seed, shape.dtype, at, at + 1);
  const trm_shape scalar = {.dtype = shape.dtype};
  return broadcast(l, shape, unary(l, TRM_OP_RESHAPE, scalar, word), (trm_dims){0});
}

/* `count` random words in a row, `used` of each block: all, or every second one. The stream is a
 * key of two words and, where has_high, the counter's upper half. */
static trm_index random_words(lowering *l, int64_t count, int used, trm_index stream,
                              bool has_high) {
  const int64_t blocks = (count + used - 1) / used;
  const trm_shape shape = shape_of(l, TRM_U32, 1, &blocks);
  const trm_shape columns = shape_of(l, TRM_U32, 2, (int64_t[]){blocks, 1});
  const trm_shape table = shape_of(l, TRM_U32, 2, (int64_t[]){blocks, used});
  trm_index c[4];
  c[0] =
      add(l, &(trm_instruction){
                 .opcode = TRM_OP_IOTA, .shape = shape, .dimensions = axes(l, 1, (int64_t[]){0})});
  c[1] = c[2] = c[3] = words(l, shape, 0);
  if (has_high) c[2] = key_word(l, shape, stream, 2), c[3] = key_word(l, shape, stream, 3);
  philox(l, shape, c, key_word(l, shape, stream, 0), key_word(l, shape, stream, 1));
  for (int w = 0; w < used; ++w) c[w] = unary(l, TRM_OP_RESHAPE, columns, c[w * 4 / used]);
  const trm_index all = add(l, &(trm_instruction){.opcode = TRM_OP_CONCATENATE,
                                                  .shape = table,
                                                  .num_operands = (uint32_t)used,
                                                  .operands = c,
                                                  .dimensions = axes(l, 1, (int64_t[]){1})});
  const trm_index row =
      unary(l, TRM_OP_RESHAPE, shape_of(l, TRM_U32, 1, (int64_t[]){used * blocks}), all);
  return slice_row(l, row, TRM_U32, 0, count);
}

/* ---- Dropout -------------------------------------------------------------------------------- */

/* The noise for all of x: one word holds along dimensions in which the noise has size 1. */
static trm_index noise_for(lowering *l, const trm_shape *x, const json_t *noise_shape,
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
  const trm_index noise = unary(l, TRM_OP_RESHAPE, shape_of(l, TRM_U32, rank, dims),
                                random_words(l, count, 4, seed, false));
  if (rank == x->rank) return noise;
  return broadcast(l, as_type(*x, TRM_U32), noise, axes(l, rank, along));
}

static trm_index lower_dropout(lowering *l, const trm_instruction *call, const trm_index *operands,
                               const json_t *config) {
  const trm_shape own = as_type(call->shape, call->shape.dtype);
  const trm_shape single = as_type(own, TRM_F32), flags = as_type(own, TRM_PRED);
  const double rate = json_number_value(json_object_get(config, "rate"));
  const float scale = (float)json_number_value(json_object_get(config, "scale")), zero = 0;
  const uint64_t threshold = (uint64_t)rint(rate * 0x1p32);
  const trm_computation *body = &l->module->computations[l->computation];
  const trm_shape pair = shape_of(l, TRM_U32, 1, (int64_t[]){2});
  const trm_dtype given = body->instructions[operands[1]].shape.dtype;
  trm_index seed = unary(l, TRM_OP_RESHAPE, as_type(pair, given), operands[1]);
  if (given != TRM_U32) seed = unary(l, TRM_OP_BITCAST_CONVERT, pair, seed);
  const trm_index noise = noise_for(l, &own, json_object_get(config, "noise_shape"), seed);
  const trm_shape wide = as_type(own, TRM_U64);
  const trm_index kept =
      add(l, &(trm_instruction){.opcode = TRM_OP_COMPARE,
                                .shape = flags,
                                .num_operands = 2,
                                .operands = (trm_index[]){unary(l, TRM_OP_CONVERT, wide, noise),
                                                          words(l, wide, threshold)},
                                .comparison = TRM_CMP_GE});
  const bool is_half = own.dtype != TRM_F32;
  const trm_index x = is_half ? unary(l, TRM_OP_CONVERT, single, operands[0]) : operands[0];
  const trm_index scaled = binary(l, TRM_OP_MULTIPLY, single, x, filled(l, single, &scale));
  const trm_index result =
      add(l, &(trm_instruction){.opcode = TRM_OP_SELECT,
                                .shape = single,
                                .num_operands = 3,
                                .operands = (trm_index[]){kept, scaled, filled(l, single, &zero)}});
  return is_half ? unary(l, TRM_OP_CONVERT, own, result) : result;
}

/* ---- Uniform numbers ------------------------------------------------------------------------ */

/* Float32 from 0 to 1: what TensorFlow and Keras make others of. */
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

static trm_index lower_uniform(lowering *l, const trm_instruction *call, trm_index stream) {
  const trm_shape single = as_type(call->shape, TRM_F32), bits = as_type(call->shape, TRM_U32);
  const trm_index noise =
      unary(l, TRM_OP_RESHAPE, bits, random_words(l, trm_shape_count(&single), 2, stream, true));
  const float unit = 0x1p-23f;
  return binary(l, TRM_OP_MULTIPLY, single,
                unary(l, TRM_OP_CONVERT, single,
                      binary(l, TRM_OP_SHIFT_RIGHT_LOGICAL, bits, noise, words(l, bits, 9))),
                filled(l, single, &unit));
}

static trm_status split_random(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  trm_instruction call = *trm_edit_at(edit, i), stream = call;
  if (call.num_operands > 0 || trm_shape_count(&call.shape) == 0 || !is_unit_uniform(&call)) {
    return TRM_OK;
  }
  trm_custom_call *target = ARENA_NEW(&edit->module->arena, trm_custom_call, 1);
  CHECK_MEMORY(target, "a random number");
  *target = *call.custom_call;
  target->target = trm_call_target(TRM_CALL_RANDOM_STREAM);
  stream.custom_call = target;
  stream.num_control_predecessors = 0;
  trm_index made;
  if (!trm_shape_make(&edit->module->arena, TRM_U32, 1, (int64_t[]){4}, &stream.shape)) {
    FAIL_NO_MEMORY("a random number");
  }
  TRY(trm_edit_add(edit, i, stream, &made, error));
  /* The engine makes the seed of the id. */
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

trm_status trm_lower(trm_module *module, uint32_t computation, const trm_instruction *call,
                     const trm_index *operands, trm_index *out, trm_error *error) {
  lowering l = {module, computation, TRM_OK, error};
  const trm_instruction own = *call;
  json_t *config = trm_instruction_config(&own, 0, NULL);
  *out = own.call_id == TRM_CALL_DROPOUT ? lower_dropout(&l, &own, operands, config)
                                         : lower_uniform(&l, &own, operands[0]);
  json_decref(config);
  return l.status;
}

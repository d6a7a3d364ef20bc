/* Owns: TopK calls as topk or as a sort, stochastic-convert as comparisons with its random bits,
 * reductions and random bits whose results have the other form, bitcasts of layouts as transposes,
 * maps as elementwise instructions, and conversions that have no fast kernel as several that have
 * one. */
#include <math.h>
#include <string.h>

#include "host/ops/reduce/sort_keys.h"
#include "passes/expand.h"
#include "passes/maker.h"
#include "passes/pass.h"

/* ---- TopK ----------------------------------------------------------------------------------- */

/* Whether a tuple of two arrays holds k values of the last dimension, and their places in s32. */
static bool is_of_places(const trm_shape *tuple, const trm_shape *whole) {
  if (tuple->dtype != TRM_TUPLE || tuple->num_elements != 2 || whole->rank < 1) return false;
  const trm_shape *values = &tuple->elements[0], *places = &tuple->elements[1];
  if (values->dtype != whole->dtype || values->rank != whole->rank || places->dtype != TRM_S32 ||
      !trm_shape_same_dims(values, places)) {
    return false;
  }
  const size_t others = (size_t)(whole->rank - 1) * sizeof *whole->dims;
  return memcmp(values->dims, whole->dims, others) == 0 &&
         values->dims[whole->rank - 1] <= whole->dims[whole->rank - 1];
}

/* A comparator that orders by something else than the values: the first of a stable sort of values
 * and places. */
static trm_status sort_by(trm_edit *edit, trm_index index, trm_error *error) {
  trm_maker maker = {.edit = edit, .like = index, .error = error}, *m = &maker;
  const trm_instruction call = *trm_edit_at(edit, index);
  const trm_shape whole = trm_shape_at(m, call.operands[0]), number = trm_shape_as(whole, TRM_S32);
  const int64_t last = whole.rank - 1, kept = call.shape.elements[0].dims[last];
  const trm_dims along = trm_keep_dims(m, 1, &last);
  const trm_index places =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_IOTA, .shape = number, .dimensions = along});
  const trm_index sorted = trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_SORT,
                            .shape = trm_make_tuple_shape(m, 2, (trm_shape[]){whole, number}),
                            .num_operands = 2,
                            .operands = (trm_index[]){call.operands[0], places},
                            .dimensions = along,
                            .is_stable = true,
                            .num_called = 1,
                            .called = call.called});
  const trm_index results[] = {trm_slice_last(m, trm_element(m, sorted, 0), 0, kept),
                               trm_slice_last(m, trm_element(m, sorted, 1), 0, kept)};
  const trm_index result = trm_tuple(m, call.shape, results);
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, result);
  return maker.status;
}

/* Whether a sort of values and places takes the comparator. */
static bool compares_places(const trm_module *module, uint32_t comparator, trm_dtype dtype) {
  const trm_computation *computation = &module->computations[comparator];
  bool fits = computation->num_parameters == 4;
  for (uint32_t i = 0; fits && i < 4; ++i) {
    const trm_shape *shape = &computation->instructions[computation->parameters[i]].shape;
    fits = trm_shape_is_scalar(shape) && shape->dtype == (i < 2 ? dtype : TRM_S32);
  }
  const trm_shape *root = &computation->instructions[computation->root].shape;
  return fits && trm_shape_is_scalar(root) && root->dtype == TRM_PRED;
}

trm_status trm_expand_top_k_call(trm_edit *edit, trm_index index, trm_error *error) {
  trm_instruction call = *trm_edit_at(edit, index);
  if (call.num_operands != 1 || call.num_called != 1) return TRM_OK;
  const trm_shape whole = trm_edit_at(edit, call.operands[0])->shape;
  if (!trm_shape_is_array(&whole) || !is_of_places(&call.shape, &whole)) return TRM_OK;
  sort_keys keys;
  TRY(trm_sort_find_keys(edit->module, call.called[0], &edit->module->arena, &keys, error));
  if (keys.count != 1 || keys.keys[0].kind == SORT_KEY_FUNCTION || keys.keys[0].operand != 0) {
    return compares_places(edit->module, call.called[0], whole.dtype) ? sort_by(edit, index, error)
                                                                      : TRM_OK;
  }
  const trm_instruction topk = {.opcode = TRM_OP_TOPK,
                                .shape = call.shape,
                                .operands = call.operands,
                                .num_operands = 1,
                                .number = call.shape.elements[0].dims[whole.rank - 1],
                                .largest = keys.keys[0].descends,
                                .is_stable = true};
  trm_index result;
  TRY(trm_edit_add(edit, index, topk, &result, error));
  trm_edit_replace(edit, index, result);
  return TRM_OK;
}

/* ---- Stochastic conversion ------------------------------------------------------------------ */

/* The array of float32 as integers: away from zero where the random bits, `bits` wide, are below
 * the fraction. */
static trm_index integer_of(trm_maker *m, trm_index x, trm_index random, trm_dtype to, int bits) {
  const trm_index size = trm_unary(m, TRM_OP_ABS, x), whole = trm_unary(m, TRM_OP_FLOOR, size);
  const trm_index part = trm_binary(m, TRM_OP_SUBTRACT, size, whole);
  const trm_dtype unsigned_type = trm_shape_at(m, random).dtype;
  const trm_index scaled =
      trm_convert(m, unsigned_type, trm_with(m, TRM_OP_MULTIPLY, part, ldexp(1.0, bits)));
  const trm_index up =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_COMPARE,
                                     .shape = trm_shape_as(trm_shape_at(m, random), TRM_PRED),
                                     .num_operands = 2,
                                     .operands = (trm_index[]){random, scaled},
                                     .comparison = TRM_CMP_LT});
  const trm_index down = trm_convert(m, to, whole);
  const trm_index rounded = trm_select(m, up, trm_with(m, TRM_OP_ADD, down, 1.0), down);
  if (trm_dtype_kind(to) == TRM_KIND_UNSIGNED) return rounded;
  return trm_select(m, trm_compare(m, x, TRM_CMP_LT, 0.0), trm_unary(m, TRM_OP_NEGATE, rounded),
                    rounded);
}

trm_status trm_expand_stochastic_convert(trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction convert = *trm_edit_at(edit, index);
  const trm_dtype from = trm_edit_at(edit, convert.operands[0])->shape.dtype;
  const trm_dtype to = convert.shape.dtype;
  const bool is_integer = to == TRM_S8 || to == TRM_S16 || to == TRM_S32 || to == TRM_U8 ||
                          to == TRM_U16 || to == TRM_U32;
  if ((from != TRM_F16 && from != TRM_BF16 && from != TRM_F32) || !is_integer) {
    char text[256];
    FAIL(
        UNIMPLEMENTED,
        "no kernel computes %s: stochastic-convert makes integers of up to 32 bits of f16, bf16 or "
        "f32, not %s of %s; convert rounds to the nearest",
        trm_instruction_text(edit->module, &convert, text, sizeof text), trm_dtype_name(to),
        trm_dtype_name(from));
  }
  trm_maker maker = {.edit = edit, .like = index, .error = error}, *m = &maker;
  const int bits = trm_dtype_bits(to);
  const bool is_signed = trm_dtype_kind(to) == TRM_KIND_SIGNED;
  const double least = is_signed ? -ldexp(1.0, bits - 1) : 0.0;
  const double most = ldexp(1.0, is_signed ? bits - 1 : bits) - 1.0;
  const trm_index x = trm_convert(m, TRM_F32, convert.operands[0]);
  trm_index result = integer_of(m, x, convert.operands[1], to, trm_dtype_bits(from));
  const trm_shape shape = trm_shape_at(m, result);
  result = trm_select(m, trm_compare(m, x, TRM_CMP_LE, least), trm_filled(m, shape, least), result);
  result = trm_select(m, trm_compare(m, x, TRM_CMP_GE, most), trm_filled(m, shape, most), result);
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, result);
  return maker.status;
}

/* ---- Results with and without a tuple ------------------------------------------------------- */

trm_status trm_expand_packed(trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction packed = *trm_edit_at(edit, index);
  if (packed.shape.dtype != TRM_TUPLE || packed.shape.num_elements != 1) return TRM_OK;
  const trm_computation *combiner = &edit->module->computations[packed.called[0]];
  const trm_shape result = combiner->instructions[combiner->root].shape;
  const trm_shape scalar = {.dtype = result.elements[0].dtype};
  trm_maker maker = {.edit = edit, .like = index, .error = error}, *m = &maker;
  trm_subcomputation sub;
  trm_maker *inner = trm_subcomputation_begin(m, &sub, 2, (trm_shape[]){scalar, scalar});
  const trm_index call = trm_make(inner, &(trm_instruction){.opcode = TRM_OP_CALL,
                                                            .shape = result,
                                                            .num_operands = 2,
                                                            .operands = (trm_index[]){0, 1},
                                                            .num_called = 1,
                                                            .called = packed.called});
  uint32_t unpacked = trm_subcomputation_end(m, &sub, trm_element(inner, call, 0));
  trm_instruction single = packed;
  single.shape = packed.shape.elements[0];
  single.called = &unpacked;
  const trm_index array = trm_make(m, &single);
  const trm_index tuple = trm_tuple(m, packed.shape, &array);
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, tuple);
  return maker.status;
}

trm_status trm_expand_random_bits(trm_edit *edit, trm_index index, trm_error *error) {
  trm_instruction bits = *trm_edit_at(edit, index);
  if (bits.shape.dtype == TRM_TUPLE) return TRM_OK;
  trm_maker maker = {.edit = edit, .like = index, .error = error}, *m = &maker;
  const trm_shape results[] = {trm_shape_at(m, bits.operands[0]), bits.shape};
  bits.shape = trm_make_tuple_shape(m, 2, results);
  const trm_index array = trm_element(m, trm_make(m, &bits), 1);
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, array);
  return maker.status;
}

/* ---- Bitcasts ------------------------------------------------------------------------------- */

/* The dimensions of an array from major to minor, as its bytes lie. */
static void order_of(const trm_shape *shape, int64_t *out_order) {
  for (int32_t k = 0; k < shape->rank; ++k) {
    out_order[k] = shape->layout == NULL ? k : shape->layout[shape->rank - 1 - k];
  }
}

static trm_index transpose(trm_maker *m, trm_shape shape, trm_index x, const int64_t *permutation) {
  int64_t *kept = trm_keep(m, permutation, (size_t)shape.rank * sizeof *permutation);
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_TRANSPOSE,
                                        .shape = shape,
                                        .num_operands = 1,
                                        .operands = &x,
                                        .dimensions = {shape.rank, kept}});
}

static trm_shape in_order(trm_maker *m, const trm_shape *shape, const int64_t *order) {
  int64_t dims[TRM_MAX_RANK];
  for (int32_t k = 0; k < shape->rank; ++k) dims[k] = shape->dims[order[k]];
  return trm_make_shape(m, shape->dtype, shape->rank, dims);
}

/* The operand's array as its bytes lie, seen as the result's bytes, in the result's dimensions. One
 * that only sees elements as another type is a bitcast-convert, as comparators have it. */
trm_status trm_expand_bitcast(trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction bitcast = *trm_edit_at(edit, index);
  const trm_shape from = trm_edit_at(edit, bitcast.operands[0])->shape, to = bitcast.shape;
  trm_maker maker = {.edit = edit, .like = index, .error = error}, *m = &maker;
  if (trm_shape_is_row_major(&from) && trm_shape_is_row_major(&to)) {
    if (from.dtype == to.dtype || !trm_shape_same_dims(&from, &to)) return TRM_OK;
    const trm_index seen = trm_recast(m, TRM_OP_BITCAST_CONVERT, to, bitcast.operands[0]);
    if (maker.status == TRM_OK) trm_edit_replace(edit, index, seen);
    return maker.status;
  }
  int64_t order[TRM_MAX_RANK], places[TRM_MAX_RANK];
  order_of(&from, order);
  trm_index result = transpose(m, in_order(m, &from, order), bitcast.operands[0], order);
  order_of(&to, order);
  result = trm_recast(m, TRM_OP_BITCAST, in_order(m, &to, order), result);
  for (int32_t k = 0; k < to.rank; ++k) places[order[k]] = k;
  result = transpose(m, to, result, places);
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, result);
  return maker.status;
}

/* ---- Maps ----------------------------------------------------------------------------------- */

/* Whether every instruction of a map's computation can work on whole arrays. */
static bool is_elementwise(const trm_computation *scalars) {
  for (trm_index i = 0; i < scalars->num_instructions; ++i) {
    const trm_instruction *instruction = &scalars->instructions[i];
    if (!trm_shape_is_array(&instruction->shape) || instruction->num_called > 0 ||
        instruction->num_control_predecessors > 0 ||
        (instruction->opcode != TRM_OP_PARAMETER && instruction->opcode != TRM_OP_CONSTANT &&
         !trm_opcode_is_elementwise(instruction->opcode))) {
      return false;
    }
  }
  return true;
}

static trm_status inline_map(trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction map = *trm_edit_at(edit, index);
  if (map.num_called != 1) return TRM_OK;
  const trm_computation *scalars = &edit->module->computations[map.called[0]];
  const uint32_t count = scalars->num_instructions;
  if (!is_elementwise(scalars)) return TRM_OK;
  trm_maker maker = {.edit = edit, .like = index, .error = error}, *m = &maker;
  trm_index *made = ARENA_NEW(&edit->module->arena, trm_index, count);
  CHECK_MEMORY(made, "a map");
  for (trm_index i = 0; i < count; ++i) {
    trm_instruction copy = scalars->instructions[i];
    trm_index operands[3];
    if (copy.opcode == TRM_OP_PARAMETER) {
      made[i] = map.operands[copy.number];
      continue;
    }
    if (copy.opcode == TRM_OP_CONSTANT) {
      made[i] = trm_make(m, &copy);
      if (map.shape.rank == 0) continue;
      made[i] = trm_broadcast(m, trm_shape_as(map.shape, copy.shape.dtype), made[i], (trm_dims){0});
      continue;
    }
    for (uint32_t k = 0; k < copy.num_operands && k < 3; ++k) operands[k] = made[copy.operands[k]];
    copy.shape = trm_shape_as(map.shape, copy.shape.dtype);
    copy.operands = operands;
    made[i] = trm_make(m, &copy);
  }
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, made[scalars->root]);
  return maker.status;
}

/* ---- Conversions ---------------------------------------------------------------------------- */

/* The real or imaginary part, or a real array, as an array of a part of a complex type. */
static trm_index part_of(trm_maker *m, trm_index x, trm_opcode part, trm_dtype to) {
  const trm_shape shape = trm_shape_at(m, x);
  if (trm_dtype_kind(shape.dtype) == TRM_KIND_COMPLEX) {
    const trm_dtype type = shape.dtype == TRM_C64 ? TRM_F32 : TRM_F64;
    x = trm_recast(m, part, trm_shape_as(shape, type), x);
  } else if (part == TRM_OP_IMAG) {
    return trm_filled(m, trm_shape_as(shape, to), 0.0);
  }
  return trm_convert(m, to, x);
}

/* Between float64 and float16 goes through float32, as in the reference kernel. */
static bool is_long_way(trm_dtype from, trm_dtype to) {
  return (from == TRM_F64 && to == TRM_F16) || (from == TRM_F16 && to == TRM_F64);
}

static trm_status split_conversion(trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction convert = *trm_edit_at(edit, index);
  const trm_index x = convert.operands[0];
  const trm_dtype from = trm_edit_at(edit, x)->shape.dtype, to = convert.shape.dtype;
  const bool is_complex = trm_dtype_kind(to) == TRM_KIND_COMPLEX && from != to;
  if (!is_complex && !is_long_way(from, to)) return TRM_OK;
  trm_maker maker = {.edit = edit, .like = index, .error = error}, *m = &maker;
  trm_index result;
  if (is_complex) {
    const trm_dtype type = to == TRM_C64 ? TRM_F32 : TRM_F64;
    const trm_index real = part_of(m, x, TRM_OP_REAL, type);
    const trm_index imag = part_of(m, x, TRM_OP_IMAG, type);
    result = trm_make(m, &(trm_instruction){.opcode = TRM_OP_COMPLEX,
                                            .shape = convert.shape,
                                            .num_operands = 2,
                                            .operands = (trm_index[]){real, imag}});
  } else {
    result = trm_convert(m, to, trm_convert(m, TRM_F32, x));
  }
  if (maker.status == TRM_OK) trm_edit_replace(edit, index, result);
  return maker.status;
}

static trm_status rewrite(trm_edit *edit, trm_index index, void *state, trm_error *error) {
  (void)state;
  switch (trm_edit_at(edit, index)->opcode) {
    case TRM_OP_MAP: return inline_map(edit, index, error);
    case TRM_OP_CONVERT: return split_conversion(edit, index, error);
    default: return TRM_OK;
  }
}

trm_status trm_pass_rare_forms(trm_module *module, trm_error *error) {
  return trm_edit_module(module, rewrite, NULL, error);
}

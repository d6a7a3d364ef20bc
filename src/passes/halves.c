/* Owns: which float16 values are not rounded on the way, as in the original.
 *
 *   pairs of casts   float32 -> float16 -> float32 and back is nothing at all
 *   sums of squares  of float16: squared and summed in float32
 *   scaled sums      a x + b y, x + b y, a x - y ... of float16 arrays with scalars a and b: in
 *                    float32, rounded once. Where a + adds and the scalars were cast from float32,
 *                    they are taken as they were before.
 *
 * These are the original's passes CastsElimination and FuseOpsLate (patterns scaled_inplace_*,
 * reduction_square_add), whose poplibs vertices have float32 inside. Its other patterns of
 * reductions (reduction_no_convert, reduction_fp16_input) change no number here, because sums and
 * products of float16 are in float32 anyway. */
#include "passes/edit.h"
#include "passes/pass.h"

static const trm_instruction *at(const trm_edit *e, trm_index i) { return trm_edit_at(e, i); }

static trm_dtype dtype_of(const trm_edit *e, trm_index i) { return at(e, i)->shape.dtype; }

static bool is_cast(const trm_edit *e, trm_index i, trm_dtype from, trm_dtype to) {
  return at(e, i)->opcode == TRM_OP_CONVERT && dtype_of(e, i) == to &&
         dtype_of(e, trm_edit_operand(e, i, 0)) == from;
}

/* ---- Pairs of casts ------------------------------------------------------------------------- */

/* Whether the cast belongs to one operation of the original (one_op() of _building.py). */
static bool is_kept(const trm_edit *e, trm_index i) {
  return at(e, i)->num_control_predecessors > 0 ||
         trm_instruction_frontend_attribute(at(e, i), "KEEP_CASTS") != NULL;
}

static trm_status drop_pair(trm_edit *e, trm_index i, void *state, trm_error *error) {
  (void)state, (void)error;
  if (at(e, i)->opcode != TRM_OP_CONVERT || is_kept(e, i)) return TRM_OK;
  const trm_index inner = trm_edit_operand(e, i, 0);
  const trm_dtype to = dtype_of(e, i), from = dtype_of(e, inner);
  if (from == to) { /* TensorFlow's bridge makes casts to the same type */
    trm_edit_replace(e, i, inner);
  } else if (((from == TRM_F16 && to == TRM_F32) || (from == TRM_F32 && to == TRM_F16)) &&
             is_cast(e, inner, to, from) && !is_kept(e, inner)) {
    trm_edit_replace(e, i, trm_edit_operand(e, inner, 0));
  }
  return TRM_OK;
}

/* ---- Sums of squares ------------------------------------------------------------------------ */

/* The value that `i` is the square of, or TRM_NO_INDEX. */
static trm_index squared(const trm_edit *e, trm_index i) {
  const trm_opcode opcode = at(e, i)->opcode;
  if (dtype_of(e, i) != TRM_F16 || (opcode != TRM_OP_MULTIPLY && opcode != TRM_OP_POWER)) {
    return TRM_NO_INDEX;
  }
  const trm_index base = trm_edit_operand(e, i, 0), other = trm_edit_operand(e, i, 1);
  const bool is_square =
      opcode == TRM_OP_MULTIPLY ? base == other : trm_edit_is_constant(e, other, 2);
  return is_square ? base : TRM_NO_INDEX;
}

static trm_status widen_squares(trm_edit *e, trm_index i, trm_error *error) {
  const trm_dtype dtype = dtype_of(e, i);
  if (at(e, i)->num_operands != 2 || (dtype != TRM_F16 && dtype != TRM_F32) ||
      trm_computation_combiner(&e->module->computations[at(e, i)->called[0]]) != TRM_OP_ADD) {
    return TRM_OK;
  }
  trm_index summed = trm_edit_operand(e, i, 0);
  if (is_cast(e, summed, TRM_F16, TRM_F32)) summed = trm_edit_operand(e, summed, 0);
  trm_index base = squared(e, summed), sum;
  if (base == TRM_NO_INDEX) return TRM_OK;
  TRY(trm_edit_convert(e, i, TRM_F32, base, &base, error));
  trm_index operands[2] = {base, base};
  TRY(trm_edit_binary(e, summed, TRM_OP_MULTIPLY, at(e, base)->shape, base, base, &operands[0],
                      error));
  operands[1] = trm_edit_operand(e, i, 1);
  TRY(trm_edit_widen(e, i, operands, &sum, error));
  TRY(trm_edit_convert(e, i, dtype, sum, &sum, error));
  trm_edit_replace(e, i, sum);
  return TRM_OK;
}

/* ---- Scaled sums ---------------------------------------------------------------------------- */

/* A product of an array and a scalar. */
typedef struct scaling {
  trm_index product, array, broadcast; /* TRM_NO_INDEX: not such a product */
  trm_index cast;                      /* of the scalar, from float32 to float16, or TRM_NO_INDEX */
} scaling;

static scaling scaling_of(const trm_edit *e, trm_index i) {
  scaling found = {TRM_NO_INDEX, TRM_NO_INDEX, TRM_NO_INDEX, TRM_NO_INDEX};
  if (at(e, i)->opcode != TRM_OP_MULTIPLY || at(e, i)->num_control_predecessors > 0) return found;
  for (uint32_t k = 2; k-- > 0;) {
    const trm_index factor = trm_edit_operand(e, i, k), array = trm_edit_operand(e, i, 1 - k);
    if (at(e, factor)->opcode != TRM_OP_BROADCAST || at(e, array)->opcode == TRM_OP_BROADCAST) {
      continue;
    }
    trm_index scalar = trm_edit_operand(e, factor, 0);
    if (trm_shape_count(&at(e, scalar)->shape) != 1) continue;
    found = (scaling){i, array, factor, TRM_NO_INDEX};
    while (at(e, scalar)->opcode == TRM_OP_RESHAPE) scalar = trm_edit_operand(e, scalar, 0);
    if (is_cast(e, scalar, TRM_F32, TRM_F16)) found.cast = scalar;
    break;
  }
  return found;
}

/* The product in float32, for the sum `like`. uncast: with the scalar before its cast. */
static trm_status widen_scaling(trm_edit *e, trm_index like, scaling s, bool uncast,
                                trm_index *out_index, trm_error *error) {
  trm_index scalar = trm_edit_operand(e, s.broadcast, 0), array, broadcast;
  if (uncast) {
    trm_shape shape = at(e, scalar)->shape;
    shape.dtype = TRM_F32;
    shape.layout = NULL;
    scalar = trm_edit_operand(e, s.cast, 0);
    if (at(e, scalar)->shape.rank != shape.rank) {
      TRY(trm_edit_unary(e, like, TRM_OP_RESHAPE, shape, scalar, &scalar, error));
    }
  }
  TRY(trm_edit_convert(e, like, TRM_F32, scalar, &scalar, error));
  TRY(trm_edit_widen(e, s.broadcast, &scalar, &broadcast, error));
  TRY(trm_edit_convert(e, like, TRM_F32, s.array, &array, error));
  const trm_index operands[2] = {array, broadcast};
  return trm_edit_widen(e, s.product, operands, out_index, error);
}

static trm_status widen_scaled_sum(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index sides[2] = {trm_edit_operand(e, i, 0), trm_edit_operand(e, i, 1)};
  if (dtype_of(e, i) != TRM_F16) return TRM_OK;
  scaling scaled[2];
  bool any = false, uncast = at(e, i)->opcode == TRM_OP_ADD;
  for (uint32_t k = 0; k < 2; ++k) {
    scaled[k] = scaling_of(e, sides[k]);
    if (at(e, sides[1 - k])->opcode == TRM_OP_BROADCAST) scaled[k].product = TRM_NO_INDEX;
    if (scaled[k].product == TRM_NO_INDEX) continue;
    any = true;
    uncast = uncast && scaled[k].cast != TRM_NO_INDEX; /* all scalars, or none */
  }
  if (!any) return TRM_OK;
  trm_index operands[2], sum;
  for (uint32_t k = 0; k < 2; ++k) {
    if (scaled[k].product == TRM_NO_INDEX) {
      TRY(trm_edit_convert(e, i, TRM_F32, sides[k], &operands[k], error));
    } else {
      TRY(widen_scaling(e, i, scaled[k], uncast, &operands[k], error));
    }
  }
  TRY(trm_edit_widen(e, i, operands, &sum, error));
  TRY(trm_edit_convert(e, i, TRM_F16, sum, &sum, error));
  trm_edit_replace(e, i, sum);
  return TRM_OK;
}

/* ---- All ------------------------------------------------------------------------------------ */

static trm_status widen(trm_edit *e, trm_index i, void *state, trm_error *error) {
  (void)state;
  if (at(e, i)->num_control_predecessors > 0) return TRM_OK;
  switch (at(e, i)->opcode) {
    case TRM_OP_REDUCE: return widen_squares(e, i, error);
    case TRM_OP_ADD:
    case TRM_OP_SUBTRACT: return widen_scaled_sum(e, i, error);
    default: return TRM_OK;
  }
}

trm_status trm_pass_widen_halves(trm_module *module, trm_error *error) {
  const uint32_t count = module->num_computations;
  TRY(trm_edit_module(module, drop_pair, NULL, error)); /* before the pass adds casts */
  TRY(trm_edit_module(module, widen, NULL, error));
  return module->num_computations == count ? TRM_OK : trm_module_compact(module, error);
}

/* Owns: algebraic identities that keep every bit of every result.
 *
 * One sweep in topological order; each rule sees operands that are already simplified. */
#include <string.h>

#include "base/half.h"
#include "passes/edit.h"
#include "passes/pass.h"

static const trm_shape *shape_at(const trm_edit *e, trm_index i) {
  return &trm_edit_at(e, i)->shape;
}

static bool is_integer(trm_dtype dtype) {
  switch (dtype) {
    case TRM_S8:
    case TRM_S16:
    case TRM_S32:
    case TRM_S64:
    case TRM_U8:
    case TRM_U16:
    case TRM_U32:
    case TRM_U64: return true;
    default: return false;
  }
}

/* Whether every value of `from` is a value of `to`. */
static bool widens_exactly(trm_dtype from, trm_dtype to) {
  if (from == to) return true;
  switch (from) {
    case TRM_F16:
    case TRM_BF16: return to == TRM_F32 || to == TRM_F64;
    case TRM_F32: return to == TRM_F64;
    case TRM_S8: return to == TRM_S16 || to == TRM_S32 || to == TRM_S64 || to == TRM_F32;
    case TRM_U8:
      return to == TRM_S16 || to == TRM_U16 || to == TRM_S32 || to == TRM_U32 || to == TRM_S64 ||
             to == TRM_U64 || to == TRM_F32;
    case TRM_S16: return to == TRM_S32 || to == TRM_S64 || to == TRM_F32;
    case TRM_U16:
      return to == TRM_S32 || to == TRM_U32 || to == TRM_S64 || to == TRM_U64 || to == TRM_F32;
    case TRM_S32: return to == TRM_S64;
    case TRM_U32: return to == TRM_S64 || to == TRM_U64;
    default: return false;
  }
}

static trm_status simplify_convert(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index operand = trm_edit_operand(e, i, 0);
  const trm_dtype to = shape_at(e, i)->dtype, from = shape_at(e, operand)->dtype;
  if (from == to) {
    trm_edit_replace(e, i, operand);
    return TRM_OK;
  }
  if (trm_edit_at(e, operand)->opcode != TRM_OP_CONVERT) return TRM_OK;
  const trm_index origin = trm_edit_operand(e, operand, 0);
  const trm_dtype first = shape_at(e, origin)->dtype;
  if (!widens_exactly(first, from)) return TRM_OK;
  /* A float beyond int32 loses its low bits in a small type. */
  if (is_integer(first) && !is_integer(from) && is_integer(to)) {
    if (!widens_exactly(first, to)) return TRM_OK;
  }
  if (first == to) {
    trm_edit_replace(e, i, origin);
    return TRM_OK;
  }
  trm_index direct;
  TRY(trm_edit_convert(e, i, to, origin, &direct, error));
  trm_edit_replace(e, i, direct);
  return TRM_OK;
}

/* reshape, and a bitcast that is one. */
static trm_status simplify_reshape(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index operand = trm_edit_operand(e, i, 0);
  if (shape_at(e, i)->dtype != shape_at(e, operand)->dtype) return TRM_OK; /* a bitcast */
  if (trm_shape_equal(shape_at(e, i), shape_at(e, operand))) {
    trm_edit_replace(e, i, operand);
    return TRM_OK;
  }
  if (trm_edit_at(e, operand)->opcode == TRM_OP_RESHAPE) {
    const trm_index origin = trm_edit_operand(e, operand, 0);
    if (trm_shape_equal(shape_at(e, i), shape_at(e, origin))) {
      trm_edit_replace(e, i, origin);
      return TRM_OK;
    }
    trm_index direct;
    TRY(trm_edit_unary(e, i, TRM_OP_RESHAPE, *shape_at(e, i), origin, &direct, error));
    trm_edit_replace(e, i, direct);
  }
  return TRM_OK;
}

/* Whether the transpose moves only dimensions of size 1, so that the elements stay in order. */
static bool keeps_order(const trm_shape *operand, const trm_dims *permutation) {
  int64_t last = -1;
  for (int32_t d = 0; d < permutation->count; ++d) {
    const int64_t from = permutation->items[d];
    if (operand->dims[from] == 1) continue;
    if (from < last) return false;
    last = from;
  }
  return true;
}

static trm_status simplify_transpose(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index operand = trm_edit_operand(e, i, 0);
  const trm_instruction *transpose = trm_edit_at(e, i);
  const trm_dims permutation = transpose->dimensions;
  trm_index direct;
  if (keeps_order(shape_at(e, operand), &permutation)) {
    if (trm_shape_equal(shape_at(e, i), shape_at(e, operand))) {
      trm_edit_replace(e, i, operand);
      return TRM_OK;
    }
    TRY(trm_edit_unary(e, i, TRM_OP_RESHAPE, *shape_at(e, i), operand, &direct, error));
    trm_edit_replace(e, i, direct);
    return TRM_OK;
  }
  if (trm_edit_at(e, operand)->opcode != TRM_OP_TRANSPOSE) return TRM_OK;
  const trm_dims inner = trm_edit_at(e, operand)->dimensions;
  trm_index origin = trm_edit_operand(e, operand, 0);
  int64_t *both = ARENA_NEW(&e->module->arena, int64_t, (size_t)permutation.count);
  CHECK_MEMORY(both, "a permutation");
  for (int32_t d = 0; d < permutation.count; ++d) both[d] = inner.items[permutation.items[d]];
  trm_instruction prototype = {.opcode = TRM_OP_TRANSPOSE,
                               .shape = *shape_at(e, i),
                               .num_operands = 1,
                               .operands = &origin,
                               .dimensions = {permutation.count, both}};
  const bool identity = keeps_order(shape_at(e, origin), &prototype.dimensions) &&
                        trm_shape_equal(shape_at(e, i), shape_at(e, origin));
  if (identity) {
    trm_edit_replace(e, i, origin);
    return TRM_OK;
  }
  TRY(trm_edit_add(e, i, prototype, &direct, error));
  trm_edit_replace(e, i, direct);
  return TRM_OK;
}

static trm_status simplify_broadcast(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index operand = trm_edit_operand(e, i, 0);
  const trm_dims dimensions = trm_edit_at(e, i)->dimensions;
  bool ordered = true;
  for (int32_t d = 1; d < dimensions.count; ++d) {
    ordered = ordered && dimensions.items[d] > dimensions.items[d - 1];
  }
  if (ordered && trm_shape_count(shape_at(e, i)) == trm_shape_count(shape_at(e, operand))) {
    trm_index direct = operand;
    if (!trm_shape_equal(shape_at(e, i), shape_at(e, operand))) {
      TRY(trm_edit_unary(e, i, TRM_OP_RESHAPE, *shape_at(e, i), operand, &direct, error));
    }
    trm_edit_replace(e, i, direct);
    return TRM_OK;
  }
  if (trm_edit_at(e, operand)->opcode != TRM_OP_BROADCAST) return TRM_OK;
  const trm_dims inner = trm_edit_at(e, operand)->dimensions;
  int64_t both[TRM_MAX_RANK] = {0};
  for (int32_t d = 0; d < inner.count; ++d) both[d] = dimensions.items[inner.items[d]];
  trm_index direct;
  TRY(trm_edit_broadcast(e, i, *shape_at(e, i), trm_edit_operand(e, operand, 0), inner.count, both,
                         &direct, error));
  trm_edit_replace(e, i, direct);
  return TRM_OK;
}

/* The scalar that i is a broadcast of, or TRM_NO_INDEX. */
static trm_index spread_scalar(const trm_edit *e, trm_index i) {
  if (trm_edit_at(e, i)->opcode != TRM_OP_BROADCAST) return TRM_NO_INDEX;
  const trm_index scalar = trm_edit_operand(e, i, 0);
  return shape_at(e, scalar)->rank == 0 ? scalar : TRM_NO_INDEX;
}

/* Arithmetic of two scalars that are spread is done once. */
static trm_status spread_later(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index left = spread_scalar(e, trm_edit_operand(e, i, 0));
  const trm_index right = spread_scalar(e, trm_edit_operand(e, i, 1));
  if (left == TRM_NO_INDEX || right == TRM_NO_INDEX) return TRM_OK;
  trm_index operands[2] = {left, right}, once, spread;
  trm_instruction prototype = *trm_edit_at(e, i);
  prototype.shape = *shape_at(e, left);
  prototype.operands = operands;
  TRY(trm_edit_add(e, i, prototype, &once, error));
  TRY(trm_edit_broadcast(e, i, *shape_at(e, i), once, 0, NULL, &spread, error));
  trm_edit_replace(e, i, spread);
  return TRM_OK;
}

static void simplify_arithmetic(trm_edit *e, trm_index i) {
  const trm_index left = trm_edit_operand(e, i, 0), right = trm_edit_operand(e, i, 1);
  const bool integer = is_integer(shape_at(e, i)->dtype);
  switch (trm_edit_at(e, i)->opcode) {
    case TRM_OP_MULTIPLY: /* also right for NaN and infinity */
      if (trm_edit_is_constant(e, right, 1)) trm_edit_replace(e, i, left);
      else if (trm_edit_is_constant(e, left, 1)) trm_edit_replace(e, i, right);
      break;
    case TRM_OP_DIVIDE:
      if (trm_edit_is_constant(e, right, 1)) trm_edit_replace(e, i, left);
      break;
    case TRM_OP_ADD: /* x + 0.0 turns -0.0 into 0.0: only for integers */
      if (integer && trm_edit_is_constant(e, right, 0)) trm_edit_replace(e, i, left);
      else if (integer && trm_edit_is_constant(e, left, 0)) trm_edit_replace(e, i, right);
      break;
    case TRM_OP_SUBTRACT: /* x - 0.0 is x for every x */
      if (trm_edit_is_constant(e, right, 0) && integer) trm_edit_replace(e, i, left);
      break;
    default: break;
  }
}

static bool slice_is_whole(const trm_edit *e, trm_index i) {
  const trm_instruction *slice = trm_edit_at(e, i);
  const trm_shape *operand = shape_at(e, trm_edit_operand(e, i, 0));
  for (int32_t d = 0; d < operand->rank; ++d) {
    if (slice->slice[d].start != 0 || slice->slice[d].stride != 1 ||
        slice->slice[d].limit != operand->dims[d]) {
      return false;
    }
  }
  return true;
}

static bool pad_is_nothing(const trm_edit *e, trm_index i) {
  const trm_instruction *pad = trm_edit_at(e, i);
  for (int32_t d = 0; d < pad->shape.rank; ++d) {
    if (pad->padding[d].low != 0 || pad->padding[d].high != 0 || pad->padding[d].interior != 0) {
      return false;
    }
  }
  return true;
}

static bool reverse_is_nothing(const trm_edit *e, trm_index i) {
  const trm_instruction *reverse = trm_edit_at(e, i);
  for (int32_t d = 0; d < reverse->dimensions.count; ++d) {
    if (reverse->shape.dims[reverse->dimensions.items[d]] > 1) return false;
  }
  return true;
}

/* power(x, 2) is x * x: the product is rounded once, as the power is. */
static trm_status simplify_power(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index base = trm_edit_operand(e, i, 0);
  const trm_index exponent = trm_edit_operand(e, i, 1);
  if (trm_edit_is_constant(e, exponent, 1)) {
    trm_edit_replace(e, i, base);
  } else if (trm_edit_is_constant(e, exponent, 2) && !is_integer(shape_at(e, i)->dtype)) {
    trm_index square;
    TRY(trm_edit_binary(e, i, TRM_OP_MULTIPLY, *shape_at(e, i), base, base, &square, error));
    trm_edit_at(e, square)->frontend_attributes = trm_edit_at(e, i)->frontend_attributes;
    trm_edit_replace(e, i, square);
  }
  return TRM_OK;
}

/* convolution(x, reverse(w)) over spatial dimensions only: the window is reversed instead. */
static trm_status simplify_convolution(trm_edit *e, trm_index i, trm_error *error) {
  const trm_index kernel = trm_edit_operand(e, i, 1);
  if (trm_edit_at(e, kernel)->opcode != TRM_OP_REVERSE) return TRM_OK;
  const trm_dims reversed = trm_edit_at(e, kernel)->dimensions;
  const trm_convolution *numbers = trm_edit_at(e, i)->convolution;
  const trm_window *window = trm_edit_at(e, i)->window;
  bool reverses[TRM_MAX_RANK] = {false};
  for (int32_t r = 0; r < reversed.count; ++r) {
    bool spatial = false;
    for (int32_t d = 0; d < numbers->spatial_rank; ++d) {
      if (numbers->kernel_spatial[d] == reversed.items[r]) reverses[d] = spatial = true;
    }
    if (!spatial) return TRM_OK;
  }
  trm_window *turned = trm_arena_copy(&e->module->arena, window, sizeof *window);
  CHECK_MEMORY(turned, "a window");
  turned->dims =
      trm_arena_copy(&e->module->arena, window->dims, (size_t)window->rank * sizeof *window->dims);
  CHECK_MEMORY(turned->dims, "a window");
  for (int32_t d = 0; d < numbers->spatial_rank; ++d) turned->dims[d].reversal ^= reverses[d];
  trm_index operands[2] = {trm_edit_operand(e, i, 0), trm_edit_operand(e, kernel, 0)};
  trm_instruction prototype = *trm_edit_at(e, i);
  prototype.operands = operands;
  prototype.window = turned;
  trm_index direct;
  TRY(trm_edit_add(e, i, prototype, &direct, error));
  trm_edit_replace(e, i, direct);
  return TRM_OK;
}

static trm_status simplify_instruction(trm_edit *e, trm_index i, void *state, trm_error *error) {
  (void)state;
  if (trm_edit_at(e, i)->num_control_predecessors > 0) return TRM_OK;
  switch (trm_edit_at(e, i)->opcode) {
    case TRM_OP_CONVERT: return simplify_convert(e, i, error);
    case TRM_OP_BITCAST:
    case TRM_OP_RESHAPE: return simplify_reshape(e, i, error);
    case TRM_OP_TRANSPOSE: return simplify_transpose(e, i, error);
    case TRM_OP_BROADCAST: return simplify_broadcast(e, i, error);
    case TRM_OP_POWER: return simplify_power(e, i, error);
    case TRM_OP_CONVOLUTION: return simplify_convolution(e, i, error);
    case TRM_OP_COPY:
    case TRM_OP_DOMAIN: trm_edit_replace(e, i, trm_edit_operand(e, i, 0)); return TRM_OK;
    case TRM_OP_ADD:
    case TRM_OP_SUBTRACT:
    case TRM_OP_MULTIPLY:
    case TRM_OP_DIVIDE:
      simplify_arithmetic(e, i);
      return trm_edit_resolve(e, i) != i ? TRM_OK : spread_later(e, i, error);
    case TRM_OP_SLICE:
      if (slice_is_whole(e, i)) trm_edit_replace(e, i, trm_edit_operand(e, i, 0));
      return TRM_OK;
    case TRM_OP_PAD:
      if (pad_is_nothing(e, i)) trm_edit_replace(e, i, trm_edit_operand(e, i, 0));
      return TRM_OK;
    case TRM_OP_REVERSE:
      if (reverse_is_nothing(e, i)) trm_edit_replace(e, i, trm_edit_operand(e, i, 0));
      return TRM_OK;
    case TRM_OP_CONCATENATE:
      if (trm_edit_at(e, i)->num_operands == 1) {
        trm_edit_replace(e, i, trm_edit_operand(e, i, 0));
      }
      return TRM_OK;
    case TRM_OP_DYNAMIC_SLICE:
      if (trm_shape_equal(shape_at(e, i), shape_at(e, trm_edit_operand(e, i, 0)))) {
        trm_edit_replace(e, i, trm_edit_operand(e, i, 0));
      }
      return TRM_OK;
    case TRM_OP_DYNAMIC_UPDATE_SLICE:
      if (trm_shape_equal(shape_at(e, i), shape_at(e, trm_edit_operand(e, i, 1)))) {
        trm_edit_replace(e, i, trm_edit_operand(e, i, 1));
      }
      return TRM_OK;
    default: return TRM_OK;
  }
}

trm_status trm_pass_simplify(trm_module *module, trm_error *error) {
  return trm_edit_module(module, simplify_instruction, NULL, error);
}

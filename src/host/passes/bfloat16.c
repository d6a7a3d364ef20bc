/* Owns: bfloat16 arithmetic in float32 on the host, whose vectors have no bfloat16 arithmetic.
 * Elementwise instructions, sums and extremes become those of float32, and each result is rounded.
 * The bits are the same, because float32 has more than twice the digits of bfloat16. Functions
 * whose float32 kernels are not exact are the exception.
 *
 * A value that only such instructions read stays float32. Elsewhere a bfloat16 is the upper half of
 * a float32: integers are converted and shifted in the same fusion, and a bitcast-convert between
 * u16 and bfloat16 costs nothing (host/schedule/schedule_renames.c). */
#include <string.h>

#include "base/half.h"
#include "host/ops/elementwise/strip.h"
#include "passes/edit.h"
#include "passes/pass.h"

enum { SHIFT = 16 };

typedef struct widener {
  trm_edit *edit;
  trm_index *wide; /* by instruction: the float32 of the same value, or TRM_NO_INDEX */
} widener;

static const trm_instruction *at(const widener *w, trm_index i) { return trm_edit_at(w->edit, i); }

static trm_shape shape_as(const trm_shape *shape, trm_dtype dtype) {
  trm_shape made = *shape;
  made.dtype = dtype;
  made.layout = NULL;
  return made;
}

/* ---- Bits ----------------------------------------------------------------------------------- */

/* opcode(operand, constant), in u32. */
static trm_status with_constant(widener *w, trm_opcode opcode, trm_index operand, uint32_t constant,
                                trm_index *out, trm_error *error) {
  const trm_shape shape = at(w, operand)->shape;
  trm_index scalar, whole;
  TRY(trm_edit_scalar(w->edit, operand, TRM_U32, (double)constant, &scalar, error));
  TRY(trm_edit_broadcast(w->edit, operand, shape, scalar, 0, NULL, &whole, error));
  return trm_edit_binary(w->edit, operand, opcode, shape, operand, whole, out, error);
}

static trm_status view_as(widener *w, trm_dtype dtype, trm_index operand, trm_index *out,
                          trm_error *error) {
  const trm_shape shape = shape_as(&at(w, operand)->shape, dtype);
  return trm_edit_unary(w->edit, operand, TRM_OP_BITCAST_CONVERT, shape, operand, out, error);
}

/* Converts a bfloat16 to float32. */
static trm_status unpack(widener *w, trm_index i, trm_index *out, trm_error *error) {
  trm_index bits;
  TRY(view_as(w, TRM_U16, i, &bits, error));
  TRY(trm_edit_convert(w->edit, i, TRM_U32, bits, &bits, error));
  TRY(with_constant(w, TRM_OP_SHIFT_LEFT, bits, SHIFT, &bits, error));
  return view_as(w, TRM_F32, bits, out, error);
}

/* Converts a float32 whose value is a bfloat16 to bfloat16. */
static trm_status pack(widener *w, trm_index wide, trm_index *out, trm_error *error) {
  trm_index bits;
  TRY(view_as(w, TRM_U32, wide, &bits, error));
  TRY(with_constant(w, TRM_OP_SHIFT_RIGHT_LOGICAL, bits, SHIFT, &bits, error));
  TRY(trm_edit_convert(w->edit, wide, TRM_U16, bits, &bits, error));
  return view_as(w, TRM_BF16, bits, out, error);
}

/* Whether the instruction, on bfloat16 operands, may make a NaN with bits in its lower half. A NaN
 * of the CPU's arithmetic is an operand's or has no such bits, and rounding does not change it. */
static bool makes_long_nans(const trm_instruction *instruction) {
  switch (instruction->opcode) {
    case TRM_OP_ADD:
    case TRM_OP_SUBTRACT:
    case TRM_OP_MULTIPLY:
    case TRM_OP_DIVIDE:
    case TRM_OP_SQRT: return false;
    default: return true;
  }
}

/* Replaces *sum, the sum for rounding, by the NaN's own bits made quiet where x is a NaN (as
 * base/half.h does). */
static trm_status keep_nan(widener *w, trm_index i, trm_index bits, trm_index *sum,
                           trm_error *error) {
  const trm_shape shape = at(w, bits)->shape;
  trm_index same[2] = {i, i}, chosen[3] = {0, 0, *sum};
  const trm_instruction is_nan = {.opcode = TRM_OP_COMPARE,
                                  .shape = shape_as(&shape, TRM_PRED),
                                  .num_operands = 2,
                                  .operands = same,
                                  .comparison = TRM_CMP_NE};
  TRY(trm_edit_add(w->edit, i, is_nan, &chosen[0], error));
  TRY(with_constant(w, TRM_OP_OR, bits, 0x400000, &chosen[1], error));
  const trm_instruction select = {
      .opcode = TRM_OP_SELECT, .shape = shape, .num_operands = 3, .operands = chosen};
  return trm_edit_add(w->edit, i, select, sum, error);
}

/* Rounds a float32 to the nearest bfloat16, ties to even; the result is still float32. keeps_nan: a
 * NaN needs care (makes_long_nans). */
static trm_status round_off(widener *w, trm_index i, bool keeps_nan, trm_index *out,
                            trm_error *error) {
  const trm_shape shape = shape_as(&at(w, i)->shape, TRM_U32);
  trm_index bits, odd, sum;
  TRY(view_as(w, TRM_U32, i, &bits, error));
  TRY(with_constant(w, TRM_OP_SHIFT_RIGHT_LOGICAL, bits, SHIFT, &odd, error));
  TRY(with_constant(w, TRM_OP_AND, odd, 1, &odd, error));
  TRY(with_constant(w, TRM_OP_ADD, bits, 0x7fff, &sum, error));
  TRY(trm_edit_binary(w->edit, i, TRM_OP_ADD, shape, sum, odd, &sum, error));
  if (keeps_nan) TRY(keep_nan(w, i, bits, &sum, error));
  TRY(with_constant(w, TRM_OP_AND, sum, 0xffff0000, &sum, error));
  return view_as(w, TRM_F32, sum, out, error);
}

/* ---- Instructions --------------------------------------------------------------------------- */

static trm_status wide_of(widener *w, trm_index i, trm_index *out, trm_error *error) {
  if (w->wide[i] == TRM_NO_INDEX) {
    const trm_instruction *constant = at(w, i);
    if (constant->opcode == TRM_OP_CONSTANT && trm_shape_is_scalar(&constant->shape) &&
        constant->literal != NULL) {
      uint16_t bits;
      memcpy(&bits, constant->literal->leaves[0], sizeof bits);
      const double value = (double)trm_bfloat16_to_float(bits);
      TRY(trm_edit_scalar(w->edit, i, TRM_F32, value, &w->wide[i], error));
    } else {
      TRY(unpack(w, i, &w->wide[i], error));
    }
  }
  *out = w->wide[i];
  return TRM_OK;
}

/* Whether a conversion through float32 rounds no more often than the reference kernel. */
static bool converts_well(trm_dtype dtype) {
  switch (dtype) {
    case TRM_PRED:
    case TRM_S8:
    case TRM_S16:
    case TRM_S32:
    case TRM_U8:
    case TRM_U16:
    case TRM_U32:
    case TRM_F16:
    case TRM_F32:
    case TRM_BF16: return true;
    default: return false;
  }
}

/* The same for a conversion between bfloat16 and 64 bits, which have no kernel of their own. */
static bool is_conversion_of_64_bits(const widener *w, const trm_instruction *instruction) {
  if (instruction->opcode != TRM_OP_CONVERT) return false;
  const trm_dtype from = at(w, instruction->operands[0])->shape.dtype;
  const trm_dtype to = instruction->shape.dtype, other = from == TRM_BF16 ? to : from;
  return (from == TRM_BF16) != (to == TRM_BF16) &&
         (other == TRM_F64 || other == TRM_S64 || other == TRM_U64);
}

static bool is_served(const widener *w, const trm_instruction *instruction) {
  bool any = instruction->shape.dtype == TRM_BF16;
  if (is_conversion_of_64_bits(w, instruction)) return true;
  if (!trm_opcode_is_elementwise(instruction->opcode) || instruction->num_called > 0 ||
      instruction->opcode == TRM_OP_REDUCE_PRECISION ||
      instruction->opcode == TRM_OP_STOCHASTIC_CONVERT ||
      instruction->opcode == TRM_OP_BITCAST_CONVERT || instruction->num_operands > 3 ||
      instruction->num_operands == 0 || !converts_well(instruction->shape.dtype)) {
    return false;
  }
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_shape *operand = &at(w, instruction->operands[k])->shape;
    if (!trm_shape_is_array(operand) || !converts_well(operand->dtype)) return false;
    any = any || operand->dtype == TRM_BF16;
  }
  return any;
}

/* Replaces a bfloat16 instruction by `made`, a float32; rounds: `made` is not yet a bfloat16
 * value. */
static trm_status replace(widener *w, trm_index i, trm_index made, bool rounds, trm_error *error) {
  if (rounds) TRY(round_off(w, made, makes_long_nans(at(w, i)), &made, error));
  w->wide[i] = made;
  trm_index packed;
  TRY(pack(w, made, &packed, error));
  trm_edit_replace(w->edit, i, packed);
  return TRM_OK;
}

static trm_status widen_operands(widener *w, trm_index i, trm_index *operands, trm_error *error) {
  for (uint32_t k = 0; k < at(w, i)->num_operands; ++k) {
    operands[k] = at(w, i)->operands[k];
    if (at(w, operands[k])->shape.dtype == TRM_BF16) {
      TRY(wide_of(w, operands[k], &operands[k], error));
    }
  }
  return TRM_OK;
}

static trm_status widen_elementwise(widener *w, trm_index i, trm_error *error) {
  trm_index operands[3], made;
  TRY(widen_operands(w, i, operands, error));
  trm_instruction wide = *at(w, i);
  const bool is_result = wide.shape.dtype == TRM_BF16;
  const bool keeps =
      wide.opcode == TRM_OP_CONVERT && at(w, wide.operands[0])->shape.dtype == TRM_BF16;
  wide.shape = shape_as(&wide.shape, is_result ? TRM_F32 : wide.shape.dtype);
  wide.operands = operands;
  if (wide.opcode == TRM_OP_CONVERT && at(w, operands[0])->shape.dtype == wide.shape.dtype) {
    made = operands[0];
  } else {
    TRY(trm_edit_add(w->edit, i, wide, &made, error));
  }
  if (is_result) return replace(w, i, made, !trm_strip_is_exact(wide.opcode) && !keeps, error);
  trm_edit_replace(w->edit, i, made);
  return TRM_OK;
}

/* The opcode of a computation that is one instruction of its two parameters, else
 * TRM_NUM_OPCODES. */
static trm_opcode opcode_of(const trm_module *module, uint32_t c) {
  const trm_computation *body = &module->computations[c];
  if (body->num_parameters != 2 || body->num_instructions != 3) return TRM_NUM_OPCODES;
  const trm_instruction *root = &body->instructions[body->root];
  const bool is_plain = root->num_operands == 2 && root->operands[0] != root->operands[1];
  return is_plain ? root->opcode : TRM_NUM_OPCODES;
}

static bool may_widen_body(const trm_module *module, uint32_t c) {
  const trm_opcode opcode = opcode_of(module, c);
  return opcode == TRM_OP_ADD || opcode == TRM_OP_MAXIMUM || opcode == TRM_OP_MINIMUM ||
         opcode == TRM_OP_COMPARE;
}

static trm_status widen_body(trm_module *module, uint32_t *body, trm_error *error) {
  TRY(trm_module_clone_computation(module, *body, body, error));
  trm_computation *computation = &module->computations[*body];
  for (uint32_t i = 0; i < computation->num_instructions; ++i) {
    trm_shape *shape = &computation->instructions[i].shape;
    if (shape->dtype == TRM_BF16) shape->dtype = TRM_F32;
  }
  return TRM_OK;
}

/* reduce, reduce-window and select-and-scatter. */
static trm_status widen_reduction(widener *w, trm_index i, trm_error *error) {
  enum { MAX_OPERANDS = 3, MAX_BODIES = 2 };
  trm_index operands[MAX_OPERANDS], made;
  uint32_t bodies[MAX_BODIES];
  trm_instruction wide = *at(w, i);
  if (wide.num_operands > MAX_OPERANDS || wide.num_called > MAX_BODIES ||
      wide.shape.dtype != TRM_BF16) {
    return TRM_OK;
  }
  for (uint32_t c = 0; c < wide.num_called; ++c)
    if (!may_widen_body(w->edit->module, wide.called[c])) return TRM_OK;
  const trm_opcode last = opcode_of(w->edit->module, wide.called[wide.num_called - 1]);
  TRY(widen_operands(w, i, operands, error));
  for (uint32_t c = 0; c < wide.num_called; ++c) {
    bodies[c] = wide.called[c];
    TRY(widen_body(w->edit->module, &bodies[c], error));
  }
  wide.shape = shape_as(&wide.shape, TRM_F32);
  wide.operands = operands;
  wide.called = bodies;
  TRY(trm_edit_add(w->edit, i, wide, &made, error));
  return replace(w, i, made, last == TRM_OP_ADD, error);
}

static trm_status visit(widener *w, trm_index i, trm_error *error) {
  const trm_instruction *instruction = at(w, i);
  const trm_shape *shape = &instruction->shape;
  if (!trm_shape_is_array(shape) || instruction->num_control_predecessors > 0) return TRM_OK;
  switch (instruction->opcode) {
    case TRM_OP_REDUCE:
    case TRM_OP_REDUCE_WINDOW:
    case TRM_OP_SELECT_AND_SCATTER: return widen_reduction(w, i, error);
    case TRM_OP_BROADCAST: /* a broadcast of float32 joins fusions */
    case TRM_OP_RESHAPE: {
      if (shape->dtype != TRM_BF16) return TRM_OK;
      trm_index operand;
      TRY(wide_of(w, instruction->operands[0], &operand, error));
      trm_instruction wide = *at(w, i);
      wide.shape = shape_as(&wide.shape, TRM_F32);
      wide.operands = &operand;
      return trm_edit_add(w->edit, i, wide, &w->wide[i], error);
    }
    default: return is_served(w, instruction) ? widen_elementwise(w, i, error) : TRM_OK;
  }
}

/* ---- Computations --------------------------------------------------------------------------- */

static bool has_bfloat16(const trm_computation *computation) {
  for (trm_index i = 0; i < computation->num_instructions; ++i)
    if (computation->instructions[i].shape.dtype == TRM_BF16) return true;
  return false;
}

static trm_status widen_computation(trm_module *module, uint32_t c, trm_error *error) {
  const uint32_t count = module->computations[c].num_instructions;
  trm_edit edit;
  widener w = {.edit = &edit, .wide = trm_allocate(((size_t)count + 1) * sizeof *w.wide)};
  CHECK_MEMORY(w.wide, "bfloat16 values");
  for (trm_index i = 0; i <= count; ++i) w.wide[i] = TRM_NO_INDEX;
  trm_status status = trm_edit_begin(&edit, module, c, error);
  if (status == TRM_OK) {
    for (trm_index i = 0; i < count && status == TRM_OK; ++i) status = visit(&w, i, error);
    status = trm_edit_end(&edit, status, error);
  }
  trm_free(w.wide);
  return status;
}

/* Computations of reductions and the like stay as they are; widened reductions call copies. */
static void mark_bodies(const trm_module *module, bool *is_body) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      const trm_opcode opcode = instruction->opcode;
      if (opcode == TRM_OP_WHILE || opcode == TRM_OP_CONDITIONAL || opcode == TRM_OP_CALL) continue;
      for (uint32_t k = 0; k < instruction->num_called; ++k) is_body[instruction->called[k]] = true;
    }
  }
}

trm_status trm_pass_widen_bfloat16(trm_module *module, trm_error *error) {
  const uint32_t count = module->num_computations;
  bool *is_body = trm_allocate_zeroed((size_t)count + 1, sizeof *is_body);
  CHECK_MEMORY(is_body, "bfloat16 values");
  mark_bodies(module, is_body);
  trm_status status = TRM_OK;
  for (uint32_t c = 0; c < count && status == TRM_OK; ++c) {
    if (!is_body[c] && has_bfloat16(&module->computations[c])) {
      status = widen_computation(module, c, error);
    }
  }
  trm_free(is_body);
  return status;
}

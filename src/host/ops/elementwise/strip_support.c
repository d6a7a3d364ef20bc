/* Owns: the instructions that strip code supports, and their vector functions. */
#include "host/ops/elementwise/strip_compile.h"

/* The type of the register that holds a value; TRM_NUM_VECTOR_TYPES when there is none. */
trm_vector_type trm_strip_register_type(trm_dtype dtype) {
  switch (dtype) {
    case TRM_PRED: return TRM_V_PRED;
    case TRM_S8: return TRM_V_S8;
    case TRM_S16: return TRM_V_S16;
    case TRM_S32: return TRM_V_S32;
    case TRM_S64: return TRM_V_S64;
    case TRM_U8: return TRM_V_U8;
    case TRM_U16: return TRM_V_U16;
    case TRM_U32: return TRM_V_U32;
    case TRM_U64: return TRM_V_U64;
    case TRM_F16:
    case TRM_F32: return TRM_V_F32;
    case TRM_F64: return TRM_V_F64;
    default: return TRM_NUM_VECTOR_TYPES;
  }
}

uint8_t trm_strip_log2_of_size(size_t size) { return (uint8_t)__builtin_ctzll(size); }
uint8_t trm_strip_register_log2(trm_dtype dtype) {
  return dtype == TRM_F16 ? 2 : trm_strip_log2_of_size(trm_dtype_size(dtype));
}

trm_vector_fn trm_strip_find_function(const trm_vector_ops *ops, const trm_computation *computation,
                                      const trm_instruction *instruction, bool casts_wrap) {
  const trm_instruction *all = computation->instructions;
  const uint32_t typed = instruction->opcode == TRM_OP_SELECT ? 1 : 0;
  const trm_dtype from = all[instruction->operands[typed]].shape.dtype;
  const trm_vector_type type = trm_strip_register_type(from),
                        to = trm_strip_register_type(instruction->shape.dtype);
  if (type == TRM_NUM_VECTOR_TYPES || to == TRM_NUM_VECTOR_TYPES) return NULL;
  switch (instruction->opcode) {
    case TRM_OP_COMPARE:
      if ((uint32_t)instruction->comparison > TRM_CMP_LT) return NULL;
      if (instruction->comparison_type == TRM_CMPTYPE_TOTALORDER &&
          ops->compare_total[type][TRM_CMP_EQ] != NULL)
        return ops->compare_total[type][instruction->comparison];
      return ops->compare[instruction->comparison][type];
    case TRM_OP_CONVERT: /* a half of a float64 is rounded once: not by way of float32 */
      if (from == TRM_F64 && instruction->shape.dtype == TRM_F16) return NULL;
      if (casts_wrap && type >= TRM_V_F32 && ops->wrap[type - TRM_V_F32][to] != NULL) {
        return ops->wrap[type - TRM_V_F32][to];
      }
      return ops->convert[type][to];
    case TRM_OP_SELECT: return ops->select[trm_strip_register_log2(from)];
    default: return ops->op[instruction->opcode][type];
  }
}

/* Only the view changes: the same bits in the same order. */
bool trm_strip_is_view(const trm_computation *computation, const trm_instruction *instruction) {
  const trm_instruction *operand;
  switch (instruction->opcode) {
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST:
    case TRM_OP_COPY:
    case TRM_OP_BITCAST_CONVERT:
      operand = &computation->instructions[instruction->operands[0]];
      if (trm_shape_count(&operand->shape) != trm_shape_count(&instruction->shape)) return false;
      if (operand->shape.dtype == instruction->shape.dtype) return true;
      return instruction->opcode != TRM_OP_RESHAPE && instruction->opcode != TRM_OP_COPY &&
             operand->shape.dtype != TRM_F16 && instruction->shape.dtype != TRM_F16 &&
             operand->shape.dtype != TRM_PRED && instruction->shape.dtype != TRM_PRED &&
             trm_dtype_size(operand->shape.dtype) == trm_dtype_size(instruction->shape.dtype);
    default: return false;
  }
}

bool trm_strip_is_access(const trm_instruction *instruction) {
  return instruction->opcode == TRM_OP_BROADCAST || instruction->opcode == TRM_OP_SLICE ||
         instruction->opcode == TRM_OP_REVERSE || instruction->opcode == TRM_OP_TRANSPOSE;
}

bool trm_strip_supports(const trm_module *module, const trm_computation *computation,
                        const trm_instruction *instruction) {
  (void)module;
  const trm_shape *shape = &instruction->shape;
  if (!trm_shape_is_array(shape) || trm_strip_register_type(shape->dtype) == TRM_NUM_VECTOR_TYPES)
    return false;
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    const trm_shape *operand = &computation->instructions[instruction->operands[i]].shape;
    if (!trm_shape_is_array(operand) ||
        trm_strip_register_type(operand->dtype) == TRM_NUM_VECTOR_TYPES)
      return false;
  }
  switch (instruction->opcode) {
    case TRM_OP_PARAMETER: return true;
    case TRM_OP_CONSTANT: return instruction->literal != NULL;
    case TRM_OP_IOTA: return shape->dtype != TRM_PRED && instruction->dimensions.count == 1;
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST:
    case TRM_OP_COPY:
    case TRM_OP_BITCAST_CONVERT: return trm_strip_is_view(computation, instruction);
    case TRM_OP_BROADCAST:
    case TRM_OP_SLICE:
    case TRM_OP_REVERSE:
    case TRM_OP_TRANSPOSE: return true;
    default: break;
  }
  if (!trm_opcode_is_elementwise(instruction->opcode) || instruction->num_operands < 1 ||
      instruction->num_operands > 3)
    return false;
  const int64_t count = trm_shape_count(shape);
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    const trm_shape *operand = &computation->instructions[instruction->operands[i]].shape;
    if (trm_shape_count(operand) != count && operand->rank != 0) return false;
  }
  return trm_strip_find_function(trm_vector_ops_get(), computation, instruction, false) != NULL;
}

bool trm_strip_is_exact(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_ABS:
    case TRM_OP_NEGATE:
    case TRM_OP_SIGN:
    case TRM_OP_MAXIMUM:
    case TRM_OP_MINIMUM:
    case TRM_OP_CLAMP:
    case TRM_OP_SELECT:
    case TRM_OP_CEIL:
    case TRM_OP_FLOOR:
    case TRM_OP_ROUND_NEAREST_AFZ:
    case TRM_OP_ROUND_NEAREST_EVEN:
    case TRM_OP_REMAINDER:
    case TRM_OP_REAL:
    case TRM_OP_IMAG: return true;
    default: return false;
  }
}

bool trm_strip_rounds(trm_opcode opcode) {
  const trm_opcode_class class = trm_opcode_class_of(opcode);
  return (class == TRM_CLASS_UNARY || class == TRM_CLASS_BINARY) && !trm_strip_is_exact(opcode) &&
         opcode != TRM_OP_REDUCE_PRECISION && opcode != TRM_OP_STOCHASTIC_CONVERT;
}

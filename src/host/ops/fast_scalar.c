/* Owns: fast kernels of scalars: the counters, indices and conditions of loops. They serve exact
 * operations only, so their bits are those of every other kernel. */
#include "host/ops/kernel.h"

typedef trm_status (*run_fn)(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error);

#define KERNEL(name, from, to, expression)                                                 \
  static trm_status name(const trm_kernel *kernel, const trm_kernel_call *call,            \
                         trm_error *error) {                                               \
    (void)kernel, (void)error;                                                             \
    const from a = *(const from *)call->operands[0], b = *(const from *)call->operands[1]; \
    *(to *)call->results[0] = (to)(expression);                                            \
    return TRM_OK;                                                                         \
  }

#define ARITHMETIC(type)                     \
  KERNEL(add_##type, type, type, a + b)      \
  KERNEL(subtract_##type, type, type, a - b) \
  KERNEL(multiply_##type, type, type, a *b)
ARITHMETIC(uint32_t)
ARITHMETIC(uint64_t)
ARITHMETIC(float)
KERNEL(divide_float, float, float, a / b)

#define BITWISE(type)                  \
  KERNEL(and_##type, type, type, a &b) \
  KERNEL(or_##type, type, type, a | b) \
  KERNEL(xor_##type, type, type, a ^ b)
BITWISE(uint8_t)
BITWISE(uint32_t)

#define ORDER(type)                                 \
  KERNEL(maximum_##type, type, type, a > b ? a : b) \
  KERNEL(minimum_##type, type, type, a < b ? a : b)
ORDER(int32_t)
ORDER(int64_t)

/* Division by 0 gives all bits set, and the dividend as remainder. The smallest number divided by
 * -1 gives itself, and the remainder 0. */
KERNEL(divide_int32_t, int32_t, int32_t,
       b == 0    ? -1
       : b == -1 ? (int32_t)(0u - (uint32_t)a)
                 : a / b)
KERNEL(remainder_int32_t, int32_t, int32_t, b == 0 ? a : b == -1 ? 0 : a % b)

#define COMPARE(type)                                       \
  KERNEL(eq_##type, type, uint8_t, a == b)                  \
  KERNEL(ne_##type, type, uint8_t, a != b)                  \
  KERNEL(ge_##type, type, uint8_t, a >= b)                  \
  KERNEL(gt_##type, type, uint8_t, a > b)                   \
  KERNEL(le_##type, type, uint8_t, a <= b)                  \
  KERNEL(lt_##type, type, uint8_t, a < b)                   \
  static run_fn compare_##type(trm_comparison comparison) { \
    switch (comparison) {                                   \
      case TRM_CMP_EQ: return eq_##type;                    \
      case TRM_CMP_NE: return ne_##type;                    \
      case TRM_CMP_GE: return ge_##type;                    \
      case TRM_CMP_GT: return gt_##type;                    \
      case TRM_CMP_LE: return le_##type;                    \
      case TRM_CMP_LT: return lt_##type;                    \
    }                                                       \
    return NULL;                                            \
  }
COMPARE(uint8_t)
COMPARE(int32_t)
COMPARE(uint32_t)
COMPARE(int64_t)
COMPARE(uint64_t)
COMPARE(float)

static run_fn find_compare(const trm_instruction *instruction, trm_dtype dtype) {
  switch (dtype) {
    case TRM_PRED: return compare_uint8_t(instruction->comparison);
    case TRM_S32: return compare_int32_t(instruction->comparison);
    case TRM_U32: return compare_uint32_t(instruction->comparison);
    case TRM_S64: return compare_int64_t(instruction->comparison);
    case TRM_U64: return compare_uint64_t(instruction->comparison);
    case TRM_F32:
      return instruction->comparison_type == TRM_CMPTYPE_TOTALORDER
                 ? NULL
                 : compare_float(instruction->comparison);
    default: return NULL;
  }
}

static trm_status not_pred(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)kernel, (void)error;
  *(uint8_t *)call->results[0] = *(const uint8_t *)call->operands[0] == 0;
  return TRM_OK;
}

#define SELECT(type)                                                                     \
  static trm_status select_##type(const trm_kernel *kernel, const trm_kernel_call *call, \
                                  trm_error *error) {                                    \
    (void)kernel, (void)error;                                                           \
    const int chosen = *(const uint8_t *)call->operands[0] != 0 ? 1 : 2;                 \
    *(type *)call->results[0] = *(const type *)call->operands[chosen];                   \
    return TRM_OK;                                                                       \
  }
SELECT(uint8_t)
SELECT(uint32_t)
SELECT(uint64_t)

static run_fn find_select(trm_dtype dtype) {
  switch (trm_dtype_size(dtype)) {
    case 1: return select_uint8_t;
    case 4: return select_uint32_t;
    case 8: return select_uint64_t;
    default: return NULL;
  }
}

/* Columns: pred, s32, u32, s64, u64, f32. */
static run_fn find_binary(trm_opcode opcode, trm_dtype dtype) {
  run_fn pred = NULL, s32 = NULL, u32 = NULL, s64 = NULL, u64 = NULL, f32 = NULL;
  switch (opcode) {
    case TRM_OP_ADD: s32 = u32 = add_uint32_t, s64 = u64 = add_uint64_t, f32 = add_float; break;
    case TRM_OP_SUBTRACT:
      s32 = u32 = subtract_uint32_t, s64 = u64 = subtract_uint64_t, f32 = subtract_float;
      break;
    case TRM_OP_MULTIPLY:
      s32 = u32 = multiply_uint32_t, s64 = u64 = multiply_uint64_t, f32 = multiply_float;
      break;
    case TRM_OP_DIVIDE: s32 = divide_int32_t, f32 = divide_float; break;
    case TRM_OP_REMAINDER: s32 = remainder_int32_t; break;
    case TRM_OP_MAXIMUM: s32 = maximum_int32_t, s64 = maximum_int64_t; break;
    case TRM_OP_MINIMUM: s32 = minimum_int32_t, s64 = minimum_int64_t; break;
    case TRM_OP_AND: pred = and_uint8_t, s32 = u32 = and_uint32_t; break;
    case TRM_OP_OR: pred = or_uint8_t, s32 = u32 = or_uint32_t; break;
    case TRM_OP_XOR: pred = xor_uint8_t, s32 = u32 = xor_uint32_t; break;
    case TRM_OP_NOT: pred = not_pred; break;
    default: return NULL;
  }
  switch (dtype) {
    case TRM_PRED: return pred;
    case TRM_S32: return s32;
    case TRM_U32: return u32;
    case TRM_S64: return s64;
    case TRM_U64: return u64;
    case TRM_F32: return f32;
    default: return NULL;
  }
}

static bool is_number(const trm_shape *shape) {
  return trm_shape_is_array(shape) && trm_shape_count(shape) == 1;
}

trm_status trm_fast_scalar_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                  bool *out_supported, trm_error *error) {
  (void)error;
  const trm_instruction *instruction = request->instruction;
  *out_supported = false;
  if (instruction->num_operands == 0 || !is_number(&instruction->shape)) return TRM_OK;
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    if (!is_number(trm_operand_shape(request, i))) return TRM_OK;
  }
  const trm_dtype dtype = trm_operand_shape(request, 0)->dtype;
  const run_fn run = instruction->opcode == TRM_OP_COMPARE ? find_compare(instruction, dtype)
                     : instruction->opcode == TRM_OP_SELECT
                         ? find_select(instruction->shape.dtype)
                         : find_binary(instruction->opcode, dtype);
  if (run == NULL) return TRM_OK;
  uint32_t in_place = 0;
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    const trm_shape *shape = trm_operand_shape(request, i);
    if (trm_shape_bytes(shape) == trm_shape_bytes(&instruction->shape)) in_place |= 1u << i;
  }
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.scalar", .in_place_operands = in_place, .run = run};
  return TRM_OK;
}

/* Owns: building parameters, constants and other sources, and elementwise instructions. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/small_float.h"
#include "hlo/builder.h"
#include "hlo/infer.h" /* kinds of element types */

/* ---- Sources -------------------------------------------------------------------------------- */

static trm_value add_parameter(trm_builder *b, int64_t number, trm_shape shape, const char *name) {
  trm_instruction instruction = {.opcode = TRM_OP_PARAMETER, .number = number, .shape = shape};
  if (trm_builder_is_fine(b) && name != NULL) {
    /* The id keeps names apart. */
    instruction.name = trm_arena_format(&b->module->arena, "%s.%" PRId64, name, b->module->next_id);
    if (instruction.name == NULL) trm_builder_no_memory(b);
  }
  return trm_builder_add(b, &instruction, NULL, 0);
}

trm_value trm_build_parameter(trm_builder *builder, int64_t number, trm_type type,
                              const char *name) {
  return add_parameter(builder, number, trm_builder_shape(builder, type), name);
}

trm_value trm_build_parameter_like(trm_builder *builder, int64_t number, trm_value value,
                                   const char *name) {
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  const trm_shape *shape = trm_builder_shape_of(builder, value);
  if (shape == NULL) {
    MISTAKE(builder, "a parameter is to be like something that is not a value of this builder");
    return trm_no_value;
  }
  return add_parameter(builder, number, *shape, name);
}

trm_value trm_build_constant(trm_builder *builder, trm_type type, const void *data, size_t size) {
  trm_instruction instruction = {.opcode = TRM_OP_CONSTANT};
  const trm_shape shape = trm_builder_shape(builder, type);
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  if (size != trm_shape_bytes(&shape) || (data == NULL && size > 0)) {
    char text[256];
    MISTAKE(builder, "constant: %s has %zu bytes, and %zu are given",
            trm_shape_text(&shape, text, sizeof text), trm_shape_bytes(&shape),
            data == NULL ? 0 : size);
    return trm_no_value;
  }
  trm_literal *literal = ARENA_NEW(&builder->module->arena, trm_literal, 1);
  const void **leaves = ARENA_NEW(&builder->module->arena, const void *, 1);
  void *bytes = trm_arena_copy(&builder->module->arena, data, size);
  if (literal == NULL || leaves == NULL || bytes == NULL) {
    trm_builder_no_memory(builder);
    return trm_no_value;
  }
  leaves[0] = bytes;
  *literal = (trm_literal){.shape = shape, .num_leaves = 1, .leaves = leaves};
  instruction.literal = literal;
  return trm_builder_add(builder, &instruction, NULL, 0);
}

/* Rounds to the nearest and keeps within the type's range. */
static int64_t to_integer(double value, double low, double high) {
  const double rounded = rint(value);
  if (!(rounded > low)) return (int64_t)low; /* NaN too */
  return rounded >= high ? (int64_t)nextafter(high, 0) : (int64_t)rounded;
}

trm_value trm_build_scalar(trm_builder *builder, trm_dtype dtype, double value) {
  union {
    uint8_t bytes[16];
    int64_t s64;
    uint64_t u64;
    float f32;
    double f64;
    uint16_t u16;
  } data = {.bytes = {0}};
  const size_t size = trm_dtype_size(dtype);
  const int bits = trm_dtype_bits(dtype);
  switch (dtype) {
    case TRM_PRED: data.bytes[0] = value != 0; break;
    case TRM_F16: data.u16 = trm_float_to_half((float)value); break;
    case TRM_BF16: data.u16 = trm_float_to_bfloat16((float)value); break;
    case TRM_F32:
    case TRM_C64: data.f32 = (float)value; break;
    case TRM_F64:
    case TRM_C128: data.f64 = value; break;
    case TRM_U64:
      data.u64 = value >= 0x1p63 ? (uint64_t)fmin(value, 0x1.fffffffffffffp63)
                                 : (uint64_t)to_integer(value, 0, 0x1p63);
      break;
    default:
      /* Little-endian: the low bytes are the narrower integer. */
      if (trm_dtype_is_unsigned(dtype)) {
        data.s64 = to_integer(value, 0, ldexp(1, bits));
      } else if (trm_dtype_is_integral(dtype)) {
        data.s64 = to_integer(value, -ldexp(1, bits - 1), ldexp(1, bits - 1));
        if (bits < 8) data.s64 &= (1 << bits) - 1;
      } else if (trm_dtype_is_small_float(dtype)) {
        data.bytes[0] = trm_small_float_encode(dtype, value);
      } else {
        MISTAKE(builder, "a scalar cannot be of type %s", trm_dtype_name(dtype));
      }
  }
  return trm_build_constant(builder, (trm_type){dtype, 0, NULL}, &data, size);
}

trm_value trm_build_iota(trm_builder *builder, trm_type type, int64_t dimension) {
  trm_instruction instruction = {.opcode = TRM_OP_IOTA,
                                 .dimensions = trm_builder_axes(builder, (trm_axes){&dimension, 1}),
                                 .shape = trm_builder_shape(builder, type)};
  return trm_builder_add(builder, &instruction, NULL, 0);
}

trm_value trm_build_replica_id(trm_builder *builder) {
  trm_instruction instruction = {.opcode = TRM_OP_REPLICA_ID};
  return trm_builder_add(builder, &instruction, NULL, 0);
}

trm_value trm_build_rng_bit_generator(trm_builder *builder, trm_value state, int32_t algorithm,
                                      trm_type type) {
  trm_instruction instruction = {.opcode = TRM_OP_RNG_BIT_GENERATOR, .algorithm = algorithm};
  const trm_shape array = trm_builder_shape(builder, type);
  const trm_shape *before = trm_builder_shape_of(builder, state);
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  if (before != NULL) {
    const trm_shape elements[2] = {*before, array};
    if (!trm_shape_make_tuple(&builder->module->arena, 2, elements, &instruction.shape)) {
      trm_builder_no_memory(builder);
    }
  }
  return trm_builder_add(builder, &instruction, &state, 1);
}

/* ---- Elementwise ---------------------------------------------------------------------------- */

static trm_value add_elementwise(trm_builder *b, const char *opcode, const trm_value *operands,
                                 int count) {
  trm_instruction instruction = {0};
  if (!trm_builder_find_opcode(b, opcode, &instruction.opcode)) return trm_no_value;
  if (trm_opcode_arity(instruction.opcode) != count || instruction.opcode == TRM_OP_COMPARE ||
      instruction.opcode == TRM_OP_CONVERT || instruction.opcode == TRM_OP_REDUCE_PRECISION ||
      instruction.opcode == TRM_OP_STOCHASTIC_CONVERT ||
      (!trm_opcode_is_elementwise(instruction.opcode) && instruction.opcode != TRM_OP_COPY &&
       instruction.opcode != TRM_OP_OPT_BARRIER)) {
    MISTAKE(b, "%s is not an opcode of %d operand%s without attributes", opcode, count,
            count == 1 ? "" : "s");
    return trm_no_value;
  }
  return trm_builder_add(b, &instruction, operands, (size_t)count);
}

trm_value trm_build_unary(trm_builder *builder, const char *opcode, trm_value operand) {
  return add_elementwise(builder, opcode, &operand, 1);
}

trm_value trm_build_binary(trm_builder *builder, const char *opcode, trm_value left,
                           trm_value right) {
  const trm_value operands[] = {left, right};
  return add_elementwise(builder, opcode, operands, 2);
}

trm_value trm_build_compare(trm_builder *builder, const char *direction, trm_value left,
                            trm_value right) {
  static const char *const names[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  const trm_value operands[] = {left, right};
  for (int i = 0; i < 6; ++i) {
    if (direction == NULL || strcmp(direction, names[i]) != 0) continue;
    trm_instruction instruction = {.opcode = TRM_OP_COMPARE, .comparison = (trm_comparison)i};
    return trm_builder_add(builder, &instruction, operands, 2);
  }
  MISTAKE(builder, "compare: \"%s\" is not one of EQ, NE, GE, GT, LE, LT",
          direction == NULL ? "" : direction);
  return trm_no_value;
}

trm_value trm_build_select(trm_builder *builder, trm_value predicate, trm_value on_true,
                           trm_value on_false) {
  const trm_value operands[] = {predicate, on_true, on_false};
  return add_elementwise(builder, "select", operands, 3);
}

trm_value trm_build_clamp(trm_builder *builder, trm_value low, trm_value operand, trm_value high) {
  const trm_value operands[] = {low, operand, high};
  return add_elementwise(builder, "clamp", operands, 3);
}

trm_value trm_build_convert(trm_builder *builder, trm_value operand, trm_dtype dtype) {
  trm_instruction instruction = {.opcode = TRM_OP_CONVERT, .shape.dtype = dtype};
  return trm_builder_add(builder, &instruction, &operand, 1);
}

trm_value trm_build_bitcast_convert(trm_builder *builder, trm_value operand, trm_dtype dtype) {
  trm_instruction instruction = {.opcode = TRM_OP_BITCAST_CONVERT, .shape.dtype = dtype};
  return trm_builder_add(builder, &instruction, &operand, 1);
}

trm_value trm_build_reduce_precision(trm_builder *builder, trm_value operand, int32_t exponent_bits,
                                     int32_t mantissa_bits) {
  trm_instruction instruction = {.opcode = TRM_OP_REDUCE_PRECISION,
                                 .exponent_bits = exponent_bits,
                                 .mantissa_bits = mantissa_bits};
  return trm_builder_add(builder, &instruction, &operand, 1);
}

trm_value trm_build_map(trm_builder *builder, const trm_value *operands, size_t count,
                        trm_function function) {
  static const int64_t all[TRM_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  uint32_t called[1];
  const trm_shape *shape = count > 0 ? trm_builder_shape_of(builder, operands[0]) : NULL;
  trm_instruction instruction = {
      .opcode = TRM_OP_MAP,
      .dimensions = trm_builder_axes(builder, (trm_axes){all, shape == NULL ? 0 : shape->rank})};
  trm_builder_call(builder, &instruction, called, &function, 1);
  return trm_builder_add(builder, &instruction, operands, count);
}

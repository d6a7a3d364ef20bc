/* Owns: the codelets of elementwise instructions on an IPU (codelets.h). Formulas:
 * docs/cost_model.md, "Elementwise". */
#include "ipu/costs/codelets.h"

#include <string.h>

#include "base/small_float.h"
#include "hlo/library_call.h"
#include "ipu/tile/mapping.h"

typedef struct loop_cost {
  uint16_t cycles[3], elements[3]; /* half, float, integers */
  const char *name;
} loop_cost;

static const loop_cost table[TRM_NUM_OPCODES] = {
#define TILE_OP(id, popops, hc, he, fc, fe, ic, ie) \
  [TRM_OP_##id] = {{hc, fc, ic}, {he, fe, ie}, popops},
#include "ipu/costs/elementwise.def"
#undef TILE_OP
};

/* Functions that HLO has not: gelu-erf is popops', the others are popnn's (a vector at a time,
 * poplibs lib/popnn/popnnCycleEstimators.cpp). */
static const struct {
  const char *name;
  loop_cost cost;
  int64_t flops;
} functions[] = {
    {TRM_GELU_ERF, {{16, 22, 22}, {1, 1, 1}, "GELU_ERF"}, 1},
    {"gelu", {{5, 10, 10}, {4, 2, 2}, "GELU"}, 8},
    {"gelu-grad", {{5, 10, 10}, {4, 2, 2}, "GELU"}, 15},
    {"swish", {{5, 11, 11}, {4, 2, 2}, "SWISH"}, 2},
    {"swish-grad", {{9, 15, 15}, {4, 2, 2}, "SWISH"}, 5},
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions };

/* The index of the function that the instruction stands for; NUM_FUNCTIONS: for none. */
static size_t function_of(const trm_instruction *instruction) {
  const bool may_be = instruction->opcode == TRM_OP_ERF || instruction->opcode == TRM_OP_MULTIPLY;
  const char *name = may_be ? trm_instruction_frontend_attribute(instruction, TRM_FUNCTION) : NULL;
  size_t i = name == NULL ? NUM_FUNCTIONS : 0;
  while (i < NUM_FUNCTIONS && strcmp(functions[i].name, name) != 0) ++i;
  return i;
}

static const loop_cost *row_of(const trm_instruction *instruction) {
  const size_t i = function_of(instruction);
  return i < NUM_FUNCTIONS ? &functions[i].cost : &table[instruction->opcode];
}

trm_codelet_kind trm_codelet_kind_of(trm_dtype dtype) {
  switch (dtype) {
    case TRM_F16:
    case TRM_BF16: return TRM_CODELET_HALF;
    case TRM_F32:
    case TRM_F64:
    case TRM_C64:
    case TRM_C128: return TRM_CODELET_FLOAT;
    default: /* small floats compute as half */
      return trm_dtype_is_small_float(dtype) ? TRM_CODELET_HALF : TRM_CODELET_INTEGER;
  }
}

const char *trm_codelet_type(trm_dtype dtype) {
  switch (dtype) {
    case TRM_F16:
    case TRM_BF16: return "half";
    case TRM_F32:
    case TRM_F64: return "float";
    case TRM_PRED: return "bool";
    case TRM_S1:
    case TRM_S2:
    case TRM_S4:
    case TRM_S8: return "char";
    case TRM_U1:
    case TRM_U2:
    case TRM_U4:
    case TRM_U8: return "unsigned char";
    case TRM_S16: return "short";
    case TRM_U16: return "unsigned short";
    case TRM_U32:
    case TRM_U64: return "unsigned int";
    default: return trm_dtype_is_small_float(dtype) ? "quarter" : "int";
  }
}

/* Worker cycles of a cast of one element, by the sizes of source and target. */
static double cast_cycles(trm_dtype from, trm_dtype to) {
  const trm_codelet_kind a = trm_codelet_kind_of(from), b = trm_codelet_kind_of(to);
  if (a != TRM_CODELET_INTEGER && b != TRM_CODELET_INTEGER) { /* a vector in, one out */
    return a == b ? 2.0 / (a == TRM_CODELET_HALF ? 4 : 2) : 2.0 / 2;
  }
  const uint32_t small = trm_tile_dtype_bytes(from) < trm_tile_dtype_bytes(to)
                             ? trm_tile_dtype_bytes(from)
                             : trm_tile_dtype_bytes(to);
  if (small == 1 && a == TRM_CODELET_INTEGER && b == TRM_CODELET_HALF) return 9.0 / 4;
  if (small == 1 && a == TRM_CODELET_HALF && b == TRM_CODELET_INTEGER) return 16.0 / 4;
  return 2.0;
}

bool trm_codelet_is_relu_gradient(const trm_computation *computation,
                                  const trm_instruction *instruction) {
  if (instruction->opcode != TRM_OP_SELECT) return false;
  const trm_instruction *items = computation->instructions;
  if (items[instruction->operands[0]].opcode != TRM_OP_COMPARE) return false;
  for (int side = 1; side <= 2; ++side) {
    const trm_instruction *value = &items[instruction->operands[side]];
    if (value->opcode == TRM_OP_BROADCAST) value = &items[value->operands[0]];
    if (value->opcode == TRM_OP_CONSTANT && trm_shape_is_scalar(&value->shape)) return true;
  }
  return false;
}

double trm_codelet_cycles(const trm_computation *computation, const trm_instruction *instruction,
                          bool in_half) {
  trm_dtype result = instruction->shape.dtype;
  trm_dtype operand =
      instruction->num_operands == 0
          ? result
          : computation->instructions[instruction->operands[instruction->num_operands - 1]]
                .shape.dtype;
  if (in_half && result == TRM_F32) result = TRM_F16;
  if (in_half && operand == TRM_F32) operand = TRM_F16;
  if (in_half && instruction->opcode == TRM_OP_CONVERT && result == TRM_F16 && operand == TRM_F16) {
    return 0;
  }
  const bool wide = operand == TRM_C64 || operand == TRM_C128;
  switch (instruction->opcode) {
    case TRM_OP_CONVERT:
    case TRM_OP_BITCAST_CONVERT: return cast_cycles(operand, result);
    case TRM_OP_IOTA: return 3.0 / trm_tile_vector_width(result);
    case TRM_OP_SELECT:
      if (trm_codelet_is_relu_gradient(computation, instruction)) {
        return 3.0 / trm_tile_vector_width(result);
      }
      break;
    case TRM_OP_COMPARE:
      if (instruction->comparison == TRM_CMP_NE) {
        return trm_codelet_kind_of(operand) == TRM_CODELET_FLOAT ? 20.0 / 4 : 11.0 / 4;
      }
      break;
    default: break;
  }
  const loop_cost *row = row_of(instruction);
  const trm_codelet_kind column = trm_codelet_kind_of(operand);
  if (row->elements[column] == 0) return 7.0; /* one scalar instruction, with its load and store */
  return (double)row->cycles[column] / row->elements[column] * (wide ? 4.0 : 1.0);
}

double trm_codelet_cycles_inside(double cycles, trm_dtype dtype) {
  const double vector = 1.0 / trm_tile_vector_width(dtype);
  return cycles == 0 ? 0 : cycles > 3 * vector ? cycles - 2 * vector : vector;
}

int64_t trm_codelet_flops(const trm_instruction *instruction) {
  const size_t i = function_of(instruction);
  if (i < NUM_FUNCTIONS) return functions[i].flops;
  switch (instruction->opcode) {
    case TRM_OP_SELECT:
    case TRM_OP_CONVERT:
    case TRM_OP_BITCAST_CONVERT:
    case TRM_OP_IOTA:
    case TRM_OP_COMPARE: return 0;
    default: return trm_codelet_kind_of(instruction->shape.dtype) == TRM_CODELET_INTEGER ? 0 : 1;
  }
}

const char *trm_codelet_name(trm_arena *arena, const trm_computation *computation,
                             const trm_instruction *instruction, uint32_t size, uint32_t inputs,
                             bool scalar) {
  const char *type = trm_codelet_type(instruction->shape.dtype);
  if (size > 1 && inputs <= 4) {
    return trm_arena_format(arena, "popops::ScaledAddSupervisor<%s,%s,%s,false>", type, type, type);
  }
  if (size > 1) return trm_arena_format(arena, "popops::map_%s_%u", type, inputs);
  if (instruction->opcode == TRM_OP_CONVERT) {
    const trm_index from = instruction->operands[0];
    return trm_arena_format(arena, "popops::Cast1D<%s,%s>",
                            trm_codelet_type(computation->instructions[from].shape.dtype), type);
  }
  if (instruction->opcode == TRM_OP_IOTA) {
    return trm_arena_format(arena, "popops::Iota<%s>", type);
  }
  const char *op = row_of(instruction)->name;
  if (op == NULL) op = "COPY";
  if (instruction->opcode == TRM_OP_SELECT) {
    return trm_arena_format(arena, "popops::Select<%s>", type);
  }
  if (instruction->opcode == TRM_OP_CLAMP) {
    return trm_arena_format(arena, "popops::Clamp<%s>", type);
  }
  if (instruction->num_operands >= 2 && scalar) {
    return trm_arena_format(arena, "popops::BroadcastScalar1D<expr::BinaryOpType::%s,%s>", op,
                            type);
  }
  return trm_arena_format(arena, "popops::%sOp1D<expr::%sOpType::%s,%s>",
                          instruction->num_operands >= 2 ? "Binary" : "Unary",
                          instruction->num_operands >= 2 ? "Binary" : "Unary", op, type);
}

const char *trm_codelet_compute_set(trm_arena *arena, const trm_instruction *instruction) {
  static const char *const comparisons[] = {
      [TRM_CMP_EQ] = "Op/Equal",       [TRM_CMP_NE] = "Op/NotEqual",
      [TRM_CMP_LT] = "Op/LessThan",    [TRM_CMP_LE] = "Op/LessThanEqual",
      [TRM_CMP_GT] = "Op/GreaterThan", [TRM_CMP_GE] = "Op/GreaterThanEqual"};
  const bool logical = instruction->shape.dtype == TRM_PRED;
  switch (instruction->opcode) {
    case TRM_OP_CONVERT: return "Cast";
    case TRM_OP_IOTA: return "Iota";
    case TRM_OP_COMPARE: return comparisons[instruction->comparison];
    case TRM_OP_AND:
      if (logical) return "Op/LogicalAnd";
      break;
    case TRM_OP_OR:
      if (logical) return "Op/LogicalOr";
      break;
    case TRM_OP_NOT:
      if (logical) return "Op/LogicalNot";
      break;
    default: break;
  }
  const char *words = row_of(instruction)->name;
  if (words == NULL) return "Op/Copy";
  char *name = trm_arena_format(arena, "Op/%s", words);
  if (name == NULL) return NULL;
  char *to = name + 3;
  for (bool first = true; *words != '\0'; ++words) {
    if (*words == '_') {
      first = true;
      continue;
    }
    const bool upper = *words >= 'A' && *words <= 'Z';
    *to++ = first || !upper ? *words : (char)(*words - 'A' + 'a');
    first = false;
  }
  *to = '\0';
  return name;
}

/* Owns: trm_infer_shape, which finds the family of an opcode. */
#include <inttypes.h>

#include "hlo/infer.h"

static trm_status infer(trm_inference *c) {
  const trm_instruction *instruction = c->instruction;
  const int calls = trm_opcode_calls(instruction->opcode);
  CHECK(c, calls < 0 || instruction->num_called == (uint32_t)calls,
        "calls %" PRIu32 " computations; it must call %d", instruction->num_called, calls);
  switch (instruction->opcode) {
    case TRM_OP_GATHER: return trm_infer_gather(c);
    case TRM_OP_SCATTER: return trm_infer_scatter(c);
    default: break;
  }
  switch (trm_opcode_class_of(instruction->opcode)) {
    case TRM_CLASS_UNARY:
    case TRM_CLASS_BINARY:
    case TRM_CLASS_TERNARY: return trm_infer_elementwise(c);
    case TRM_CLASS_DATA:
    case TRM_CLASS_SOURCE:
    case TRM_CLASS_TUPLE: return trm_infer_data(c);
    case TRM_CLASS_REDUCE: return trm_infer_reduction(c);
    case TRM_CLASS_LINEAR: return trm_infer_linear(c);
    case TRM_CLASS_CONTROL:
    case TRM_CLASS_COLLECTIVE:
    case TRM_CLASS_COMMUNICATION:
    case TRM_CLASS_OTHER: return trm_infer_control(c);
  }
  return trm_infer_fail(c, TRM_INTERNAL, "has no rule for its shape");
}

trm_status trm_infer_shape(trm_module *module, const trm_computation *computation,
                           const trm_instruction *instruction, trm_shape *out_shape,
                           trm_error *error) {
  trm_shape shape = {0};
  trm_inference c = {.module = module,
                     .computation = computation,
                     .instruction = instruction,
                     .out_shape = &shape,
                     .error = error};
  if ((unsigned)instruction->opcode >= TRM_NUM_OPCODES) {
    FAIL(INVALID_ARGUMENT, "an instruction has no valid opcode");
  }
  const int arity = trm_opcode_arity(instruction->opcode);
  if (arity >= 0 && instruction->num_operands != (uint32_t)arity) {
    return trm_infer_fail(&c, TRM_INVALID_ARGUMENT, "takes %d operands, not %" PRIu32, arity,
                          instruction->num_operands);
  }
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    if (instruction->operands[i] >= computation->num_instructions) {
      return trm_infer_fail(&c, TRM_INVALID_ARGUMENT, "operand %" PRIu32 " does not exist", i);
    }
  }
  TRY(infer(&c));
  *out_shape = shape;
  return TRM_OK;
}

/* Owns: reference kernels of the elementwise opcodes and of map. */
#include "host/ops/reference.h"

typedef struct elementwise_state {
  trm_scalar_op op;
  trm_dtype result_type, types[3];
  uint32_t num_operands;
  bool is_scalar[3]; /* a scalar, which all elements use */
  int64_t count;
} elementwise_state;

static trm_status run_elementwise(const trm_kernel *kernel, const trm_kernel_call *call,
                                  trm_error *error) {
  (void)error;
  const elementwise_state *state = (const elementwise_state *)kernel->state;
  trm_value operands[3];
  for (int64_t i = 0; i < state->count; ++i) {
    for (uint32_t k = 0; k < state->num_operands; ++k) {
      operands[k] = trm_value_load(state->types[k], call->operands[k], state->is_scalar[k] ? 0 : i);
    }
    trm_value_store(state->result_type, call->results[0], i,
                    trm_scalar_op_apply(&state->op, operands));
  }
  return TRM_OK;
}

/* Copies bytes, so that a NaN keeps its bits. */
static trm_status run_select(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)error;
  const elementwise_state *state = (const elementwise_state *)kernel->state;
  const size_t size = trm_dtype_size(state->result_type);
  const uint8_t *chosen = (const uint8_t *)call->operands[0];
  for (int64_t i = 0; i < state->count; ++i) {
    const uint32_t k = chosen[state->is_scalar[0] ? 0 : i] ? 1 : 2;
    trm_copy_element(size, call->results[0], i, call->operands[k], state->is_scalar[k] ? 0 : i);
  }
  return TRM_OK;
}

static trm_status run_map(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_evaluator *evaluator = state->evaluators[0];
  trm_value *slots = (trm_value *)call->scratch;
  trm_evaluator_prepare(evaluator, slots);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i) {
    for (uint32_t k = 0; k < state->num_operands; ++k) {
      slots[k] = trm_value_load(state->operands[k].dtype, call->operands[k], i);
    }
    trm_evaluator_run(evaluator, slots);
    trm_value_store(state->shape.dtype, call->results[0], i, slots[evaluator->results[0]]);
  }
  return TRM_OK;
}

trm_status trm_reference_elementwise_create(const trm_kernel_request *request,
                                            trm_kernel *out_kernel, bool *out_supported,
                                            trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_supported = true;
  if (instruction->opcode == TRM_OP_MAP) {
    return trm_reference_kernel_create(request, "reference.map", run_map, 1, out_kernel, error);
  }
  elementwise_state *state = ARENA_NEW(request->arena, elementwise_state, 1);
  CHECK_MEMORY(state, "a reference kernel");
  TRY(trm_scalar_op_create(request->module, request->computation, instruction, &state->op, error));
  state->result_type = instruction->shape.dtype;
  state->num_operands = instruction->num_operands;
  state->count = trm_shape_count(&instruction->shape);
  memset(out_kernel, 0, sizeof *out_kernel);
  for (uint32_t k = 0; k < state->num_operands; ++k) {
    const trm_shape *shape = trm_operand_shape(request, k);
    state->types[k] = shape->dtype;
    state->is_scalar[k] = shape->rank == 0;
    if (!state->is_scalar[k] && trm_shape_count(shape) != state->count) {
      return trm_reference_refuse(request, "its operands have different dimensions", error);
    }
    if (trm_dtype_size(shape->dtype) == trm_dtype_size(state->result_type) &&
        trm_shape_count(shape) == state->count) {
      out_kernel->in_place_operands |= UINT32_C(1) << k;
    }
  }
  out_kernel->name = "reference.elementwise";
  out_kernel->state = state;
  out_kernel->run = instruction->opcode == TRM_OP_SELECT ? run_select : run_elementwise;
  return TRM_OK;
}

/* Owns: fast kernels of elementwise instructions and of kLoop fusions: strip code. */
#include <string.h>

#include "host/ops/elementwise/strip.h"

static trm_status run_code(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  trm_strip_run(kernel->state, call->operands, call->results, call->scratch);
  return TRM_OK;
}

/* A kernel inside another one's computation has no persistent block. */
static trm_status run_small(const trm_kernel *kernel, const trm_kernel_call *call,
                            trm_error *error) {
  if (call->persistent == NULL) return run_code(kernel, call, error);
  trm_strip_run_kept(kernel->state, call->operands, call->results, call->persistent);
  return TRM_OK;
}

static void destroy_code(trm_kernel *kernel) { trm_strip_destroy(kernel->state); }

/* Makes a computation of parameters and a copy of the instruction that works on them. */
static trm_status wrap_instruction(const trm_kernel_request *request, trm_computation *out_wrapped,
                                   trm_error *error) {
  const uint32_t n = request->instruction->num_operands;
  trm_computation wrapped = {
      .name = "single", .num_instructions = n + 1, .root = n, .num_parameters = n};
  wrapped.instructions = ARENA_NEW(request->arena, trm_instruction, n + 1);
  wrapped.parameters = ARENA_NEW(request->arena, trm_index, n + 1);
  CHECK_MEMORY(wrapped.instructions, "strip code");
  CHECK_MEMORY(wrapped.parameters, "strip code");
  for (uint32_t i = 0; i < n; ++i) {
    wrapped.parameters[i] = i;
    wrapped.instructions[i] = (trm_instruction){
        .opcode = TRM_OP_PARAMETER, .shape = *trm_operand_shape(request, i), .number = i};
  }
  wrapped.instructions[n] = *request->instruction;
  wrapped.instructions[n].operands = wrapped.parameters;
  *out_wrapped = wrapped;
  return TRM_OK;
}

trm_status trm_fast_elementwise_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const bool is_fusion = instruction->opcode == TRM_OP_FUSION;
  *out_supported = false;
  trm_strip_code *code = NULL;
  if (is_fusion) {
    if (instruction->fusion_kind == NULL || strcmp(instruction->fusion_kind, "kLoop") != 0 ||
        instruction->num_called != 1)
      return TRM_OK;
    TRY(trm_strip_compile(request->module, &request->module->computations[instruction->called[0]],
                          request->arena, &code, out_supported, error));
  } else {
    TRY(trm_fast_scalar_create(request, out_kernel, out_supported, error));
    if (*out_supported) return TRM_OK;
    if (!trm_strip_supports(request->module, request->computation, instruction))
      return trm_fast_complex_create(request, out_kernel, out_supported, error);
    trm_computation wrapped;
    TRY(wrap_instruction(request, &wrapped, error));
    TRY(trm_strip_compile(request->module, &wrapped, request->arena, &code, out_supported, error));
  }
  if (!*out_supported) return TRM_OK;
  /* An operand that is used twice must allow overwriting in both uses. */
  const uint32_t num_results = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  uint32_t *in_place = ARENA_NEW(request->arena, uint32_t, num_results);
  if (in_place == NULL) {
    trm_strip_destroy(code);
    FAIL_NO_MEMORY("strip code");
  }
  for (uint32_t r = 0; r < num_results; ++r) {
    const uint32_t allowed = in_place[r] = trm_strip_in_place_operands(code, r);
    for (uint32_t i = 0; i < instruction->num_operands && i < 32; ++i) {
      for (uint32_t k = 0; k < instruction->num_operands; ++k) {
        if (instruction->operands[k] == instruction->operands[i] &&
            (k >= 32 || !(allowed >> k & 1)))
          in_place[r] &= ~(UINT32_C(1) << i);
      }
    }
  }
  const size_t kept_bytes = trm_strip_kept_bytes(code);
  *out_kernel = (trm_kernel){.name = is_fusion ? "fast.fusion" : "fast.elementwise",
                             .scratch_bytes = trm_strip_scratch_bytes(code),
                             .persistent_bytes = kept_bytes,
                             .in_place_operands = in_place[0],
                             .more_in_place = in_place + 1,
                             .state = code,
                             .run = kept_bytes > 0 ? run_small : run_code,
                             .destroy = destroy_code};
  return TRM_OK;
}

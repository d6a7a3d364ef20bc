/* Owns: the custom call "tremula.assert", which fails the run if its operand, a pred[], is false.
 * backend_config {"message":TEXT}. */
#include "host/ops/reference.h"

#include "hlo/config.h"

typedef struct assertion {
  const char *message;
} assertion;

static trm_status run_assert(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  const assertion *state = kernel->state;
  if (*(const uint8_t *)call->operands[0] != 0) return TRM_OK;
  return trm_fail(error, TRM_INTERNAL, "%s", state->message);
}

trm_status trm_assert_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                             bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  if (instruction->num_operands != 1 || trm_operand_shape(request, 0)->dtype != TRM_PRED ||
      trm_shape_count(trm_operand_shape(request, 0)) != 1) {
    return trm_reference_refuse(request, "tremula.assert takes one pred[]", error);
  }
  json_t *config = trm_instruction_config(instruction, JSON_ALLOW_NUL, NULL);
  const char *text = json_string_value(json_object_get(config, "message"));
  assertion *state = ARENA_NEW(request->arena, assertion, 1);
  if (state != NULL && text != NULL) {
    state->message = trm_arena_string(request->arena, text, strlen(text));
  }
  const bool named = text != NULL;
  json_decref(config);
  if (!named) {
    return trm_reference_refuse(
        request, "the backend_config of tremula.assert must give 'message', a text", error);
  }
  if (state == NULL || state->message == NULL) FAIL_NO_MEMORY("an assertion");
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "host.assert", .state = state, .run = run_assert};
  return TRM_OK;
}

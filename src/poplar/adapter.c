/* Owns: the kernels of the custom call "tremula.user-op": a Poplar operator here, a C
 * function in the host's tower. */
#include <string.h>

#include "host/ops/kernel.h"
#include "poplar/build.h"

static trm_status run_operator(const trm_kernel *kernel, const trm_kernel_call *call,
                               trm_error *error) {
  const trm_poplar_built *built = kernel->state;
  if (call->persistent == NULL) FAIL(INTERNAL, "a Poplar operator runs as a step of its own only");
  return trm_poplar_run_plan(built->plan, call, error);
}

static void destroy_operator(trm_kernel *kernel) { trm_poplar_built_release(kernel->state); }

/* The operands that become results, which the program writes in place, and those that results may
 * lie over. */
static trm_status find_places(const trm_poplar_plan *plan, trm_arena *arena, trm_kernel *kernel,
                              trm_error *error) {
  uint32_t *places = ARENA_NEW(arena, uint32_t, plan->num_outputs + 1u);
  CHECK_MEMORY(places, "a user op");
  for (uint32_t i = 0; i < plan->num_inputs && i < 32; ++i) {
    const int32_t output = plan->input_ports[i].output;
    if (output >= 0) places[output] |= (uint32_t)1 << i;
  }
  for (uint32_t o = 0; o < plan->num_outputs; ++o) places[o] |= plan->output_ports[o].over;
  kernel->in_place_operands = plan->num_outputs > 0 ? places[0] : 0;
  kernel->more_in_place = places + 1;
  return TRM_OK;
}

trm_status trm_user_op_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                              bool *out_supported, trm_error *error) {
  if (!trm_poplar_is_operator(request->instruction)) {
    return trm_c_user_op_create(request, out_kernel, out_supported, error);
  }
  trm_poplar_built *built;
  TRY(trm_poplar_built_take(request->module, request->computation, request->instruction, &built,
                            error));
  trm_kernel kernel = {.name = "poplar.operator",
                       .state = built,
                       .persistent_bytes = built->plan->bytes,
                       .run = run_operator,
                       .destroy = destroy_operator};
  const trm_status status = find_places(built->plan, request->arena, &kernel, error);
  if (status != TRM_OK) {
    trm_poplar_built_release(built);
    return status;
  }
  *out_kernel = kernel;
  *out_supported = true;
  return TRM_OK;
}

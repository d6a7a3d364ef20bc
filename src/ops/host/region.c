/* Owns: creating the kernels of regions. */
#include "ops/host/region.h"

#include <string.h>

#include "ops/reference.h"

static trm_status run_region(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)kernel, (void)call;
  FAIL(INTERNAL, "a region runs in an engine only");
}

const trm_region_kernel *trm_region_kernel_of(const trm_kernel *kernel) {
  return kernel->run == run_region ? kernel->state : NULL;
}

static void destroy_region(trm_kernel *kernel) {
  const trm_region_kernel *r = kernel->state;
  trm_region_release(r->compiled);
}

static void describe(const trm_shape *shape, trm_host_array *out) {
  *out = (trm_host_array){.dtype = shape->dtype,
                          .rank = shape->rank,
                          .dims = shape->dims,
                          .bytes = trm_shape_bytes(shape)};
}

trm_status trm_region_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                             bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  trm_region_kernel *r = ARENA_NEW(request->arena, trm_region_kernel, 1);
  CHECK_MEMORY(r, "a region");
  r->num_results = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  r->num_operands = instruction->num_operands;
  r->operands = ARENA_NEW(request->arena, trm_host_array, (size_t)r->num_operands + 1);
  r->results = ARENA_NEW(request->arena, trm_host_array, (size_t)r->num_results + 1);
  if (r->operands == NULL || r->results == NULL) FAIL_NO_MEMORY("a region");
  for (uint32_t i = 0; i < r->num_operands; ++i) {
    describe(trm_operand_shape(request, i), &r->operands[i]);
  }
  for (uint32_t i = 0; i < r->num_results; ++i) {
    describe(trm_shape_leaf(&instruction->shape, (int32_t)i), &r->results[i]);
  }
  const char *config = instruction->backend_config, *space = config ? strchr(config, ' ') : NULL;
  r->compiled = space != NULL ? trm_region_take(space + 1) : NULL;
  if (r->compiled == NULL) {
    FAIL(INTERNAL, "%s was not compiled for the accelerator", instruction->name);
  }
  r->is_fastest = strncmp(config, TRM_REGION_FASTEST, strlen(TRM_REGION_FASTEST)) == 0;
  out_kernel->name = "accelerator.region";
  out_kernel->state = r;
  out_kernel->run = run_region;
  out_kernel->destroy = destroy_region;
  out_kernel->in_place_everywhere = true;
  *out_supported = true;
  return TRM_OK;
}

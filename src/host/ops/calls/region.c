/* Owns: creating the kernels of regions. */
#include "host/ops/calls/region.h"

#include <stdio.h>
#include <string.h>

#include "host/ops/reference.h"

static trm_status run_region(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  (void)kernel, (void)call;
  FAIL(INTERNAL, "a region runs in an engine only");
}

const trm_region_kernel *trm_region_kernel_of(const trm_kernel *kernel) {
  return kernel != NULL && kernel->run == run_region ? kernel->state : NULL;
}

static void destroy_region(trm_kernel *kernel) {
  const trm_region_kernel *r = kernel->state;
  trm_region_release(r->compiled);
}

trm_status trm_region_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                             bool *out_supported, trm_error *error) {
  const char *config = request->instruction->backend_config;
  char key[TRM_REGION_KEY];
  snprintf(key, sizeof key, "%s", config != NULL ? config : "");
  trm_region_kernel *r = ARENA_NEW(request->arena, trm_region_kernel, 1);
  CHECK_MEMORY(r, "a region");
  r->compiled = trm_region_take(key);
  if (r->compiled == NULL) {
    FAIL(INTERNAL, "%s was not compiled for the accelerator", request->instruction->name);
  }
  r->request = *request;
  r->precision = config + strlen(key);
  out_kernel->name = "accelerator.region";
  out_kernel->state = r;
  out_kernel->run = run_region;
  out_kernel->destroy = destroy_region;
  out_kernel->in_place_everywhere = true;
  *out_supported = true;
  return TRM_OK;
}

/* Owns: which kernels serve which opcode. */
#include <stdio.h>
#include <string.h>

#include "host/ops/algebra/lapack.h"
#include "host/ops/kernel.h"
#include "host/ops/products/reference_linear.h"
#include "host/ops/reference.h"

typedef struct kernel_creators {
  trm_kernel_create_fn fast, reference;
} kernel_creators;

static const trm_kernel_create_fn custom_calls[TRM_NUM_CALLS] = {
#define KERNEL(name) trm_##name##_create
#define NO_KERNEL NULL
#define CUSTOM_CALL(id, target, like, kernel, cost, replicas, events) [TRM_CALL_##id] = kernel,
#include "hlo/custom_calls.def"
#undef CUSTOM_CALL
#undef NO_KERNEL
#undef KERNEL
};

static trm_status create_custom_call(const trm_kernel_request *request, trm_kernel *out_kernel,
                                     bool *out_supported, trm_error *error) {
  const trm_kernel_create_fn create = custom_calls[request->instruction->call_id];
  if (create != NULL) return create(request, out_kernel, out_supported, error);
  const trm_custom_call *call = request->instruction->custom_call;
  char reason[256];
  snprintf(reason, sizeof reason, "no kernel for the custom call target '%s' exists",
           call == NULL ? "" : call->target);
  return trm_reference_refuse(request, reason, error);
}

static const kernel_creators opcodes[TRM_NUM_OPCODES] = {
#define KERNELS(fast, reference) {trm_##fast##_create, trm_##reference##_create}
#define KERNEL(reference) {NULL, trm_##reference##_create}
#define CALL_KERNEL {trm_fast_algebra_create, create_custom_call}
#define NO_KERNEL {NULL, NULL}
#define OPCODE(id, name, arity, class, calls, kernel, cost, effect, replicas, events) \
  [TRM_OP_##id] = kernel,
#include "hlo/opcodes.def"
#undef OPCODE
#undef NO_KERNEL
#undef CALL_KERNEL
#undef KERNEL
#undef KERNELS
};

trm_status trm_kernel_create(const trm_kernel_request *request, bool reference_only,
                             trm_kernel *out_kernel, trm_error *error) {
  const kernel_creators creators = opcodes[request->instruction->opcode];
  const trm_kernel_create_fn order[] = {reference_only ? NULL : creators.fast, creators.reference};
  for (size_t i = 0; i < sizeof order / sizeof *order; ++i) {
    if (order[i] == NULL) continue;
    trm_kernel kernel = {0};
    bool supported = true;
    TRY(order[i](request, &kernel, &supported, error));
    if (!supported) continue;
    *out_kernel = kernel;
    return TRM_OK;
  }
  return trm_reference_refuse(request, "this operation is not supported", error);
}

void trm_kernel_destroy(trm_kernel *kernel) {
  if (kernel->destroy != NULL) kernel->destroy(kernel);
  memset(kernel, 0, sizeof *kernel);
}

trm_status trm_kernel_run_once(const trm_kernel_request *request, const void *const *operands,
                               void *result, trm_error *error) {
  enum { MAX_OPERANDS = 16 };
  const uint64_t versions[MAX_OPERANDS] = {0};
  trm_kernel kernel;
  if (request->instruction->num_operands > MAX_OPERANDS) {
    return trm_reference_refuse(request, "too many operands", error);
  }
  TRY(trm_kernel_create(request, true, &kernel, error));
  void *working = trm_allocate_aligned(kernel.scratch_bytes);
  void *persistent = trm_allocate_aligned(kernel.persistent_bytes);
  trm_status status;
  if (working == NULL || persistent == NULL) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while computing a constant");
  } else {
    memset(persistent, 0, kernel.persistent_bytes);
    void *results[1] = {result};
    const trm_kernel_call call = {.operands = operands,
                                  .versions = versions,
                                  .results = results,
                                  .scratch = working,
                                  .persistent = persistent};
    status = kernel.run(&kernel, &call, error);
  }
  trm_free(working);
  trm_free(persistent);
  trm_kernel_destroy(&kernel);
  return status;
}

bool trm_kernel_exists(trm_opcode opcode) { return opcodes[opcode].reference != NULL; }

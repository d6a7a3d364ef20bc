/* Which kernels serve which opcode. */
#include <stdio.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/linear/linear_reference.h"
#include "ops/reference.h"

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

static kernel_creators creators_of(trm_opcode opcode) {
  switch (opcode) {
    case TRM_OP_MAP: return (kernel_creators){NULL, trm_reference_elementwise_create};
    case TRM_OP_FUSION:
      return (kernel_creators){trm_fast_elementwise_create, trm_reference_fusion_create};

    case TRM_OP_BITCAST:
    case TRM_OP_BITCAST_CONVERT:
    case TRM_OP_BROADCAST:
    case TRM_OP_CONCATENATE:
    case TRM_OP_COPY:
    case TRM_OP_GET_DIMENSION_SIZE:
    case TRM_OP_IOTA:
    case TRM_OP_PAD:
    case TRM_OP_PARTITION_ID:
    case TRM_OP_RESHAPE:
    case TRM_OP_REVERSE:
    case TRM_OP_SET_DIMENSION_SIZE:
    case TRM_OP_SLICE:
    case TRM_OP_TRANSPOSE:
      return (kernel_creators){trm_fast_data_create, trm_reference_data_create};
    case TRM_OP_DYNAMIC_SLICE:
    case TRM_OP_DYNAMIC_UPDATE_SLICE:
    case TRM_OP_GATHER:
    case TRM_OP_SCATTER:
      return (kernel_creators){trm_fast_data_create, trm_reference_indexed_create};

    case TRM_OP_REDUCE:
      return (kernel_creators){trm_fast_reduce_create, trm_reference_reduce_create};
    case TRM_OP_REDUCE_WINDOW:
    case TRM_OP_SELECT_AND_SCATTER:
      return (kernel_creators){trm_fast_reduce_create, trm_reference_window_create};
    case TRM_OP_SORT:
    case TRM_OP_TOPK: return (kernel_creators){trm_fast_reduce_create, trm_reference_sort_create};
    case TRM_OP_BATCH_NORM_GRAD:
    case TRM_OP_BATCH_NORM_INFERENCE:
    case TRM_OP_BATCH_NORM_TRAINING:
      return (kernel_creators){trm_fast_batch_norm_create, trm_reference_batch_norm_create};

    case TRM_OP_DOT: return (kernel_creators){trm_onednn_dot_create, trm_reference_dot_create};
    case TRM_OP_CONVOLUTION:
      return (kernel_creators){trm_onednn_convolution_create, trm_reference_convolution_create};
    case TRM_OP_CHOLESKY:
    case TRM_OP_TRIANGULAR_SOLVE:
      return (kernel_creators){NULL, trm_reference_linear_algebra_create};
    case TRM_OP_FFT: return (kernel_creators){NULL, trm_reference_fft_create};

    case TRM_OP_ALL_GATHER:
    case TRM_OP_ALL_REDUCE:
    case TRM_OP_ALL_TO_ALL:
    case TRM_OP_COLLECTIVE_BROADCAST:
    case TRM_OP_COLLECTIVE_PERMUTE:
    case TRM_OP_REDUCE_SCATTER:
    case TRM_OP_REPLICA_ID: return (kernel_creators){NULL, trm_collective_create};

    case TRM_OP_CUSTOM_CALL: return (kernel_creators){NULL, create_custom_call};
    case TRM_OP_RNG:
    case TRM_OP_RNG_BIT_GENERATOR: return (kernel_creators){NULL, trm_reference_random_create};

    default:
      if (trm_scalar_op_exists(opcode)) {
        return (kernel_creators){trm_fast_elementwise_create, trm_reference_elementwise_create};
      }
      return (kernel_creators){NULL, NULL};
  }
}

trm_status trm_kernel_create(const trm_kernel_request *request, bool reference_only,
                             trm_kernel *out_kernel, trm_error *error) {
  const kernel_creators creators = creators_of(request->instruction->opcode);
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

bool trm_kernel_exists(trm_opcode opcode) { return creators_of(opcode).reference != NULL; }

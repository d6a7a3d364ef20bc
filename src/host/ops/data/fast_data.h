/* Declarations that the fast data kernels share. */
#ifndef TREMULA_HOST_OPS_DATA_FAST_DATA_H_
#define TREMULA_HOST_OPS_DATA_FAST_DATA_H_

#include "host/ops/data/fast_move.h"
#include "host/ops/kernel.h"

/* Strides in elements. */
static inline void trm_row_major_strides(const trm_shape *shape, int64_t *out_strides) {
  int64_t stride = 1;
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    out_strides[d] = stride;
    stride *= shape->dims[d];
  }
}

/* fast_pad.c. */
trm_status trm_fast_pad_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                               trm_error *error);
/* dynamic-slice, dynamic-update-slice, gather, scatter. */
trm_status trm_fast_indexed_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                   bool *out_supported, trm_error *error);

#endif /* TREMULA_HOST_OPS_DATA_FAST_DATA_H_ */

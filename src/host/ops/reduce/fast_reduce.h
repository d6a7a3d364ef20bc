/* Declarations that the fast reduction kernels share. */
#ifndef TREMULA_HOST_OPS_REDUCE_FAST_REDUCE_H_
#define TREMULA_HOST_OPS_REDUCE_FAST_REDUCE_H_

#include "host/ops/elementwise/strip.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/kernel.h"

enum { REDUCE_MAX_OPERANDS = 8, REDUCE_BLOCK = 512 };

/* The dimensions of a reduction, merged until kept and reduced ones alternate. The innermost is
 * contiguous; `kept` and `reduced` are the others, outermost first. */
typedef struct reduce_layout {
  bool inner_is_kept;
  int64_t inner;
  int32_t num_kept, num_reduced;
  int64_t kept_dims[TRM_MAX_RANK], kept_strides[TRM_MAX_RANK];
  int64_t reduced_dims[TRM_MAX_RANK], reduced_strides[TRM_MAX_RANK];
  int64_t kept_count, reduced_count; /* products, without the innermost */
} reduce_layout;

/* The offset of element `index` in the space of `dims`. */
int64_t trm_reduce_offset(int32_t rank, const int64_t *dims, const int64_t *strides, int64_t index);

/* The vector function of a commutative opcode on a type. NULL: only a trm_function serves (f16 is
 * computed in f32 and rounded). */
trm_vector_fn trm_reduce_vector_fn(trm_opcode opcode, trm_dtype dtype);
uint8_t trm_log2_size(trm_dtype dtype);

/* Sums of floats (f32, f16), accumulated with more precision than the type has. */
trm_status trm_fast_sum_create(const trm_kernel_request *request, const reduce_layout *layout,
                               trm_kernel *out_kernel, trm_error *error);
trm_status trm_fast_combine_create(const trm_kernel_request *request, const reduce_layout *layout,
                                   const trm_function *function, trm_kernel *out_kernel,
                                   trm_error *error);
trm_status trm_fast_window_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                  bool *out_supported, trm_error *error);
trm_status trm_fast_select_and_scatter_create(const trm_kernel_request *request,
                                              trm_kernel *out_kernel, bool *out_supported,
                                              trm_error *error);
trm_status trm_fast_sort_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error);
trm_status trm_fast_topk_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error);

#endif /* TREMULA_HOST_OPS_REDUCE_FAST_REDUCE_H_ */

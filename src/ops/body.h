/* A computation that is run instruction by instruction, each by a kernel of its own. Every value
 * has a place of its own in the scratch; a result is written where it belongs. */
#ifndef TREMULA_OPS_BODY_H_
#define TREMULA_OPS_BODY_H_

#include "ops/kernel.h"

typedef struct trm_body trm_body;

/* The kernels of `computation`, of request->module: reference kernels only, or fast ones where
 * there are. Kernels that keep something from call to call, and random ones, may not be among
 * them. The body is in the request's arena; trm_body_destroy releases what its kernels hold. */
trm_status trm_body_create(const trm_kernel_request *request, const trm_computation *computation,
                           bool reference_only, trm_body **out_body, trm_error *error);
void trm_body_destroy(trm_body *body);
/* 64-byte aligned, in call->scratch; its contents need not be kept. */
size_t trm_body_scratch_bytes(const trm_body *body);
/* Operands and results are those of the computation; versions are not read. */
trm_status trm_body_run(const trm_body *body, const trm_kernel_call *call, trm_error *error);
/* Whether result leaf `result` may be written over operand leaf `operand`. */
bool trm_body_in_place(const trm_body *body, uint32_t result, uint32_t operand);

#endif /* TREMULA_OPS_BODY_H_ */

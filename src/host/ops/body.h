/* A computation that is run instruction by instruction, each by its own kernel. Every value has its
 * own place in the scratch; results are written to the caller's memory. */
#ifndef TREMULA_HOST_OPS_BODY_H_
#define TREMULA_HOST_OPS_BODY_H_

#include <stdatomic.h>

#include "host/ops/kernel.h"

typedef struct trm_body trm_body;

/* Creates the kernels of `computation`, which belongs to request->module: reference kernels only,
 * or fast ones where they exist. No kernel among them may keep something between calls or be
 * random. The request's arena owns the body; trm_body_destroy releases what the kernels hold. */
trm_status trm_body_create(const trm_kernel_request *request, const trm_computation *computation,
                           bool reference_only, trm_body **out_body, trm_error *error);
void trm_body_destroy(trm_body *body);
/* The size of call->scratch, which is 64-byte aligned and need not be kept between calls. */
size_t trm_body_scratch_bytes(const trm_body *body);
/* Operands and results are those of the computation. Versions are ignored. */
trm_status trm_body_run(const trm_body *body, const trm_kernel_call *call, trm_error *error);
/* Whether result leaf `result` may overwrite operand leaf `operand`. */
bool trm_body_in_place(const trm_body *body, uint32_t result, uint32_t operand);

/* The first failure of threads that run a body side by side. */
typedef struct trm_first_failure {
  atomic_flag is_taken; /* begins as ATOMIC_FLAG_INIT */
  trm_status status;    /* begins as TRM_OK */
  trm_error *error;
} trm_first_failure;

static inline void trm_note_failure(trm_first_failure *first, trm_status status,
                                    const trm_error *error) {
  if (atomic_flag_test_and_set(&first->is_taken)) return;
  first->status = status;
  *first->error = *error;
}

#endif /* TREMULA_HOST_OPS_BODY_H_ */

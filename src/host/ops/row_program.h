/* A computation that works row by row, as passes over one row at a time: what is reduced and what
 * follows it stay in the first-level cache, and a reduction is a part of the pass that computes its
 * operand. The results have the bits of the computation's kernels, one after the other.
 *
 * Serves float32 reductions of whole rows of a multiple of 64 elements, and elementwise operations
 * that have machine code (ops/generate) on CPUs that it is made for. */
#ifndef TREMULA_HOST_OPS_ROW_PROGRAM_H_
#define TREMULA_HOST_OPS_ROW_PROGRAM_H_

#include "host/ops/kernel.h"

typedef struct trm_row_program trm_row_program;

/* `body`'s operands and results have `block` rows; is_whole[k]: operand k has none and is the same
 * for all. In request->arena; trm_row_program_destroy releases the machine code. */
trm_status trm_row_program_create(const trm_kernel_request *request, const trm_computation *body,
                                  int64_t block, const bool *is_whole,
                                  trm_row_program **out_program, bool *out_supported,
                                  trm_error *error);
void trm_row_program_destroy(trm_row_program *program);
/* Of one thread, 64-byte aligned; its contents need not be kept. */
size_t trm_row_program_scratch_bytes(const trm_row_program *program);
/* Computes rows [begin, end) of the call's results from those of its operands. */
void trm_row_program_run(const trm_row_program *program, const trm_kernel_call *call, int64_t begin,
                         int64_t end, void *scratch);
/* Whether the result may be written over the operand, row by row. */
bool trm_row_program_in_place(const trm_row_program *program, uint32_t result, uint32_t operand);

#endif /* TREMULA_HOST_OPS_ROW_PROGRAM_H_ */

/* The reducer of the reference kernels of reduce and reduce-window, for one result at a time.
 *
 * Operands: N arrays, N initial values. to_apply takes N accumulators and N elements. */
#ifndef TREMULA_HOST_OPS_REDUCE_REFERENCE_REDUCE_H_
#define TREMULA_HOST_OPS_REDUCE_REFERENCE_REDUCE_H_

#include "host/ops/reference.h"

typedef struct trm_reducer {
  const trm_reference_state *state;
  const trm_kernel_call *call;
  const trm_evaluator *evaluator;
  trm_value *slots; /* N accumulators, N elements, the evaluator's slots, N results */
  uint32_t count;   /* N */
  bool is_float_sum;
} trm_reducer;

/* Whether the computation is a plain sum of floats, which adds in double and rounds once
 * (docs/design/numerics.md). Any other computation runs as written, element by element in row-major
 * order. */
bool trm_reducer_is_float_sum(const trm_evaluator *evaluator);

/* At the creation of a kernel: checks its computation and reserves scratch for the results. */
trm_status trm_reducer_check(const trm_kernel_request *request, trm_kernel *kernel,
                             trm_error *error);

/* The calls of a run: begin once; for each result start, one add for each element, and store. */
trm_reducer trm_reducer_begin(const trm_kernel *kernel, const trm_kernel_call *call);
void trm_reducer_start(trm_reducer *reducer);
/* `place`: the index of the element in the arrays. */
void trm_reducer_add(trm_reducer *reducer, int64_t place);
void trm_reducer_store(trm_reducer *reducer, int64_t result);

#endif /* TREMULA_HOST_OPS_REDUCE_REFERENCE_REDUCE_H_ */

/* What the reference kernels of reduce and reduce-window share: the reducer, one result at a time.
 *
 * Operands: N arrays, N initial values. to_apply takes N accumulators and N elements. */
#ifndef TREMULA_OPS_REDUCE_REFERENCE_REDUCE_H_
#define TREMULA_OPS_REDUCE_REFERENCE_REDUCE_H_

#include "ops/reference.h"

typedef struct trm_reducer {
  const trm_reference_state *state;
  const trm_kernel_call *call;
  const trm_evaluator *evaluator;
  trm_value *slots; /* N accumulators, N elements, what the evaluator needs, N results */
  uint32_t count;   /* N */
  bool is_float_sum;
} trm_reducer;

/* Whether to add in double and round once: a plain sum of floats (docs/design/numerics.md). Any
 * other computation is followed as it is written, element by element in row-major order. */
bool trm_reducer_is_float_sum(const trm_evaluator *evaluator);

/* When a kernel is created: checks its computation and reserves scratch for the results. */
trm_status trm_reducer_check(const trm_kernel_request *request, trm_kernel *kernel,
                             trm_error *error);

/* In a run: begin, then for each result start, add for each element, and store. */
trm_reducer trm_reducer_begin(const trm_kernel *kernel, const trm_kernel_call *call);
void trm_reducer_start(trm_reducer *reducer);
/* `place`: the element's index in the arrays. */
void trm_reducer_add(trm_reducer *reducer, int64_t place);
void trm_reducer_store(trm_reducer *reducer, int64_t result);

#endif /* TREMULA_OPS_REDUCE_REFERENCE_REDUCE_H_ */

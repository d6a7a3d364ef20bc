/* Properties of a loop that are known without running it. */
#ifndef TREMULA_HLO_LOOPS_H_
#define TREMULA_HLO_LOOPS_H_

#include "hlo/hlo.h"

/* A while. Its leaves are numbered as trm_shape_leaf numbers those of its state. */
typedef struct trm_loop {
  const trm_computation *condition, *body;
  const trm_shape *state;
  const bool *invariant; /* by leaf: trm_loop_find_invariant */
  /* The element of the array that a leaf is first, where it is a constant of one element, else
   * NULL. */
  const void *(*first_value)(const void *context, int32_t leaf);
  const void *context;
} trm_loop;

/* For every leaf of the state: whether the body hands it on as it is. */
void trm_loop_find_invariant(const trm_computation *body, bool *invariant, int32_t num_leaves);
/* Whether the condition compares a counter, or is several of those with `and`: then the body runs
 * at most *out_count times, and, if *out_exact, not less often. */
bool trm_loop_trip_count(const trm_loop *loop, uint64_t *out_count, bool *out_exact);

#endif /* TREMULA_HLO_LOOPS_H_ */

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
/* Whether a number of the body is each of 0, 1, ... iterations - 1 in one iteration, as a counter
 * that goes up or down is. */
bool trm_loop_counts_through(const trm_loop *loop, trm_index index, uint64_t iterations);
/* The element of the computation's parameter, a loop's state, that an instruction takes, or -1. */
int64_t trm_state_element(const trm_computation *c, const trm_instruction *instruction);
/* Marks what the marked instructions of a body and elements of its state depend on, in one
 * iteration or more. `follows` (NULL: always) says whether an instruction's operands and control
 * predecessors count. The body's root is a tuple. */
void trm_loop_find_needed(const trm_computation *body, bool *instructions, bool *elements,
                          bool (*follows)(void *context, trm_index i), void *context);
/* Instructions that read an element of the computation's parameter, or the parameter as a whole. */
uint32_t trm_count_readers(const trm_computation *c, int64_t element);
/* Whether the first contents of a leaf are never read: each of `iterations` iterations writes
 * another part of the array, until all is written, and nothing else reads it. */
bool trm_loop_fills(const trm_loop *loop, int32_t leaf, uint64_t iterations);

#endif /* TREMULA_HLO_LOOPS_H_ */

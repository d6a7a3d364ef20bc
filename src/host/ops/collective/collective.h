/* Collectives: computing together with other replicas.
 *
 *   collective.c  what an instruction means: attributes, custom calls, groups
 *   combine.c     combining the equally placed elements of several replicas
 *   move.c        moving blocks between replicas
 *
 * One replica computes each element of a result, from the operands in the order of the replicas. So
 * the result does not depend on the number of threads, and after an all-reduce it is equal on all
 * replicas. */
#ifndef TREMULA_HOST_OPS_COLLECTIVE_COLLECTIVE_H_
#define TREMULA_HOST_OPS_COLLECTIVE_COLLECTIVE_H_

#include "host/ops/kernel.h"
#include "host/ops/reference.h"

/* How elements are combined. CALLED: by the instruction's computation. Others combine floats in
 * float32 and round once. LOCAL: each replica keeps its own elements. */
typedef enum trm_combine {
  TRM_COMBINE_ADD,
  TRM_COMBINE_MUL,
  TRM_COMBINE_MIN,
  TRM_COMBINE_MAX,
  TRM_COMBINE_LOGICAL_AND,
  TRM_COMBINE_LOGICAL_OR,
  TRM_COMBINE_SQUARE_ADD,
  TRM_COMBINE_LOCAL,
  TRM_COMBINE_MEAN,
  TRM_COMBINE_CALLED
} trm_combine;

typedef struct trm_collective_state {
  trm_reference_state base; /* first member; evaluators[0] is the computation of CALLED */
  trm_combine combine;
  trm_replica_groups groups; /* empty: groups of group_size */
  int64_t group_size;        /* 0: all replicas */
  trm_dims pairs;            /* collective-permute: source, target, source, target, ... */
  int32_t dimension;         /* of all-gather and reduce-scatter */
  int32_t split, concat;     /* all-to-all; -1: operand i is for member i */
  trm_sharing sharing;
} trm_collective_state;

/* combine.c. Whether elements of the type can be combined in this way. */
bool trm_combine_fits(trm_combine combine, trm_dtype dtype);
/* Combines elements [begin, end) of `count` sources, and writes them to each target from its
 * element `at` on. A target may be a source if the places are the same. `slots`: the evaluator's
 * scratch, for CALLED. */
typedef struct trm_combine_job {
  const trm_collective_state *state;
  trm_dtype dtype;
  const void *const *sources;
  uint32_t num_sources;
  void *const *targets;
  uint32_t num_targets;
  trm_value *slots;
} trm_combine_job;
void trm_combine_range(const trm_combine_job *job, int64_t begin, int64_t end, int64_t at);

/* move.c. Computes result leaf `leaf` of the replica at group->position from the operands of all
 * calls. */
void trm_collective_gather(const trm_collective_state *state, const trm_members *group,
                           const trm_kernel_call *const *calls, const trm_kernel_call *mine,
                           uint32_t leaf);
void trm_collective_exchange_blocks(const trm_collective_state *state, const trm_members *group,
                                    const trm_kernel_call *const *calls,
                                    const trm_kernel_call *mine);
/* Slices of the rows of the operands 0 of the group, as ragged-all-to-all says it. What is outside
 * of an array is cut off. */
void trm_collective_exchange_rows(const trm_collective_state *state, const trm_members *group,
                                  const trm_kernel_call *const *calls, const trm_kernel_call *mine);

#endif /* TREMULA_HOST_OPS_COLLECTIVE_COLLECTIVE_H_ */

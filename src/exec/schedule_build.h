/* The walk of a scheduled module into steps and slots: its state, and what schedule_build.c, which
 * walks, and schedule_feeds.c use of each other. */
#ifndef TREMULA_EXEC_SCHEDULE_BUILD_H_
#define TREMULA_EXEC_SCHEDULE_BUILD_H_

#include "exec/schedule.h"

typedef struct trm_schedule_draft {
  trm_schedule *schedule;
  const trm_module *module;
  bool reference_only;
  uint32_t clock;
  uint64_t walked;     /* instructions */
  uint32_t depth;      /* of loops and conditionals around the walk */
  uint32_t loop_depth; /* of loops */
  uint64_t runs;       /* of what is being walked, in a run of the program: at least */
  VECTOR(trm_slot) slots;
  VECTOR(trm_step) steps;
  VECTOR(trm_coalesce) wishes;
  VECTOR(trm_kernel *) kernels;
  VECTOR(trm_feed_info) feeds;
  VECTOR(trm_host_call_info) host_calls;
} trm_schedule_draft;

/* The leaves of every value of a computation that is being walked. */
typedef struct trm_schedule_scope {
  uint32_t computation;
  const uint32_t *const *parameters;
  uint32_t **leaves;
  const trm_instruction **instead; /* what is computed in place of an instruction, or NULL */
  bool *renames;                   /* has the value of its operand, beside what always has */
} trm_schedule_scope;

/* The instruction of the computation that is being walked, or what is computed instead. */
const trm_instruction *trm_schedule_at(const trm_schedule_draft *draft, const trm_schedule_scope *s,
                                       trm_index i);
/* New slots in the arena, one for every leaf of the shape. The schedule owns the list. */
trm_status trm_schedule_new_leaves(trm_schedule_draft *draft, const trm_shape *shape,
                                   uint32_t **out_leaves, trm_error *error);
/* The leaves of the operands from `first` on, one after the other. The schedule owns the list. */
trm_status trm_schedule_gather_operands(const trm_schedule_draft *draft,
                                        const trm_schedule_scope *s, trm_index i, uint32_t first,
                                        uint32_t **out_leaves, uint32_t *out_count,
                                        trm_error *error);
/* Adds a step at the next time; the slots are copied. out_index: NULL, or where the step stands. */
trm_status trm_schedule_add_step(trm_schedule_draft *draft, trm_step step, const uint32_t *operands,
                                 const uint32_t *results, uint32_t *out_index, trm_error *error);

/* schedule_renames.c: fills in `instead` and `renames`. */
trm_status trm_schedule_find_renames(trm_schedule_draft *draft, trm_schedule_scope *s,
                                     trm_error *error);

/* schedule_feeds.c: these give the instruction its leaves and add its step. */
trm_status trm_schedule_walk_infeed(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                    trm_error *error);
trm_status trm_schedule_walk_outfeed(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                     trm_error *error);
trm_status trm_schedule_walk_host_call(trm_schedule_draft *draft, trm_schedule_scope *s,
                                       trm_index i, trm_error *error);

#endif /* TREMULA_EXEC_SCHEDULE_BUILD_H_ */

/* The walk over a module that makes steps and slots: its state, and the functions that the
 * schedule_*.c files share. */
#ifndef TREMULA_HOST_SCHEDULE_SCHEDULE_BUILD_H_
#define TREMULA_HOST_SCHEDULE_SCHEDULE_BUILD_H_

#include "host/schedule/schedule.h"

typedef struct trm_schedule_draft {
  trm_schedule *schedule;
  const trm_module *module;
  bool reference_only;
  uint32_t clock;
  uint64_t walked;     /* instructions */
  uint32_t depth;      /* enclosing loops and conditionals */
  uint32_t loop_depth; /* enclosing loops */
  uint64_t runs;       /* least number of times that a run executes the current computation */
  VECTOR(trm_slot) slots;
  VECTOR(trm_step) steps;
  VECTOR(trm_coalesce) candidates;
  VECTOR(trm_kernel *) kernels;
  VECTOR(trm_feed_info) feeds;
  VECTOR(trm_host_call_info) host_calls;
} trm_schedule_draft;

/* A computation during the walk, with the leaves of its values. */
typedef struct trm_schedule_scope {
  uint32_t computation;
  const uint32_t *const *parameters;
  uint32_t **leaves;
  const trm_instruction **instead; /* the instruction that is computed instead of each, or NULL */
  bool *renames; /* whether it only renames its operand, in addition to opcodes that always do */
} trm_schedule_scope;

/* The instruction i of the computation, or the one that is computed instead. */
const trm_instruction *trm_schedule_at(const trm_schedule_draft *draft, const trm_schedule_scope *s,
                                       trm_index i);
/* A new slot of that kind; a use of a slot at the present time. */
trm_status trm_schedule_new_slot(trm_schedule_draft *draft, trm_slot_kind kind, size_t bytes,
                                 uint32_t *out_slot, trm_error *error);
void trm_schedule_touch(trm_schedule_draft *draft, uint32_t slot);
/* Makes new slots in the arena, one for each leaf of the shape. The schedule owns the list. */
trm_status trm_schedule_new_leaves(trm_schedule_draft *draft, const trm_shape *shape,
                                   uint32_t **out_leaves, trm_error *error);
/* Lists the leaves of the operands from `first` on. The schedule owns the list. */
trm_status trm_schedule_gather_operands(const trm_schedule_draft *draft,
                                        const trm_schedule_scope *s, trm_index i, uint32_t first,
                                        uint32_t **out_leaves, uint32_t *out_count,
                                        trm_error *error);
/* Adds a step at the next time, with a copy of the slots. out_index: NULL, or receives the index of
 * the step. */
trm_status trm_schedule_add_step(trm_schedule_draft *draft, trm_step step, const uint32_t *operands,
                                 const uint32_t *results, uint32_t *out_index, trm_error *error);

/* Adds a step that copies a slot; a candidate, two slots to merge. */
trm_status trm_schedule_add_copy(trm_schedule_draft *draft, const trm_schedule_scope *s,
                                 trm_index instruction, uint32_t source, uint32_t target,
                                 trm_error *error);
trm_status trm_schedule_add_candidate(trm_schedule_draft *draft, trm_coalesce what,
                                      trm_error *error);
/* Walks a computation. parameters[p] are the slots of parameter p; *out_root gets those of the
 * root. */
trm_status trm_schedule_walk(trm_schedule_draft *draft, uint32_t computation,
                             const uint32_t *const *parameters, const uint32_t **out_root,
                             trm_error *error);

/* schedule_control.c: these functions set the leaves of the instruction and add its steps. */
trm_status trm_schedule_walk_while(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                   trm_error *error);
trm_status trm_schedule_walk_conditional(trm_schedule_draft *draft, trm_schedule_scope *s,
                                         trm_index i, trm_error *error);

/* schedule_renames.c: fills in `instead` and `renames`. */
trm_status trm_schedule_find_renames(trm_schedule_draft *draft, trm_schedule_scope *s,
                                     trm_error *error);

/* schedule_views.c: whether the instruction is a dynamic-slice that needs no copy; its step. */
bool trm_schedule_is_view(const trm_schedule_draft *draft, const trm_schedule_scope *s,
                          trm_index i);
trm_status trm_schedule_walk_view(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                  trm_error *error);

/* schedule_feeds.c: these functions set the leaves of the instruction and add its step. */
trm_status trm_schedule_walk_infeed(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                    trm_error *error);
trm_status trm_schedule_walk_outfeed(trm_schedule_draft *draft, trm_schedule_scope *s, trm_index i,
                                     trm_error *error);
trm_status trm_schedule_walk_host_call(trm_schedule_draft *draft, trm_schedule_scope *s,
                                       trm_index i, trm_error *error);
/* Finds the feeds of the whole module, and makes no steps. */
trm_status trm_schedule_list_feeds(trm_schedule_draft *draft, trm_error *error);

#endif /* TREMULA_HOST_SCHEDULE_SCHEDULE_BUILD_H_ */

/* The schedule by which the host runs a module: a list of steps over slots of memory.
 *
 * A slot holds one array. It is a place in the arena, an input of the run, an output, or a
 * constant. schedule_build.c walks through the module in order and makes the steps.
 * schedule_memory.c finds slots that are never alive at once, and gives them offsets. run.c runs
 * the steps. A time below is a position in the walk. */
#ifndef TREMULA_HOST_SCHEDULE_SCHEDULE_H_
#define TREMULA_HOST_SCHEDULE_SCHEDULE_H_

#include "hlo/hlo.h"
#include "host/ops/kernel.h"

typedef enum trm_slot_kind {
  TRM_SLOT_ARENA,
  TRM_SLOT_INPUT,
  TRM_SLOT_OUTPUT,
  TRM_SLOT_CONSTANT,
  TRM_SLOT_VIEW /* a slice of the slot `number`, at an address that a step finds */
} trm_slot_kind;

typedef struct trm_slot {
  trm_slot_kind kind;
  uint32_t number; /* of the input or output; of the slot that a view is a slice of */
  const void *constant;
  size_t bytes;
  uint32_t begin, end;  /* first write, last use */
  uint32_t overwritten; /* by the kernel of that time, in place; 0: by none */
  bool written;         /* the walk has met a step that writes it */
  bool at_top;          /* written once a run, outside every loop */
  uint32_t depth;       /* of the loops around its making */
  bool changes;         /* state of a loop that the walk is in */
  uint32_t parent;      /* of the union-find; itself for a representative */
  size_t offset;        /* in the arena, after assignment */
} trm_slot;

typedef enum trm_step_kind {
  TRM_STEP_KERNEL,
  TRM_STEP_COPY,        /* operand 0 -> result 0 */
  TRM_STEP_WHILE,       /* operand 0: the condition's result */
  TRM_STEP_CONDITIONAL, /* operand 0: the selector */
  TRM_STEP_INFEED,
  TRM_STEP_OUTFEED,
  TRM_STEP_HOST_CALL,
  TRM_STEP_VIEW /* operand 0: an array; operand 1: the index of the slice along its first dimension;
                   result 0: the view */
} trm_step_kind;

/* A slice of an array that is read where it is (schedule_views.c). */
typedef struct trm_view {
  size_t stride;   /* bytes from one index to the next */
  int64_t last;    /* the largest index */
  trm_dtype index; /* of the index: S32, S64 or U32 */
  uint32_t num_uses;
  uint32_t *uses; /* by number in the operands of all steps, one after the other */
} trm_view;

/* Steps [begin, end). */
typedef struct trm_step_range {
  uint32_t begin, end;
} trm_step_range;

typedef struct trm_step {
  trm_step_kind kind;
  uint32_t computation; /* for messages */
  trm_index instruction;
  uint64_t identity; /* what tells its random numbers from those of other steps */
  uint32_t num_operands, num_results;
  uint32_t *slots; /* operands, then results */
  uint32_t time;
  uint32_t scratch; /* slot, or TRM_NO_INDEX */
  trm_kernel *kernel;
  bool limits_halves; /* call trm_limit_halves after the kernel */
  bool is_plain;      /* a copy, a view, or a kernel that draws no random numbers and at whose
                         results nobody looks */
  size_t persistent;  /* offset in the engine's persistent block */
  uint32_t num_ranges;
  trm_step_range *ranges; /* while: condition, body; conditional: the branches. These steps follow
                             the step itself */
  bool selector_is_pred;
  uint32_t feed; /* index of the feed or host call */
  trm_view *view;
} trm_step;

typedef struct trm_feed_info {
  const char *id;
  char kind;     /* 'i' or 'o' */
  uint64_t uses; /* least number of reads or writes in a run of one replica */
  uint32_t num_elements;
  trm_tensor_info *elements;
} trm_feed_info;

/* An instruction that calls a host function. */
typedef struct trm_host_call_info {
  const char *id;
  bool together; /* the first replica calls for all replicas, in order */
  uint32_t num_inputs, num_outputs;
  trm_tensor_info *inputs, *outputs;
} trm_host_call_info;

typedef struct trm_schedule {
  trm_arena arena;
  const trm_module *module; /* not owned */
  uint32_t num_steps, num_slots, num_feeds, num_host_calls;
  trm_step *steps;
  trm_slot *slots;
  trm_feed_info *feeds;
  trm_host_call_info *host_calls;
  uint32_t num_inputs, num_outputs;
  uint32_t num_kernels;
  trm_kernel **kernels;
  size_t arena_bytes, persistent_bytes;
  uint32_t max_depth;    /* of nested loops and conditionals */
  unsigned float_events; /* events that end a run (float_check.h) */
} trm_schedule;

/* Walks through the module, creates the kernels and assigns memory. With float_events no kernel
 * works in place, so that its operands can be examined after it. */
trm_status trm_schedule_build(const trm_module *module, bool reference_only, unsigned float_events,
                              trm_schedule **out_schedule, trm_error *error);
/* The interface of a module that is only planned: inputs, outputs and feeds, no steps. */
trm_status trm_schedule_outline(const trm_module *module, trm_schedule **out_schedule,
                                trm_error *error);
void trm_schedule_free(trm_schedule *schedule);

/* Two slots that schedule_build.c would merge, so that a copy is not needed or a kernel works in
 * place. */
typedef struct trm_coalesce {
  enum {
    TRM_COALESCE_COPY,      /* source ends and target begins at `time` */
    TRM_COALESCE_BRANCH,    /* source was written inside the block that began at `since` */
    TRM_COALESCE_LOOP_BACK, /* the same, and the target is not read after `last_read` */
    TRM_COALESCE_IN_PLACE   /* a kernel's operand and result */
  } kind;
  uint32_t target, source, time, since, last_read;
  uint32_t in_place_at; /* LOOP_BACK: the time at which source may be written in place of target */
} trm_coalesce;

/* schedule_memory.c: merges slots as wished if that is safe, then gives offsets in the arena, and
 * drops the copies of a slot to itself. */
trm_status trm_schedule_assign(trm_schedule *schedule, const trm_coalesce *candidates,
                               size_t num_candidates, trm_error *error);
/* schedule_views.c: lists the uses of views, when the steps are final. */
trm_status trm_schedule_place_views(trm_schedule *schedule, trm_error *error);

#endif /* TREMULA_HOST_SCHEDULE_SCHEDULE_H_ */

/* What the files that make a program share. */
#ifndef TREMULA_PROGRAM_DRAFT_H_
#define TREMULA_PROGRAM_DRAFT_H_

#include "program/program.h"
#include "tile/exchange.h"

enum { TRM_PROGRAM_MAX_DEPTH = 256 };
#define TRM_NEVER_DIES UINT32_MAX

/* One array leaf of a value: a variable, or a view of some. */
typedef struct trm_value {
  uint32_t variable;       /* the first one behind it; TRM_NO_INDEX: none (a token's place) */
  uint32_t more, num_more; /* others, in draft.more */
  uint32_t place;          /* of a view, in draft.places; TRM_NO_INDEX: the variable's own */
  int64_t source_count, contiguous;
  bool is_view, is_constant;
  const void *scalar; /* a constant's element, whose type is that of the leaf */
} trm_value;

/* Where a leaf that nothing computes (an input, a constant, what a feed brings) should be. */
typedef struct trm_placement {
  trm_tile_wish wish;    /* priority 0: none */
  uint32_t ipu_plus_one; /* of its first consumer; 0: none yet */
  const char *reader;    /* TensorFlow's name of its first consumer that has one; or NULL */
  uint8_t remote;        /* remote.c: who uses it; bits */
} trm_placement;

/* What a pipeline keeps in remote memory beside what only the update uses. */
typedef struct trm_remote_options {
  bool weights, sums, activations;
} trm_remote_options;

/* Who reads a variable in a pipeline. */
typedef struct trm_stage_use {
  int32_t made_in, last_in; /* entries of pipeline.stages; -1: none */
  uint32_t forward_end;     /* one past the last step that reads it in the stage that made it */
  bool comes_in;            /* from another IPU */
} trm_stage_use;

/* What a loop needs to know of the variables that it touches. */
typedef struct trm_program_loop {
  uint32_t first_step;
  VECTOR(uint32_t) touched;
} trm_program_loop;

/* A computation that is being walked. */
typedef struct trm_program_scope {
  uint32_t computation;
  const trm_value *const *parameters; /* by number: leaves */
  trm_value **leaves;                 /* by instruction */
  int32_t *ipus;                      /* by instruction: where it runs */
  bool *is_explicit;                  /* by instruction: a sharding says so, its own or another's */
  uint32_t **last;                    /* by instruction: position of a leaf's last use */
  uint32_t position;                  /* of the instruction in hand */
} trm_program_scope;

/* How many patterns have a word (trm_tile_role). */
typedef struct trm_word_count {
  const char *word;
  uint32_t count;
} trm_word_count;

typedef struct trm_program_draft {
  trm_program *program;
  const trm_module *module;
  const trm_target *target;
  trm_tile_options tile_options;
  struct trm_plan_cache *plans;
  trm_tile_role **roles;        /* roles.c: [computation][instruction] */
  VECTOR(trm_word_count) words; /* that names have, and how often */
  bool finding;                 /* the first of two walks: only wishes of placement are noted */
  trm_placement ***wishes;      /* [computation][instruction][leaf]; NULL where there are none */
  trm_arena scratch;            /* of one walk */
  VECTOR(trm_program_step) steps;
  VECTOR(trm_program_compute_set) compute_sets;
  VECTOR(trm_program_variable) variables;
  VECTOR(trm_program_source) sources;
  VECTOR(trm_mapping) places;
  VECTOR(uint32_t) more;
  VECTOR(const char *) notes;
  VECTOR(uint32_t) last_use;        /* by variable: position in the scope in hand */
  VECTOR(uint32_t) follows;         /* by variable: the one whose place it took; TRM_NO_INDEX */
  VECTOR(uint32_t) copies_of;       /* by variable: its copy on another IPU; TRM_NO_INDEX */
  VECTOR(trm_program_loop *) loops; /* around */
  VECTOR(uint64_t) signatures;      /* by compute set, for outlining */
  uint32_t *next_tile;              /* by IPU: where the next linear mapping begins */
  uint32_t *outline_table;          /* hash table of compute sets */
  uint32_t outline_capacity;
  VECTOR(trm_stage_use) stage_uses; /* by variable, in the loop of a pipeline */
  trm_tile_options *stage_options;  /* by entry of pipeline.stages, last the update's; or NULL */
  trm_remote_options remote;
  int64_t *io_bytes;         /* by IPU: that feeds take on I/O tiles */
  uint64_t branch;           /* of equal branches of conditionals the same; 0: none, or random */
  int32_t stage;             /* of a pipeline, of the instruction in hand; -1: none */
  uint32_t pipeline_nesting; /* 0: outside; 1: in the marked loop; 2: in that over mini-batches */
  uint32_t parent;           /* step under which steps are added */
  uint32_t depth;
  uint64_t walked;
  uint32_t **orders; /* by computation: instructions in order of execution */
} trm_program_draft;

/* How the order of a computation is found (order.c). */
typedef enum trm_order_kind {
  TRM_ORDER_LEAST_MEMORY,
  TRM_ORDER_AS_WRITTEN,
  TRM_ORDER_DEPTH_FIRST
} trm_order_kind;

static inline trm_order_kind trm_order_kind_of(const trm_program_options *options) {
  return options->schedule_as_written   ? TRM_ORDER_AS_WRITTEN
         : options->schedule_post_order ? TRM_ORDER_DEPTH_FIRST
                                        : TRM_ORDER_LEAST_MEMORY;
}

/* ---- entry.c -------------------------------------------------------------------------------- */

trm_status trm_program_build(trm_program_draft *draft, trm_error *error);

/* ---- roles.c -------------------------------------------------------------------------------- */

/* What the original calls compute sets, and which it makes, as the pass library-calls has stated
 * it: *out_roles[computation][instruction], in the arena. */
trm_status trm_program_read_roles(const trm_module *module, trm_arena *arena,
                                  trm_tile_role ***out_roles, trm_error *error);

/* ---- plan_log.c ----------------------------------------------------------------------------- */

/* Tells what was planned, where POPLIBS_LOG_LEVEL asks for it. */
void trm_program_log_plans(const trm_program *program);

/* ---- lives.c -------------------------------------------------------------------------------- */

/* Fills scope->last: positions in the order; the root's leaves never die. */
trm_status trm_program_find_last_uses(trm_program_draft *draft, trm_program_scope *scope,
                                      const uint32_t *order, trm_error *error);

/* ---- selection.c ---------------------------------------------------------------------------- */

/* Fixes program->selection_order and program->num_ipus, for a module of so many shards. */
void trm_program_choose_selection(trm_program *program, const trm_module *module,
                                  uint32_t num_shards);
/* 0 for a shard that the program has no IPU for. */
uint32_t trm_program_ipu_of_shard(const trm_program *program, uint32_t shard);
/* The IPU of "{maximal device=3}", or of the first of a tuple's; -1: none. */
int32_t trm_program_sharded_ipu(const trm_program *program, const char *sharding);
/* ---- remote.c ------------------------------------------------------------------------------- */

/* In the first walk: an instruction uses a value; a state of a loop becomes another. */
void trm_remote_note_use(trm_program_draft *draft, const trm_instruction *instruction,
                         const trm_value *value);
trm_status trm_remote_note_result(trm_program_draft *draft, const trm_value *state,
                                  const trm_value *result, trm_error *error);
/* In the second: whether a leaf of an instruction is in remote memory. */
bool trm_remote_is(const trm_program_draft *draft, uint32_t computation, trm_index i, uint32_t leaf,
                   const trm_shape *shape);
/* Before and after an instruction whose operands and results may be: copies, and the arrays on the
 * tiles from `first_step` on. */
trm_status trm_remote_read(trm_program_draft *draft, const trm_value *values, size_t count,
                           uint32_t source, uint32_t ipu, trm_error *error);
trm_status trm_remote_write(trm_program_draft *draft, const trm_value *values, size_t count,
                            const trm_value *results, size_t num_results, uint32_t first_step,
                            uint32_t source, uint32_t ipu, trm_error *error);

/* ---- walk.c --------------------------------------------------------------------------------- */

/* The shard of "{maximal device=3}", or of the first of a tuple's; -1: none. */
int32_t trm_sharding_device(const char *sharding);
/* Walks a computation; *out_root: the leaves of its root. parameters[p][leaf] are values of the
 * caller's; owned[p][leaf]: its variable may be written when its last use inside is past. */
trm_status trm_program_walk(trm_program_draft *draft, uint32_t computation,
                            const trm_value *const *parameters, const bool *const *owned,
                            const trm_value **out_root, trm_error *error);
static inline const trm_instruction *trm_scope_at(const trm_program_draft *draft,
                                                  const trm_program_scope *scope, trm_index i) {
  return &draft->module->computations[scope->computation].instructions[i];
}

/* Placements of what nothing computes: room for the leaves of an instruction (in the first walk);
 * the wish for a leaf, or NULL; its IPU. */
trm_status trm_program_make_placements(trm_program_draft *draft, uint32_t computation, trm_index i,
                                       int32_t leaves, trm_error *error);
const trm_tile_wish *trm_program_wish_for(const trm_program_draft *draft, uint32_t computation,
                                          trm_index i, uint32_t leaf);
uint32_t trm_program_ipu_for(const trm_program_draft *draft, uint32_t computation, trm_index i,
                             uint32_t leaf);

/* Where a leaf that nothing has computed is allocated: inputs, constants, feeds. */
trm_mapping trm_program_allocate(trm_program_draft *draft, uint32_t computation, trm_index i,
                                 uint32_t leaf, const trm_shape *shape, uint32_t ipu);

/* ---- values.c: variables and views ---------------------------------------------------------- */

typedef struct trm_new_variable {
  const char *name;
  uint32_t source;
  const trm_shape *shape;
  trm_mapping mapping;
  trm_memory_category category;
  bool always_live;
} trm_new_variable;
/* A variable that lives from now on. */
trm_status trm_program_add_variable(trm_program_draft *draft, const trm_new_variable *wanted,
                                    uint32_t *out_variable, trm_error *error);
trm_value trm_value_plain(const trm_program_draft *draft, uint32_t variable);
/* The variables behind a value are used by the step that was added last. */
trm_status trm_program_touch(trm_program_draft *draft, const trm_value *value, trm_error *error);
trm_status trm_program_touch_variable(trm_program_draft *draft, uint32_t variable,
                                      trm_error *error);
const trm_mapping *trm_value_mapping(const trm_program_draft *draft, const trm_value *value);
trm_tile_operand trm_value_operand(trm_program_draft *draft, const trm_value *value,
                                   const trm_shape *shape, uint32_t position);
/* Whether its variable may be written at `position` of the scope in hand. */
/* In the first walk the placement of the leaf that a value's array came of, or NULL. */
trm_placement *trm_program_placement_of(trm_program_draft *draft, const trm_value *value);
bool trm_value_dies(const trm_program_draft *draft, const trm_value *value, uint32_t position);
/* The view that an instruction makes of its operands (slice, transpose, broadcast, concatenate,
 * reverse, reshape, ...). */
trm_status trm_program_view(trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                            trm_value *out_value, trm_error *error);
/* Notes where an operand should be allocated, at the variable that it came of. */
void trm_program_note_wish(trm_program_draft *draft, const trm_value *value,
                           const trm_tile_wish *wish);
/* Notes which IPU, and which op, reads it first. */
void trm_program_note_reader(trm_program_draft *draft, const trm_value *value, uint32_t ipu,
                             uint32_t source);

/* ---- steps.c -------------------------------------------------------------------------------- */

/* Opens a step with children; close it with trm_program_close. */
trm_status trm_program_open(trm_program_draft *draft, trm_program_step_type type, const char *name,
                            uint32_t source, int32_t ipu, uint32_t *out_step, trm_error *error);
void trm_program_close(trm_program_draft *draft, uint32_t step);
/* Appends the phases of a cost. First and last: the leaf steps that it made (last < first: none);
 * writes: the first that computes. */
trm_status trm_program_add_cost(trm_program_draft *draft, const trm_tile_cost *cost,
                                uint32_t source, uint32_t ipu, uint32_t *out_first,
                                uint32_t *out_last, uint32_t *out_writes, trm_error *error);
/* Copies `bytes` on an IPU (worst tile, total) as one step with a name of its own. */
trm_status trm_program_add_copies(trm_program_draft *draft, const char *what, uint32_t source,
                                  uint32_t ipu, int64_t worst, int64_t total, trm_error *error);
trm_status trm_program_add_source(trm_program_draft *draft, uint32_t computation, trm_index i,
                                  uint32_t *out_source, trm_error *error);
trm_status trm_program_add_note(trm_program_draft *draft, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fills cycles of steps with children, executions, totals. */
void trm_program_total(trm_program *program);

/* ---- costs.c -------------------------------------------------------------------------------- */

typedef enum trm_cost_class {
  TRM_COST_NONE,    /* no work on an IPU: names of values, constants, tokens */
  TRM_COST_VIEW,    /* another view of its operands */
  TRM_COST_CONTROL, /* control.c */
  TRM_COST_FAMILY   /* a function of an op family */
} trm_cost_class;
trm_cost_class trm_program_cost_class(const trm_module *module, const trm_computation *computation,
                                      const trm_instruction *instruction);
/* The family's function. Unknown custom calls count as one pass over their operands and results,
 * and *out_note says so. */
trm_status trm_program_cost(const trm_tile_request *request, trm_tile_cost *cost,
                            const char **out_note, trm_error *error);

/* ---- control.c ------------------------------------------------------------------------------ */

trm_status trm_program_walk_while(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                                  trm_error *error);
trm_status trm_program_walk_conditional(trm_program_draft *draft, trm_program_scope *scope,
                                        trm_index i, trm_error *error);

/* ---- pipeline.c ----------------------------------------------------------------------------- */

/* Whether a loop carries a description of a pipeline. */
bool trm_module_has_pipeline(const trm_module *module);
/* Notes the description that a loop carries, when it is a pipeline's. */
trm_status trm_pipeline_begin(trm_program_draft *draft, const trm_instruction *loop,
                              bool *out_is_pipeline, trm_error *error);
/* The stage of an instruction: an entry of pipeline.stages; -1: none, or outside. */
int32_t trm_pipeline_stage_of(const trm_program_draft *draft, const trm_instruction *instruction,
                              uint32_t ipu);
/* The planner's options for an instruction: its stage's, or the program's. */
const trm_tile_options *trm_pipeline_options(const trm_program_draft *draft,
                                             const trm_instruction *instruction);
/* After the loop over mini-batches (its steps are [first, end)): stashes, and lives that
 * recomputation cuts in two. */
trm_status trm_pipeline_end(trm_program_draft *draft, uint32_t loop_step, uint64_t turns,
                            trm_error *error);
/* Cycles of the loop over mini-batches, from those of its steps. */
int64_t trm_pipeline_cycles(trm_program *program);

/* ---- recompute.c ---------------------------------------------------------------------------- */

/* Cheap values are made again for uses that come much later. How many, and of how many bytes. */
trm_status trm_program_recompute(trm_module *module, trm_order_kind kind, uint32_t *out_values,
                                 int64_t *out_bytes, trm_error *error);

/* ---- io_tiles.c ----------------------------------------------------------------------------- */

/* Whether the instruction of a request is a feed that goes through I/O tiles: the request then gets
 * options of its own, in `own`, and *out_way is set. */
trm_status trm_io_tiles_choose(trm_program_draft *draft, trm_tile_request *request,
                               trm_tile_options *own, trm_feed_way *out_way);
/* Marks its steps, from first_step to the last, and adds the memory that it takes there. */
trm_status trm_io_tiles_place(trm_program_draft *draft, const trm_tile_request *request,
                              trm_feed_way way, uint32_t source, uint32_t first_step,
                              trm_error *error);

/* ---- order.c -------------------------------------------------------------------------------- */

/* An order of a computation's instructions that obeys operands and control predecessors: of
 * several, the one whose values hold the least memory at once. NULL when memory runs out. */
trm_status trm_program_order(const trm_module *module, uint32_t computation, trm_order_kind kind,
                             trm_arena *arena, uint32_t **out_order, trm_error *error);

/* ---- always_live.c, liveness.c -------------------------------------------------------------- */

/* Vertex state, code, stacks, headers: variables that are always live. */
trm_status trm_program_add_always_live(trm_program_draft *draft, trm_error *error);
/* Expands memory by tile, and what is live at each step. */
trm_status trm_program_measure(trm_program *program, trm_error *error);

#endif /* TREMULA_PROGRAM_DRAFT_H_ */

/* A draft is a program while it is made. The files that make it share these declarations. */
#ifndef TREMULA_IPU_PROGRAM_DRAFT_H_
#define TREMULA_IPU_PROGRAM_DRAFT_H_

#include "ipu/program/program.h"
#include "ipu/tile/exchange.h"

enum { TRM_PROGRAM_MAX_DEPTH = 256 };
#define TRM_NEVER_DIES UINT32_MAX

/* An integer of the run that is estimated (known.c). */
typedef struct trm_known {
  int64_t number;  /* also an integer of fewer bits, in the first bytes */
  uint64_t inputs; /* bit i % 64: it may depend on input i */
} trm_known;

/* One array leaf of a value: a variable, or a view of some. */
typedef struct trm_value {
  uint32_t variable;       /* the first variable behind it; TRM_NO_INDEX: none (a token) */
  uint32_t more, num_more; /* further variables, in draft.values.more */
  uint32_t place; /* of a view, in draft.values.places; TRM_NO_INDEX: the place of the variable */
  int64_t source_count, contiguous;
  bool is_view, is_constant;
  const void *scalar;     /* the element of a constant, of the leaf's type */
  const trm_known *known; /* what the leaf is in the run that is estimated; NULL: not known */
} trm_value;

/* Where to allocate a leaf that nothing computes: an input, a constant, an element of a feed. */
typedef struct trm_placement {
  trm_tile_preference preference; /* priority 0: none */
  uint32_t ipu_plus_one;          /* the IPU of its first consumer, plus 1; 0: no consumer yet */
  const char *reader; /* the TensorFlow op of its first consumer that has one; or NULL */
  uint8_t remote;     /* bits of remote.c: its users */
} trm_placement;

/* Where readers want the copy of a leaf on another IPU. Both walks know the leaf by its source. */
typedef struct trm_copy_preference {
  uint32_t leaf, ipu;
  uint32_t next; /* another of the same instruction, plus 1; 0: none */
  trm_placement placement;
} trm_copy_preference;

/* What a pipeline keeps in remote memory, in addition to variables that only the update uses. */
typedef struct trm_remote_options {
  bool weights, sums, activations;
} trm_remote_options;

/* Who reads a variable in a pipeline. */
typedef struct trm_stage_use {
  int32_t made_in, last_in; /* the stages that write it and that read it last: entries of
                               pipeline.stages; -1: none */
  uint32_t forward_end;     /* one past the last step that reads it in the stage that made it */
  uint32_t backward_begin;  /* the first step that reads it in the backward stage of that stage, or
                               TRM_NO_INDEX */
  uint32_t segment;         /* of its stage: recomputation checkpoints before it */
  bool comes_in;            /* another IPU has made it, or it is a recomputation checkpoint */
} trm_stage_use;

/* The variables that a loop touches. */
typedef struct trm_program_loop {
  uint32_t first_step;
  VECTOR(uint32_t) touched;
} trm_program_loop;

/* An array that a computation is given, and the result that is its new value. */
typedef struct trm_update {
  uint32_t parameter; /* its number */
  int32_t leaf;       /* of the parameter */
  trm_index by;       /* the instruction that makes the new value */
  int32_t by_leaf;
  uint32_t next; /* another update by the same instruction, or TRM_NO_INDEX */
} trm_update;

typedef struct trm_updates {
  uint32_t count;
  trm_update *items;
  uint32_t *first; /* by instruction: an update that it makes, or TRM_NO_INDEX */
} trm_updates;

/* The walk over one computation. */
typedef struct trm_program_scope {
  uint32_t computation;
  const trm_value *const *parameters; /* by number: leaves */
  trm_value **leaves;                 /* by instruction */
  int32_t *ipus;                      /* by instruction: where it runs */
  bool *is_explicit; /* by instruction: whether a sharding, its own or another's, gives the IPU */
  uint32_t *turns;   /* by instruction: of its stage of a pipeline, or 0 */
  uint32_t **last;   /* by instruction: position of a leaf's last use */
  trm_updates updates;
  uint32_t position; /* of the current instruction */
} trm_program_scope;

/* How often a word occurs in names of copies between IPUs. */
typedef struct trm_word_count {
  const char *word;
  uint32_t count;
} trm_word_count;

/* The name of the first of the layers of one word and key on an IPU. */
typedef struct trm_named_layer {
  const char *word, *key;
  uint32_t ipu;
  const char *name;
} trm_named_layer;

/* The parts of a draft. Each has an owner, which alone makes and grows it (entry.c begins and ends
 * all). Others may fill in an element that the owner has made for them. */

/* steps.c: steps, and what they and variables come from. */
typedef struct trm_draft_steps {
  VECTOR(trm_program_step) all;
  VECTOR(trm_program_source) sources;
  VECTOR(const char *) notes;
  uint32_t parent; /* the step that becomes the parent of new steps */
} trm_draft_steps;

/* compute_sets.c: compute sets and, for outlining, which of them are equal. */
typedef struct trm_draft_sets {
  VECTOR(trm_program_compute_set) all;
  VECTOR(uint64_t) signatures; /* by compute set; 0: no other one shares it */
  uint32_t *table;             /* hash table of compute sets */
  uint32_t capacity;
  uint64_t branch; /* equal for equal branches of conditionals; 0: outside, or a branch with random
                      numbers */
} trm_draft_sets;

/* phase_names.c: how often words occur in names, and the names of layers. */
typedef struct trm_draft_names {
  VECTOR(trm_word_count) words;
  VECTOR(trm_named_layer) layers;
} trm_draft_names;

/* values.c: variables and views. */
typedef struct trm_draft_values {
  VECTOR(trm_program_variable) variables;
  VECTOR(trm_mapping) places;
  VECTOR(uint32_t) more;
  VECTOR(uint32_t) last_use; /* by variable: position in the current scope */
  VECTOR(uint32_t) follows;  /* by variable: the variable whose place it took; TRM_NO_INDEX: none */
  VECTOR(uint32_t) first;    /* by variable: the one at the end of that chain, or itself */
  /* By variable: the preference of a copy to another IPU; TRM_NO_INDEX: none. */
  VECTOR(uint32_t) copy_preferences_of;
  VECTOR(trm_stage_use) stage_uses; /* by variable, in the loop of a pipeline */
} trm_draft_values;

/* placements.c: where leaves that nothing computes are allocated. */
typedef struct trm_draft_placements {
  trm_placement ***preferences; /* [computation][instruction][leaf]; NULL where there are none */
  uint32_t *next_tile;          /* by IPU: where the next linear mapping begins */
} trm_draft_placements;

/* ipu_copies.c: copies on other IPUs. */
typedef struct trm_draft_copies {
  VECTOR(uint32_t) of; /* by variable: its copy on another IPU; TRM_NO_INDEX: none */
  VECTOR(trm_copy_preference) preferences; /* of the first walk */
  uint32_t **first; /* [computation][instruction]: its first preference, plus 1; 0: none */
} trm_draft_copies;

/* pipeline.c and stages.c: the loop of a pipeline. */
typedef struct trm_draft_stages {
  uint32_t *checkpoints;     /* by stage: recomputation checkpoints so far; or NULL */
  trm_tile_options *options; /* by entry of pipeline.stages, last the update's; or NULL */
  trm_remote_options remote;
  int32_t current;  /* the stage of the current instruction; -1: none */
  uint32_t nesting; /* 0: outside; 1: in the loop with the attribute; 2: in the loop over
                       mini-batches */
} trm_draft_stages;

/* io_tiles.c: tiles for feeds. */
typedef struct trm_draft_io {
  bool *keeps_tiles; /* by IPU: it has no feeds, so all of its tiles compute */
  int64_t *bytes;    /* by IPU: bytes of feeds on I/O tiles */
} trm_draft_io;

/* walk.c and control.c: how far the walk is. */
typedef struct trm_draft_walk {
  uint32_t reading; /* the first step of the current instruction */
  uint32_t depth;
  uint64_t instructions;
  uint32_t **orders;                /* by computation: instructions in order of execution */
  VECTOR(trm_program_loop *) loops; /* the enclosing loops */
} trm_draft_walk;

typedef struct trm_program_draft {
  trm_program *program;
  const trm_module *module;
  const trm_target *target; /* without I/O tiles */
  trm_tile_options tile_options;
  struct trm_plan_cache *plans;
  trm_tile_role **roles; /* roles.c: [computation][instruction] */
  bool finding;          /* the first of two walks, which only notes preferences of placement */
  trm_arena scratch;     /* of one walk */
  trm_draft_steps steps;
  trm_draft_sets sets;
  trm_draft_names names;
  trm_draft_values values;
  trm_draft_placements placements;
  trm_draft_copies copies;
  trm_draft_stages stages;
  trm_draft_io io;
  trm_draft_walk walk;
} trm_program_draft;

/* The target with the tiles that compute on this IPU. */
static inline const trm_target *trm_program_target_of(const trm_program_draft *draft,
                                                      uint32_t ipu) {
  return draft->io.keeps_tiles[ipu] ? draft->program->target : draft->target;
}

static inline trm_order_kind trm_program_order_kind(const trm_program_options *options) {
  return options->schedule_as_written   ? TRM_ORDER_AS_WRITTEN
         : options->schedule_post_order ? TRM_ORDER_DEPTH_FIRST
                                        : TRM_ORDER_LEAST_MEMORY;
}

/* ---- known.c -------------------------------------------------------------------------------- */

/* Copies the integers among the options' inputs, which are those of the module. */
trm_status trm_program_take_inputs(trm_program *program, const trm_module *module,
                                   trm_error *error);
/* Notes the integer that an instruction gives, if it is a constant or its operands are known. */
trm_status trm_program_note_known(trm_program_draft *draft, const trm_program_scope *scope,
                                  trm_index i, trm_error *error);

/* ---- entry.c -------------------------------------------------------------------------------- */

trm_status trm_program_build(trm_program_draft *draft, trm_error *error);

/* ---- roles.c -------------------------------------------------------------------------------- */

/* Reads the roles that the pass library-calls has stated: how Poplar names compute sets and which
 * of them exist. *out_roles[computation][instruction] is in the arena. */
trm_status trm_program_read_roles(const trm_module *module, trm_arena *arena,
                                  trm_tile_role ***out_roles, trm_error *error);

/* ---- plan_log.c ----------------------------------------------------------------------------- */

/* Logs the plans, if POPLIBS_LOG_LEVEL asks for it. */
void trm_program_log_plans(const trm_program *program);

/* ---- lives.c -------------------------------------------------------------------------------- */

/* Fills scope->last with positions in the order. The root's leaves have no last use. */
trm_status trm_program_find_last_uses(trm_program_draft *draft, trm_program_scope *scope,
                                      const uint32_t *order, trm_error *error);

/* ---- selection.c ---------------------------------------------------------------------------- */

/* Sets program->selection_order and program->num_ipus, for a module with this many shards. */
void trm_program_choose_selection(trm_program *program, const trm_module *module,
                                  uint32_t num_shards);
/* The IPU of a shard; 0 if the program has none for it. */
uint32_t trm_program_ipu_of_shard(const trm_program *program, uint32_t shard);
/* The IPU of a sharding such as "{maximal device=3}", or of a tuple's first; -1: none. */
int32_t trm_program_sharded_ipu(const trm_program *program, const char *sharding);
/* ---- shards.c ------------------------------------------------------------------------------- */

/* In the second walk: request->shards for instruction i. */
uint32_t trm_shards_of(const trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                       const trm_tile_request *request);
/* Adds the all-gather of an instruction's results that others use whole. `values` are the leaves
 * of its operands. */
trm_status trm_shards_gather(const trm_program_draft *draft, const trm_program_scope *scope,
                             trm_index i, const trm_tile_request *request, const trm_value *values,
                             trm_tile_cost *cost, trm_error *error);

/* ---- remote.c ------------------------------------------------------------------------------- */

/* Whether an update wants its state to be shared out, and there are replicas. */
bool trm_remote_wants_shards(const trm_program_draft *draft, const trm_instruction *instruction);
/* In the first walk: notes that an instruction uses a value, and that a result replaces the state
 * of a loop. */
void trm_remote_note_use(trm_program_draft *draft, const trm_instruction *instruction,
                         const trm_value *value);
trm_status trm_remote_note_result(trm_program_draft *draft, const trm_value *state,
                                  const trm_value *result, trm_error *error);
/* In the second walk: whether a leaf of an instruction is in remote memory. */
bool trm_remote_is(const trm_program_draft *draft, uint32_t computation, trm_index i, uint32_t leaf,
                   const trm_shape *shape);
/* Of how many replicas each has a shard of such a leaf; 1: all have all of it. */
uint32_t trm_remote_shards(const trm_program_draft *draft, uint32_t computation, trm_index i,
                           uint32_t leaf);
/* Called before and after an instruction: adds copies from and to remote memory for operands and
 * results that are there, and their arrays on tiles from `first_step` on. */
trm_status trm_remote_read(trm_program_draft *draft, const trm_value *values, size_t count,
                           uint32_t source, uint32_t ipu, trm_error *error);
trm_status trm_remote_write(trm_program_draft *draft, const trm_value *values, size_t count,
                            const trm_value *results, size_t num_results, uint32_t first_step,
                            uint32_t source, uint32_t ipu, trm_error *error);

/* ---- walk.c --------------------------------------------------------------------------------- */

/* Walks a computation. *out_root gets the leaves of its root. parameters[p][leaf] are the caller's
 * values. owned[p][leaf]: the variable may be overwritten after its last use in the computation. */
trm_status trm_program_walk(trm_program_draft *draft, uint32_t computation,
                            const trm_value *const *parameters, const bool *const *owned,
                            const trm_value **out_root, trm_error *error);
static inline const trm_instruction *trm_scope_at(const trm_program_draft *draft,
                                                  const trm_program_scope *scope, trm_index i) {
  return &draft->module->computations[scope->computation].instructions[i];
}

/* ---- slices.c ------------------------------------------------------------------------------- */

/* Whether an elementwise instruction applies a concatenation to operand k, or the like: the
 * original applies each part to a slice of the operand, in place (slice-apply), also to one that
 * the host sends for each run. */
bool trm_slices_apply(const trm_program_draft *draft, const trm_program_scope *scope,
                      const trm_instruction *instruction, uint32_t k);
/* In the second walk: does so, if nothing needs the operand later; *out_done says whether. */
trm_status trm_slices_walk(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                           bool *out_done, trm_error *error);

/* ---- placements.c ---------------------------------------------------------------------------- */

/* Placements of leaves that nothing computes. The first walk makes room for the leaves of an
 * instruction; the others give the preference for a leaf, or NULL, and its IPU. */
trm_status trm_program_make_placements(trm_program_draft *draft, uint32_t computation, trm_index i,
                                       int32_t leaves, trm_error *error);
const trm_tile_preference *trm_program_preference_for(const trm_program_draft *draft,
                                                      uint32_t computation, trm_index i,
                                                      uint32_t leaf);
uint32_t trm_program_ipu_for(const trm_program_draft *draft, uint32_t computation, trm_index i,
                             uint32_t leaf);

/* Where to allocate a leaf that nothing computes: an input, a constant, an element of a feed. */
trm_mapping trm_program_allocate(trm_program_draft *draft, uint32_t computation, trm_index i,
                                 uint32_t leaf, const trm_shape *shape, uint32_t ipu);

/* A linear mapping that begins where the last one ended, so that small arrays spread over the
 * tiles. */
trm_mapping trm_program_next_linear(trm_program_draft *draft, const trm_shape *shape, uint32_t ipu);

/* ---- ipu_copies.c ---------------------------------------------------------------------------- */

/* Copies an array of another IPU to this one, once for all its readers here. */
trm_status trm_program_bring_to_ipu(trm_program_draft *draft, trm_value *value,
                                    const trm_shape *shape, uint32_t ipu, uint32_t source,
                                    trm_error *error);

/* ---- values.c: variables and views ---------------------------------------------------------- */

typedef struct trm_new_variable {
  const char *name;
  uint32_t source;
  const trm_shape *shape;
  trm_mapping mapping;
  trm_memory_category category;
  bool always_live;
} trm_new_variable;
/* Adds a variable that lives from the next step on. */
trm_status trm_program_add_variable(trm_program_draft *draft, const trm_new_variable *wanted,
                                    uint32_t *out_variable, trm_error *error);
/* Notes that a variable took over the place of an earlier one. */
void trm_program_follow(trm_program_draft *draft, uint32_t variable, uint32_t earlier);
trm_value trm_value_plain(const trm_program_draft *draft, uint32_t variable);
/* Notes that the newest step uses the variables behind a value. */
trm_status trm_program_touch(trm_program_draft *draft, const trm_value *value, trm_error *error);
/* The same of an earlier step, the one before `end`. */
trm_status trm_program_touch_until(trm_program_draft *draft, const trm_value *value, uint32_t end,
                                   trm_error *error);
trm_status trm_program_touch_variable(trm_program_draft *draft, uint32_t variable,
                                      trm_error *error);
const trm_mapping *trm_value_mapping(const trm_program_draft *draft, const trm_value *value);
trm_tile_operand trm_value_operand(trm_program_draft *draft, const trm_value *value,
                                   const trm_shape *shape, uint32_t position);
/* In the first walk: the placement of the leaf from which a value's array comes, or NULL. */
trm_placement *trm_program_placement_of(trm_program_draft *draft, const trm_value *value);
/* Whether nothing needs the value's variable behind `position` of the current scope, and whether
 * any instruction there may overwrite it: not one that is streamed. */
bool trm_value_is_last_use(const trm_program_draft *draft, const trm_value *value,
                           uint32_t position);
bool trm_value_dies(const trm_program_draft *draft, const trm_value *value, uint32_t position);
/* Sets *out_value to the view that an instruction makes of its operands (slice, transpose,
 * broadcast, concatenate, reverse, reshape, ...). */
trm_status trm_program_view(trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                            trm_value *out_value, trm_error *error);
/* Notes where an operand should be allocated, at the leaf from which its array comes. */
void trm_program_note_preference(trm_program_draft *draft, const trm_value *value,
                                 const trm_tile_preference *preference);
/* Notes the IPU and the op that read a value, if they are the first. */
void trm_program_note_reader(trm_program_draft *draft, const trm_value *value, uint32_t ipu,
                             uint32_t source);

/* ---- steps.c -------------------------------------------------------------------------------- */

/* Opens a step with children; close it with trm_program_close. */
trm_status trm_program_open(trm_program_draft *draft, trm_program_step_type type, const char *name,
                            uint32_t source, int32_t ipu, uint32_t *out_step, trm_error *error);
void trm_program_close(trm_program_draft *draft, uint32_t step);
typedef struct trm_cost_steps {
  uint32_t first, last;         /* leaf steps; last < first: none */
  uint32_t writes;              /* the first of them that computes */
  uint32_t ends[TRM_MAX_FREED]; /* by operand leaf: one past the last step that reads it */
} trm_cost_steps;
/* Appends the phases of a cost as steps. */
trm_status trm_program_add_cost(trm_program_draft *draft, const trm_tile_cost *cost,
                                uint32_t source, uint32_t ipu, trm_cost_steps *out,
                                trm_error *error);
/* Appends phases that are no instruction's cost. */
trm_status trm_program_add_phases(trm_program_draft *draft, const trm_phase *phases, size_t count,
                                  uint32_t source, uint32_t ipu, trm_error *error);
/* Appends a step with a name of its own that copies bytes on an IPU: `worst` on the worst tile,
 * `total` on all. */
trm_status trm_program_add_copies(trm_program_draft *draft, const char *what, uint32_t source,
                                  uint32_t ipu, int64_t worst, int64_t total, trm_error *error);
trm_status trm_program_add_source(trm_program_draft *draft, uint32_t computation, trm_index i,
                                  uint32_t *out_source, trm_error *error);
trm_status trm_program_add_note(trm_program_draft *draft, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- compute_sets.c -------------------------------------------------------------------------- */

/* Appends a compute set, or finds that it is equal to an earlier one. */
trm_status trm_program_add_compute_set(trm_program_draft *draft, const trm_phase *phase,
                                       const char *name, uint32_t source, uint32_t ipu,
                                       uint32_t *out_index, trm_error *error);

/* ---- phase_names.c --------------------------------------------------------------------------- */

/* Counts one more use of a word that names are made of. */
trm_status trm_program_count_word(trm_program_draft *draft, const char *word, uint32_t *out_count,
                                  trm_error *error);
trm_status trm_program_phase_name(trm_program_draft *draft, uint32_t source, const trm_phase *phase,
                                  uint32_t ipu, const char **out_name, trm_error *error);

/* ---- totals.c --------------------------------------------------------------------------------- */

/* Fills in the cycles of steps with children, the executions and the totals. */
void trm_program_total(trm_program *program);

/* ---- costs.c -------------------------------------------------------------------------------- */

typedef enum trm_cost_class {
  TRM_COST_NONE,    /* no work on an IPU: constants, tokens, other names for values */
  TRM_COST_VIEW,    /* another view of its operands */
  TRM_COST_CONTROL, /* a loop, a conditional or a call: control.c */
  TRM_COST_FAMILY   /* work whose cost an op family knows */
} trm_cost_class;
trm_cost_class trm_program_cost_class(const trm_module *module, const trm_computation *computation,
                                      const trm_instruction *instruction);
/* Calls the function of the op family. An unknown custom call counts as one pass over its operands
 * and results; *out_note then says so. */
trm_status trm_program_cost(const trm_tile_request *request, trm_tile_cost *cost,
                            const char **out_note, trm_error *error);

/* ---- control.c ------------------------------------------------------------------------------ */

trm_status trm_program_walk_while(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                                  trm_error *error);
trm_status trm_program_walk_conditional(trm_program_draft *draft, trm_program_scope *scope,
                                        trm_index i, trm_error *error);

/* ---- pipeline.c ----------------------------------------------------------------------------- */

/* Whether a loop of the module has a description of a pipeline. */
bool trm_module_has_pipeline(const trm_module *module);
/* Reads the description of a pipeline that a loop has, if any. */
trm_status trm_pipeline_begin(trm_program_draft *draft, const trm_instruction *loop,
                              bool *out_is_pipeline, trm_error *error);
/* Called after the loop over mini-batches: adds stashes, and splits the lives of values that are
 * recomputed. */
trm_status trm_pipeline_end(trm_program_draft *draft, uint32_t loop_step, uint64_t iterations,
                            trm_error *error);
/* Cycles of the loop over mini-batches, computed from the cycles of its steps. */
int64_t trm_pipeline_cycles(trm_program *program);

/* ---- stages.c ------------------------------------------------------------------------------- */

/* When the stage that an instruction or what it fuses names has its turn: forward stages in order,
 * backward ones in reverse, the update of weights. Passes leave instructions without a stage, or
 * share one of an earlier stage; so a turn also comes no sooner than those of the operands.
 * 0: no stage is named, or it is a constant. */
uint32_t trm_pipeline_own_turn(const trm_module *module, const trm_computation *computation,
                               trm_index i);
/* The stage of the walk's next instruction, whose IPU is known: an entry of pipeline.stages, or
 * -1. */
int32_t trm_pipeline_stage_of(const trm_program_draft *draft, trm_program_scope *scope,
                              trm_index i);
/* The options of linear plans for an instruction: its stage's, or the program's. */
const trm_tile_options *trm_pipeline_options(const trm_program_draft *draft,
                                             const trm_instruction *instruction);
/* Who reads a variable that the current instruction makes; `now`: the last step. */
trm_stage_use trm_pipeline_made(const trm_program_draft *draft, uint32_t now);
/* Ends a segment of a forward stage if the instruction is a recomputation checkpoint: its values
 * are kept, and those before and after it are computed again at different times. */
void trm_pipeline_note_checkpoint(trm_program_draft *draft, const trm_instruction *instruction,
                                  const trm_value *leaves);
/* ---- io_tiles.c ----------------------------------------------------------------------------- */

/* Finds the IPUs that keep all tiles for computing: where feeds go through I/O tiles, those without
 * feeds. */
void trm_io_tiles_find(trm_program_draft *draft);
/* For a feed that goes through I/O tiles: gives the request options of its own, in `own`, and sets
 * *out_way. */
trm_status trm_io_tiles_choose(trm_program_draft *draft, trm_tile_request *request,
                               trm_tile_options *own, trm_feed_way *out_way);
/* Marks the steps of that feed, from first_step to the last, and adds its memory on I/O tiles. */
trm_status trm_io_tiles_place(trm_program_draft *draft, const trm_tile_request *request,
                              trm_feed_way way, uint32_t source, uint32_t first_step,
                              trm_error *error);

/* ---- updates.c ------------------------------------------------------------------------------ */

/* Finds the updates of a loop's state, for the loop's body, and of the program's variables, for the
 * entry. Other computations have none. *out is in the arena. */
trm_status trm_program_find_updates(const trm_module *module, uint32_t computation,
                                    trm_arena *arena, trm_updates *out, trm_error *error);

/* ---- order.c -------------------------------------------------------------------------------- */

/* Finds an order of a computation's instructions that obeys operands and control predecessors: of
 * several, the one whose values hold the least memory at once. */
trm_status trm_program_order(const trm_module *module, uint32_t computation, trm_order_kind kind,
                             trm_arena *arena, uint32_t **out_order, trm_error *error);

/* ---- always_live.c, liveness.c -------------------------------------------------------------- */

/* Adds the variables that are always live: vertex state, code, stacks, headers. */
trm_status trm_program_add_always_live(trm_program_draft *draft, trm_error *error);
/* Computes the memory of each tile, and the live bytes of each step. */
trm_status trm_program_measure(trm_program *program, trm_error *error);

/* ---- error_bars.c --------------------------------------------------------------------------- */

trm_error_kind trm_error_kind_of(const trm_computation *computation,
                                 const trm_instruction *instruction);
trm_error_kind trm_error_kind_of_step(const trm_program *program, const trm_program_step *step);
/* An end of the bar around cycles of a kind. */
int64_t trm_error_cycles(trm_error_kind kind, double cycles, bool high);
/* Fills the ends of bars in the totals, and whether the program fits within them. */
void trm_program_add_error_bars(trm_program *program);
/* The bytes of a variable on a tile at a step; -1: it is not alive then, or not on that IPU. */
int64_t trm_program_bytes_on(const trm_program *program, const trm_program_variable *variable,
                             uint32_t tile, uint32_t step);

#endif /* TREMULA_IPU_PROGRAM_DRAFT_H_ */

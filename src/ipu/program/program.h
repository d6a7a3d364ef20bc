/* The program that an IPU would run for a module: its steps, their cycles, its memory.
 *
 *   steps.c        appending steps from costs; totals.c: adding them up
 *   compute_sets.c compute sets, and which of them are equal; phase_names.c: their names
 *   entry.c        inputs, outputs, the two walks over the entry
 *   walk.c         the walk over a computation: where it runs, results
 *   slices.c       an elementwise instruction on slices of an array, one after the other
 *   placements.c   where inputs and constants are allocated; ipu_copies.c: copies on other IPUs
 *   roles.c        how Poplar names compute sets and which of them exist, as the pass library-calls
 *                  has stated it
 *   recompute.c    values that an IPU computes twice to save memory
 *   values.c       variables and views; lives.c: their last uses
 *   costs.c        the op family that knows the cost of an opcode
 *   order.c        the order of execution (memory)
 *   control.c      loops and conditionals
 *   pipeline.c     pipelines: overlap of stages, stashed activations; stages.c: their values
 *   io_tiles.c     tiles reserved for feeds: overlap of streams and compute
 *   liveness.c     peak and per-step memory; expansions.c: bytes by tile, kept
 *   always_live.c  vertex state, code, stacks, headers
 *   error_bars.c   how far the figures may be from what is measured
 *   explain.c      out of memory: what does not fit and why; change.c: changes that would help;
 *                  advice.c: which of them, in brief; search.c: all of them, and together
 *   layers.c       sums by layer; units.c: what can be cut; split.c: shards;
 *                  cuts.c: where to cut
 *   state_updates.c what updates weights; make_pipeline.c: shards as the stages of a pipeline
 *   items.c        the data of a run
 *   api.c          the functions of tremula/program.h; names.c: names of its enums
 *   plan_options.c options of linear plans, from JSON
 *
 * Indices are stable: steps[i], variables[i], compute_sets[i], sources[i]. These arrays are blocks
 * of their own; everything else lives in the program's arena. Bytes are the IPU's (64-bit integers
 * are 4 bytes). Cycles are tile cycles.
 *
 * Sums that hold (tests/c/program): cycles of a Sequence = sum of its children; of a Repeat = count
 * times its children + overhead; step 0 (the root) = the run. For each tile, categories add up to
 * always_live + not_always_live; tiles add up to totals; the largest of live_by_step's worst tiles
 * is the peak. */
#ifndef TREMULA_IPU_PROGRAM_PROGRAM_H_
#define TREMULA_IPU_PROGRAM_PROGRAM_H_

#include "ipu/tile/cost.h"
#include "passes/pass.h"
#include "tremula/program.h"

/* ---- Kinds of op ---------------------------------------------------------------------------- */

typedef enum trm_error_kind {
#define ERROR_KIND(id, name) TRM_ERROR_##id,
#include "ipu/program/error_kinds.def"
#undef ERROR_KIND
  TRM_NUM_ERROR_KINDS
} trm_error_kind;

/* A figure by the kinds of op that it consists of, and the part that has no error. */
typedef struct trm_error_parts {
  double known, of[TRM_NUM_ERROR_KINDS];
} trm_error_parts;

/* ---- Where a step comes from ---------------------------------------------------------------- */

typedef struct trm_program_source {
  uint32_t computation;
  trm_index instruction;
  const char *hlo_name; /* "convolution.3" */
  const char *opcode;
  const char *op_name; /* TensorFlow's, "layer1/conv2d/Conv2D"; "" when unknown */
  const char *op_type; /* "Conv2D" */
  const char *layer;   /* op_name without its last component; "" at the top */
  const char *file;    /* the user's; NULL when unknown */
  int32_t line;
  const char *plan; /* text of the chosen plan, or NULL */
  const char *note; /* such as a planner's fallback, or NULL */
  trm_error_kind error_kind;
} trm_program_source;

/* ---- Compute sets --------------------------------------------------------------------------- */

typedef struct trm_program_compute_set {
  const char *name; /* "layer1/conv2d/Conv2D/convolution.3/Convolve" */
  uint32_t source, ipu;
  uint32_t num_groups;
  trm_vertex_group groups[TRM_MAX_VERTEX_GROUPS];
  int64_t vertices, edges, flops;
  int64_t cycles;                    /* the worst tile */
  double cycles_mean;                /* over all tiles */
  uint32_t active_tiles, first_tile; /* consecutive tiles */
  uint32_t shared_with; /* the earlier compute set whose vertices and code this one uses
                           (outlining), or TRM_NO_INDEX */
  trm_spread state;     /* bytes of vertex state by tile; none when shared */
  trm_spread arrays;    /* the same of the vertices' fields that are arrays */
} trm_program_compute_set;

/* ---- Steps ---------------------------------------------------------------------------------- */

/* The direction of a stream that I/O tiles carry while the other tiles compute. */
typedef enum trm_feed_way { TRM_FEED_NONE, TRM_FEED_IN, TRM_FEED_OUT } trm_feed_way;

/* Steps are in preorder: the children of step s are in (s, steps[s].end), the first child is s + 1,
 * and the next sibling of c is steps[c].end. */
typedef struct trm_program_step {
  trm_program_step_type type;
  uint32_t parent; /* TRM_NO_INDEX for the root */
  uint32_t end;    /* one past its subtree */
  const char *name;
  uint32_t source;        /* or TRM_NO_INDEX */
  uint32_t compute_set;   /* OnTileExecute; or TRM_NO_INDEX */
  int32_t ipu;            /* -1: all IPUs of the replica */
  int32_t stage;          /* pipeline stage, -1: none */
  uint64_t repeat_count;  /* Repeat and RepeatWhile: runs of the children; else 1 */
  bool repeat_is_assumed; /* the count is an assumption (option assumed_trip_count) */
  uint32_t
      taken; /* If, Switch: the slowest child, whose cycles count; TRM_NO_INDEX for other steps */
  double executions; /* in one run of the program; 0 in a branch whose cycles do not count */
  trm_feed_way feed; /* of a leaf whose parent is a loop */
  int64_t cycles;    /* of one execution, with children and sync */
  int64_t overlapped_cycles; /* of a loop: those of its iterations without overlap, less `cycles` */
  int64_t sync_cycles;       /* the part of its own cycles that waits for sync; leaves only */
  double cycles_mean;        /* mean over the tiles of the IPU, without sync; leaves only */
  uint32_t active_tiles, first_tile; /* consecutive tiles */
  int64_t bytes_in_worst, bytes_in_total, bytes_out_worst, bytes_out_total;
  int64_t messages_worst;
  bool is_between_domains; /* a collective's share over GW-Links */
  bool is_remote;          /* from or to remote memory */
  int64_t flops;           /* leaves only */
  trm_spread code; /* its control and exchange code, if code is counted; for a step on all IPUs, on
                      the first IPU */
  int64_t live_total;       /* bytes at this step on all IPUs, with always live memory and gaps */
  int64_t live_worst;       /* bytes of the worst tile, with always live memory */
  uint32_t live_worst_tile; /* ipu * tiles_per_ipu + tile */
} trm_program_step;

/* ---- Variables ------------------------------------------------------------------------------ */

/* Steps [begin, end) during which a variable holds memory. */
typedef struct trm_program_interval {
  uint32_t begin, end;
} trm_program_interval;

typedef struct trm_program_variable {
  const char *name;
  uint32_t source; /* the instruction that made it, or TRM_NO_INDEX */
  uint32_t leaf;   /* the leaf of the source's results */
  trm_dtype dtype;
  int64_t count; /* elements */
  trm_mapping mapping;
  const trm_shape
      *copied; /* of a copy to another IPU: the shape, which the module owns; else NULL */
  trm_memory_category category;
  bool always_live;
  bool is_input, is_output,
      is_weight;   /* a weight is an input that an output updates, or that the program only reads */
  bool is_updated; /* an input that an output updates */
  /* An input that the host sends for each run of a program whose variables are known. */
  bool is_streamed;
  bool is_remote;   /* in remote memory; its readers have arrays of their own on tiles */
  uint32_t shards;  /* replicas of which each has a shard of what is remote; 0 or 1: all of it */
  bool interleaved; /* should lie in the interleaved region */
  trm_program_interval live; /* of a variable that is not always live */
  int64_t worst_bytes, total_bytes;
} trm_program_variable;

/* ---- Memory --------------------------------------------------------------------------------- */

/* Memory by tile; the index is ipu * tiles_per_ipu + tile. trm_program_create fills the arrays. */
typedef struct trm_program_memory {
  uint32_t num_tiles;
  int64_t *always_live;     /* bytes, gaps excluded */
  int64_t *not_always_live; /* at the tile's own peak step */
  int64_t *gaps;
  int64_t *interleaved; /* the part of both that lies in the interleaved region */
  int64_t *overflowed;  /* beyond the end of the tile */
  uint32_t *peak_step;  /* of the tile */
  int64_t *by_category[TRM_NUM_MEMORY_CATEGORIES]; /* at the tile's own peak step */
  bool *is_always_live; /* [category]: whether the category's bytes are always live */
  /* Worst tile and step of the whole program, gaps included. */
  uint32_t worst_tile, worst_step;
  int64_t worst_bytes, total_bytes, total_gaps, max_step_total;
} trm_program_memory;

/* Only tensors and buffers may lie in interleaved memory; they fill it first. */
bool trm_memory_may_interleave(trm_memory_category category);

/* ---- I/O tiles ------------------------------------------------------------------------------ */

/* Cycles of one iteration of a loop: of the compute tiles, and of the streams on I/O tiles. */
typedef struct trm_io_iteration {
  int64_t in, compute, out;
} trm_io_iteration;
trm_io_iteration trm_io_iteration_of(const trm_program *program, uint32_t loop);
/* Cycles of the loop, in which streams and compute of neighbouring iterations overlap. */
double trm_io_loop_cycles(const trm_io_iteration *iteration, uint64_t iterations);

/* ---- Pipelines ------------------------------------------------------------------------------ */

typedef enum trm_pipeline_schedule {
  TRM_PIPELINE_GROUPED,
  TRM_PIPELINE_INTERLEAVED,
  TRM_PIPELINE_SEQUENTIAL
} trm_pipeline_schedule;

/* The stages of a pipeline, in the order in which a mini-batch goes through them. Stage s of S is
 * at index s; in training its backward stage is at index 2 S - 1 - s. */
typedef struct trm_pipeline_stage {
  uint32_t ipu;
  bool is_backward;
  int64_t cycles;                    /* of one mini-batch, with recomputation */
  int64_t compute_cycles, io_cycles; /* cycles of compute, and of streams on I/O tiles at the same
                                        time; `cycles` is the larger of the two */
  int64_t
      stash_bytes; /* of one mini-batch: bytes that a forward stage keeps for its backward stage */
  uint32_t stash_depth; /* mini-batches whose stashes exist at once */
} trm_pipeline_stage;

/* The pipeline of a loop with the attribute "pipeline"; its instructions have "pipeline_stage" and
 * "pipeline_phase" (python/tremula/tf/ipu/ops/pipelining_ops.py writes them). There are S stages
 * and N mini-batches. F and B are the most cycles that the forward stages, and the backward stages,
 * of one IPU take. The cycles of the loop, and the mini-batches that stage s keeps:
 *   Grouped      (N + S - 1) (F + B)          2 (S - 1 - s) + 1
 *   Interleaved  2 (N + S - 1) max(F, B, H)   S - s
 *   Sequential   N times the sum of all       1
 * H is the most work of one IPU in every second slot. It exceeds F and B only where several stages
 * lie on one IPU (docs/cost_model.md, "Pipelines"). The steps of the loop are those of one
 * mini-batch. */
typedef struct trm_pipeline {
  bool present;
  trm_pipeline_schedule schedule;
  bool is_training, recomputation;
  uint32_t num_stages;   /* S */
  uint32_t num_entries;  /* length of `stages`: S, or 2 S in training */
  uint64_t mini_batches; /* N */
  trm_pipeline_stage *stages;
  uint32_t loop_step;                      /* the Repeat over mini-batches */
  int64_t forward_cycles, backward_cycles; /* F and B */
  int64_t round_cycles;                    /* of a round of the full pipeline */
  int64_t total_cycles;                    /* of the loop */
  int64_t ramp_cycles; /* the part of them in which the pipeline fills and drains */
  int64_t work_cycles; /* cycles of the mini-batches without overlap */
} trm_pipeline;

/* The entry of `stages` to which a child of the loop over mini-batches belongs. */
uint32_t trm_pipeline_entry_of(const trm_program *program, uint32_t step);
/* In the slots of the loop stages run side by side: entry e works on mini-batch m in slot e +
 * stride m. The stride is 2 for Interleaved in training, the number of entries for Sequential, and
 * 1 otherwise. */
uint64_t trm_pipeline_stride(const trm_pipeline *pipeline);

/* ---- The program ---------------------------------------------------------------------------- */

struct trm_program {
  trm_arena arena;
  /* The module after the passes for an IPU; sources index it. Not owned, unless it is owned_module.
   */
  const trm_module *module;
  trm_module *owned_module;
  trm_module *ipu_module; /* a copy of the module with the types of an IPU, and with Poplar's names
                             stated (ipu/passes/narrow.c, library.c). `module` is this copy when
                             values are recomputed (recompute.c) */
  trm_recomputation recomputed;
  uint32_t updated_states;      /* of a pipeline of make_pipeline.c: how many inputs the update of a
                                   weight replaces; else 0 */
  struct trm_plan_cache *plans; /* of convolutions and products; a reference */
  const trm_target *target;     /* a reference or a copy: see choose_target in api.c */
  trm_program_options options;  /* `inputs` are trm_known */
  uint64_t counted_by;          /* bit i % 64: input i may count a loop */
  uint32_t num_steps, num_compute_sets, num_variables, num_sources;
  trm_program_step *steps;
  trm_program_compute_set *compute_sets;
  trm_program_variable *variables;
  trm_program_source *sources;
  uint32_t num_ipus, tiles_per_ipu;
  trm_selection_order selection_order; /* never TRM_SELECTION_AUTO */
  trm_program_memory memory;
  trm_pipeline pipeline;
  trm_program_totals totals;
  trm_error_parts cycles_by_kind, bytes_by_kind; /* of the totals' cycles and worst_tile_bytes */
  void (*release)(
      void *keeper); /* releases the owner of `module`, if that is not this program; or NULL */
  void *keeper;
  bool is_kept; /* the keeper owns this program and destroys it; trm_program_free only releases the
                   keeper */
  uint32_t num_cuts; /* of a program cut by split.c */
  trm_program_cut *cuts;
  uint32_t num_notes;
  const char **notes;  /* assumptions and fallbacks, for the user */
  bool refuses_option; /* planning failed because an option of the user's is wrong */
};

/* Default options, with `size` set. */
trm_program_options trm_program_default_options(void);
/* trm_program_create() for a module that has been through the passes shared by host and IPU. The
 * module must outlive the program. Fails with TRM_UNKNOWN where the estimate itself is at fault. */
trm_status trm_program_create_shared(const trm_module *module, const trm_target *target,
                                     const trm_program_options *options, trm_program **out_program,
                                     trm_error *error);
/* Plans a module that is `program`'s or a changed copy of it, with other options for the same
 * target. Plans of convolutions and products that did not change are not searched again. */
trm_status trm_program_create_again(const trm_program *program, const trm_module *module,
                                    const trm_program_options *options, trm_program **out_program,
                                    trm_error *error);
/* Runs the passes for an IPU on a copy of such a module, for an observer. */
trm_status trm_program_observe_passes(const trm_module *module, const trm_program_options *options,
                                      trm_pass_observer observer, void *context, trm_error *error);
/* known.c: whether the estimate is also that of a run with these inputs (NULL: any run). */
bool trm_program_suits(const trm_program *program, const void *const *inputs);
/* Frees a program, even if a keeper owns it; NULL is allowed. Does not release the keeper. */
void trm_program_destroy(trm_program *program);

#endif /* TREMULA_IPU_PROGRAM_PROGRAM_H_ */

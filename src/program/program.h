/* The Poplar-like program of a module: what an IPU would run, how long, and in how much memory.
 *
 *   steps.c        appending steps from costs
 *   entry.c        inputs, outputs, the two walks over the entry
 *   build.c        the walk over a computation: where it runs, results
 *   roles.c        what the original calls compute sets, and which of them it makes: read from
 *                  what the pass library-calls has stated
 *   recompute.c    what an IPU computes twice
 *   values.c       variables and views; lives.c: when they are used for the last time
 *   costs.c        which op family says what an opcode costs
 *   schedule.c     the order of execution (memory)
 *   control.c      loops and conditionals
 *   pipeline.c     pipelines: overlap of stages, stashed activations
 *   io_tiles.c     tiles that are kept for feeds: overlap of streams and compute
 *   liveness.c     peak and per-step memory
 *   always_live.c  vertex state, code, stacks, headers
 *   explain.c      out of memory: what does not fit and why; advice.c: what would help
 *   layers.c       by layer; split.c: cut into shards; items.c: how much data a run takes
 *   api.c          tremula/program.h
 *
 * Indices are stable: steps[i], variables[i], compute_sets[i], sources[i]. Everything lives in the
 * program's arena. Bytes are the IPU's (64-bit integers are 4 bytes). Cycles are tile cycles.
 *
 * Sums that hold (tests/c/program): cycles of a Sequence = sum of its children; of a Repeat = count
 * times its children + overhead; step 0 (the root) = the run. For each tile, categories add up to
 * always_live + not_always_live; tiles add up to totals; the largest of live_by_step's worst tiles
 * is the peak. */
#ifndef TREMULA_PROGRAM_PROGRAM_H_
#define TREMULA_PROGRAM_PROGRAM_H_

#include "tile/cost.h"
#include "tremula/program.h"

/* ---- Where a step comes from ---------------------------------------------------------------- */

typedef struct trm_program_source {
  uint32_t computation;
  trm_index instruction;
  const char *hlo_name; /* "convolution.3" */
  const char *opcode;
  const char *op_name; /* TensorFlow's, "layer1/conv2d/Conv2D"; "" when unknown */
  const char *op_type; /* "Conv2D" */
  const char *layer;   /* op_name without its last part; "" at the top */
  const char *file;    /* the user's; NULL when unknown */
  int32_t line;
  const char *plan; /* text of the plan chosen, or NULL */
  const char *note; /* such as a planner's fallback, or NULL */
} trm_program_source;

/* ---- Compute sets --------------------------------------------------------------------------- */

typedef struct trm_program_compute_set {
  const char *name; /* "layer1/conv2d/Conv2D/convolution.3/Convolve" */
  uint32_t source, ipu;
  uint32_t num_groups;
  trm_vertex_group groups[TRM_MAX_VERTEX_GROUPS];
  int64_t vertices, edges, flops;
  int64_t cycles;     /* the worst tile */
  double cycles_mean; /* over all tiles */
  uint32_t active_tiles;
  uint32_t shared_with; /* an earlier compute set whose vertices and code it uses (outlining), or
                           TRM_NO_INDEX */
  trm_mapping state;    /* bytes of vertex state by tile; NONE when shared */
} trm_program_compute_set;

/* ---- Steps ---------------------------------------------------------------------------------- */

/* Which way a stream goes that I/O tiles carry while the others compute. */
typedef enum trm_feed_way { TRM_FEED_NONE, TRM_FEED_IN, TRM_FEED_OUT } trm_feed_way;

/* In program order (preorder): the children of step s are in (s, steps[s].end); the first child is
 * s + 1, the next sibling of c is steps[c].end. */
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
  uint32_t taken;         /* If, Switch: the child counted (the slowest); TRM_NO_INDEX elsewhere */
  double executions;      /* in one run of the program; 0 in a branch that is not counted */
  trm_feed_way feed;      /* leaves right inside a loop */
  int64_t cycles;         /* once; with children, sync included */
  int64_t overlapped_cycles; /* of a loop: what its turns take one after the other, less cycles */
  int64_t sync_cycles;       /* the part of own cycles that is waiting for sync; leaves only */
  double cycles_mean;        /* mean over the tiles of the IPU, without sync; leaves only */
  uint32_t active_tiles;
  int64_t bytes_in_worst, bytes_in_total, bytes_out_worst, bytes_out_total;
  int64_t messages_worst;
  int64_t flops;            /* leaves only */
  trm_mapping code;         /* its control and exchange code, when code is counted; of a step on all
                               IPUs that of the first */
  int64_t live_total;       /* bytes at this step, all IPUs, always live and gaps included */
  int64_t live_worst;       /* bytes of the worst tile, always live included */
  uint32_t live_worst_tile; /* ipu * tiles_per_ipu + tile */
} trm_program_step;

/* ---- Variables ------------------------------------------------------------------------------ */

/* Steps [begin, end) during which a variable holds memory. */
typedef struct trm_program_interval {
  uint32_t begin, end;
} trm_program_interval;

typedef struct trm_program_variable {
  const char *name;
  uint32_t source; /* what made it, or TRM_NO_INDEX */
  uint32_t leaf;   /* of the source's results */
  trm_dtype dtype;
  int64_t count; /* elements */
  trm_mapping mapping;
  const trm_shape *copied; /* of a copy to another IPU: the shape, the module's; else NULL */
  trm_memory_category category;
  bool always_live;
  bool is_input, is_output, is_weight; /* weight: an input that an output updates, or that is only
                                          read by the program */
  bool is_updated;                     /* an input that an output updates */
  bool is_remote;            /* in remote memory: on tiles are the arrays that its users read */
  bool interleaved;          /* wants the interleaved region */
  trm_program_interval live; /* of a variable that is not always live */
  int64_t worst_bytes, total_bytes;
} trm_program_variable;

/* ---- Memory --------------------------------------------------------------------------------- */

/* By tile, ipu * tiles_per_ipu + tile. The arrays are expanded by trm_program_create. */
typedef struct trm_program_memory {
  uint32_t num_tiles;
  int64_t *always_live;     /* bytes, gaps excluded */
  int64_t *not_always_live; /* at the tile's own peak step */
  int64_t *gaps;
  int64_t *interleaved; /* of the two above: placed in the interleaved region */
  int64_t *overflowed;  /* beyond the end of the tile */
  uint32_t *peak_step;  /* of the tile */
  int64_t *by_category[TRM_NUM_MEMORY_CATEGORIES]; /* at the tile's own peak step */
  bool *is_always_live; /* [category]: of the category's bytes, whether they are always live */
  /* Worst tile and step of the whole program, gaps included. */
  uint32_t worst_tile, worst_step;
  int64_t worst_bytes, total_bytes, total_gaps, max_step_total;
} trm_program_memory;

/* Only tensors and buffers may lie in interleaved memory; they fill it first. */
bool trm_memory_may_interleave(trm_memory_category category);

/* ---- I/O tiles ------------------------------------------------------------------------------ */

/* Cycles of a turn of a loop: on the compute tiles, and of the streams on I/O tiles. */
typedef struct trm_io_turn {
  int64_t in, compute, out;
} trm_io_turn;
trm_io_turn trm_io_turn_of(const trm_program *program, uint32_t loop);
/* The loop, in which streams and compute of neighbouring turns overlap. */
double trm_io_loop_cycles(const trm_io_turn *turn, uint64_t turns);

/* ---- Pipelines ------------------------------------------------------------------------------ */

typedef enum trm_pipeline_schedule {
  TRM_PIPELINE_GROUPED,
  TRM_PIPELINE_INTERLEAVED,
  TRM_PIPELINE_SEQUENTIAL
} trm_pipeline_schedule;

/* Stage s of S is at index s; its backward stage, in training, at 2 S - 1 - s, so that a mini-batch
 * goes through them in order. */
typedef struct trm_pipeline_stage {
  uint32_t ipu;
  bool is_backward;
  int64_t cycles;                    /* of one mini-batch, with what is computed again */
  int64_t compute_cycles, io_cycles; /* of `cycles`: what computes, and streams on I/O tiles
                                        beside it; `cycles` is the longer */
  int64_t stash_bytes;  /* of one mini-batch, that wait for the backward stage; forward stages */
  uint32_t stash_depth; /* mini-batches that wait at once */
} trm_pipeline_stage;

/* Of a loop that carries the attribute "pipeline" (python/tremula/tf/ipu/ops/pipelining_ops.py
 * writes it), in which instructions carry "pipeline_stage" and "pipeline_phase". With S stages, N
 * mini-batches, F and B the most cycles that the forward and the backward stages of one IPU take:
 *   Grouped      (N + S - 1) (F + B)          stage s keeps 2 (S - 1 - s) + 1 mini-batches
 *   Interleaved  2 (N + S - 1) max(F, B, H)   S - s
 *   Sequential   N times the sum of all       1
 * H is the most that an IPU has to do in every second slot: no more than F or B but where several
 * stages lie on one IPU (docs/cost_model.md, "Pipelines"). The steps of the loop are those of one
 * mini-batch. */
typedef struct trm_pipeline {
  bool present;
  trm_pipeline_schedule schedule;
  bool is_training, recomputation;
  uint32_t num_stages;   /* S */
  uint32_t num_entries;  /* of `stages`: S, or 2 S in training */
  uint64_t mini_batches; /* N */
  trm_pipeline_stage *stages;
  uint32_t loop_step;                      /* the Repeat over mini-batches */
  int64_t forward_cycles, backward_cycles; /* F and B */
  int64_t round_cycles;                    /* of a round of the full pipeline */
  int64_t total_cycles;                    /* of the loop */
  int64_t ramp_cycles;                     /* of them, while the pipeline fills and drains */
  int64_t work_cycles; /* what the mini-batches would take one after the other */
} trm_pipeline;

/* The stage (an entry of `stages`) that a step right inside the loop over mini-batches is of. */
uint32_t trm_pipeline_entry_of(const trm_program *program, uint32_t step);
/* Slots of the loop, in which stages run side by side: entry e works on mini-batch m in slot
 * e + stride m, where the stride is 2 when Interleaved in training, the number of entries when
 * Sequential, and else 1. */
uint64_t trm_pipeline_stride(const trm_pipeline *pipeline);
/* The value of the frontend attribute `key`; of a fusion, that of the first in it that carries it.
 * NULL if there is none. */
const char *trm_pipeline_attribute(const trm_module *module, const trm_instruction *instruction,
                                   const char *key);

/* ---- The program ---------------------------------------------------------------------------- */

struct trm_program {
  trm_arena arena;
  /* As the IPU's tail of the passes leaves it: not owned, or owned_module; what sources index. */
  const trm_module *module;
  trm_module *owned_module;
  trm_module *planned_module; /* a copy of module with the types that an IPU has and what its
                                 instructions are called (passes/narrow.c, library.c); module itself
                                 when values are computed again (recompute.c) */
  uint32_t recomputed_values;
  int64_t recomputed_bytes;
  const trm_target *target; /* counted or copied: see api.c */
  trm_program_options options;
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
  void (*release)(void *keeper); /* of what keeps `module` alive, when it is not ours; or NULL */
  void *keeper;
  bool is_kept; /* the keeper's own, which destroys it: trm_program_free only releases the keeper */
  uint32_t num_cuts; /* of a program cut by split.c */
  trm_program_cut *cuts;
  uint32_t num_notes;
  const char **notes; /* what the user should know: assumptions, fallbacks */
};

/* The defaults, in a struct of this library's size. */
trm_program_options trm_program_default_options(void);
/* trm_program_create() of a module that has been through the passes that host and IPU share; the
 * module must outlive the program. */
trm_status trm_program_create_shared(const trm_module *module, const trm_target *target,
                                     const trm_program_options *options, trm_program **out_program,
                                     trm_error *error);
/* Frees a program, also one that is kept; NULL: nothing. The keeper is not released. */
void trm_program_destroy(trm_program *program);

#endif /* TREMULA_PROGRAM_PROGRAM_H_ */

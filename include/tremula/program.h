/* The estimate: the program that an IPU would run for a module, its cycles and memory.
 *
 * There are three ways to use this header.
 *
 *   1. Does it fit, and how fast is it? trm_program_create() plans a module for a target,
 *      trm_program_get_totals() has the numbers, trm_program_explain() says why it does not fit and
 *      what would help.
 *   2. Where do cycles and bytes go? trm_program_step_get() and the other getters walk the steps,
 *      variables, tiles, stages and layers.
 *   3. What if it had more IPUs? trm_program_create_split() cuts the program into shards.
 *
 * Units. Cycles are clock cycles of a tile, for one run of the program unless a member says
 * otherwise. Bytes are those of one replica on the IPU, where 64-bit integers take 32 bits. Tile t
 * of IPU i has the number i * tiles_per_ipu + t. Proportions are from 0 to 1. All numbers are
 * estimates by the formulas of docs/cost_model.md.
 *
 * Structs that grow. The first member of every struct here is `size`. The caller sets it to sizeof
 * before a call, so that a program keeps working with a later library whose structs have more
 * members at the end:
 *
 *     trm_program_totals totals = {sizeof totals};
 *     trm_program_get_totals(program, &totals);
 *
 * A getter returns false for a `size` that is not set; a function with a status fails.
 *
 * Stability. Names, units and meaning of the functions and members above the fence "Not stable"
 * stay as they are until the soname changes. The numbers change with every better formula.
 *
 * A program is immutable, and several threads may use it. Pointers from getters live as long as the
 * program. */
#ifndef TREMULA_PROGRAM_H_
#define TREMULA_PROGRAM_H_

#include "tremula/target.h"
#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trm_program trm_program;

typedef enum trm_program_step_type {
#define TRM_PROGRAM_STEP(id, name) TRM_STEP_TYPE_##id,
#include "tremula/program_step.def"
#undef TRM_PROGRAM_STEP
  TRM_NUM_STEP_TYPES
} trm_program_step_type;

typedef enum trm_memory_category {
#define TRM_MEMORY_CATEGORY(id, name, always_live, help) TRM_CATEGORY_##id,
#include "tremula/memory_category.def"
#undef TRM_MEMORY_CATEGORY
  TRM_NUM_MEMORY_CATEGORIES
} trm_memory_category;

/* Poplar's names; NULL for an unknown number. */
TRM_API const char *trm_program_step_type_name(trm_program_step_type type);
TRM_API const char *trm_memory_category_name(trm_memory_category category);

/* The order in which the shards of a replica take its IPUs. AUTO: snake for a pipeline whose stages
 * are on the shards of their numbers, else zigzag. */
typedef enum trm_selection_order {
  TRM_SELECTION_AUTO,
  TRM_SELECTION_ZIGZAG,
  TRM_SELECTION_SNAKE,
  TRM_SELECTION_HOOF
} trm_selection_order;

/* Whether to count the steps that the original adds to every TensorFlow program: setting the random
 * seeds of the tiles before each run, and moving data of the host to its place. AUTO: if
 * instructions state their TensorFlow op. */
typedef enum trm_framework_steps {
  TRM_FRAMEWORK_STEPS_AUTO,
  TRM_FRAMEWORK_STEPS_ON,
  TRM_FRAMEWORK_STEPS_OFF
} trm_framework_steps;

/* Bits: the data that does not move between host and IPU because it is synthetic. */
typedef enum trm_synthetic {
  TRM_SYNTHETIC_INFEED = 1,
  TRM_SYNTHETIC_OUTFEED = 2,
  TRM_SYNTHETIC_SEED = 4, /* the seed takes no stream of its own */
  TRM_SYNTHETIC_HOST_EMBEDDING = 8,
  TRM_SYNTHETIC_PARAMETERS = 16 /* inputs and outputs */
} trm_synthetic;

/* Options of the estimate. Start from trm_program_options_init or trm_program_options_of. */
typedef struct trm_program_options {
  size_t size;       /* sizeof, set by the caller */
  uint32_t num_ipus; /* of a replica, at most 1024; 0: as many as the module's shards need */
  uint32_t replicas; /* at least 1 */
  trm_selection_order selection_order;
  /* The share of a tile's memory for the temporaries of each: 0 to 1. */
  double conv_memory_proportion, matmul_memory_proportion, slice_memory_proportion;
  /* JSON objects of text to text, with poplibs' options; NULL: none. */
  const char *convolution_options, *matmul_options;
  bool half_partials;         /* partialsType = half */
  bool compile_ipu_code;      /* count code and stacks (ipu_model.compile_ipu_code) */
  bool instrument;            /* cycle counters take memory */
  uint32_t tiles_per_ipu;     /* 0: as many as the target has */
  uint32_t io_tiles;          /* tiles of each IPU that do no computing */
  bool place_ops_on_io_tiles; /* feeds of loops use the I/O tiles while the other tiles compute */
  double io_tile_memory_proportion; /* the share of I/O tiles' memory for feeds: from 0 on */
  uint32_t synthetic;               /* bits of trm_synthetic */
  uint64_t assumed_trip_count;      /* of loops whose count is unknown; 1 to 2^53 */
  /* allow_recompute: recompute activations: all of a stage in a pipeline, elsewhere the cheap
   * ones. */
  bool recompute;
  bool outlining; /* equal operations share vertices and code (on by default) */
  /* The order of execution: the module's; depth first from the root; else the order that needs the
   * least memory. */
  bool schedule_as_written, schedule_post_order;
  bool ipu_model; /* the IPU Model, which has no remote memory to offload variables to */
  int64_t minimum_remote_bytes;        /* smaller variables stay on the IPU; 128 by default */
  trm_framework_steps framework_steps; /* trm_program_note says when they are counted */
  /* The assumed relative error of memory totals, 0 to 1. Negative, the default: the error bars of
   * the kinds of op that the memory consists of. */
  double model_error;
  /* Rows of a block of triangular solves, and of Cholesky and QR factorisations; 0: 64. */
  uint32_t solve_block, factor_block;
  /* The inputs of the run that the estimate is of, one for each leaf of the entry's parameters,
   * NULL for one that is not known: a loop that integers among them count runs as often as they
   * say. They are read when the program is made. NULL: no input is known. */
  const void *const *inputs;
  /* Outside of pipelines, `recompute` recomputes only what these layers compute: names, of which
   * the last is NULL. NULL: everything. They are read when the program is made. */
  const char *const *recompute_layers;
} trm_program_options;

/* Sets all members to their defaults, except `size`, which the caller has set. */
TRM_API void trm_program_options_init(trm_program_options *options);
/* Sets the options with which an executable was compiled (trm_option), for one replica. Texts live
 * as long as the executable. */
TRM_API void trm_program_options_of(const trm_executable *executable, trm_program_options *options);

/* Plans a module. `optimised`: the passes have run; otherwise they run on a copy. An optimised
 * module must outlive the program. The program retains the target. `options` NULL: the defaults.
 * Fails with TRM_INVALID_ARGUMENT for options out of bounds, which the message names. A program
 * that does not fit is no failure. Release it with trm_program_free. */
TRM_API trm_status trm_program_create(const trm_module *module, bool optimised,
                                      const trm_target *target, const trm_program_options *options,
                                      trm_program **out_program, trm_error *error);
/* Plans the module of an executable, which the program keeps alive. A target or options that are
 * NULL are those of the executable. If both are NULL, the executable plans once and keeps the
 * program: every caller, on any thread, gets the same one. */
TRM_API trm_status trm_program_create_for_executable(trm_executable *executable,
                                                     const trm_target *target,
                                                     const trm_program_options *options,
                                                     trm_program **out_program, trm_error *error);
/* The same with the executable's target and options, for a run with these inputs. The executable
 * keeps the program of the first caller; a run whose loops another number counts has one of its
 * own. `inputs` NULL: any run. */
TRM_API trm_status trm_program_create_for_run(trm_executable *executable, const void *const *inputs,
                                              trm_program **out_program, trm_error *error);
/* NULL is allowed. */
TRM_API void trm_program_free(trm_program *program);

/* ---- Totals --------------------------------------------------------------------------------- */

typedef struct trm_program_totals {
  size_t size;   /* sizeof, set by the caller */
  bool fits;     /* the worst tile is within bytes_per_tile */
  bool is_close; /* the limit is between worst_tile_bytes_low and worst_tile_bytes_high */
  uint32_t num_ipus, tiles_per_ipu, replicas;
  int64_t bytes_per_tile;
  int64_t cycles; /* of one run */
  /* Cycles by kind; their sum is cycles + overlapped_cycles. */
  int64_t compute_cycles, copy_cycles, exchange_cycles, global_exchange_cycles, host_cycles,
      collective_cycles, sync_cycles, control_cycles;
  int64_t overlapped_cycles; /* of work beside other work: another stage of a pipeline, I/O tiles */
  double seconds;            /* cycles / clock */
  double tile_balance;       /* mean compute cycles of a tile / those of the worst tile, 0 to 1 */
  int64_t flops;             /* floating-point operations of one run */
  int64_t memory_bytes;      /* of all tiles, each at its own peak, without gaps */
  int64_t memory_bytes_with_gaps;
  int64_t always_live_bytes; /* of all tiles */
  int64_t max_step_bytes;    /* of the fullest step, on all tiles, with always live bytes */
  int64_t worst_tile_bytes;  /* with gaps */
  uint32_t worst_tile;       /* its number */
  uint32_t worst_step;       /* the step at which that tile is fullest */
  int64_t bytes_over;        /* of the worst tile, beyond its memory; 0 if it fits */
  uint32_t tiles_over;       /* the number of tiles that do not fit */
  int64_t weights_bytes;     /* of inputs that stay on the IPU or in remote memory */
  int64_t remote_bytes;      /* the part of weights_bytes in remote memory */
  uint32_t num_steps, num_compute_sets, num_variables;
  int64_t num_vertices, num_edges;
  int64_t host_bytes_in, host_bytes_out; /* of one run */
  int64_t code_bytes;                    /* of all tiles, also when compile_ipu_code is off */
  int64_t load_bytes;  /* code and always live data, which loading the program transfers */
  int64_t load_cycles; /* to transfer load_bytes from the host, with the sync before */
  int64_t between_domains_cycles; /* the part of collective_cycles over GW-Links */
  /* Error bars (docs/accuracy.md): between which cycles and bytes most of such programs were
   * measured. `like` names the kind of op that a figure mostly consists of; the text is static. */
  int64_t cycles_low, cycles_high, worst_tile_bytes_low, worst_tile_bytes_high;
  const char *cycles_like, *bytes_like;
} trm_program_totals;

/* False if size is not set. */
TRM_API bool trm_program_get_totals(const trm_program *program, trm_program_totals *out_totals);
/* Elements of data that a run takes on all replicas; 0: none. They are counted along the first
 * dimension of the largest array of an infeed, times the number of its reads (a scalar counts as
 * 1). In a program without infeeds, the largest input that is no weight counts. *out_images: that
 * array has rank 4. */
TRM_API double trm_program_items(const trm_program *program, bool *out_images);
/* Bytes of a category on all tiles, each at its own peak; 0 for an unknown category. */
TRM_API int64_t trm_program_category_bytes(const trm_program *program,
                                           trm_memory_category category);
/* Note i for readers of the numbers: assumptions, fallbacks. NULL past the last. */
TRM_API const char *trm_program_note(const trm_program *program, size_t i);

/* ---- Out of memory -------------------------------------------------------------------------- */

/* Explains the memory as text, also of a program that fits: the answer in the first three lines,
 * the worst tile and step, the bytes over, the five largest tensors. `with_advice`: also changes
 * that would help, with the bytes that each saves: the one that promises most is planned, the
 * others worked out. Free *out_text with trm_free. */
TRM_API trm_status trm_program_explain(const trm_program *program, bool with_advice,
                                       char **out_text, trm_error *error);
/* TRM_OK if the program fits. Otherwise TRM_INTERNAL with Poplar's message: "[Poplar][Compile
 * engine] graph_memory_allocation_error: ...". */
TRM_API trm_status trm_program_check_fits(const trm_program *program, trm_error *error);

/* ==== Not stable ============================================================================= */

/* The rest mirrors how the estimate plans. A version may add kinds of steps and categories, and may
 * split a step in two. Members are added at the end of structs, as above. */

/* ---- Parts ---------------------------------------------------------------------------------- */

typedef struct trm_program_step_info {
  size_t size; /* sizeof, set by the caller */
  trm_program_step_type type;
  /* "" or, for file, NULL if unknown */
  const char *name, *hlo_name, *op_name, *op_type, *layer, *file;
  int32_t line, ipu, stage; /* ipu -1: all; stage -1: none */
  uint32_t parent, end;     /* step i and its descendants are [i, end); parent UINT32_MAX: step 0 */
  uint64_t repeat_count;    /* of a loop */
  double executions;        /* in one run */
  int64_t cycles, sync_cycles; /* of one execution, on the worst tile */
  double cycles_mean;          /* of an active tile, on average */
  uint32_t active_tiles;
  /* Bytes that tiles receive and send in one execution: the worst tile, all tiles. */
  int64_t bytes_in_worst, bytes_in_total, bytes_out_worst, bytes_out_total;
  int64_t flops, vertices;
  int64_t live_total, live_worst; /* of all tiles, of the fullest; with always live bytes */
  uint32_t live_worst_tile;
  const char *plan; /* of a convolution or matrix product; else NULL */
} trm_program_step_info;
/* False for i out of range, or if size is not set. Step 0 is the whole run. */
TRM_API bool trm_program_step_get(const trm_program *program, size_t i,
                                  trm_program_step_info *out_info);

typedef struct trm_program_variable_info {
  size_t size; /* sizeof, set by the caller */
  const char *name, *op_name, *file;
  int32_t line;
  trm_dtype dtype;
  int64_t count;                    /* elements */
  int64_t worst_bytes, total_bytes; /* on the tile with the most, on all tiles */
  uint32_t ipu, tiles;              /* the number of tiles with a part of it */
  trm_memory_category category;
  bool always_live, is_input, is_output, is_weight;
  uint32_t begin, end; /* live during the steps [begin, end), if not always live */
} trm_program_variable_info;
TRM_API bool trm_program_variable_get(const trm_program *program, size_t i,
                                      trm_program_variable_info *out_info);

typedef struct trm_program_tile_info {
  size_t size; /* sizeof, set by the caller */
  int64_t always_live, not_always_live, gaps, interleaved, overflowed; /* bytes at its peak */
  uint32_t peak_step;
  int64_t by_category[TRM_NUM_MEMORY_CATEGORIES];
} trm_program_tile_info;
/* False for an unknown tile, or if size is not set. */
TRM_API bool trm_program_tile_get(const trm_program *program, size_t tile,
                                  trm_program_tile_info *out_info);

/* A pipeline. Its loop over mini-batches takes total_cycles, with ramp_cycles to fill and drain it.
 * One after the other the mini-batches would take work_cycles. */
typedef struct trm_program_pipeline_info {
  size_t size;          /* sizeof, set by the caller */
  const char *schedule; /* "Grouped", "Interleaved", "Sequential" */
  bool is_training, recomputation;
  uint32_t num_stages, loop_step;
  uint64_t mini_batches;
  int64_t round_cycles, total_cycles, ramp_cycles, work_cycles;
} trm_program_pipeline_info;
/* False for a program without a pipeline, or if size is not set. */
TRM_API bool trm_program_pipeline_get(const trm_program *program,
                                      trm_program_pipeline_info *out_info);
/* Stage i; false past the last. In training the backward stage of stage s is 2 num_stages - 1 -
 * s. */
typedef struct trm_program_stage_info {
  size_t size; /* sizeof, set by the caller */
  uint32_t ipu;
  bool is_backward;
  int64_t cycles;       /* of one mini-batch */
  int64_t stash_bytes;  /* of one mini-batch; forward stages */
  uint32_t stash_depth; /* mini-batches that are stored at a time */
} trm_program_stage_info;
TRM_API bool trm_program_stage_get(const trm_program *program, size_t i,
                                   trm_program_stage_info *out_info);

/* A layer: a scope of TensorFlow's op names ("resnet/block1" of "resnet/block1/Conv2D"). Gradients
 * count in the layer of their op, inputs and constants in the first layer that reads them. */
typedef struct trm_program_layer {
  size_t size;
  const char *name; /* "": memory and cycles without a layer, such as code and transfers */
  uint32_t steps;
  int64_t cycles, flops;     /* of one run; in a pipeline with overlapped ones */
  int64_t weights_bytes;     /* weights and constants */
  int64_t always_live_bytes; /* weights, constants, vertices */
  int64_t live_bytes;        /* of all tiles at the layer's fullest step: everything, with gaps */
  int64_t worst_tile_bytes;  /* at the step with the fullest tile, with always live bytes */
  int64_t cycles_low, cycles_high; /* the error bar of `cycles` */
} trm_program_layer;
/* Lists layers in the order of their first steps. layer_size is sizeof(trm_program_layer), the
 * distance of the elements. Free *out_layers, which holds the names, with trm_free. */
TRM_API trm_status trm_program_list_layers(const trm_program *program, size_t layer_size,
                                           trm_program_layer **out_layers, size_t *out_count,
                                           trm_error *error);

/* ---- Error bars ----------------------------------------------------------------------------- */

/* A kind of op whose estimates err alike, and its part of the program. */
typedef struct trm_program_kind {
  size_t size; /* sizeof, set by the caller */
  const char *name;
  int64_t cycles; /* of a run; in a pipeline with overlapped ones */
  int64_t bytes;  /* of the IPU with the fullest tile, at that tile's fullest step */
  double cycles_low, cycles_high, bytes_low, bytes_high; /* its error bars, as shares */
} trm_program_kind;
/* Kind i, the last of which is inputs and constants; false past it, or if size is not set. */
TRM_API bool trm_program_kind_get(const trm_program *program, size_t i, trm_program_kind *out_kind);

/* ---- Shards --------------------------------------------------------------------------------- */

/* Cuts the program between layers into 2 to 64 shards, one for each IPU, so that they fit and the
 * longest is as short as possible. A few cuts are estimated. TRM_FAILED_PRECONDITION for a program
 * that already is on several IPUs or has fewer layers than shards. */
TRM_API trm_status trm_program_create_split(const trm_program *program, uint32_t num_shards,
                                            trm_program **out_program, trm_error *error);
typedef struct trm_program_cut {
  size_t size;                /* sizeof, set by the caller */
  const char *after, *before; /* the layers around the cut; they live as long as the program */
  int64_t bytes;              /* sent across the cut by the forward pass */
  uint32_t ipu;               /* of the shard behind the cut; shard 0 is on IPU 0 */
} trm_program_cut;
/* Cut i of a program from trm_program_create_split; false past the last, or if size is not set. */
TRM_API bool trm_program_cut_get(const trm_program *program, size_t i, trm_program_cut *out_cut);

/* ---- What would make it fit ----------------------------------------------------------------- */

/* Searches what makes a program need less memory: changes alone, changes together until they fit
 * (those with the fewest cycles first), and the smallest number of IPUs to shard it over. Every
 * change is planned, so this takes as long as many plans. `progress` (NULL: none) is called before
 * each plan with the number of those made; when it returns false, what was found so far is the
 * result. Release it with trm_program_search_free. */
typedef struct trm_program_search trm_program_search;
TRM_API trm_status trm_program_search_fit(const trm_program *program,
                                          bool (*progress)(void *context, uint32_t plans),
                                          void *context, trm_program_search **out_search,
                                          trm_error *error);
TRM_API void trm_program_search_free(trm_program_search *search); /* NULL is allowed */
/* Whether `progress` ended the search. */
TRM_API bool trm_program_search_stopped(const trm_program_search *search);

typedef struct trm_program_advice {
  size_t size;      /* sizeof, set by the caller */
  const char *text; /* lives as long as the search */
  bool fits;
  bool is_planned; /* else worked out from the plan of the program as it is, and cycles is 0 */
  uint32_t num_ipus;
  int64_t saved, worst_tile_bytes; /* bytes on the fullest tile */
  int64_t cycles;                  /* of a run of the changed program */
} trm_program_advice;
/* Change i: those that fit first, then those that save most. False past the last, or if size is not
 * set. */
TRM_API bool trm_program_advice_get(const trm_program_search *search, size_t i,
                                    trm_program_advice *out_advice);

typedef struct trm_program_smallest {
  size_t size;      /* sizeof, set by the caller */
  const char *with; /* the changes made besides; "" for none */
  uint32_t ipus;    /* the fewest that fit; 0: none up to most_tried */
  uint32_t most_tried;
  int64_t worst_tile_bytes, cycles; /* on `ipus`; where that is 0, on `nearest` */
  const char *fullest; /* the layer with which the fullest shard begins; "": the first */
  /* Of a pipeline with stage s on IPU s: the mini-batches of a weight update; `cycles` are those of
   * one. 0: of no pipeline. "Grouped", "Interleaved"; "": of no pipeline. */
  uint32_t mini_batches;
  const char *schedule;
  bool offloads;    /* a pipeline with optimizer state in remote memory */
  uint32_t nearest; /* the number of IPUs, of those tried, whose fullest tile is least full; 0:
                       `ipus` fit */
} trm_program_smallest;
/* The smallest number of IPUs by sharding: alone, with changes that keep the numbers, in float16;
 * then by pipelines: alone, with recomputation, interleaved, with optimizer state in remote memory.
 * False where there is no more, or if size is not set. */
TRM_API bool trm_program_smallest_get(const trm_program_search *search, size_t i,
                                      trm_program_smallest *out_smallest);

/* Cut c of answer i, between shards or stages c and c + 1; false past the last, or if size is not
 * set. The names live as long as the search. */
TRM_API bool trm_program_smallest_cut_get(const trm_program_search *search, size_t i, size_t cut,
                                          trm_program_cut *out_cut);

/* ---- What if -------------------------------------------------------------------------------- */

/* Plans the program with changes, all at once:
 *
 *   - half, LAYER:half: float16 instead of float32. In a layer what comes in and goes out is cast,
 *     and a weight that the program updates stays float32.
 *   - recompute, LAYER:recompute: recomputes cheap results in the backward pass.
 *   - offload: optimizer state in remote memory.
 *   - amp=P, LAYER:amp=P: availableMemoryProportion of convolutions and matmuls.
 *   - memory=BYTES: the memory of a tile; kB and KiB may follow the number.
 *   - ipus=N: the program is cut into N shards.
 *
 * A layer contains those whose names begin with its own and a slash. TRM_INVALID_ARGUMENT for what
 * is no change, TRM_NOT_FOUND for a layer that the program does not have, with the nearest names;
 * TRM_FAILED_PRECONDITION where the program has nothing to change. */
TRM_API trm_status trm_program_create_changed(const trm_program *program,
                                              const char *const *changes, size_t count,
                                              trm_program **out_program, trm_error *error);

/* Prints the module as a graph in the DOT language, with the position of each instruction in the
 * order of execution. Free *out_text with trm_free. */
TRM_API trm_status trm_program_print_schedule(const trm_program *program, char **out_text,
                                              trm_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_PROGRAM_H_ */

/* What an IPU would need: the Poplar-like program of a module, its cycles and memory.
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
 * otherwise. Bytes are the IPU's, of one replica, where 64-bit integers take 32 bits. A tile's
 * number is ipu * tiles_per_ipu + tile. Proportions are from 0 to 1. All are estimates by the
 * formulas of docs/cost_model.md.
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
 * A program is immutable and may be used by several threads; pointers that getters hand out live as
 * long as it does. */
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

/* Poplar's names; NULL for a number that is none. */
TRM_API const char *trm_program_step_type_name(trm_program_step_type type);
TRM_API const char *trm_memory_category_name(trm_memory_category category);

/* In which order the IPUs of a replica take its shards; AUTO: the snake for pipelines of stages on
 * the shards of their numbers, else zigzag. */
typedef enum trm_selection_order {
  TRM_SELECTION_AUTO,
  TRM_SELECTION_ZIGZAG,
  TRM_SELECTION_SNAKE,
  TRM_SELECTION_HOOF
} trm_selection_order;

/* Whether the steps are counted that the original adds to every program of TensorFlow: it sets the
 * tiles' random seeds before each run, and puts what the host has sent where it belongs. AUTO:
 * where instructions say which TensorFlow op they are of. */
typedef enum trm_framework_steps {
  TRM_FRAMEWORK_STEPS_AUTO,
  TRM_FRAMEWORK_STEPS_ON,
  TRM_FRAMEWORK_STEPS_OFF
} trm_framework_steps;

/* What is not moved between host and IPU, because its data is made up; bits. */
typedef enum trm_synthetic {
  TRM_SYNTHETIC_INFEED = 1,
  TRM_SYNTHETIC_OUTFEED = 2,
  TRM_SYNTHETIC_SEED = 4, /* it takes no stream of its own */
  TRM_SYNTHETIC_HOST_EMBEDDING = 8,
  TRM_SYNTHETIC_PARAMETERS = 16 /* inputs and outputs */
} trm_synthetic;

/* How to plan. Start from trm_program_options_init or trm_program_options_of. */
typedef struct trm_program_options {
  size_t size;       /* sizeof, set by the caller */
  uint32_t num_ipus; /* of a replica; 0: as many as the shards of the module need; at most 1024 */
  uint32_t replicas; /* at least 1 */
  trm_selection_order selection_order;
  /* Of a tile's memory, for the temporaries of each: 0 to 1. */
  double conv_memory_proportion, matmul_memory_proportion, slice_memory_proportion;
  /* JSON objects of text to text, in poplibs' words; NULL: none. */
  const char *convolution_options, *matmul_options;
  bool half_partials;               /* partialsType = half */
  bool compile_ipu_code;            /* count code and stacks (ipu_model.compile_ipu_code) */
  bool instrument;                  /* cycle counters take memory */
  uint32_t tiles_per_ipu;           /* 0: those of the target */
  uint32_t io_tiles;                /* tiles kept from compute on every IPU */
  bool place_ops_on_io_tiles;       /* feeds of loops go through them, while the others compute */
  double io_tile_memory_proportion; /* of their memory, that feeds may take: from 0 on */
  uint32_t synthetic;               /* bits of trm_synthetic */
  uint64_t assumed_trip_count;      /* of loops whose count is not known; 1 to 2^53 */
  bool recompute; /* allow_recompute: activations are computed again, in a pipeline all
                     of a stage, elsewhere the cheap ones */
  bool outlining; /* equal operations share vertices and code (on by default) */
  /* Keep the module's order; go depth first from the root; otherwise the order that needs least
   * memory. */
  bool schedule_as_written, schedule_post_order;
  bool ipu_model; /* the IPU Model: no remote memory, for what is offloaded where there is some */
  int64_t minimum_remote_bytes;        /* smaller variables are never offloaded: 128 bytes */
  trm_framework_steps framework_steps; /* a note of the program says that they are counted */
  double model_error; /* relative error that memory totals are thought to have: 0.05; 0 to 1 */
  /* Rows of a block of triangular solves, and of Cholesky and QR factorisations; 0: 64. */
  uint32_t solve_block, factor_block;
} trm_program_options;

/* Sets all members but `size`, which the caller has set, to their defaults. */
TRM_API void trm_program_options_init(trm_program_options *options);
/* Sets them to those that an executable was compiled with (trm_option), for one replica. Texts live
 * as long as the executable. */
TRM_API void trm_program_options_of(const trm_executable *executable, trm_program_options *options);

/* Plans. `module` is a module before or after the passes; `optimised` says which, and a module
 * before them is copied. The module must outlive the program when it is optimised. The target is
 * retained. Options that are NULL are the defaults. Fails with TRM_INVALID_ARGUMENT for options out
 * of bounds, naming them; does not fail for a program that does not fit. Release with
 * trm_program_free. */
TRM_API trm_status trm_program_create(const trm_module *module, bool optimised,
                                      const trm_target *target, const trm_program_options *options,
                                      trm_program **out_program, trm_error *error);
/* The same of what an executable was compiled from; the executable is kept alive. A target and
 * options that are NULL are those that it was compiled with. With both NULL the executable plans
 * once and keeps the program: all who ask, on any thread, get that one. */
TRM_API trm_status trm_program_create_for_executable(trm_executable *executable,
                                                     const trm_target *target,
                                                     const trm_program_options *options,
                                                     trm_program **out_program, trm_error *error);
/* NULL is allowed. */
TRM_API void trm_program_free(trm_program *program);

/* ---- Totals --------------------------------------------------------------------------------- */

typedef struct trm_program_totals {
  size_t size;   /* sizeof, set by the caller */
  bool fits;     /* the worst tile is within bytes_per_tile */
  bool is_close; /* nearer to the limit than model_error */
  uint32_t num_ipus, tiles_per_ipu, replicas;
  int64_t bytes_per_tile;
  int64_t cycles; /* one run */
  /* Cycles by kind; they add up to cycles + overlapped_cycles. */
  int64_t compute_cycles, copy_cycles, exchange_cycles, global_exchange_cycles, host_cycles,
      collective_cycles, sync_cycles, control_cycles;
  int64_t overlapped_cycles; /* work that runs while other does: of another stage of a pipeline, of
                                I/O tiles */
  double seconds;            /* cycles / clock */
  double tile_balance;       /* mean compute cycles of a tile / cycles of the worst, 0 to 1 */
  int64_t flops;             /* floating-point operations of one run */
  int64_t memory_bytes;      /* all tiles, each at its own peak, gaps excluded */
  int64_t memory_bytes_with_gaps;
  int64_t always_live_bytes; /* all tiles */
  int64_t max_step_bytes;    /* of the fullest step, all tiles, always live included */
  int64_t worst_tile_bytes;  /* gaps included */
  uint32_t worst_tile;       /* its number */
  uint32_t worst_step;       /* where it is fullest */
  int64_t bytes_over;        /* of the worst tile beyond its end; 0 when it fits */
  uint32_t tiles_over;       /* tiles that do not fit */
  int64_t weights_bytes;     /* inputs that stay on the IPU, or in remote memory */
  int64_t remote_bytes;      /* of them: in remote memory */
  uint32_t num_steps, num_compute_sets, num_variables;
  int64_t num_vertices, num_edges;
  int64_t host_bytes_in, host_bytes_out; /* one run */
  int64_t code_bytes;                    /* of all tiles, also when compile_ipu_code is off */
  int64_t load_bytes;  /* code and what is always live: what loading the program brings */
  int64_t load_cycles; /* load_bytes over the host's link, and the sync before */
} trm_program_totals;

/* False where size is not set. */
TRM_API bool trm_program_get_totals(const trm_program *program, trm_program_totals *out_totals);
/* Elements of data that a run takes on all replicas; 0: it takes none. They are counted along the
 * first dimension of the largest array that an infeed brings, times how often it is read (a scalar
 * counts as 1), or, of a program without infeeds, of the largest input that is no weight.
 * *out_images: that array has rank 4. */
TRM_API double trm_program_items(const trm_program *program, bool *out_images);
/* Bytes of a category on all tiles, each at its own peak; 0 for a number that is no category. */
TRM_API int64_t trm_program_category_bytes(const trm_program *program,
                                           trm_memory_category category);
/* What a reader of the numbers should know: assumptions, fallbacks. NULL past the last. */
TRM_API const char *trm_program_note(const trm_program *program, size_t i);

/* ---- Out of memory -------------------------------------------------------------------------- */

/* Text: the answer in the first three lines, then the worst tile and step, the bytes over, the
 * five largest tensors, and what would help, each with the bytes that it would save (found by
 * planning it, when `with_advice`). Also for a program that fits. Free with trm_free. */
TRM_API trm_status trm_program_explain(const trm_program *program, bool with_advice,
                                       char **out_text, trm_error *error);
/* TRM_OK when it fits, otherwise TRM_INTERNAL with a message in Poplar's words:
 * "[Poplar][Compile engine] graph_memory_allocation_error: ...". */
TRM_API trm_status trm_program_check_fits(const trm_program *program, trm_error *error);

/* ==== Not stable ============================================================================= */

/* What follows mirrors how the estimate plans: a version may add kinds of steps and categories, and
 * may split a step in two. Members are added at the end of structs, as above. */

/* ---- Parts ---------------------------------------------------------------------------------- */

typedef struct trm_program_step_info {
  size_t size; /* sizeof, set by the caller */
  trm_program_step_type type;
  /* "" or NULL (file) when unknown */
  const char *name, *hlo_name, *op_name, *op_type, *layer, *file;
  int32_t line, ipu, stage;    /* ipu -1: all; stage -1: none */
  uint32_t parent, end;        /* the subtree of step i is [i, end); parent UINT32_MAX: the root */
  uint64_t repeat_count;       /* of a loop */
  double executions;           /* in one run */
  int64_t cycles, sync_cycles; /* of one execution, on the worst tile */
  double cycles_mean;          /* of the active tiles */
  uint32_t active_tiles;
  /* That tiles receive and send in one execution: the worst tile, all tiles. */
  int64_t bytes_in_worst, bytes_in_total, bytes_out_worst, bytes_out_total;
  int64_t flops, vertices;
  int64_t live_total, live_worst; /* bytes of all tiles, of the fullest; always live included */
  uint32_t live_worst_tile;
  const char *plan; /* of a convolution or matmul; or NULL */
} trm_program_step_info;
/* False for i out of range, or where size is not set. Step 0 is the whole run. */
TRM_API bool trm_program_step_get(const trm_program *program, size_t i,
                                  trm_program_step_info *out_info);

typedef struct trm_program_variable_info {
  size_t size; /* sizeof, set by the caller */
  const char *name, *op_name, *file;
  int32_t line;
  trm_dtype dtype;
  int64_t count;                    /* elements */
  int64_t worst_bytes, total_bytes; /* on the tile that has most of it, on all */
  uint32_t ipu, tiles;              /* tiles used */
  trm_memory_category category;
  bool always_live, is_input, is_output, is_weight;
  uint32_t begin, end; /* steps, when not always live */
} trm_program_variable_info;
TRM_API bool trm_program_variable_get(const trm_program *program, size_t i,
                                      trm_program_variable_info *out_info);

typedef struct trm_program_tile_info {
  size_t size; /* sizeof, set by the caller */
  int64_t always_live, not_always_live, gaps, interleaved, overflowed; /* bytes at its peak */
  uint32_t peak_step;
  int64_t by_category[TRM_NUM_MEMORY_CATEGORIES];
} trm_program_tile_info;
/* False for a number that no tile has, or where size is not set. */
TRM_API bool trm_program_tile_get(const trm_program *program, size_t tile,
                                  trm_program_tile_info *out_info);

/* A pipeline: its loop over mini-batches takes total_cycles, of which ramp_cycles while it fills
 * and drains; one after the other the mini-batches would take work_cycles. */
typedef struct trm_program_pipeline_info {
  size_t size;          /* sizeof, set by the caller */
  const char *schedule; /* "Grouped", "Interleaved", "Sequential" */
  bool is_training, recomputation;
  uint32_t num_stages, loop_step;
  uint64_t mini_batches;
  int64_t round_cycles, total_cycles, ramp_cycles, work_cycles;
} trm_program_pipeline_info;
/* False for a program that is no pipeline, or where size is not set. */
TRM_API bool trm_program_pipeline_get(const trm_program *program,
                                      trm_program_pipeline_info *out_info);
/* Stage i, false past the last; in training the backward stage of stage s is at 2 num_stages - 1 -
 * s. */
typedef struct trm_program_stage_info {
  size_t size; /* sizeof, set by the caller */
  uint32_t ipu;
  bool is_backward;
  int64_t cycles;       /* of one mini-batch */
  int64_t stash_bytes;  /* of one mini-batch; forward stages */
  uint32_t stash_depth; /* mini-batches that wait at once */
} trm_program_stage_info;
TRM_API bool trm_program_stage_get(const trm_program *program, size_t i,
                                   trm_program_stage_info *out_info);

/* A layer: a scope of TensorFlow's op names ("resnet/block1" of "resnet/block1/Conv2D"). Gradients
 * count with the layer that they are of, inputs and constants with the first that reads them. */
typedef struct trm_program_layer {
  size_t size;
  const char *name; /* "": what belongs to no layer, such as code and transfers */
  uint32_t steps;
  int64_t cycles, flops;     /* of one run; of a pipeline, those that overlap too */
  int64_t weights_bytes;     /* weights and constants */
  int64_t always_live_bytes; /* weights, constants, vertices */
  int64_t live_bytes;        /* all tiles, at its fullest step: everything, gaps included */
  int64_t worst_tile_bytes;  /* at the step with the fullest tile, always live included */
} trm_program_layer;
/* In the order of their first steps; layer_size is sizeof(trm_program_layer), which is how far
 * apart they lie. Free *out_layers, which holds the names, with trm_free. */
TRM_API trm_status trm_program_list_layers(const trm_program *program, size_t layer_size,
                                           trm_program_layer **out_layers, size_t *out_count,
                                           trm_error *error);

/* ---- Shards --------------------------------------------------------------------------------- */

/* The same program cut between layers into 2 to 64 shards, an IPU each, so that the fullest tiles
 * of all IPUs are as even as the few cuts that were planned are. TRM_FAILED_PRECONDITION for a
 * program that is on several IPUs already or has fewer layers than shards. */
TRM_API trm_status trm_program_create_split(const trm_program *program, uint32_t num_shards,
                                            trm_program **out_program, trm_error *error);
typedef struct trm_program_cut {
  size_t size;                /* sizeof, set by the caller */
  const char *after, *before; /* the layers between which it is; as long as the program lives */
  int64_t bytes;              /* that the forward pass sends across */
} trm_program_cut;
/* Cut i of a program that was made so; false past the last, or where size is not set. */
TRM_API bool trm_program_cut_get(const trm_program *program, size_t i, trm_program_cut *out_cut);

/* The module as a graph in the DOT language, in which instructions have their places in the order
 * of execution. Free *out_text with trm_free. */
TRM_API trm_status trm_program_print_schedule(const trm_program *program, char **out_text,
                                              trm_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_PROGRAM_H_ */

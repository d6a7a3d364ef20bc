/* The plan of a convolution or a matmul on an IPU: the blocks that the work is cut into, the
 * vertices, and their cost. A matmul is planned as a convolution (trm_conv_params_matmul).
 *
 * One operation runs on one IPU. Sizes are in elements, memory in bytes, time in clock cycles of a
 * tile. A plan is a plain value: it owns nothing and may be copied. docs/planner.md explains the
 * search and the cost, docs/accuracy.md compares the cost with measurements. */
#ifndef TREMULA_IPU_PLAN_PLAN_H_
#define TREMULA_IPU_PLAN_PLAN_H_

#include "hlo/hlo.h"
#include "ipu/target/target.h"

/* ---- What is computed ---------------------------------------------------------------------- */

/* The most spatial dimensions with a window; a convolution with more is refused. */
enum { TRM_PLAN_MAX_DIMS = 3 };

/* One spatial dimension. trm_conv_output_size counts its output positions. */
typedef struct trm_conv_dim {
  int64_t input, kernel, stride, pad_low, pad_high, input_dilation, kernel_dilation;
  bool outer; /* not the innermost of the convolution, though it may be the last one here */
} trm_conv_dim;

/* Initialise it with zeros, then set members; trm_linear_plan_make checks them. */
typedef struct trm_conv_params {
  trm_dtype input_type, output_type; /* both operands have input_type */
  int64_t groups, batch;             /* convolution groups; batch */
  int64_t in_channels, out_channels; /* of one group */
  bool first_is_weights;             /* a matmul: see trm_conv_params_matmul */
  uint32_t num_dims;                 /* 0: a matmul */
  trm_conv_dim dims[TRM_PLAN_MAX_DIMS];
} trm_conv_params;

int64_t trm_conv_output_size(const trm_conv_dim *dim);

/* groups x [m,k] x [k,n]. As in Poplar, convolution units hold the first operand as weights: batch
 * is n, in_channels is k, out_channels is m, and first_is_weights is set. */
trm_conv_params trm_conv_params_matmul(trm_dtype input_type, trm_dtype output_type, int64_t groups,
                                       int64_t m, int64_t k, int64_t n);
/* The parameters of an HLO dot or convolution. */
trm_status trm_conv_params_from_instruction(const trm_computation *computation,
                                            const trm_instruction *instruction,
                                            trm_conv_params *out_params, trm_error *error);

/* ---- Options ------------------------------------------------------------------------------- */

typedef enum trm_plan_pass {
  TRM_PASS_NONE,
  TRM_PASS_INFERENCE_FWD,
  TRM_PASS_TRAINING_FWD,
  TRM_PASS_TRAINING_BWD,
  TRM_PASS_TRAINING_WU,
  TRM_PASS_FC_INFERENCE_FWD,
  TRM_PASS_FC_TRAINING_FWD,
  TRM_PASS_FC_TRAINING_BWD,
  TRM_PASS_FC_TRAINING_WU,
} trm_plan_pass;

typedef struct trm_plan_options {
  /* Defaults are in parentheses. */
  double available_memory_proportion; /* of a tile's memory, for temporary bytes: 0 to 1 (0.6) */
  trm_dtype partials_type;            /* of the vertices' sums: F32 or F16 (F32) */
  trm_dtype inter_tile_partials_type; /* of sums that tiles exchange: F32 or F16 (F32) */
  trm_plan_pass pass;
  bool use_128bit_conv_unit_load; /* (false) */
  bool enable_multi_stage_reduce; /* (true) */
  bool enable_fast_reduce;        /* (false) */
  /* Poplar's planConstraints, a JSON text, or NULL. The caller keeps the text. */
  const char *constraints;
} trm_plan_options;

trm_plan_options trm_plan_options_default(void);
/* Sets an option by Poplar's name and text ("partialsType", "half"). An unknown name fails with
 * TRM_INTERNAL and Poplar's message, a value out of bounds with TRM_INVALID_ARGUMENT, and a value
 * that plans do not honour with TRM_UNIMPLEMENTED. */
trm_status trm_plan_option_set(trm_plan_options *options, const char *key, const char *value,
                               trm_error *error);

/* ---- The plan ------------------------------------------------------------------------------ */

typedef enum trm_plan_method {
  TRM_METHOD_AMP,
  TRM_METHOD_SLIC,
  TRM_METHOD_HMAC,
  TRM_METHOD_VMAC,
  TRM_METHOD_OUTER_PRODUCT,
} trm_plan_method;
const char *trm_plan_method_name(trm_plan_method method); /* "AMP", ... */

/* How the plan met the memory that it was allowed. */
typedef enum trm_plan_fit {
  TRM_FIT_TARGET, /* temporary bytes <= available_memory_proportion x tile */
  TRM_FIT_RAISED, /* no plan does; this one meets a doubled bound (fit_bound), up to two tiles */
  TRM_FIT_LEAST,  /* no plan meets two tiles either; this one has the least temporary bytes */
} trm_plan_fit;
const char *trm_plan_fit_name(trm_plan_fit fit);

/* How the work is cut: the splits of each dimension, first serial (a loop over blocks), then over
 * the tiles. Each block of a dimension of n grains has ceil(n / split) grains; the last may have
 * fewer. */
typedef struct trm_plan_partition {
  uint32_t field[TRM_PLAN_MAX_DIMS], batch, out_channels, out_channels_serial;
  uint32_t kernel[TRM_PLAN_MAX_DIMS], in_channels, in_channels_serial, groups;
} trm_plan_partition;

/* How the canonical shape is transformed before it is cut. */
typedef struct trm_plan_transform {
  bool swap_operands;      /* rows are computed as output channels */
  uint32_t expand_dims;    /* bit d: the kernel of dimension d is laid out as input channels */
  uint32_t flatten_dims;   /* bit d: the output of dimension d is laid out as output channels */
  uint32_t combine_groups; /* that many groups become one, with zeros between them; 1: none */
} trm_plan_transform;

/* Steps of a plan, in the order of execution. */
typedef enum trm_plan_step {
  TRM_STEP_BROADCAST_INPUT,  /* once, before a loop over output channels: an exchange */
  TRM_STEP_REARRANGE,        /* operands get the vertices' order: an exchange and copies */
  TRM_STEP_DYNAMIC_SLICE,    /* takes a slice of the weights, in each iteration of the loop */
  TRM_STEP_PARTIALS,         /* brings the operands and runs the vertices */
  TRM_STEP_NARROW,           /* casts partial sums to the type in which they are exchanged */
  TRM_STEP_REDUCE,           /* one stage: exchanges partial sums and adds them */
  TRM_STEP_ADD_IN_PLACE,     /* adds to the sum, where input channels are cut serially */
  TRM_STEP_DYNAMIC_UPDATE,   /* updates the output, where output channels are cut serially */
  TRM_STEP_CAST,             /* casts partial sums to the output's type */
  TRM_STEP_REARRANGE_OUTPUT, /* gives the result its order */
  TRM_NUM_STEPS
} trm_plan_step;
const char *trm_plan_step_name(trm_plan_step step); /* "Convolve", "Reduce", ... */

/* One step: a sync, an exchange, and a compute set or copies, `times` times. A step that is only an
 * exchange has no vertices. Bytes and cycles are those of the worst tile, for one time. */
typedef struct trm_plan_phase {
  trm_plan_step step;
  const char *vertex; /* the codelet, such as "poplin::ConvPartial1x1Out"; NULL: copies */
  uint64_t times;
  uint64_t sync_cycles, exchange_cycles, compute_cycles;
  uint64_t bytes_in, bytes_out; /* received and sent by the tile that exchanges most */
  uint64_t bytes_exchanged;     /* received by all tiles together */
  uint64_t messages;            /* pieces that the worst tile sends or receives: exchange code */
  uint64_t temp_bytes;          /* live during the step on the worst tile */
  uint64_t temp_bytes_total;    /* the same on all tiles, at most */
  /* Live during the exchange, where it is not only bytes_in: rearranged operands lie beside the
   * vertices' copies, which have a tile's own block too, until all are sent. */
  uint64_t exchange_temp_bytes;
  uint64_t vertices, edges; /* on all tiles */
  uint64_t list_bytes;      /* a vertex's lists of work for its workers */
  uint32_t tiles;           /* the number of tiles that take part */
  double flops;             /* of all tiles, for one time */
} trm_plan_phase;
enum { TRM_PLAN_MAX_PHASES = 20 };

/* How an operand lies on the tiles. Dimension d is cut into serial x parallel blocks of block_size
 * (the last ones smaller or empty). A piece is one block of each dimension. Its first tile is the
 * sum of p x tile_stride over the dimensions, for blocks s x parallel + p. The elements of the
 * piece (row-major) are dealt in `share` equal runs of whole grains: to that tile, and to the tiles
 * share_stride, 2 share_stride, ... after it. */
typedef struct trm_plan_cut {
  int64_t size, block_size;
  uint32_t serial, parallel, tile_stride;
} trm_plan_cut;
enum { TRM_PLAN_MAX_CUTS = 4 + TRM_PLAN_MAX_DIMS };
typedef struct trm_plan_mapping {
  /* Dimensions of `shape` after the transform. Inputs: group, batch, dims..., in channels. Weights:
   * group, kernel dims..., out channels, in channels. Outputs: group, batch, dims..., out
   * channels. */
  uint32_t num_cuts;
  trm_plan_cut cuts[TRM_PLAN_MAX_CUTS];
  int64_t grain; /* elements that stay together */
  uint32_t share, share_stride;
  uint32_t tiles;
} trm_plan_mapping;

typedef struct trm_linear_plan {
  /* The canonical shape. Dimensions without a window are part of the batch. A dimension with a
   * kernel of 1 and an input dilation has only the outputs that meet an input: the others are
   * zeros. */
  trm_conv_params shape;
  trm_plan_transform transform;
  trm_plan_method method;
  trm_plan_partition partition;
  uint32_t conv_groups_per_group, in_channels_per_group, out_channels_per_group, conv_units;
  trm_dtype partials_type;
  bool broadcast_input_before_loop;
  uint32_t tiles_used;

  trm_plan_fit fit;
  uint64_t bytes_allowed;    /* available_memory_proportion x tile */
  uint64_t fit_bound;        /* the bound that the plan met; 0 for TRM_FIT_LEAST */
  uint64_t temp_bytes;       /* of the worst tile, at the worst moment */
  uint64_t temp_bytes_total; /* on all tiles that take part, at most */

  uint64_t cycles; /* of all phases, all times */
  double flops;    /* 2 x the multiply-accumulates that the result needs */
  uint64_t vertices, edges;
  uint32_t num_phases;
  trm_plan_phase phases[TRM_PLAN_MAX_PHASES];
  /* Of operand 0, of operand 1, of the result. Vertices may hold either operand as weights. The
   * mapping of a rearranged operand may have more elements than the operand. */
  trm_plan_mapping inputs, weights, outputs;
  /* The operand may lie anywhere before the step that rearranges it. */
  bool inputs_rearranged, weights_rearranged;
  trm_plan_step inputs_last_read, weights_last_read; /* no later step reads the operand itself */
  /* Bytes of the operand on the worst tile that only this tile reads, so its vertices read them in
   * place, each iteration. Where the operand lies elsewhere, temp_bytes has these too. */
  uint64_t inputs_in_place, weights_in_place;
  uint64_t candidates;  /* the number of plans whose cost the search computed */
  bool exact;           /* no plan of the space is better; false only for extreme shapes */
  uint64_t lower_bound; /* no plan has fewer cycles (bytes for TRM_FIT_LEAST) */
} trm_linear_plan;

/* ---- Planning ------------------------------------------------------------------------------ */

/* Keeps plans by target, shape and options. Any number of threads may use it. */
typedef struct trm_plan_cache trm_plan_cache;
trm_plan_cache *trm_plan_cache_create(void); /* NULL when memory runs out */
trm_plan_cache *trm_plan_cache_retain(trm_plan_cache *cache);
void trm_plan_cache_release(trm_plan_cache *cache); /* NULL is allowed */
void trm_plan_cache_counts(const trm_plan_cache *cache, uint64_t *out_hits, uint64_t *out_misses);
/* Whether a smaller available_memory_proportion would change a plan that is kept: all others are
 * the best ones within it too. */
bool trm_plan_cache_exceeds(trm_plan_cache *cache, const trm_target *target, double proportion);

/* Finds the plan with the fewest cycles among those whose temporary bytes are within
 * options->available_memory_proportion of a tile; among plans of equal cycles, the one with the
 * fewest bytes. docs/planner.md states the space that is searched, trm_plan_fit what happens where
 * no plan fits. `cache` may be NULL. Refuses proportions outside 0 to 1, types other than F32 and
 * F16, sizes that are not positive, and constraints that no plan can keep. */
trm_status trm_linear_plan_make(const trm_target *target, const trm_conv_params *params,
                                const trm_plan_options *options, trm_plan_cache *cache,
                                trm_linear_plan *out_plan, trm_error *error);

#endif /* TREMULA_IPU_PLAN_PLAN_H_ */

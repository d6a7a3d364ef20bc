/* How an IPU computes a convolution or a matmul: the parts that the work is cut into, the vertices,
 * and what that costs. A matmul is a convolution (plan_shape.c says which).
 *
 * One operation runs on one IPU. Sizes are elements, memory is bytes, time is tile clock cycles.
 * A plan is a plain value: it owns nothing and may be copied. The search and the cost:
 * docs/planner.md. How well the cost agrees with measurements: docs/accuracy.md. */
#ifndef TREMULA_OPS_LINEAR_PLAN_H_
#define TREMULA_OPS_LINEAR_PLAN_H_

#include "hlo/hlo.h"
#include "target/target.h"

/* ---- What is computed ---------------------------------------------------------------------- */

/* Spatial dimensions that a plan keeps apart; a convolution of more is refused. */
enum { TRM_PLAN_MAX_DIMS = 3 };

/* One spatial dimension. Output positions: see trm_conv_output_size. */
typedef struct trm_conv_dim {
  int64_t input, kernel, stride, pad_low, pad_high, input_dilation, kernel_dilation;
} trm_conv_dim;

/* Zero-initialise, then fill; trm_linear_plan_make checks it. */
typedef struct trm_conv_params {
  trm_dtype input_type, output_type; /* both operands have input_type */
  int64_t groups, batch;             /* convolution groups; batch */
  int64_t in_channels, out_channels; /* of one group */
  bool first_is_weights;             /* a matmul: see trm_conv_params_matmul */
  uint32_t num_dims;                 /* 0: a matmul */
  trm_conv_dim dims[TRM_PLAN_MAX_DIMS];
} trm_conv_params;

int64_t trm_conv_output_size(const trm_conv_dim *dim);

/* groups x [m,k] x [k,n], as Poplar does it: the first operand is what convolution units hold as
 * weights. So batch is n, in_channels k, out_channels m, and first_is_weights is set. */
trm_conv_params trm_conv_params_matmul(trm_dtype input_type, trm_dtype output_type, int64_t groups,
                                       int64_t m, int64_t k, int64_t n);
/* Of an HLO dot or convolution. */
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
  double available_memory_proportion; /* of a tile, for temporary bytes; 0 to 1; 0.6 */
  trm_dtype partials_type;            /* F32 or F16, of the vertices; F32 */
  trm_dtype inter_tile_partials_type; /* what is reduced between tiles; F32 */
  trm_plan_pass pass;
  bool use_128bit_conv_unit_load; /* false */
  bool enable_multi_stage_reduce; /* true */
  bool enable_fast_reduce;        /* false */
  /* Text of Poplar's planConstraints JSON, or NULL. Not copied: it must outlive the call. */
  const char *constraints;
} trm_plan_options;

trm_plan_options trm_plan_options_default(void);
/* Sets an option by Poplar's name and text ("partialsType", "half"), as in poplar_options. An
 * unknown name is TRM_INTERNAL in Poplar's words (the nearest is named); a value that does not fit
 * or one that plans do not honour is an error too. */
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
  TRM_FIT_RAISED, /* none did: the bound was doubled, up to two tiles (fit_bound) */
  TRM_FIT_LEAST,  /* none did even then: the plan with the least temporary bytes */
} trm_plan_fit;
const char *trm_plan_fit_name(trm_plan_fit fit);

/* The work is cut: first serially (one part after the other, in a loop), then over the tiles. The
 * parts of a dimension of n grains hold ceil(n / parts) grains each, the last one maybe less. */
typedef struct trm_plan_partition {
  uint32_t field[TRM_PLAN_MAX_DIMS], batch, out_channels, out_channels_serial;
  uint32_t kernel[TRM_PLAN_MAX_DIMS], in_channels, in_channels_serial, groups;
} trm_plan_partition;

/* What is done before the cutting. Dimensions are those of the canonical shape (`shape`). */
typedef struct trm_plan_transform {
  bool swap_operands;      /* rows are computed as output channels */
  uint32_t expand_dims;    /* bit d: the kernel of dimension d is laid out as input channels */
  uint32_t combine_groups; /* that many groups become one, with zeros between them; 1: none */
} trm_plan_transform;

/* Steps of a plan, in the order of execution. */
typedef enum trm_plan_step {
  TRM_STEP_BROADCAST_INPUT,  /* once, before a loop over output channels: an exchange */
  TRM_STEP_REARRANGE,        /* of operands that lie otherwise, once: an exchange and copies */
  TRM_STEP_DYNAMIC_SLICE,    /* of the weights, in each turn of the loop */
  TRM_STEP_EXCHANGE,         /* an exchange of its own; part of PARTIALS otherwise */
  TRM_STEP_PARTIALS,         /* operands to the tiles that compute, and the vertices */
  TRM_STEP_NARROW,           /* partial sums to the type in which they are exchanged */
  TRM_STEP_REDUCE,           /* a stage: exchange of partial sums and their addition */
  TRM_STEP_ADD_IN_PLACE,     /* to the sum so far, where input channels are cut serially */
  TRM_STEP_DYNAMIC_UPDATE,   /* of the output, where output channels are cut serially */
  TRM_STEP_CAST,             /* partial sums to the output's type */
  TRM_STEP_REARRANGE_OUTPUT, /* the result into the order that it is wanted in */
  TRM_NUM_STEPS
} trm_plan_step;
const char *trm_plan_step_name(trm_plan_step step); /* "Convolve", "Reduce", ... */

/* One step: a sync, an exchange and a compute set or copy, done `times` times. A step of which only
 * the exchange is there has no vertices. Bytes and cycles are those of the worst tile, once. */
typedef struct trm_plan_phase {
  trm_plan_step step;
  const char *vertex; /* the codelet, such as "poplin::ConvPartial1x1Out"; NULL: copies */
  uint64_t times;
  uint64_t sync_cycles, exchange_cycles, compute_cycles;
  uint64_t bytes_in, bytes_out; /* exchanged, by the tile that exchanges most */
  uint64_t bytes_exchanged;     /* received by all tiles together */
  uint64_t messages;            /* pieces that the worst tile sends or receives: exchange code */
  uint64_t temp_bytes;          /* that live during the step on the worst tile */
  uint64_t temp_bytes_total;    /* on all tiles, at most */
  uint64_t vertices, edges;     /* on all tiles */
  uint64_t list_bytes;          /* of one vertex: what each worker has to do */
  uint32_t tiles;               /* that take part */
  double flops;                 /* of all tiles, once */
} trm_plan_phase;
enum { TRM_PLAN_MAX_PHASES = 20 };

/* How an operand lies on the tiles. Dimension d is cut into serial x parallel parts of part_size
 * (the last ones smaller or empty); part s x parallel + p lies on tile p x tile_stride plus those
 * of the other dimensions. The elements of such a piece (row-major) are dealt in `share` equal runs
 * of whole grains to the tiles at 0, share_stride, 2 share_stride, ... from there. */
typedef struct trm_plan_cut {
  int64_t size, part_size;
  uint32_t serial, parallel, tile_stride;
} trm_plan_cut;
enum { TRM_PLAN_MAX_CUTS = 4 + TRM_PLAN_MAX_DIMS };
typedef struct trm_plan_mapping {
  /* What vertices read: group, batch, dims..., in channels; what they hold as weights: group,
   * kernel dims..., out channels, in channels; outputs: group, batch, dims..., out channels. Of
   * `shape`, after the transform. */
  uint32_t num_cuts;
  trm_plan_cut cuts[TRM_PLAN_MAX_CUTS];
  int64_t grain; /* elements that stay together */
  uint32_t share, share_stride;
  uint32_t tiles;
} trm_plan_mapping;

typedef struct trm_linear_plan {
  /* Canonical: dimensions that need no window are part of the batch; of those with a kernel of 1
   * and an input dilation only the outputs that meet an input: the others are zeros. */
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
  uint64_t temp_bytes_total; /* of all tiles that take part, at most */

  uint64_t cycles; /* all phases, all times */
  double flops;    /* 2 x multiply-accumulates that the result needs */
  uint64_t vertices, edges;
  uint32_t num_phases;
  trm_plan_phase phases[TRM_PLAN_MAX_PHASES];
  trm_plan_mapping inputs, weights, outputs;  /* of operand 0, of operand 1 (whichever of them the
                                                 vertices hold as weights), of the result. Of what
                                                 is laid out anew, more than the operand has */
  bool inputs_rearranged, weights_rearranged; /* they are brought from wherever they are when they
                                                 are rearranged, which a phase counts */
  /* Bytes of them that the vertices of the worst tile read where they lie, each turn, as no other
   * tile has any of them: of an operand that lies elsewhere, these are among the temporary ones. */
  uint64_t inputs_in_place, weights_in_place;
  uint64_t candidates;  /* plans that the search costed */
  bool exact;           /* no plan of the space is better; false only of extreme shapes */
  uint64_t lower_bound; /* no plan has fewer cycles (bytes for TRM_FIT_LEAST) than this */
} trm_linear_plan;

/* ---- Planning ------------------------------------------------------------------------------ */

/* Plans that were made, found again by target, shape and options. Used by one thread at a time. */
typedef struct trm_plan_cache trm_plan_cache;
trm_plan_cache *trm_plan_cache_create(void); /* NULL when memory runs out */
void trm_plan_cache_free(trm_plan_cache *cache);
void trm_plan_cache_counts(const trm_plan_cache *cache, uint64_t *out_hits, uint64_t *out_misses);

/* Finds the plan with the fewest cycles among those whose temporary bytes are within
 * options->available_memory_proportion of a tile (and the fewest bytes among equals). The space
 * that is searched completely is stated in docs/planner.md; where none fits, see trm_plan_fit.
 * `cache` may be NULL. Refuses proportions outside 0 to 1, types other than F32 and F16, shapes
 * that are not positive, and constraints that no plan can keep. */
trm_status trm_linear_plan_make(const trm_target *target, const trm_conv_params *params,
                                const trm_plan_options *options, trm_plan_cache *cache,
                                trm_linear_plan *out_plan, trm_error *error);

/* The plan as text, a line a phase, the same each time. */
void trm_linear_plan_print(const trm_linear_plan *plan, trm_text *text);

#endif /* TREMULA_OPS_LINEAR_PLAN_H_ */

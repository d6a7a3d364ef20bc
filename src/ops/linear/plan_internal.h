/* What the files of the planner share.
 *
 *   plan_shape.c        shapes: of an instruction, canonical, transformed
 *   plan_options.c      options by name
 *   plan_constraints.c  planConstraints
 *   plan_problem.c      a shape, a method, grains: what can be done, what is rearranged
 *   plan_cycles.c       cycles of vertices
 *   plan_cost.c         what a partition costs: cycles and temporary bytes
 *   plan_search.c       the space of plans and the way through it
 *   plan_describe.c     the phases and the mapping of the plan that was chosen
 *   plan_cache.c        plans found again; trm_linear_plan_make
 */
#ifndef TREMULA_OPS_LINEAR_PLAN_INTERNAL_H_
#define TREMULA_OPS_LINEAR_PLAN_INTERNAL_H_

#include "ops/linear/plan.h"

static inline int64_t plan_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t plan_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t plan_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- Constraints ---------------------------------------------------------------------------- */

/* What planConstraints fixes; -1 and 0: free. */
typedef struct plan_constraints {
  int swap_operands;
  bool has_expand_dims;
  uint32_t expand_dims;
  uint32_t combine_groups;
  trm_plan_partition partition;
  int method;
  uint32_t conv_units, conv_groups_per_group, in_channels_per_group, out_channels_per_group;
} plan_constraints;

trm_status plan_constraints_parse(const char *text, plan_constraints *out, trm_error *error);

/* ---- The problem: a transformed shape, a method and its grains ------------------------------ */

typedef struct plan_problem {
  const trm_target *target;
  trm_plan_transform transform;
  trm_plan_method method;
  trm_conv_params shape; /* transformed */
  int64_t output[TRM_PLAN_MAX_DIMS];
  /* Of so many output positions in a row, one meets an input at a given kernel position: the others
   * meet the zeros that input dilation puts in. */
  int64_t every[TRM_PLAN_MAX_DIMS];
  double busy[TRM_PLAN_MAX_DIMS]; /* plan_busy_share */
  uint32_t group_grain, in_grain, out_grain, units;
  int64_t group_grains, in_grains, out_grains;
  uint32_t filter_height; /* kernel rows in a convolution unit: AMP with few channels */
  bool pointwise;         /* the kernel is 1, the stride 1 */
  uint32_t in_bytes, partial_bytes, exchanged_bytes, out_bytes;
  bool wide_load, multi_stage, fast_reduce;
  /* Bytes in all tiles that are rearranged before and after; 0: none. */
  int64_t rearranged_operands, rearranged_output;
  bool inputs_rearranged, weights_rearranged; /* by the roles in `shape` */
  bool operand_vectors, output_vectors;       /* channels are whole vectors */
} plan_problem;

/* How the positions (batch and field) are cut, and what one kernel position costs then. */
typedef struct plan_positions {
  uint32_t batch, field[TRM_PLAN_MAX_DIMS];
  uint32_t parts; /* their product */
  int64_t tile_batch, tile_field[TRM_PLAN_MAX_DIMS];
  int64_t count; /* positions of the worst tile */
  /* Cycles of all workers, the mean over the kernel's positions; zero: the sums begin at zero. A
   * part of a split kernel may have no position that meets padding: inner_dense is without those.
   */
  uint64_t inner, inner_zero, inner_dense;
} plan_positions;

/* How all else is cut. */
typedef struct plan_channels {
  uint32_t groups, in_parallel, in_serial, out_parallel, out_serial, kernel[TRM_PLAN_MAX_DIMS];
  int64_t tile_groups, tile_in, tile_out, tile_kernel[TRM_PLAN_MAX_DIMS]; /* elements, padded */
} plan_channels;

/* ---- Cycles of vertices: the whole tile, all workers (docs/machine.md, "Cycles of vertices") - */

/* How many positions of a tile's part of a dimension meet an input at a kernel position, and at how
 * many of (a sample of) the kernel's positions. */
enum { PLAN_MAX_LENGTHS = 16 };

typedef struct plan_busy {
  uint32_t count;
  int64_t lengths[PLAN_MAX_LENGTHS], times[PLAN_MAX_LENGTHS];
} plan_busy;

/* Of dimension d cut in so many parts of `field` outputs. */
plan_busy plan_count_busy(const plan_problem *problem, uint32_t d, uint32_t parts, int64_t field);
/* Sets inner, inner_zero and inner_dense: one kernel position and one block of channels over the
 * positions of a tile; `busy` of each dimension, or NULL: it is counted. */
void plan_inner_cycles(const plan_problem *problem, const plan_busy *const *busy,
                       plan_positions *positions);
/* The convolution's vertices of a tile, from inner cycles. */
uint64_t plan_partial_cycles(const plan_problem *problem, const plan_channels *channels,
                             int64_t positions, uint64_t inner, uint64_t inner_zero);
uint64_t plan_zero_cycles(const plan_problem *problem, int64_t elements);
uint64_t plan_reduce_cycles(const plan_problem *problem, int64_t outputs, int64_t depth,
                            bool to_output);
uint64_t plan_cast_cycles(const trm_target *target, int64_t elements, uint32_t from_bytes,
                          uint32_t to_bytes);
uint64_t plan_add_cycles(const trm_target *target, int64_t elements, uint32_t bytes);
uint64_t plan_slice_cycles(const trm_target *target, int64_t bytes);
/* Rearranging `bytes` of a tile, of elements of so many bytes, by copies. */
uint64_t plan_rearrange_cycles(const trm_target *target, int64_t bytes, uint32_t element_bytes,
                               bool vectors);
/* An exchange that brings bytes + shared to the worst tile, `shared` over two tiles' buses, in so
 * many messages (one from each tile that sends). */
uint64_t plan_exchange_cycles(const trm_target *target, int64_t bytes, int64_t shared,
                              int64_t messages);

/* The stages in which `depth` partial sums become one: what is left after each. */
uint32_t plan_reduce_stages(int64_t depth, bool multi_stage, int64_t left[3]);

/* ---- Cost of a partition -------------------------------------------------------------------- */

typedef struct plan_stage {
  int64_t depth, outputs; /* of a tile */
  int64_t bytes;          /* received */
  uint64_t exchange, compute;
} plan_stage;

/* Once or in each turn of the loop; operands are rearranged `rearranges` times; cycles of compute
 * and exchange without sync. Bytes and elements are those of the worst tile. */
typedef struct plan_cost {
  int64_t turns;
  bool broadcast;
  int64_t input_bytes, weight_bytes, partial_elements; /* that the vertices read and write */
  int64_t worker_bytes;                                /* of the workers' own sums */
  int64_t received_inputs, received_weights;
  int64_t rearranges, rearranged_bytes, output_rearranged_bytes;
  uint64_t rearrange_exchange, rearrange_copy; /* each time */
  uint64_t output_exchange, output_copy;       /* once */
  uint64_t slice;
  uint64_t exchange, broadcast_exchange;
  uint64_t partials;
  uint32_t num_stages;
  plan_stage stages[3];
  int64_t outputs; /* elements of a tile after the reduction */
  uint64_t narrow, add, cast, update;
  uint64_t cycles;
  int64_t temp;
} plan_cost;

void plan_cost_evaluate(const plan_problem *problem, const plan_channels *channels,
                        const plan_positions *positions, bool broadcast, plan_cost *out);

/* ---- Shapes, search, description ------------------------------------------------------------ */

trm_status plan_check_params(const trm_conv_params *params, trm_error *error);
/* Dimensions without a window become batch; what is left is apart. */
trm_conv_params plan_canonical(const trm_conv_params *params);
/* The shape after a transform of a canonical shape. */
trm_conv_params plan_transformed(const trm_conv_params *canonical,
                                 const trm_plan_transform *transform);
int64_t plan_greatest_common_divisor(int64_t a, int64_t b);
/* See plan_problem.every. */
int64_t plan_every(const trm_conv_dim *dim);
/* Of `field` outputs from `begin` on, those that meet an input at kernel position k: not padding,
 * not the zeros of an input dilation. */
int64_t plan_busy_outputs(const trm_conv_dim *dim, int64_t begin, int64_t field, int64_t k);
/* The part of all outputs times kernel positions that meets an input; sampled for large kernels. */
double plan_busy_share(const trm_conv_dim *dim);
/* Input elements that `field` outputs and `kernel` positions of a dimension read. */
int64_t plan_input_extent(const trm_conv_dim *dim, int64_t field, int64_t kernel);

typedef struct plan_choice {
  plan_problem problem;
  plan_channels channels;
  plan_positions positions;
  bool broadcast;
  uint64_t cycles;
  int64_t temp;
} plan_choice;

typedef struct plan_result {
  bool found;
  plan_choice choice;
  uint64_t candidates;
  uint64_t open_bound; /* see trm_linear_plan.lower_bound; UINT64_MAX: the search was complete */
} plan_result;

/* The best choice within `bound` temporary bytes; bound < 0: the least temporary bytes. `known` is
 * one within the bound, or NULL. */
trm_status plan_search(const trm_target *target, const trm_conv_params *canonical,
                       const trm_plan_options *options, const plan_constraints *constraints,
                       int64_t bound, const plan_choice *known, plan_result *out_result,
                       trm_error *error);
/* Sets up a problem; false when the method cannot do it. */
bool plan_problem_init(const trm_target *target, const trm_conv_params *canonical,
                       const trm_plan_options *options, const trm_plan_transform *transform,
                       trm_plan_method method, uint32_t units, uint32_t group_grain,
                       uint32_t in_grain, uint32_t out_grain, plan_problem *out);

void plan_describe(const plan_choice *choice, const trm_conv_params *canonical,
                   trm_linear_plan *plan);

#endif /* TREMULA_OPS_LINEAR_PLAN_INTERNAL_H_ */

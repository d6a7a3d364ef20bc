/* Shared by the files of the planner.
 *
 *   plan_shape.c        shapes: of an instruction, canonical, transformed
 *   plan_options.c      options by name
 *   plan_constraints.c  planConstraints
 *   plan_problem.c      a shape, a method, its grains: whether they fit, what is rearranged
 *   plan_cycles.c       cycles of vertices
 *   plan_cost.c         the cost of a partition: cycles and temporary bytes
 *   plan_search.c       the space of plans, and the search through it
 *   plan_describe.c     the phases and mappings of the chosen plan
 *   plan_cache.c        kept plans; trm_linear_plan_make
 */
#ifndef TREMULA_IPU_PLAN_INTERNAL_H_
#define TREMULA_IPU_PLAN_INTERNAL_H_

#include "ipu/plan/plan.h"

static inline int64_t plan_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t plan_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t plan_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- Constraints ---------------------------------------------------------------------------- */

/* What planConstraints fixes of a plan; -1 and 0: free. */
typedef struct plan_constraints {
  int swap_operands;
  bool has_expand_dims, has_flatten_dims;
  uint32_t expand_dims, flatten_dims;
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
  /* At a given kernel position, one of `every` output positions in a row meets an input; the others
   * meet the zeros of the input dilation. */
  int64_t every[TRM_PLAN_MAX_DIMS];
  double busy[TRM_PLAN_MAX_DIMS]; /* plan_busy_share */
  uint32_t group_grain, in_grain, out_grain, units;
  int64_t group_grains, in_grains, out_grains;
  uint32_t filter_height; /* kernel rows in a convolution unit: AMP with few channels */
  bool pointwise;         /* the kernel is 1, the stride 1 */
  uint32_t in_bytes, partial_bytes, exchanged_bytes, out_bytes;
  bool wide_load, multi_stage, fast_reduce;
  /* Bytes on all tiles that are rearranged before and after; 0: none. */
  int64_t rearranged_operands, rearranged_output;
  bool inputs_rearranged, weights_rearranged; /* operands by their roles in `shape` */
  bool operand_vectors, output_vectors;       /* channels are whole vectors */
} plan_problem;

/* A cut of the positions (batch and field), and the cost of one kernel position with it. */
typedef struct plan_positions {
  uint32_t batch, field[TRM_PLAN_MAX_DIMS];
  uint32_t split; /* their product */
  int64_t tile_batch, tile_field[TRM_PLAN_MAX_DIMS];
  int64_t count; /* positions of the worst tile */
  /* Cycles of all workers, the mean over the kernel's positions. inner_zero: the sums begin at
   * zero. inner_dense: no position meets padding, as in a block of a split kernel. */
  uint64_t inner, inner_zero, inner_dense;
} plan_positions;

/* A cut of groups, channels and kernel. */
typedef struct plan_channels {
  uint32_t groups, in_parallel, in_serial, out_parallel, out_serial, kernel[TRM_PLAN_MAX_DIMS];
  int64_t tile_groups, tile_in, tile_out, tile_kernel[TRM_PLAN_MAX_DIMS]; /* elements, padded */
} plan_channels;

/* ---- Cycles of vertices: the whole tile, all workers (docs/machine.md, "Cycles of vertices") - */

/* For a tile's block of a dimension: the numbers of output positions that meet an input, each with
 * the number of kernel positions (of all or of a sample) where that many do. */
enum { PLAN_MAX_LENGTHS = 16 };

typedef struct plan_busy {
  uint32_t count;
  int64_t lengths[PLAN_MAX_LENGTHS], times[PLAN_MAX_LENGTHS];
} plan_busy;

/* Where the innermost dimension has no window, it is a part of the batch: rows are the batch. */
bool plan_batch_is_row(const plan_problem *problem);
/* Counts them for dimension d, in `split` blocks of `field` outputs. */
plan_busy plan_count_busy(const plan_problem *problem, uint32_t d, uint32_t split, int64_t field);
/* Sets inner, inner_zero and inner_dense: cycles of one kernel position and one block of channels
 * over the positions of a tile. `busy`: of each dimension; NULL: it is counted here. */
void plan_inner_cycles(const plan_problem *problem, const plan_busy *const *busy,
                       plan_positions *positions);
/* Cycles of the convolution's vertices on a tile, from inner cycles. */
uint64_t plan_partial_cycles(const plan_problem *problem, const plan_channels *channels,
                             int64_t positions, uint64_t inner, uint64_t inner_zero);
/* Whether a vertex that reduces reads all partial sums but its own from one block. Such a block is
 * read by a shorter loop; it is made when it is not large. */
bool plan_reduces_one_block(const plan_problem *problem, int64_t outputs, int64_t depth);
uint64_t plan_reduce_cycles(const plan_problem *problem, int64_t outputs, int64_t depth,
                            bool to_output);
uint64_t plan_cast_cycles(const trm_target *target, int64_t elements, uint32_t from_bytes,
                          uint32_t to_bytes);
uint64_t plan_add_cycles(const trm_target *target, int64_t elements, uint32_t bytes);
uint64_t plan_slice_cycles(const trm_target *target, int64_t bytes);
/* Cycles of copies that rearrange `bytes` on a tile. */
uint64_t plan_rearrange_cycles(const trm_target *target, int64_t bytes, uint32_t element_bytes,
                               bool vectors);
/* Cycles of an exchange that brings bytes + shared to the worst tile, `shared` over the buses of
 * two tiles, in `messages` messages (one from each tile that sends). */
uint64_t plan_exchange_cycles(const trm_target *target, int64_t bytes, int64_t shared,
                              int64_t messages);

/* The number of stages in which `depth` partial sums become one; remaining[s] of them remain after
 * stage s. */
uint32_t plan_reduce_stages(int64_t depth, bool multi_stage, int64_t remaining[3]);

/* ---- Cost of a partition -------------------------------------------------------------------- */

typedef struct plan_stage {
  int64_t depth, outputs; /* of a tile */
  int64_t bytes;          /* received by it */
  uint64_t exchange, compute;
} plan_stage;

/* Bytes and elements are those of the worst tile. Cycles are those of one time, without syncs: most
 * steps are in each iteration of the loop, and operands are rearranged `rearranges` times. */
typedef struct plan_cost {
  int64_t iterations;
  bool broadcast;
  int64_t input_bytes, weight_bytes, partial_elements; /* read and written by the vertices */
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
  int64_t outputs; /* elements on a tile after the reduction */
  uint64_t narrow, add, cast, update;
  uint64_t cycles;
  int64_t convolve_bytes; /* what the vertices of partial sums and their exchange need */
  int64_t live_bytes;     /* live over all iterations, beside any step of them */
  int64_t temp;
} plan_cost;

/* The tiles that send a tile its weights, `bytes`. The tiles that need them hold them together, in
 * grains of a block of channels in and out; of few grains most of these tiles have none. Kernels of
 * convolutions without AMP come from all: with fewer senders, small convolutions are cut over more
 * tiles than the original's (report/test_compute_set_names.py). */
uint32_t plan_weight_senders(const plan_problem *problem, int64_t bytes,
                             const plan_positions *positions);

void plan_cost_evaluate(const plan_problem *problem, const plan_channels *channels,
                        const plan_positions *positions, bool broadcast, plan_cost *out);

/* ---- Shapes, search, description ------------------------------------------------------------ */

trm_status plan_check_params(const trm_conv_params *params, trm_error *error);
/* Makes dimensions without a window a part of the batch. */
trm_conv_params plan_canonical(const trm_conv_params *params);
/* The shape after a transform of a canonical shape. */
trm_conv_params plan_transformed(const trm_conv_params *canonical,
                                 const trm_plan_transform *transform);
/* The dimensions that a transform lays out as channels. */
static inline uint32_t plan_laid_out(const trm_plan_transform *transform) {
  return transform->expand_dims | transform->flatten_dims;
}
int64_t plan_greatest_common_divisor(int64_t a, int64_t b);
/* See plan_problem.every. */
int64_t plan_every(const trm_conv_dim *dim);
/* How many of `field` outputs from `begin` on meet an input at kernel position k, and not padding
 * or the zeros of an input dilation. */
int64_t plan_busy_outputs(const trm_conv_dim *dim, int64_t begin, int64_t field, int64_t k);
/* The share of all pairs of an output and a kernel position that meet an input; for large kernels
 * from a sample. */
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

/* Finds the best choice within `bound` temporary bytes; bound < 0: the one with the least temporary
 * bytes. `known`: a choice within the bound, or NULL. */
trm_status plan_search(const trm_target *target, const trm_conv_params *canonical,
                       const trm_plan_options *options, const plan_constraints *constraints,
                       int64_t bound, const plan_choice *known, plan_result *out_result,
                       trm_error *error);
/* Sets up a problem; false if the method cannot compute the shape. */
bool plan_problem_init(const trm_target *target, const trm_conv_params *canonical,
                       const trm_plan_options *options, const trm_plan_transform *transform,
                       trm_plan_method method, uint32_t units, uint32_t group_grain,
                       uint32_t in_grain, uint32_t out_grain, plan_problem *out);

void plan_describe(const plan_choice *choice, const trm_conv_params *canonical,
                   trm_linear_plan *plan);

#endif /* TREMULA_IPU_PLAN_INTERNAL_H_ */

/* Owns: the cost of a partition. The terms are those of the original's planner (docs/planner.md,
 * "The cost"), with sync, exchange set-up and launches of the target added to each step. */
#include <string.h>

#include "ipu/plan/internal.h"

/* Bytes of partial sums beside the convolution's own that SLIC's vertices need. */
enum { SLIC_SPARE_BYTES = 200 };

static void evaluate_stages(const plan_problem *p, int64_t partials, int64_t depth,
                            bool last_iteration, plan_cost *out) {
  int64_t remaining[3];
  out->num_stages = plan_reduce_stages(depth, p->multi_stage, remaining);
  int64_t before = depth, elements = partials;
  for (uint32_t s = 0; s < out->num_stages; ++s) {
    plan_stage *stage = &out->stages[s];
    stage->depth = plan_ceil_div(before, remaining[s]);
    stage->outputs = plan_ceil_div(elements, stage->depth);
    stage->bytes = (stage->depth - 1) * stage->outputs * p->exchanged_bytes;
    stage->exchange = plan_exchange_cycles(p->target, stage->bytes, 0, stage->depth - 1);
    stage->compute = plan_reduce_cycles(p, stage->outputs, stage->depth,
                                        last_iteration && s + 1 == out->num_stages);
    before = remaining[s];
    elements = stage->outputs;
  }
  out->outputs = elements;
}

uint32_t plan_weight_senders(const plan_problem *p, int64_t bytes, const plan_positions *at) {
  if (p->method != TRM_METHOD_AMP && !p->shape.first_is_weights) return at->split;
  const int64_t grain = (int64_t)p->in_grain * p->out_grain * p->in_bytes;
  return (uint32_t)plan_max(1, plan_min(at->split, plan_ceil_div(bytes, grain)));
}

/* Operands: their bytes on a tile, and the exchange that brings them. Each tile has an equal
 * share of the data that it shares with others. Of inputs it lacks the overlap with the next block
 * of the field or kernel. */
static void evaluate_operands(const plan_problem *p, const plan_channels *c,
                              const plan_positions *at, plan_cost *out) {
  const trm_target *target = p->target;
  int64_t inputs = c->tile_groups * at->tile_batch * c->tile_in;
  int64_t own = inputs; /* of the inputs, before tiles that share them divide them */
  int64_t weights = c->tile_groups * c->tile_in * c->tile_out;
  for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
    const trm_conv_dim *dim = &p->shape.dims[d];
    const int64_t extent = plan_input_extent(dim, at->tile_field[d], c->tile_kernel[d]);
    inputs *= extent;
    own *= plan_min(extent, plan_ceil_div(dim->input, (int64_t)at->field[d] * c->kernel[d]));
    weights *= c->tile_kernel[d];
  }
  out->input_bytes = inputs * p->in_bytes;
  out->weight_bytes = weights * p->in_bytes;
  out->received_inputs = out->input_bytes - own * p->in_bytes / c->out_parallel;
  out->received_weights = out->weight_bytes - out->weight_bytes / at->split;
  const bool shared_bus =
      target->supports_bus_sharing && c->out_parallel % target->tiles_per_super_tile == 0;
  const int64_t plain_inputs = shared_bus ? 0 : out->received_inputs;
  const int64_t bus_inputs = shared_bus ? out->received_inputs : 0;
  int64_t input_messages = c->out_parallel - (own == inputs ? 1 : 0);
  /* A tile has its own block; of fewer blocks than tiles, some tile has none. */
  int64_t weight_messages = plan_min(at->split - 1, plan_weight_senders(p, out->weight_bytes, at));
  if (p->shape.num_dims > 0) {
    /* A message brings a word at least: few tiles send a small kernel. Dense layers of one row get
     * worse with this bound; what they lack is not known (docs/fidelity.md). */
    const int64_t word = target->exchange_bytes_per_cycle;
    input_messages = plan_min(input_messages, plan_ceil_div(out->input_bytes, word));
    weight_messages = plan_min(weight_messages, plan_ceil_div(out->weight_bytes, word));
  }
  if (out->broadcast) {
    out->broadcast_exchange =
        plan_exchange_cycles(target, plain_inputs, bus_inputs, input_messages);
    out->exchange = plan_exchange_cycles(target, out->received_weights, 0, weight_messages);
  } else {
    out->exchange = plan_exchange_cycles(target, plain_inputs + out->received_weights, bus_inputs,
                                         input_messages + weight_messages);
  }
}

/* Rearranging operands and output, on `used` tiles: once, or, if the iterations cut both operands,
 * in each iteration the slice that it reads. */
static void evaluate_rearranging(const plan_problem *p, int64_t used, bool sums_iterations,
                                 plan_cost *out) {
  const trm_target *target = p->target;
  out->rearranges = sums_iterations ? out->iterations : 1;
  if (p->rearranged_operands + p->rearranged_output == 0) return;
  out->rearranged_bytes = plan_ceil_div(p->rearranged_operands, used * out->rearranges);
  out->output_rearranged_bytes = plan_ceil_div(p->rearranged_output, used);
  if (out->rearranged_bytes > 0) {
    out->rearrange_exchange = plan_exchange_cycles(target, out->rearranged_bytes, 0, 0);
    out->rearrange_copy =
        plan_rearrange_cycles(target, out->rearranged_bytes, p->in_bytes, p->operand_vectors);
  }
  if (out->output_rearranged_bytes > 0) {
    out->output_exchange = plan_exchange_cycles(target, out->output_rearranged_bytes, 0, 0);
    out->output_copy = plan_rearrange_cycles(target, out->output_rearranged_bytes, p->out_bytes,
                                             p->output_vectors);
  }
}

/* The cycles of all iterations and of what comes before and after them. Each exchange and each
 * compute set begins with cycles of its own: `step` and `launch`. */
static uint64_t total_cycles(const trm_target *target, bool sums_iterations,
                             const plan_cost *cost) {
  const uint64_t launch = target->compute_set_cycles;
  const uint64_t step = trm_target_step_cycles(target);
  uint64_t iteration = cost->partials + launch;
  if (cost->exchange > 0) iteration += cost->exchange + step;
  if (cost->slice > 0) iteration += cost->slice + launch;
  if (cost->narrow > 0) iteration += cost->narrow + launch;
  for (uint32_t s = 0; s < cost->num_stages; ++s) {
    iteration += cost->stages[s].exchange + cost->stages[s].compute + step + launch;
  }
  if (cost->add > 0) iteration += cost->add + launch;
  if (cost->update > 0) iteration += cost->update + launch;
  if (cost->iterations > 1) iteration += target->loop_iteration_cycles;
  if (cost->cast > 0 && !sums_iterations) iteration += cost->cast + launch;

  uint64_t cycles = iteration * (uint64_t)cost->iterations;
  if (cost->cast > 0 && sums_iterations) cycles += cost->cast + launch;
  if (cost->broadcast_exchange > 0) cycles += cost->broadcast_exchange + step;
  if (cost->rearranged_bytes > 0) {
    cycles += (uint64_t)cost->rearranges *
              (cost->rearrange_exchange + cost->rearrange_copy + step + launch);
  }
  if (cost->output_rearranged_bytes > 0) {
    cycles += cost->output_exchange + cost->output_copy + step + launch;
  }
  return cycles;
}

static int64_t convolve_bytes(const plan_problem *p, const plan_channels *c, int64_t slice_bytes,
                              const plan_cost *cost) {
  const int64_t partials = cost->partial_elements * p->partial_bytes;
  const int64_t spare =
      p->method == TRM_METHOD_SLIC ? partials / c->tile_groups + SLIC_SPARE_BYTES : 0;
  return (cost->broadcast ? 0 : cost->input_bytes) + cost->weight_bytes + slice_bytes + partials +
         cost->worker_bytes + spare;
}

/* The broadcast input, operands that were rearranged before the loop, and the sum of the
 * iterations. */
static int64_t live_bytes(const plan_problem *p, bool sums_iterations, const plan_cost *cost) {
  int64_t live = cost->broadcast ? cost->input_bytes : 0;
  if (cost->iterations > 1 && !sums_iterations) live += cost->rearranged_bytes;
  if (sums_iterations) live += cost->outputs * p->exchanged_bytes;
  return live;
}

/* Temporary memory of a tile: the largest of the moments, and the data that lives over all
 * iterations. `cast_from`: bytes of an element that the cast reads. */
static int64_t temporary_bytes(const plan_problem *p, uint32_t cast_from, bool sums_iterations,
                               const plan_cost *cost) {
  const int64_t partials = cost->partial_elements;
  int64_t moment = plan_max(cost->convolve_bytes,
                            2 * plan_max(cost->rearranged_bytes, cost->output_rearranged_bytes));
  if (cost->narrow > 0) {
    moment = plan_max(moment, partials * (int64_t)(p->partial_bytes + p->exchanged_bytes));
  }
  if (cost->cast > 0 && !sums_iterations) {
    moment = plan_max(moment, cost->outputs * (int64_t)(cast_from + p->out_bytes));
  }
  int64_t elements = partials;
  for (uint32_t s = 0; s < cost->num_stages; ++s) {
    const plan_stage *stage = &cost->stages[s];
    moment = plan_max(
        moment, elements * p->exchanged_bytes + stage->bytes + stage->outputs * p->exchanged_bytes);
    elements = stage->outputs;
  }
  return moment + cost->live_bytes;
}

void plan_cost_evaluate(const plan_problem *p, const plan_channels *c, const plan_positions *at,
                        bool broadcast, plan_cost *out) {
  memset(out, 0, sizeof *out);
  const trm_target *target = p->target;
  const bool sums_iterations = c->in_serial > 1;
  out->iterations = (int64_t)c->in_serial * c->out_serial;
  out->broadcast = broadcast;
  int64_t kernel_split = 1;
  for (uint32_t d = 0; d < p->shape.num_dims; ++d) kernel_split *= c->kernel[d];
  const int64_t depth = c->in_parallel * kernel_split;
  const int64_t partials = c->tile_groups * at->count * c->tile_out;
  const uint32_t cast_from = depth == 1 ? p->partial_bytes : p->exchanged_bytes;
  out->partial_elements = partials;

  evaluate_operands(p, c, at, out);
  evaluate_rearranging(p, depth * c->groups * c->out_parallel * at->split, sums_iterations, out);
  const int64_t slice_bytes = out->iterations > 1 ? plan_ceil_div(out->weight_bytes, at->split) : 0;
  if (out->iterations > 1) out->slice = plan_slice_cycles(target, slice_bytes);
  out->partials =
      plan_partial_cycles(p, c, at->count, kernel_split > 1 ? at->inner_dense : at->inner,
                          kernel_split > 1 && !p->pointwise ? at->inner_dense : at->inner_zero);
  if (depth > 1 && p->exchanged_bytes != p->partial_bytes) {
    out->narrow = plan_cast_cycles(target, partials, p->partial_bytes, p->exchanged_bytes);
  }
  out->outputs = partials;
  if (depth > 1) evaluate_stages(p, partials, depth, !sums_iterations, out);
  if (sums_iterations) out->add = plan_add_cycles(target, out->outputs, p->exchanged_bytes);
  if (sums_iterations || depth == 1) {
    out->cast = plan_cast_cycles(target, out->outputs, cast_from, p->out_bytes);
  }
  if (c->out_serial > 1) out->update = plan_slice_cycles(target, out->outputs * p->out_bytes);
  if (p->method == TRM_METHOD_VMAC) {
    /* Each worker has its own sums, of one block of groups and one channel. */
    out->worker_bytes =
        at->count * p->group_grain * p->partial_bytes * (int64_t)target->num_worker_contexts;
  }
  out->cycles = total_cycles(target, sums_iterations, out);
  out->convolve_bytes = convolve_bytes(p, c, slice_bytes, out);
  out->live_bytes = live_bytes(p, sums_iterations, out);
  out->temp = temporary_bytes(p, cast_from, sums_iterations, out);
}

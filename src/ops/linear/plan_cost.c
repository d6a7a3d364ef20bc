/* Owns: the cost of a partition. The terms are those of the original's planner (docs/planner.md,
 * "The cost"), with sync, exchange set-up and launches of the target added to each step. */
#include <string.h>

#include "ops/linear/plan_internal.h"

/* Bytes of partial sums beside the convolution's own that SLIC's vertices need. */
enum { SLIC_SPARE_BYTES = 200 };

static void evaluate_stages(const plan_problem *p, int64_t partials, int64_t depth, bool last_turn,
                            plan_cost *out) {
  int64_t left[3];
  out->num_stages = plan_reduce_stages(depth, p->multi_stage, left);
  int64_t before = depth, elements = partials;
  for (uint32_t s = 0; s < out->num_stages; ++s) {
    plan_stage *stage = &out->stages[s];
    stage->depth = plan_ceil_div(before, left[s]);
    stage->outputs = plan_ceil_div(elements, stage->depth);
    stage->bytes = (stage->depth - 1) * stage->outputs * p->exchanged_bytes;
    stage->exchange = plan_exchange_cycles(p->target, stage->bytes, 0, stage->depth - 1);
    stage->compute =
        plan_reduce_cycles(p, stage->outputs, stage->depth, last_turn && s + 1 == out->num_stages);
    before = left[s];
    elements = stage->outputs;
  }
  out->outputs = elements;
}

void plan_cost_evaluate(const plan_problem *p, const plan_channels *c, const plan_positions *at,
                        bool broadcast, plan_cost *out) {
  memset(out, 0, sizeof *out);
  const trm_target *target = p->target;
  const uint64_t launch = target->compute_set_cycles;
  const uint64_t step = trm_target_step_cycles(target); /* of each exchange */
  const int64_t turns = (int64_t)c->in_serial * c->out_serial;
  const bool sums_turns = c->in_serial > 1;
  out->turns = turns;
  out->broadcast = broadcast;

  int64_t inputs = c->tile_groups * at->tile_batch * c->tile_in;
  int64_t own = inputs; /* of the inputs, before tiles that share them divide them */
  int64_t weights = c->tile_groups * c->tile_in * c->tile_out;
  int64_t kernel_parts = 1;
  for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
    const trm_conv_dim *dim = &p->shape.dims[d];
    const int64_t extent = plan_input_extent(dim, at->tile_field[d], c->tile_kernel[d]);
    inputs *= extent;
    own *= plan_min(extent, plan_ceil_div(dim->input, (int64_t)at->field[d] * c->kernel[d]));
    weights *= c->tile_kernel[d];
    kernel_parts *= c->kernel[d];
  }
  const int64_t depth = c->in_parallel * kernel_parts;
  const int64_t partials = c->tile_groups * at->count * c->tile_out;
  out->input_bytes = inputs * p->in_bytes;
  out->weight_bytes = weights * p->in_bytes;
  out->partial_elements = partials;

  /* Operands: each tile holds an equal part of the data that it shares with others. Of inputs it
   * lacks the overlap with the next part of the field or kernel. */
  out->received_inputs = out->input_bytes - own * p->in_bytes / c->out_parallel;
  out->received_weights = out->weight_bytes - out->weight_bytes / at->parts;
  const bool shared_bus =
      target->supports_bus_sharing && c->out_parallel % target->tiles_per_super_tile == 0;
  const int64_t plain_inputs = shared_bus ? 0 : out->received_inputs;
  const int64_t bus_inputs = shared_bus ? out->received_inputs : 0;
  const int64_t input_messages = c->out_parallel - (own == inputs ? 1 : 0);
  const int64_t weight_messages = at->parts - 1;
  if (broadcast) {
    out->broadcast_exchange =
        plan_exchange_cycles(target, plain_inputs, bus_inputs, input_messages);
    out->exchange = plan_exchange_cycles(target, out->received_weights, 0, weight_messages);
  } else {
    out->exchange = plan_exchange_cycles(target, plain_inputs + out->received_weights, bus_inputs,
                                         input_messages + weight_messages);
  }

  /* Operands are rearranged on the tiles that take part: once, or, if the turns cut both operands,
   * in each turn the part that it reads. */
  out->rearranges = sums_turns ? turns : 1;
  if (p->rearranged_operands + p->rearranged_output > 0) {
    const int64_t used = depth * c->groups * c->out_parallel * at->parts;
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
  const int64_t slice_bytes = turns > 1 ? plan_ceil_div(out->weight_bytes, at->parts) : 0;
  if (turns > 1) out->slice = plan_slice_cycles(target, slice_bytes);

  out->partials =
      plan_partial_cycles(p, c, at->count, kernel_parts > 1 ? at->inner_dense : at->inner,
                          kernel_parts > 1 && !p->pointwise ? at->inner_dense : at->inner_zero);
  if (depth > 1 && p->exchanged_bytes != p->partial_bytes) {
    out->narrow = plan_cast_cycles(target, partials, p->partial_bytes, p->exchanged_bytes);
  }
  out->outputs = partials;
  if (depth > 1) evaluate_stages(p, partials, depth, !sums_turns, out);
  if (sums_turns) out->add = plan_add_cycles(target, out->outputs, p->exchanged_bytes);
  if (sums_turns || depth == 1) {
    out->cast = plan_cast_cycles(target, out->outputs,
                                 depth == 1 ? p->partial_bytes : p->exchanged_bytes, p->out_bytes);
  }
  if (c->out_serial > 1) out->update = plan_slice_cycles(target, out->outputs * p->out_bytes);

  /* A turn. */
  uint64_t turn = out->partials + launch;
  if (out->exchange > 0) turn += out->exchange + step;
  if (out->slice > 0) turn += out->slice + launch;
  if (out->narrow > 0) turn += out->narrow + launch;
  for (uint32_t s = 0; s < out->num_stages; ++s) {
    turn += out->stages[s].exchange + out->stages[s].compute + step + launch;
  }
  if (out->add > 0) turn += out->add + launch;
  if (out->update > 0) turn += out->update + launch;
  if (turns > 1) turn += target->loop_iteration_cycles;
  if (out->cast > 0 && !sums_turns) turn += out->cast + launch;

  out->cycles = turn * (uint64_t)turns;
  if (out->cast > 0 && sums_turns) out->cycles += out->cast + launch;
  if (out->broadcast_exchange > 0) out->cycles += out->broadcast_exchange + step;
  if (out->rearranged_bytes > 0) {
    out->cycles +=
        (uint64_t)out->rearranges * (out->rearrange_exchange + out->rearrange_copy + step + launch);
  }
  if (out->output_rearranged_bytes > 0) {
    out->cycles += out->output_exchange + out->output_copy + step + launch;
  }

  /* Memory: the largest of the moments, and the data that lives over all turns. */
  int64_t convolve = (broadcast ? 0 : out->input_bytes) + out->weight_bytes + slice_bytes +
                     partials * p->partial_bytes;
  if (p->method == TRM_METHOD_SLIC) {
    convolve += partials * p->partial_bytes / c->tile_groups + SLIC_SPARE_BYTES;
  }
  if (p->method == TRM_METHOD_VMAC) {
    /* Each worker has its own sums, of one block of groups and one channel. */
    out->worker_bytes =
        at->count * p->group_grain * p->partial_bytes * (int64_t)target->num_worker_contexts;
    convolve += out->worker_bytes;
  }
  int64_t moment =
      plan_max(convolve, 2 * plan_max(out->rearranged_bytes, out->output_rearranged_bytes));
  if (out->narrow > 0) {
    moment = plan_max(moment, partials * (int64_t)(p->partial_bytes + p->exchanged_bytes));
  }
  if (out->cast > 0 && !sums_turns) {
    const uint32_t from = depth == 1 ? p->partial_bytes : p->exchanged_bytes;
    moment = plan_max(moment, out->outputs * (int64_t)(from + p->out_bytes));
  }
  int64_t elements = partials;
  for (uint32_t s = 0; s < out->num_stages; ++s) {
    const plan_stage *stage = &out->stages[s];
    moment = plan_max(
        moment, elements * p->exchanged_bytes + stage->bytes + stage->outputs * p->exchanged_bytes);
    elements = stage->outputs;
  }
  out->temp = moment;
  if (broadcast) out->temp += out->input_bytes;
  if (turns > 1 && !sums_turns) out->temp += out->rearranged_bytes;
  if (sums_turns) out->temp += out->outputs * p->exchanged_bytes;
}

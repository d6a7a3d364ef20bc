/* Owns: setting up a problem: a transformed shape with a method and its grains, what the method
 * cannot do, and which operands must be rearranged for it. */
#include "ops/linear/plan_internal.h"

bool plan_problem_init(const trm_target *target, const trm_conv_params *canonical,
                       const trm_plan_options *options, const trm_plan_transform *transform,
                       trm_plan_method method, uint32_t units, uint32_t group_grain,
                       uint32_t in_grain, uint32_t out_grain, plan_problem *out) {
  plan_problem p = {.target = target,
                    .transform = *transform,
                    .method = method,
                    .shape = plan_transformed(canonical, transform),
                    .group_grain = group_grain,
                    .in_grain = in_grain,
                    .out_grain = out_grain,
                    .units = units,
                    .filter_height = 1,
                    .wide_load = options->use_128bit_conv_unit_load,
                    .multi_stage = options->enable_multi_stage_reduce,
                    .fast_reduce = options->enable_fast_reduce};
  const trm_conv_params *shape = &p.shape;
  p.in_bytes = shape->input_type == TRM_F16 ? 2 : 4;
  p.out_bytes = shape->output_type == TRM_F16 ? 2 : 4;
  p.partial_bytes = options->partials_type == TRM_F16 ? 2 : 4;
  if (p.partial_bytes < p.in_bytes) p.partial_bytes = p.in_bytes;
  /* Nothing is widened to be exchanged. */
  p.exchanged_bytes = options->inter_tile_partials_type == TRM_F16 ? 2 : 4;
  if (p.exchanged_bytes > p.partial_bytes) p.exchanged_bytes = p.partial_bytes;
  if (p.exchanged_bytes < p.in_bytes) p.exchanged_bytes = p.in_bytes;

  p.pointwise = true;
  bool kernel = false;
  for (uint32_t d = 0; d < shape->num_dims; ++d) {
    const trm_conv_dim *dim = &shape->dims[d];
    p.output[d] = trm_conv_output_size(dim);
    p.every[d] = plan_every(dim);
    p.busy[d] = plan_busy_share(dim);
    if (dim->kernel > 1 || dim->stride > 1 || dim->input_dilation > 1) p.pointwise = false;
    if (dim->kernel > 1) kernel = true;
  }
  const trm_conv_dim *inner = shape->num_dims > 0 ? &shape->dims[shape->num_dims - 1] : NULL;
  switch (method) {
    case TRM_METHOD_AMP: {
      const uint32_t full = p.in_bytes == 2 ? target->fp16_conv_unit_load_elements * 4
                                            : target->fp32_conv_unit_load_elements * 4;
      if (units == 0 || in_grain > full || full % in_grain != 0) return false;
      p.filter_height = full / in_grain;
      if (p.filter_height > 1 && (shape->num_dims == 0 || shape->dims[0].kernel == 1)) return false;
      if (p.filter_height > 1) p.pointwise = false;
      break;
    }
    case TRM_METHOD_SLIC:
      if (p.in_bytes != 2 || inner == NULL || !kernel || inner->stride > 2) return false;
      for (uint32_t d = 0; d < shape->num_dims; ++d) {
        if (shape->dims[d].kernel_dilation > 1 || shape->dims[d].input_dilation > 1) return false;
        if (d + 1 < shape->num_dims && shape->dims[d].stride > 1) return false;
      }
      if (units == 0 || shape->in_channels > in_grain || shape->out_channels > out_grain) {
        return false; /* one grain of channels a group */
      }
      break;
    case TRM_METHOD_HMAC: break;
    case TRM_METHOD_VMAC:
      /* Its lanes are groups; many channels are for the convolution units. */
      if (p.in_bytes != 2 || inner == NULL || shape->groups < 2 || shape->in_channels > 16 ||
          shape->out_channels > 16) {
        return false;
      }
      break;
    case TRM_METHOD_OUTER_PRODUCT:
      if (shape->num_dims > 0 || shape->in_channels != 1) return false;
      if (p.partial_bytes != p.in_bytes) p.partial_bytes = p.in_bytes; /* it only multiplies */
      if (p.exchanged_bytes != p.in_bytes) p.exchanged_bytes = p.in_bytes;
      break;
  }
  p.group_grains = plan_ceil_div(shape->groups, group_grain);
  p.in_grains = plan_ceil_div(shape->in_channels, in_grain);
  p.out_grains = plan_ceil_div(shape->out_channels, out_grain);

  /* Operands in another order than the vertices want (docs/planner.md, "The cost"). */
  const bool weight_update = options->pass == TRM_PASS_TRAINING_WU;
  const bool full_update = options->pass == TRM_PASS_FC_TRAINING_WU;
  const bool transformed =
      transform->swap_operands || transform->expand_dims != 0 || transform->combine_groups > 1;
  const bool pad_in = shape->in_channels % in_grain != 0;
  const bool pad_out = shape->out_channels % out_grain != 0;
  const int64_t groups = p.group_grains * group_grain;
  const int64_t in = p.in_grains * in_grain, out_channels = p.out_grains * out_grain;
  p.inputs_rearranged = weight_update || full_update || transformed || pad_in ||
                        options->pass == TRM_PASS_FC_TRAINING_BWD;
  p.weights_rearranged = weight_update || transformed || pad_in || pad_out;
  if (p.inputs_rearranged) {
    int64_t bytes = groups * shape->batch * in * p.in_bytes;
    for (uint32_t d = 0; d < shape->num_dims; ++d) bytes *= shape->dims[d].input;
    p.rearranged_operands += bytes;
  }
  if (p.weights_rearranged) {
    int64_t bytes = groups * in * out_channels * p.in_bytes;
    for (uint32_t d = 0; d < shape->num_dims; ++d) bytes *= shape->dims[d].kernel;
    p.rearranged_operands += bytes;
  }
  if (weight_update != transform->swap_operands || full_update || transform->combine_groups > 1 ||
      pad_out) {
    p.rearranged_output = groups * shape->batch * out_channels * p.out_bytes;
    for (uint32_t d = 0; d < shape->num_dims; ++d) p.rearranged_output *= p.output[d];
  }
  p.operand_vectors =
      canonical->in_channels * canonical->out_channels % (8 / (int64_t)p.in_bytes) == 0;
  p.output_vectors = canonical->out_channels % (8 / (int64_t)p.out_bytes) == 0;
  *out = p;
  return true;
}

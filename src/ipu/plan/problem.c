/* Owns: setting up a problem: a transformed shape with a method and its grains, what the method
 * cannot do, and which operands must be rearranged for it. */
#include "ipu/plan/internal.h"

static void set_types(const trm_plan_options *options, plan_problem *p) {
  p->in_bytes = p->shape.input_type == TRM_F16 ? 2 : 4;
  p->out_bytes = p->shape.output_type == TRM_F16 ? 2 : 4;
  p->partial_bytes = options->partials_type == TRM_F16 ? 2 : 4;
  if (p->partial_bytes < p->in_bytes) p->partial_bytes = p->in_bytes;
  /* Nothing is widened to be exchanged. */
  p->exchanged_bytes = options->inter_tile_partials_type == TRM_F16 ? 2 : 4;
  if (p->exchanged_bytes > p->partial_bytes) p->exchanged_bytes = p->partial_bytes;
  if (p->exchanged_bytes < p->in_bytes) p->exchanged_bytes = p->in_bytes;
}

static void measure_dimensions(plan_problem *p) {
  p->pointwise = true;
  for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
    const trm_conv_dim *dim = &p->shape.dims[d];
    p->output[d] = trm_conv_output_size(dim);
    p->every[d] = plan_every(dim);
    p->busy[d] = plan_busy_share(dim);
    if (dim->kernel > 1 || dim->stride > 1 || dim->input_dilation > 1) p->pointwise = false;
  }
}

static bool suits_slic(const plan_problem *p) {
  const trm_conv_params *shape = &p->shape;
  if (p->in_bytes != 2 || shape->num_dims == 0) return false;
  bool has_kernel = false;
  for (uint32_t d = 0; d < shape->num_dims; ++d) {
    const trm_conv_dim *dim = &shape->dims[d];
    has_kernel |= dim->kernel > 1;
    if (dim->kernel_dilation > 1 || dim->input_dilation > 1) return false;
    if (dim->stride > (d + 1 < shape->num_dims ? 1 : 2)) return false;
  }
  /* One grain of channels a group. */
  return has_kernel && p->units > 0 && shape->in_channels <= p->in_grain &&
         shape->out_channels <= p->out_grain;
}

/* Whether the method can compute the shape; sets what depends on the method alone. */
static bool suits_method(plan_problem *p) {
  const trm_conv_params *shape = &p->shape;
  switch (p->method) {
    case TRM_METHOD_AMP: {
      const uint32_t full = p->in_bytes == 2 ? p->target->fp16_conv_unit_load_elements * 4
                                             : p->target->fp32_conv_unit_load_elements * 4;
      if (p->units == 0 || p->in_grain > full || full % p->in_grain != 0) return false;
      p->filter_height = full / p->in_grain;
      if (p->filter_height == 1) return true;
      p->pointwise = false;
      return shape->num_dims > 0 && shape->dims[0].outer && shape->dims[0].kernel != 1;
    }
    case TRM_METHOD_SLIC: return suits_slic(p);
    case TRM_METHOD_HMAC: break;
    case TRM_METHOD_VMAC: /* its lanes are groups; many channels are for the convolution units */
      return p->in_bytes == 2 && shape->num_dims > 0 && shape->groups >= 2 &&
             shape->in_channels <= 16 && shape->out_channels <= 16;
    case TRM_METHOD_OUTER_PRODUCT: /* it only multiplies */
      p->partial_bytes = p->exchanged_bytes = p->in_bytes;
      return shape->num_dims == 0 && shape->in_channels == 1;
  }
  return true;
}

/* Operands in another order than the vertices want (docs/planner.md, "The cost"). */
static void find_rearranged(const trm_conv_params *canonical, trm_plan_pass pass, plan_problem *p) {
  const trm_conv_params *shape = &p->shape;
  const trm_plan_transform *transform = &p->transform;
  const bool weight_update = pass == TRM_PASS_TRAINING_WU;
  const bool full_update = pass == TRM_PASS_FC_TRAINING_WU;
  const bool transformed =
      transform->swap_operands || plan_laid_out(transform) != 0 || transform->combine_groups > 1;
  const bool flattened = transform->flatten_dims != 0 && !weight_update;
  const bool pad_in = shape->in_channels % p->in_grain != 0;
  const bool pad_out = shape->out_channels % p->out_grain != 0;
  const bool pad_groups = shape->groups % p->group_grain != 0;
  const int64_t groups = p->group_grains * p->group_grain;
  const int64_t in = p->in_grains * p->in_grain, out = p->out_grains * p->out_grain;
  p->inputs_rearranged = weight_update || full_update || transformed || pad_in || pad_groups ||
                         pass == TRM_PASS_FC_TRAINING_BWD;
  p->weights_rearranged = weight_update || transformed || pad_in || pad_out || pad_groups;
  if (p->inputs_rearranged) {
    int64_t bytes = groups * shape->batch * in * p->in_bytes;
    for (uint32_t d = 0; d < shape->num_dims; ++d) bytes *= shape->dims[d].input;
    p->rearranged_operands += bytes;
  }
  if (p->weights_rearranged) {
    int64_t bytes = groups * in * out * p->in_bytes;
    for (uint32_t d = 0; d < shape->num_dims; ++d) bytes *= shape->dims[d].kernel;
    p->rearranged_operands += bytes;
  }
  if (weight_update != transform->swap_operands || full_update || transform->combine_groups > 1 ||
      flattened || pad_out) {
    p->rearranged_output = groups * shape->batch * out * p->out_bytes;
    for (uint32_t d = 0; d < shape->num_dims; ++d) p->rearranged_output *= p->output[d];
  }
  p->operand_vectors =
      canonical->in_channels * canonical->out_channels % (8 / (int64_t)p->in_bytes) == 0;
  p->output_vectors = canonical->out_channels % (8 / (int64_t)p->out_bytes) == 0;
}

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
  set_types(options, &p);
  measure_dimensions(&p);
  if (!suits_method(&p)) return false;
  p.group_grains = plan_ceil_div(p.shape.groups, group_grain);
  p.in_grains = plan_ceil_div(p.shape.in_channels, in_grain);
  p.out_grains = plan_ceil_div(p.shape.out_channels, out_grain);
  find_rearranged(canonical, options->pass, &p);
  *out = p;
  return true;
}

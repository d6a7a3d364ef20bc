/* Owns: the reference kernel of convolution: any dimension numbers, strides, dilations of both
 * operands, reversal, negative padding, feature groups and batch groups. */
#include "host/ops/products/reference_linear.h"

typedef struct convolution_plan {
  const trm_reference_state *state;
  const trm_kernel_call *call;
  int64_t input_strides[TRM_MAX_RANK], kernel_strides[TRM_MAX_RANK];
  int64_t features_a_group; /* input features that one output feature sees */
} convolution_plan;

/* The sum over kernel positions and input features for the result at `index`. */
static trm_value convolve_one(const convolution_plan *plan, const int64_t *index) {
  const trm_reference_state *state = plan->state;
  const trm_convolution *c = state->instruction.convolution;
  const trm_window *window = state->instruction.window;
  const trm_shape *input = &state->operands[0], *weights = &state->operands[1];
  const int64_t output_features = weights->dims[c->kernel_output_feature];
  const int64_t feature = index[c->output_feature];
  /* Output features are split into equal runs, one a group. */
  const int64_t feature_group = feature / (output_features / c->feature_group_count);
  const int64_t batch_group = feature / (output_features / c->batch_group_count);
  const int64_t batch_size = input->dims[c->input_batch] / c->batch_group_count;
  const int64_t batch = batch_group * batch_size + index[c->output_batch];

  int64_t sizes[TRM_MAX_RANK];
  for (int32_t s = 0; s < c->spatial_rank; ++s) sizes[s] = window->dims[s].size;
  trm_odometer at;
  trm_odometer_init(&at, c->spatial_rank, sizes);
  const int64_t positions = trm_dims_count(c->spatial_rank, sizes);
  trm_value sum = {{0}, 0.0};
  for (int64_t p = 0; p < positions; ++p, trm_odometer_next(&at)) {
    int64_t input_base = batch * plan->input_strides[c->input_batch];
    int64_t kernel_base = feature * plan->kernel_strides[c->kernel_output_feature];
    bool inside = true;
    for (int32_t s = 0; s < c->spatial_rank; ++s) {
      const trm_window_dimension *w = &window->dims[s];
      const int64_t position = index[c->output_spatial[s]] * w->stride +
                               at.index[s] * w->window_dilation - w->padding_low;
      if (position < 0 || position % w->base_dilation != 0 ||
          position / w->base_dilation >= input->dims[c->input_spatial[s]]) {
        inside = false;
        break;
      }
      const int64_t tap = w->reversal ? w->size - 1 - at.index[s] : at.index[s];
      input_base += position / w->base_dilation * plan->input_strides[c->input_spatial[s]];
      kernel_base += tap * plan->kernel_strides[c->kernel_spatial[s]];
    }
    if (!inside) continue;
    const int64_t stride = plan->input_strides[c->input_feature];
    const trm_value_run a = {input->dtype, plan->call->operands[0],
                             input_base + feature_group * plan->features_a_group * stride, stride};
    const trm_value_run b = {weights->dtype, plan->call->operands[1], kernel_base,
                             plan->kernel_strides[c->kernel_input_feature]};
    trm_value_add_products(state->shape.dtype, plan->features_a_group, a, b, &sum);
  }
  return sum;
}

static trm_status run_convolution(const trm_kernel *kernel, const trm_kernel_call *call,
                                  trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  convolution_plan plan = {.state = state, .call = call};
  trm_shape_strides(&state->operands[0], plan.input_strides);
  trm_shape_strides(&state->operands[1], plan.kernel_strides);
  plan.features_a_group =
      state->operands[1].dims[state->instruction.convolution->kernel_input_feature];
  trm_odometer at;
  trm_odometer_init(&at, state->shape.rank, state->shape.dims);
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i, trm_odometer_next(&at)) {
    trm_value_store(state->shape.dtype, call->results[0], i, convolve_one(&plan, at.index));
  }
  return TRM_OK;
}

trm_status trm_reference_convolution_create(const trm_kernel_request *request,
                                            trm_kernel *out_kernel, bool *out_supported,
                                            trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_convolution *c = instruction->convolution;
  *out_supported = true;
  if (c == NULL || (c->spatial_rank > 0 && instruction->window == NULL)) {
    return trm_reference_refuse(request, "it has no window or no dimension numbers", error);
  }
  const trm_shape *input = trm_operand_shape(request, 0), *weights = trm_operand_shape(request, 1);
  const int64_t features = weights->dims[c->kernel_output_feature];
  if (c->feature_group_count < 1 || c->batch_group_count < 1 ||
      features % c->feature_group_count != 0 || features % c->batch_group_count != 0 ||
      input->dims[c->input_batch] % c->batch_group_count != 0 ||
      input->dims[c->input_feature] !=
          weights->dims[c->kernel_input_feature] * c->feature_group_count) {
    return trm_reference_refuse(request, "its group counts do not divide its dimensions", error);
  }
  return trm_reference_kernel_create(request, "reference.convolution", run_convolution, 0,
                                     out_kernel, error);
}

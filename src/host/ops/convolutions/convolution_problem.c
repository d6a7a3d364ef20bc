/* Owns: restating HLO convolutions. TensorFlow emits three forms: a convolution; its gradient by
 * the data (lhs_dilate is the stride, and the kernel is reversed); its gradient by the weights
 * (batch and feature are exchanged, and the gradient is the kernel). */
#include "host/ops/convolutions/convolution_problem.h"

static int64_t stride_of(const trm_shape *shape, int64_t dimension) {
  int64_t stride = 1;
  for (int64_t i = dimension + 1; i < shape->rank; ++i) stride *= shape->dims[i];
  return stride;
}

/* Describes x without the elements that negative padding leaves out. Afterwards pad_low >= 0 and
 * pad_high > -stride, as oneDNN needs it. False if no element is left. */
static bool crop(trm_convolution_problem *p) {
  for (int i = 0; i < p->spatial; ++i) {
    const int64_t reach = (p->k_size[i] - 1) * p->dilation[i] + 1;
    if (p->pad_low[i] < 0) {
      p->x.start += -p->pad_low[i] * p->x.spatial[i];
      p->x_size[i] += p->pad_low[i];
      p->pad_low[i] = 0;
      p->is_x_cropped = true;
    }
    int64_t high = (p->y_size[i] - 1) * p->stride[i] + reach - p->x_size[i] - p->pad_low[i];
    if (high <= -p->stride[i]) { /* no output reads the last elements */
      p->x_size[i] += high;
      high = 0;
      p->is_x_cropped = true;
    }
    p->pad_high[i] = high;
    if (p->x_size[i] <= 0) return false;
  }
  return true;
}

static bool is_served(const trm_shape *shape) {
  return (shape->dtype == TRM_F32 || shape->dtype == TRM_F16 || shape->dtype == TRM_BF16) &&
         trm_shape_count(shape) > 0;
}

/* Finds from window and groups which of the three it is; false if oneDNN has none for it. */
static bool choose_kind(const trm_convolution *numbers, const trm_window *window,
                        trm_convolution_problem *p) {
  bool is_spread = false, all_reversed = true, any_reversed = false, is_strided = false;
  for (int i = 0; i < p->spatial; ++i) {
    const trm_window_dimension *w = &window->dims[i];
    if (w->base_dilation > 1) is_spread = true;
    if (w->stride > 1) is_strided = true;
    if (w->size > 1) {
      if (w->reversal) any_reversed = true;
      else all_reversed = false;
    }
  }
  const int64_t batch_groups = numbers->batch_group_count;
  const int64_t feature_groups = numbers->feature_group_count;
  if (batch_groups > 1 && feature_groups > 1) return false;
  const bool is_exchanged = numbers->input_feature < numbers->input_batch;
  if (batch_groups > 1 || (is_exchanged && feature_groups == 1 && !is_spread && !any_reversed)) {
    if (is_spread || any_reversed) return false;
    p->kind = TRM_BACKWARD_WEIGHTS;
  } else if (is_spread || (any_reversed && all_reversed && !is_strided)) {
    if (is_strided) return false;
    p->kind = TRM_BACKWARD_DATA;
  } else {
    p->kind = TRM_FORWARD;
  }
  return true;
}

/* One side of a spatial dimension: its size and stride. */
typedef struct extent {
  int64_t size, stride;
} extent;

static extent extent_of(const trm_shape *shape, int64_t dimension) {
  return (extent){shape->dims[dimension], stride_of(shape, dimension)};
}

/* Sets spatial dimension i from the instruction's input, kernel and output. */
static void restate_dimension(trm_convolution_problem *p, int i, const trm_window_dimension *w,
                              extent in, extent kernel, extent out) {
  if (p->kind == TRM_BACKWARD_WEIGHTS) {
    p->x_size[i] = in.size, p->y_size[i] = kernel.size, p->k_size[i] = out.size;
    p->x.spatial[i] = in.stride;
    p->y.spatial[i] = kernel.stride;
    p->w.spatial[i] = out.stride;
    p->stride[i] = w->window_dilation;
    p->dilation[i] = w->stride;
    p->pad_low[i] = w->padding_low;
    return;
  }
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
  p->x_size[i] = is_data ? out.size : in.size;
  p->y_size[i] = is_data ? in.size : out.size;
  p->x.spatial[i] = is_data ? out.stride : in.stride;
  p->y.spatial[i] = is_data ? in.stride : out.stride;
  p->k_size[i] = kernel.size;
  p->w.spatial[i] = kernel.stride;
  /* The gradient reads the forward kernel from its end. */
  if (kernel.size > 1 && w->reversal != is_data) {
    p->w.start += (kernel.size - 1) * kernel.stride;
    p->w.spatial[i] = -kernel.stride;
  }
  p->dilation[i] = w->window_dilation;
  p->stride[i] = is_data ? w->base_dilation : w->stride;
  p->pad_low[i] =
      is_data ? (kernel.size - 1) * w->window_dilation - w->padding_low : w->padding_low;
}

/* Sets batch, channels and groups. */
static void restate_channels(trm_convolution_problem *p, const trm_convolution *numbers,
                             const trm_shape *lhs, const trm_shape *rhs, const trm_shape *out) {
  const extent batch = extent_of(lhs, numbers->input_batch);
  const extent feature = extent_of(lhs, numbers->input_feature);
  const extent kernel_in = extent_of(rhs, numbers->kernel_input_feature);
  const extent kernel_out = extent_of(rhs, numbers->kernel_output_feature);
  const int64_t out_outer = stride_of(out, numbers->output_batch);
  const int64_t out_inner = stride_of(out, numbers->output_feature);
  if (p->kind == TRM_BACKWARD_WEIGHTS) {
    p->groups = numbers->batch_group_count;
    p->batch = feature.size;
    p->in_channels = batch.size / p->groups;
    p->out_channels = kernel_out.size / p->groups;
    p->x.outer = feature.stride, p->x.inner = batch.stride;
    p->y.outer = kernel_in.stride, p->y.inner = kernel_out.stride;
    p->w.outer = out_inner, p->w.inner = out_outer;
    p->w.group = p->out_channels * out_inner;
    p->x.count = trm_shape_count(lhs), p->y.count = trm_shape_count(rhs);
    p->w.count = trm_shape_count(out);
    return;
  }
  trm_convolution_layout *in = p->kind == TRM_FORWARD ? &p->x : &p->y,
                         *result = p->kind == TRM_FORWARD ? &p->y : &p->x;
  in->outer = batch.stride, in->inner = feature.stride;
  result->outer = out_outer, result->inner = out_inner;
  in->count = trm_shape_count(lhs), result->count = trm_shape_count(out);
  p->w.count = trm_shape_count(rhs);
  p->groups = numbers->feature_group_count;
  p->batch = batch.size;
  if (p->kind == TRM_FORWARD) {
    p->in_channels = kernel_in.size;
    p->out_channels = kernel_out.size / p->groups;
    p->w.inner = kernel_in.stride, p->w.outer = kernel_out.stride;
    p->w.group = p->out_channels * kernel_out.stride;
  } else {
    p->out_channels = kernel_in.size;
    p->in_channels = kernel_out.size / p->groups;
    p->w.outer = kernel_in.stride, p->w.inner = kernel_out.stride;
    p->w.group = p->in_channels * kernel_out.stride;
  }
}

bool trm_convolution_restate(const trm_kernel_request *request, trm_convolution_problem *p) {
  const trm_convolution *numbers = request->instruction->convolution;
  const trm_window *window = request->instruction->window;
  const trm_shape *lhs = trm_operand_shape(request, 0), *rhs = trm_operand_shape(request, 1);
  const trm_shape *out = &request->instruction->shape;
  const int spatial = numbers->spatial_rank;
  if (spatial < 1 || spatial > TRM_MAX_SPATIAL) return false;
  if (!is_served(lhs) || !is_served(rhs) || !is_served(out)) return false;
  *p = (trm_convolution_problem){.spatial = spatial};
  if (!choose_kind(numbers, window, p)) return false;
  for (int i = 0; i < spatial; ++i) {
    restate_dimension(p, i, &window->dims[i], extent_of(lhs, numbers->input_spatial[i]),
                      extent_of(rhs, numbers->kernel_spatial[i]),
                      extent_of(out, numbers->output_spatial[i]));
  }
  restate_channels(p, numbers, lhs, rhs, out);
  return crop(p);
}

bool trm_convolution_is_channels_last(const trm_convolution_problem *p,
                                      const trm_convolution_layout *a, int64_t channels,
                                      const int64_t *size) {
  int64_t stride = channels;
  for (int i = p->spatial - 1; i >= 0; --i) {
    if (size[i] > 1 && a->spatial[i] != stride) return false;
    stride *= size[i];
  }
  return a->inner == 1 && (p->batch == 1 || a->outer == stride);
}

bool trm_convolution_plan_tiles(const trm_convolution_problem *p, trm_half_tiles *tiles) {
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
  const trm_convolution_layout *from = is_data ? &p->y : &p->x, *to = is_data ? &p->x : &p->y;
  if (p->kind == TRM_BACKWARD_WEIGHTS || p->spatial > 2 || to->inner != 1 ||
      (is_data && p->is_x_cropped) || !trm_half_tiles_serve()) {
    return false;
  }
  *tiles = (trm_half_tiles){.group_rank = 1,
                            .groups = {p->groups},
                            .w_group = {p->w.group},
                            .batch = p->batch,
                            .channels = is_data ? p->out_channels : p->in_channels,
                            .outputs = is_data ? p->in_channels : p->out_channels,
                            .x_start = from->start,
                            .x_batch = from->outer,
                            .x_channel = from->inner,
                            .w_start = p->w.start,
                            .w_channel = is_data ? p->w.outer : p->w.inner,
                            .w_output = is_data ? p->w.inner : p->w.outer};
  tiles->x_group[0] = tiles->channels * from->inner, tiles->y_group[0] = tiles->outputs;
  tiles->y_pixel = p->groups * tiles->outputs;
  int64_t dense = tiles->y_pixel;
  for (int i = 1; i >= 0; --i) { /* a single dimension becomes a row */
    const int at = i - (2 - p->spatial);
    const bool is_absent = at < 0;
    const int64_t x_size = is_absent ? 1 : p->x_size[at], y_size = is_absent ? 1 : p->y_size[at];
    tiles->x_size[i] = is_data ? y_size : x_size, tiles->y_size[i] = is_data ? x_size : y_size;
    tiles->k_size[i] = is_absent ? 1 : p->k_size[at];
    tiles->stride[i] = is_absent ? 1 : p->stride[at];
    tiles->dilation[i] = is_absent ? 1 : p->dilation[at];
    tiles->pad[i] = is_absent ? 0 : p->pad_low[at];
    tiles->x_spatial[i] = is_absent ? 0 : from->spatial[at];
    tiles->w_spatial[i] = is_absent ? 0 : p->w.spatial[at];
    if (is_data) { /* a convolution of y with the kernel from its end */
      if (tiles->stride[i] > 1) return false;
      tiles->pad[i] = (tiles->k_size[i] - 1) * tiles->dilation[i] - tiles->pad[i];
      tiles->w_start += (tiles->k_size[i] - 1) * tiles->w_spatial[i];
      tiles->w_spatial[i] = -tiles->w_spatial[i];
    }
    if (!is_absent && tiles->y_size[i] > 1 && to->spatial[at] != dense) return false;
    dense *= tiles->y_size[i];
  }
  return p->batch == 1 || to->outer == dense;
}

/* HLO convolution by oneDNN.
 *
 * TensorFlow emits three forms, all of them HLO convolutions: the convolution itself, its gradient
 * with respect to the data (spread by the stride: lhs_dilate; kernel reversed) and its gradient
 * with respect to the weights (batch and feature exchanged; the gradient is the kernel). Each is
 * first restated as one of the three propagations of a *forward* convolution
 *     y[n, o, q] = sum over i, k of x[n, i, q * stride + k * dilation - pad_low] * w[o, i, k]
 * with x, w, y as strided arrays, wherever their dimensions lie in memory; then built for oneDNN.
 *
 * Activations are channels-last for oneDNN and reordered where they are not; weights have the
 * format that oneDNN prefers and are packed when their contents change. Groups with few channels
 * go to kernels of our own (grouped_convolution.h). */
#include <string.h>

#include "ops/linear/grouped_convolution.h"
#include "ops/linear/onednn_sequence.h"

#define MAX_SPATIAL 3

typedef enum propagation { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS } propagation;

/* A strided array: element strides of its roles in the forward convolution. */
typedef struct layout {
  int64_t outer, inner;         /* x: batch, channel; y: batch, channel; w: out, in channel */
  int64_t group;                /* w: from group to group; x, y: inner strides do it */
  int64_t spatial[MAX_SPATIAL]; /* negative where w is stored reversed */
  int64_t start;                /* element of index 0 */
  int64_t count;                /* elements of the whole array */
} layout;

typedef struct problem {
  propagation kind;
  int spatial;
  int64_t batch, groups, in_channels, out_channels; /* channels of one group */
  int64_t x_size[MAX_SPATIAL], y_size[MAX_SPATIAL], k_size[MAX_SPATIAL];
  int64_t stride[MAX_SPATIAL], dilation[MAX_SPATIAL], pad_low[MAX_SPATIAL], pad_high[MAX_SPATIAL];
  layout x, w, y;
  bool is_x_cropped; /* elements of x outside what is described: zero in a gradient */
} problem;

/* ---- From HLO -------------------------------------------------------------------------------- */

static int64_t stride_of(const trm_shape *shape, int64_t dimension) {
  int64_t stride = 1;
  for (int64_t i = dimension + 1; i < shape->rank; ++i) stride *= shape->dims[i];
  return stride;
}

/* Padding below zero, on either side, leaves out elements of x: x is described without them.
 * Afterwards pad_low >= 0 and -stride < pad_high, as oneDNN wants it. false: nothing is left. */
static bool crop(problem *p) {
  for (int i = 0; i < p->spatial; ++i) {
    const int64_t reach = (p->k_size[i] - 1) * p->dilation[i] + 1;
    if (p->pad_low[i] < 0) {
      p->x.start += -p->pad_low[i] * p->x.spatial[i];
      p->x_size[i] += p->pad_low[i];
      p->pad_low[i] = 0;
      p->is_x_cropped = true;
    }
    int64_t high = (p->y_size[i] - 1) * p->stride[i] + reach - p->x_size[i] - p->pad_low[i];
    if (high <= -p->stride[i]) { /* the last elements are not used by any output */
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

/* oneDNN 3.2's generated weight gradient in three dimensions reads and writes outside its arrays,
 * or is wrong, when the kernel is large against the image (found by random tests, which find one
 * and two dimensions right). */
static bool is_wrong_when_generated(const problem *p) {
  if (p->kind != BACKWARD_WEIGHTS || p->spatial < 3) return false;
  for (int i = 0; i < p->spatial; ++i) {
    const int64_t pad = p->pad_low[i] > p->pad_high[i] ? p->pad_low[i] : p->pad_high[i];
    if ((p->k_size[i] - 1) * p->dilation[i] + 1 + pad > p->x_size[i]) return true;
  }
  return false;
}

/* Forward, or the gradient that the window and the groups stand for; false: none that oneDNN has.
 */
static bool choose_kind(const trm_convolution *numbers, const trm_window *window, problem *p) {
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
    p->kind = BACKWARD_WEIGHTS;
  } else if (is_spread || (any_reversed && all_reversed && !is_strided)) {
    if (is_strided) return false;
    p->kind = BACKWARD_DATA;
  } else {
    p->kind = FORWARD;
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

/* Spatial dimension i, from the instruction's input, kernel and output. */
static void restate_dimension(problem *p, int i, const trm_window_dimension *w, extent in,
                              extent kernel, extent out) {
  if (p->kind == BACKWARD_WEIGHTS) {
    p->x_size[i] = in.size, p->y_size[i] = kernel.size, p->k_size[i] = out.size;
    p->x.spatial[i] = in.stride;
    p->y.spatial[i] = kernel.stride;
    p->w.spatial[i] = out.stride;
    p->stride[i] = w->window_dilation;
    p->dilation[i] = w->stride;
    p->pad_low[i] = w->padding_low;
    return;
  }
  const bool is_data = p->kind == BACKWARD_DATA;
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

/* Batch, channels and groups. */
static void restate_channels(problem *p, const trm_convolution *numbers, const trm_shape *lhs,
                             const trm_shape *rhs, const trm_shape *out) {
  const extent batch = extent_of(lhs, numbers->input_batch);
  const extent feature = extent_of(lhs, numbers->input_feature);
  const extent kernel_in = extent_of(rhs, numbers->kernel_input_feature);
  const extent kernel_out = extent_of(rhs, numbers->kernel_output_feature);
  const int64_t out_outer = stride_of(out, numbers->output_batch);
  const int64_t out_inner = stride_of(out, numbers->output_feature);
  if (p->kind == BACKWARD_WEIGHTS) {
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
  layout *in = p->kind == FORWARD ? &p->x : &p->y, *result = p->kind == FORWARD ? &p->y : &p->x;
  in->outer = batch.stride, in->inner = feature.stride;
  result->outer = out_outer, result->inner = out_inner;
  in->count = trm_shape_count(lhs), result->count = trm_shape_count(out);
  p->w.count = trm_shape_count(rhs);
  p->groups = numbers->feature_group_count;
  p->batch = batch.size;
  if (p->kind == FORWARD) {
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

static bool restate(const trm_kernel_request *request, problem *p) {
  const trm_convolution *numbers = request->instruction->convolution;
  const trm_window *window = request->instruction->window;
  const trm_shape *lhs = trm_operand_shape(request, 0), *rhs = trm_operand_shape(request, 1);
  const trm_shape *out = &request->instruction->shape;
  const int spatial = numbers->spatial_rank;
  if (spatial < 1 || spatial > MAX_SPATIAL) return false;
  if (!is_served(lhs) || !is_served(rhs) || !is_served(out)) return false;
  *p = (problem){.spatial = spatial};
  if (!choose_kind(numbers, window, p)) return false;
  for (int i = 0; i < spatial; ++i) {
    restate_dimension(p, i, &window->dims[i], extent_of(lhs, numbers->input_spatial[i]),
                      extent_of(rhs, numbers->kernel_spatial[i]),
                      extent_of(out, numbers->output_spatial[i]));
  }
  restate_channels(p, numbers, lhs, rhs, out);
  return crop(p);
}

/* ---- Building -------------------------------------------------------------------------------- */

typedef struct convolution_draft {
  trm_onednn_sequence *sequence;
  problem p;
  trm_onednn_place x, w, y; /* float32 arrays as HLO lays them, then as described */
  const_dnnl_memory_desc_t x_user, y_user, w_user;  /* as HLO lays them */
  const_dnnl_memory_desc_t x_plain, y_plain, w_any; /* what the primitive is asked for */
  dnnl_primitive_attr_t attributes;
  dnnl_primitive_desc_t forward, desc; /* the hint of a gradient; the primitive's own */
} convolution_draft;

/* Describes an activation as it lies in memory, and dense with channels last as oneDNN's kernels
 * want it; the same pointer twice where these agree. */
static trm_status describe_data(convolution_draft *draft, const layout *a, int64_t channels,
                                const int64_t *size, const_dnnl_memory_desc_t *out_user,
                                const_dnnl_memory_desc_t *out_plain, trm_error *error) {
  const int rank = 2 + draft->p.spatial;
  int64_t dims[2 + MAX_SPATIAL] = {draft->p.batch, channels};
  int64_t strides[2 + MAX_SPATIAL] = {a->outer, a->inner};
  int64_t dense[2 + MAX_SPATIAL] = {0, 1};
  for (int i = 2; i < rank; ++i) dims[i] = size[i - 2], strides[i] = a->spatial[i - 2];
  int64_t stride = channels;
  for (int i = rank - 1; i >= 2; --i) dense[i] = stride, stride *= dims[i];
  dense[0] = stride;
  bool is_dense = true;
  for (int i = 0; i < rank; ++i) is_dense = is_dense && (dims[i] == 1 || strides[i] == dense[i]);
  TRY(trm_onednn_describe(draft->sequence, rank, dims, dense, out_plain, error));
  *out_user = *out_plain;
  if (is_dense) return TRM_OK;
  return trm_onednn_describe(draft->sequence, rank, dims, strides, out_user, error);
}

/* Whether the weights must be copied by ourselves: stored from the end, which oneDNN cannot say. */
static bool is_reversed(const problem *p) {
  for (int i = 0; i < p->spatial; ++i) {
    if (p->w.spatial[i] < 0) return true;
  }
  return false;
}

/* Fills in the copy from the weights as HLO has them to [group][kernel][in][out], and the layout of
 * that. */
static void plan_weight_copy(const problem *p, trm_onednn_copy *copy, layout *dense) {
  *dense = (layout){.outer = 1, .inner = p->out_channels};
  int64_t stride = p->out_channels * p->in_channels;
  for (int i = p->spatial - 1; i >= 0; --i) dense->spatial[i] = stride, stride *= p->k_size[i];
  dense->group = stride;
  *copy = (trm_onednn_copy){.rank = p->spatial + 3, .from_start = p->w.start};
  int r = 0;
  copy->dims[r] = p->groups;
  copy->from_strides[r] = p->w.group, copy->to_strides[r++] = dense->group;
  for (int i = 0; i < p->spatial; ++i) {
    copy->dims[r] = p->k_size[i];
    copy->from_strides[r] = p->w.spatial[i], copy->to_strides[r++] = dense->spatial[i];
  }
  copy->dims[r] = p->in_channels;
  copy->from_strides[r] = p->w.inner, copy->to_strides[r++] = dense->inner;
  copy->dims[r] = p->out_channels;
  copy->from_strides[r] = p->w.outer, copy->to_strides[r++] = dense->outer;
}

static trm_status describe_weights(convolution_draft *draft, const layout *w, trm_error *error) {
  const problem *p = &draft->p;
  int64_t dims[3 + MAX_SPATIAL], strides[3 + MAX_SPATIAL];
  int r = 0;
  if (p->groups > 1) dims[r] = p->groups, strides[r++] = w->group;
  dims[r] = p->out_channels, strides[r++] = w->outer;
  dims[r] = p->in_channels, strides[r++] = w->inner;
  for (int i = 0; i < p->spatial; ++i) dims[r] = p->k_size[i], strides[r++] = w->spatial[i];
  TRY(trm_onednn_describe(draft->sequence, r, dims, strides, &draft->w_user, error));
  return trm_onednn_describe_any(draft->sequence, r, dims, &draft->w_any, error);
}

static trm_status create_descs(convolution_draft *draft, trm_error *error) {
  const problem *p = &draft->p;
  dnnl_dims_t strides, dilates, low, high;
  for (int i = 0; i < p->spatial; ++i) {
    strides[i] = p->stride[i], dilates[i] = p->dilation[i] - 1;
    low[i] = p->pad_low[i], high[i] = p->pad_high[i];
  }
  dnnl_engine_t engine = trm_onednn_engine();
  dnnl_primitive_desc_t *forward = p->kind == FORWARD ? &draft->desc : &draft->forward;
  TRY_DNNL(dnnl_convolution_forward_primitive_desc_create(
               forward, engine, p->kind == FORWARD ? dnnl_forward_inference : dnnl_forward_training,
               dnnl_convolution_direct, draft->x_plain, draft->w_any, NULL, draft->y_plain, strides,
               dilates, low, high, draft->attributes),
           "choosing a convolution");
  if (p->kind == BACKWARD_DATA) {
    TRY_DNNL(dnnl_convolution_backward_data_primitive_desc_create(
                 &draft->desc, engine, dnnl_convolution_direct, draft->x_plain, draft->w_any,
                 draft->y_plain, strides, dilates, low, high, draft->forward, draft->attributes),
             "choosing a convolution's gradient");
  } else if (p->kind == BACKWARD_WEIGHTS) {
    TRY_DNNL(dnnl_convolution_backward_weights_primitive_desc_create(
                 &draft->desc, engine, dnnl_convolution_direct, draft->x_plain, draft->w_any, NULL,
                 draft->y_plain, strides, dilates, low, high, draft->forward, draft->attributes),
             "choosing a convolution's gradient");
    while (is_wrong_when_generated(p)) { /* go on to the plain implementations */
      const char *name = NULL;
      TRY_DNNL(dnnl_primitive_desc_query(draft->desc, dnnl_query_impl_info_str, 0, (void *)&name),
               "asking for an implementation's name");
      if (strncmp(name, "ref", 3) == 0) break;
      if (dnnl_primitive_desc_next_impl(draft->desc) != dnnl_success) return TRM_UNIMPLEMENTED;
    }
  }
  return TRM_OK;
}

/* Brings an activation into the layout the primitive wants; *place moves. */
static trm_status add_input_reorder(convolution_draft *draft, const_dnnl_memory_desc_t user,
                                    const_dnnl_memory_desc_t plain, trm_onednn_place *place,
                                    trm_error *error) {
  if (user == plain) return TRM_OK;
  const trm_onednn_place to = trm_onednn_scratch(draft->sequence, dnnl_memory_desc_get_size(plain));
  TRY(trm_onednn_add_reorder(draft->sequence, user, *place, plain, to, error));
  *place = to;
  return TRM_OK;
}

/* Packs the weights of a forward or data convolution, from operand 1. `copy` is NULL unless they
 * are reversed. */
static trm_status add_weight_packing(convolution_draft *draft, trm_dtype dtype, bool may_repeat,
                                     const trm_onednn_copy *copy, const_dnnl_memory_desc_t packed,
                                     trm_error *error) {
  trm_onednn_sequence *sequence = draft->sequence;
  const size_t bytes = dnnl_memory_desc_get_size(packed);
  const bool is_plain = dnnl_memory_desc_equal(packed, draft->w_user) != 0;
  if (is_plain && copy == NULL && dtype == TRM_F32) return TRM_OK;
  const trm_onednn_place kept =
      may_repeat ? trm_onednn_persistent(sequence, bytes) : trm_onednn_scratch(sequence, bytes);
  if (may_repeat) trm_onednn_pack_begin(sequence, 1);
  TRY(trm_onednn_add_widen(sequence, dtype, draft->p.w.count, false, &draft->w, error));
  if (copy != NULL) {
    const size_t copy_bytes = (size_t)draft->p.w.count * sizeof(float);
    const trm_onednn_place to = is_plain ? kept : trm_onednn_scratch(sequence, copy_bytes);
    TRY(trm_onednn_add_copy(sequence, copy, draft->w, to, error));
    draft->w = to;
  }
  if (!is_plain || copy == NULL) {
    TRY(trm_onednn_add_reorder(sequence, draft->w_user, draft->w, packed, kept, error));
  }
  draft->w = kept;
  trm_onednn_pack_end(sequence);
  return TRM_OK;
}

/* The primitive of a convolution or its data gradient, from draft->x or draft->y to `to`. */
static trm_status add_convolution(convolution_draft *draft, const trm_kernel_request *request,
                                  trm_onednn_place to, trm_error *error) {
  problem *p = &draft->p;
  layout dense = p->w;
  trm_onednn_copy copy;
  const bool is_copied = is_reversed(p);
  if (is_copied) plan_weight_copy(p, &copy, &dense);
  TRY(describe_weights(draft, &dense, error));
  TRY(create_descs(draft, error));
  const_dnnl_memory_desc_t packed =
      dnnl_primitive_desc_query_md(draft->desc, dnnl_query_weights_md, 0);
  TRY(add_weight_packing(draft, trm_operand_shape(request, 1)->dtype,
                         trm_onednn_may_repeat(request, 1), is_copied ? &copy : NULL, packed,
                         error));
  const bool is_data = p->kind == BACKWARD_DATA;
  const trm_onednn_argument arguments[] = {
      is_data ? (trm_onednn_argument){DNNL_ARG_DIFF_DST, draft->y_plain, draft->y}
              : (trm_onednn_argument){DNNL_ARG_SRC, draft->x_plain, draft->x},
      {DNNL_ARG_WEIGHTS, packed, draft->w},
      {is_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, is_data ? draft->x_plain : draft->y_plain, to}};
  return trm_onednn_add_primitive(draft->sequence, draft->desc, arguments, 3, error);
}

/* The primitive of a weight gradient, to draft->w. */
static trm_status add_weight_gradient(convolution_draft *draft, trm_error *error) {
  TRY(describe_weights(draft, &draft->p.w, error));
  TRY(create_descs(draft, error));
  const_dnnl_memory_desc_t packed =
      dnnl_primitive_desc_query_md(draft->desc, dnnl_query_diff_weights_md, 0);
  const bool is_plain = dnnl_memory_desc_equal(packed, draft->w_user) != 0;
  const trm_onednn_place to =
      is_plain ? draft->w : trm_onednn_scratch(draft->sequence, dnnl_memory_desc_get_size(packed));
  const trm_onednn_argument arguments[] = {{DNNL_ARG_SRC, draft->x_plain, draft->x},
                                           {DNNL_ARG_DIFF_DST, draft->y_plain, draft->y},
                                           {DNNL_ARG_DIFF_WEIGHTS, packed, to}};
  TRY(trm_onednn_add_primitive(draft->sequence, draft->desc, arguments, 3, error));
  if (is_plain) return TRM_OK;
  return trm_onednn_add_reorder(draft->sequence, packed, to, draft->w_user, draft->w, error);
}

/* ---- Thin groups ----------------------------------------------------------------------------- */

/* Whether our own kernels serve the problem; fills in theirs, a convolution in every case: the
 * gradient of the data is that of y with the kernel from its end. */
static bool plan_thin(const problem *p, trm_grouped_convolution *thin) {
  if (p->groups == 1 || p->in_channels != p->out_channels || p->spatial > 2) return false;
  const bool is_data = p->kind == BACKWARD_DATA;
  *thin = (trm_grouped_convolution){
      .batch = p->batch, .channels = p->groups * p->in_channels, .group = p->in_channels};
  for (int i = 0; i < 2; ++i) { /* one dimension: a single row */
    const int from = i - (2 - p->spatial);
    const bool is_absent = from < 0;
    const int64_t x_size = is_absent ? 1 : p->x_size[from];
    const int64_t y_size = is_absent ? 1 : p->y_size[from];
    thin->k_size[i] = is_absent ? 1 : p->k_size[from];
    thin->dilation[i] = is_absent ? 1 : p->dilation[from];
    thin->stride[i] = is_absent ? 1 : p->stride[from];
    thin->pad[i] = is_absent ? 0 : p->pad_low[from];
    if (is_data) {
      if (thin->stride[i] > 1) return false;
      thin->pad[i] = (thin->k_size[i] - 1) * thin->dilation[i] - thin->pad[i];
    }
    if (thin->pad[i] < 0) return false;
    thin->x_size[i] = is_data ? y_size : x_size;
    thin->y_size[i] = is_data ? x_size : y_size;
  }
  return trm_grouped_convolution_serves(thin);
}

/* The copy from the weights as HLO has them to the packed ones of our kernels. */
static void plan_thin_copy(const problem *p, const trm_grouped_convolution *thin,
                           trm_onednn_copy *copy) {
  const bool is_data = p->kind == BACKWARD_DATA;
  const int64_t group = thin->group, groups = TRM_GROUPED_LANES / group;
  const int64_t column = group * TRM_GROUPED_LANES, row = thin->k_size[1] * column;
  *copy = (trm_onednn_copy){
      .rank = 6,
      .dims = {thin->channels / TRM_GROUPED_LANES, groups, thin->k_size[0], thin->k_size[1], group,
               group},
      .from_strides = {p->w.group * groups, p->w.group, 0, 0, is_data ? p->w.outer : p->w.inner,
                       is_data ? p->w.inner : p->w.outer},
      .to_strides = {thin->k_size[0] * row, group, row, column, TRM_GROUPED_LANES, 1},
      .from_start = p->w.start};
  for (int i = 0; i < p->spatial; ++i) {
    const int64_t stride = p->w.spatial[i];
    const int to = 2 + (2 - p->spatial) + i;
    copy->from_strides[to] = is_data ? -stride : stride;
    if (is_data) copy->from_start += (p->k_size[i] - 1) * stride;
  }
}

static trm_status add_thin(convolution_draft *draft, const trm_kernel_request *request,
                           const trm_grouped_convolution *thin, trm_onednn_place to,
                           trm_error *error) {
  trm_onednn_sequence *sequence = draft->sequence;
  const problem *p = &draft->p;
  const trm_grouped_convolution *own = trm_arena_copy(request->arena, thin, sizeof *thin);
  CHECK_MEMORY(own, "a grouped convolution");
  trm_onednn_copy copy;
  plan_thin_copy(p, thin, &copy);
  const size_t bytes = (size_t)p->w.count * sizeof(float);
  if (p->kind == BACKWARD_WEIGHTS) {
    const size_t parts = (size_t)trm_grouped_convolution_partial_sums(thin);
    const trm_onednn_place packed = trm_onednn_scratch(sequence, parts * bytes);
    TRY(trm_onednn_add_function(sequence, trm_grouped_convolution_backward_weights, own, draft->x,
                                draft->y, packed, error));
    trm_onednn_copy back = copy;
    memcpy(back.from_strides, copy.to_strides, sizeof back.from_strides);
    memcpy(back.to_strides, copy.from_strides, sizeof back.to_strides);
    back.from_start = 0;
    return trm_onednn_add_copy(sequence, &back, packed, draft->w, error);
  }
  const bool may_repeat = trm_onednn_may_repeat(request, 1);
  const trm_onednn_place kept =
      may_repeat ? trm_onednn_persistent(sequence, bytes) : trm_onednn_scratch(sequence, bytes);
  if (may_repeat) trm_onednn_pack_begin(sequence, 1);
  TRY(trm_onednn_add_widen(sequence, trm_operand_shape(request, 1)->dtype, p->w.count, false,
                           &draft->w, error));
  TRY(trm_onednn_add_copy(sequence, &copy, draft->w, kept, error));
  trm_onednn_pack_end(sequence);
  return trm_onednn_add_function(sequence, trm_grouped_convolution_forward, own,
                                 p->kind == FORWARD ? draft->x : draft->y, kept, to, error);
}

/* ---- The whole ------------------------------------------------------------------------------- */

typedef struct clearing {
  size_t bytes;
} clearing;

static void run_clear(const void *data, const void *a, const void *b, void *out) {
  (void)a, (void)b;
  memset(out, 0, ((const clearing *)data)->bytes);
}

static trm_status add_operations(convolution_draft *draft, const trm_kernel_request *request,
                                 trm_error *error) {
  trm_onednn_sequence *sequence = draft->sequence;
  problem *p = &draft->p;
  TRY(describe_data(draft, &p->x, p->groups * p->in_channels, p->x_size, &draft->x_user,
                    &draft->x_plain, error));
  TRY(describe_data(draft, &p->y, p->groups * p->out_channels, p->y_size, &draft->y_user,
                    &draft->y_plain, error));
  trm_grouped_convolution thin;
  const bool is_thin = plan_thin(p, &thin);

  const trm_dtype dtype = request->instruction->shape.dtype;
  const int64_t result_count = trm_shape_count(&request->instruction->shape);
  trm_onednn_place result = trm_onednn_result(0);
  if (dtype != TRM_F32) {
    result = trm_onednn_scratch(sequence, (size_t)result_count * sizeof(float));
  }
  const bool is_data = p->kind == BACKWARD_DATA, is_weights = p->kind == BACKWARD_WEIGHTS;
  draft->x = is_data ? result : trm_onednn_operand(0, 0);
  draft->y = is_data ? trm_onednn_operand(0, 0) : is_weights ? trm_onednn_operand(1, 0) : result;
  draft->w = is_weights ? result : trm_onednn_operand(1, 0);
  if (!is_data) {
    TRY(trm_onednn_add_widen(sequence, trm_operand_shape(request, 0)->dtype, p->x.count, false,
                             &draft->x, error));
  }
  draft->x.offset += (size_t)p->x.start * sizeof(float);
  if (!is_data) TRY(add_input_reorder(draft, draft->x_user, draft->x_plain, &draft->x, error));
  if (is_data || is_weights) {
    TRY(trm_onednn_add_widen(sequence, trm_operand_shape(request, is_data ? 0 : 1)->dtype,
                             p->y.count, false, &draft->y, error));
    TRY(add_input_reorder(draft, draft->y_user, draft->y_plain, &draft->y, error));
  }

  if (is_weights) {
    if (is_thin) TRY(add_thin(draft, request, &thin, draft->w, error));
    else TRY(add_weight_gradient(draft, error));
  } else {
    if (is_data && p->is_x_cropped) {
      clearing *clear = ARENA_NEW(request->arena, clearing, 1);
      CHECK_MEMORY(clear, "a oneDNN kernel");
      clear->bytes = (size_t)result_count * sizeof(float);
      TRY(trm_onednn_add_function(sequence, run_clear, clear, result, result, result, error));
    }
    const_dnnl_memory_desc_t user = is_data ? draft->x_user : draft->y_user;
    const_dnnl_memory_desc_t plain = is_data ? draft->x_plain : draft->y_plain;
    const trm_onednn_place home = is_data ? draft->x : draft->y;
    const trm_onednn_place to =
        user == plain ? home : trm_onednn_scratch(sequence, dnnl_memory_desc_get_size(plain));
    if (is_thin) TRY(add_thin(draft, request, &thin, to, error));
    else TRY(add_convolution(draft, request, to, error));
    if (user != plain) TRY(trm_onednn_add_reorder(sequence, plain, to, user, home, error));
  }
  if (dtype == TRM_F32) return TRM_OK;
  return trm_onednn_add_narrow(sequence, dtype, result_count, result, error);
}

/* As bytes touched; four operations cost what a byte does. */
static double work_of(const problem *p) {
  double outputs = (double)(p->batch * p->groups * p->out_channels), kernel = 1;
  for (int i = 0; i < p->spatial; ++i) {
    outputs *= (double)p->y_size[i], kernel *= (double)p->k_size[i];
  }
  const double bytes = 4 * ((double)p->x.count + (double)p->y.count + (double)p->w.count);
  const double operations = outputs * kernel * 2 * (double)p->in_channels;
  return operations / 4 > bytes ? operations / 4 : bytes;
}

static const char *kernel_name(propagation kind) {
  switch (kind) {
    case FORWARD: return "onednn.convolution.forward";
    case BACKWARD_DATA: return "onednn.convolution.backward_data";
    case BACKWARD_WEIGHTS: return "onednn.convolution.backward_weights";
  }
  return "onednn.convolution";
}

trm_status trm_onednn_convolution_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                         bool *out_supported, trm_error *error) {
  *out_supported = false;
  convolution_draft draft = {0};
  if (!restate(request, &draft.p)) return TRM_OK;
  trm_status status =
      trm_onednn_sequence_create(request, work_of(&draft.p), &draft.sequence, error);
  if (status == TRM_OK) {
    draft.attributes = trm_onednn_attributes();
    if (draft.attributes == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while allocating a kernel");
    }
  }
  if (status == TRM_OK) status = add_operations(&draft, request, error);
  if (status == TRM_OK) {
    status =
        trm_onednn_sequence_finish(draft.sequence, kernel_name(draft.p.kind), out_kernel, error);
  }
  if (draft.forward != NULL) dnnl_primitive_desc_destroy(draft.forward);
  if (draft.desc != NULL) dnnl_primitive_desc_destroy(draft.desc);
  if (draft.attributes != NULL) dnnl_primitive_attr_destroy(draft.attributes);
  if (status != TRM_OK) trm_onednn_sequence_free(draft.sequence);
  if (status == TRM_UNIMPLEMENTED) return TRM_OK;
  *out_supported = status == TRM_OK;
  return status;
}

/* Owns: HLO convolutions by oneDNN. A convolution is first restated (onednn_convolution_problem.h),
 * then built for oneDNN.
 *
 * oneDNN gets activations with channels last; others are reordered. It chooses the format of the
 * weights, which are packed again when their contents change. Groups with few channels have kernels
 * of our own (grouped_convolution.h). Gradients of weights are in onednn_weight_gradient.c. */
#include <string.h>

#include "host/ops/convolutions/grouped_convolution.h"
#include "host/ops/convolutions/onednn_convolution_draft.h"
#include "host/ops/convolutions/pointwise_convolution.h"
#include "host/ops/convolutions/winograd.h"
#include "host/ops/products/half_tiles.h"

/* ---- Building -------------------------------------------------------------------------------- */

/* Whether a weight gradient of oneDNN 3.2 reads or writes outside its arrays, or is wrong. Random
 * tests found two: those in three dimensions by generated code, when the kernel is large against
 * the image; and without AVX-512 those of a kernel of one element, when channels are no whole
 * vectors. */
static bool is_wrong(const trm_convolution_problem *p, const char *implementation) {
  if (p->kind != TRM_BACKWARD_WEIGHTS) return false;
  if (strncmp(implementation, "jit_1x1:avx", 11) == 0 && strstr(implementation, "512") == NULL) {
    return p->in_channels % 8 != 0 || p->out_channels % 8 != 0;
  }
  if (p->spatial < 3 || strncmp(implementation, "ref", 3) == 0) return false;
  for (int i = 0; i < p->spatial; ++i) {
    const int64_t pad = p->pad_low[i] > p->pad_high[i] ? p->pad_low[i] : p->pad_high[i];
    if ((p->k_size[i] - 1) * p->dilation[i] + 1 + pad > p->x_size[i]) return true;
  }
  return false;
}

trm_status trm_convolution_describe_data(trm_convolution_draft *draft, dnnl_data_type_t type,
                                         const trm_convolution_layout *a, int64_t channels,
                                         const int64_t *size, const_dnnl_memory_desc_t *out_user,
                                         const_dnnl_memory_desc_t *out_plain, trm_error *error) {
  const int rank = 2 + draft->p.spatial;
  int64_t dims[2 + TRM_MAX_SPATIAL] = {draft->p.batch, channels};
  int64_t strides[2 + TRM_MAX_SPATIAL] = {a->outer, a->inner};
  int64_t dense[2 + TRM_MAX_SPATIAL] = {0, 1};
  for (int i = 2; i < rank; ++i) dims[i] = size[i - 2], strides[i] = a->spatial[i - 2];
  int64_t stride = channels;
  for (int i = rank - 1; i >= 2; --i) dense[i] = stride, stride *= dims[i];
  dense[0] = stride;
  bool is_dense = true;
  for (int i = 0; i < rank; ++i) is_dense = is_dense && (dims[i] == 1 || strides[i] == dense[i]);
  TRY(trm_onednn_describe(draft->sequence, type, rank, dims, dense, out_plain, error));
  *out_user = *out_plain;
  if (is_dense) return TRM_OK;
  return trm_onednn_describe(draft->sequence, type, rank, dims, strides, out_user, error);
}

/* Whether weights are stored from the end. oneDNN cannot describe that, so we copy them. */
static bool is_reversed(const trm_convolution_problem *p) {
  for (int i = 0; i < p->spatial; ++i) {
    if (p->w.spatial[i] < 0) return true;
  }
  return false;
}

/* Sets *copy to the copy of HLO's weights to [group][kernel][in][out], and *dense to the layout of
 * the result. */
static void plan_weight_copy(const trm_convolution_problem *p, trm_onednn_copy *copy,
                             trm_convolution_layout *dense) {
  *dense = (trm_convolution_layout){.outer = 1, .inner = p->out_channels};
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

trm_status trm_convolution_describe_weights(trm_convolution_draft *draft,
                                            const trm_convolution_layout *w, trm_error *error) {
  const trm_convolution_problem *p = &draft->p;
  int64_t dims[3 + TRM_MAX_SPATIAL], strides[3 + TRM_MAX_SPATIAL];
  const dnnl_data_type_t type = p->kind == TRM_BACKWARD_WEIGHTS ? draft->out : draft->in;
  int r = 0;
  if (p->groups > 1) dims[r] = p->groups, strides[r++] = w->group;
  dims[r] = p->out_channels, strides[r++] = w->outer;
  dims[r] = p->in_channels, strides[r++] = w->inner;
  for (int i = 0; i < p->spatial; ++i) dims[r] = p->k_size[i], strides[r++] = w->spatial[i];
  TRY(trm_onednn_describe(draft->sequence, type, r, dims, strides, &draft->w_user, error));
  return trm_onednn_describe_any(draft->sequence, type, r, dims, &draft->w_any, error);
}

/* Describes the same array with bfloat16s, in any format. */
static trm_status describe_as_bfloat16(trm_convolution_draft *draft, const_dnnl_memory_desc_t *desc,
                                       trm_error *error) {
  int rank = 0;
  const dnnl_dims_t *dims = NULL;
  TRY_DNNL(dnnl_memory_desc_query(*desc, dnnl_query_ndims_s32, &rank), "describing memory");
  TRY_DNNL(dnnl_memory_desc_query(*desc, dnnl_query_dims, (void *)&dims), "describing memory");
  return trm_onednn_describe_any(draft->sequence, dnnl_bf16, rank, *dims, desc, error);
}

trm_status trm_convolution_create_descs(trm_convolution_draft *draft, trm_error *error) {
  const trm_convolution_problem *p = &draft->p;
  dnnl_dims_t strides, dilates, low, high;
  for (int i = 0; i < p->spatial; ++i) {
    strides[i] = p->stride[i], dilates[i] = p->dilation[i] - 1;
    low[i] = p->pad_low[i], high[i] = p->pad_high[i];
  }
  dnnl_engine_t engine = trm_onednn_engine();
  const_dnnl_memory_desc_t x = draft->x_plain, w = draft->w_any;
  dnnl_primitive_desc_t *forward = p->kind == TRM_FORWARD ? &draft->desc : &draft->forward;
  if (draft->pieces > 0) { /* no input of a hint is a float */
    if (p->kind == TRM_BACKWARD_DATA) TRY(describe_as_bfloat16(draft, &x, error));
    if (p->kind == TRM_BACKWARD_WEIGHTS) TRY(describe_as_bfloat16(draft, &w, error));
  }
  TRY_DNNL(
      dnnl_convolution_forward_primitive_desc_create(
          forward, engine, p->kind == TRM_FORWARD ? dnnl_forward_inference : dnnl_forward_training,
          dnnl_convolution_direct, x, w, NULL, draft->y_plain, strides, dilates, low, high,
          draft->attributes),
      "choosing a convolution");
  if (p->kind == TRM_BACKWARD_DATA) {
    TRY_DNNL(dnnl_convolution_backward_data_primitive_desc_create(
                 &draft->desc, engine, dnnl_convolution_direct, draft->x_plain, draft->w_any,
                 draft->y_plain, strides, dilates, low, high, draft->forward, draft->attributes),
             "choosing a convolution's gradient");
  } else if (p->kind == TRM_BACKWARD_WEIGHTS) {
    TRY_DNNL(dnnl_convolution_backward_weights_primitive_desc_create(
                 &draft->desc, engine, dnnl_convolution_direct, draft->x_plain, draft->w_any, NULL,
                 draft->y_plain, strides, dilates, low, high, draft->forward, draft->attributes),
             "choosing a convolution's gradient");
    for (;;) {
      const char *name = NULL;
      TRY_DNNL(dnnl_primitive_desc_query(draft->desc, dnnl_query_impl_info_str, 0, (void *)&name),
               "asking for an implementation's name");
      if (!is_wrong(p, name)) break;
      if (dnnl_primitive_desc_next_impl(draft->desc) != dnnl_success) return TRM_UNIMPLEMENTED;
    }
  }
  return TRM_OK;
}

/* Brings an activation into the primitive's layout, and moves *place there. */
static trm_status add_input_reorder(trm_convolution_draft *draft, const_dnnl_memory_desc_t user,
                                    const_dnnl_memory_desc_t plain, trm_onednn_place *place,
                                    trm_error *error) {
  if (user == plain) return TRM_OK;
  const trm_onednn_place to = trm_onednn_scratch(draft->sequence, dnnl_memory_desc_get_size(plain));
  TRY(trm_onednn_add_reorder(draft->sequence, user, *place, plain, to, error));
  *place = to;
  return TRM_OK;
}

/* Packs the weights of a convolution or its data gradient, from operand 1. `copy` is NULL unless
 * they are stored from the end; `split`, which handles that too, unless they become pieces. */
static trm_status add_weight_packing(trm_convolution_draft *draft, trm_dtype dtype, bool may_repeat,
                                     const trm_onednn_copy *copy, const trm_half_split *split,
                                     const_dnnl_memory_desc_t packed, trm_error *error) {
  trm_onednn_sequence *sequence = draft->sequence;
  const size_t bytes = dnnl_memory_desc_get_size(packed);
  const bool is_plain = dnnl_memory_desc_equal(packed, draft->w_user) != 0;
  if (is_plain && copy == NULL && dtype == TRM_F32) return TRM_OK;
  const trm_onednn_place kept =
      may_repeat ? trm_onednn_persistent(sequence, bytes) : trm_onednn_scratch(sequence, bytes);
  if (may_repeat) trm_onednn_pack_begin(sequence, 1);
  if (split != NULL) TRY(trm_onednn_add_split(sequence, split, false, &draft->w, error));
  else TRY(trm_onednn_add_widen(sequence, dtype, draft->p.w.count, false, &draft->w, error));
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

/* Sets *split to cut the weights into pieces, [group][kernel][in][out], and *dense to the layout of
 * the result. Channels of draft->p count pieces. */
static void plan_weight_split(const trm_convolution_draft *draft, trm_dtype dtype,
                              trm_half_split *split, trm_convolution_layout *dense) {
  const trm_convolution_problem *p = &draft->p;
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
  const int64_t in = is_data ? p->in_channels : p->in_channels / draft->pieces;
  const int64_t out = is_data ? p->out_channels / draft->pieces : p->out_channels;
  trm_onednn_copy copy;
  plan_weight_copy(p, &copy, dense);
  *split = (trm_half_split){.dtype = dtype,
                            .pieces = draft->pieces,
                            .is_right = true,
                            .from_start = p->w.start,
                            .piece_stride = is_data ? out : in * dense->inner};
  trm_half_split_push(split, p->groups, p->w.group, dense->group);
  for (int i = 0; i < p->spatial; ++i) {
    trm_half_split_push(split, p->k_size[i], p->w.spatial[i], dense->spatial[i]);
  }
  trm_half_split_push(split, in, p->w.inner, dense->inner);
  trm_half_split_push(split, out, p->w.outer, dense->outer);
}

/* Adds the primitive of a convolution (from draft->x) or of its data gradient (from draft->y). */
static trm_status add_convolution(trm_convolution_draft *draft, const trm_kernel_request *request,
                                  trm_onednn_place to, trm_error *error) {
  trm_convolution_problem *p = &draft->p;
  trm_convolution_layout dense = p->w;
  trm_onednn_copy copy;
  trm_half_split split;
  const bool is_split = draft->pieces > 0, is_copied = !is_split && is_reversed(p);
  const trm_dtype dtype = trm_operand_shape(request, 1)->dtype;
  if (is_copied) plan_weight_copy(p, &copy, &dense);
  if (is_split) plan_weight_split(draft, dtype, &split, &dense);
  TRY(trm_convolution_describe_weights(draft, &dense, error));
  TRY(trm_convolution_create_descs(draft, error));
  const_dnnl_memory_desc_t packed =
      dnnl_primitive_desc_query_md(draft->desc, dnnl_query_weights_md, 0);
  TRY(add_weight_packing(draft, dtype, draft->keeps_weights, is_copied ? &copy : NULL,
                         is_split ? &split : NULL, packed, error));
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
  const trm_onednn_argument arguments[] = {
      is_data ? (trm_onednn_argument){DNNL_ARG_DIFF_DST, draft->y_plain, draft->y}
              : (trm_onednn_argument){DNNL_ARG_SRC, draft->x_plain, draft->x},
      {DNNL_ARG_WEIGHTS, packed, draft->w},
      {is_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, is_data ? draft->x_plain : draft->y_plain, to}};
  return trm_onednn_add_primitive(draft->sequence, draft->desc, arguments, 3, error);
}

/* ---- Thin groups ----------------------------------------------------------------------------- */

/* Whether our own kernels serve the problem. Sets *thin, which is always a convolution: a data
 * gradient is the convolution of y with the kernel from its end. */
static bool plan_thin(const trm_convolution_problem *p, trm_grouped_convolution *thin) {
  if (p->groups == 1 || p->in_channels != p->out_channels || p->spatial > 2) return false;
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
  *thin = (trm_grouped_convolution){
      .batch = p->batch, .channels = p->groups * p->in_channels, .group = p->in_channels};
  for (int i = 0; i < 2; ++i) { /* a single dimension becomes a row */
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

/* Sets *copy to the copy of HLO's weights to the packed ones of our kernels. */
static void plan_thin_copy(const trm_convolution_problem *p, const trm_grouped_convolution *thin,
                           trm_onednn_copy *copy) {
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
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

/* Whether our kernels read and write the halves themselves, in HLO's layout. */
static bool reads_halves(const trm_convolution_problem *p, const trm_kernel_request *request) {
  return trm_operand_shape(request, 0)->dtype == TRM_F16 &&
         request->instruction->shape.dtype == TRM_F16 && p->kind != TRM_BACKWARD_WEIGHTS &&
         !p->is_x_cropped &&
         trm_convolution_is_channels_last(p, &p->x, p->groups * p->in_channels, p->x_size) &&
         trm_convolution_is_channels_last(p, &p->y, p->groups * p->out_channels, p->y_size);
}

static trm_status add_thin(trm_convolution_draft *draft, const trm_kernel_request *request,
                           const trm_grouped_convolution *thin, trm_onednn_place to,
                           trm_error *error) {
  draft->way = "grouped";
  trm_onednn_sequence *sequence = draft->sequence;
  const trm_convolution_problem *p = &draft->p;
  const trm_grouped_convolution *own = trm_arena_copy(request->arena, thin, sizeof *thin);
  CHECK_MEMORY(own, "a grouped convolution");
  trm_onednn_copy copy;
  plan_thin_copy(p, thin, &copy);
  const size_t bytes = (size_t)p->w.count * sizeof(float);
  if (p->kind == TRM_BACKWARD_WEIGHTS) {
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
                                 p->kind == TRM_FORWARD ? draft->x : draft->y, kept, to, error);
}

/* ---- Halves ---------------------------------------------------------------------------------- */

/* Cuts an activation into pieces, and restates it as dense with channels last. First pieces of a
 * group's channels come before the second ones. In a weight gradient, the batch of first pieces
 * comes before that of the second ones. */
static trm_status add_data_split(trm_convolution_draft *draft, trm_dtype dtype, bool is_x,
                                 trm_error *error) {
  const trm_convolution_problem *p = &draft->p;
  const bool by_image = p->kind == TRM_BACKWARD_WEIGHTS;
  trm_convolution_layout *a = is_x ? &draft->p.x : &draft->p.y;
  trm_onednn_place *place = is_x ? &draft->x : &draft->y;
  if (dtype == TRM_BF16) return TRM_OK; /* it is one piece already */
  const int64_t *size = is_x ? p->x_size : p->y_size;
  const int64_t channels = is_x ? p->in_channels : p->out_channels;
  const int64_t wide = by_image ? channels : channels * draft->pieces;
  trm_convolution_layout dense = {.inner = 1};
  int64_t stride = wide * p->groups;
  for (int i = p->spatial - 1; i >= 0; --i) dense.spatial[i] = stride, stride *= size[i];
  dense.outer = stride;
  trm_half_split split = {.dtype = dtype,
                          .pieces = draft->pieces,
                          .is_right = by_image && !is_x,
                          .from_start = a->start,
                          .piece_stride = by_image ? stride * p->batch : channels};
  trm_half_split_push(&split, p->batch, a->outer, dense.outer);
  for (int i = 0; i < p->spatial; ++i) {
    trm_half_split_push(&split, size[i], a->spatial[i], dense.spatial[i]);
  }
  if (!by_image) trm_half_split_push(&split, p->groups, a->inner * channels, wide);
  trm_half_split_push(&split, by_image ? channels * p->groups : channels, a->inner, 1);
  dense.count = trm_half_split_count(&split);
  *a = dense;
  return trm_onednn_add_split(draft->sequence, &split, false, place, error);
}

/* Cuts the activations that are multiplied into pieces. The problem then counts pieces. */
static trm_status add_pieces(trm_convolution_draft *draft, const trm_kernel_request *request,
                             trm_error *error) {
  trm_convolution_problem *p = &draft->p;
  const trm_dtype dtype = trm_operand_shape(request, 0)->dtype;
  if (p->kind != TRM_BACKWARD_DATA) TRY(add_data_split(draft, dtype, true, error));
  if (p->kind != TRM_FORWARD) TRY(add_data_split(draft, dtype, false, error));
  if (p->kind == TRM_FORWARD) p->in_channels *= draft->pieces;
  else if (p->kind == TRM_BACKWARD_DATA) p->out_channels *= draft->pieces;
  else p->batch *= draft->pieces;
  return TRM_OK;
}

/* How halves are multiplied in this convolution, on this CPU. */
static trm_half_products products_of(const trm_kernel_request *request,
                                     const trm_convolution_problem *p) {
  int64_t x = p->batch, y = p->batch, kernel = 1;
  for (int i = 0; i < p->spatial; ++i) {
    x *= p->x_size[i], y *= p->y_size[i], kernel *= p->k_size[i];
  }
  trm_half_problem halves = {.lhs = trm_operand_shape(request, 0)->dtype,
                             .rhs = trm_operand_shape(request, 1)->dtype,
                             .result = request->instruction->shape.dtype,
                             .rows = y,
                             .columns = p->out_channels,
                             .inner = p->in_channels * kernel};
  trm_half_tiles unused;
  /* With tiles, thin groups would cost more for cutting pieces than for products. */
  halves.by_tiles =
      p->groups == 1 && p->in_channels >= 16 && trm_convolution_plan_tiles(p, &unused);
  if (p->kind == TRM_BACKWARD_DATA) {
    halves.rows = x, halves.columns = p->in_channels, halves.inner = p->out_channels * kernel;
  } else if (p->kind == TRM_BACKWARD_WEIGHTS) {
    halves.rows = p->in_channels * kernel, halves.inner = y;
  }
  return trm_half_products_choose(trm_half_units_here(), request->module->half_products, &halves);
}

/* ---- The whole ------------------------------------------------------------------------------- */

typedef struct clearing {
  size_t bytes;
} clearing;

static void run_clear(const void *data, const void *a, const void *b, void *out) {
  (void)a, (void)b;
  memset(out, 0, ((const clearing *)data)->bytes);
}

/* Brings the activations that are read to the type and layout of the primitive. */
static trm_status add_inputs(trm_convolution_draft *draft, const trm_kernel_request *request,
                             trm_error *error) {
  trm_onednn_sequence *sequence = draft->sequence;
  trm_convolution_problem *p = &draft->p;
  const bool is_data = p->kind == TRM_BACKWARD_DATA, is_weights = p->kind == TRM_BACKWARD_WEIGHTS;
  const trm_dtype dtypes[2] = {trm_operand_shape(request, 0)->dtype,
                               trm_operand_shape(request, is_data ? 0 : 1)->dtype}; /* x, y */
  const bool in_pieces = draft->pieces > 0, reads_y = is_data || is_weights;
  const dnnl_data_type_t x_type = is_data ? draft->out : draft->in;
  const dnnl_data_type_t y_type = reads_y ? draft->in : draft->out;
  if (in_pieces) TRY(add_pieces(draft, request, error));
  if (!in_pieces && !is_data) {
    TRY(trm_onednn_add_widen(sequence, dtypes[0], p->x.count, false, &draft->x, error));
  }
  if (!in_pieces && reads_y) {
    TRY(trm_onednn_add_widen(sequence, dtypes[1], p->y.count, false, &draft->y, error));
  }
  TRY(trm_convolution_describe_data(draft, x_type, &p->x, p->groups * p->in_channels, p->x_size,
                                    &draft->x_user, &draft->x_plain, error));
  TRY(trm_convolution_describe_data(draft, y_type, &p->y, p->groups * p->out_channels, p->y_size,
                                    &draft->y_user, &draft->y_plain, error));
  draft->x.offset += (size_t)p->x.start * dnnl_data_type_size(x_type);
  if (!is_data) TRY(add_input_reorder(draft, draft->x_user, draft->x_plain, &draft->x, error));
  if (!reads_y) return TRM_OK;
  return add_input_reorder(draft, draft->y_user, draft->y_plain, &draft->y, error);
}

static trm_status add_operations(trm_convolution_draft *draft, const trm_kernel_request *request,
                                 trm_error *error) {
  trm_onednn_sequence *sequence = draft->sequence;
  trm_convolution_problem *p = &draft->p;
  trm_half_tiles tiles;
  if (draft->pieces > 0 && trm_operand_shape(request, 0)->dtype == TRM_F16 &&
      trm_convolution_plan_tiles(p, &tiles)) {
    tiles.products = draft->products;
    draft->way = "tiles";
    return trm_half_tiles_add(sequence, request, &tiles, error);
  }
  trm_grouped_convolution thin;
  const bool is_thin = draft->pieces == 0 && plan_thin(p, &thin);
  const trm_dtype dtype = request->instruction->shape.dtype;
  if (is_thin && reads_halves(p, request)) {
    thin.is_half = true;
    draft->x = draft->y = trm_onednn_operand(0, 0), draft->w = trm_onednn_operand(1, 0);
    return add_thin(draft, request, &thin, trm_onednn_result(0), error);
  }
  trm_panel_product product;
  if (draft->pieces == 0 && trm_pointwise_reads_halves(p, request, &product)) {
    draft->w = trm_onednn_operand(1, 0);
    return trm_pointwise_add(draft, request, &product, trm_onednn_operand(0, 0),
                             trm_onednn_result(0), error);
  }
  const int64_t result_count = trm_shape_count(&request->instruction->shape);
  trm_onednn_place result = trm_onednn_result(0);
  const bool narrows = dtype != TRM_F32 && draft->out == dnnl_f32;
  const size_t result_bytes = (size_t)result_count * dnnl_data_type_size(draft->out);
  if (narrows) result = trm_onednn_scratch(sequence, result_bytes);
  const bool is_data = p->kind == TRM_BACKWARD_DATA, is_weights = p->kind == TRM_BACKWARD_WEIGHTS;
  draft->x = is_data ? result : trm_onednn_operand(0, 0);
  draft->y = is_data ? trm_onednn_operand(0, 0) : is_weights ? trm_onednn_operand(1, 0) : result;
  draft->w = is_weights ? result : trm_onednn_operand(1, 0);
  TRY(add_inputs(draft, request, error));

  if (is_weights) {
    if (is_thin) TRY(add_thin(draft, request, &thin, draft->w, error));
    else TRY(trm_convolution_add_weight_gradient(draft, error));
  } else {
    if (is_data && p->is_x_cropped) {
      clearing *clear = ARENA_NEW(request->arena, clearing, 1);
      CHECK_MEMORY(clear, "a oneDNN kernel");
      clear->bytes = result_bytes;
      TRY(trm_onednn_add_function(sequence, run_clear, clear, result, result, result, error));
    }
    const_dnnl_memory_desc_t user = is_data ? draft->x_user : draft->y_user;
    const_dnnl_memory_desc_t plain = is_data ? draft->x_plain : draft->y_plain;
    const trm_onednn_place home = is_data ? draft->x : draft->y;
    const trm_onednn_place to =
        user == plain ? home : trm_onednn_scratch(sequence, dnnl_memory_desc_get_size(plain));
    if (is_thin) TRY(add_thin(draft, request, &thin, to, error));
    else if (draft->pieces == 0 && trm_pointwise_plan(p, draft->keeps_weights, &product))
      TRY(trm_pointwise_add(draft, request, &product, draft->x, to, error));
    else TRY(add_convolution(draft, request, to, error));
    if (user != plain) TRY(trm_onednn_add_reorder(sequence, plain, to, user, home, error));
  }
  if (!narrows) return TRM_OK;
  return trm_onednn_add_narrow(sequence, dtype, result_count, result, error);
}

/* The work in bytes; four operations cost as much as touching a byte. */
static double work_of(const trm_convolution_problem *p) {
  double outputs = (double)(p->batch * p->groups * p->out_channels), kernel = 1;
  for (int i = 0; i < p->spatial; ++i) {
    outputs *= (double)p->y_size[i], kernel *= (double)p->k_size[i];
  }
  const double bytes = 4 * ((double)p->x.count + (double)p->y.count + (double)p->w.count);
  const double operations = outputs * kernel * 2 * (double)p->in_channels;
  return operations / 4 > bytes ? operations / 4 : bytes;
}

static const char *kernel_name(trm_propagation kind) {
  switch (kind) {
    case TRM_FORWARD: return "convolution.forward";
    case TRM_BACKWARD_DATA: return "convolution.backward_data";
    case TRM_BACKWARD_WEIGHTS: return "convolution.backward_weights";
  }
  return "convolution";
}

/* Creates the kernel of oneDNN; `keeps_weights`: packed, where they may serve again. */
static trm_status create_direct(const trm_kernel_request *request, const trm_convolution_problem *p,
                                bool keeps_weights, trm_kernel *out_kernel, bool *out_supported,
                                trm_error *error) {
  trm_convolution_draft draft = {.arena = request->arena, .p = *p, .way = "onednn"};
  draft.keeps_weights = keeps_weights && trm_onednn_may_repeat(request, 1);
  draft.products = products_of(request, &draft.p);
  draft.pieces = trm_half_products_pieces(draft.products);
  draft.in = draft.pieces > 0 ? dnnl_bf16 : dnnl_f32;
  const bool rounds =
      draft.products == TRM_HALF_PRODUCTS_BFLOAT16 && request->instruction->shape.dtype == TRM_BF16;
  draft.out = rounds ? dnnl_bf16 : dnnl_f32;
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
    status = trm_onednn_sequence_finish(draft.sequence, draft.way, kernel_name(draft.p.kind),
                                        draft.products, out_kernel, error);
  }
  if (draft.forward != NULL) dnnl_primitive_desc_destroy(draft.forward);
  if (draft.desc != NULL) dnnl_primitive_desc_destroy(draft.desc);
  if (draft.attributes != NULL) dnnl_primitive_attr_destroy(draft.attributes);
  if (status != TRM_OK) trm_onednn_sequence_free(draft.sequence);
  if (status == TRM_UNIMPLEMENTED) return TRM_OK;
  *out_supported = status == TRM_OK;
  return status;
}

trm_status trm_onednn_convolution_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                         bool *out_supported, trm_error *error) {
  *out_supported = false;
  trm_convolution_problem p;
  if (!trm_convolution_restate(request, &p)) return TRM_OK;
  trm_winograd winograd;
  const trm_dtype dtype = request->instruction->shape.dtype;
  const bool is_winograd = trm_operand_shape(request, 0)->dtype == dtype &&
                           trm_operand_shape(request, 1)->dtype == dtype &&
                           products_of(request, &p) == TRM_HALF_PRODUCTS_FLOAT &&
                           trm_winograd_plan(&p, &winograd);
  TRY(create_direct(request, &p, !is_winograd, out_kernel, out_supported, error));
  if (!is_winograd || !*out_supported) return TRM_OK;
  const char *name =
      p.kind == TRM_FORWARD ? "winograd.convolution.forward" : "winograd.convolution.backward_data";
  *out_supported = false;
  const trm_kernel direct = *out_kernel;
  TRY(trm_winograd_create(request, &winograd, name, &direct, out_kernel, error));
  *out_supported = true;
  return TRM_OK;
}

/* Owns: convolutions and their gradients by the data by oneDNN, and what its gradients of weights
 * (onednn_weight_gradient.c) share with them.
 *
 * oneDNN gets activations with channels last; others are reordered. It chooses the format of the
 * weights, which are packed again when their contents change. */
#include <string.h>

#include "host/ops/convolutions/convolution_draft.h"

/* ---- Descriptors ----------------------------------------------------------------------------- */

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
static void plan_weight_copy(const trm_convolution_problem *p, trm_strided_copy *copy,
                             trm_convolution_layout *dense) {
  *dense = (trm_convolution_layout){.outer = 1, .inner = p->out_channels};
  int64_t stride = p->out_channels * p->in_channels;
  for (int i = p->spatial - 1; i >= 0; --i) dense->spatial[i] = stride, stride *= p->k_size[i];
  dense->group = stride;
  *copy = (trm_strided_copy){.rank = p->spatial + 3, .from_start = p->w.start};
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

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Packs the weights of a convolution or its data gradient, from operand 1. `copy` is NULL unless
 * they are stored from the end; `split`, which handles that too, unless they become pieces. */
static trm_status add_weight_packing(trm_convolution_draft *draft, trm_dtype dtype, bool may_repeat,
                                     const trm_strided_copy *copy, const trm_half_split *split,
                                     const_dnnl_memory_desc_t packed, trm_error *error) {
  trm_sequence *sequence = draft->sequence;
  const size_t bytes = dnnl_memory_desc_get_size(packed);
  const bool is_plain = dnnl_memory_desc_equal(packed, draft->w_user) != 0;
  if (is_plain && copy == NULL && dtype == TRM_F32) return TRM_OK;
  const trm_place kept =
      may_repeat ? trm_sequence_persistent(sequence, bytes) : trm_sequence_scratch(sequence, bytes);
  if (may_repeat) trm_sequence_pack_begin(sequence, 1);
  if (split != NULL) TRY(trm_sequence_add_split(sequence, split, false, &draft->w, error));
  else TRY(trm_sequence_add_widen(sequence, dtype, draft->p.w.count, false, &draft->w, error));
  if (copy != NULL) {
    const size_t copy_bytes = (size_t)draft->p.w.count * sizeof(float);
    const trm_place to = is_plain ? kept : trm_sequence_scratch(sequence, copy_bytes);
    TRY(trm_sequence_add_copy(sequence, copy, draft->w, to, error));
    draft->w = to;
  }
  if (!is_plain || copy == NULL) {
    TRY(trm_onednn_add_reorder(sequence, draft->w_user, draft->w, packed, kept, error));
  }
  draft->w = kept;
  trm_sequence_pack_end(sequence);
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
  trm_strided_copy copy;
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
trm_status trm_onednn_convolution_add(trm_convolution_draft *draft, trm_place to,
                                      trm_error *error) {
  trm_convolution_problem *p = &draft->p;
  trm_convolution_layout dense = p->w;
  trm_strided_copy copy;
  trm_half_split split;
  const bool is_split = draft->pieces > 0, is_copied = !is_split && is_reversed(p);
  const trm_dtype dtype = trm_operand_shape(draft->request, 1)->dtype;
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

/* ---- Halves ---------------------------------------------------------------------------------- */

/* Cuts an activation into pieces, and restates it as dense with channels last. First pieces of a
 * group's channels come before the second ones. In a weight gradient, the batch of first pieces
 * comes before that of the second ones. */
static trm_status add_data_split(trm_convolution_draft *draft, trm_dtype dtype, bool is_x,
                                 trm_error *error) {
  const trm_convolution_problem *p = &draft->p;
  const bool by_image = p->kind == TRM_BACKWARD_WEIGHTS;
  trm_convolution_layout *a = is_x ? &draft->p.x : &draft->p.y;
  trm_place *place = is_x ? &draft->x : &draft->y;
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
  return trm_sequence_add_split(draft->sequence, &split, false, place, error);
}

trm_status trm_convolution_add_pieces(trm_convolution_draft *draft, trm_error *error) {
  trm_convolution_problem *p = &draft->p;
  const trm_dtype dtype = trm_operand_shape(draft->request, 0)->dtype;
  if (p->kind != TRM_BACKWARD_DATA) TRY(add_data_split(draft, dtype, true, error));
  if (p->kind != TRM_FORWARD) TRY(add_data_split(draft, dtype, false, error));
  if (p->kind == TRM_FORWARD) p->in_channels *= draft->pieces;
  else if (p->kind == TRM_BACKWARD_DATA) p->out_channels *= draft->pieces;
  else p->batch *= draft->pieces;
  return TRM_OK;
}

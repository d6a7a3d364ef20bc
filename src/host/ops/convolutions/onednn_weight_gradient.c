/* Owns: gradients of a convolution's weights by oneDNN, in parts, each computed by one thread
 * (gradient_parts.h). */
#include "host/ops/convolutions/convolution_draft.h"
#include "host/ops/convolutions/gradient_parts.h"

/* Copies the channels of an activation that one part reads to a dense array, and moves *place
 * there. */
static trm_status add_slice(trm_convolution_draft *part, const trm_convolution_draft *whole,
                            bool is_x, int64_t slice, trm_place *place, trm_error *error) {
  const trm_convolution_problem *p = &part->p;
  const int64_t all = is_x ? whole->p.in_channels : whole->p.out_channels;
  const int64_t channels = is_x ? p->in_channels : p->out_channels;
  const int64_t *size = is_x ? p->x_size : p->y_size;
  const const_dnnl_memory_desc_t plain = is_x ? part->x_plain : part->y_plain;
  trm_convolution_layout wide = {.inner = 1};
  int64_t stride = all;
  for (int i = p->spatial - 1; i >= 0; --i) wide.spatial[i] = stride, stride *= size[i];
  wide.outer = stride;
  const_dnnl_memory_desc_t from, unused;
  TRY(trm_convolution_describe_data(part, part->in, &wide, channels, size, &from, &unused, error));
  const trm_place to = trm_sequence_scratch(part->sequence, dnnl_memory_desc_get_size(plain));
  place->offset += (size_t)(slice * channels) * dnnl_data_type_size(part->in);
  TRY(trm_onednn_add_reorder(part->sequence, from, *place, plain, to, error));
  *place = to;
  return TRM_OK;
}

/* Adds part (image, slice) of a gradient. */
static trm_status add_gradient_part(const trm_convolution_draft *whole, trm_convolution_draft *part,
                                    const trm_gradient_parts *parts, int64_t image, int64_t slice,
                                    const_dnnl_memory_desc_t packed, trm_place to,
                                    trm_error *error) {
  trm_place x = whole->x, y = whole->y;
  x.offset += (size_t)image * dnnl_memory_desc_get_size(whole->x_plain) / (size_t)parts->images;
  y.offset += (size_t)image * dnnl_memory_desc_get_size(whole->y_plain) / (size_t)parts->images;
  if (parts->slices > 1) {
    TRY(add_slice(part, whole, parts->slices_x, slice, parts->slices_x ? &x : &y, error));
  }
  const trm_onednn_argument arguments[] = {{DNNL_ARG_SRC, part->x_plain, x},
                                           {DNNL_ARG_DIFF_DST, part->y_plain, y},
                                           {DNNL_ARG_DIFF_WEIGHTS, packed, to}};
  return trm_onednn_add_primitive(part->sequence, part->desc, arguments, 3, error);
}

/* Adds the parts of a gradient, their sums, and the reorder of the sums to HLO's layout. */
static trm_status add_gradient_parts(const trm_convolution_draft *whole,
                                     trm_convolution_draft *part, const trm_gradient_parts *parts,
                                     trm_error *error) {
  trm_sequence *sequence = part->sequence;
  const_dnnl_memory_desc_t packed =
      dnnl_primitive_desc_query_md(part->desc, dnnl_query_diff_weights_md, 0);
  const size_t bytes = dnnl_memory_desc_get_size(packed);
  const bool is_plain = dnnl_memory_desc_equal(packed, part->w_user) != 0;
  const trm_place home =
      trm_sequence_scratch(sequence, bytes * (size_t)(parts->images * parts->slices));
  trm_place places[TRM_GRADIENT_PARTS];
  for (int64_t i = 0; i < parts->images * parts->slices; ++i) {
    const int64_t slice = i / parts->images, image = i % parts->images;
    places[i] = home, places[i].offset += (size_t)i * bytes;
    if (is_plain && parts->images == 1 && parts->slices == 1) places[i] = whole->w;
    trm_sequence_set_part(sequence, (int)i + 1);
    TRY(add_gradient_part(whole, part, parts, image, slice, packed, places[i], error));
  }
  trm_sequence_set_part(sequence, 0);
  if (is_plain && parts->images == 1 && parts->slices == 1) return TRM_OK;
  for (int64_t slice = 0; slice < parts->slices; ++slice) {
    const trm_place from = places[slice * parts->images];
    trm_gradient_sum *sum = ARENA_NEW(whole->request->arena, trm_gradient_sum, 1);
    CHECK_MEMORY(sum, "a oneDNN kernel");
    *sum = (trm_gradient_sum){parts->images, (int64_t)(bytes / sizeof(float))};
    if (parts->images > 1) {
      TRY(trm_sequence_add_function(sequence, trm_gradient_sum_run, sum, from, from, from, error));
    }
    trm_place to = whole->w;
    to.offset += sizeof(float) *
                 (size_t)(slice * (parts->slices_x ? part->p.in_channels * part->p.w.inner
                                                   : part->p.out_channels * part->p.w.outer));
    TRY(trm_onednn_add_reorder(sequence, packed, from, part->w_user, to, error));
  }
  return TRM_OK;
}

trm_status trm_onednn_weight_gradient_add(trm_convolution_draft *draft, trm_place to,
                                          trm_error *error) {
  draft->w = to;
  const trm_gradient_parts parts = trm_gradient_parts_choose(&draft->p);
  trm_convolution_draft part = *draft;
  part.p.batch /= parts.images;
  if (parts.slices_x) part.p.in_channels /= parts.slices;
  else part.p.out_channels /= parts.slices;
  const trm_convolution_problem *p = &part.p;
  const_dnnl_memory_desc_t unused;
  trm_convolution_layout dense = {0}; /* not used: channels are last */
  trm_sequence_set_part(draft->sequence, 1);
  TRY(trm_convolution_describe_data(&part, draft->in, &dense, p->groups * p->in_channels, p->x_size,
                                    &unused, &part.x_plain, error));
  TRY(trm_convolution_describe_data(&part, draft->in, &dense, p->groups * p->out_channels,
                                    p->y_size, &unused, &part.y_plain, error));
  TRY(trm_convolution_describe_weights(&part, &p->w, error));
  trm_status status = trm_convolution_create_descs(&part, error);
  if (status == TRM_OK) status = add_gradient_parts(draft, &part, &parts, error);
  trm_sequence_set_part(draft->sequence, 0);
  if (part.forward != NULL) dnnl_primitive_desc_destroy(part.forward);
  if (part.desc != NULL) dnnl_primitive_desc_destroy(part.desc);
  return status;
}

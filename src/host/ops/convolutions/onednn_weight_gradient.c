/* Owns: gradients of a convolution's weights by oneDNN, in chunks, each computed by one thread
 * (gradient_chunks.h). */
#include "host/ops/convolutions/convolution_draft.h"
#include "host/ops/convolutions/gradient_chunks.h"

/* Copies the channels of an activation that one chunk reads to a dense array, and moves *place
 * there. */
static trm_status add_slice(trm_convolution_draft *chunk, const trm_convolution_draft *whole,
                            bool is_x, int64_t slice, trm_place *place, trm_error *error) {
  const trm_convolution_problem *p = &chunk->p;
  const int64_t all = is_x ? whole->p.in_channels : whole->p.out_channels;
  const int64_t channels = is_x ? p->in_channels : p->out_channels;
  const int64_t *size = is_x ? p->x_size : p->y_size;
  const const_dnnl_memory_desc_t plain = is_x ? chunk->x_plain : chunk->y_plain;
  trm_convolution_layout wide = {.inner = 1};
  int64_t stride = all;
  for (int i = p->spatial - 1; i >= 0; --i) wide.spatial[i] = stride, stride *= size[i];
  wide.outer = stride;
  const_dnnl_memory_desc_t from, unused;
  TRY(trm_convolution_describe_data(chunk, chunk->in, &wide, channels, size, &from, &unused,
                                    error));
  const trm_place to = trm_sequence_scratch(chunk->sequence, dnnl_memory_desc_get_size(plain));
  place->offset += (size_t)(slice * channels) * dnnl_data_type_size(chunk->in);
  TRY(trm_onednn_add_reorder(chunk->sequence, from, *place, plain, to, error));
  *place = to;
  return TRM_OK;
}

/* Adds chunk (image, slice) of a gradient. */
static trm_status add_gradient_chunk(const trm_convolution_draft *whole,
                                     trm_convolution_draft *chunk,
                                     const trm_gradient_chunks *chunks, int64_t image,
                                     int64_t slice, const_dnnl_memory_desc_t packed, trm_place to,
                                     trm_error *error) {
  trm_place x = whole->x, y = whole->y;
  x.offset += (size_t)image * dnnl_memory_desc_get_size(whole->x_plain) / (size_t)chunks->images;
  y.offset += (size_t)image * dnnl_memory_desc_get_size(whole->y_plain) / (size_t)chunks->images;
  if (chunks->slices > 1) {
    TRY(add_slice(chunk, whole, chunks->slices_x, slice, chunks->slices_x ? &x : &y, error));
  }
  const trm_onednn_argument arguments[] = {{DNNL_ARG_SRC, chunk->x_plain, x},
                                           {DNNL_ARG_DIFF_DST, chunk->y_plain, y},
                                           {DNNL_ARG_DIFF_WEIGHTS, packed, to}};
  return trm_onednn_add_primitive(chunk->sequence, chunk->desc, arguments, 3, error);
}

/* Adds the chunks of a gradient, their sums, and the reorder of the sums to HLO's layout. */
static trm_status add_gradient_chunks(const trm_convolution_draft *whole,
                                      trm_convolution_draft *chunk,
                                      const trm_gradient_chunks *chunks, trm_error *error) {
  trm_sequence *sequence = chunk->sequence;
  const_dnnl_memory_desc_t packed =
      dnnl_primitive_desc_query_md(chunk->desc, dnnl_query_diff_weights_md, 0);
  const size_t bytes = dnnl_memory_desc_get_size(packed);
  const bool is_plain = dnnl_memory_desc_equal(packed, chunk->w_user) != 0;
  const trm_place home =
      trm_sequence_scratch(sequence, bytes * (size_t)(chunks->images * chunks->slices));
  trm_place places[TRM_GRADIENT_CHUNKS];
  for (int64_t i = 0; i < chunks->images * chunks->slices; ++i) {
    const int64_t slice = i / chunks->images, image = i % chunks->images;
    places[i] = home, places[i].offset += (size_t)i * bytes;
    if (is_plain && chunks->images == 1 && chunks->slices == 1) places[i] = whole->w;
    trm_sequence_set_chunk(sequence, (int)i + 1);
    TRY(add_gradient_chunk(whole, chunk, chunks, image, slice, packed, places[i], error));
  }
  trm_sequence_set_chunk(sequence, 0);
  if (is_plain && chunks->images == 1 && chunks->slices == 1) return TRM_OK;
  for (int64_t slice = 0; slice < chunks->slices; ++slice) {
    const trm_place from = places[slice * chunks->images];
    trm_gradient_sum *sum = ARENA_NEW(whole->request->arena, trm_gradient_sum, 1);
    CHECK_MEMORY(sum, "a oneDNN kernel");
    *sum = (trm_gradient_sum){chunks->images, (int64_t)(bytes / sizeof(float))};
    if (chunks->images > 1) {
      TRY(trm_sequence_add_function(sequence, trm_gradient_sum_run, sum, from, from, from, error));
    }
    trm_place to = whole->w;
    to.offset += sizeof(float) *
                 (size_t)(slice * (chunks->slices_x ? chunk->p.in_channels * chunk->p.w.inner
                                                    : chunk->p.out_channels * chunk->p.w.outer));
    TRY(trm_onednn_add_reorder(sequence, packed, from, chunk->w_user, to, error));
  }
  return TRM_OK;
}

trm_status trm_onednn_weight_gradient_add(trm_convolution_draft *draft, trm_place to,
                                          trm_error *error) {
  draft->w = to;
  const trm_gradient_chunks chunks = trm_gradient_chunks_choose(&draft->p);
  trm_convolution_draft chunk = *draft;
  chunk.p.batch /= chunks.images;
  if (chunks.slices_x) chunk.p.in_channels /= chunks.slices;
  else chunk.p.out_channels /= chunks.slices;
  const trm_convolution_problem *p = &chunk.p;
  const_dnnl_memory_desc_t unused;
  trm_convolution_layout dense = {0}; /* not used: channels are last */
  trm_sequence_set_chunk(draft->sequence, 1);
  TRY(trm_convolution_describe_data(&chunk, draft->in, &dense, p->groups * p->in_channels,
                                    p->x_size, &unused, &chunk.x_plain, error));
  TRY(trm_convolution_describe_data(&chunk, draft->in, &dense, p->groups * p->out_channels,
                                    p->y_size, &unused, &chunk.y_plain, error));
  TRY(trm_convolution_describe_weights(&chunk, &p->w, error));
  trm_status status = trm_convolution_create_descs(&chunk, error);
  if (status == TRM_OK) status = add_gradient_chunks(draft, &chunk, &chunks, error);
  trm_sequence_set_chunk(draft->sequence, 0);
  if (chunk.forward != NULL) dnnl_primitive_desc_destroy(chunk.forward);
  if (chunk.desc != NULL) dnnl_primitive_desc_destroy(chunk.desc);
  return status;
}

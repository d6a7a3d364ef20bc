/* Owns: convolutions of groups of few channels as steps of a sequence: which ones our own kernels
 * serve (grouped_convolution.h), and how their weights are packed. */
#include <string.h>

#include "host/ops/convolutions/convolution_draft.h"

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

/* Whether our kernels read and write the halves themselves, in HLO's layout. */
static bool reads_halves(const trm_convolution_draft *draft) {
  const trm_convolution_problem *p = &draft->p;
  const trm_kernel_request *request = draft->request;
  return trm_operand_shape(request, 0)->dtype == TRM_F16 &&
         request->instruction->shape.dtype == TRM_F16 && p->kind != TRM_BACKWARD_WEIGHTS &&
         !p->is_x_cropped &&
         trm_convolution_is_channels_last(p, &p->x, p->groups * p->in_channels, p->x_size) &&
         trm_convolution_is_channels_last(p, &p->y, p->groups * p->out_channels, p->y_size);
}

bool trm_grouped_convolution_plan(trm_convolution_draft *draft) {
  if (draft->pieces > 0 || !plan_thin(&draft->p, &draft->groups)) return false;
  draft->is_direct = draft->groups.is_half = reads_halves(draft);
  return true;
}

/* Sets *copy to the copy of HLO's weights to the packed ones of our kernels. */
static void plan_thin_copy(const trm_convolution_problem *p, const trm_grouped_convolution *thin,
                           trm_strided_copy *copy) {
  const bool is_data = p->kind == TRM_BACKWARD_DATA;
  const int64_t group = thin->group, groups = TRM_GROUPED_LANES / group;
  const int64_t column = group * TRM_GROUPED_LANES, row = thin->k_size[1] * column;
  *copy = (trm_strided_copy){
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

trm_status trm_grouped_convolution_add(trm_convolution_draft *draft, trm_place to,
                                       trm_error *error) {
  const trm_kernel_request *request = draft->request;
  const trm_grouped_convolution *thin = &draft->groups;
  trm_sequence *sequence = draft->sequence;
  const trm_convolution_problem *p = &draft->p;
  const trm_grouped_convolution *own = trm_arena_copy(request->arena, thin, sizeof *thin);
  CHECK_MEMORY(own, "a grouped convolution");
  trm_strided_copy copy;
  plan_thin_copy(p, thin, &copy);
  const size_t bytes = (size_t)p->w.count * sizeof(float);
  if (p->kind == TRM_BACKWARD_WEIGHTS) {
    const size_t partials = (size_t)trm_grouped_convolution_partial_sums(thin);
    const trm_place packed = trm_sequence_scratch(sequence, partials * bytes);
    TRY(trm_sequence_add_function(sequence, trm_grouped_convolution_backward_weights, own, draft->x,
                                  draft->y, packed, error));
    trm_strided_copy back = copy;
    memcpy(back.from_strides, copy.to_strides, sizeof back.from_strides);
    memcpy(back.to_strides, copy.from_strides, sizeof back.to_strides);
    back.from_start = 0;
    return trm_sequence_add_copy(sequence, &back, packed, draft->w, error);
  }
  const bool may_repeat = trm_operand_may_repeat(request, 1);
  const trm_place kept =
      may_repeat ? trm_sequence_persistent(sequence, bytes) : trm_sequence_scratch(sequence, bytes);
  if (may_repeat) trm_sequence_pack_begin(sequence, 1);
  TRY(trm_sequence_add_widen(sequence, trm_operand_shape(request, 1)->dtype, p->w.count, false,
                             &draft->w, error));
  TRY(trm_sequence_add_copy(sequence, &copy, draft->w, kept, error));
  trm_sequence_pack_end(sequence);
  return trm_sequence_add_function(sequence, trm_grouped_convolution_forward, own,
                                   p->kind == TRM_FORWARD ? draft->x : draft->y, kept, to, error);
}

/* Owns: convolutions of one element as products of panels. */
#include "host/ops/convolutions/pointwise_convolution.h"

#include "host/ops/products/panel_steps.h"

static bool plan(const trm_convolution_problem *p, bool is_half, bool keeps_weights,
                 trm_panel_product *out_product) {
  /* The gradient by the data is a convolution with exchanged channels. */
  if (p->kind != TRM_FORWARD || p->groups != 1 || p->is_x_cropped) return false;
  int64_t rows = p->batch;
  for (int i = 0; i < p->spatial; ++i) {
    if (p->k_size[i] != 1 || p->stride[i] != 1 || p->x_size[i] != p->y_size[i]) return false;
    rows *= p->x_size[i];
  }
  if (!trm_convolution_is_channels_last(p, &p->x, p->in_channels, p->x_size) ||
      !trm_convolution_is_channels_last(p, &p->y, p->out_channels, p->y_size)) {
    return false;
  }
  *out_product = (trm_panel_product){.rows = rows,
                                     .columns = p->out_channels,
                                     .inner = p->in_channels,
                                     .lhs_row = p->in_channels,
                                     .lhs_inner = 1,
                                     .rhs_inner = p->w.inner,
                                     .rhs_column = p->w.outer,
                                     .is_half = is_half};
  return (out_product->rhs_inner == 1 || out_product->rhs_column == 1) &&
         trm_panel_product_serves(out_product, keeps_weights);
}

bool trm_pointwise_plan(const trm_convolution_problem *p, bool keeps_weights,
                        trm_panel_product *out_product) {
  return plan(p, false, keeps_weights, out_product);
}

bool trm_pointwise_reads_halves(const trm_convolution_problem *p, const trm_kernel_request *request,
                                trm_panel_product *out_product) {
  return trm_operand_shape(request, 0)->dtype == TRM_F16 &&
         trm_operand_shape(request, 1)->dtype == TRM_F16 &&
         request->instruction->shape.dtype == TRM_F16 && plan(p, true, false, out_product);
}

trm_status trm_pointwise_add(trm_convolution_draft *draft, const trm_kernel_request *request,
                             const trm_panel_product *product, trm_onednn_place from,
                             trm_onednn_place to, trm_error *error) {
  const bool keeps = draft->keeps_weights && !product->is_half;
  if (keeps) trm_onednn_pack_begin(draft->sequence, 1); /* of the widened weights */
  if (!product->is_half) {
    const trm_dtype dtype = trm_operand_shape(request, 1)->dtype;
    TRY(trm_onednn_add_widen(draft->sequence, dtype, draft->p.w.count, false, &draft->w, error));
  }
  return trm_onednn_add_panel_product(draft->sequence, request->arena, product, from, draft->w, to,
                                      keeps, error);
}

/* Convolutions with kernels of one element as products of panels (panel_product.h), where oneDNN's
 * kernels for them are slower. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_POINTWISE_CONVOLUTION_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_POINTWISE_CONVOLUTION_H_

#include "host/ops/convolutions/convolution_draft.h"
#include "host/ops/products/panel_product.h"

/* Whether the problem is a product of the pixels and the weights that panels serve.
 * keeps_weights: the weights are packed for many runs. */
bool trm_pointwise_plan(const trm_convolution_problem *p, bool keeps_weights,
                        trm_panel_product *out_product);

/* Whether the product reads and writes the halves themselves. */
bool trm_pointwise_reads_halves(const trm_convolution_problem *p, const trm_kernel_request *request,
                                trm_panel_product *out_product);

/* Adds the product of pixels `from` and draft->w, the weights of operand 1: all are floats, or all
 * are halves where the product says so. */
trm_status trm_pointwise_add(trm_convolution_draft *draft, const trm_kernel_request *request,
                             const trm_panel_product *product, trm_onednn_place from,
                             trm_onednn_place to, trm_error *error);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_POINTWISE_CONVOLUTION_H_ */

/* A convolution while it is built for oneDNN, for onednn_convolution.c and its gradients of weights
 * (onednn_weight_gradient.c). */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_ONEDNN_CONVOLUTION_DRAFT_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_ONEDNN_CONVOLUTION_DRAFT_H_

#include "host/ops/convolutions/onednn_convolution_problem.h"
#include "host/ops/products/onednn_sequence.h"

typedef struct trm_convolution_draft {
  trm_arena *arena;
  trm_onednn_sequence *sequence;
  trm_convolution_problem p;
  trm_onednn_place x, w, y; /* float32 arrays, first in HLO's layout, then in the primitive's */
  const_dnnl_memory_desc_t x_user, y_user, w_user;  /* HLO's layout */
  const_dnnl_memory_desc_t x_plain, y_plain, w_any; /* the layout that the primitive gets */
  const char *way;    /* who computes it: the first word of the kernel's name */
  bool keeps_weights; /* packed, where their contents may serve again */
  trm_half_products products;
  int32_t pieces;       /* bfloat16s for a number; 0: floats */
  dnnl_data_type_t in;  /* of the factors */
  dnnl_data_type_t out; /* of the result: bfloat16 where oneDNN rounds it */
  dnnl_primitive_attr_t attributes;
  dnnl_primitive_desc_t forward, desc; /* a gradient's hint; the primitive's own */
} trm_convolution_draft;

/* Describes an activation twice: as it lies in memory, and dense with channels last, for oneDNN's
 * kernels. Gives the same pointer twice where these agree. */
trm_status trm_convolution_describe_data(trm_convolution_draft *draft, dnnl_data_type_t type,
                                         const trm_convolution_layout *a, int64_t channels,
                                         const int64_t *size, const_dnnl_memory_desc_t *out_user,
                                         const_dnnl_memory_desc_t *out_plain, trm_error *error);
/* Sets w_user, of HLO's layout `w`, and w_any. */
trm_status trm_convolution_describe_weights(trm_convolution_draft *draft,
                                            const trm_convolution_layout *w, trm_error *error);
/* Sets `desc`, and a gradient's `forward`, from the descriptors. */
trm_status trm_convolution_create_descs(trm_convolution_draft *draft, trm_error *error);

/* The operations of a gradient of weights, from draft->x and draft->y to draft->w. */
trm_status trm_convolution_add_weight_gradient(trm_convolution_draft *draft, trm_error *error);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_ONEDNN_CONVOLUTION_DRAFT_H_ */

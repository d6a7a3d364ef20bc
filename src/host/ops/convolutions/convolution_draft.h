/* A convolution while it is decided who computes it and its steps are built, for the table of ways
 * (convolution_ways.c) and the files of the ways. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_CONVOLUTION_DRAFT_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_CONVOLUTION_DRAFT_H_

#include "host/ops/convolutions/convolution_problem.h"
#include "host/ops/convolutions/grouped_convolution.h"
#include "host/ops/convolutions/weight_gradient.h"
#include "host/ops/convolutions/winograd.h"
#include "host/ops/products/onednn_steps.h"
#include "host/ops/products/panel_product.h"

typedef struct trm_convolution_draft {
  const trm_kernel_request *request;
  trm_sequence *sequence;
  trm_convolution_problem p;
  trm_place x, w, y; /* float32 arrays, first in HLO's layout, then in the primitive's */
  const_dnnl_memory_desc_t x_user, y_user, w_user;  /* HLO's layout */
  const_dnnl_memory_desc_t x_plain, y_plain, w_any; /* the layout that the primitive gets */
  bool keeps_weights; /* packed, where their contents may serve again */
  trm_half_products products;
  int32_t pieces;       /* bfloat16s for a number; 0: floats */
  dnnl_data_type_t in;  /* of the factors */
  dnnl_data_type_t out; /* of the result: bfloat16 where oneDNN rounds it */
  dnnl_primitive_attr_t attributes;
  dnnl_primitive_desc_t forward, desc; /* a gradient's hint; the primitive's own */
  /* What the way that serves has planned. */
  bool is_direct; /* it reads the operands and writes the result as HLO has them */
  trm_half_tiles tiles;
  trm_winograd winograd;
  trm_grouped_convolution groups;
  trm_panel_product panels;
  trm_weight_gradient gradient;
} trm_convolution_draft;

/* A way to compute convolutions. */
typedef struct trm_convolution_way {
  const char *name; /* the first word of the kernel's name */
  int cost;         /* its usual time where it serves, in percent of oneDNN's */
  /* Whether it computes the convolution, which it then has planned in the draft. */
  bool (*serves)(trm_convolution_draft *draft);
  /* Adds the steps. A direct way reads operands 0 and 1, the others draft->x, y and w in the
   * primitive's layout. `to` is where the result goes. */
  trm_status (*add)(trm_convolution_draft *draft, trm_place to, trm_error *error);
  /* Instead of steps: a kernel of its own, which takes over `direct`, the kernel of the ways after
   * it, also when it fails. */
  trm_status (*create)(const trm_convolution_draft *draft, const char *name,
                       const trm_kernel *direct, trm_kernel *out_kernel, trm_error *error);
} trm_convolution_way;

/* By cost, the least first. The first one that serves a convolution computes it. */
extern const trm_convolution_way trm_convolution_ways[];
extern const size_t trm_num_convolution_ways;

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

/* Cuts the activations that are multiplied into pieces. The problem then counts pieces. */
trm_status trm_convolution_add_pieces(trm_convolution_draft *draft, trm_error *error);

/* The rows of the table that have files of their own: groups of few channels (grouped_steps.c) and
 * oneDNN (onednn_convolution.c), also for gradients of weights (onednn_weight_gradient.c). */
bool trm_grouped_convolution_plan(trm_convolution_draft *draft);
trm_status trm_grouped_convolution_add(trm_convolution_draft *draft, trm_place to,
                                       trm_error *error);
trm_status trm_onednn_convolution_add(trm_convolution_draft *draft, trm_place to, trm_error *error);
trm_status trm_onednn_weight_gradient_add(trm_convolution_draft *draft, trm_place to,
                                          trm_error *error);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_CONVOLUTION_DRAFT_H_ */

/* Steps of a sequence that oneDNN computes, and the process's oneDNN engine. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_ONEDNN_STEPS_H_
#define TREMULA_HOST_OPS_PRODUCTS_ONEDNN_STEPS_H_

#include <oneapi/dnnl/dnnl.h>

#include "host/ops/products/sequence.h"

typedef struct trm_onednn_argument {
  int id; /* DNNL_ARG_... */
  const_dnnl_memory_desc_t desc;
  trm_place place;
} trm_onednn_argument;

/* The engine, created at the first call, or NULL. Thread-safe. */
dnnl_engine_t trm_onednn_engine(void);
/* Primitive attributes with a scratchpad that the caller gives; NULL when memory runs out. Destroy
 * them with dnnl_primitive_attr_destroy. */
dnnl_primitive_attr_t trm_onednn_attributes(void);
/* TRM_OK for success; TRM_UNIMPLEMENTED, without a message, if oneDNN does not support the work;
 * else a failure with a message. */
trm_status trm_onednn_status(dnnl_status_t status, const char *what, trm_error *error);
#define TRY_DNNL(expression, what) TRY(trm_onednn_status((expression), (what), error))

/* Creates a descriptor of a strided array, which the sequence owns. */
trm_status trm_onednn_describe(trm_sequence *sequence, dnnl_data_type_t type, int rank,
                               const int64_t *dims, const int64_t *strides,
                               const_dnnl_memory_desc_t *out_desc, trm_error *error);
/* Creates a descriptor that leaves the format to oneDNN. */
trm_status trm_onednn_describe_any(trm_sequence *sequence, dnnl_data_type_t type, int rank,
                                   const int64_t *dims, const_dnnl_memory_desc_t *out_desc,
                                   trm_error *error);

/* Creates the primitive of *desc, which stays the caller's, and reserves scratch for it. */
trm_status trm_onednn_add_primitive(trm_sequence *sequence, const_dnnl_primitive_desc_t desc,
                                    const trm_onednn_argument *arguments, int num_arguments,
                                    trm_error *error);
trm_status trm_onednn_add_reorder(trm_sequence *sequence, const_dnnl_memory_desc_t from_desc,
                                  trm_place from, const_dnnl_memory_desc_t to_desc, trm_place to,
                                  trm_error *error);

#endif /* TREMULA_HOST_OPS_PRODUCTS_ONEDNN_STEPS_H_ */

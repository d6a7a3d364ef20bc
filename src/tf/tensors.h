/* What kernels are given: inputs, attributes, and the types of both sides. */
#ifndef TREMULA_TF_TENSORS_H_
#define TREMULA_TF_TENSORS_H_

#include "status.h"

/* TensorFlow's type for an HLO type, or 0 for one that TensorFlow has not. */
TF_DataType tensor_type(trm_dtype dtype);
/* The HLO type of a TensorFlow type, or TRM_INVALID_TYPE. */
trm_dtype hlo_type(TF_DataType type);

/* A kernel's inputs, all of them, held until inputs_free. */
typedef struct tf_inputs {
  TF_Tensor **tensors;
  int count;
} tf_inputs;

bool inputs_get(TF_OpKernelContext *context, tf_inputs *out, TF_Status *status);
void inputs_free(tf_inputs *inputs);

/* An attribute of type string, with a NUL after it; free it. *out_size, unless that is NULL: its
 * bytes without the NUL. NULL after a failure. */
char *string_attribute(TF_OpKernelConstruction *construction, const char *name, size_t *out_size,
                       TF_Status *status);

/* Reports a failure to TensorFlow, if there is one, and frees the status. */
void finish(TF_OpKernelContext *context, TF_Status *status);

#endif /* TREMULA_TF_TENSORS_H_ */

/* Ops that are placed on the device without `compile`, one by one. */
#ifndef TREMULA_TF_KERNELS_H_
#define TREMULA_TF_KERNELS_H_

#include "tensorflow.h"

/* For Python: registers a kernel of the device for `op`. `kernel_def` is a serialised KernelDef,
 * which TensorFlow takes as a string that ends with a NUL, so it must hold no zero byte. That of an
 * update of a variable only says that it cannot be run by itself. Returns a status code. */
TRM_TF_API int32_t trm_tf_register_kernel(const char *op, const char *kernel_def,
                                          int32_t on_variables, char *message,
                                          uint64_t message_size);

#endif /* TREMULA_TF_KERNELS_H_ */

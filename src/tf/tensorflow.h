/* Owns: TensorFlow's C API for the plugin: the conversion of statuses, and the parts that all
 * kernels share: creating, reading attributes and inputs, setting outputs, reporting failures.
 *
 * Functions of the plugin return trm_status and take a trm_error last, as those of the core do. */
#ifndef TREMULA_TF_TENSORFLOW_H_
#define TREMULA_TF_TENSORFLOW_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ops.h names these types without `struct`, which is valid in C++ only; so they are declared here.
 */
typedef struct TF_DimensionHandle TF_DimensionHandle;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;

/* kernels.h defines this constant, so in C every file that includes it has a copy; weak symbols are
 * merged by the linker. */
#pragma weak TF_InputRange_Args_STRUCT_SIZE
#include "base/memory.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

/* Functions that Python calls by ctypes, and that TensorFlow looks up, are visible; no others. */
#define TRM_TF_API __attribute__((visibility("default")))

/* Ordinals of TF devices are below this. */
enum { TRM_TF_MAX_DEVICES = 64 };
/* How many TF devices the process has: TREMULA_NUM_DEVICES. 0: the variable is wrong. */
int trm_tf_num_devices(void);

/* ---- Statuses: both sides have the same numbers ---- */

/* Reports `result`, whose message is in `error`, to TensorFlow. */
void trm_tf_report(TF_Status *status, trm_status result, const trm_error *error);
/* Converts the result of calls of TensorFlow's API, and frees `status`. */
trm_status trm_tf_end_call(TF_Status *status, trm_error *error);
/* For functions that Python calls: returns the code, and copies the message of a failure to
 * Python's memory. */
int32_t trm_tf_reply(trm_status result, const trm_error *error, char *message,
                     uint64_t message_size);

/* ---- Texts ---- */

/* Copies with a NUL at the end. Free them with trm_free; NULL: out of memory. */
char *trm_tf_copy_bytes(const void *data, size_t size);
char *trm_tf_copy_text(const char *text);

/* ---- Types ---- */

/* TensorFlow's type for an HLO type; 0: TensorFlow does not have it. */
TF_DataType trm_tf_type(trm_dtype dtype);
/* The HLO type of a TensorFlow type, or TRM_INVALID_TYPE. */
trm_dtype trm_tf_dtype(TF_DataType type);

/* ---- Kernels ---- */

/* Makes a kernel. TensorFlow deletes *out_kernel also after a failure. */
typedef trm_status trm_tf_create(TF_OpKernelConstruction *construction, void **out_kernel,
                                 trm_error *error);
typedef trm_status trm_tf_compute(void *kernel, TF_OpKernelContext *context, trm_error *error);

/* Both functions report a failure to TensorFlow. */
void *trm_tf_create_kernel(trm_tf_create *create, TF_OpKernelConstruction *construction);
void trm_tf_compute_kernel(trm_tf_compute *compute, void *kernel, TF_OpKernelContext *context);

/* Defines trm_tf_NAME_create or trm_tf_NAME_compute, which TensorFlow calls, around `function`:
 * TensorFlow's interface has no room for a status. */
#define TRM_TF_DEFINE_CREATE(name, function)                            \
  void *trm_tf_##name##_create(TF_OpKernelConstruction *construction) { \
    return trm_tf_create_kernel(function, construction);                \
  }
#define TRM_TF_DEFINE_COMPUTE(name, function)                               \
  void trm_tf_##name##_compute(void *kernel, TF_OpKernelContext *context) { \
    trm_tf_compute_kernel(function, kernel, context);                       \
  }

/* Read attributes. A text has a NUL at the end; free it with trm_free. *out_size, unless NULL, gets
 * its length without the NUL. */
trm_status trm_tf_get_text(TF_OpKernelConstruction *construction, const char *name, char **out,
                           size_t *out_size, trm_error *error);
trm_status trm_tf_get_bool(TF_OpKernelConstruction *construction, const char *name, bool *out,
                           trm_error *error);
trm_status trm_tf_get_number(TF_OpKernelConstruction *construction, const char *name, int64_t *out,
                             trm_error *error);
/* The number of items of a list, and, if they are texts, the sum of their lengths. */
trm_status trm_tf_get_list_size(TF_OpKernelConstruction *construction, const char *name,
                                size_t *out_count, size_t *out_bytes, trm_error *error);

/* All inputs of a kernel, alive until trm_tf_inputs_free. */
typedef struct trm_tf_inputs {
  TF_Tensor **tensors;
  int count;
} trm_tf_inputs;

trm_status trm_tf_get_inputs(TF_OpKernelContext *context, trm_tf_inputs *out, trm_error *error);
void trm_tf_inputs_free(trm_tf_inputs *inputs);

/* Allocates output `i`; the caller releases its reference with TF_DeleteTensor. */
trm_status trm_tf_allocate_output(TF_OpKernelContext *context, int i, TF_DataType type,
                                  const int64_t *dims, int rank, size_t bytes, TF_Tensor **out,
                                  trm_error *error);
/* Sets output `i` to the tensor. */
trm_status trm_tf_set_output(TF_OpKernelContext *context, int i, const TF_Tensor *tensor,
                             trm_error *error);
/* Sets output `i` to a new tensor with these bytes. */
trm_status trm_tf_copy_output(TF_OpKernelContext *context, int i, TF_DataType type,
                              const int64_t *dims, int rank, const void *data, size_t bytes,
                              trm_error *error);

#endif /* TREMULA_TF_TENSORFLOW_H_ */

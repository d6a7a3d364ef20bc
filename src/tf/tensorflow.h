/* Owns: TensorFlow's C API as the plugin uses it: where statuses are converted, and what every
 * kernel does: it is created, reads attributes and inputs, sets outputs, reports its failure.
 *
 * Functions of the plugin return trm_status and take a trm_error last, as the core's do. */
#ifndef TREMULA_TF_TENSORFLOW_H_
#define TREMULA_TF_TENSORFLOW_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ops.h names these types without `struct`, which is C++ only; so they are declared before it. */
typedef struct TF_DimensionHandle TF_DimensionHandle;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;

/* kernels.h defines this constant, which in C gives every file that includes it one of its own to
 * link; as a weak symbol they are one. */
#pragma weak TF_InputRange_Args_STRUCT_SIZE
#include "base/memory.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

/* What Python calls by ctypes, and what TensorFlow looks up, is visible; nothing else. */
#define TRM_TF_API __attribute__((visibility("default")))

/* Ordinals of TF devices are below this. */
enum { TRM_TF_MAX_DEVICES = 64 };

/* ---- Statuses: both sides have the same numbers ---- */

/* Reports `result`, whose message is in `error`, to TensorFlow. */
void trm_tf_report(TF_Status *status, trm_status result, const trm_error *error);
/* What calls of TensorFlow's API have reported in `status`, which is freed. */
trm_status trm_tf_end_call(TF_Status *status, trm_error *error);
/* For functions that Python calls: the code, and the message of a failure in Python's block. */
int32_t trm_tf_reply(trm_status result, const trm_error *error, char *message,
                     uint64_t message_size);

/* ---- Texts ---- */

/* Copies with a NUL after them, to be freed with trm_free; NULL when memory has run out. */
char *trm_tf_copy_bytes(const void *data, size_t size);
char *trm_tf_copy_text(const char *text);

/* ---- Types ---- */

/* TensorFlow's type for an HLO type, or 0 for one that TensorFlow has not. */
TF_DataType trm_tf_type(trm_dtype dtype);
/* The HLO type of a TensorFlow type, or TRM_INVALID_TYPE. */
trm_dtype trm_tf_dtype(TF_DataType type);

/* ---- Kernels ---- */

/* Makes a kernel. TensorFlow deletes *out_kernel also after a failure. */
typedef trm_status trm_tf_create(TF_OpKernelConstruction *construction, void **out_kernel,
                                 trm_error *error);
typedef trm_status trm_tf_compute(void *kernel, TF_OpKernelContext *context, trm_error *error);

/* Both report a failure to TensorFlow. */
void *trm_tf_create_kernel(trm_tf_create *create, TF_OpKernelConstruction *construction);
void trm_tf_compute_kernel(trm_tf_compute *compute, void *kernel, TF_OpKernelContext *context);

/* The functions that TensorFlow calls, which have no room for ours: `function` is created, or
 * computed, as trm_tf_NAME_create or trm_tf_NAME_compute. */
#define TRM_TF_DEFINE_CREATE(name, function)                            \
  void *trm_tf_##name##_create(TF_OpKernelConstruction *construction) { \
    return trm_tf_create_kernel(function, construction);                \
  }
#define TRM_TF_DEFINE_COMPUTE(name, function)                               \
  void trm_tf_##name##_compute(void *kernel, TF_OpKernelContext *context) { \
    trm_tf_compute_kernel(function, kernel, context);                       \
  }

/* Attributes. A text has a NUL after it and is freed with trm_free; *out_size, unless that is NULL,
 * gets its bytes without the NUL. */
trm_status trm_tf_get_text(TF_OpKernelConstruction *construction, const char *name, char **out,
                           size_t *out_size, trm_error *error);
trm_status trm_tf_get_bool(TF_OpKernelConstruction *construction, const char *name, bool *out,
                           trm_error *error);
trm_status trm_tf_get_number(TF_OpKernelConstruction *construction, const char *name, int64_t *out,
                             trm_error *error);
/* How many items a list has, and how many bytes, if they are texts, together. */
trm_status trm_tf_get_list_size(TF_OpKernelConstruction *construction, const char *name,
                                size_t *out_count, size_t *out_bytes, trm_error *error);

/* A kernel's inputs, all of them, held until trm_tf_inputs_free. */
typedef struct trm_tf_inputs {
  TF_Tensor **tensors;
  int count;
} trm_tf_inputs;

trm_status trm_tf_get_inputs(TF_OpKernelContext *context, trm_tf_inputs *out, trm_error *error);
void trm_tf_inputs_free(trm_tf_inputs *inputs);

/* Allocates output `i`; TF_DeleteTensor gives the caller's share of it back. */
trm_status trm_tf_allocate_output(TF_OpKernelContext *context, int i, TF_DataType type,
                                  const int64_t *dims, int rank, size_t bytes, TF_Tensor **out,
                                  trm_error *error);
/* Has output `i` be the tensor. */
trm_status trm_tf_set_output(TF_OpKernelContext *context, int i, const TF_Tensor *tensor,
                             trm_error *error);
/* Has output `i` be a new tensor with these bytes. */
trm_status trm_tf_copy_output(TF_OpKernelContext *context, int i, TF_DataType type,
                              const int64_t *dims, int rank, const void *data, size_t bytes,
                              trm_error *error);

#endif /* TREMULA_TF_TENSORFLOW_H_ */

/* TensorFlow's C API as this plugin uses it. */
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
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

/* What Python calls by ctypes, and what TensorFlow looks up, is visible; nothing else. */
#define TRM_TF_API __attribute__((visibility("default")))

#endif /* TREMULA_TF_TENSORFLOW_H_ */

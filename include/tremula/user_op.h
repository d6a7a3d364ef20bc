/* User ops: a C function of yours as an op of a TensorFlow program for the IPU.
 *
 * Include this header, write a function for the op, and build a shared library of it, which links
 * to nothing. ipu.custom_ops.precompiled_user_op and cpu_user_operation load the library
 * (docs/user_ops.md).
 *
 *   #include <tremula/user_op.h>
 *   TRM_USER_OP(Square)
 *   int Square(const trm_user_op_call *call) {
 *     const float *x = call->inputs[0];
 *     float *y = call->outputs[0];
 *     for (uint64_t i = 0; i < call->input_info[0].elements; ++i) y[i] = x[i] * x[i];
 *     return TRM_USER_OP_OK;
 *   }
 *
 * The gradient of an op NAME is the op NAME_grad of the same library. The file is C and C++. */
#ifndef TREMULA_USER_OP_H_
#define TREMULA_USER_OP_H_

#include <stdbool.h>
#include <stdint.h>

/* The version of this header that a library was written for. Tremula refuses unknown versions. */
#define TRM_USER_OP_API 1

#ifdef __cplusplus
#define TRM_USER_OP_EXTERN extern "C"
#else
#define TRM_USER_OP_EXTERN extern
#endif

/* The result of an op: 0, or one of TensorFlow's status codes, such as these. */
enum {
  TRM_USER_OP_OK = 0,
  TRM_USER_OP_INVALID_ARGUMENT = 3,
  TRM_USER_OP_RESOURCE_EXHAUSTED = 8,
  TRM_USER_OP_FAILED_PRECONDITION = 9,
  TRM_USER_OP_UNIMPLEMENTED = 12,
  TRM_USER_OP_INTERNAL = 13
};

/* A dense, row-major array. `dtype` is a number of include/tremula/dtype.def, which are HLO's: s32
 * 4, f16 10, f32 11. `dims` has `rank` sizes. */
typedef struct trm_user_tensor {
  int32_t dtype, rank;
  const int64_t *dims;
  uint64_t elements, bytes;
} trm_user_tensor;

/* One call. Tremula owns all memory, which lives as long as the call. The op writes all arrays in
 * `outputs`, and nothing else. The inputs of a gradient are the gradients of the op's outputs, then
 * the op's outputs, then its inputs. */
typedef struct trm_user_op_call {
  uint32_t size;    /* of this struct, in bytes; later versions add members at the end */
  uint32_t replica; /* the calling one; replicas may call from several threads at the same time */
  uint32_t num_inputs, num_outputs;
  const void *const *inputs;
  void *const *outputs;
  const trm_user_tensor *input_info, *output_info;
  /* The op's attributes, or gradient_attributes; may contain NULs, and ends with one more. */
  const char *attributes;
  uint64_t attributes_size;
  const char *name;       /* of the op in the program */
  uint32_t gradient_size; /* of a gradient: the number of inputs that are gradients; else 0 */
  uint32_t partial_derivative_index; /* of a separate gradient: by which input */
  char *message; /* for an error message, a C string of at most message_size bytes with its NUL */
  uint32_t message_size;
} trm_user_op_call;

typedef int (*trm_user_op)(const trm_user_op_call *call);

/* Properties of an op. A library may have a function NAME_metadata, which gets num_inputs and the
 * default values below, and changes them. */
typedef struct trm_user_op_metadata {
  uint32_t size; /* of this struct, in bytes */
  uint32_t num_inputs;
  bool is_stateless;   /* false: each call is made, in order, even if its results are not used */
  bool is_hashable;    /* false: programs with the op are not kept in the executable cache */
  bool is_elementwise; /* false. True: output 0 has the shape of input 0 */
  /* 0. Bit i: the op chooses the tiles of input i (not used yet) */
  uint64_t allocating_inputs;
  uint64_t replica_identical_outputs; /* 0. Bit i: output i is the same on all replicas */
} trm_user_op_metadata;

typedef void (*trm_user_op_metadata_function)(trm_user_op_metadata *metadata);

/* Declares the op NAME with this header's signature. */
#define TRM_USER_OP(NAME)                                                                  \
  TRM_USER_OP_EXTERN __attribute__((visibility("default"))) const uint32_t NAME##_tremula; \
  __attribute__((visibility("default"))) const uint32_t NAME##_tremula = TRM_USER_OP_API;  \
  TRM_USER_OP_EXTERN __attribute__((visibility("default"))) int NAME(const trm_user_op_call *call);
/* Declares NAME_metadata. */
#define TRM_USER_OP_METADATA(NAME) \
  TRM_USER_OP_EXTERN               \
  __attribute__((visibility("default"))) void NAME##_metadata(trm_user_op_metadata *metadata);

#endif /* TREMULA_USER_OP_H_ */

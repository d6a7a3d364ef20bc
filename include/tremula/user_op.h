/* User ops: a function of yours, in C, as an op of a TensorFlow program for the IPU.
 *
 * Include this header, write a function for the op and build a shared library of it; nothing is
 * linked. ipu.custom_ops.precompiled_user_op and cpu_user_operation load it (docs/user_ops.md).
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

/* What a library was written for. A number that Tremula does not know is refused. */
#define TRM_USER_OP_API 1

#ifdef __cplusplus
#define TRM_USER_OP_EXTERN extern "C"
#else
#define TRM_USER_OP_EXTERN extern
#endif

/* What an op returns: 0, or one of TensorFlow's status codes, such as these. */
enum {
  TRM_USER_OP_OK = 0,
  TRM_USER_OP_INVALID_ARGUMENT = 3,
  TRM_USER_OP_RESOURCE_EXHAUSTED = 8,
  TRM_USER_OP_FAILED_PRECONDITION = 9,
  TRM_USER_OP_UNIMPLEMENTED = 12,
  TRM_USER_OP_INTERNAL = 13
};

/* An array: dense, row-major. `dtype` is one of include/tremula/dtype.def, HLO's numbers: s32 4,
 * f16 10, f32 11. `dims` has `rank` sizes. */
typedef struct trm_user_tensor {
  int32_t dtype, rank;
  const int64_t *dims;
  uint64_t elements, bytes;
} trm_user_tensor;

/* One call. Everything is Tremula's and lives as long as the call; the op writes the arrays behind
 * `outputs`, all of them, and nothing else. A gradient's inputs are the gradients of the op's
 * outputs, then the op's outputs, then its inputs. */
typedef struct trm_user_op_call {
  uint32_t size;    /* of this struct, in bytes: later versions add at the end */
  uint32_t replica; /* whose call it is; replicas may call at the same time, from several threads */
  uint32_t num_inputs, num_outputs;
  const void *const *inputs;
  void *const *outputs;
  const trm_user_tensor *input_info, *output_info;
  const char *attributes; /* the op's attributes or, of a gradient, gradient_attributes: may hold
                             NULs, one more follows */
  uint64_t attributes_size;
  const char *name;       /* of the op in the program */
  uint32_t gradient_size; /* of a gradient: how many of the inputs are gradients; else 0 */
  uint32_t partial_derivative_index; /* of a separate gradient: the input that it is for */
  char *message; /* what went wrong, a C string of at most message_size bytes, NUL included */
  uint32_t message_size;
} trm_user_op_call;

typedef int (*trm_user_op)(const trm_user_op_call *call);

/* What Tremula may know of an op. A library may have a function NAME_metadata that fills it in,
 * which is called with num_inputs and the values below; without one these hold. */
typedef struct trm_user_op_metadata {
  uint32_t size; /* of this struct, in bytes */
  uint32_t num_inputs;
  bool is_stateless;   /* false: every call is made, in order, even if nobody takes the results */
  bool is_hashable;    /* false: programs with the op are not kept in the executable cache */
  bool is_elementwise; /* false. True: output 0 has the shape of input 0 */
  /* 0. Bit i: the op says where input i is on the tiles (not used yet) */
  uint64_t allocating_inputs;
  uint64_t replica_identical_outputs; /* 0. Bit i: output i is the same on all replicas */
} trm_user_op_metadata;

typedef void (*trm_user_op_metadata_function)(trm_user_op_metadata *metadata);

/* Declares the op NAME and says that it has this header's signature. */
#define TRM_USER_OP(NAME)                                                                  \
  TRM_USER_OP_EXTERN __attribute__((visibility("default"))) const uint32_t NAME##_tremula; \
  __attribute__((visibility("default"))) const uint32_t NAME##_tremula = TRM_USER_OP_API;  \
  TRM_USER_OP_EXTERN __attribute__((visibility("default"))) int NAME(const trm_user_op_call *call);
/* Declares NAME_metadata. */
#define TRM_USER_OP_METADATA(NAME) \
  TRM_USER_OP_EXTERN               \
  __attribute__((visibility("default"))) void NAME##_metadata(trm_user_op_metadata *metadata);

#endif /* TREMULA_USER_OP_H_ */

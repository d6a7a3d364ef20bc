/* The process's oneDNN engine, and sequences, which the oneDNN kernels run.
 *
 * A sequence is a short list of operations over named places (an operand, the result, scratch, the
 * persistent block). An operation is a oneDNN primitive or a function of our own. Everything is
 * made at create time; a run only sets pointers. Operations between trm_onednn_pack_begin and
 * trm_onednn_pack_end depend on one operand alone (the weights) and write to the persistent block.
 * A run skips them if that operand's version states that its contents are those of the last run.
 *
 * The building functions return TRM_UNIMPLEMENTED, without a message, for work that oneDNN does not
 * support. The creator then reports "not supported", and another kernel serves. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_ONEDNN_SEQUENCE_H_
#define TREMULA_HOST_OPS_PRODUCTS_ONEDNN_SEQUENCE_H_

#include <oneapi/dnnl/dnnl.h>

#include "host/ops/kernel.h"
#include "host/ops/products/half_products.h"

typedef enum trm_onednn_space {
  TRM_ONEDNN_OPERAND,
  TRM_ONEDNN_RESULT,
  TRM_ONEDNN_SCRATCH,
  TRM_ONEDNN_PERSISTENT
} trm_onednn_space;

typedef struct trm_onednn_place {
  trm_onednn_space space;
  uint32_t operand;
  size_t offset; /* bytes */
} trm_onednn_place;

typedef struct trm_onednn_argument {
  int id; /* DNNL_ARG_... */
  const_dnnl_memory_desc_t desc;
  trm_onednn_place place;
} trm_onednn_argument;

/* An operation of our own. `data` lives in the request's arena; `b` is NULL for operations with one
 * input. */
typedef void (*trm_onednn_function)(const void *data, const void *a, const void *b, void *out);

/* An operation that needs its own memory while it runs. */
typedef void (*trm_onednn_worker)(const void *data, const void *a, const void *b, void *out,
                                  void *scratch);

typedef struct trm_onednn_sequence trm_onednn_sequence;

/* The engine, created at the first call, or NULL. Thread-safe. */
dnnl_engine_t trm_onednn_engine(void);
/* Primitive attributes with a scratchpad that the caller gives; NULL when memory runs out. Destroy
 * them with dnnl_primitive_attr_destroy. */
dnnl_primitive_attr_t trm_onednn_attributes(void);
/* TRM_OK for success; TRM_UNIMPLEMENTED, without a message, if oneDNN does not support the work;
 * else a failure with a message. */
trm_status trm_onednn_status(dnnl_status_t status, const char *what, trm_error *error);
#define TRY_DNNL(expression, what) TRY(trm_onednn_status((expression), (what), error))

/* `work`: bytes that a run touches, or cheap operations. It bounds the number of threads of every
 * run. oneDNN divides the work when it creates a primitive, so the bound is set for the calling
 * thread until trm_onednn_sequence_finish or _free. */
trm_status trm_onednn_sequence_create(const trm_kernel_request *request, double work,
                                      trm_onednn_sequence **out_sequence, trm_error *error);
void trm_onednn_sequence_free(trm_onednn_sequence *sequence);
/* The number of threads of a run. */
int trm_onednn_sequence_threads(const trm_onednn_sequence *sequence);

trm_onednn_place trm_onednn_operand(uint32_t operand, size_t offset);
trm_onednn_place trm_onednn_result(size_t offset);
trm_onednn_place trm_onednn_scratch(trm_onednn_sequence *sequence, size_t bytes);
trm_onednn_place trm_onednn_persistent(trm_onednn_sequence *sequence, size_t bytes);

/* Whether the operand may have the same contents in later calls, so that packing pays: it is a
 * parameter or a constant. */
bool trm_onednn_may_repeat(const trm_kernel_request *request, uint32_t operand);
void trm_onednn_pack_begin(trm_onednn_sequence *sequence, uint32_t operand);
void trm_onednn_pack_end(trm_onednn_sequence *sequence);

/* Creates the primitive of *desc, which stays the caller's, and reserves scratch for it. */
trm_status trm_onednn_add_primitive(trm_onednn_sequence *sequence, const_dnnl_primitive_desc_t desc,
                                    const trm_onednn_argument *arguments, int num_arguments,
                                    trm_error *error);
trm_status trm_onednn_add_reorder(trm_onednn_sequence *sequence, const_dnnl_memory_desc_t from_desc,
                                  trm_onednn_place from, const_dnnl_memory_desc_t to_desc,
                                  trm_onednn_place to, trm_error *error);
trm_status trm_onednn_add_function(trm_onednn_sequence *sequence, trm_onednn_function function,
                                   const void *data, trm_onednn_place a, trm_onednn_place b,
                                   trm_onednn_place out, trm_error *error);

trm_status trm_onednn_add_worker(trm_onednn_sequence *sequence, trm_onednn_worker worker,
                                 const void *data, trm_onednn_place a, trm_onednn_place b,
                                 trm_onednn_place out, size_t scratch_bytes, trm_error *error);
/* Operations that are added from now on belong to part `part`, from 1, of a group; 0 ends the
 * group. Parts run at the same time, each on one thread, and their primitives are created for
 * one. */
void trm_onednn_set_part(trm_onednn_sequence *sequence, int part);

/* Widens `count` halves or bfloat16s at *place into float32, in the persistent block (is_kept) or
 * in scratch, and moves *place there. Nothing is done for float32. */
trm_status trm_onednn_add_widen(trm_onednn_sequence *sequence, trm_dtype dtype, int64_t count,
                                bool is_kept, trm_onednn_place *place, trm_error *error);
/* Rounds float32 at `from` to `count` elements of dtype in the result. */
trm_status trm_onednn_add_narrow(trm_onednn_sequence *sequence, trm_dtype dtype, int64_t count,
                                 trm_onednn_place from, trm_error *error);

/* Cuts the halves at *place into pieces (half_products.h), in the persistent block (is_kept) or in
 * scratch, and moves *place there. */
trm_status trm_onednn_add_split(trm_onednn_sequence *sequence, const trm_half_split *split,
                                bool is_kept, trm_onednn_place *place, trm_error *error);

/* A copy of float32s between strided arrays. Strides are in elements; those of `from` may be
 * negative. from_start is the element of `from` with index 0. */
#define TRM_ONEDNN_COPY_RANK 8
typedef struct trm_onednn_copy {
  int32_t rank;
  int64_t dims[TRM_ONEDNN_COPY_RANK], from_strides[TRM_ONEDNN_COPY_RANK],
      to_strides[TRM_ONEDNN_COPY_RANK];
  int64_t from_start;
} trm_onednn_copy;
trm_status trm_onednn_add_copy(trm_onednn_sequence *sequence, const trm_onednn_copy *copy,
                               trm_onednn_place from, trm_onednn_place to, trm_error *error);

/* Creates a kernel, which then owns the sequence. Its name says who computes (`way`), what, and how
 * halves are multiplied: "onednn.dot.pieces3". */
trm_status trm_onednn_sequence_finish(trm_onednn_sequence *sequence, const char *way,
                                      const char *what, trm_half_products products,
                                      trm_kernel *out_kernel, trm_error *error);

/* Creates a descriptor of a strided array, which the sequence owns. */
trm_status trm_onednn_describe(trm_onednn_sequence *sequence, dnnl_data_type_t type, int rank,
                               const int64_t *dims, const int64_t *strides,
                               const_dnnl_memory_desc_t *out_desc, trm_error *error);
/* Creates a descriptor that leaves the format to oneDNN. */
trm_status trm_onednn_describe_any(trm_onednn_sequence *sequence, dnnl_data_type_t type, int rank,
                                   const int64_t *dims, const_dnnl_memory_desc_t *out_desc,
                                   trm_error *error);

/* Conversions, with the CPU's instructions where it has them (onednn_convert.c). */
void trm_onednn_widen(trm_dtype dtype, const void *from, float *to, int64_t count);
void trm_onednn_narrow(trm_dtype dtype, const float *from, void *to, int64_t count);

#endif /* TREMULA_HOST_OPS_PRODUCTS_ONEDNN_SEQUENCE_H_ */

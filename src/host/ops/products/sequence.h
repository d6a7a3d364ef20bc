/* Sequences: kernels that are a short list of steps over named places (an operand, the result,
 * scratch, the persistent block).
 *
 * A step is a function of ours or one of a library (onednn_steps.h). Everything is made at create
 * time; a run only sets pointers. Steps between trm_sequence_pack_begin and trm_sequence_pack_end
 * depend on one operand alone (the weights) and write to the persistent block. A run skips them if
 * that operand's version states that its contents are those of the last run.
 *
 * The building functions return TRM_UNIMPLEMENTED, without a message, for work that a library does
 * not support. The creator then reports "not supported", and another kernel serves. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_SEQUENCE_H_
#define TREMULA_HOST_OPS_PRODUCTS_SEQUENCE_H_

#include "host/ops/kernel.h"
#include "host/ops/products/half_products.h"

typedef enum trm_space {
  TRM_SPACE_OPERAND,
  TRM_SPACE_RESULT,
  TRM_SPACE_SCRATCH,
  TRM_SPACE_PERSISTENT
} trm_space;

typedef struct trm_place {
  trm_space space;
  uint32_t operand;
  size_t offset; /* bytes */
} trm_place;

/* A step of ours. `data` lives in the request's arena; `b` is NULL for steps with one input. */
typedef void (*trm_step_function)(const void *data, const void *a, const void *b, void *out);

/* A step that needs its own memory while it runs. */
typedef void (*trm_step_worker)(const void *data, const void *a, const void *b, void *out,
                                void *scratch);

/* A step of a library, with a context of its own for each run at the same time. */
#define TRM_STEP_MOST_PLACES 6
typedef struct trm_step_kind {
  trm_status (*open)(const void *data, void **out_context, trm_error *error);
  void (*close)(void *context); /* also of NULL */
  trm_status (*run)(const void *data, void *context, void *const *places, trm_error *error);
} trm_step_kind;

typedef struct trm_sequence trm_sequence;

/* `work`: bytes that a run touches, or cheap operations. It bounds the number of threads of every
 * run. oneDNN divides the work when it creates a primitive, so the bound is set for the calling
 * thread until trm_sequence_finish or _free. */
trm_status trm_sequence_create(const trm_kernel_request *request, double work,
                               trm_sequence **out_sequence, trm_error *error);
void trm_sequence_free(trm_sequence *sequence);
/* Takes out the steps that were added, and gives up their memory. */
void trm_sequence_rewind(trm_sequence *sequence);
/* The work of a kernel that touches so many bytes; four operations cost as much as a byte. */
double trm_sequence_work(double bytes, double operations);
/* The number of threads of a run. */
int trm_sequence_threads(const trm_sequence *sequence);
/* Whose memory a step's data may take; the kernel owns it. */
trm_arena *trm_sequence_arena(const trm_sequence *sequence);
/* Destroys `thing` with the sequence, the newest first; at once when memory runs out. */
trm_status trm_sequence_own(trm_sequence *sequence, void *thing, void (*destroy)(void *thing),
                            trm_error *error);

trm_place trm_place_operand(uint32_t operand, size_t offset);
trm_place trm_place_result(size_t offset);
trm_place trm_sequence_scratch(trm_sequence *sequence, size_t bytes);
trm_place trm_sequence_persistent(trm_sequence *sequence, size_t bytes);

/* Whether the operand may have the same contents in later calls, so that packing pays: it is a
 * parameter or a constant. */
bool trm_operand_may_repeat(const trm_kernel_request *request, uint32_t operand);
void trm_sequence_pack_begin(trm_sequence *sequence, uint32_t operand);
void trm_sequence_pack_end(trm_sequence *sequence);

trm_status trm_sequence_add_function(trm_sequence *sequence, trm_step_function function,
                                     const void *data, trm_place a, trm_place b, trm_place out,
                                     trm_error *error);
trm_status trm_sequence_add_worker(trm_sequence *sequence, trm_step_worker worker, const void *data,
                                   trm_place a, trm_place b, trm_place out, size_t scratch_bytes,
                                   trm_error *error);
/* A step of a library with at most TRM_STEP_MOST_PLACES places; `kind` is never freed. */
trm_status trm_sequence_add_step(trm_sequence *sequence, const trm_step_kind *kind,
                                 const void *data, const trm_place *places, int num_places,
                                 trm_error *error);
/* Steps that are added from now on belong to chunk `chunk`, from 1, of a group; 0 ends the group.
 * Parts run at the same time, each on one thread, and their primitives are created for one. */
void trm_sequence_set_chunk(trm_sequence *sequence, int chunk);

/* Creates a kernel, which then owns the sequence. Its name says who computes (`way`), what, and how
 * halves are multiplied: "onednn.dot.pieces3". */
trm_status trm_sequence_finish(trm_sequence *sequence, const char *way, const char *what,
                               trm_half_products products, trm_kernel *out_kernel,
                               trm_error *error);

/* ---- Steps that convert and copy (sequence_copies.c) ----------------------------------------- */

/* Widens `count` halves or bfloat16s at *place into float32, in the persistent block (is_kept) or
 * in scratch, and moves *place there. Nothing is done for float32. */
trm_status trm_sequence_add_widen(trm_sequence *sequence, trm_dtype dtype, int64_t count,
                                  bool is_kept, trm_place *place, trm_error *error);
/* Rounds float32 at `from` to `count` elements of dtype in the result. */
trm_status trm_sequence_add_narrow(trm_sequence *sequence, trm_dtype dtype, int64_t count,
                                   trm_place from, trm_error *error);

/* Cuts the halves at *place into pieces (half_products.h), in the persistent block (is_kept) or in
 * scratch, and moves *place there. */
trm_status trm_sequence_add_split(trm_sequence *sequence, const trm_half_split *split, bool is_kept,
                                  trm_place *place, trm_error *error);

/* A copy of float32s between strided arrays. Strides are in elements; those of `from` may be
 * negative. from_start is the element of `from` with index 0. */
#define TRM_STRIDED_COPY_RANK 8
typedef struct trm_strided_copy {
  int32_t rank;
  int64_t dims[TRM_STRIDED_COPY_RANK], from_strides[TRM_STRIDED_COPY_RANK],
      to_strides[TRM_STRIDED_COPY_RANK];
  int64_t from_start;
} trm_strided_copy;
trm_status trm_sequence_add_copy(trm_sequence *sequence, const trm_strided_copy *copy,
                                 trm_place from, trm_place to, trm_error *error);

#endif /* TREMULA_HOST_OPS_PRODUCTS_SEQUENCE_H_ */

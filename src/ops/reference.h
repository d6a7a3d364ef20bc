/* What the reference kernels share: values of any type, indices, and scalar computations.
 *
 *   reference.c            loading, rounding and storing values; kernel state
 *   reference_scalar.c     one elementwise opcode applied to values
 *   reference_complex.c    the same for complex values
 *   reference_evaluator.c  a whole computation of scalars (of reduce, sort, map, scatter, ...)
 *   body.c                 a fusion, instruction by instruction
 *
 * Nothing here is fast; all of it is meant to be right at first reading. */
#ifndef TREMULA_OPS_REFERENCE_H_
#define TREMULA_OPS_REFERENCE_H_

#include <string.h>

#include "ops/kernel.h"

/* ---- Values --------------------------------------------------------------------------------- */

/* One element. Signed types are sign-extended in s; pred and unsigned types zero-extended in u;
 * all floats are exact in f; a complex number is f + imag * i. */
typedef struct trm_value {
  union {
    int64_t s;
    uint64_t u;
    double f;
  };
  double imag;
} trm_value;

trm_value trm_value_load(trm_dtype dtype, const void *array, int64_t index);
/* Rounds: integers wrap, f16 and bf16 are rounded by way of f32. */
void trm_value_store(trm_dtype dtype, void *array, int64_t index, trm_value value);
/* What a store and a load would give. */
trm_value trm_value_round(trm_dtype dtype, trm_value value);
/* HLO's convert. Float to integer truncates; what does not fit int32 is its smallest number, of
 * which smaller types keep the low bits, as in TensorFlow's kernels (XLA saturates); the same with
 * int64 for 64 bits and for u32. To pred is "not zero". f64 to f16 or bf16 goes by way of f32, as
 * in XLA. */
trm_value trm_value_convert(trm_dtype from, trm_dtype to, trm_value value);
/* The bits of a real value, in the low bytes. */
uint64_t trm_value_bits(trm_dtype dtype, trm_value value);

/* ---- Indices -------------------------------------------------------------------------------- */

/* Counts through all indices of an array, the last dimension fastest. */
typedef struct trm_odometer {
  int32_t rank;
  int64_t dims[TRM_MAX_RANK], index[TRM_MAX_RANK];
} trm_odometer;

void trm_odometer_init(trm_odometer *odometer, int32_t rank, const int64_t *dims);
/* Returns to zero after the last index. */
void trm_odometer_next(trm_odometer *odometer);
int64_t trm_dims_count(int32_t rank, const int64_t *dims);
/* Row-major strides in elements. */
void trm_shape_strides(const trm_shape *shape, int64_t strides[TRM_MAX_RANK]);
int64_t trm_linear_index(int32_t rank, const int64_t *strides, const int64_t *index);
bool trm_dims_contain(const trm_dims *dims, int64_t dimension);
/* The dimensions of 0..rank-1 that `dims` does not name, in order; returns how many. */
int32_t trm_dims_others(const trm_dims *dims, int32_t rank, int64_t out_others[TRM_MAX_RANK]);

static inline void trm_copy_element(size_t size, void *to, int64_t to_index, const void *from,
                                    int64_t from_index) {
  memcpy((char *)to + (size_t)to_index * size, (const char *)from + (size_t)from_index * size,
         size);
}

/* ---- Scalar opcodes ------------------------------------------------------------------------- */

typedef struct trm_scalar_op {
  trm_opcode opcode;
  trm_dtype from, to; /* type of the operands that are computed with; type of the result */
  trm_comparison comparison;
  trm_comparison_type comparison_type;
  int32_t exponent_bits, mantissa_bits;
  trm_half_overflow half_overflow;
} trm_scalar_op;

/* Whether trm_scalar_op_create knows the opcode. */
bool trm_scalar_op_exists(trm_opcode opcode);
trm_status trm_scalar_op_create(const trm_module *module, const trm_computation *computation,
                                const trm_instruction *instruction, trm_scalar_op *out_op,
                                trm_error *error);
/* The result is rounded to its type. */
trm_value trm_scalar_op_apply(const trm_scalar_op *op, const trm_value *operands);
/* The part of it for complex operands or results. */
trm_value trm_complex_op_apply(const trm_scalar_op *op, const trm_value *operands);
bool trm_complex_op_exists(trm_opcode opcode);

/* ---- Scalar computations -------------------------------------------------------------------- */

typedef struct trm_evaluator_operation {
  trm_scalar_op op;
  uint32_t operands[3], result; /* slots */
} trm_evaluator_operation;

/* A computation of scalars, flattened: calls are inlined, tuples resolved. Slots 0.. are the
 * parameters' leaves. */
typedef struct trm_evaluator {
  uint32_t num_parameters, num_results, num_slots, num_operations, num_constants;
  trm_evaluator_operation *operations;
  uint32_t *constant_slots;
  trm_value *constants;
  uint32_t *results;
  trm_dtype *parameter_types, *result_types;
  size_t slot_bytes; /* scratch that an evaluation needs */
} trm_evaluator;

/* Fails when the computation holds what is not scalar, with what it is. */
trm_status trm_evaluator_create(const trm_module *module, uint32_t computation, trm_arena *arena,
                                trm_evaluator **out_evaluator, trm_error *error);
/* Writes the constants; once before a series of runs in the same slots. */
void trm_evaluator_prepare(const trm_evaluator *evaluator, trm_value *slots);
/* Parameters in slots[0..], results at slots[evaluator->results[i]]. */
void trm_evaluator_run(const trm_evaluator *evaluator, trm_value *slots);
/* The opcode when the computation is just one binary operation on its two parameters; otherwise
 * TRM_NUM_OPCODES. */
trm_opcode trm_evaluator_single_opcode(const trm_evaluator *evaluator);

/* ---- Kernels -------------------------------------------------------------------------------- */

/* What every reference kernel keeps: copies, so that the module's arrays may move. */
typedef struct trm_reference_state {
  trm_instruction instruction;
  trm_shape shape; /* the result */
  uint32_t num_operands;
  trm_shape *operands;
  trm_evaluator *evaluators[2]; /* of the called computations, where they are scalar */
} trm_reference_state;

typedef trm_status (*trm_kernel_run_fn)(const trm_kernel *kernel, const trm_kernel_call *call,
                                        trm_error *error);

/* Fills *out_kernel with a state made of the request; `num_called` computations are compiled and
 * the scratch for their slots is reserved (evaluator 0's first). */
trm_status trm_reference_kernel_create(const trm_kernel_request *request, const char *name,
                                       trm_kernel_run_fn run, uint32_t num_called,
                                       trm_kernel *out_kernel, trm_error *error);
static inline trm_reference_state *trm_reference_state_of(const trm_kernel *kernel) {
  return (trm_reference_state *)kernel->state;
}
/* Refuses: no reference kernel for this instruction because of `reason`. */
trm_status trm_reference_refuse(const trm_kernel_request *request, const char *reason,
                                trm_error *error);

/* A fusion, instruction by instruction, with the reference kernels. */
trm_status trm_reference_fusion_create(const trm_kernel_request *, trm_kernel *, bool *,
                                       trm_error *);
trm_status trm_reference_linear_algebra_create(const trm_kernel_request *, trm_kernel *, bool *,
                                               trm_error *);
/* The custom call "Eigh". */
trm_status trm_reference_eigen_create(const trm_kernel_request *, trm_kernel *, bool *,
                                      trm_error *);
/* The custom calls "Qr" and "ProductOfElementaryHouseholderReflectors". */
trm_status trm_reference_qr_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_reference_fft_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);
trm_status trm_reference_indexed_create(const trm_kernel_request *, trm_kernel *, bool *,
                                        trm_error *);
trm_status trm_reference_window_create(const trm_kernel_request *, trm_kernel *, bool *,
                                       trm_error *);
trm_status trm_reference_sort_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);

#endif /* TREMULA_OPS_REFERENCE_H_ */

/* What the reference kernels share: values of any type, indices, and scalar computations.
 *
 *   reference_values.c     loading, rounding and storing values; kernel state
 *   reference_scalar.c     one elementwise opcode applied to values
 *   reference_complex.c    the same for complex values
 *   reference_evaluator.c  a whole computation of scalars (of reduce, sort, map, scatter, ...)
 *   body.c                 a fusion, instruction by instruction
 *
 * No code here is fast; all of it is meant to be right at first reading. */
#ifndef TREMULA_HOST_OPS_REFERENCE_H_
#define TREMULA_HOST_OPS_REFERENCE_H_

#include <string.h>

#include "host/ops/kernel.h"

/* ---- Values --------------------------------------------------------------------------------- */

/* One element. Signed types are sign-extended in s, pred and unsigned types zero-extended in u. All
 * floats are exact in f. A complex number is f + imag * i. */
typedef struct trm_value {
  union {
    int64_t s;
    uint64_t u;
    double f;
  };
  double imag;
} trm_value;

trm_value trm_value_load(trm_dtype dtype, const void *array, int64_t index);
/* Rounds and stores: integers wrap; f16 and bf16 are first rounded to f32. */
void trm_value_store(trm_dtype dtype, void *array, int64_t index, trm_value value);
/* The value that a load gives after a store. */
trm_value trm_value_round(trm_dtype dtype, trm_value value);
/* HLO's convert. Float to integer truncates. What the type cannot hold becomes its nearest integer,
 * and a NaN 0, as in XLA. With `wraps` (trm_module.casts_wrap) a number beyond int32 becomes the
 * smallest int32, of which smaller types keep the low bits, as in TensorFlow's kernels; for u32 and
 * 64 bits the same holds with int64. To pred is "not zero". f64 to f16 or bf16 passes through f32,
 * as in XLA. */
trm_value trm_value_convert(trm_dtype from, trm_dtype to, bool wraps, trm_value value);
/* The bits of a real value, in the low bytes. */
uint64_t trm_value_bits(trm_dtype dtype, trm_value value);

/* ---- Indices -------------------------------------------------------------------------------- */

/* Counts through all indices of an array; the last dimension is the fastest. */
typedef struct trm_odometer {
  int32_t rank;
  int64_t dims[TRM_MAX_RANK], index[TRM_MAX_RANK];
} trm_odometer;

void trm_odometer_init(trm_odometer *odometer, int32_t rank, const int64_t *dims);
/* Goes to the next index, and from the last to zero. */
void trm_odometer_next(trm_odometer *odometer);
int64_t trm_dims_count(int32_t rank, const int64_t *dims);
/* Row-major strides in elements. */
void trm_shape_strides(const trm_shape *shape, int64_t strides[TRM_MAX_RANK]);
int64_t trm_linear_index(int32_t rank, const int64_t *strides, const int64_t *index);
bool trm_dims_contain(const trm_dims *dims, int64_t dimension);
/* The dimensions from 0 to rank - 1 that are not in `dims`, in order; returns their number. */
int32_t trm_dims_others(const trm_dims *dims, int32_t rank, int64_t out_others[TRM_MAX_RANK]);

static inline void trm_copy_element(size_t size, void *to, int64_t to_index, const void *from,
                                    int64_t from_index) {
  memcpy((char *)to + (size_t)to_index * size, (const char *)from + (size_t)from_index * size,
         size);
}

/* ---- Scalar opcodes ------------------------------------------------------------------------- */

typedef struct trm_scalar_op {
  trm_opcode opcode;
  trm_dtype from, to; /* the type that operands are computed in; the type of the result */
  trm_comparison comparison;
  trm_comparison_type comparison_type;
  int32_t exponent_bits, mantissa_bits;
  trm_half_overflow half_overflow;
  bool casts_wrap;
} trm_scalar_op;

trm_status trm_scalar_op_create(const trm_module *module, const trm_computation *computation,
                                const trm_instruction *instruction, trm_scalar_op *out_op,
                                trm_error *error);
/* Applies the opcode; the result is rounded to its type. */
trm_value trm_scalar_op_apply(const trm_scalar_op *op, const trm_value *operands);
/* The part of trm_scalar_op_apply for complex operands or results. */
trm_value trm_complex_op_apply(const trm_scalar_op *op, const trm_value *operands);
bool trm_complex_op_exists(trm_opcode opcode);

/* ---- Scalar computations -------------------------------------------------------------------- */

typedef struct trm_evaluator_operation {
  trm_scalar_op op;
  uint32_t operands[3], result; /* slots */
} trm_evaluator_operation;

/* A computation of scalars as a list of operations: calls are inlined, tuples resolved. The first
 * slots are the leaves of the parameters. */
typedef struct trm_evaluator {
  uint32_t num_parameters, num_results, num_slots, num_operations, num_constants;
  trm_evaluator_operation *operations;
  uint32_t *constant_slots;
  trm_value *constants;
  uint32_t *results;
  trm_dtype *parameter_types, *result_types;
  size_t slot_bytes; /* the scratch of an evaluation */
} trm_evaluator;

/* Fails for a computation with instructions that are not scalar, which the message names. */
trm_status trm_evaluator_create(const trm_module *module, uint32_t computation, trm_arena *arena,
                                trm_evaluator **out_evaluator, trm_error *error);
/* Writes the constants; called once before a series of runs in the same slots. */
void trm_evaluator_prepare(const trm_evaluator *evaluator, trm_value *slots);
/* Evaluates: parameters are in slots[0..], results in slots[evaluator->results[i]]. */
void trm_evaluator_run(const trm_evaluator *evaluator, trm_value *slots);
/* The opcode if the computation is one binary operation on its two parameters; else
 * TRM_NUM_OPCODES. */
trm_opcode trm_evaluator_single_opcode(const trm_evaluator *evaluator);

/* ---- Kernels -------------------------------------------------------------------------------- */

/* The state of a reference kernel. It has copies, because the module's arrays may move. */
typedef struct trm_reference_state {
  trm_instruction instruction;
  trm_shape shape; /* the result */
  uint32_t num_operands;
  trm_shape *operands;
  trm_evaluator *evaluators[2]; /* of the called computations that are scalar */
} trm_reference_state;

typedef trm_status (*trm_kernel_run_fn)(const trm_kernel *kernel, const trm_kernel_call *call,
                                        trm_error *error);

/* Fills *out_kernel with a state made of the request, compiles `num_called` computations, and
 * reserves the scratch for their slots (evaluator 0's first). */
trm_status trm_reference_kernel_create(const trm_kernel_request *request, const char *name,
                                       trm_kernel_run_fn run, uint32_t num_called,
                                       trm_kernel *out_kernel, trm_error *error);
static inline trm_reference_state *trm_reference_state_of(const trm_kernel *kernel) {
  return (trm_reference_state *)kernel->state;
}
/* Fails: there is no reference kernel for this instruction because of `reason`. */
trm_status trm_reference_refuse(const trm_kernel_request *request, const char *reason,
                                trm_error *error);

/* A fusion, run instruction by instruction with reference kernels. */
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

#endif /* TREMULA_HOST_OPS_REFERENCE_H_ */

/* The vectorised loops: a table of functions for each instruction set. All tables give the same
 * bits.
 *
 * A function works on n elements. out may be one of the inputs (the same pointer, with elements of
 * the same size) and otherwise overlaps none. Halves are computed as float32 values that were
 * rounded to half, so there is no column for half: a half operation is the F32 one, then
 * round_half. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_H_

#include "hlo/hlo.h"

typedef enum trm_vector_type {
  TRM_V_PRED,
  TRM_V_S8,
  TRM_V_S16,
  TRM_V_S32,
  TRM_V_S64,
  TRM_V_U8,
  TRM_V_U16,
  TRM_V_U32,
  TRM_V_U64,
  TRM_V_F32,
  TRM_V_F64,
  TRM_NUM_VECTOR_TYPES
} trm_vector_type;

typedef void (*trm_vector_fn)(void *out, const void *a, const void *b, const void *c, size_t n);

/* Two float32 operations in one pass: t = a FIRST b, out = t SECOND c (or c SECOND t), with the
 * bits of two passes. */
typedef enum trm_pair_first {
  TRM_FIRST_ADD,
  TRM_FIRST_SUBTRACT,
  TRM_FIRST_MULTIPLY,
  TRM_NUM_FIRSTS
} trm_pair_first;
typedef enum trm_pair_second {
  TRM_SECOND_ADD,
  TRM_SECOND_SUBTRACT,
  TRM_SECOND_SUBTRACT_FROM,
  TRM_SECOND_MULTIPLY,
  TRM_SECOND_MAXIMUM,
  TRM_SECOND_MAXIMUM_OF,
  TRM_NUM_SECONDS
} trm_pair_second;

/* The argument c of the function `polynomial`: out = ((s z + c0) z + c1) z + ...; z is b, s is a
 * or, with starts, `start`. */
typedef struct trm_polynomial {
  bool starts;
  float start;
  uint32_t count;
  float coefficients[]; /* c0 first */
} trm_polynomial;

/* Bits by operand: the operand is a scalar instead of an array. */
enum { TRM_SCALAR_A = 1, TRM_SCALAR_B = 2, TRM_SCALAR_C = 4, TRM_NUM_SCALARS = 8 };

typedef struct trm_vector_ops {
  const char *name;
  /* By opcode and by the type of the (first) operand; NULL: none. compare, convert and select are
   * below. */
  trm_vector_fn op[TRM_NUM_OPCODES][TRM_NUM_VECTOR_TYPES];
  trm_vector_fn compare[6][TRM_NUM_VECTOR_TYPES];       /* by trm_comparison; the result is pred */
  trm_vector_fn compare_total[TRM_NUM_VECTOR_TYPES][6]; /* floats, total order */
  trm_vector_fn convert[TRM_NUM_VECTOR_TYPES][TRM_NUM_VECTOR_TYPES]; /* from, to; saturates */
  trm_vector_fn wrap[2][TRM_NUM_VECTOR_TYPES]; /* from F32, F64 to integers, trm_value_convert's */
  trm_vector_fn select[4], copy[4]; /* by log2 of the element's bytes; select's a is pred */
  trm_vector_fn pair[TRM_NUM_FIRSTS][TRM_NUM_SECONDS];
  /* F32 functions with scalar operands, by TRM_SCALAR_ bits; NULL: none. */
  trm_vector_fn scalar[TRM_NUM_SCALARS][TRM_NUM_OPCODES];
  trm_vector_fn scalar_pair[TRM_NUM_SCALARS][TRM_NUM_FIRSTS][TRM_NUM_SECONDS];
  trm_vector_fn polynomial; /* with the bits of its multiplications and additions one by one */
  trm_vector_fn half_to_float, float_to_half;
  trm_vector_fn round_half; /* float to float, rounded through half */
  /* By trm_half_overflow, NULL for INFINITY. half_limit: limits finite values that are too large
   * for half, before rounding. The others take (result, operands) and replace an infinity that
   * comes of finite operands: half_pole at a pole, half_large for a result that is too large (or
   * power's pole). */
  trm_vector_fn half_limit[3], half_pole, half_large;
  /* Sums whose order of additions depends only on n. */
  double (*sum_f32)(const float *a, size_t n);
  double (*sum_half)(const uint16_t *a, size_t n);
  /* The largest and the smallest of at least one element; NaN if any is NaN. */
  float (*max_f32)(const float *a, size_t n);
  float (*min_f32)(const float *a, size_t n);
  /* sum of (a - mean)^2 */
  double (*sum_squares_f32)(const float *a, float mean, size_t n);
  /* acc[i] += a[i]; the sum of 8 rows, added as a tree in float32. */
  void (*accumulate_double)(double *acc, const float *a, size_t n);
  void (*accumulate_8)(double *acc, const float *const *rows, size_t n);
  /* Running sums: adds rows of n to acc, one after the other, and writes acc after each. */
  void (*scan_double)(double *acc, float *out, int64_t out_stride, const float *a, int64_t stride,
                      size_t rows, size_t n);
  /* Batch norm; all arrays have n elements: acc[i] += sum over rows of (x - mean)^2; the same of
   * grad * (x - mean); (x - mean) * scale + offset; scale * (grad - grad_mean - (x - mean) *
   * slope). */
  void (*squares_rows)(double *acc, const float *const *rows, size_t num_rows, const float *mean,
                       size_t n);
  void (*products_rows)(double *acc, const float *const *grads, const float *const *rows,
                        size_t num_rows, const float *mean, size_t n);
  void (*normalize)(float *out, const float *x, const float *mean, const float *scale,
                    const float *offset, size_t n);
  void (*normalize_grad)(float *out, const float *grad, const float *x, const float *mean,
                         const float *scale, const float *grad_mean, const float *slope, size_t n);
  /* For the gradient of pooling: where x is greater than best (or equal), x and the place `at`
   * replace best and place. */
  void (*keep_greater)(float *best, int32_t *place, const float *x, int32_t at, size_t n);
  void (*keep_greater_equal)(float *best, int32_t *place, const float *x, int32_t at, size_t n);
  /* Strided loads: out[i] = a[i * stride], and transposed tiles: out[j * out_stride + i] =
   * a[i * stride + j] for i < rows, j < columns; strides in elements; by log2 of the bytes. */
  void (*strided[4])(void *out, const void *a, int64_t stride, size_t n);
  void (*transpose[4])(void *out, int64_t out_stride, const void *a, int64_t stride, size_t rows,
                       size_t columns);
} trm_vector_ops;

/* The table for this CPU. TREMULA_ISA=baseline|avx2|avx512 asks for a smaller instruction set. */
const trm_vector_ops *trm_vector_ops_get(void);
/* For tests: a table by name; NULL if this build or CPU does not have it. */
const trm_vector_ops *trm_vector_ops_find(const char *name);

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_H_ */

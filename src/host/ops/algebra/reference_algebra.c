/* Owns: reference kernels of cholesky and triangular-solve of real matrices, in double. */
#include "host/ops/reference.h"

#include <math.h>

#include "host/ops/products/reference_linear.h"

/* The factor L of one n x n matrix A = L L', in the requested triangle; the other triangle is zero.
 * For a matrix that is not positive definite the whole triangle is NaN. */
static void factor(const trm_reference_state *state, const trm_kernel_call *call, int64_t base,
                   int64_t n, double *l) {
  const bool lower = state->instruction.lower;
  bool failed = false;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      /* Only one triangle of A is read. */
      const int64_t place = lower ? i * n + j : j * n + i;
      double sum = trm_value_load(state->shape.dtype, call->operands[0], base + place).f;
      for (int64_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
      if (i == j && !(sum > 0.0)) failed = true;
      l[i * n + j] = i == j ? sqrt(sum) : sum / l[j * n + j];
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const bool inside = lower ? j <= i : i <= j;
      const double value = !inside ? 0.0 : failed ? NAN : lower ? l[i * n + j] : l[j * n + i];
      trm_value_store(state->shape.dtype, call->results[0], base + i * n + j,
                      (trm_value){{.f = value}, 0.0});
    }
  }
}

static trm_status run_cholesky(const trm_kernel *kernel, const trm_kernel_call *call,
                               trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const int64_t n = state->shape.dims[state->shape.rank - 1];
  const int64_t count = trm_shape_count(&state->shape);
  for (int64_t base = 0; base < count; base += n * n) {
    factor(state, call, base, n, (double *)call->scratch);
  }
  return TRM_OK;
}

/* op(A) X = B or, from the right, X op(A) = B, where A is triangular. */
static trm_status run_triangular_solve(const trm_kernel *kernel, const trm_kernel_call *call,
                                       trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_triangular_solve *solve = state->instruction.triangular_solve;
  const trm_shape *a = &state->operands[0], *b = &state->operands[1];
  const int64_t m = a->dims[a->rank - 1];
  const int64_t rows = b->dims[b->rank - 2], columns = b->dims[b->rank - 1];
  if (trm_shape_count(b) == 0) return TRM_OK;
  const int64_t lines = solve->left_side ? columns : rows; /* independent systems */
  /* Reading A transposed: by the option, and once more for X A = B, which is A' X' = B'. */
  const bool transpose = (solve->transpose_a != 1) != !solve->left_side;
  const bool lower = solve->lower != transpose;
  const int64_t unknown_stride = solve->left_side ? columns : 1;
  const int64_t line_stride = solve->left_side ? 1 : columns;
  double *const x = (double *)call->scratch;
  const int64_t matrices = trm_shape_count(b) / (rows * columns);
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    const int64_t a_base = matrix * m * m, b_base = matrix * rows * columns;
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t base = b_base + line * line_stride;
      for (int64_t step = 0; step < m; ++step) {
        const int64_t i = lower ? step : m - 1 - step;
        double sum = trm_value_load(b->dtype, call->operands[1], base + i * unknown_stride).f;
        for (int64_t known = 0; known < step; ++known) {
          const int64_t j = lower ? known : m - 1 - known;
          const int64_t place = transpose ? j * m + i : i * m + j;
          sum -= trm_value_load(a->dtype, call->operands[0], a_base + place).f * x[j];
        }
        if (!solve->unit_diagonal) {
          sum /= trm_value_load(a->dtype, call->operands[0], a_base + i * m + i).f;
        }
        x[i] = sum;
      }
      for (int64_t i = 0; i < m; ++i) {
        trm_value_store(state->shape.dtype, call->results[0], base + i * unknown_stride,
                        (trm_value){{.f = x[i]}, 0.0});
      }
    }
  }
  return TRM_OK;
}

trm_status trm_reference_linear_algebra_create(const trm_kernel_request *request,
                                               trm_kernel *out_kernel, bool *out_supported,
                                               trm_error *error) {
  const trm_shape *a = trm_operand_shape(request, 0);
  *out_supported = true;
  const bool is_complex = trm_dtype_kind(a->dtype) == TRM_KIND_COMPLEX;
  if ((trm_dtype_kind(a->dtype) != TRM_KIND_FLOAT && !is_complex) || a->rank < 2 ||
      a->dims[a->rank - 1] != a->dims[a->rank - 2]) {
    return trm_reference_refuse(request, "it takes square matrices of floats", error);
  }
  const size_t n = (size_t)a->dims[a->rank - 1];
  if (request->instruction->opcode == TRM_OP_CHOLESKY) {
    if (is_complex) return trm_reference_complex_algebra_create(request, out_kernel, error);
    TRY(trm_reference_kernel_create(request, "reference.cholesky", run_cholesky, 0, out_kernel,
                                    error));
    out_kernel->scratch_bytes = n * n * sizeof(double);
    return TRM_OK;
  }
  const trm_triangular_solve *solve = request->instruction->triangular_solve;
  const trm_shape *b = trm_operand_shape(request, 1);
  if (solve == NULL || b->rank != a->rank ||
      b->dims[b->rank - (solve->left_side ? 2 : 1)] != (int64_t)n) {
    return trm_reference_refuse(request, "the matrices do not fit together", error);
  }
  if (is_complex) return trm_reference_complex_algebra_create(request, out_kernel, error);
  TRY(trm_reference_kernel_create(request, "reference.triangular-solve", run_triangular_solve, 0,
                                  out_kernel, error));
  out_kernel->scratch_bytes = n * sizeof(double);
  return TRM_OK;
}

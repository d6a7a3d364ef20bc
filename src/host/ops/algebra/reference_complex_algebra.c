/* Owns: reference kernels of cholesky and triangular-solve of complex matrices, in double. */
#include <complex.h>
#include <math.h>

#include "host/ops/products/reference_linear.h"
#include "host/ops/reference.h"

typedef double complex number;

static number load(trm_dtype dtype, const void *array, int64_t index) {
  const trm_value value = trm_value_load(dtype, array, index);
  return CMPLX(value.f, value.imag);
}

static void store(trm_dtype dtype, void *array, int64_t index, number z) {
  trm_value_store(dtype, array, index, (trm_value){{.f = creal(z)}, cimag(z)});
}

/* The factor L of one n x n matrix A = L L^H; false where the matrix is not positive definite. Only
 * one triangle of A is read, and of its diagonal the real parts. */
static bool factor(const number *a, int64_t n, bool lower, number *l) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      number sum = lower ? a[i * n + j] : conj(a[j * n + i]);
      for (int64_t k = 0; k < j; ++k) sum -= l[i * n + k] * conj(l[j * n + k]);
      if (i == j && !(creal(sum) > 0.0)) return false;
      l[i * n + j] = i == j ? sqrt(creal(sum)) : sum / creal(l[j * n + j]);
    }
  }
  return true;
}

/* The factor in the requested triangle; the other one is zero. Without a factor the triangle is
 * NaN. */
static trm_status run_cholesky(const trm_kernel *kernel, const trm_kernel_call *call,
                               trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_dtype dtype = state->shape.dtype;
  const bool lower = state->instruction.lower;
  const int64_t n = state->shape.dims[state->shape.rank - 1];
  const int64_t count = trm_shape_count(&state->shape);
  number *const a = (number *)call->scratch, *const l = a + n * n;
  for (int64_t base = 0; base < count; base += n * n) {
    for (int64_t i = 0; i < n * n; ++i) a[i] = load(dtype, call->operands[0], base + i);
    const bool found = factor(a, n, lower, l);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const bool inside = lower ? j <= i : i <= j;
        const number value = !inside  ? 0.0
                             : !found ? CMPLX(NAN, NAN)
                             : lower  ? l[i * n + j]
                                      : conj(l[j * n + i]);
        store(dtype, call->results[0], base + i * n + j, value);
      }
    }
  }
  return TRM_OK;
}

/* Solves one system of `n` unknowns x[i * step], with m[i * row + j * column] as its triangle. */
static void solve_one(const number *m, int64_t row, int64_t column, int64_t n, bool forward,
                      bool unit, number *x, int64_t step) {
  for (int64_t r = 0; r < n; ++r) {
    const int64_t i = forward ? r : n - 1 - r;
    number sum = x[i * step];
    for (int64_t q = 0; q < r; ++q) {
      const int64_t j = forward ? q : n - 1 - q;
      sum -= m[i * row + j * column] * x[j * step];
    }
    x[i * step] = unit ? sum : sum / m[i * row + i * column];
  }
}

/* op(A) X = B, or X op(A) = B, which is op(A)' X' = B'. */
static trm_status run_triangular_solve(const trm_kernel *kernel, const trm_kernel_call *call,
                                       trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_triangular_solve *solve = state->instruction.triangular_solve;
  const trm_shape *a = &state->operands[0], *b = &state->operands[1];
  const int64_t n = a->dims[a->rank - 1];
  const int64_t rows = b->dims[b->rank - 2], columns = b->dims[b->rank - 1];
  const int64_t size = rows * columns, count = trm_shape_count(b);
  const bool left = solve->left_side, adjoint = solve->transpose_a == 3;
  const bool transposed = (solve->transpose_a != 1) == left;
  const bool forward = solve->lower != transposed;
  number *const m = (number *)call->scratch, *const x = m + n * n;
  for (int64_t matrix = 0; matrix * size < count; ++matrix) {
    for (int64_t i = 0; i < n * n; ++i) {
      const number z = load(a->dtype, call->operands[0], matrix * n * n + i);
      m[i] = adjoint ? conj(z) : z;
    }
    for (int64_t i = 0; i < size; ++i) x[i] = load(b->dtype, call->operands[1], matrix * size + i);
    for (int64_t line = 0; line < (left ? columns : rows); ++line) {
      solve_one(m, transposed ? 1 : n, transposed ? n : 1, n, forward, solve->unit_diagonal,
                &x[left ? line : line * columns], left ? columns : 1);
    }
    for (int64_t i = 0; i < size; ++i) {
      store(state->shape.dtype, call->results[0], matrix * size + i, x[i]);
    }
  }
  return TRM_OK;
}

trm_status trm_reference_complex_algebra_create(const trm_kernel_request *request,
                                                trm_kernel *out_kernel, trm_error *error) {
  const trm_shape *a = trm_operand_shape(request, 0);
  const size_t square = (size_t)(a->dims[a->rank - 1] * a->dims[a->rank - 1]);
  if (request->instruction->opcode == TRM_OP_CHOLESKY) {
    TRY(trm_reference_kernel_create(request, "reference.cholesky", run_cholesky, 0, out_kernel,
                                    error));
    out_kernel->scratch_bytes = 2 * square * sizeof(number);
    return TRM_OK;
  }
  const trm_shape *b = trm_operand_shape(request, 1);
  TRY(trm_reference_kernel_create(request, "reference.triangular-solve", run_triangular_solve, 0,
                                  out_kernel, error));
  out_kernel->scratch_bytes =
      (square + (size_t)(b->dims[b->rank - 1] * b->dims[b->rank - 2])) * sizeof(number);
  return TRM_OK;
}

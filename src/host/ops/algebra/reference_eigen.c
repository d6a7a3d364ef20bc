/* Owns: the reference kernel of the custom call "Eigh", which TensorFlow's self-adjoint eigenvalues
 * become: Jacobi's method for symmetric and Hermitian matrices, in double.
 *
 * The kernel reads only the triangle of each matrix that the call names. Results: the eigenvectors
 * in columns, and the eigenvalues in ascending order. The sign (or phase) of a vector is not
 * determined; here it is the one that the rotations leave. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "host/ops/products/reference_linear.h"
#include "host/ops/reference.h"

enum { MAX_SWEEPS = 64 };

/* Columns p and q of an n x n matrix (stride n) or, with `rows`, its rows: the rotation that makes
 * element (p, q) zero, of cosine c and sine s with a phase. */
static void rotate(double complex *a, int64_t n, int64_t p, int64_t q, double c, double complex s,
                   bool rows) {
  const int64_t step = rows ? 1 : n, at = rows ? n : 1;
  const double complex to_q = rows ? conj(s) : s, to_p = rows ? s : conj(s);
  for (int64_t i = 0; i < n; ++i) {
    double complex *const x = &a[i * step + p * at], *const y = &a[i * step + q * at];
    const double complex old_x = *x, old_y = *y;
    *x = c * old_x - to_p * old_y;
    *y = to_q * old_x + c * old_y;
  }
}

/* One pass over all pairs; false when nothing was left to do. */
static bool sweep(double complex *a, double complex *vectors, int64_t n) {
  bool any = false;
  for (int64_t p = 0; p < n; ++p) {
    for (int64_t q = p + 1; q < n; ++q) {
      const double size = cabs(a[p * n + q]);
      /* Below what adding it to the diagonal could change. */
      const double scale = fabs(creal(a[p * n + p])) + fabs(creal(a[q * n + q]));
      if (!(size > scale * 0x1p-54) || size < 0x1p-1000) continue;
      any = true;
      const double tau = (creal(a[q * n + q]) - creal(a[p * n + p])) / (2 * size);
      const double t = copysign(1.0, tau) / (fabs(tau) + hypot(1.0, tau));
      const double c = 1.0 / sqrt(1.0 + t * t);
      const double complex s = t * c * (a[p * n + q] / size);
      rotate(a, n, p, q, c, s, false);
      rotate(a, n, p, q, c, s, true);
      rotate(vectors, n, p, q, c, s, false);
      a[p * n + q] = a[q * n + p] = 0.0;
    }
  }
  return any;
}

typedef struct eigenvalue {
  double value;
  int64_t column;
} eigenvalue;

/* NaN comes last; equal ones keep their order. */
static int compare(const void *left, const void *right) {
  const eigenvalue *a = left, *b = right;
  if (isnan(a->value) != isnan(b->value)) return isnan(a->value) ? 1 : -1;
  if (a->value < b->value) return -1;
  if (a->value > b->value) return 1;
  return a->column < b->column ? -1 : 1;
}

/* The triangle that is read, mirrored; a diagonal is real. */
static void load_hermitian(const trm_shape *shape, const void *array, int64_t base, int64_t n,
                           bool lower, double complex *out) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t at = lower ? i * n + j : j * n + i;
      const trm_value value = trm_value_load(shape->dtype, array, base + at);
      const double imag = i == j ? 0.0 : lower ? value.imag : -value.imag;
      out[i * n + j] = CMPLX(value.f, imag);
      out[j * n + i] = CMPLX(value.f, -imag);
    }
  }
}

static trm_status run(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *shape = &state->operands[0];
  const trm_dtype vectors_type = state->shape.elements[0].dtype;
  const trm_dtype values_type = state->shape.elements[1].dtype;
  const int64_t n = shape->dims[shape->rank - 1];
  const bool lower = state->instruction.lower;
  double complex *const a = call->scratch, *const vectors = a + n * n;
  eigenvalue *const values = (eigenvalue *)(vectors + n * n);
  const int64_t matrices = n == 0 ? 0 : trm_shape_count(shape) / (n * n);
  for (int64_t m = 0; m < matrices; ++m) {
    load_hermitian(shape, call->operands[0], m * n * n, n, lower, a);
    for (int64_t i = 0; i < n * n; ++i) vectors[i] = i / n == i % n ? 1.0 : 0.0;
    for (int round = 0; round < MAX_SWEEPS && sweep(a, vectors, n); ++round) continue;
    for (int64_t i = 0; i < n; ++i) values[i] = (eigenvalue){creal(a[i * n + i]), i};
    qsort(values, (size_t)n, sizeof *values, compare);
    for (int64_t i = 0; i < n; ++i) {
      trm_value_store(values_type, call->results[1], m * n + i,
                      (trm_value){{.f = values[i].value}, 0.0});
      for (int64_t r = 0; r < n; ++r) {
        const double complex z = vectors[r * n + values[i].column];
        trm_value_store(vectors_type, call->results[0], m * n * n + r * n + i,
                        (trm_value){{.f = creal(z)}, cimag(z)});
      }
    }
  }
  return TRM_OK;
}

trm_status trm_reference_eigen_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                      bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *result = &instruction->shape;
  *out_supported = true;
  if (instruction->num_operands != 1) {
    return trm_reference_refuse(request, "it takes one operand", error);
  }
  const trm_shape *a = trm_operand_shape(request, 0);
  const trm_kind kind = trm_dtype_kind(a->dtype);
  if ((kind != TRM_KIND_FLOAT && kind != TRM_KIND_COMPLEX) || a->rank < 2 ||
      a->dims[a->rank - 1] != a->dims[a->rank - 2]) {
    return trm_reference_refuse(request, "it takes square matrices of floats", error);
  }
  const int64_t n = a->dims[a->rank - 1];
  const trm_dtype real = a->dtype == TRM_C64 ? TRM_F32 : a->dtype == TRM_C128 ? TRM_F64 : a->dtype;
  const trm_shape values = {.dtype = real, .rank = a->rank - 1, .dims = a->dims};
  if (result->dtype != TRM_TUPLE || result->num_elements != 2 ||
      !trm_shape_equal(&result->elements[0], a) ||
      !trm_shape_equal(&result->elements[1], &values)) {
    return trm_reference_refuse(request, "its results must be the vectors and the values", error);
  }
  /* "lower,sort,sweeps,tolerance": this kernel always sorts, and sweeps until nothing changes. */
  const char *config = instruction->backend_config;
  if (config == NULL || (config[0] != '0' && config[0] != '1') || config[1] != ',') {
    return trm_reference_refuse(request, "its configuration does not say which triangle to read",
                                error);
  }
  TRY(trm_reference_kernel_create(request, "reference.eigen", run, 0, out_kernel, error));
  trm_reference_state_of(out_kernel)->instruction.lower = config[0] == '1';
  out_kernel->scratch_bytes =
      (size_t)(2 * n * n) * sizeof(double complex) + (size_t)n * sizeof(eigenvalue);
  return TRM_OK;
}

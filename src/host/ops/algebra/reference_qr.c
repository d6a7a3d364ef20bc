/* Owns: reference kernels of the custom calls "Qr" and "ProductOfElementaryHouseholderReflectors",
 * which TensorFlow's matrix inverse, solve and QR decomposition become. They compute in double.
 *
 * Qr gives, like LAPACK's geqrf, R in the upper triangle and below it the reflectors v (v[k] = 1 is
 * not stored), and taus: Q = H(0) H(1) ..., H = I - tau v v'. The product gives the first n columns
 * of Q, like orgqr. */
#include "host/ops/reference.h"

#include <math.h>

static void load_matrix(const trm_shape *shape, const void *array, int64_t base, int64_t count,
                        double *out) {
  for (int64_t i = 0; i < count; ++i) out[i] = trm_value_load(shape->dtype, array, base + i).f;
}

static void store_matrix(const trm_shape *shape, void *array, int64_t base, int64_t count,
                         const double *from) {
  for (int64_t i = 0; i < count; ++i) {
    trm_value_store(shape->dtype, array, base + i, (trm_value){{.f = from[i]}, 0.0});
  }
}

/* Applies H = I - tau v v' to the columns from `first` of the m x n matrix; v is column k of
 * `reflectors` (n_reflectors wide) below row k, with 1 in row k. */
static void reflect(double *a, int64_t m, int64_t n, int64_t first, const double *reflectors,
                    int64_t width, int64_t k, double tau) {
  for (int64_t j = first; j < n; ++j) {
    double sum = a[k * n + j];
    for (int64_t i = k + 1; i < m; ++i) sum += reflectors[i * width + k] * a[i * n + j];
    a[k * n + j] -= tau * sum;
    for (int64_t i = k + 1; i < m; ++i) a[i * n + j] -= tau * sum * reflectors[i * width + k];
  }
}

static void factor(double *a, int64_t m, int64_t n, double *taus) {
  for (int64_t k = 0; k < m && k < n; ++k) {
    double squares = 0.0;
    for (int64_t i = k + 1; i < m; ++i) squares += a[i * n + k] * a[i * n + k];
    const double alpha = a[k * n + k];
    if (squares == 0.0) { /* nothing to remove */
      taus[k] = 0.0;
      continue;
    }
    const double beta = -copysign(sqrt(alpha * alpha + squares), alpha);
    taus[k] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < m; ++i) a[i * n + k] /= alpha - beta;
    reflect(a, m, n, k + 1, a, n, k, taus[k]);
    a[k * n + k] = beta;
  }
}

static trm_status run_qr(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *shape = &state->operands[0];
  const int64_t m = shape->dims[shape->rank - 2], n = shape->dims[shape->rank - 1];
  const int64_t k = m < n ? m : n;
  double *const a = (double *)call->scratch, *const taus = a + m * n;
  const int64_t matrices = m * n == 0 ? 0 : trm_shape_count(shape) / (m * n);
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    load_matrix(shape, call->operands[0], matrix * m * n, m * n, a);
    factor(a, m, n, taus);
    store_matrix(shape, call->results[0], matrix * m * n, m * n, a);
    store_matrix(shape, call->results[1], matrix * k, k, taus);
  }
  return TRM_OK;
}

static trm_status run_product(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *shape = &state->operands[0], *tau_shape = &state->operands[1];
  const int64_t m = shape->dims[shape->rank - 2], n = shape->dims[shape->rank - 1];
  const int64_t k = tau_shape->dims[tau_shape->rank - 1];
  double *const reflectors = (double *)call->scratch, *const q = reflectors + m * n;
  double *const taus = q + m * n;
  const int64_t matrices = m * n == 0 ? 0 : trm_shape_count(shape) / (m * n);
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    load_matrix(shape, call->operands[0], matrix * m * n, m * n, reflectors);
    load_matrix(tau_shape, call->operands[1], matrix * k, k, taus);
    for (int64_t i = 0; i < m * n; ++i) q[i] = i / n == i % n ? 1.0 : 0.0;
    for (int64_t i = k; i-- > 0;) reflect(q, m, n, 0, reflectors, n, i, taus[i]);
    store_matrix(shape, call->results[0], matrix * m * n, m * n, q);
  }
  return TRM_OK;
}

trm_status trm_reference_qr_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                   bool *out_supported, trm_error *error) {
  const bool is_qr = request->instruction->call_id == TRM_CALL_QR;
  const trm_shape *result = &request->instruction->shape;
  *out_supported = true;
  if (request->instruction->num_operands != (is_qr ? 1 : 2)) {
    return trm_reference_refuse(request, "it has too many operands or too few", error);
  }
  const trm_shape *a = trm_operand_shape(request, 0);
  if (trm_dtype_kind(a->dtype) != TRM_KIND_FLOAT || a->rank < 2) {
    return trm_reference_refuse(request, "it takes matrices of real floats", error);
  }
  const int64_t m = a->dims[a->rank - 2], n = a->dims[a->rank - 1], k = m < n ? m : n;
  const trm_shape *taus = is_qr ? trm_shape_leaf(result, 1) : trm_operand_shape(request, 1);
  const trm_shape *matrix = trm_shape_leaf(result, 0);
  const int64_t matrices = m * n == 0 ? 0 : trm_shape_count(a) / (m * n);
  if (matrix == NULL || taus == NULL || !trm_shape_equal(matrix, a) || taus->dtype != a->dtype ||
      taus->rank != a->rank - 1 || taus->dims[taus->rank - 1] > k ||
      (is_qr && taus->dims[taus->rank - 1] != k) ||
      (m * n > 0 && trm_shape_count(taus) != matrices * taus->dims[taus->rank - 1])) {
    return trm_reference_refuse(request, "its shapes do not fit together", error);
  }
  TRY(trm_reference_kernel_create(request, is_qr ? "reference.qr" : "reference.householder-product",
                                  is_qr ? run_qr : run_product, 0, out_kernel, error));
  out_kernel->scratch_bytes = (size_t)(2 * m * n + k) * sizeof(double);
  return TRM_OK;
}

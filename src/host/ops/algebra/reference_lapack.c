/* Owns: reference kernels of LAPACK's factorisations in JAX's form, "lapack_spotrf_ffi" and the
 * like: a letter for the type (s, d, c, z), the routine, and its options in the configuration, as
 * {uplo = 76 : ui8}, where 76 is 'L'. They take batches of matrices and compute in double.
 *
 * Signs and phases of vectors are not determined where LAPACK's are not. Infos are 0 or LAPACK's:
 * the first pivot that is not positive (potrf) or is 0 (getrf). */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/ops/algebra/reference_lapack.h"
#include "host/ops/products/reference_linear.h"
#include "host/ops/reference.h"

typedef trm_lapack_number number;
typedef trm_lapack_matrices matrices;
enum { MAX_SWEEPS = 64, MAX_RESULTS = 6 };

typedef struct lapack_state {
  trm_reference_state base; /* first: trm_reference_state_of */
  matrices sizes;
} lapack_state;

struct trm_lapack_routine {
  trm_call_id call;
  uint32_t num_operands, num_results; /* of real matrices */
  trm_lapack_run *run;
  uint32_t fewer; /* results of complex matrices, than of real ones */
};

/* ---- Cholesky, LU, triangular systems ------------------------------------------------------- */

static void run_potrf(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t n = s->n;
  number *const a = results[0];
  const bool lower = s->uplo == 'L';
  (void)scratch;
  memcpy(a, operands[0], (size_t)(n * n) * sizeof *a);
#define AT(i, j) a[lower ? (i) * n + (j) : (j) * n + (i)] /* of the triangle that is given */
  for (int64_t j = 0; j < n; ++j) {
    double pivot = creal(AT(j, j));
    for (int64_t k = 0; k < j; ++k) pivot -= creal(AT(j, k) * conj(AT(j, k)));
    if (!(pivot > 0.0)) {
      *results[1] = (double)(j + 1);
      return;
    }
    AT(j, j) = sqrt(pivot);
    for (int64_t i = j + 1; i < n; ++i) {
      number sum = AT(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= AT(i, k) * conj(AT(j, k));
      AT(i, j) = sum / AT(j, j);
    }
  }
#undef AT
  *results[1] = 0.0;
}

static double one_norm(number z) { return fabs(creal(z)) + fabs(cimag(z)); }

static void run_getrf(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t m = s->m, n = s->n;
  number *const a = results[0], *const pivots = results[1];
  (void)scratch;
  memcpy(a, operands[0], (size_t)(m * n) * sizeof *a);
  *results[2] = 0.0;
  for (int64_t k = 0; k < m && k < n; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (one_norm(a[i * n + k]) > one_norm(a[best * n + k])) best = i;
    }
    pivots[k] = (double)(best + 1);
    if (a[best * n + k] == 0.0) {
      if (*results[2] == 0.0) *results[2] = (double)(k + 1);
      continue;
    }
    for (int64_t j = 0; j < n && best != k; ++j) {
      const number t = a[k * n + j];
      a[k * n + j] = a[best * n + j];
      a[best * n + j] = t;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      const number factor = a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
}

/* op(A) X = B, or X op(A) = B as op(A)' X' = B'. */
static void run_trsm(const matrices *s, number *const *operands, number *const *results,
                     number *scratch) {
  const bool left = s->side == 'L', unit = s->diag == 'U';
  const int64_t n = s->n, rows = left ? n : s->columns, columns = left ? s->columns : n;
  const number *a = operands[0];
  number *const x = results[0];
  (void)scratch;
  memcpy(x, operands[1], (size_t)(rows * columns) * sizeof *x);
  const bool transposed = (s->trans != 'N') == left;
  const bool forward = (s->uplo == 'L') != transposed;
  const int64_t systems = left ? columns : rows;
  const int64_t step = left ? columns : 1, next = left ? 1 : columns;
  for (int64_t c = 0; c < systems; ++c) {
    for (int64_t r = 0; r < n; ++r) {
      const int64_t i = forward ? r : n - 1 - r;
      number sum = x[i * step + c * next];
      for (int64_t q = 0; q < r; ++q) {
        const int64_t k = forward ? q : n - 1 - q;
        const number z = transposed ? a[k * n + i] : a[i * n + k];
        sum -= (s->trans == 'C' ? conj(z) : z) * x[k * step + c * next];
      }
      const number pivot = s->trans == 'C' ? conj(a[i * n + i]) : a[i * n + i];
      x[i * step + c * next] = unit ? sum : sum / pivot;
    }
  }
}

/* ---- QR ------------------------------------------------------------------------------------- */

/* Columns from `first` of the m x n matrix become those of (I - tau v v') a; v is column k of the
 * m x width reflectors below row k, with 1 in row k. */
static void reflect(number *a, int64_t m, int64_t n, int64_t first, const number *reflectors,
                    int64_t width, int64_t k, number tau) {
  for (int64_t j = first; j < n; ++j) {
    number sum = a[k * n + j];
    for (int64_t i = k + 1; i < m; ++i) sum += conj(reflectors[i * width + k]) * a[i * n + j];
    a[k * n + j] -= tau * sum;
    for (int64_t i = k + 1; i < m; ++i) a[i * n + j] -= tau * sum * reflectors[i * width + k];
  }
}

static void run_geqrf(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t m = s->m, n = s->n;
  number *const a = results[0], *const taus = results[1];
  (void)scratch;
  memcpy(a, operands[0], (size_t)(m * n) * sizeof *a);
  for (int64_t k = 0; k < m && k < n; ++k) {
    taus[k] = trm_lapack_reflector(&a[k * n + k], n, m - k);
    reflect(a, m, n, k + 1, a, n, k, conj(taus[k]));
  }
}

/* The first n columns of the reflections' product. */
static void run_orgqr(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t m = s->m, n = s->n;
  number *const q = results[0];
  (void)scratch;
  for (int64_t i = 0; i < m * n; ++i) q[i] = i / n == i % n ? 1.0 : 0.0;
  for (int64_t k = s->columns; k-- > 0;) reflect(q, m, n, 0, operands[0], n, k, operands[1][k]);
}

/* ---- Eigenvalues and singular values -------------------------------------------------------- */

/* Makes the columns of the m x n matrix orthogonal to each other by rotations from the right, which
 * it applies to the rows of `right` (n x n) too, as columns: Hestenes' method. */
static void orthogonalise(number *a, int64_t m, int64_t n, number *right) {
  bool any = true;
  for (int round = 0; round < MAX_SWEEPS && any; ++round) {
    any = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        double pp = 0.0, qq = 0.0;
        number pq = 0.0;
        for (int64_t i = 0; i < m; ++i) {
          const number x = a[i * n + p], y = a[i * n + q];
          pp += creal(x * conj(x));
          qq += creal(y * conj(y));
          pq += conj(x) * y;
        }
        const double size = cabs(pq);
        if (!(size > 0x1p-52 * sqrt(pp * qq)) || size < 0x1p-1000) continue;
        any = true;
        const double tau = (qq - pp) / (2.0 * size);
        const double t = copysign(1.0, tau) / (fabs(tau) + hypot(1.0, tau));
        const double c = 1.0 / sqrt(1.0 + t * t);
        const number phase = pq / size;
        number *const both[] = {a, right};
        for (int side = 0; side < 2; ++side) {
          for (int64_t i = 0; i < (side == 0 ? m : n); ++i) {
            number *const x = &both[side][i * n + p], *const y = &both[side][i * n + q];
            const number old = *x, turned = *y * conj(phase);
            *x = c * old - t * c * turned;
            *y = t * c * old + c * turned;
          }
        }
      }
    }
  }
}

typedef struct ranked {
  double value;
  int64_t column;
} ranked;

/* Descending, NaN last; equal ones keep their order. */
static int compare_falling(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (isnan(a->value) != isnan(b->value)) return isnan(a->value) ? 1 : -1;
  if (a->value > b->value) return -1;
  if (a->value < b->value) return 1;
  return a->column < b->column ? -1 : 1;
}

/* Columns from `have` to `want` of u (m rows, `width` wide): unit vectors orthogonal to those
 * before. */
static void complete(number *u, int64_t m, int64_t width, int64_t have, int64_t want) {
  for (int64_t c = have, unit = 0; c < want && unit < m; ++unit) {
    for (int64_t i = 0; i < m; ++i) u[i * width + c] = i == unit ? 1.0 : 0.0;
    for (int pass = 0; pass < 2; ++pass) { /* twice is enough */
      for (int64_t k = 0; k < c; ++k) {
        number dot = 0.0;
        for (int64_t i = 0; i < m; ++i) dot += conj(u[i * width + k]) * u[i * width + c];
        for (int64_t i = 0; i < m; ++i) u[i * width + c] -= dot * u[i * width + k];
      }
    }
    double squares = 0.0;
    for (int64_t i = 0; i < m; ++i) squares += creal(u[i * width + c] * conj(u[i * width + c]));
    if (squares < 0.25 / (double)m) continue; /* it lies among those before: the next one */
    for (int64_t i = 0; i < m; ++i) u[i * width + c] /= sqrt(squares);
    ++c;
  }
}

/* a, or its conjugate transpose where it is wide, is w (rows x k, k <= rows). Results: a, s, u, vt,
 * info; of mode 'A' all vectors, otherwise the first k. */
static void run_gesdd(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t m = s->m, n = s->n;
  const bool wide = m < n;
  const int64_t rows = wide ? n : m, k = wide ? m : n;
  number *const w = scratch, *const right = w + rows * k, *const left = right + k * k;
  ranked *const order = (ranked *)(void *)(left + rows * rows);
  memcpy(results[0], operands[0], (size_t)(m * n) * sizeof *w);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      w[i * k + j] = wide ? conj(operands[0][j * n + i]) : operands[0][i * n + j];
    }
  }
  for (int64_t i = 0; i < k * k; ++i) right[i] = i / k == i % k ? 1.0 : 0.0;
  orthogonalise(w, rows, k, right);
  for (int64_t j = 0; j < k; ++j) {
    double squares = 0.0;
    for (int64_t i = 0; i < rows; ++i) squares += creal(w[i * k + j] * conj(w[i * k + j]));
    order[j] = (ranked){sqrt(squares), j};
  }
  qsort(order, (size_t)k, sizeof *order, compare_falling);
  int64_t rank = 0;
  for (int64_t j = 0; j < k; ++j) {
    results[1][j] = order[j].value;
    if (order[j].value > 0x1p-50 * order[0].value) rank = j + 1;
  }
  *results[4] = 0.0;
  const int64_t kept = s->mode == 'A' ? rows : k; /* vectors of the long side */
  for (int64_t j = 0; j < rank; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      left[i * kept + j] = w[i * k + order[j].column] / order[j].value;
    }
  }
  complete(left, rows, kept, rank, kept);
  /* w = left S right', and a is w or w'. */
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kept; ++j) {
      if (wide) results[3][j * n + i] = conj(left[i * kept + j]);
      else results[2][i * kept + j] = left[i * kept + j];
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const number v = right[i * k + order[j].column];
      if (wide) results[2][i * k + j] = v;
      else results[3][j * n + i] = conj(v);
    }
  }
}

static void run_syevd(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t n = s->n;
  number *const a = scratch, *const vectors = a + n * n;
  ranked *const order = (ranked *)(void *)(vectors + n * n);
  trm_hermitian_eigen(operands[0], n, s->uplo == 'L', a, vectors);
  for (int64_t i = 0; i < n; ++i) order[i] = (ranked){-creal(a[i * n + i]), i};
  qsort(order, (size_t)n, sizeof *order, compare_falling);
  for (int64_t j = 0; j < n; ++j) {
    results[1][j] = -order[j].value;
    for (int64_t i = 0; i < n; ++i) results[0][i * n + j] = vectors[i * n + order[j].column];
  }
  *results[2] = 0.0;
}

/* ---- The kernel ----------------------------------------------------------------------------- */

static const trm_lapack_routine routines[] = {
    {TRM_CALL_LAPACK_POTRF, 1, 2, run_potrf, 0},
    {TRM_CALL_LAPACK_GETRF, 1, 3, run_getrf, 0},
    {TRM_CALL_LAPACK_TRSM, 2, 1, run_trsm, 0},
    {TRM_CALL_LAPACK_GEQRF, 1, 2, run_geqrf, 0},
    {TRM_CALL_LAPACK_ORGQR, 2, 1, run_orgqr, 0},
    {TRM_CALL_LAPACK_UNGQR, 2, 1, run_orgqr, 0},
    {TRM_CALL_LAPACK_GESDD, 1, 5, run_gesdd, 0},
    {TRM_CALL_LAPACK_SYEVD, 1, 3, run_syevd, 0},
    {TRM_CALL_LAPACK_HEEVD, 1, 3, run_syevd, 0},
    {TRM_CALL_LAPACK_GEQP3, 2, 3, trm_lapack_geqp3, 0},
    {TRM_CALL_LAPACK_GEHRD, 1, 3, trm_lapack_gehrd, 0},
    {TRM_CALL_LAPACK_SYTRD, 1, 5, trm_lapack_sytrd, 0},
    {TRM_CALL_LAPACK_HETRD, 1, 5, trm_lapack_sytrd, 0},
    {TRM_CALL_LAPACK_GEES, 1, 6, trm_lapack_gees, 1},
    {TRM_CALL_LAPACK_GEEV, 1, 5, trm_lapack_geev, 1},
};

static uint32_t num_results(const matrices *s) {
  return s->routine->num_results - (s->is_complex ? s->routine->fewer : 0);
}

static const trm_lapack_routine *find_routine(trm_call_id call) {
  for (size_t i = 0; i < sizeof routines / sizeof *routines; ++i) {
    if (routines[i].call == call) return &routines[i];
  }
  return NULL;
}

uint8_t trm_lapack_option(const char *config, const char *name) {
  const char *at = config == NULL ? NULL : strstr(config, name);
  if (at == NULL) return 0;
  at += strlen(name);
  while (*at == ' ' || *at == '=' || *at == '"' || *at == ':') ++at;
  return (uint8_t)strtol(at, NULL, 10);
}

static int64_t leaf_size(const trm_shape *shape, int64_t batch) {
  return batch == 0 ? 0 : trm_shape_count(shape) / batch;
}

static trm_status run(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const lapack_state *state = kernel->state;
  const trm_reference_state *base = &state->base;
  const matrices *sizes = &state->sizes;
  const trm_lapack_routine *r = sizes->routine;
  for (int64_t b = 0; b < sizes->batch; ++b) {
    number *operands[2], *results[MAX_RESULTS], *at = call->scratch;
    for (uint32_t k = 0; k < r->num_operands; ++k) {
      const int64_t count = leaf_size(&base->operands[k], sizes->batch);
      operands[k] = at;
      for (int64_t i = 0; i < count; ++i) {
        const trm_value v =
            trm_value_load(base->operands[k].dtype, call->operands[k], b * count + i);
        const bool is_complex = trm_dtype_kind(base->operands[k].dtype) == TRM_KIND_COMPLEX;
        const bool whole = trm_dtype_kind(base->operands[k].dtype) == TRM_KIND_SIGNED;
        *at++ = CMPLX(whole ? (double)v.s : v.f, is_complex ? v.imag : 0.0);
      }
    }
    for (uint32_t k = 0; k < num_results(sizes); ++k) {
      results[k] = at;
      at += leaf_size(trm_shape_leaf(&base->shape, (int32_t)k), sizes->batch);
    }
    r->run(sizes, operands, results, at);
    for (uint32_t k = 0; k < num_results(sizes); ++k) {
      const trm_shape *shape = trm_shape_leaf(&base->shape, (int32_t)k);
      const int64_t count = leaf_size(shape, sizes->batch);
      const bool whole = trm_dtype_kind(shape->dtype) == TRM_KIND_SIGNED;
      for (int64_t i = 0; i < count; ++i) {
        const number z = results[k][i];
        trm_value v = {{.f = creal(z)}, cimag(z)};
        if (whole) v = (trm_value){{.s = (int64_t)creal(z)}, 0.0};
        trm_value_store(shape->dtype, call->results[k], b * count + i, v);
      }
    }
  }
  return TRM_OK;
}

/* The shape [batch..., inner...] of a result or operand. */
static bool has_shape(const trm_shape *shape, const matrices *s, trm_dtype dtype, int32_t inner,
                      int64_t rows, int64_t columns) {
  if (shape == NULL || shape->dtype != dtype || shape->rank < inner) return false;
  int64_t batch = 1;
  for (int32_t d = 0; d < shape->rank - inner; ++d) batch *= shape->dims[d];
  return batch == s->batch && (inner < 1 || shape->dims[shape->rank - 1] == columns) &&
         (inner < 2 || shape->dims[shape->rank - 2] == rows);
}

static bool geev_fits(const matrices *s, trm_dtype type, const trm_shape *const *leaf) {
  const trm_dtype vectors = s->is_complex ? type : type == TRM_F64 ? TRM_C128 : TRM_C64;
  const int values = s->is_complex ? 1 : 2;
  const int64_t n = s->n;
  return s->m == n && has_shape(leaf[0], s, type, 1, 0, n) &&
         has_shape(leaf[values - 1], s, type, 1, 0, n) &&
         has_shape(leaf[values], s, vectors, 2, n, n) &&
         has_shape(leaf[values + 1], s, vectors, 2, n, n) &&
         has_shape(leaf[values + 2], s, TRM_S32, 0, 0, 0);
}

static bool shapes_fit(const trm_kernel_request *request, matrices *s) {
  const trm_shape *a = trm_operand_shape(request, 0), *result = &request->instruction->shape;
  const trm_shape *leaf[MAX_RESULTS];
  const trm_dtype type = a->dtype;
  const trm_dtype real = type == TRM_C64 ? TRM_F32 : type == TRM_C128 ? TRM_F64 : type;
  for (uint32_t k = 0; k < num_results(s); ++k) leaf[k] = trm_shape_leaf(result, (int32_t)k);
  const int64_t m = s->m, n = s->n, k = m < n ? m : n;
  if (s->routine->run == run_trsm) {
    const trm_shape *b = trm_operand_shape(request, 1);
    if (b->rank < 2) return false;
    const bool left = s->side == 'L';
    s->columns = b->dims[b->rank - (left ? 1 : 2)];
    const int64_t rows = left ? n : s->columns, columns = left ? s->columns : n;
    return m == n && has_shape(b, s, type, 2, rows, columns) &&
           has_shape(leaf[0], s, type, 2, rows, columns);
  }
  if (s->routine->run == run_orgqr) {
    const trm_shape *taus = trm_operand_shape(request, 1);
    s->columns = taus->rank < 1 ? 0 : taus->dims[taus->rank - 1];
    return m >= n && s->columns <= n && has_shape(taus, s, type, 1, 0, s->columns) &&
           has_shape(leaf[0], s, type, 2, m, n);
  }
  if (s->routine->run == trm_lapack_geev) return geev_fits(s, type, leaf);
  if (!has_shape(leaf[0], s, type, 2, m, n)) return false;
  if (s->routine->run == trm_lapack_geqp3) {
    return has_shape(trm_operand_shape(request, 1), s, TRM_S32, 1, 0, n) &&
           has_shape(leaf[1], s, TRM_S32, 1, 0, n) && has_shape(leaf[2], s, type, 1, 0, k);
  }
  if (s->routine->run == trm_lapack_gehrd) {
    return m == n && n > 0 && has_shape(leaf[1], s, type, 1, 0, n - 1) &&
           has_shape(leaf[2], s, TRM_S32, 0, 0, 0);
  }
  if (s->routine->run == trm_lapack_sytrd) {
    return m == n && n > 0 && has_shape(leaf[1], s, real, 1, 0, n) &&
           has_shape(leaf[2], s, real, 1, 0, n - 1) && has_shape(leaf[3], s, type, 1, 0, n - 1) &&
           has_shape(leaf[4], s, TRM_S32, 0, 0, 0);
  }
  if (s->routine->run == trm_lapack_gees) {
    const int values = s->is_complex ? 1 : 2;
    return m == n && has_shape(leaf[1], s, type, 2, n, n) && has_shape(leaf[2], s, type, 1, 0, n) &&
           has_shape(leaf[1 + values], s, type, 1, 0, n) &&
           has_shape(leaf[2 + values], s, TRM_S32, 0, 0, 0) &&
           has_shape(leaf[3 + values], s, TRM_S32, 0, 0, 0);
  }
  if (s->routine->run == run_potrf) return m == n && has_shape(leaf[1], s, TRM_S32, 0, 0, 0);
  if (s->routine->run == run_getrf) {
    return has_shape(leaf[1], s, TRM_S32, 1, 0, k) && has_shape(leaf[2], s, TRM_S32, 0, 0, 0);
  }
  if (s->routine->run == run_geqrf) return has_shape(leaf[1], s, type, 1, 0, k);
  if (s->routine->run == run_syevd) {
    return m == n && has_shape(leaf[1], s, real, 1, 0, n) &&
           has_shape(leaf[2], s, TRM_S32, 0, 0, 0);
  }
  if (s->mode == 'N') s->mode = 'S'; /* the shapes say how many vectors there is room for */
  if (has_shape(leaf[2], s, type, 2, m, m) && has_shape(leaf[3], s, type, 2, n, n)) s->mode = 'A';
  const int64_t left = s->mode == 'A' ? m : k, right = s->mode == 'A' ? n : k;
  return has_shape(leaf[1], s, real, 1, 0, k) && has_shape(leaf[2], s, type, 2, m, left) &&
         has_shape(leaf[3], s, type, 2, right, n) && has_shape(leaf[4], s, TRM_S32, 0, 0, 0);
}

trm_status trm_reference_lapack_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                       bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_lapack_routine *r = find_routine(instruction->call_id);
  *out_supported = true;
  if (r == NULL) {
    return trm_reference_refuse(
        request,
        "of LAPACK's routines it knows potrf, getrf, trsm, geqrf, "
        "orgqr, ungqr, gesdd, syevd, heevd, geqp3, gehrd, sytrd, hetrd, gees, "
        "geev and gtsv, as lapack_spotrf_ffi",
        error);
  }
  const trm_shape *a = trm_operand_shape(request, 0);
  const trm_kind kind = trm_dtype_kind(a->dtype);
  if ((kind != TRM_KIND_FLOAT && kind != TRM_KIND_COMPLEX) || a->rank < 2) {
    return trm_reference_refuse(request, "it takes matrices of floats", error);
  }
  const bool is_complex = kind == TRM_KIND_COMPLEX;
  if (instruction->num_operands != r->num_operands ||
      trm_shape_num_leaves(&instruction->shape) !=
          (int32_t)(r->num_results - (is_complex ? r->fewer : 0))) {
    return trm_reference_refuse(request, "it has too many operands or results or too few", error);
  }
  const char *config = instruction->backend_config;
  matrices sizes = {.routine = r,
                    .m = a->dims[a->rank - 2],
                    .n = a->dims[a->rank - 1],
                    .batch = 1,
                    .is_complex = is_complex,
                    .uplo = trm_lapack_option(config, "uplo"),
                    .side = trm_lapack_option(config, "side"),
                    .trans = trm_lapack_option(config, "trans_x"),
                    .diag = trm_lapack_option(config, "diag"),
                    .mode = trm_lapack_option(config, "mode"),
                    .left_mode = trm_lapack_option(config, "compute_left")};
  const uint8_t right_mode = trm_lapack_option(config, "compute_right");
  if (right_mode != 0) sizes.mode = right_mode;
  for (int32_t d = 0; d < a->rank - 2; ++d) sizes.batch *= a->dims[d];
  if (sizes.uplo == 0) sizes.uplo = 'L';
  if (!shapes_fit(request, &sizes)) {
    return trm_reference_refuse(request, "its shapes do not fit together", error);
  }
  TRY(trm_reference_kernel_create(request, "reference.lapack", run, 0, out_kernel, error));
  lapack_state *state = ARENA_NEW(request->arena, lapack_state, 1);
  CHECK_MEMORY(state, "a factorisation");
  state->base = *trm_reference_state_of(out_kernel);
  state->sizes = sizes;
  out_kernel->state = state;
  const size_t m = (size_t)sizes.m, n = (size_t)sizes.n, most = m > n ? m : n;
  size_t entries = 4 * most * most + 4 * most; /* what the routines themselves need */
  for (uint32_t k = 0; k < r->num_operands; ++k) {
    entries += (size_t)leaf_size(trm_operand_shape(request, k), sizes.batch);
  }
  for (uint32_t k = 0; k < num_results(&sizes); ++k) {
    entries += (size_t)leaf_size(trm_shape_leaf(&instruction->shape, (int32_t)k), sizes.batch) + 1;
  }
  out_kernel->scratch_bytes = entries * sizeof(number);
  return TRM_OK;
}

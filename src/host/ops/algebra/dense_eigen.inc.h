/* Eigenvalues of symmetric matrices for dense.c, for one type: T, and NAME(x): a tridiagonal matrix
 * by reflectors, then implicit QL steps (Golub and Van Loan, 8.3.1 and 8.3.3). */
#include "host/ops/algebra/dense_rotate.inc.h"

typedef struct NAME(tridiagonal) {
  T *a;
  const T *v, *w, *next; /* a -= v w' + w v'; and then the product of it with next */
  T *product;
  int64_t n, first;
} NAME(tridiagonal);

/* One pass over rows of a: subtracts what the last reflector left, multiplies by the next one. */
static void NAME(tridiagonal_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(tridiagonal) *t = context;
  const int64_t first = t->first / LANES * LANES; /* next is 0 before t->first */
  for (int64_t i = t->first + begin; i < t->first + end; ++i) {
    T *restrict const row = t->a + i * t->n;
    const T v = t->v[i], w = t->w[i];
    T sums[LANES] = {0};
    int64_t j = first;
    for (; j + LANES <= t->n; j += LANES) {
      for (int l = 0; l < LANES; ++l) {
        row[j + l] -= v * t->w[j + l] + w * t->v[j + l];
        sums[l] += row[j + l] * t->next[j + l];
      }
    }
    for (int l = 0; j + l < t->n; ++l) {
      row[j + l] -= v * t->w[j + l] + w * t->v[j + l];
      sums[l] += row[j + l] * t->next[j + l];
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) sums[l] += sums[l + width];
    }
    t->product[i] = sums[0];
  }
}

/* a = Q (d, e) Q' with reflectors, rows of vs, whose 1 is at k + 1. `work`: 2 n. */
static void NAME(tridiagonalise)(T *a, int64_t n, double *d, double *e, T *vs, T *taus, T *work,
                                 int threads) {
  T *const zero = work, *const w = work + n;
  memset(work, 0, (size_t)(2 * n) * sizeof(T));
  memset(vs, 0, (size_t)(n * n) * sizeof(T));
  const T *v = zero;
  for (int64_t k = 0; k < n; ++k) {
    T *const row = a + k * n, *const x = vs + k * n;
    for (int64_t j = k; j < n; ++j) x[j] = row[j] - (v[k] * w[j] + w[k] * v[j]);
    d[k] = (double)x[k];
    x[k] = 0;
    if (k == n - 1) break;
    e[k] = (double)NAME(reflector)(x + k + 1, n - k - 1, &taus[k]);
    T *const p = row; /* which is done */
    const NAME(tridiagonal) t = {a, v, w, x, p, n, k + 1};
    const int64_t rest = n - k - 1;
    run_chunks(threads, rest * rest, rest, NAME(tridiagonal_range), &t);
    for (int64_t j = 0; j <= k; ++j) p[j] = 0;
    for (int64_t j = k + 1; j < n; ++j) p[j] *= taus[k];
    const T half = taus[k] * NAME(dot)(p, x, n) / 2;
    for (int64_t j = 0; j < n; ++j) w[j] = p[j] - half * x[j];
    v = x;
  }
}

/* Implicit QL steps with Wilkinson's shift until e is negligible; false where it does not become
 * so. */
static bool NAME(ql)(double *d, double *e, int64_t n, NAME(sweeps) * sweeps) {
  if (n > 0) e[n - 1] = 0;
  for (int64_t l = 0; l < n; ++l) {
    for (int round = 0;; ++round) {
      int64_t m = l;
      while (m < n - 1 && fabs(e[m]) > (double)EPSILON / 2 * (fabs(d[m]) + fabs(d[m + 1]))) ++m;
      if (m == l) break;
      if (round == MAX_ROUNDS) return false;
      double g = (d[l + 1] - d[l]) / (2 * e[l]), r = length_of(g, 1);
      g = d[m] - d[l] + e[l] / (g + copysign(r, g));
      double s = 1, c = 1, p = 0;
      int64_t i = m - 1;
      NAME(begin_sweep)(sweeps, m, -1);
      for (; i >= l; --i) {
        const double f = s * e[i], b = c * e[i];
        r = length_of(f, g);
        e[i + 1] = r;
        if (r == 0) break;
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        NAME(add_rotation)(sweeps, c, s);
      }
      if (i >= l) {
        d[i + 1] -= p;
        e[m] = 0;
        continue;
      }
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
  return true;
}

/* The largest magnitude; NaN or infinite where an element is. */
static T NAME(most)(const T *x, int64_t n) {
  T most = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!(ABSOLUTE(x[i]) <= most)) most = ABSOLUTE(x[i]);
    if (most != most) return most;
  }
  return most;
}

/* Writes row order[j] of the strips to column j of the n x n matrix. */
static void NAME(write_columns)(T *strips, int64_t n, const int64_t *order, T *out) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) out[i * n + j] = *NAME(strip_at)(strips, n, order[j], i);
  }
}

/* The columns of q (n x n) as rows. */
static void NAME(read_columns)(const T *q, int64_t n, T *strips) {
  for (int64_t i = 0; i < NAME(strips)(n) * NAME(STRIP); ++i) {
    for (int64_t j = 0; j < n; ++j) {
      *NAME(strip_at)(strips, n, j, i) = i < n ? q[i * n + j] : 0;
    }
  }
}

static void NAME(fill_nan)(T *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = (T)NAN;
}

static void NAME(run_eigen)(const trm_dense_call *call) {
  const int64_t n = call->n, square = n * n;
  const T *const in = call->in[0];
  T *const vectors = call->out[0], *const values = call->out[1];
  void *at = call->scratch;
  T *const a = take(&at, square, sizeof(T)), *const vs = take(&at, square, sizeof(T));
  T *const taus = take(&at, n, sizeof(T)), *const work = take(&at, 2 * n, sizeof(T));
  double *const d = take(&at, n, sizeof *d), *const e = take(&at, n, sizeof *e);
  int64_t *const order = take(&at, 2 * n, sizeof *order);
  NAME(sweeps) sweeps = {.n = n, .columns = n, .threads = call->threads};
  sweeps.cosines = take(&at, SWEEPS * n, sizeof(T));
  sweeps.sines = take(&at, SWEEPS * n, sizeof(T));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      a[i * n + j] = a[j * n + i] = call->lower ? in[i * n + j] : in[j * n + i];
    }
  }
  const T most = NAME(most)(a, square);
  int32_t failed = 0;
  if (!(most < INFINITY)) {
    NAME(fill_nan)(vectors, square);
    NAME(fill_nan)(values, n);
  } else {
    const double scale = scale_for((double)most);
    for (int64_t i = 0; i < square && scale != 1; ++i) a[i] = (T)((double)a[i] * scale);
    NAME(tridiagonalise)(a, n, d, e, vs, taus, work, call->threads);
    if (!call->values_only) {
      NAME(form)(vs, taus, n - 1, 1, n, n, a, call->threads);
      sweeps.strips = take(&at, n * (n + NAME(STRIP)), sizeof(T));
      NAME(read_columns)(a, n, sweeps.strips);
    }
    failed = NAME(ql)(d, e, n, &sweeps) ? 0 : 1;
    sort_rising(d, n, order);
    for (int64_t i = 0; i < n; ++i) values[i] = (T)(d[order[i]] / scale);
    if (call->values_only) {
      memset(vectors, 0, (size_t)square * sizeof(T));
    } else {
      NAME(flush)(&sweeps);
      NAME(write_columns)(sweeps.strips, n, order, vectors);
    }
  }
  if (call->out[2] != NULL) *(int32_t *)call->out[2] = failed;
}

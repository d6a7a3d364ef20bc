/* Singular values for dense.c, for one type: T, and NAME(x): a bidiagonal matrix by reflectors from
 * both sides, then implicit QR steps (Golub and Van Loan, 5.4.8 and 8.6.3). Tall matrices are QR
 * factors first. */
#include "host/ops/algebra/dense_eigen.inc.h"

typedef struct NAME(bidiagonal) {
  T *a;
  const T *u, *v;
  T *y;
  T tau; /* of v */
  int64_t n, k;
} NAME(bidiagonal);

/* y = u' a, for columns behind k. */
static void NAME(left_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(bidiagonal) *b = context;
  const int64_t first = b->k + 1 + begin, count = end - begin;
  memset(b->y + first, 0, (size_t)count * sizeof(T));
  for (int64_t i = b->k; i < b->n; ++i) {
    NAME(add_multiple)(b->y + first, b->u[i], b->a + i * b->n + first, count);
  }
}

/* Rows behind k: a - u y' for a, and then a - tau (a v) v'. */
static void NAME(right_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(bidiagonal) *b = context;
  const int64_t first = b->k + 1, count = b->n - first;
  for (int64_t i = first + begin; i < first + end; ++i) {
    T *const row = b->a + i * b->n + first;
    NAME(add_multiple)(row, -b->u[i], b->y + first, count);
    NAME(add_multiple)(row, -b->tau * NAME(dot)(row, b->v + first, count), b->v + first, count);
  }
}

typedef struct NAME(reflectors) {
  T *rows, *taus; /* n x n, n */
} NAME(reflectors);

/* a (n x n) = U (d, e above it) V'. `y`: n. */
static void NAME(bidiagonalise)(T *a, int64_t n, double *d, double *e, NAME(reflectors) us,
                                NAME(reflectors) vs, T *y, int threads) {
  memset(us.rows, 0, (size_t)(n * n) * sizeof(T));
  memset(vs.rows, 0, (size_t)(n * n) * sizeof(T));
  for (int64_t k = 0; k < n; ++k) {
    T *const u = us.rows + k * n, *const v = vs.rows + k * n;
    const int64_t rest = n - k - 1;
    for (int64_t i = k; i < n; ++i) u[i] = a[i * n + k];
    d[k] = (double)NAME(reflector)(u + k, n - k, &us.taus[k]);
    e[k] = 0;
    if (rest == 0) break;
    NAME(bidiagonal) b = {a, u, v, y, 0, n, k};
    run_parts(threads, rest * rest, rest, NAME(left_range), &b);
    for (int64_t j = k + 1; j < n; ++j) {
      y[j] *= us.taus[k];
      v[j] = a[k * n + j] - y[j];
    }
    e[k] = (double)NAME(reflector)(v + k + 1, rest, &vs.taus[k]);
    b.tau = vs.taus[k];
    run_parts(threads, 2 * rest * rest, rest, NAME(right_range), &b);
  }
}

/* A rotation that turns (f, g) into (length, 0). */
static double NAME(turn)(double f, double g, double *c, double *s) {
  const double length = length_of(f, g);
  *c = length == 0 ? 1 : f / length;
  *s = length == 0 ? 0 : g / length;
  return length;
}

/* d[last] is negligible: takes e[last - 1] away, upwards to row `first`. */
static void NAME(chase_up)(double *d, double *e, int64_t first, int64_t last, NAME(sweeps) * vs) {
  double f = e[last - 1], c, s;
  e[last - 1] = 0;
  for (int64_t j = last - 1; j >= first; --j) {
    d[j] = NAME(turn)(d[j], f, &c, &s);
    if (j != first) {
      f = -s * e[j - 1];
      e[j - 1] *= c;
    }
    NAME(begin_sweep)(vs, j, last - j);
    NAME(add_rotation)(vs, c, s);
  }
}

/* d[first - 1] is negligible: takes e[first - 1] away, downwards to row `last`. */
static void NAME(chase_down)(double *d, double *e, int64_t first, int64_t last, NAME(sweeps) * us) {
  double f = e[first - 1], c, s;
  e[first - 1] = 0;
  for (int64_t j = first; j <= last; ++j) {
    d[j] = NAME(turn)(d[j], f, &c, &s);
    f = -s * e[j];
    e[j] *= c;
    NAME(begin_sweep)(us, j, first - 1 - j);
    NAME(add_rotation)(us, c, s);
  }
}

static void NAME(qr_step)(double *d, double *e, int64_t first, int64_t last, NAME(sweeps) * us,
                          NAME(sweeps) * vs) {
  const double p = d[last], q = d[last - 1], r = e[last - 1];
  const double b = ((q + p) * (q - p) + r * r) / 2, product = p * r * (p * r);
  double shift = 0, c, s;
  if (b != 0 || product != 0) shift = product / (b + copysign(sqrt(b * b + product), b));
  double f = (d[first] + p) * (d[first] - p) + shift, g = d[first] * e[first];
  NAME(begin_sweep)(vs, first, 1);
  NAME(begin_sweep)(us, first, 1);
  for (int64_t j = first; j < last; ++j) {
    const double length = NAME(turn)(f, g, &c, &s);
    if (j != first) e[j - 1] = length;
    f = c * d[j] + s * e[j];
    e[j] = c * e[j] - s * d[j];
    g = s * d[j + 1];
    d[j + 1] *= c;
    NAME(add_rotation)(vs, c, s);
    d[j] = NAME(turn)(f, g, &c, &s);
    f = c * e[j] + s * d[j + 1];
    d[j + 1] = c * d[j + 1] - s * e[j];
    g = s * e[j + 1];
    e[j + 1] *= c;
    NAME(add_rotation)(us, c, s);
  }
  e[last - 1] = f;
}

/* Until e is negligible; false where it does not become so. */
static bool NAME(diagonalise)(double *d, double *e, int64_t n, NAME(sweeps) * us,
                              NAME(sweeps) * vs) {
  const double small = (double)EPSILON / 2;
  int round = 0;
  for (int64_t last = n - 1; last > 0;) {
    int64_t first = last;
    while (first > 0 && fabs(e[first - 1]) > small * (fabs(d[first - 1]) + fabs(d[first]))) --first;
    if (first > 0) e[first - 1] = 0;
    if (first == last) {
      --last;
      round = 0;
      continue;
    }
    if (++round > MAX_ROUNDS) return false;
    int64_t zero = last;
    for (; zero >= first; --zero) {
      const double beside =
          (zero < last ? fabs(e[zero]) : 0) + (zero > first ? fabs(e[zero - 1]) : 0);
      if (fabs(d[zero]) <= small * beside) break;
    }
    if (zero >= first) d[zero] = 0;
    if (zero == last) NAME(chase_up)(d, e, first, last, vs);
    else if (zero >= first) NAME(chase_down)(d, e, zero + 1, last, us);
    else NAME(qr_step)(d, e, first, last, us, vs);
  }
  return true;
}

/* What run_svd works on: a, or its transpose where it is wide, is `rows` x k. */
typedef struct NAME(singular) {
  int64_t rows, k, kept;
  bool is_wide;
  T *w, *v, *q, *left, *square; /* rows x k, k x rows, rows x kept, rows x kept, k x k */
  double *d, *e;
  int64_t *order;
  NAME(reflectors) us, vs;
  NAME(sweeps) left_sweeps, right_sweeps;
} NAME(singular);

static void NAME(plan_svd)(const trm_dense_call *call, NAME(singular) * p) {
  const int64_t m = call->m, n = call->n, size = sizeof(T);
  p->is_wide = m < n;
  p->rows = p->is_wide ? n : m, p->k = least(m, n);
  p->kept = call->is_full ? p->rows : p->k;
  const int64_t rows = p->rows, k = p->k;
  void *at = call->scratch;
  p->w = take(&at, rows * k, size), p->v = take(&at, rows * k, size);
  p->q = take(&at, rows * p->kept, size), p->left = take(&at, rows * p->kept, size);
  p->square = take(&at, k * k, size);
  p->d = take(&at, k, sizeof *p->d), p->e = take(&at, k + 1, sizeof *p->e);
  p->order = take(&at, 2 * k, sizeof *p->order);
  NAME(sweeps) *const both[] = {&p->left_sweeps, &p->right_sweeps};
  NAME(reflectors) *const reflectors[] = {&p->us, &p->vs};
  for (int i = 0; i < 2; ++i) {
    reflectors[i]->rows = take(&at, k * k, size), reflectors[i]->taus = take(&at, k + 1, size);
    NAME(sweeps) *const s = both[i];
    s->n = s->columns = k, s->threads = call->threads, s->num_sweeps = s->num_rotations = 0;
    s->cosines = take(&at, SWEEPS * k, size), s->sines = take(&at, SWEEPS * k, size);
    s->strips = call->values_only ? NULL : take(&at, k * (k + NAME(STRIP)), size);
  }
}

/* The vectors, once the rotations are done. */
static void NAME(write_vectors)(const trm_dense_call *call, NAME(singular) * p) {
  const int64_t rows = p->rows, k = p->k, kept = p->kept;
  T *const u = call->out[1], *const vt = call->out[2];
  NAME(write_columns)(p->left_sweeps.strips, k, p->order, p->square);
  if (rows == k) {
    memcpy(p->left, p->square, (size_t)(k * k) * sizeof(T));
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      memset(p->left + i * kept, 0, (size_t)k * sizeof(T));
      memcpy(p->left + i * kept + k, p->q + i * kept + k, (size_t)(kept - k) * sizeof(T));
    }
    const trm_dense_product product = {
        rows, k, k, false, {p->q, kept, 1}, {p->square, k, 1}, p->left, kept, {false, false}};
    MULTIPLY(&product, call->threads);
  }
  NAME(write_columns)(p->right_sweeps.strips, k, p->order, p->square);
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t i = 0; i < k && p->d[p->order[j]] < 0; ++i) p->square[i * k + j] *= -1;
  }
  if (p->is_wide) {
    memcpy(u, p->square, (size_t)(k * k) * sizeof(T));
    NAME(transpose)(p->left, rows, kept, vt);
  } else {
    memcpy(u, p->left, (size_t)(rows * kept) * sizeof(T));
    NAME(transpose)(p->square, k, k, vt);
  }
}

static void NAME(run_svd)(const trm_dense_call *call) {
  NAME(singular) p;
  NAME(plan_svd)(call, &p);
  const int64_t rows = p.rows, k = p.k, long_size = rows * p.kept;
  T *const s = call->out[0], *const u = call->out[1], *const vt = call->out[2];
  const int threads = call->threads;
  *(int32_t *)call->out[3] = 0;
  if (p.is_wide) NAME(transpose)(call->in[0], k, rows, p.w);
  else memcpy(p.w, call->in[0], (size_t)(rows * k) * sizeof(T));
  const T most = NAME(most)(p.w, rows * k);
  if (!(most < INFINITY)) {
    NAME(fill_nan)(s, k);
    NAME(fill_nan)(u, p.is_wide ? k * k : long_size);
    NAME(fill_nan)(vt, p.is_wide ? long_size : k * k);
    return;
  }
  const double scale = scale_for((double)most);
  for (int64_t i = 0; i < rows * k && scale != 1; ++i) p.w[i] = (T)((double)p.w[i] * scale);
  if (rows > k) {
    NAME(qr)(p.w, rows, k, p.v, p.us.taus, threads);
    if (!call->values_only) NAME(form)(p.v, p.us.taus, k, 0, rows, p.kept, p.q, threads);
    for (int64_t i = 1; i < k; ++i) memset(p.w + i * k, 0, (size_t)i * sizeof(T));
  }
  NAME(bidiagonalise)(p.w, k, p.d, p.e, p.us, p.vs, p.v, threads);
  if (!call->values_only) {
    NAME(form)(p.us.rows, p.us.taus, k, 0, k, k, p.square, threads);
    NAME(read_columns)(p.square, k, p.left_sweeps.strips);
    NAME(form)(p.vs.rows, p.vs.taus, k - 1, 1, k, k, p.square, threads);
    NAME(read_columns)(p.square, k, p.right_sweeps.strips);
  }
  if (!NAME(diagonalise)(p.d, p.e, k, &p.left_sweeps, &p.right_sweeps)) {
    *(int32_t *)call->out[3] = 1;
  }
  sort_falling(p.d, k, p.order);
  for (int64_t j = 0; j < k; ++j) s[j] = (T)(fabs(p.d[p.order[j]]) / scale);
  if (call->values_only) {
    memset(u, 0, (size_t)(p.is_wide ? k * k : long_size) * sizeof(T));
    memset(vt, 0, (size_t)(p.is_wide ? long_size : k * k) * sizeof(T));
    return;
  }
  NAME(flush)(&p.left_sweeps);
  NAME(flush)(&p.right_sweeps);
  NAME(write_vectors)(call, &p);
}

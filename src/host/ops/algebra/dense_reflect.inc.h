/* QR by blocks of Householder reflectors for dense.c (Golub and Van Loan, 5.2.3), for one type: T,
 * and NAME(x).
 *
 * A reflector H = I - tau v v' is kept as a row, 0 before its 1. BLOCK of them are I - V S V' with
 * an upper triangle S. */
#include "host/ops/algebra/dense_solve.inc.h"

static T NAME(dot)(const T *x, const T *y, int64_t n) {
  T sums[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int l = 0; l < LANES; ++l) sums[l] += x[i + l] * y[i + l];
  }
  for (int l = 0; i + l < n; ++l) sums[l] += x[i + l] * y[i + l];
  for (int width = LANES / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) sums[l] += sums[l + width];
  }
  return sums[0];
}

/* The Euclidean norm; squares that would overflow or vanish are scaled. */
static T NAME(norm)(const T *x, int64_t n) {
  const T squares = NAME(dot)(x, x, n);
  if (squares > TINY_SQUARES && squares < 1 / TINY_SQUARES) return ROOT(squares);
  T most = 0, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!(ABSOLUTE(x[i]) <= most)) most = ABSOLUTE(x[i]);
  }
  if (most == 0 || !(most < INFINITY)) return most;
  for (int64_t i = 0; i < n; ++i) sum += x[i] / most * (x[i] / most);
  return most * ROOT(sum);
}

/* Makes x the reflector, with 1 in front, that turns it into (beta, 0, ...); returns beta. */
static T NAME(reflector)(T *x, int64_t n, T *tau) {
  const T alpha = x[0], rest = NAME(norm)(x + 1, n - 1);
  *tau = 0;
  x[0] = 1;
  if (rest == 0) {
    memset(x + 1, 0, (size_t)(n - 1) * sizeof(T));
    return alpha;
  }
  const T both[2] = {alpha, rest}, size = NAME(norm)(both, 2);
  const T beta = alpha > 0 ? -size : size;
  *tau = (beta - alpha) / beta;
  const T divisor = alpha - beta;
  for (int64_t i = 1; i < n; ++i) x[i] /= divisor;
  return beta;
}

typedef struct NAME(block) {
  const T *v; /* `size` rows of m */
  int64_t stride, size, m;
  T s[BLOCK * BLOCK];
  bool transposed; /* the product of the reflectors, or its transpose */
  T *c;
  int64_t c_stride;
} NAME(block);

static void NAME(make_block)(NAME(block) * b, const T *taus) {
  for (int64_t j = 0; j < b->size; ++j) {
    T w[BLOCK];
    for (int64_t i = 0; i < j; ++i) {
      w[i] = NAME(dot)(b->v + i * b->stride, b->v + j * b->stride, b->m);
    }
    for (int64_t i = 0; i < b->size; ++i) {
      T sum = 0;
      for (int64_t k = i; k < j; ++k) sum += b->s[i * BLOCK + k] * w[k];
      b->s[i * BLOCK + j] = i == j ? taus[j] : i < j ? -taus[j] * sum : 0;
    }
  }
}

/* Columns of c (m rows) become those of the block's product with them. */
static void NAME(apply_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(block) *b = context;
  T first[BLOCK * COLUMNS], second[BLOCK * COLUMNS];
  for (int64_t j = begin; j < end; j += COLUMNS) {
    const int64_t count = trm_least(end - j, COLUMNS);
    T *const c = b->c + j;
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    trm_dense_product p = {
        b->size, count,   b->m,          false, {b->v, b->stride, 1}, {c, b->c_stride, 1},
        first,   COLUMNS, {false, false}};
    NAME(multiply)(&p);
    p.k = b->size;
    p.a = (trm_dense_matrix){b->s, b->transposed ? 1 : BLOCK, b->transposed ? BLOCK : 1};
    p.b = (trm_dense_matrix){first, COLUMNS, 1};
    p.c = second;
    NAME(multiply)(&p);
    NAME(subtract)(b->m, count, b->size, b->v, 1, b->stride, second, COLUMNS, 1, c, b->c_stride);
  }
}

/* The first n columns of the product of `count` reflectors, rows of m in v; reflector i has its 1
 * at i + shift. */
static void NAME(form)(const T *v, const T *taus, int64_t count, int64_t shift, int64_t m,
                       int64_t n, T *q, int threads) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) q[i * n + j] = i == j ? 1 : 0;
  }
  NAME(block) b = {.stride = m, .c_stride = n};
  for (int64_t i = (count - 1) / BLOCK * BLOCK; i >= 0 && count > 0; i -= BLOCK) {
    const int64_t at = i + shift; /* columns before are still those of I, as are rows */
    b.size = trm_least(count - i, BLOCK);
    b.m = m - at;
    b.v = v + i * m + at;
    b.c = q + at * n + at;
    NAME(make_block)(&b, taus + i);
    run_chunks(threads, 4 * b.m * (n - at) * b.size, n - at, NAME(apply_range), &b);
  }
}

/* a (m x n) becomes R with the reflectors below; they are rows of v (k x m), too. */
static void NAME(qr)(T *a, int64_t m, int64_t n, T *v, T *taus, int threads) {
  const int64_t k = trm_least(m, n);
  NAME(block) b = {.stride = m, .transposed = true, .c_stride = n};
  memset(v, 0, (size_t)(k * m) * sizeof(T));
  for (int64_t begin = 0; begin < k; begin += BLOCK) {
    b.size = trm_least(k - begin, BLOCK);
    b.m = m - begin;
    b.v = v + begin * m + begin;
    T *const rows = v + begin * m;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < b.size; ++j) rows[j * m + i] = a[i * n + begin + j];
    }
    for (int64_t j = 0; j < b.size; ++j) {
      const int64_t at = begin + j;
      T *const x = rows + j * m + at;
      const T beta = NAME(reflector)(x, m - at, &taus[at]);
      for (int64_t c = j + 1; c < b.size; ++c) {
        T *const y = rows + c * m + at;
        NAME(add_multiple)(y, -taus[at] * NAME(dot)(x, y, m - at), x, m - at);
      }
      for (int64_t i = 0; i < at; ++i) a[i * n + at] = rows[j * m + i];
      memset(rows + j * m, 0, (size_t)at * sizeof(T));
      a[at * n + at] = beta;
      for (int64_t i = at + 1; i < m; ++i) a[i * n + at] = rows[j * m + i];
    }
    const int64_t rest = n - begin - b.size;
    if (rest == 0) continue;
    b.c = a + begin * n + begin + b.size;
    NAME(make_block)(&b, taus + begin);
    run_chunks(threads, 4 * b.m * rest * b.size, rest, NAME(apply_range), &b);
  }
}

static void NAME(run_qr)(const trm_dense_call *call) {
  memcpy(call->out[0], call->in[0], (size_t)(call->m * call->n) * sizeof(T));
  NAME(qr)(call->out[0], call->m, call->n, call->scratch, call->out[1], call->threads);
}

static void NAME(run_q)(const trm_dense_call *call) {
  const int64_t m = call->m, n = call->n;
  const T *const a = call->in[0];
  T *const v = call->scratch;
  for (int64_t j = 0; j < call->columns; ++j) {
    for (int64_t i = 0; i < m; ++i) v[j * m + i] = i < j ? 0 : i == j ? 1 : a[i * n + j];
  }
  NAME(form)(v, call->in[1], call->columns, 0, m, n, call->out[0], call->threads);
}

/* Triangular systems, Cholesky and LU factors for dense.c, for one type: T, and NAME(x). */
#include "host/ops/algebra/dense_product.inc.h"

/* c -= a b, where a is m x k. */
static void NAME(subtract)(int64_t m, int64_t n, int64_t k, const T *a, int64_t a_rows,
                           int64_t a_columns, const T *b, int64_t b_rows, int64_t b_columns, T *c,
                           int64_t stride) {
  if (m <= 0 || n <= 0 || k <= 0) return;
  const trm_dense_product p = {
      m, n, k, true, {a, a_rows, a_columns}, {b, b_rows, b_columns}, c, stride, {false, false}};
  NAME(multiply)(&p);
}

static inline void NAME(add_multiple)(T *restrict y, T factor, const T *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

/* ---- Triangular systems (Golub and Van Loan, 3.1) ------------------------------------------- */

/* A X = B in place of x (n x count, rows of `stride`), element (i, j) of A at i * rows + j *
 * columns; `forward` where A is a lower triangle. */
static void NAME(solve)(const T *a, int64_t rows, int64_t columns, int64_t n, bool forward,
                        bool has_unit_diagonal, T *x, int64_t stride, int64_t count) {
  enum { STEP = 24 }; /* four tiles of a product */
  for (int64_t begin = 0; begin < n; begin += STEP) {
    const int64_t size = least(n - begin, STEP);
    const int64_t first = forward ? begin : n - begin - size, known = forward ? 0 : n - begin;
    NAME(subtract)
    (size, count, begin, a + first * rows + known * columns, rows, columns, x + known * stride,
     stride, 1, x + first * stride, stride);
    for (int64_t r = begin; r < begin + size; ++r) {
      const int64_t i = forward ? r : n - 1 - r;
      T *const row = x + i * stride;
      for (int64_t q = begin; q < r; ++q) {
        const int64_t k = forward ? q : n - 1 - q;
        NAME(add_multiple)(row, -a[i * rows + k * columns], x + k * stride, count);
      }
      const T pivot = a[i * rows + i * columns];
      if (has_unit_diagonal) continue;
      for (int64_t j = 0; j < count; ++j) row[j] /= pivot;
    }
  }
}

typedef struct NAME(systems) {
  const T *a;
  int64_t rows, columns, n;
  bool forward, has_unit_diagonal;
  T *x;
  int64_t stride;
} NAME(systems);

static void NAME(solve_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(systems) *s = context;
  for (int64_t j = begin; j < end; j += COLUMNS) {
    NAME(solve)
    (s->a, s->rows, s->columns, s->n, s->forward, s->has_unit_diagonal, s->x + j, s->stride,
     least(end - j, COLUMNS));
  }
}

static void NAME(transpose)(const T *from, int64_t m, int64_t n, T *to) {
  enum { STEP = 16 };
  for (int64_t i0 = 0; i0 < m; i0 += STEP) {
    for (int64_t j0 = 0; j0 < n; j0 += STEP) {
      for (int64_t i = i0; i < least(i0 + STEP, m); ++i) {
        for (int64_t j = j0; j < least(j0 + STEP, n); ++j) to[j * m + i] = from[i * n + j];
      }
    }
  }
}

/* op(A) X = B, or X op(A) = B as op(A)' X' = B'. */
static void NAME(run_solve)(const trm_dense_call *call) {
  const int64_t n = call->n, count = call->columns;
  const bool transposed = call->transposed == call->left;
  T *const x = call->left ? call->out[0] : call->scratch;
  if (call->left) memcpy(x, call->in[1], (size_t)(n * count) * sizeof(T));
  else NAME(transpose)(call->in[1], count, n, x);
  const NAME(systems) s = {call->in[0],
                           transposed ? 1 : n,
                           transposed ? n : 1,
                           n,
                           call->lower != transposed,
                           call->has_unit_diagonal,
                           x,
                           count};
  run_parts(call->threads, n * n * count, count, NAME(solve_range), &s);
  if (!call->left) NAME(transpose)(x, n, count, call->out[0]);
}

/* ---- Cholesky, from the left (4.2.8) -------------------------------------------------------- */

typedef struct NAME(factor) {
  T *a;
  int64_t n, begin, size; /* of the block of columns */
} NAME(factor);

/* Rows of the block of columns below its square: less what is left of them, and solved. */
static void NAME(cholesky_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(factor) *f = context;
  enum { AT_ONCE = 64 };
  T turned[BLOCK * AT_ONCE];
  const int64_t n = f->n, first = f->begin + f->size;
  T *const square = f->a + f->begin * n + f->begin;
  for (int64_t r = first + begin; r < first + end; r += AT_ONCE) {
    const int64_t count = least(first + end - r, AT_ONCE);
    T *const rows = f->a + r * n + f->begin;
    NAME(subtract)
    (count, f->size, f->begin, f->a + r * n, n, 1, f->a + f->begin * n, 1, n, rows, n);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < f->size; ++j) turned[j * count + i] = rows[i * n + j];
    }
    NAME(solve)(square, n, 1, f->size, true, false, turned, count, count);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < f->size; ++j) rows[i * n + j] = turned[j * count + i];
    }
  }
}

/* The lower triangle of a; the first pivot that is not positive, from 1, or 0. */
static int64_t NAME(cholesky)(T *a, int64_t n, int threads) {
  for (int64_t begin = 0; begin < n; begin += BLOCK) {
    const NAME(factor) f = {a, n, begin, least(n - begin, BLOCK)};
    T *const square = a + begin * n + begin;
    NAME(subtract)(f.size, f.size, begin, a + begin * n, n, 1, a + begin * n, 1, n, square, n);
    for (int64_t j = 0; j < f.size; ++j) {
      for (int64_t i = j; i < f.size; ++i) {
        T sum = square[i * n + j];
        for (int64_t k = 0; k < j; ++k) sum -= square[i * n + k] * square[j * n + k];
        if (i == j && !(sum > 0)) return begin + j + 1;
        square[i * n + j] = i == j ? ROOT(sum) : sum / square[j * n + j];
      }
    }
    const int64_t rest = n - begin - f.size;
    run_parts(threads, rest * f.size * (begin + f.size), rest, NAME(cholesky_range), &f);
  }
  return 0;
}

static void NAME(run_cholesky)(const trm_dense_call *call) {
  const int64_t n = call->n;
  T *const a = call->lower ? call->out[0] : call->scratch, *const out = call->out[0];
  const T *const in = call->in[0];
  if (call->lower) memcpy(out, in, (size_t)(n * n) * sizeof(T));
  else NAME(transpose)(in, n, n, a);
  const int64_t info = NAME(cholesky)(a, n, call->threads);
  if (!call->lower) {
    NAME(transpose)(a, n, n, out);
    for (int64_t i = 0; i < n; ++i) memcpy(out + i * n, in + i * n, (size_t)i * sizeof(T));
  } else { /* a product may have written above the diagonal of a block */
    for (int64_t i = 0; i < n; ++i) {
      memcpy(out + i * n + i + 1, in + i * n + i + 1, (size_t)(n - i - 1) * sizeof(T));
    }
  }
  *(int32_t *)call->out[1] = (int32_t)info;
}

/* ---- LU with partial pivoting, from the right (3.4) ----------------------------------------- */

/* The place of the largest magnitude of n > 0; of equal ones the first, of only NaNs 0. */
static int64_t NAME(largest)(const T *x, int64_t n) {
  T best[16];
  for (int l = 0; l < 16; ++l) best[l] = -1;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) {
      const T size = ABSOLUTE(x[i + l]);
      best[l] = size > best[l] ? size : best[l];
    }
  }
  T all = -1;
  for (int l = 0; l < 16; ++l) all = best[l] > all ? best[l] : all;
  for (; i < n; ++i) all = ABSOLUTE(x[i]) > all ? ABSOLUTE(x[i]) : all;
  for (i = 0; i < n; ++i) {
    if (ABSOLUTE(x[i]) == all) return i;
  }
  return 0;
}

typedef struct NAME(lu) {
  T *a;
  int64_t m, n, begin, size;
  const int32_t *pivots;
} NAME(lu);

/* Columns outside of the panel: rows exchanged and, to the right of it, eliminated. */
static void NAME(lu_range)(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const NAME(lu) *f = context;
  const int64_t n = f->n, last = f->begin + f->size;
  for (int64_t c = begin, count; c < end; c += count) {
    const int64_t j = c < f->begin ? c : c + f->size; /* skips the panel */
    count = least(end - c, COLUMNS);
    if (c < f->begin) count = least(count, f->begin - c);
    for (int64_t k = f->begin; k < last; ++k) {
      const int64_t other = f->pivots[k] - 1;
      T swapped[COLUMNS];
      if (other == k) continue;
      memcpy(swapped, f->a + k * n + j, (size_t)count * sizeof(T));
      memcpy(f->a + k * n + j, f->a + other * n + j, (size_t)count * sizeof(T));
      memcpy(f->a + other * n + j, swapped, (size_t)count * sizeof(T));
    }
    if (c >= f->begin) {
      const T *const panel = f->a + f->begin * n + f->begin;
      T *const top = f->a + f->begin * n + j;
      NAME(solve)(panel, n, 1, f->size, true, true, top, n, count);
      NAME(subtract)
      (f->m - last, count, f->size, panel + f->size * n, n, 1, top, n, 1, top + f->size * n, n);
    }
  }
}

/* A panel by columns, `m` long. `first` is its row in the matrix. */
static void NAME(lu_panel)(T *panel, int64_t m, int64_t size, int64_t first, int32_t *pivots,
                           int32_t *info) {
  for (int64_t k = 0; k < size; ++k) {
    T *const column = panel + k * m;
    const int64_t best = k + NAME(largest)(column + k, m - k);
    pivots[k] = (int32_t)(first + best + 1);
    if (column[best] == 0) {
      if (*info == 0) *info = (int32_t)(first + k + 1);
      continue;
    }
    for (int64_t j = 0; j < size && best != k; ++j) {
      const T t = panel[j * m + k];
      panel[j * m + k] = panel[j * m + best];
      panel[j * m + best] = t;
    }
    const T pivot = column[k];
    for (int64_t i = k + 1; i < m; ++i) column[i] /= pivot;
    for (int64_t j = k + 1; j < size; ++j) {
      NAME(add_multiple)(panel + j * m + k + 1, -panel[j * m + k], column + k + 1, m - k - 1);
    }
  }
}

static void NAME(run_lu)(const trm_dense_call *call) {
  const int64_t m = call->m, n = call->n, k = least(m, n);
  T *const a = call->out[0], *const panel = call->scratch;
  int32_t *const pivots = call->out[1], *const info = call->out[2];
  memcpy(a, call->in[0], (size_t)(m * n) * sizeof(T));
  *info = 0;
  for (int64_t begin = 0; begin < k; begin += BLOCK) {
    const int64_t size = least(k - begin, BLOCK), rows = m - begin;
    T *const corner = a + begin * n + begin;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < size; ++j) panel[j * rows + i] = corner[i * n + j];
    }
    NAME(lu_panel)(panel, rows, size, begin, pivots + begin, info);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < size; ++j) corner[i * n + j] = panel[j * rows + i];
    }
    const NAME(lu) f = {a, m, n, begin, size, pivots};
    run_parts(call->threads, rows * n * size, n - size, NAME(lu_range), &f);
  }
}

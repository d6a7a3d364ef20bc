/* Triangular systems and Cholesky factors for dense.c, for one type: T, and NAME(x). */
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
    const int64_t size = trm_least(n - begin, STEP);
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
     trm_least(end - j, COLUMNS));
  }
}

static void NAME(transpose)(const T *from, int64_t m, int64_t n, T *to) {
  enum { STEP = 16 };
  for (int64_t i0 = 0; i0 < m; i0 += STEP) {
    for (int64_t j0 = 0; j0 < n; j0 += STEP) {
      for (int64_t i = i0; i < trm_least(i0 + STEP, m); ++i) {
        for (int64_t j = j0; j < trm_least(j0 + STEP, n); ++j) to[j * m + i] = from[i * n + j];
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
  run_chunks(call->threads, n * n * count, count, NAME(solve_range), &s);
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
    const int64_t count = trm_least(first + end - r, AT_ONCE);
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
    const NAME(factor) f = {a, n, begin, trm_least(n - begin, BLOCK)};
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
    run_chunks(threads, rest * f.size * (begin + f.size), rest, NAME(cholesky_range), &f);
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

/* Owns: the reference kernels' LAPACK for matrices that are not symmetric: Hessenberg and Schur
 * forms, eigenvectors; also the reduction to tridiagonal form and QR with pivots. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "host/ops/algebra/reference_lapack.h"

typedef trm_lapack_number number;
typedef trm_lapack_matrices matrices;
enum { MAX_STEPS = 300, EXCEPTIONAL = 10 }; /* for an eigenvalue; every tenth step is another */

static double square(number z) { return creal(z) * creal(z) + cimag(z) * cimag(z); }

number trm_lapack_reflector(number *x, int64_t stride, int64_t count) {
  const number alpha = x[0];
  double squares = 0.0;
  for (int64_t i = 1; i < count; ++i) squares += square(x[i * stride]);
  if (squares == 0.0 && cimag(alpha) == 0.0) return 0.0; /* nothing to remove */
  const double size = sqrt(square(alpha) + squares);
  const double beta = creal(alpha) > 0.0 ? -size : size;
  for (int64_t i = 1; i < count; ++i) x[i * stride] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

/* A part of a matrix whose rows are `width` apart. Steps may be negative. */
typedef struct part {
  number *at;
  int64_t rows, columns, down, right;
} part;

/* (I - tau v v') a; v is 1 and then v[1], v[2], ... `stride` apart. */
static void reflect(part a, const number *v, int64_t stride, number tau) {
  for (int64_t j = 0; j < a.columns; ++j) {
    number *const x = a.at + j * a.right, sum = x[0];
    for (int64_t i = 1; i < a.rows; ++i) sum += conj(v[i * stride]) * x[i * a.down];
    x[0] -= tau * sum;
    for (int64_t i = 1; i < a.rows; ++i) x[i * a.down] -= tau * sum * v[i * stride];
  }
}

/* a (I - tau v v'). */
static void reflect_right(part a, const number *v, int64_t stride, number tau) {
  for (int64_t i = 0; i < a.rows; ++i) {
    number *const x = a.at + i * a.down, sum = x[0];
    for (int64_t j = 1; j < a.columns; ++j) sum += x[j * a.right] * v[j * stride];
    x[0] -= tau * sum;
    for (int64_t j = 1; j < a.columns; ++j) x[j * a.right] -= tau * sum * conj(v[j * stride]);
  }
}

/* ---- QR with pivots ------------------------------------------------------------------------- */

static void swap_columns(number *a, int64_t m, int64_t n, int64_t i, int64_t j) {
  for (int64_t r = 0; r < m && i != j; ++r) {
    const number t = a[r * n + i];
    a[r * n + i] = a[r * n + j];
    a[r * n + j] = t;
  }
}

/* Columns whose entry of jpvt is not 0 come first, and stay. */
void trm_lapack_geqp3(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t m = s->m, n = s->n;
  number *const a = results[0], *const order = results[1], *const taus = results[2];
  int64_t fixed = 0;
  (void)scratch;
  memcpy(a, operands[0], (size_t)(m * n) * sizeof *a);
  for (int64_t j = 0; j < n; ++j) {
    order[j] = (double)(j + 1);
    if (operands[1][j] == 0.0) continue;
    swap_columns(a, m, n, fixed, j);
    swap_columns(order, 1, n, fixed, j);
    ++fixed;
  }
  for (int64_t k = 0; k < m && k < n; ++k) {
    int64_t best = k;
    double most = -1.0;
    for (int64_t j = k; j < n && k >= fixed; ++j) {
      double squares = 0.0;
      for (int64_t i = k; i < m; ++i) squares += square(a[i * n + j]);
      if (squares > most) {
        most = squares;
        best = j;
      }
    }
    swap_columns(a, m, n, k, best);
    swap_columns(order, 1, n, k, best);
    number *const column = &a[k * n + k];
    taus[k] = trm_lapack_reflector(column, n, m - k);
    reflect((part){column + 1, m - k, n - k - 1, n, 1}, column, n, conj(taus[k]));
  }
}

/* ---- Hessenberg and tridiagonal forms ------------------------------------------------------- */

/* a = Q H Q'; below the subdiagonal of H are Q's reflectors. */
static void hessenberg(number *a, int64_t n, number *taus) {
  for (int64_t k = 0; k + 1 < n; ++k) {
    number *const v = &a[(k + 1) * n + k];
    const number tau = taus[k] = trm_lapack_reflector(v, n, n - k - 1);
    reflect_right((part){&a[k + 1], n, n - k - 1, n, 1}, v, n, tau);
    reflect((part){&a[(k + 1) * n + k + 1], n - k - 1, n - k - 1, n, 1}, v, n, conj(tau));
  }
}

void trm_lapack_gehrd(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  (void)scratch;
  memcpy(results[0], operands[0], (size_t)(s->n * s->n) * sizeof **results);
  hessenberg(results[0], s->n, results[1]);
  *results[2] = 0.0;
}

/* Results: a with the reflectors, the diagonal, the one beside it, taus, info. The upper triangle
 * is reduced from its last column. */
void trm_lapack_sytrd(const matrices *s, number *const *operands, number *const *results,
                      number *scratch) {
  const int64_t n = s->n;
  const bool lower = s->uplo == 'L';
  number *const a = results[0], *const w = scratch;
  memcpy(a, operands[0], (size_t)(n * n) * sizeof *a);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const bool given = lower ? i >= j : i <= j;
      w[i * n + j] = i == j ? creal(a[i * n + i]) : given ? a[i * n + j] : conj(a[j * n + i]);
    }
  }
  const int64_t step = lower ? 1 : -1, down = step * n;
  for (int64_t r = 0; r + 1 < n; ++r) {
    const int64_t k = lower ? r : n - 1 - r, next = k + step, count = n - 1 - r;
    number *const v = &w[next * n + k];
    const number tau = trm_lapack_reflector(v, down, count);
    const part rest = {&w[next * n + next], count, count, down, step};
    reflect(rest, v, down, conj(tau));
    reflect_right(rest, v, down, tau);
    const int64_t place = lower ? k : next;
    results[2][place] = creal(*v);
    results[3][place] = tau;
  }
  for (int64_t i = 0; i < n; ++i) {
    results[1][i] = creal(w[i * n + i]);
    for (int64_t j = 0; j < n; ++j) {
      if (lower ? i >= j : i <= j) a[i * n + j] = w[i * n + j];
    }
  }
  *results[4] = 0.0;
}

/* ---- Schur form ----------------------------------------------------------------------------- */

/* h becomes its Hessenberg form and z the Q of h = Q H Q'. */
static void reduce(number *h, int64_t n, number *z, number *taus) {
  hessenberg(h, n, taus);
  for (int64_t i = 0; i < n * n; ++i) z[i] = i / n == i % n ? 1.0 : 0.0;
  for (int64_t k = n - 1; k-- > 0;) {
    const number *v = &h[(k + 1) * n + k];
    reflect((part){&z[(k + 1) * n + k + 1], n - k - 1, n - k - 1, n, 1}, v, n, taus[k]);
  }
  for (int64_t i = 2; i < n; ++i) {
    for (int64_t j = 0; j + 1 < i; ++j) h[i * n + j] = 0.0;
  }
}

/* The first row of the block that ends with row `last`: subdiagonal numbers that are nothing
 * beside their neighbours become 0. */
static int64_t first_of_block(number *h, int64_t n, int64_t last, double norm) {
  int64_t l = last;
  for (; l > 0; --l) {
    double size = cabs(h[(l - 1) * n + l - 1]) + cabs(h[l * n + l]);
    if (size == 0.0) size = norm;
    if (cabs(h[l * n + l - 1]) <= DBL_EPSILON * size) {
      h[l * n + l - 1] = 0.0;
      break;
    }
  }
  return l;
}

static double norm_of(const number *a, int64_t count) {
  double squares = 0.0;
  for (int64_t i = 0; i < count; ++i) squares += square(a[i]);
  return sqrt(squares);
}

/* Rows k and k + 1 become (c' x + s' y, c y - s x), columns likewise, and z's; c c' + s s' = 1. */
static void rotate_rows(number *h, int64_t n, int64_t k, number c, number s) {
  for (int64_t j = 0; j < n; ++j) {
    const number x = h[k * n + j], y = h[(k + 1) * n + j];
    h[k * n + j] = conj(c) * x + conj(s) * y;
    h[(k + 1) * n + j] = c * y - s * x;
  }
}

static void rotate_columns(number *h, int64_t n, int64_t k, number c, number s) {
  for (int64_t i = 0; i < n; ++i) {
    const number x = h[i * n + k], y = h[i * n + k + 1];
    h[i * n + k] = c * x + s * y;
    h[i * n + k + 1] = conj(c) * y - conj(s) * x;
  }
}

static void rotate(number *h, int64_t n, number *z, int64_t k, number c, number s) {
  rotate_rows(h, n, k, c, s);
  rotate_columns(h, n, k, c, s);
  rotate_columns(z, n, k, c, s);
}

/* The eigenvalue of h's rows last - 1 and last that is nearer to the last number. */
static number shift_of(const number *h, int64_t n, int64_t last) {
  const number a = h[(last - 1) * n + last - 1], b = h[(last - 1) * n + last];
  const number c = h[last * n + last - 1], d = h[last * n + last];
  const number half = 0.5 * (a - d), root = csqrt(half * half + b * c);
  const number one = half + root, other = half - root;
  const number most = cabs(one) > cabs(other) ? one : other;
  return most == 0.0 ? d : d - b * c / most;
}

/* h (Hessenberg) becomes upper triangular. Returns the number of eigenvalues not found. */
static int64_t complex_schur(number *h, int64_t n, number *z, number *rotations) {
  const double norm = norm_of(h, n * n);
  int64_t last = n - 1;
  for (int steps = 0; last > 0; ++steps) {
    const int64_t first = first_of_block(h, n, last, norm);
    if (first == last) {
      --last;
      steps = -1;
      continue;
    }
    if (steps >= MAX_STEPS) return last + 1;
    number shift = shift_of(h, n, last);
    if (steps % EXCEPTIONAL == EXCEPTIONAL - 1) shift += cabs(h[last * n + last - 1]);
    for (int64_t i = first; i <= last; ++i) h[i * n + i] -= shift;
    for (int64_t k = first; k < last; ++k) {
      const number x = h[k * n + k], y = h[(k + 1) * n + k];
      const double size = hypot(cabs(x), cabs(y));
      const number c = size == 0.0 ? 1.0 : x / size, s = size == 0.0 ? 0.0 : y / size;
      rotations[2 * k] = c;
      rotations[2 * k + 1] = s;
      rotate_rows(h, n, k, c, s);
      h[(k + 1) * n + k] = 0.0;
    }
    for (int64_t k = first; k < last; ++k) {
      rotate_columns(h, n, k, rotations[2 * k], rotations[2 * k + 1]);
      rotate_columns(z, n, k, rotations[2 * k], rotations[2 * k + 1]);
    }
    for (int64_t i = first; i <= last; ++i) h[i * n + i] += shift;
  }
  return 0;
}

/* Rows k and k + 1, real, become upper triangular or have equal numbers on the diagonal, as
 * LAPACK's dlanv2 makes them. */
static void standardise(number *h, int64_t n, number *z, int64_t k) {
  number *const diagonal = &h[k * n + k];
  const double a = creal(diagonal[0]), b = creal(diagonal[1]);
  const double c = creal(diagonal[n]), d = creal(diagonal[n + 1]);
  const double p = 0.5 * (a - d), most = fmax(fabs(b), fabs(c));
  const double least = fmin(fabs(b), fabs(c)) * copysign(1.0, b) * copysign(1.0, c);
  const double scale = fmax(fabs(p), most);
  if (c == 0.0 || (a == d && (b < 0.0) != (c < 0.0) && b != 0.0)) return;
  const double root = p / scale * p + most / scale * least;
  const bool is_real = b == 0.0 || root >= 4.0 * DBL_EPSILON;
  double cosine = 0.0, sine = 1.0;
  if (is_real && b != 0.0) {
    const double eigen = p + copysign(sqrt(scale) * sqrt(root), p), size = hypot(c, eigen);
    cosine = eigen / size;
    sine = c / size;
  } else if (!is_real) {
    const double sigma = b + c, size = hypot(sigma, a - d);
    cosine = sqrt(0.5 * (1.0 + fabs(sigma) / size));
    sine = -(p / (size * cosine)) * copysign(1.0, sigma);
  }
  rotate(h, n, z, k, cosine, sine);
  if (is_real) {
    diagonal[n] = 0.0;
  } else {
    diagonal[0] = diagonal[n + 1] = 0.5 * (diagonal[0] + diagonal[n + 1]);
    const double upper = creal(diagonal[1]), under = creal(diagonal[n]);
    if (upper * under < 0.0) return;
    const double size =
        sqrt(fabs(upper) + fabs(under)); /* by a rounding they are real, after all */
    if (size > 0.0) rotate(h, n, z, k, sqrt(fabs(upper)) / size, sqrt(fabs(under)) / size);
    diagonal[n] = 0.0;
  }
}

/* One step with two shifts, whose sum and product are given, in rows `first` to `last`, 3 or
 * more of them. */
static void double_step(number *h, int64_t n, number *z, int64_t first, int64_t last, double sum,
                        double product) {
  const number *const h0 = &h[first * n + first], *const h1 = h0 + n;
  number x[3] = {h0[0] * h0[0] + h0[1] * h1[0] - sum * h0[0] + product,
                 h1[0] * (h0[0] + h1[1] - sum), h1[0] * h0[2 * n + 1]};
  for (int64_t k = first; k < last; ++k) {
    const int64_t count = last - k + 1 < 3 ? last - k + 1 : 3;
    for (int64_t i = 0; i < count && k > first; ++i) x[i] = h[(k + i) * n + k - 1];
    const number tau = trm_lapack_reflector(x, 1, count);
    reflect((part){&h[k * n], count, n, n, 1}, x, 1, tau);
    reflect_right((part){&h[k], n, count, n, 1}, x, 1, tau);
    reflect_right((part){&z[k], n, count, n, 1}, x, 1, tau);
    for (int64_t i = 1; i < count && k > first; ++i) h[(k + i) * n + k - 1] = 0.0;
  }
}

/* h, real, becomes upper triangular but for blocks of 2 x 2, whose eigenvalues are complex. */
static int64_t real_schur(number *h, int64_t n, number *z) {
  const double norm = norm_of(h, n * n);
  int64_t last = n - 1;
  for (int steps = 0; last > 0; ++steps) {
    const int64_t first = first_of_block(h, n, last, norm);
    if (first + 1 >= last) {
      if (first < last) standardise(h, n, z, first);
      last = first - 1;
      steps = -1;
      continue;
    }
    if (steps >= MAX_STEPS) return last + 1;
    const number *const end = &h[(last - 1) * n + last - 1];
    double sum = creal(end[0] + end[n + 1]);
    double product = creal(end[0] * end[n + 1] - end[1] * end[n]);
    if (steps % EXCEPTIONAL == EXCEPTIONAL - 1) {
      const double size = cabs(end[n]) + cabs(end[-1]);
      sum = 1.5 * size;
      product = size * size;
    }
    double_step(h, n, z, first, last, sum, product);
  }
  return 0;
}

/* The eigenvalues of a Schur form: of a block of 2 x 2 the one with the positive imaginary part,
 * then its conjugate. */
static void eigenvalues(const number *t, int64_t n, number *values) {
  for (int64_t i = 0; i < n; ++i) {
    values[i] = t[i * n + i];
    if (i + 1 == n || t[(i + 1) * n + i] == 0.0) continue;
    const double b = creal(t[i * n + i + 1]), c = creal(t[(i + 1) * n + i]);
    values[i] = CMPLX(creal(t[i * n + i]), sqrt(fabs(b)) * sqrt(fabs(c)));
    values[i + 1] = conj(values[i]);
    ++i;
  }
}

/* Makes t its Schur form and z the vectors, and writes the eigenvalues to results[0] on, of real
 * matrices their parts. Returns LAPACK's info. */
static int64_t decompose(const matrices *s, number *t, number *z, number *const *results,
                         number *scratch) {
  const int64_t n = s->n;
  reduce(t, n, z, scratch);
  const int64_t info = s->is_complex ? complex_schur(t, n, z, scratch) : real_schur(t, n, z);
  eigenvalues(t, n, scratch);
  for (int64_t i = 0; i < n; ++i) {
    results[0][i] = s->is_complex ? scratch[i] : creal(scratch[i]);
    if (!s->is_complex) results[1][i] = cimag(scratch[i]);
  }
  return info;
}

/* Results: t, the vectors, eigenvalues (of real matrices their parts, one after the other), the
 * number of sorted ones, info. */
void trm_lapack_gees(const matrices *s, number *const *operands, number *const *results,
                     number *scratch) {
  const int64_t n = s->n;
  number *const t = results[0];
  memcpy(t, operands[0], (size_t)(n * n) * sizeof *t);
  const int64_t info = decompose(s, t, results[1], results + 2, scratch);
  number *const *rest = results + (s->is_complex ? 3 : 4);
  *rest[0] = 0.0;
  *rest[1] = (double)info;
}

/* ---- Eigenvectors --------------------------------------------------------------------------- */

/* A real Schur form becomes a complex one: blocks of 2 x 2 become triangular. */
static void triangular(number *t, int64_t n, number *z, const number *values) {
  for (int64_t i = 0; i + 1 < n; ++i) {
    if (t[(i + 1) * n + i] == 0.0) continue;
    const number x = t[i * n + i + 1], y = values[i] - t[i * n + i];
    const double size = hypot(cabs(x), cabs(y));
    rotate(t, n, z, i, x / size, y / size);
    t[(i + 1) * n + i] = 0.0;
    t[i * n + i] = values[i];
    t[(i + 1) * n + i + 1] = values[i + 1];
  }
}

/* Vector k of t (upper triangular), from the right or the left: x is 1 in row k. */
static void solve_vector(const number *t, int64_t n, int64_t k, bool left, double tiny, number *x) {
  for (int64_t i = 0; i < n; ++i) x[i] = i == k ? 1.0 : 0.0;
  for (int64_t r = 1; r < n; ++r) {
    const int64_t i = left ? k + r : k - r;
    if (i < 0 || i >= n) break;
    number sum = 0.0, below = t[i * n + i] - t[k * n + k];
    for (int64_t j = left ? k : i + 1; j < (left ? i : k + 1); ++j) {
      sum += left ? t[j * n + i] * conj(x[j]) : t[i * n + j] * x[j];
    }
    if (cabs(below) < tiny) below = tiny;
    x[i] = left ? conj(-sum / below) : -sum / below;
  }
}

/* Columns of `vectors`: z times those of t, of length 1, the largest number real; where the
 * matrix is real, so are the vectors of real eigenvalues. */
static void eigenvectors(const matrices *s, const number *t, const number *z, bool left,
                         number *vectors, number *x) {
  const int64_t n = s->n;
  const double tiny = fmax(DBL_EPSILON * norm_of(t, n * n), DBL_MIN);
  for (int64_t k = 0; k < n; ++k) {
    const bool second = !s->is_complex && cimag(t[k * n + k]) < 0.0;
    for (int64_t i = 0; i < n && second; ++i) vectors[i * n + k] = conj(vectors[i * n + k - 1]);
    if (second) continue;
    solve_vector(t, n, k, left, tiny, x);
    double most = 0.0;
    number phase = 1.0;
    for (int64_t i = 0; i < n; ++i) {
      number sum = 0.0;
      for (int64_t j = 0; j < n; ++j) sum += z[i * n + j] * x[j];
      vectors[i * n + k] = sum;
      if (square(sum) > most) {
        most = square(sum);
        phase = conj(sum) / cabs(sum);
      }
    }
    const bool is_real = !s->is_complex && cimag(t[k * n + k]) == 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      number *const v = &vectors[i * n + k];
      *v *= phase;
      if (is_real) *v = creal(*v);
      squares += square(*v);
    }
    for (int64_t i = 0; i < n; ++i) vectors[i * n + k] /= sqrt(squares);
  }
}

/* Results: the eigenvalues (of real matrices their parts, one after the other), left and right
 * vectors, info. */
void trm_lapack_geev(const matrices *s, number *const *operands, number *const *results,
                     number *scratch) {
  const int64_t n = s->n;
  number *const t = scratch, *const z = t + n * n, *const more = z + n * n;
  memcpy(t, operands[0], (size_t)(n * n) * sizeof *t);
  const int64_t info = decompose(s, t, z, results, more);
  number *const *vectors = results + (s->is_complex ? 1 : 2);
  triangular(t, n, z, more);
  for (int side = 0; side < 2; ++side) {
    memset(vectors[side], 0, (size_t)(n * n) * sizeof *t);
    if ((side == 0 ? s->left_mode : s->mode) != 'V') continue;
    eigenvectors(s, t, z, side == 0, vectors[side], more);
  }
  *vectors[2] = (double)info;
}

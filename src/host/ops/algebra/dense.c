/* Owns: blocked linear algebra (dense.h). The file is compiled once for each instruction set, with
 * TRM_ISA as its name; dense_choice.c chooses one. */
#include "host/ops/algebra/dense.h"
#include "base/integers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/ops/threads.h"

/* The bytes of a register, because GCC splits wider vectors badly. Results do not depend on it. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

enum {
  ROWS = 6,      /* sums of a product in registers */
  DEPTH = 128,   /* products of a sum in registers */
  PANELS = 8,    /* vectors of b in a packed panel */
  BLOCK = 32,    /* columns of a factorisation's step */
  COLUMNS = 128, /* that a thread updates at a time */
  LANES = 32,    /* of a sum of products */
  SWEEPS = 64,   /* of rotations before they are applied */
  MAX_ROUNDS = 60,
};

/* Four operations cost as much as a byte (threads.h). */
static void run_chunks(int threads, int64_t operations, int64_t count, trm_range_fn function,
                       const void *context) {
  const int worth = threads <= 1 ? 1 : trm_threads_for((size_t)operations / 4);
  trm_parallel_ranges(worth < threads ? worth : threads, count, function, context);
}

static void *take(void **at, int64_t count, size_t size) {
  char *const here = *at;
  *at = here + (((size_t)count * size + 63) & ~(size_t)63);
  return here;
}

/* sqrt(x x + y y) */
static double length_of(double x, double y) {
  const double squares = x * x + y * y;
  return squares > 0x1p-900 && squares < 0x1p900 ? sqrt(squares) : hypot(x, y);
}

/* A power of 2 that scales a matrix so that squares neither overflow nor vanish. */
static double scale_for(double most) {
  int exponent;
  frexp(most, &exponent);
  return exponent > 20 || exponent < -20 ? ldexp(1.0, -exponent) : 1.0;
}

typedef struct ranked {
  double value;
  int64_t place;
} ranked;

/* NaN comes last; equal ones keep their order. */
static int compare_rising(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (isnan(a->value) != isnan(b->value)) return isnan(a->value) ? 1 : -1;
  if (a->value < b->value) return -1;
  if (a->value > b->value) return 1;
  return a->place < b->place ? -1 : 1;
}

/* Sets order[i] to the place of the value of rank i. `order` has room for n of `ranked`. */
static void sort_rising(const double *keys, int64_t n, int64_t *order) {
  ranked *const all = (ranked *)(void *)order;
  for (int64_t i = 0; i < n; ++i) all[i] = (ranked){keys[i], i};
  qsort(all, (size_t)n, sizeof *all, compare_rising);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t place = all[i].place;
    memcpy(&order[i], &place, sizeof place);
  }
}

#define CONCATENATE_(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_(a, b)

#include "host/ops/algebra/dense_bytes.inc.h"

#define T uint32_t
#define NAME(x) CONCATENATE(x, _u32)
#include "host/ops/algebra/dense_product.inc.h"
#undef T
#undef NAME
#define T uint64_t
#define NAME(x) CONCATENATE(x, _u64)
#include "host/ops/algebra/dense_product.inc.h"
#undef T
#undef NAME

#define T float
#define NAME(x) CONCATENATE(x, _f32)
#define EPSILON FLT_EPSILON
#define TINY_SQUARES 1e-30f
#define ROOT(x) sqrtf(x)
#define ABSOLUTE(x) fabsf(x)
#include "host/ops/algebra/dense_eigen.inc.h"
#undef T
#undef NAME
#undef EPSILON
#undef TINY_SQUARES
#undef ROOT
#undef ABSOLUTE

#define T double
#define NAME(x) CONCATENATE(x, _f64)
#define EPSILON DBL_EPSILON
#define TINY_SQUARES 1e-280
#define ROOT(x) sqrt(x)
#define ABSOLUTE(x) fabs(x)
#include "host/ops/algebra/dense_eigen.inc.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ROUTINES(type) \
  {run_cholesky_##type, run_solve_##type, run_qr_##type, run_q_##type, run_eigen_##type}

extern const trm_dense_ops CONCATENATE(trm_dense_ops_, TRM_ISA);
const trm_dense_ops CONCATENATE(trm_dense_ops_, TRM_ISA) = {
    .name = TEXT(TRM_ISA),
    .multiply = {multiply_f32, multiply_f64, multiply_u32, multiply_u64, multiply_bytes},
    .run = {ROUTINES(f32), ROUTINES(f64)},
};

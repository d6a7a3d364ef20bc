/* Convolutions by Winograd's transforms (host/ops/convolutions/winograd.h): they are near the exact
 * sums, do not depend on the threads or the width of vectors, and treat what is not finite as the
 * reference does.
 *
 * The bounds, of each result and of the root mean square error, are those of
 * docs/design/numerics.md. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <omp.h>
#include <pthread.h>
#include <cmocka.h>

#include "host/ops/convolutions/winograd_tiles.h"
#include "host/ops/transposes.h"
#include "linear_case.h"

#define FORWARD "winograd.convolution.forward"
#define DATA "winograd.convolution.backward_data"

/* window entries: {size, stride, low, high, window_dilation, base_dilation, reversal} */
#define W(low, high, rev) {0, 1, low, high, 1, 1, rev}
#define BOTH(...) {W(__VA_ARGS__), W(__VA_ARGS__)}

typedef struct expectation {
  const char *kernel;
  convolution_case convolution;
} expectation;

static const expectation cases[] = {
    {FORWARD, {"same", "b01f_01io->b01f", {2, 14, 16, 32}, {3, 3, 32, 32}, BOTH(1, 1, 0), 1, 1}},
    {FORWARD, {"odd", "b01f_01io->b01f", {2, 13, 15, 32}, {3, 3, 32, 48}, BOTH(1, 1, 0), 1, 1}},
    {FORWARD, {"valid", "b01f_01io->b01f", {3, 16, 19, 48}, {3, 3, 48, 32}, BOTH(0, 0, 0), 1, 1}},
    {FORWARD,
     {"uneven",
      "b01f_01io->b01f",
      {2, 13, 15, 32},
      {3, 3, 32, 80},
      {W(2, 0, 0), W(0, 3, 0)},
      1,
      1}},
    {FORWARD, {"wide", "b01f_01io->b01f", {2, 9, 8, 32}, {3, 3, 32, 32}, BOTH(4, 5, 0), 1, 1}},
    {FORWARD,
     {"one image", "b01f_01io->b01f", {1, 28, 29, 64}, {3, 3, 64, 32}, BOTH(1, 1, 0), 1, 1}},
    {FORWARD, {"deep", "b01f_01io->b01f", {6, 8, 8, 512}, {3, 3, 512, 64}, BOTH(1, 1, 0), 1, 1}},
    {FORWARD, {"[o][i]", "b01f_01oi->b01f", {2, 14, 16, 48}, {3, 3, 32, 48}, BOTH(1, 1, 0), 1, 1}},
    {FORWARD, {"oihw", "b01f_oi01->b01f", {2, 14, 16, 32}, {48, 32, 3, 3}, BOTH(1, 1, 0), 1, 1}},
    {FORWARD,
     {"one side reversed",
      "b01f_01io->b01f",
      {2, 14, 16, 32},
      {3, 3, 32, 32},
      {W(1, 1, 1), W(1, 1, 0)},
      1,
      1}},
    {DATA, {"d same", "b01f_01oi->b01f", {2, 13, 15, 48}, {3, 3, 32, 48}, BOTH(1, 1, 1), 1, 1}},
    {DATA, {"d valid", "b01f_01oi->b01f", {3, 12, 15, 32}, {3, 3, 48, 32}, BOTH(2, 2, 1), 1, 1}},
    {DATA,
     {"d uneven",
      "b01f_01oi->b01f",
      {3, 13, 15, 32},
      {3, 3, 32, 32},
      {W(0, 2, 1), W(2, 1, 1)},
      1,
      1}},
    {DATA, {"d oihw", "b01f_io01->b01f", {2, 13, 15, 32}, {32, 48, 3, 3}, BOTH(1, 1, 1), 1, 1}},
};

static void require_tiles(void) {
  if (trm_winograd_tiles_get() == NULL) skip(); /* this CPU computes directly */
}

static trm_kernel create_of(linear_case *c, const convolution_case *from, trm_dtype dtype) {
  linear_case_convolution(c, from, dtype);
  linear_case_fill(c, 1);
  c->module.half_products = TRM_HALF_PRODUCTS_FLOAT;
  const trm_kernel_request request = linear_case_request(c);
  trm_kernel kernel;
  trm_error error;
  bool supported = false;
  if (trm_convolution_create(&request, &kernel, &supported, &error) != TRM_OK) {
    fail_msg("%s: %s", from->name, error.message);
  }
  assert_true(supported);
  return kernel;
}

static trm_kernel create(linear_case *c, const convolution_case *from) {
  return create_of(c, from, TRM_F32);
}

static void run_once(const trm_kernel *kernel, linear_case *c, void *result) {
  linear_run run;
  linear_run_create(&run, kernel, c, result);
  assert_int_equal(kernel->run(kernel, &run.call, NULL), TRM_OK);
  linear_run_free(&run);
}

/* ---- Against exact sums ----------------------------------------------------------------------*/

/* The exact sum of a result, and its bound. */
typedef struct exact {
  double sum, bound;
} exact;

static double element(const linear_case *c, int which, const int64_t index[4]) {
  int64_t at = 0;
  for (int d = 0; d < 4; ++d) at = at * c->dims[which][d] + index[d];
  return ((const float *)c->data[which])[at];
}

/* x at a place that may be around the image. */
static double input(const linear_case *c, int64_t n, int64_t row, int64_t column, int64_t channel) {
  if (row < 0 || row >= c->dims[0][1] || column < 0 || column >= c->dims[0][2]) return 0;
  return element(c, 0, (const int64_t[4]){n, row, column, channel});
}

static double weight(const linear_case *c, int64_t row, int64_t column, int64_t in, int64_t out) {
  const trm_convolution *v = &c->convolution;
  const int64_t taps[2] = {c->window_dims[0].reversal ? 2 - row : row,
                           c->window_dims[1].reversal ? 2 - column : column};
  int64_t index[4];
  index[v->kernel_spatial[0]] = taps[0], index[v->kernel_spatial[1]] = taps[1];
  index[v->kernel_input_feature] = in, index[v->kernel_output_feature] = out;
  return element(c, 1, index);
}

static exact exact_result(const linear_case *c, int64_t n, int64_t row, int64_t column,
                          int64_t out) {
  exact e = {0, 0};
  const int64_t top = row - c->window_dims[0].padding_low;
  const int64_t left = column - c->window_dims[1].padding_low;
  const int64_t channels = c->dims[0][3];
  for (int64_t i = 0; i < channels; ++i) {
    double largest_x = 0, largest_w = 0;
    for (int64_t k = 0; k < 9; ++k) {
      const double w = weight(c, k / 3, k % 3, i, out);
      e.sum += w * input(c, n, top + k / 3, left + k % 3, i);
      largest_w = fmax(largest_w, fabs(w));
    }
    for (int64_t k = 0; k < 16; ++k) { /* of the tile */
      largest_x =
          fmax(largest_x, fabs(input(c, n, top - row % 2 + k / 4, left - column % 2 + k % 4, i)));
    }
    e.bound += largest_x * largest_w;
  }
  e.bound *= 64 * (double)(channels + 10) * 0x1p-24;
  return e;
}

/* Checks every seventh result, beginning with `first`: they have all places in tiles. So have those
 * that are further apart. */
static void check(const expectation *expected, const linear_case *c, int64_t first,
                  const char *what) {
  int64_t at = 0;
  const int64_t *y = c->dims[2];
  double squares = 0, typical = 0;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t q = 0; q < y[1] * y[2]; ++q) {
      for (int64_t o = 0; o < y[3]; ++o, ++at) {
        if (at % (IS_SANITIZED ? 91 : 7) != first) continue;
        const exact e = exact_result(c, n, q / y[2], q % y[2], o);
        const double error = ((const float *)c->data[2])[at] - e.sum;
        if (!(fabs(error) <= e.bound)) {
          fail_msg("%s, %s: result %lld is %.9g off", expected->convolution.name, what,
                   (long long)at, error);
        }
        squares += error * error, typical += e.sum * e.sum;
      }
    }
  }
  const double relative = sqrt(squares / typical), limit = 0x1p-24 * sqrt((double)c->dims[0][3]);
  if (!(relative < limit)) {
    fail_msg("%s, %s: the error is %.3g of the results", expected->convolution.name, what,
             relative);
  }
}

static void results_are_near_the_exact_sums(void **state) {
  (void)state;
  require_tiles();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    linear_case c;
    trm_kernel kernel = create(&c, &cases[i].convolution);
    assert_string_equal(kernel.name, cases[i].kernel);
    linear_run run;
    linear_run_create(&run, &kernel, &c, c.data[2]);
    static const char *const rounds[] = {"unknown weights", "new weights", "kept weights"};
    for (uint64_t round = 0; round < 3; ++round) {
      run.versions[1] = round == 0 ? 0 : 7;
      if (round == 1) linear_case_fill(&c, 2);
      memset(c.data[2], 0xff, trm_shape_bytes(&c.instructions[2].shape));
      assert_int_equal(kernel.run(&kernel, &run.call, NULL), TRM_OK);
      check(&cases[i], &c, (int64_t)round, rounds[round]);
    }
    linear_run_free(&run);
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
}

/* ---- Gradients of weights --------------------------------------------------------------------*/

static const convolution_case weight_cases[] = {
    {"w same", "f01b_i01o->01bf", {4, 14, 16, 32}, {4, 14, 16, 48}, BOTH(1, 1, 0), 1, 1},
    {"w odd", "f01b_i01o->01bf", {3, 13, 15, 48}, {3, 13, 15, 32}, BOTH(1, 1, 0), 1, 1},
    {"w valid", "f01b_i01o->01bf", {3, 16, 18, 32}, {3, 14, 16, 32}, BOTH(0, 0, 0), 1, 1},
    {"w uneven",
     "f01b_i01o->01bf",
     {3, 13, 15, 32},
     {3, 13, 15, 80},
     {W(2, 0, 0), W(0, 2, 0)},
     1,
     1},
    {"w blocks", "f01b_i01o->01bf", {2, 14, 16, 160}, {2, 14, 16, 208}, BOTH(1, 1, 0), 1, 1},
    {"w chunks", "f01b_i01o->01bf", {8, 28, 28, 32}, {8, 28, 28, 32}, BOTH(1, 1, 0), 1, 1},
};

static trm_weight_gradient transformed(linear_case *c, trm_weight_gradient *direct) {
  const trm_kernel_request request = linear_case_request(c);
  trm_convolution_problem p;
  trm_weight_gradient g;
  assert_true(trm_convolution_restate(&request, &p) && trm_weight_gradient_plan(&p, direct) &&
              trm_weight_gradient_transform(direct, &g));
  return g;
}

/* Element (row, column) of the gradient of channels `in` and `out`. */
static exact exact_gradient(const linear_case *c, int64_t row, int64_t column, int64_t in,
                            int64_t out) {
  exact e = {0, 0};
  const int64_t *y = c->dims[1];
  const int64_t tiles[2] = {(y[1] + 1) / 2, (y[2] + 1) / 2};
  for (int64_t t = 0; t < y[0] * tiles[0] * tiles[1]; ++t) {
    const int64_t n = t / (tiles[0] * tiles[1]);
    const int64_t top = t / tiles[1] % tiles[0] * 2, left = t % tiles[1] * 2;
    const int64_t x_top = top - c->window_dims[0].padding_low;
    const int64_t x_left = left - c->window_dims[1].padding_low;
    double largest_x = 0, largest_y = 0;
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t h = k / 2, v = k % 2;
      if (top + h >= y[1] || left + v >= y[2]) continue;
      const double dy = element(c, 1, (const int64_t[4]){n, top + h, left + v, out});
      e.sum += dy * input(c, n, x_top + h + row, x_left + v + column, in);
      largest_y = fmax(largest_y, fabs(dy));
    }
    for (int64_t k = 0; k < 16; ++k) {
      largest_x = fmax(largest_x, fabs(input(c, n, x_top + k / 4, x_left + k % 4, in)));
    }
    e.bound += largest_x * largest_y;
  }
  e.bound *= 36 * (double)(y[0] * tiles[0] * tiles[1] + 10) * 0x1p-24;
  return e;
}

static void gradients_are_near_the_exact_sums(void **state) {
  (void)state;
  require_tiles();
  for (size_t i = 0; i < sizeof weight_cases / sizeof *weight_cases; ++i) {
    linear_case c;
    trm_kernel kernel = create(&c, &weight_cases[i]);
    trm_weight_gradient direct;
    (void)transformed(&c, &direct);
    run_once(&kernel, &c, c.data[2]);
    const int64_t count = trm_shape_count(&c.instructions[2].shape);
    const int64_t in = c.dims[2][2], out = c.dims[2][3];
    double squares = 0, typical = 0;
    for (int64_t at = 0; at < count; at += IS_SANITIZED ? 209 : 19) {
      const int64_t k = at / (in * out);
      const exact e = exact_gradient(&c, k / 3, k % 3, at / out % in, at % out);
      const double error = ((const float *)c.data[2])[at] - e.sum;
      if (!(fabs(error) <= e.bound)) {
        fail_msg("%s: result %lld is %.9g off", weight_cases[i].name, (long long)at, error);
      }
      squares += error * error, typical += e.sum * e.sum;
    }
    const double relative = sqrt(squares / typical);
    if (!(relative < 8 * 0x1p-24)) { /* sums of 64 tiles */
      fail_msg("%s: the error is %.3g of the results", weight_cases[i].name, relative);
    }
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
}

/* ---- What is not finite -----------------------------------------------------------------------*/

typedef struct oddity {
  const char *what;
  int operand;
  int64_t at[2];
  float values[2];
  float weights;  /* a factor of all */
  bool is_finite; /* the result, everywhere */
} oddity;

/* Compares with the reference. */
static void check_oddity(const convolution_case *from, const oddity *odd) {
  linear_case c;
  trm_kernel kernel = create(&c, from);
  for (int k = 0; k < 2; ++k) ((float *)c.data[odd->operand])[odd->at[k]] = odd->values[k];
  for (int64_t k = 0; k < trm_shape_count(&c.instructions[1].shape); ++k) {
    ((float *)c.data[1])[k] *= odd->weights;
  }
  const trm_kernel_request request = linear_case_request(&c);
  trm_kernel reference;
  bool supported = false;
  assert_int_equal(trm_reference_convolution_create(&request, &reference, &supported, NULL), 0);
  const int64_t count = trm_shape_count(&c.instructions[2].shape);
  float *oracle = trm_allocate_aligned((size_t)count * sizeof *oracle);
  run_once(&reference, &c, oracle);
  run_once(&kernel, &c, c.data[2]);
  const double scale = isfinite(odd->values[0]) ? (double)odd->values[0] : 0;
  int64_t not_finite = 0;
  for (int64_t k = 0; k < count; ++k) {
    const float a = ((const float *)c.data[2])[k], b = oracle[k];
    if (!isfinite(b)) ++not_finite;
    const bool equal = isnan(b)       ? isnan(a)
                       : !isfinite(b) ? a == b
                                      : fabs((double)a - b) <= 1e-4 + 1e-6 * scale;
    if (!equal) {
      fail_msg("%s, %s: result %lld is %g instead of %g", from->name, odd->what, (long long)k,
               (double)a, (double)b);
    }
  }
  assert_true(odd->is_finite == (not_finite == 0));
  trm_free(oracle);
  trm_kernel_destroy(&reference);
  trm_kernel_destroy(&kernel);
  linear_case_free(&c);
}

/* A transform would spread these over a tile, or overflow. */
static void not_finite_values_reach_what_they_should(void **state) {
  (void)state;
  require_tiles();
  static const oddity oddities[] = {
      {"an infinity", 0, {5000, 5001}, {INFINITY, 1}, 1, false},
      {"two infinities", 0, {5000, 5032}, {INFINITY, -INFINITY}, 1, false},
      {"a NaN at the edge", 0, {0, 1}, {NAN, 1}, 1, false},
      {"an infinite weight", 1, {40, 41}, {-INFINITY, 1}, 1, false},
      {"an overflow of the transform", 0, {5024, 5056}, {3e38f, 3e38f}, 0.25f, true},
      {"an overflow of the result", 0, {5024, 5056}, {3e38f, 1}, 4, false},
  };
  for (size_t i = 0; i < sizeof oddities / sizeof *oddities; ++i) {
    check_oddity(&cases[0].convolution, &oddities[i]);
  }
  static const oddity of_gradients[] = {
      {"an infinity at a corner", 0, {0, 1}, {INFINITY, 1}, 1, false},
      {"a NaN at an edge", 0, {40, 41}, {NAN, 1}, 1, false},
      {"an infinity of y", 1, {4080, 4081}, {INFINITY, 1}, 1, false},
      {"an overflow of the transform", 0, {5024, 5056}, {3e38f, 3e38f}, 0.25f, true},
  };
  for (size_t i = 0; i < sizeof of_gradients / sizeof *of_gradients; ++i) {
    check_oddity(&weight_cases[0], &of_gradients[i]);
  }
}

/* ---- Halves and bfloat16s ---------------------------------------------------------------------*/

/* They are those of the floats, rounded once; with new weights, kept ones, and an infinity. */
static void check_halves(const expectation *expected, trm_dtype dtype) {
  linear_case halves, floats;
  trm_kernel kernel = create_of(&halves, &expected->convolution, dtype);
  trm_kernel of_floats = create(&floats, &expected->convolution);
  assert_string_equal(kernel.name, expected->kernel);
  linear_run run;
  linear_run_create(&run, &kernel, &halves, halves.data[2]);
  for (uint32_t round = 0; round < 4; ++round) {
    run.versions[1] = round == 0 ? 0 : 7;
    if (round < 2) linear_case_fill(&halves, 3 + round);
    if (round == 3) ((uint16_t *)halves.data[0])[500] = dtype == TRM_F16 ? 0x7c00 : 0x7f80;
    for (int which = 0; which < 2; ++which) {
      const int64_t count = trm_shape_count(&halves.instructions[which].shape);
      for (int64_t i = 0; i < count; ++i) {
        ((float *)floats.data[which])[i] = (float)linear_case_value(dtype, halves.data[which], i);
      }
    }
    memset(halves.data[2], 0xff, trm_shape_bytes(&halves.instructions[2].shape));
    assert_int_equal(kernel.run(&kernel, &run.call, NULL), TRM_OK);
    run_once(&of_floats, &floats, floats.data[2]);
    for (int64_t i = 0; i < trm_shape_count(&halves.instructions[2].shape); ++i) {
      const float sum = ((const float *)floats.data[2])[i];
      const uint16_t got = ((const uint16_t *)halves.data[2])[i];
      const uint16_t wanted =
          dtype == TRM_F16 ? trm_float_to_half(sum) : trm_float_to_bfloat16(sum);
      /* With an infinity both are computed directly, with sums in another order. */
      const double value = linear_case_value(dtype, halves.data[2], i);
      if (got != wanted &&
          !(round == 3 && (isnan(sum) ? isnan(value) : fabs(value - (double)sum) < 0.02))) {
        fail_msg("%s, %s, round %d: result %lld is %#x instead of %#x", expected->convolution.name,
                 trm_dtype_name(dtype), (int)round, (long long)i, got, wanted);
      }
    }
  }
  linear_run_free(&run);
  trm_kernel_destroy(&kernel);
  trm_kernel_destroy(&of_floats);
  linear_case_free(&halves);
  linear_case_free(&floats);
}

static void halves_are_rounded_once(void **state) {
  (void)state;
  require_tiles();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    check_halves(&cases[i], TRM_F16);
    check_halves(&cases[i], TRM_BF16);
  }
}

/* ---- The same bits ----------------------------------------------------------------------------*/

static void check_threads(const convolution_case *from) {
  static const int counts[] = {1, 2, 3, 5, 16};
  const int before = omp_get_max_threads();
  float *first = NULL;
  for (int t = 0; t < 5; ++t) {
    linear_case c;
    omp_set_num_threads(counts[t]);
    trm_kernel kernel = create(&c, from);
    const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
    if (t == 0) first = trm_allocate_aligned(bytes);
    run_once(&kernel, &c, t == 0 ? (void *)first : c.data[2]);
    if (t > 0 && memcmp(first, c.data[2], bytes) != 0) {
      fail_msg("%s: %d threads give other bits than one", from->name, counts[t]);
    }
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
  trm_free(first);
  omp_set_num_threads(before);
}

static void threads_do_not_change_results(void **state) {
  (void)state;
  require_tiles();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) check_threads(&cases[i].convolution);
  for (size_t i = 0; i < sizeof weight_cases / sizeof *weight_cases; ++i)
    check_threads(&weight_cases[i]);
}

/* Vectors of 16 on any CPU, in the form that AVX-512 has. */
#if defined(__x86_64__)
typedef float wide_vector __attribute__((vector_size(64)));
typedef float wide_anywhere __attribute__((vector_size(64), aligned(4), may_alias));

static const float zeros[TRM_WINOGRAD_MOST_CHANNELS];

#define NAME(name) name##_wide
#define TARGET __attribute__((target("avx2,fma"))) static
#define INLINE __attribute__((target("avx2,fma"), always_inline)) static inline
#define LANES 16
#define ROWS 12
#define UNIT 8
#define WIDE (2 * LANES)
#define PANELS 2
#define FLOATS wide_vector
#define LOAD(from) (*(const wide_anywhere *)(const void *)(from))
#define LOAD_ANYWHERE LOAD
#define STORE(to, v) (*(wide_anywhere *)(void *)(to) = (v))
#define STORE_ANYWHERE STORE
#define ZERO() ((wide_vector){0})
#define SET1(v) ((wide_vector){0} + (v))
#define MASK int /* not read: all tiles are whole */
#define MASK_OF(count) ((count) > 0)
#define LOAD_SOME(mask, from) ((void)(mask), LOAD(from))
#define STORE_SOME(to, mask, v) ((void)(mask), STORE(to, v))
#define ADD(a, b) ((a) + (b))
#define FMA(a, b, c)                                             \
  ({                                                             \
    const wide_vector fma_a = (a), fma_b = (b), fma_c = (c);     \
    wide_vector fma_sum = fma_c;                                 \
    for (int f = 0; f < 16; ++f) {                               \
      fma_sum[f] = __builtin_fmaf(fma_a[f], fma_b[f], fma_c[f]); \
    }                                                            \
    fma_sum;                                                     \
  })

#include "host/ops/products/register_tile.inc.h"

#include "host/ops/convolutions/winograd_tiles.inc.h"

#include "host/ops/convolutions/winograd_gradient.inc.h" /* uses the former */

static void wide_vectors_give_the_same_bits(void **state) {
  (void)state;
  require_tiles();
  static const int64_t chosen[] = {1, 3, 7, 8, 10};
  for (size_t i = 0; i < sizeof chosen / sizeof *chosen; ++i) {
    const expectation *each = &cases[chosen[i]];
    linear_case c;
    trm_kernel kernel = create(&c, &each->convolution);
    run_once(&kernel, &c, c.data[2]);
    const trm_kernel_request request = linear_case_request(&c);
    trm_convolution_problem p;
    trm_winograd w;
    assert_true(trm_convolution_restate(&request, &p) && trm_winograd_plan(&p, &w));
    const int64_t tiles = w.batch * trm_winograd_down(&w, 0) * trm_winograd_down(&w, 1);
    const int64_t panels = trm_divide_up(w.outputs, WIDE);
    const int64_t planes[3] = {panels * trm_winograd_filter_plane(&w, WIDE),
                               trm_winograd_tile_plane(tiles, ROWS, w.channels),
                               trm_winograd_tile_plane(tiles, ROWS, PANELS * WIDE)};
    float *buffers[3];
    for (int k = 0; k < 3; ++k) {
      buffers[k] = trm_allocate_aligned((size_t)(16 * planes[k]) * sizeof(float));
    }
    for (int64_t k = 0; k < panels * (w.channels / TRM_WINOGRAD_STRIP); ++k) {
      transform_filters_wide(&w, c.data[1], k % panels, k / panels, buffers[0]);
    }
    const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
    float *result = trm_allocate_aligned(bytes);
    const trm_winograd_task task = {&w,    c.data[0], buffers[0], result,     0,
                                    tiles, 0,         panels,     buffers[1], buffers[2]};
    assert_true(run_task_wide(&task));
    if (memcmp(result, c.data[2], bytes) != 0) fail_msg("%s: other bits", each->convolution.name);
    for (int k = 0; k < 3; ++k) trm_free(buffers[k]);
    trm_free(result);
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
}

static void wide_vectors_give_the_same_gradients(void **state) {
  (void)state;
  require_tiles();
  for (size_t i = 0; i < sizeof weight_cases / sizeof *weight_cases; ++i) {
    linear_case c;
    trm_kernel kernel = create(&c, &weight_cases[i]);
    run_once(&kernel, &c, c.data[2]);
    trm_weight_gradient direct;
    const trm_weight_gradient g = transformed(&c, &direct);
    const trm_gradient_block b = trm_winograd_gradient_block(&g, 0, UNIT, WIDE);
    const int64_t floats = 16 * (b.left_plane + b.right_plane + b.sum_plane);
    float *workspace = trm_allocate_aligned((size_t)floats * sizeof(float));
    const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
    const int64_t count = trm_gradient_count(&g);
    float *chunks = trm_allocate_aligned((size_t)(g.chunks * count) * sizeof(float));
    const trm_gradient_job job = {&g, c.data[0], c.data[1], chunks, chunks + count, NULL, NULL};
    const int64_t tasks = g.chunks * trm_divide_up(g.in_channels, g.in_block) *
                          trm_divide_up(g.out_channels, g.out_block);
    for (int64_t t = 0; t < tasks; ++t) assert_true(run_gradient_wide(&job, t, workspace));
    for (int64_t chunk = 1; chunk < g.chunks; ++chunk) {
      for (int64_t k = 0; k < count; ++k) chunks[k] += chunks[chunk * count + k];
    }
    if (memcmp(chunks, c.data[2], bytes) != 0) fail_msg("%s: other bits", weight_cases[i].name);
    trm_free(workspace);
    trm_free(chunks);
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
}
#endif

/* ---- Which convolutions -----------------------------------------------------------------------*/

/* A window with a stride and a dilation. */
#define FORM(stride, low, high, dilation) {0, stride, low, high, dilation, 1, 0}

static void others_are_direct(void **state) {
  (void)state;
  static const convolution_case others[] = {
      {"stride",
       "b01f_01io->b01f",
       {4, 28, 28, 32},
       {3, 3, 32, 32},
       {FORM(2, 1, 1, 1), FORM(2, 1, 1, 1)},
       1,
       1},
      {"one stride",
       "b01f_01io->b01f",
       {2, 14, 28, 32},
       {3, 3, 32, 32},
       {W(1, 1, 0), FORM(2, 1, 1, 1)},
       1,
       1},
      {"dilated",
       "b01f_01io->b01f",
       {2, 14, 16, 32},
       {3, 3, 32, 32},
       {FORM(1, 2, 2, 2), W(1, 1, 0)},
       1,
       1},
      {"5x3", "b01f_01io->b01f", {2, 14, 16, 32}, {5, 3, 32, 32}, BOTH(1, 1, 0), 1, 1},
      {"groups", "b01f_01io->b01f", {2, 14, 16, 64}, {3, 3, 32, 64}, BOTH(1, 1, 0), 2, 1},
      {"few channels", "b01f_01io->b01f", {2, 14, 16, 16}, {3, 3, 16, 32}, BOTH(1, 1, 0), 1, 1},
      {"odd channels", "b01f_01io->b01f", {2, 14, 16, 40}, {3, 3, 40, 40}, BOTH(1, 1, 0), 1, 1},
      {"few tiles", "b01f_01io->b01f", {1, 14, 16, 32}, {3, 3, 32, 32}, BOTH(1, 1, 0), 1, 1},
      {"3x3 results", "b01f_01io->b01f", {64, 3, 3, 32}, {3, 3, 32, 32}, BOTH(1, 1, 0), 1, 1},
      {"cropped", "b01f_01io->b01f", {2, 18, 18, 32}, {3, 3, 32, 32}, BOTH(-1, 1, 0), 1, 1},
      {"nchw", "bf01_01io->bf01", {2, 32, 14, 16}, {3, 3, 32, 32}, BOTH(1, 1, 0), 1, 1},
      {"1d", "b0f_0io->b0f", {4, 300, 32}, {3, 32, 32}, {W(1, 1, 0)}, 1, 1},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    linear_case c;
    trm_kernel kernel = create(&c, &others[i]);
    if (strstr(kernel.name, "winograd") != NULL) fail_msg("%s: %s", others[i].name, kernel.name);
    trm_kernel_destroy(&kernel);
    linear_case_free(&c);
  }
}

static void filters_are_kept_by_version(void **state) {
  (void)state;
  require_tiles();
  linear_case c;
  trm_kernel kernel = create(&c, &cases[0].convolution);
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  void *first = trm_allocate_aligned(bytes);
  linear_run run;
  linear_run_create(&run, &kernel, &c, first);
  run.versions[1] = 5;
  assert_int_equal(kernel.run(&kernel, &run.call, NULL), TRM_OK);
  memset(c.data[1], 0, trm_shape_bytes(&c.instructions[1].shape));
  run.results[0] = c.data[2];
  assert_int_equal(kernel.run(&kernel, &run.call, NULL), TRM_OK);
  assert_memory_equal(first, c.data[2], bytes); /* new weights of an old version are not seen */
  memset(first, 0, bytes);
  static const uint64_t versions[] = {6, 0, 6};
  for (int i = 0; i < 3; ++i) {
    run.versions[1] = versions[i];
    memset(c.data[2], 0xff, bytes);
    assert_int_equal(kernel.run(&kernel, &run.call, NULL), TRM_OK);
    assert_memory_equal(first, c.data[2], bytes);
  }
  linear_run_free(&run);
  trm_free(first);
  trm_kernel_destroy(&kernel);
  linear_case_free(&c);
}

/* A product that another instruction makes is transformed in each run, and kept nowhere. */
static void computed_filters_are_not_kept(void **state) {
  (void)state;
  require_tiles();
  linear_case c;
  trm_kernel kept = create(&c, &cases[0].convolution);
  run_once(&kept, &c, c.data[2]);
  c.instructions[1].opcode = TRM_OP_NEGATE;
  const trm_kernel_request request = linear_case_request(&c);
  trm_kernel kernel;
  bool supported = false;
  assert_int_equal(trm_convolution_create(&request, &kernel, &supported, NULL), TRM_OK);
  assert_true(supported);
  assert_string_equal(kernel.name, FORWARD);
  assert_int_equal(kernel.persistent_bytes, 0);
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  void *result = trm_allocate_aligned(bytes);
  run_once(&kernel, &c, result);
  assert_memory_equal(result, c.data[2], bytes);
  trm_free(result);
  trm_kernel_destroy(&kept);
  trm_kernel_destroy(&kernel);
  linear_case_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_near_the_exact_sums),
      cmocka_unit_test(gradients_are_near_the_exact_sums),
      cmocka_unit_test(not_finite_values_reach_what_they_should),
      cmocka_unit_test(halves_are_rounded_once),
      cmocka_unit_test(threads_do_not_change_results),
#if defined(__x86_64__)
      cmocka_unit_test(wide_vectors_give_the_same_bits),
      cmocka_unit_test(wide_vectors_give_the_same_gradients),
#endif
      cmocka_unit_test(others_are_direct),
      cmocka_unit_test(filters_are_kept_by_version),
      cmocka_unit_test(computed_filters_are_not_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

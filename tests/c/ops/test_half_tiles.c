/* Products of halves on tiles, in sizes that are cut into tasks, chunks and blocks: near the
 * reference, and the same bits for any number of threads. Without AMX oneDNN multiplies the pieces,
 * whose bits may depend on the threads.
 *
 * The bound is a part of the sum of the products' magnitudes: what is left out of each product, and
 * 8 roundings of floats (32 by oneDNN), which sums of up to 900 random products stay far below. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "host/ops/products/half_tiles.h"
#include "linear_case.h"

typedef struct tiles_case {
  bool is_dot;
  dot_case dot;
  convolution_case convolution;
} tiles_case;

#define DOT(...)                           \
  {                                        \
    .is_dot = true, .dot = { __VA_ARGS__ } \
  }
#define CONVOLUTION(...)           \
  {                                \
    .convolution = { __VA_ARGS__ } \
  }
#define W(stride, low, high, dilation, reversed) {1, stride, low, high, dilation, 1, reversed}
#define BOTH(...) {W(__VA_ARGS__), W(__VA_ARGS__)}

static const tiles_case cases[] = {
    DOT("three chunks", 2, 2, {70, 600}, {600, 100}, "", "", "1", "0"),
    DOT("many rows", 2, 2, {1100, 64}, {64, 40}, "", "", "1", "0"),
    DOT("many columns", 2, 2, {20, 300}, {300, 700}, "", "", "1", "0"),
    DOT("one tile of columns", 2, 2, {100, 290}, {290, 16}, "", "", "1", "0"),
    DOT("weights transposed", 2, 2, {50, 333}, {77, 333}, "", "", "1", "1"),
    DOT("rows transposed", 2, 2, {333, 50}, {333, 77}, "", "", "0", "0"),
    DOT("attention", 4, 4, {2, 33, 3, 64}, {2, 37, 3, 64}, "02", "02", "3", "3"),
    CONVOLUTION("1x1", "b01f_01io->b01f", {2, 9, 9, 320}, {1, 1, 320, 72}, BOTH(1, 0, 0, 1, 0)),
    CONVOLUTION("1x1/2", "b01f_01io->b01f", {2, 9, 9, 64}, {1, 1, 64, 48}, BOTH(2, 0, 0, 1, 0)),
    CONVOLUTION("3x3", "b01f_01io->b01f", {1, 13, 12, 96}, {3, 3, 96, 33}, BOTH(1, 1, 1, 1, 0)),
    CONVOLUTION("3x3/2", "b01f_01io->b01f", {1, 13, 12, 32}, {3, 3, 32, 64}, BOTH(2, 0, 1, 1, 0)),
    CONVOLUTION("dilated", "b01f_01io->b01f", {1, 11, 9, 32}, {3, 3, 32, 32}, BOTH(1, 2, 2, 2, 0)),
    CONVOLUTION("nchw", "bf01_oi01->b01f", {1, 32, 9, 8}, {40, 32, 3, 3}, BOTH(1, 1, 1, 1, 0)),
    CONVOLUTION("gradient", "b01f_01oi->b01f", {1, 9, 9, 48}, {3, 3, 32, 48}, BOTH(1, 1, 1, 1, 1)),
    CONVOLUTION("1d", "b0f_0io->b0f", {2, 40, 48}, {5, 48, 32}, {W(1, 2, 2, 1, 0)}),
    CONVOLUTION("groups", "b01f_01io->b01f", {1, 9, 9, 64}, {3, 3, 32, 96}, BOTH(1, 1, 1, 1, 0), 2),
};

static void make(const tiles_case *from, trm_half_products products, linear_case *c) {
  if (from->is_dot) linear_case_dot(c, &from->dot, TRM_F16, TRM_F16);
  else linear_case_convolution(c, &from->convolution, TRM_F16);
  c->module.half_products = products;
  linear_case_fill(c, 1);
}

/* Runs with so many threads; the result is malloc'ed. */
static void *run(linear_case *c, bool is_dot, trm_dtype result, bool reference, int threads) {
  c->instructions[2].shape.dtype = result;
  const size_t bytes = trm_shape_bytes(&c->instructions[2].shape);
  void *out = malloc(bytes);
  memset(out, 0xff, bytes);
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const trm_kernel_request request = linear_case_request(c);
  trm_kernel_create_fn create = trm_convolution_create;
  if (is_dot) create = reference ? trm_reference_dot_create : trm_dot_create;
  else if (reference) create = trm_reference_convolution_create;
  trm_kernel kernel;
  trm_error error;
  bool supported = false;
  assert_int_equal(create(&request, &kernel, &supported, &error), TRM_OK);
  assert_true(supported);
  linear_run own;
  linear_run_create(&own, &kernel, c, out);
  assert_int_equal(kernel.run(&kernel, &own.call, &error), TRM_OK);
  linear_run_free(&own);
  if (kernel.destroy != NULL) kernel.destroy(&kernel);
  omp_set_num_threads(before);
  return out;
}

static const char *name_of(const tiles_case *from) {
  return from->is_dot ? from->dot.name : from->convolution.name;
}

static const struct {
  trm_half_products products;
  double left_out;
} kinds[] = {{TRM_HALF_PRODUCTS_PIECES3, 0x1p-16},
             {TRM_HALF_PRODUCTS_PIECES4, 0},
             {TRM_HALF_PRODUCTS_BFLOAT16, 0x1p-7}};

/* The same with all numbers positive: the sums of the products' magnitudes. */
static float *magnitudes(linear_case *c, bool is_dot) {
  for (int side = 0; side < 2; ++side) {
    uint16_t *halves = c->data[side];
    const int64_t count = trm_shape_count(&c->instructions[side].shape);
    for (int64_t i = 0; i < count; ++i) halves[i] &= 0x7fff;
  }
  return run(c, is_dot, TRM_F32, true, 1);
}

static void results_are_within_the_bound(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const tiles_case *from = &cases[i];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
      linear_case c;
      make(from, kinds[k].products, &c);
      float *fast = run(&c, from->is_dot, TRM_F32, false, 1);
      uint16_t *rounded = run(&c, from->is_dot, TRM_F16, false, 1);
      float *slow = run(&c, from->is_dot, TRM_F32, true, 1);
      float *sizes = magnitudes(&c, from->is_dot);
      const double roundings = trm_half_tiles_serve() ? 8 : 32;
      const int64_t count = trm_shape_count(&c.instructions[2].shape);
      for (int64_t j = 0; j < count; ++j) {
        const double off = fabs((double)fast[j] - (double)slow[j]);
        if (!(off <= (kinds[k].left_out + roundings * 0x1p-24) * (double)sizes[j])) {
          fail_msg("%s, kind %d: element %lld is %.9g instead of %.9g", name_of(from), (int)k,
                   (long long)j, (double)fast[j], (double)slow[j]);
        }
        assert_int_equal(rounded[j], trm_float_to_half(fast[j]));
      }
      free(fast), free(rounded), free(slow), free(sizes);
      linear_case_free(&c);
    }
  }
}

static void threads_do_not_change_a_bit(void **state) {
  (void)state;
  if (!trm_half_tiles_serve()) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    linear_case c;
    make(&cases[i], TRM_HALF_PRODUCTS_PIECES3, &c);
    float *first = run(&c, cases[i].is_dot, TRM_F32, false, 1);
    for (int threads = 2; threads <= 5; ++threads) {
      float *other = run(&c, cases[i].is_dot, TRM_F32, false, threads);
      assert_memory_equal(first, other, trm_shape_bytes(&c.instructions[2].shape));
      free(other);
    }
    free(first);
    linear_case_free(&c);
  }
}

/* What is not finite in one row and one column makes these what floats make them, and nothing
 * else. */
static void infinities_and_nans_stay_where_they_are(void **state) {
  (void)state;
  static const tiles_case from = DOT("special", 2, 2, {70, 600}, {600, 100}, "", "", "1", "0");
  static const uint16_t special[] = {0x7c00, 0xfc00, 0x7e00, 0x7c01};
  for (int i = 0; i < 8; ++i) {
    linear_case c;
    make(&from, i % 2 ? TRM_HALF_PRODUCTS_PIECES4 : TRM_HALF_PRODUCTS_PIECES3, &c);
    uint16_t *lhs = c.data[0], *rhs = c.data[1];
    lhs[37 * 600 + 299] = special[i / 2];
    rhs[299 * 100] = rhs[299 * 100 + 1] = 0; /* infinity times zero */
    rhs[500 * 100 + 41] = special[3 - i / 2];
    lhs[5 * 600 + 500] = 0x3c00; /* its lower piece is zero */
    float *fast = run(&c, true, TRM_F32, false, 1), *slow = run(&c, true, TRM_F32, true, 1);
    for (int64_t j = 0; j < INT64_C(70) * 100; ++j) {
      if (isfinite(slow[j]) ? !(fabsf(fast[j] - slow[j]) < 0.01f)
          : isnan(slow[j])  ? !isnan(fast[j])
                            : fast[j] != slow[j]) {
        fail_msg("element %lld is %g instead of %g", (long long)j, (double)fast[j],
                 (double)slow[j]);
      }
    }
    free(fast), free(slow);
    linear_case_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_within_the_bound),
      cmocka_unit_test(threads_do_not_change_a_bit),
      cmocka_unit_test(infinities_and_nans_stay_where_they_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

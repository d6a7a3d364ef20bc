/* Convolutions through oneDNN: every form that TensorFlow 2.15 emits (from dumps of Conv1D, Conv2D,
 * Conv3D, DepthwiseConv2D, Conv2DTranspose and their gradients) takes the fast path and equals the
 * reference.
 *
 * The bound: two float32 sums of K products of values in [-1, 1), in different orders, differ by at
 * most 2 K eps sum |a b| <= 2 K^2 eps; the expected error grows with sqrt(K). The tests ask for
 * 4 sqrt(K) eps of K's root-mean-square sum, that is 4 K eps / 3, plus half a last place of the
 * result's type. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <omp.h>
#include <pthread.h>
#include <cmocka.h>

#include "host/ops/products/half_products.h"
#include "linear_case.h"

#define FORWARD ".convolution.forward"
#define DATA ".convolution.backward_data"
#define WEIGHTS ".convolution.backward_weights"

typedef struct expectation {
  const char *kernel;
  convolution_case convolution;
} expectation;

/* window entries: {size, stride, low, high, window_dilation, base_dilation, reversal} */
#define W(stride, low, high, rhs, lhs, rev) {0, stride, low, high, rhs, lhs, rev}
#define BOTH(...) {W(__VA_ARGS__), W(__VA_ARGS__)}

static const expectation cases[] = {
    {FORWARD, {"1x1", "b01f_01io->b01f", {2, 7, 7, 4}, {1, 1, 4, 8}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"3x3 same", "b01f_01io->b01f", {2, 7, 7, 4}, {3, 3, 4, 8}, BOTH(1, 1, 1, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"3x3 valid", "b01f_01io->b01f", {2, 8, 7, 16}, {3, 3, 16, 32}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"1x1 stride 2", "b01f_01io->b01f", {2, 8, 8, 4}, {1, 1, 4, 8}, BOTH(2, 0, 0, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"3x3 stride 2 even",
      "b01f_01io->b01f",
      {2, 8, 8, 4},
      {3, 3, 4, 8},
      BOTH(2, 0, 1, 1, 1, 0),
      1,
      1}},
    {FORWARD,
     {"3x3 stride 2 odd",
      "b01f_01io->b01f",
      {2, 7, 7, 4},
      {3, 3, 4, 8},
      BOTH(2, 1, 1, 1, 1, 0),
      1,
      1}},
    {FORWARD,
     {"7x7 explicit", "b01f_01io->b01f", {2, 8, 8, 3}, {7, 7, 3, 8}, BOTH(2, 3, 3, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"dilated", "b01f_01io->b01f", {2, 8, 8, 4}, {3, 3, 4, 8}, BOTH(1, 2, 2, 2, 1, 0), 1, 1}},
    {FORWARD,
     {"negative padding",
      "b01f_01io->b01f",
      {2, 9, 9, 4},
      {3, 3, 4, 8},
      BOTH(1, -1, -2, 1, 1, 0),
      1,
      1}},
    {FORWARD,
     {"wide padding", "b01f_01io->b01f", {2, 5, 5, 4}, {3, 3, 4, 8}, BOTH(1, 4, 5, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"kernel larger than the image",
      "b01f_01io->b01f",
      {2, 1, 2, 4},
      {3, 3, 4, 8},
      BOTH(1, 1, 1, 1, 1, 0),
      1,
      1}},
    {FORWARD,
     {"grouped", "b01f_01io->b01f", {2, 8, 8, 8}, {3, 3, 2, 16}, BOTH(1, 1, 1, 1, 1, 0), 4, 1}},
    {FORWARD,
     {"grouped stride 2",
      "b01f_01io->b01f",
      {2, 8, 8, 8},
      {3, 3, 2, 16},
      BOTH(2, 0, 1, 1, 1, 0),
      4,
      1}},
    {FORWARD,
     {"32 groups of 4",
      "b01f_01io->b01f",
      {1, 6, 6, 128},
      {3, 3, 4, 128},
      BOTH(1, 1, 1, 1, 1, 0),
      32,
      1}},
    {FORWARD,
     {"32 groups of 8",
      "b01f_01io->b01f",
      {1, 6, 6, 256},
      {3, 3, 8, 256},
      BOTH(1, 1, 1, 1, 1, 0),
      32,
      1}},
    {FORWARD,
     {"thin, wide",
      "b01f_01io->b01f",
      {2, 19, 30, 16},
      {3, 3, 4, 16},
      BOTH(1, 1, 1, 1, 1, 0),
      4,
      1}},
    {FORWARD,
     {"thin, valid",
      "b01f_01io->b01f",
      {1, 9, 16, 32},
      {3, 3, 8, 32},
      BOTH(1, 0, 0, 1, 1, 0),
      4,
      1}},
    {FORWARD,
     {"thin, stride 2",
      "b01f_01io->b01f",
      {3, 11, 46, 16},
      {3, 3, 4, 16},
      {W(2, 1, 1, 1, 1, 0), W(2, 0, 1, 1, 1, 0)},
      4,
      1}},
    {FORWARD,
     {"thin, stride 2, 8",
      "b01f_01io->b01f",
      {2, 12, 13, 16},
      {3, 3, 8, 16},
      BOTH(2, 1, 1, 1, 1, 0),
      2,
      1}},
    {FORWARD,
     {"thin, high kernel",
      "b01f_01io->b01f",
      {1, 12, 13, 16},
      {5, 3, 8, 16},
      BOTH(1, 2, 2, 1, 1, 0),
      2,
      1}},
    {FORWARD, {"thin, 1d", "b0f_0io->b0f", {2, 33, 16}, {3, 4, 16}, {W(1, 1, 1, 1, 1, 0)}, 4, 1}},
    {FORWARD,
     {"thin, nchw", "bf01_oi01->bf01", {2, 16, 5, 9}, {16, 4, 3, 3}, BOTH(1, 1, 1, 1, 1, 0), 4, 1}},
    {FORWARD,
     {"thin, cropped",
      "b01f_01io->b01f",
      {1, 9, 9, 16},
      {3, 3, 4, 16},
      BOTH(1, -1, -2, 1, 1, 0),
      4,
      1}},
    {FORWARD,
     {"3 groups of 5",
      "b01f_01io->b01f",
      {1, 6, 6, 15},
      {3, 3, 5, 21},
      BOTH(1, 1, 1, 1, 1, 0),
      3,
      1}},
    {FORWARD,
     {"depthwise", "b01f_01io->b01f", {2, 8, 8, 8}, {3, 3, 1, 8}, BOTH(1, 1, 1, 1, 1, 0), 8, 1}},
    {FORWARD,
     {"depthwise 2", "b01f_01io->b01f", {2, 8, 8, 8}, {3, 3, 1, 16}, BOTH(2, 0, 1, 1, 1, 0), 8, 1}},
    {FORWARD, {"1d", "b0f_0io->b0f", {2, 9, 4}, {3, 4, 8}, {W(2, 1, 1, 1, 1, 0)}, 1, 1}},
    {FORWARD,
     {"1d as 2d",
      "b01f_01io->b01f",
      {2, 1, 9, 4},
      {1, 3, 4, 8},
      {W(1, 0, 0, 1, 1, 0), W(2, 1, 1, 1, 1, 0)},
      1,
      1}},
    {FORWARD,
     {"3d",
      "b012f_012io->b012f",
      {2, 5, 6, 7, 4},
      {3, 3, 3, 4, 8},
      {W(2, 1, 1, 1, 1, 0), W(2, 0, 1, 1, 1, 0), W(2, 1, 1, 1, 1, 0)},
      1,
      1}},
    {FORWARD,
     {"nchw", "bf01_01io->bf01", {2, 4, 8, 8}, {3, 3, 4, 8}, BOTH(2, 0, 1, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"nchw oihw", "bf01_oi01->bf01", {2, 4, 8, 8}, {8, 4, 3, 3}, BOTH(1, 1, 1, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"odd labels", "1bf0_i1o0->f0b1", {6, 2, 4, 7}, {4, 3, 8, 3}, BOTH(1, 1, 1, 1, 1, 0), 1, 1}},
    {FORWARD,
     {"one side reversed",
      "b01f_01io->b01f",
      {2, 7, 7, 4},
      {3, 3, 4, 8},
      {W(1, 1, 1, 1, 1, 1), W(1, 1, 1, 1, 1, 0)},
      1,
      1}},

    {DATA,
     {"d 3x3 same", "b01f_01oi->b01f", {2, 7, 7, 8}, {3, 3, 4, 8}, BOTH(1, 1, 1, 1, 1, 1), 1, 1}},
    {DATA,
     {"d 3x3 valid", "b01f_01oi->b01f", {2, 5, 5, 8}, {3, 3, 4, 8}, BOTH(1, 2, 2, 1, 1, 1), 1, 1}},
    {DATA,
     {"d 1x1 stride 2 odd",
      "b01f_01oi->b01f",
      {2, 4, 4, 8},
      {1, 1, 4, 8},
      BOTH(1, 0, 0, 1, 2, 1),
      1,
      1}},
    {DATA,
     {"d 1x1 stride 2 even",
      "b01f_01oi->b01f",
      {2, 4, 4, 8},
      {1, 1, 4, 8},
      BOTH(1, 0, 1, 1, 2, 1),
      1,
      1}},
    {DATA,
     {"d 3x3 stride 2 odd",
      "b01f_01oi->b01f",
      {2, 4, 4, 8},
      {3, 3, 4, 8},
      BOTH(1, 1, 1, 1, 2, 1),
      1,
      1}},
    {DATA,
     {"d 3x3 stride 2 even",
      "b01f_01oi->b01f",
      {2, 4, 4, 8},
      {3, 3, 4, 8},
      BOTH(1, 2, 1, 1, 2, 1),
      1,
      1}},
    {DATA,
     {"d 3x3 stride 2 valid even",
      "b01f_01oi->b01f",
      {2, 3, 3, 8},
      {3, 3, 4, 8},
      BOTH(1, 2, 3, 1, 2, 1),
      1,
      1}},
    {DATA,
     {"d not reversed",
      "b01f_01oi->b01f",
      {2, 4, 4, 8},
      {3, 3, 4, 8},
      BOTH(1, 2, 1, 1, 2, 0),
      1,
      1}},
    {DATA,
     {"d wide padding",
      "b01f_01oi->b01f",
      {2, 4, 4, 8},
      {3, 3, 4, 8},
      BOTH(1, 4, 6, 1, 2, 1),
      1,
      1}},
    {DATA,
     {"d 7x7 explicit",
      "b01f_01oi->b01f",
      {2, 4, 4, 8},
      {7, 7, 3, 8},
      BOTH(1, 3, 4, 1, 2, 1),
      1,
      1}},
    {DATA,
     {"d dilated", "b01f_01oi->b01f", {2, 5, 5, 8}, {3, 3, 4, 8}, BOTH(1, 4, 4, 2, 1, 1), 1, 1}},
    {DATA,
     {"d grouped", "b01f_01oi->b01f", {2, 8, 8, 16}, {3, 3, 8, 4}, BOTH(1, 1, 1, 1, 1, 1), 4, 1}},
    {DATA,
     {"d grouped stride 2",
      "b01f_01oi->b01f",
      {2, 4, 4, 16},
      {3, 3, 8, 4},
      BOTH(1, 2, 1, 1, 2, 1),
      4,
      1}},
    {DATA,
     {"d 32 groups of 4",
      "b01f_01oi->b01f",
      {1, 6, 6, 128},
      {3, 3, 128, 4},
      BOTH(1, 1, 1, 1, 1, 1),
      32,
      1}},
    {DATA,
     {"d thin, valid",
      "b01f_01oi->b01f",
      {2, 7, 14, 32},
      {3, 3, 32, 8},
      BOTH(1, 2, 2, 1, 1, 1),
      4,
      1}},
    {DATA,
     {"d thin, uneven",
      "b01f_01oi->b01f",
      {1, 7, 5, 16},
      {3, 3, 16, 4},
      {W(1, 0, 2, 1, 1, 1), W(1, 2, 1, 1, 1, 1)},
      4,
      1}},
    {DATA,
     {"d thin, stride 2",
      "b01f_01oi->b01f",
      {1, 4, 4, 32},
      {3, 3, 32, 8},
      BOTH(1, 2, 1, 1, 2, 1),
      4,
      1}},
    {DATA,
     {"d depthwise", "b01f_01oi->b01f", {2, 8, 8, 8}, {3, 3, 8, 1}, BOTH(1, 1, 1, 1, 1, 1), 8, 1}},
    {DATA,
     {"d depthwise 2",
      "b01f_01oi->b01f",
      {2, 4, 4, 16},
      {3, 3, 8, 2},
      BOTH(1, 2, 1, 1, 2, 1),
      8,
      1}},
    {DATA,
     {"d 1d",
      "b01f_01oi->b01f",
      {2, 1, 5, 8},
      {1, 3, 4, 8},
      {W(1, 0, 0, 1, 1, 1), W(1, 1, 1, 1, 2, 1)},
      1,
      1}},
    {DATA,
     {"d 3d",
      "b012f_012oi->b012f",
      {2, 3, 3, 4, 8},
      {3, 3, 3, 4, 8},
      {W(1, 1, 1, 1, 2, 1), W(1, 2, 1, 1, 2, 1), W(1, 1, 1, 1, 2, 1)},
      1,
      1}},
    {DATA, {"d nchw", "bf01_01oi->bf01", {2, 8, 4, 4}, {3, 3, 4, 8}, BOTH(1, 2, 1, 1, 2, 1), 1, 1}},
    {FORWARD,
     {"d 1x1", "b01f_01oi->b01f", {2, 7, 7, 8}, {1, 1, 4, 8}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},

    {WEIGHTS,
     {"w 1x1", "f01b_i01o->01bf", {2, 7, 7, 4}, {2, 7, 7, 8}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"w 3x3 same", "f01b_i01o->01bf", {2, 7, 7, 4}, {2, 7, 7, 8}, BOTH(1, 1, 1, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"w 3x3 valid", "f01b_i01o->01bf", {2, 7, 7, 4}, {2, 5, 5, 8}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"w 1x1 stride 2 even",
      "f01b_i01o->01bf",
      {2, 8, 8, 4},
      {2, 4, 4, 8},
      BOTH(1, 0, -1, 2, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"w 3x3 stride 2 even",
      "f01b_i01o->01bf",
      {2, 8, 8, 4},
      {2, 4, 4, 8},
      BOTH(1, 0, 1, 2, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"w 3x3 stride 2 odd",
      "f01b_i01o->01bf",
      {2, 7, 7, 4},
      {2, 4, 4, 8},
      BOTH(1, 1, 1, 2, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"w 1x1 stride 3",
      "f01b_i01o->01bf",
      {2, 9, 9, 4},
      {2, 3, 3, 8},
      BOTH(1, 0, -2, 3, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"w 7x7 explicit",
      "f01b_i01o->01bf",
      {2, 8, 8, 3},
      {2, 4, 4, 8},
      BOTH(1, 3, 2, 2, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"w dilated", "f01b_i01o->01bf", {2, 8, 8, 4}, {2, 8, 8, 8}, BOTH(2, 2, 2, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"w grouped", "f01b_i01o->01bf", {2, 8, 8, 8}, {2, 8, 8, 16}, BOTH(1, 1, 1, 1, 1, 0), 1, 4}},
    {WEIGHTS,
     {"w grouped stride 2",
      "f01b_i01o->01bf",
      {2, 8, 8, 8},
      {2, 4, 4, 16},
      BOTH(1, 0, 1, 2, 1, 0),
      1,
      4}},
    {WEIGHTS,
     {"w 32 groups of 4",
      "f01b_i01o->01bf",
      {1, 6, 6, 128},
      {1, 6, 6, 128},
      BOTH(1, 1, 1, 1, 1, 0),
      1,
      32}},
    {WEIGHTS,
     {"w thin, 9 images",
      "f01b_i01o->01bf",
      {9, 8, 19, 16},
      {9, 8, 19, 16},
      BOTH(1, 1, 1, 1, 1, 0),
      1,
      4}},
    {WEIGHTS,
     {"w thin, valid",
      "f01b_i01o->01bf",
      {2, 8, 9, 32},
      {2, 6, 7, 32},
      BOTH(1, 0, 0, 1, 1, 0),
      1,
      4}},
    {WEIGHTS,
     {"w thin, stride 2",
      "f01b_i01o->01bf",
      {3, 12, 14, 16},
      {3, 6, 7, 16},
      BOTH(1, 0, 1, 2, 1, 0),
      1,
      2}},
    {WEIGHTS,
     {"w thin, stride 2 odd",
      "f01b_i01o->01bf",
      {1, 13, 13, 32},
      {1, 7, 7, 32},
      BOTH(1, 1, 1, 2, 1, 0),
      1,
      8}},
    {WEIGHTS,
     {"w depthwise", "f01b_i01o->01bf", {2, 8, 8, 8}, {2, 8, 8, 8}, BOTH(1, 1, 1, 1, 1, 0), 1, 8}},
    {WEIGHTS,
     {"w depthwise 2",
      "f01b_i01o->01bf",
      {2, 8, 8, 8},
      {2, 4, 4, 16},
      BOTH(1, 0, 1, 2, 1, 0),
      1,
      8}},
    {WEIGHTS,
     {"w 1d",
      "f01b_i01o->01bf",
      {2, 1, 9, 4},
      {2, 1, 5, 8},
      {W(1, 0, 0, 1, 1, 0), W(1, 1, 1, 2, 1, 0)},
      1,
      1}},
    {WEIGHTS,
     {"w 3d",
      "f012b_i012o->012bf",
      {2, 5, 6, 7, 4},
      {2, 3, 3, 4, 8},
      {W(1, 1, 1, 2, 1, 0), W(1, 0, 1, 2, 1, 0), W(1, 1, 1, 2, 1, 0)},
      1,
      1}},
    {WEIGHTS,
     {"w 3d, kernel larger than the image",
      "f012b_i012o->012bf",
      {6, 3, 4, 7, 2},
      {6, 3, 2, 4, 6},
      {W(1, 3, 3, 2, 1, 0), W(1, 1, 1, 1, 1, 0), W(1, 2, 0, 1, 1, 0)},
      1,
      1}},
    {WEIGHTS,
     {"w 3d, kernel as large as the image",
      "f012b_i012o->012bf",
      {1, 7, 4, 5, 5},
      {1, 4, 2, 5, 5},
      {W(1, 3, 3, 2, 1, 0), W(1, 0, 0, 1, 1, 0), W(1, 1, 1, 1, 1, 0)},
      1,
      1}},
    {WEIGHTS,
     {"w nchw", "fb01_io01->01bf", {2, 4, 8, 8}, {2, 8, 4, 4}, BOTH(1, 0, 1, 2, 1, 0), 1, 1}},
};

/* How halves are multiplied; what is left out is added to the bound (test_onednn_dot.c). */
static trm_half_products wanted = TRM_HALF_PRODUCTS_FLOAT;

static double tolerance(trm_dtype dtype, int64_t contracted, double value) {
  const double eps = dtype == TRM_F32 ? 0x1p-24 : dtype == TRM_F16 ? 0x1p-11 : 0x1p-8;
  const double left_out = wanted == TRM_HALF_PRODUCTS_PIECES3    ? (double)contracted * 0x1p-16
                          : wanted == TRM_HALF_PRODUCTS_BFLOAT16 ? sqrt((double)contracted) * 0x1p-7
                                                                 : 0;
  return 4.0 / 3 * (double)contracted * 0x1p-24 + 2 * eps * fabs(value) + left_out +
         (dtype == TRM_F16 ? 0x1p-24 : 0);
}

/* What the kernel's name says of it. */
static const char *suffix_of(trm_dtype dtype) {
  if (dtype == TRM_F32 || !trm_half_units_here().avx512) return "";
  return trm_half_products_suffix(
      dtype == TRM_BF16 && wanted != TRM_HALF_PRODUCTS_FLOAT ? TRM_HALF_PRODUCTS_BFLOAT16 : wanted);
}

/* Runs three times: versions unknown, then new weights, then the same (packed) weights. */
static void check(const expectation *expected, trm_dtype dtype) {
  linear_case c;
  linear_case_convolution(&c, &expected->convolution, dtype);
  c.module.half_products = wanted;
  linear_case_fill(&c, 1);
  const trm_kernel_request request = linear_case_request(&c);
  trm_kernel reference, fast;
  trm_error error;
  bool supported = false;
  assert_int_equal(trm_reference_convolution_create(&request, &reference, &supported, &error), 0);
  assert_true(supported);
  supported = false;
  const trm_status status = trm_convolution_create(&request, &fast, &supported, &error);
  if (status != TRM_OK) fail_msg("%s: %s", expected->convolution.name, error.message);
  if (!supported) fail_msg("%s: not taken by the fast path", expected->convolution.name);
  char name[64];
  (void)snprintf(name, sizeof name, "%s%s", expected->kernel, suffix_of(dtype));
  assert_string_equal(strchr(fast.name, '.'), name); /* test_ways.c has who computes it */

  const int64_t count = trm_shape_count(&c.instructions[2].shape);
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  void *oracle = trm_allocate_aligned(bytes);
  linear_run slow_run, run;
  linear_run_create(&slow_run, &reference, &c, oracle);
  linear_run_create(&run, &fast, &c, c.data[2]);
  for (uint64_t round = 0; round < 3; ++round) {
    run.versions[1] = round == 0 ? 0 : 7;
    if (round == 1) linear_case_fill(&c, 2);
    memset(c.data[2], 0xff, bytes);
    if (round < 2) assert_int_equal(reference.run(&reference, &slow_run.call, &error), TRM_OK);
    assert_int_equal(fast.run(&fast, &run.call, &error), TRM_OK);
    for (int64_t i = 0; i < count; ++i) {
      const double a = linear_case_value(dtype, c.data[2], i);
      const double b = linear_case_value(dtype, oracle, i);
      if (!(fabs(a - b) <= tolerance(dtype, c.contracted, b))) {
        fail_msg("%s (%s), round %d: element %lld is %.9g instead of %.9g",
                 expected->convolution.name, trm_dtype_name(dtype), (int)round, (long long)i, a, b);
      }
    }
  }
  linear_run_free(&slow_run);
  linear_run_free(&run);
  trm_free(oracle);
  if (reference.destroy != NULL) reference.destroy(&reference);
  fast.destroy(&fast);
  linear_case_free(&c);
}

static void check_all(trm_dtype dtype) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) check(&cases[i], dtype);
}

static void float32_equals_the_reference(void **state) {
  (void)state;
  check_all(TRM_F32);
}

static void halves_round_once(void **state) {
  (void)state;
  check_all(TRM_F16);
}

static void bfloat16_rounds_once(void **state) {
  (void)state;
  check_all(TRM_BF16);
  wanted = TRM_HALF_PRODUCTS_BFLOAT16;
  check_all(TRM_BF16);
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

static void halves_are_multiplied_in_pieces(void **state) {
  (void)state;
  static const trm_half_products all[] = {TRM_HALF_PRODUCTS_PIECES3, TRM_HALF_PRODUCTS_PIECES4,
                                          TRM_HALF_PRODUCTS_BFLOAT16};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    wanted = all[i];
    check_all(TRM_F16);
  }
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

/* The packed weights are reused: with an unchanged version new weights must not be seen. */
static void packed_weights_are_kept(void **state) {
  (void)state;
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) skip(); /* oneDNN takes weights as they are there */
#endif
  linear_case c;
  linear_case_convolution(&c, &cases[1].convolution, TRM_F32);
  linear_case_fill(&c, 1);
  const trm_kernel_request request = linear_case_request(&c);
  trm_kernel fast;
  bool supported = false;
  assert_int_equal(trm_convolution_create(&request, &fast, &supported, NULL), TRM_OK);
  assert_true(supported);
  assert_true(fast.persistent_bytes > 0);
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  void *first = trm_allocate_aligned(bytes);
  linear_run run;
  linear_run_create(&run, &fast, &c, first);
  run.versions[1] = 5;
  assert_int_equal(fast.run(&fast, &run.call, NULL), TRM_OK);
  memset(c.data[1], 0, trm_shape_bytes(&c.instructions[1].shape));
  run.results[0] = c.data[2];
  assert_int_equal(fast.run(&fast, &run.call, NULL), TRM_OK);
  assert_memory_equal(first, c.data[2], bytes);
  run.versions[1] = 6;
  assert_int_equal(fast.run(&fast, &run.call, NULL), TRM_OK);
  memset(first, 0, bytes);
  assert_memory_equal(first, c.data[2], bytes);
  linear_run_free(&run);
  trm_free(first);
  fast.destroy(&fast);
  linear_case_free(&c);
}

/* One kernel, run by two engines at once. */
typedef struct engine_thread {
  const trm_kernel *kernel;
  linear_case *c;
  const void *expected;
  bool failed;
} engine_thread;

static void *run_engine(void *argument) {
  engine_thread *own = argument;
  const size_t bytes = trm_shape_bytes(&own->c->instructions[2].shape);
  void *result = trm_allocate_aligned(bytes);
  linear_run run;
  linear_run_create(&run, own->kernel, own->c, result);
  omp_set_num_threads(1);
  for (uint64_t i = 0; i < 100; ++i) {
    run.versions[1] = 1 + i / 10;
    memset(result, 0xff, bytes);
    if (own->kernel->run(own->kernel, &run.call, NULL) != TRM_OK ||
        memcmp(result, own->expected, bytes) != 0) {
      own->failed = true;
    }
  }
  linear_run_free(&run);
  trm_free(result);
  return NULL;
}

static void two_engines_may_share_a_kernel(void **state) {
  (void)state;
  linear_case c;
  linear_case_convolution(&c, &cases[2].convolution, TRM_F16);
  linear_case_fill(&c, 3);
  const trm_kernel_request request = linear_case_request(&c);
  trm_kernel fast;
  bool supported = false;
  assert_int_equal(trm_convolution_create(&request, &fast, &supported, NULL), TRM_OK);
  assert_true(supported);
  linear_run run;
  linear_run_create(&run, &fast, &c, c.data[2]);
  assert_int_equal(fast.run(&fast, &run.call, NULL), TRM_OK);
  engine_thread engines[2] = {{&fast, &c, c.data[2], false}, {&fast, &c, c.data[2], false}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(pthread_create(&threads[i], NULL, run_engine, &engines[i]), 0);
  }
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(engines[i].failed);
  }
  linear_run_free(&run);
  fast.destroy(&fast);
  linear_case_free(&c);
}

static void check_threads(const convolution_case *shape, trm_dtype dtype) {
  static const int counts[] = {1, 2, 3, 5, 16};
  enum { COUNTS = sizeof counts / sizeof *counts };
  const int before = omp_get_max_threads();
  linear_case c;
  linear_case_convolution(&c, shape, dtype);
  c.module.half_products = wanted;
  linear_case_fill(&c, 4);
  const size_t bytes = trm_shape_bytes(&c.instructions[2].shape);
  void *results[COUNTS];
  for (int t = 0; t < COUNTS; ++t) {
    results[t] = trm_allocate_aligned(bytes);
    omp_set_num_threads(counts[t]);
    const trm_kernel_request request = linear_case_request(&c);
    trm_kernel fast;
    bool supported = false;
    assert_int_equal(trm_convolution_create(&request, &fast, &supported, NULL), TRM_OK);
    assert_true(supported);
    linear_run run;
    linear_run_create(&run, &fast, &c, results[t]);
    assert_int_equal(fast.run(&fast, &run.call, NULL), TRM_OK);
    assert_int_equal(omp_get_max_threads(), counts[t]); /* the caller's bound is restored */
    linear_run_free(&run);
    fast.destroy(&fast);
    if (memcmp(results[0], results[t], bytes) != 0) {
      fail_msg("%s of %s: %d threads give other bits than one", shape->name, trm_dtype_name(dtype),
               counts[t]);
    }
  }
  for (int t = 0; t < COUNTS; ++t) trm_free(results[t]);
  linear_case_free(&c);
  omp_set_num_threads(before);
}

static void threads_do_not_change_thin_groups(void **state) {
  (void)state;
  static const convolution_case shapes[] = {
      {"forward", "b01f_01io->b01f", {4, 40, 40, 64}, {3, 3, 4, 64}, BOTH(1, 1, 1, 1, 1, 0), 16, 1},
      {"data", "b01f_01oi->b01f", {4, 40, 40, 64}, {3, 3, 64, 4}, BOTH(1, 1, 1, 1, 1, 1), 16, 1},
      {"weights",
       "f01b_i01o->01bf",
       {4, 40, 40, 64},
       {4, 40, 40, 64},
       BOTH(1, 1, 1, 1, 1, 0),
       1,
       16},
  };
  if (!__builtin_cpu_supports("avx2")) skip();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) check_threads(&shapes[i], TRM_F32);
}

/* Gradients of weights that oneDNN would sum by threads: parts by images, by channels of y, of x,
 * by both; and one part. */
static const expectation gradients[] = {
    {WEIGHTS,
     {"images", "f01b_i01o->01bf", {4, 32, 32, 16}, {4, 32, 32, 16}, BOTH(1, 1, 1, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"of y", "f01b_i01o->01bf", {4, 8, 8, 256}, {4, 8, 8, 128}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"of x", "f01b_i01o->01bf", {4, 8, 8, 128}, {4, 8, 8, 256}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"3x3, of y",
      "f01b_i01o->fb01",
      {2, 9, 9, 256},
      {2, 9, 9, 128},
      BOTH(1, 1, 1, 1, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"both", "f01b_i01o->01bf", {4, 28, 28, 128}, {4, 28, 28, 128}, BOTH(1, 0, 0, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"one", "f01b_i01o->01bf", {4, 12, 12, 16}, {4, 12, 12, 16}, BOTH(1, 1, 1, 1, 1, 0), 1, 1}},
    {WEIGHTS,
     {"groups", "f01b_i01o->01bf", {4, 32, 32, 32}, {4, 32, 32, 32}, BOTH(1, 1, 1, 1, 1, 0), 1, 2}},
    {WEIGHTS,
     {"several images at a time, odd channels",
      "f01b_i01o->01bf",
      {9, 7, 7, 83},
      {9, 7, 7, 37},
      BOTH(1, 1, 1, 1, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"strides and odd rows",
      "f01b_i01o->01bf",
      {3, 31, 46, 40},
      {3, 16, 23, 72},
      {W(1, 1, 1, 2, 1, 0), W(1, 0, 1, 2, 1, 0)},
      1,
      1}},
    {WEIGHTS,
     {"one element, strides",
      "f01b_i01o->01bf",
      {4, 28, 28, 72},
      {4, 14, 14, 80},
      BOTH(1, 0, -1, 2, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"one element, padding",
      "f01b_i01o->01bf",
      {4, 20, 20, 48},
      {4, 12, 12, 80},
      BOTH(1, 2, 1, 2, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"dilated",
      "f01b_i01o->01bf",
      {2, 20, 20, 20},
      {2, 20, 20, 33},
      BOTH(2, 2, 2, 1, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"wide padding",
      "f01b_i01o->01bf",
      {2, 6, 6, 64},
      {2, 12, 12, 64},
      BOTH(1, 4, 4, 1, 1, 0),
      1,
      1}},
    {WEIGHTS,
     {"one row",
      "f01b_i01o->01bf",
      {2, 1, 900, 32},
      {2, 1, 450, 48},
      {W(1, 0, 0, 1, 1, 0), W(1, 2, 2, 2, 1, 0)},
      1,
      1}},
    {WEIGHTS,
     {"one dimension", "f0b_i0o->0bf", {2, 700, 32}, {2, 700, 48}, {W(1, 1, 1, 1, 1, 0)}, 1, 1}},
};

/* Halves take the same ways through parts as floats do: some cases show it. */
static const struct {
  trm_dtype dtype;
  trm_half_products products;
  size_t cases;
} gradient_types[] = {{TRM_F32, TRM_HALF_PRODUCTS_FLOAT, sizeof gradients / sizeof *gradients},
                      {TRM_BF16, TRM_HALF_PRODUCTS_BFLOAT16, 3},
                      {TRM_F16, TRM_HALF_PRODUCTS_PIECES3, 3}};

static void threads_do_not_change_gradients(void **state) {
  (void)state;
  for (size_t t = 0; t < sizeof gradient_types / sizeof *gradient_types; ++t) {
    wanted = gradient_types[t].products;
    for (size_t i = 0; i < gradient_types[t].cases; ++i) {
      check_threads(&gradients[i].convolution, gradient_types[t].dtype);
    }
  }
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

/* Long sums, which oneDNN may order in another way if it rounds them to bfloat16. */
static void threads_do_not_change_bfloat16s(void **state) {
  (void)state;
  static const convolution_case shapes[] = {
      {"3x3", "b01f_01io->b01f", {2, 14, 14, 256}, {3, 3, 256, 256}, BOTH(1, 1, 1, 1, 1, 0), 1, 1},
      {"1x1", "b01f_01io->b01f", {2, 7, 7, 2048}, {1, 1, 2048, 512}, BOTH(1, 0, 0, 1, 1, 0), 1, 1},
      {"data", "b01f_01oi->b01f", {2, 14, 14, 256}, {3, 3, 256, 256}, BOTH(1, 1, 1, 1, 1, 1), 1, 1},
  };
  wanted = TRM_HALF_PRODUCTS_BFLOAT16;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) check_threads(&shapes[i], TRM_BF16);
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

/* A sanitizer has seen all of them in threads_do_not_change_gradients. */
static void gradients_in_parts_equal_the_reference(void **state) {
  (void)state;
  for (size_t t = 0; t < sizeof gradient_types / sizeof *gradient_types; ++t) {
    wanted = gradient_types[t].products;
    for (size_t i = 0; i < (IS_SANITIZED ? 1 : gradient_types[t].cases); ++i) {
      check(&gradients[i], gradient_types[t].dtype);
    }
  }
  wanted = TRM_HALF_PRODUCTS_FLOAT;
}

static void what_it_cannot_do_is_left_to_the_reference(void **state) {
  (void)state;
  static const convolution_case refused[] = {
      {"both dilated and strided",
       "b01f_01io->b01f",
       {1, 5, 5, 2},
       {3, 3, 2, 2},
       BOTH(2, 2, 2, 1, 2, 0),
       1,
       1},
      {"spread and batch groups",
       "f01b_i01o->01bf",
       {2, 5, 5, 4},
       {2, 3, 3, 4},
       BOTH(1, 2, 2, 1, 2, 0),
       1,
       2},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    linear_case c;
    linear_case_convolution(&c, &refused[i], TRM_F32);
    const trm_kernel_request request = linear_case_request(&c);
    trm_kernel fast;
    bool supported = true;
    assert_int_equal(trm_convolution_create(&request, &fast, &supported, NULL), TRM_OK);
    assert_false(supported);
    linear_case_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(float32_equals_the_reference),
      cmocka_unit_test(halves_round_once),
      cmocka_unit_test(bfloat16_rounds_once),
      cmocka_unit_test(halves_are_multiplied_in_pieces),
      cmocka_unit_test(packed_weights_are_kept),
      cmocka_unit_test(two_engines_may_share_a_kernel),
      cmocka_unit_test(threads_do_not_change_thin_groups),
      cmocka_unit_test(threads_do_not_change_gradients),
      cmocka_unit_test(threads_do_not_change_bfloat16s),
      cmocka_unit_test(gradients_in_parts_equal_the_reference),
      cmocka_unit_test(what_it_cannot_do_is_left_to_the_reference),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

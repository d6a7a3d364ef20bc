/* Normalisations and their gradients read fewer arrays: the passes lean-norms and fuse. */
#include <math.h>

#include "../run.h"

enum { ROWS = 6, COLUMNS = 5, COUNT = ROWS * COLUMNS };

/* How often `what` stands in the compiled program. */
static int count(const char *text, const char *what) {
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  const int found = test_occurrences(printed, what);
  trm_free(printed);
  trm_executable_free(executable);
  return found;
}

static void expect_same(const char *text, size_t num_outputs) {
  static float x[COUNT], c[COLUMNS] = {2, -3, 4, 5, 0};
  for (int i = 0; i < COUNT; ++i) x[i] = (float)(i * 7 % 11 - 5);
  x[3] = NAN, x[4] = INFINITY, x[8] = -0.0f, x[9] = -INFINITY;
  const void *inputs[2] = {x, c};
  const size_t bytes[2] = {sizeof x, sizeof x};
  test_expect_same_bits(text, inputs, num_outputs, bytes);
}

#define HEAD                                                                              \
  "HloModule m\n"                                                                         \
  "sum { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }\n"    \
  "most { p = f32[] parameter(0)  q = f32[] parameter(1)\n"                               \
  "  ROOT r = f32[] maximum(p, q) }\n"                                                    \
  "ENTRY e { x = f32[6,5] parameter(0)  c = f32[5] parameter(1)  z = f32[] constant(0)\n" \
  "  zeros = f32[6,5] broadcast(z), dimensions={}\n"

/* A ReLU's gradient reads the ReLU's result: its operand is inside a fusion. */
static void a_gradient_reads_the_relu(void **state) {
  (void)state;
  static const char text[] =
      HEAD "  w = f32[6,5] broadcast(c), dimensions={1}  y = f32[6,5] multiply(x, w)\n"
           "  relu = f32[6,5] maximum(y, zeros)\n"
           "  turned = f32[5,6] transpose(relu), dimensions={1,0}\n"
           "  back = f32[6,5] transpose(turned), dimensions={1,0}\n"
           "  m = f32[6] reduce(back, z), dimensions={1}, to_apply=most\n"
           "  g = f32[6,5] broadcast(m), dimensions={0}\n"
           "  above = pred[6,5] compare(y, zeros), direction=GT\n"
           "  d = f32[6,5] select(above, g, zeros)\n"
           "  ROOT t = (f32[6,5], f32[6,5]) tuple(relu, d) }\n";
  expect_same(text, 2);
  assert_int_equal(count(text, "compare(f32[6,5]{1,0} %maximum"), 0);
  assert_int_equal(count(text, "= (f32[6,5]{1,0}, f32[6,5]{1,0}) fusion"), 0);
}

/* max(x, 0) > 0 is x > 0 only for zero and GT. */
static void other_comparisons_stay(void **state) {
  (void)state;
  static const char *const lines[] = {
      "  relu = f32[6,5] maximum(x, zeros)\n"
      "  above = pred[6,5] compare(x, zeros), direction=GE\n",
      "  one = f32[] constant(1)  ones = f32[6,5] broadcast(one), dimensions={}\n"
      "  relu = f32[6,5] maximum(x, ones)\n"
      "  above = pred[6,5] compare(x, zeros), direction=GT\n",
      "  relu = f32[6,5] maximum(x, zeros)\n"
      "  above = pred[6,5] compare(zeros, x), direction=GT\n",
  };
  for (int i = 0; i < 3; ++i) {
    char text[4096];
    snprintf(text, sizeof text, "%s%s%s", HEAD, lines[i],
             "  d = f32[6,5] select(above, x, relu)\n"
             "  ROOT t = (f32[6,5], f32[6,5]) tuple(relu, d) }\n");
    expect_same(text, 2);
  }
}

/* JAX's mean and variance: both means become one, and x - mean is in no array. */
static void a_mean_is_computed_once(void **state) {
  (void)state;
  static const char text[] = HEAD
      "  n = f32[] constant(6)  n1 = f32[1,5] broadcast(n), dimensions={}\n"
      "  n0 = f32[5] broadcast(n), dimensions={}\n"
      "  y = f32[6,5] cosine(x)  k = f32[6,5] reverse(y), dimensions={0}\n"
      "  s = f32[5] reduce(k, z), dimensions={0}, to_apply=sum\n"
      "  mean = f32[5] divide(s, n0)  wide = f32[6,5] broadcast(mean), dimensions={1}\n"
      "  s1 = f32[1,5] reshape(s)  mean1 = f32[1,5] divide(s1, n1)  mean2 = f32[5] reshape(mean1)\n"
      "  wide2 = f32[6,5] broadcast(mean2), dimensions={1}\n"
      "  off = f32[6,5] subtract(k, wide2)  square = f32[6,5] multiply(off, off)\n"
      "  v = f32[5] reduce(square, z), dimensions={0}, to_apply=sum\n"
      "  v6 = f32[6,5] broadcast(v), dimensions={1}\n"
      "  centred = f32[6,5] subtract(k, wide)  normed = f32[6,5] multiply(centred, v6)\n"
      "  ROOT t = (f32[6,5], f32[6,5]) tuple(normed, k) }\n";
  expect_same(text, 2);
  assert_int_equal(count(text, " divide("), 1);
  assert_int_equal(count(text, "f32[6,5]{1,0}) fusion("), 0);
}

/* A chain over one array is computed in each fusion, as many instructions as are allowed, and more.
 */
static void chains_are_computed_again(void **state) {
  (void)state;
  char text[8192];
  for (int length = 1; length < 8; ++length) {
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "%s  w = f32[6,5] broadcast(c), dimensions={1}\n"
                                 "  a0 = f32[6,5] reverse(x), dimensions={0}\n",
                                 HEAD);
    for (int i = 0; i < length; ++i) {
      at += (size_t)snprintf(text + at, sizeof text - at, "  a%d = f32[6,5] %s(a%d, w)\n", i + 1,
                             i % 2 == 0 ? "subtract" : "multiply", i);
    }
    snprintf(text + at, sizeof text - at,
             "  b = f32[6,5] maximum(a%d, zeros)\n"
             "  m = f32[5] reduce(b, z), dimensions={0}, to_apply=most\n"
             "  wide = f32[6,5] broadcast(m), dimensions={1}\n"
             "  d = f32[6,5] multiply(a%d, wide)\n"
             "  ROOT t = (f32[6,5], f32[6,5]) tuple(b, d) }\n",
             length, length);
    expect_same(text, 2);
    assert_int_equal(count(text, "f32[6,5]{1,0}) fusion("), length > 4 ? 1 : 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gradient_reads_the_relu), cmocka_unit_test(other_comparisons_stay),
      cmocka_unit_test(a_mean_is_computed_once), cmocka_unit_test(chains_are_computed_again)};
  return cmocka_run_group_tests_name("norms", tests, NULL, NULL);
}

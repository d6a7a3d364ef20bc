/* Sums of multiples of an array become multiples of the array's sum (the pass share-sums), and
 * other reductions stay. The numbers are integers: every order of additions gives the same. */
#include "../run.h"

enum { ROWS = 3, COLUMNS = 4 };

/* `lines` make y, of which a reduction is `b`; `a` is the sum of x. The entry keeps so many
 * reductions, and all modes give the same numbers. */
static void expect(const char *lines, const char *b, int reductions) {
  char text[4096];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "sum { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }\n"
           "sum2 { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(q, p) }\n"
           "max { p = f32[] parameter(0)  q = f32[] parameter(1)\n"
           "  ROOT r = f32[] maximum(p, q) }\n"
           "twice { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, p) }\n"
           "ENTRY e { x = f32[3,4] parameter(0)  c = f32[4] parameter(1)  d = f32[3] parameter(2)\n"
           "  z = f32[] constant(0)  one = f32[] constant(1)\n"
           "  a = f32[4] reduce(x, z), dimensions={0}, to_apply=sum\n%s"
           "  b = %s\n  ROOT t = (f32[4], f32[4]) tuple(a, b) }\n",
           lines, b);
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  if (test_occurrences(printed, " reduce(") != reductions) {
    fail_msg("not %d reductions:\n%s", reductions, printed);
  }
  trm_free(printed);
  static const float x[ROWS * COLUMNS] = {1, -3, 3, 5, 7, 4, -7, 2, 7, 2, 1, -10};
  static const float c[COLUMNS] = {2, -3, 4, 5}, d[ROWS] = {3, 1, -2};
  const void *inputs[3] = {x, c, d};
  const size_t bytes[2] = {COLUMNS * sizeof(float), COLUMNS * sizeof(float)};
  test_expect_same_bits(text, inputs, 2, bytes);
}

#define BROADCAST "  w = f32[3,4] broadcast(c), dimensions={1}\n"
#define SUM "f32[4] reduce(y, z), dimensions={0}, to_apply=sum"

static void sums_are_shared(void **state) {
  (void)state;
  expect("  y = f32[3,4] negate(x)\n", SUM, 1);
  expect(BROADCAST "  y = f32[3,4] multiply(x, w)\n", SUM, 1);
  expect(BROADCAST "  v = f32[3,4] multiply(w, x)  y = f32[3,4] negate(v)\n",
         "f32[4] reduce(y, z), dimensions={0}, to_apply=sum2", 1);
  expect("  f = f32[] constant(3)  w = f32[3,4] broadcast(f), dimensions={}\n"
         "  y = f32[3,4] multiply(x, w)\n",
         SUM, 1);
  /* x less its mean, which has no rounding here. */
  expect(
      "  n = f32[] constant(3)  v = f32[4] broadcast(n), dimensions={}  m = f32[4] divide(a, v)\n"
      "  w = f32[3,4] broadcast(m), dimensions={1}  y = f32[3,4] subtract(x, w)\n",
      SUM, 1);
}

static void other_reductions_stay(void **state) {
  (void)state;
  expect("  w = f32[3,4] broadcast(d), dimensions={0}  y = f32[3,4] multiply(x, w)\n", SUM, 2);
  expect("  y = f32[3,4] multiply(x, x)\n", SUM, 2);
  expect("  y = f32[3,4] negate(x)\n", "f32[4] reduce(y, one), dimensions={0}, to_apply=sum", 2);
  expect("  y = f32[3,4] negate(x)\n", "f32[4] reduce(y, z), dimensions={0}, to_apply=max", 2);
  expect("  y = f32[3,4] negate(x)\n", "f32[4] reduce(y, z), dimensions={0}, to_apply=twice", 2);
  expect("  v = f32[4,3] transpose(x), dimensions={1,0}  y = f32[4,3] negate(v)\n",
         "f32[4] reduce(y, z), dimensions={1}, to_apply=sum", 2);
  expect(BROADCAST "  y = f32[3,4] subtract(x, w)\n", SUM, 2);
  expect(
      "  n = f32[] constant(4)  v = f32[4] broadcast(n), dimensions={}  m = f32[4] divide(a, v)\n"
      "  w = f32[3,4] broadcast(m), dimensions={1}  y = f32[3,4] subtract(x, w)\n",
      SUM, 2);
  expect(BROADCAST "  v = f32[3,4] multiply(x, w)  k = f32[3] reduce(v, z), dimensions={1},"
                   " to_apply=sum\n  y = f32[3,4] broadcast(k), dimensions={0}\n",
         SUM, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_shared),
                                     cmocka_unit_test(other_reductions_stay)};
  return cmocka_run_group_tests_name("sums", tests, NULL, NULL);
}

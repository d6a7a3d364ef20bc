/* Which instructions the pass popops-functions makes one function of popops. */
#include "../run.h"
#include "passes/pass.h"

/* How often a word is in the module after the pass. */
static int occurrences(const char *text, const char *word) {
  trm_error error;
  trm_module *module = NULL;
  char *printed;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  assert_int_equal(trm_pass_popops_functions(module, &error), TRM_OK);
  assert_int_equal(trm_module_print(module, &printed, &error), TRM_OK);
  const int found = test_occurrences(printed, word);
  trm_free(printed);
  trm_module_free(module);
  return found;
}

#define ENTRY(body) "HloModule m\nENTRY e {\n" body "}\n"
#define ERF ", metadata={op_type=\"Erf\" op_name=\"Erf\"}\n"

/* A short polynomial in place of the bridge's. */
#define POLYNOMIAL                                                                 \
  "  c = f32[] constant(0.25)" ERF "  cs = f32[8] broadcast(c), dimensions={}" ERF \
  "  q = f32[8] multiply(z, z)" ERF "  p = f32[8] multiply(q, cs)" ERF             \
  "  e = f32[8] multiply(p, z)" ERF

#define NUMBERS                                                               \
  "  x = f32[8] parameter(0)  k = f32[] constant(0.70710678)\n"               \
  "  one = f32[] constant(1)  half = f32[] constant(0.5)\n"                   \
  "  ks = f32[8] broadcast(k), dimensions={}  ones = f32[8] broadcast(one), " \
  "dimensions={}\n  halves = f32[8] broadcast(half), dimensions={}\n"

static void test_erf(void **state) {
  (void)state;
  const char *text =
      ENTRY("  z = f32[8] parameter(0)\n" POLYNOMIAL "  ROOT r = f32[8] negate(e)\n");
  assert_int_equal(occurrences(text, " erf("), 1);
  assert_int_equal(occurrences(text, " multiply("), 0);
}

/* Somebody else reads what is inside. */
static void test_no_erf(void **state) {
  (void)state;
  const char *text =
      ENTRY("  z = f32[8] parameter(0)\n" POLYNOMIAL "  ROOT r = (f32[8], f32[8]) tuple(e, q)\n");
  assert_int_equal(occurrences(text, " erf("), 0);
}

#define GELU(end) ENTRY(NUMBERS "  z = f32[8] multiply(x, ks)\n" POLYNOMIAL end)

static void test_gelu(void **state) {
  (void)state;
  static const char *const forms[] = {
      GELU("  a = f32[8] add(e, ones)  b = f32[8] multiply(x, a)\n"
           "  ROOT r = f32[8] multiply(b, halves)\n"),
      GELU("  a = f32[8] add(ones, e)  b = f32[8] multiply(halves, a)\n"
           "  ROOT r = f32[8] multiply(b, x)\n"),
      GELU("  two = f32[] constant(2)  twos = f32[8] broadcast(two), dimensions={}\n"
           "  a = f32[8] add(e, ones)  b = f32[8] multiply(a, x)\n"
           "  ROOT r = f32[8] divide(b, twos)\n")};
  for (size_t f = 0; f < sizeof forms / sizeof *forms; ++f) {
    assert_int_equal(occurrences(forms[f], " erf("), 1);
    assert_int_equal(occurrences(forms[f], "popnn_function=\"gelu-erf\""), 1);
    assert_int_equal(occurrences(forms[f], " multiply("), 0);
  }
}

/* Another factor, another argument, and a gradient that reads 1 + erf. */
static void test_no_gelu(void **state) {
  (void)state;
  static const char *const forms[] = {
      GELU("  a = f32[8] add(e, ones)  b = f32[8] multiply(x, a)\n"
           "  ROOT r = f32[8] multiply(b, ks)\n"),
      GELU("  y = f32[8] parameter(1)  a = f32[8] add(e, ones)  b = f32[8] multiply(y, a)\n"
           "  ROOT r = f32[8] multiply(b, halves)\n"),
      GELU("  a = f32[8] add(e, ones)  b = f32[8] multiply(x, a)\n"
           "  r = f32[8] multiply(b, halves)  ROOT t = (f32[8], f32[8]) tuple(r, a)\n")};
  for (size_t f = 0; f < sizeof forms / sizeof *forms; ++f) {
    assert_int_equal(occurrences(forms[f], " erf("), 1);
    assert_int_equal(occurrences(forms[f], "popnn_function=\"gelu-erf\""), 0);
  }
}

#define MARK(function) \
  ", frontend_attributes={popnn_function=\"" function "\",popnn_scope=\"s_" function "\"}\n"

/* A function that Python marks, in halves, and its gradient, which shares the cast and the tanh:
 * each reads only the function's argument, and the gradient what comes in. */
#define SWISH                                                                                                                                                                       \
  "  x = f16[8] parameter(0)  w = f32[8] convert(x)" MARK("swish") "  t = f32[8] tanh(w)" MARK("swish") "  m = f32[8] multiply(w, t)" MARK("swish") "  y = f16[8] convert(m)" MARK( \
      "swish") "  d = f16[8] parameter(1)\n"                                                                                                                                        \
               "  v = f32[8] convert(d)" MARK("swish-grad") "  s = f32[8] add(t, m)" MARK(                                                                                          \
                   "swish-grad") "  u = f32[8] multiply(v, s)" MARK("swish-grad") "  g = f16[8] convert(u)" MARK("swish-grad")

static void test_marked(void **state) {
  (void)state;
  const char *text = ENTRY(SWISH "  n = f16[8] negate(y)  o = f16[8] negate(g)\n"
                                 "  ROOT r = (f16[8], f16[8]) tuple(n, o)\n");
  assert_int_equal(occurrences(text, " erf(f16[8]{0} %x), "), 1);
  assert_int_equal(occurrences(text, " multiply(f16[8]{0} %d, f16[8]{0} %x), "), 1);
  assert_int_equal(occurrences(text, " tanh("), 0);
}

/* A function of a function's result. */
static void test_marked_twice(void **state) {
  (void)state;
  const char *text = ENTRY(
      "  x = f32[8] parameter(0)  t = f32[8] tanh(x)" MARK("swish") "  a = f32[8] multiply(x, t)" MARK("swish") "  b = f32[8] add(a, x)" MARK(
          "swish") "  u = f32[8] tanh(b)" MARK("gelu") "  c = f32[8] multiply(b, u)" MARK("gelu") "  d = f32[8] add(c, b)" MARK("gelu") "  ROOT r = f32[8] negate(d)\n");
  assert_int_equal(occurrences(text, " erf("), 2);
  assert_int_equal(occurrences(text, " tanh("), 0);
}

/* A cast that an instruction outside reads too is no function, and neither is one of three arrays.
 */
static void test_not_marked(void **state) {
  (void)state;
  const char *cast = ENTRY(SWISH "  n = f32[8] negate(w)  o = f16[8] negate(g)\n"
                                 "  ROOT r = (f32[8], f16[8]) tuple(n, o)\n");
  assert_int_equal(occurrences(cast, " erf("), 0);
  assert_int_equal(occurrences(cast, " multiply(f16[8]{0} %d, f16[8]{0} %x), "), 1);
  const char *three =
      ENTRY("  x = f32[8] parameter(0)  y = f32[8] parameter(1)  z = f32[8] parameter(2)\n"
            "  a = f32[8] add(x, y)" MARK("swish") "  b = f32[8] multiply(a, z)" MARK(
                "swish") "  c = f32[8] tanh(b)" MARK("swish") "  ROOT r = f32[8] negate(c)\n");
  assert_int_equal(occurrences(three, " tanh("), 1);
}

static void test_sum_with_zero(void **state) {
  (void)state;
  const char *text = ENTRY("  x = f32[8] parameter(0)  o = f32[] constant(0)\n"
                           "  os = f32[8] broadcast(o), dimensions={}  a = f32[8] add(x, os)\n"
                           "  b = f32[8] add(os, a)  ROOT r = f32[8] negate(b)\n");
  assert_int_equal(occurrences(text, " add("), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_erf),        cmocka_unit_test(test_no_erf),
      cmocka_unit_test(test_gelu),       cmocka_unit_test(test_no_gelu),
      cmocka_unit_test(test_marked),     cmocka_unit_test(test_marked_twice),
      cmocka_unit_test(test_not_marked), cmocka_unit_test(test_sum_with_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

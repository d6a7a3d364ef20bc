/* Names of programs: no two are the same. The plugin needs TensorFlow; this file of it does not. */
#include "../../../src/tf/names.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(const char *module, const char *wanted) {
  char *name = names_claim(module);
  assert_string_equal(name, wanted);
  free(name);
}

static void test_numbers(void **state) {
  (void)state;
  expect("main", "main");
  expect("main", "main_2");
  expect("main_3", "main_3");
  expect("main", "main_4"); /* the third, but that name is taken */
  expect("main_2", "main_2_2");
  expect("main", "main_5");
}

static void test_letters(void **state) {
  (void)state;
  expect("a b/../c", "a_b_.._c");
  expect(".hidden", "_hidden");
  char longer[400];
  memset(longer, 'x', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  char *first = names_claim(longer), *second = names_claim(longer);
  assert_true(strlen(first) < 200 && strlen(second) < 200);
  assert_string_not_equal(first, second);
  free(first);
  free(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_letters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

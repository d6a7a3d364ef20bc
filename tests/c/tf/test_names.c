/* Names of programs: no two are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "watch.h"

#include <cmocka.h>

static void expect(const char *module, const char *wanted) {
  char *name = trm_tf_claim_name(module);
  assert_string_equal(name, wanted);
  trm_free(name);
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
  char *first = trm_tf_claim_name(longer), *second = trm_tf_claim_name(longer);
  assert_true(strlen(first) < 200 && strlen(second) < 200);
  assert_string_not_equal(first, second);
  trm_free(first);
  trm_free(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_letters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

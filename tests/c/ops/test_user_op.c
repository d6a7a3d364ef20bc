/* "tremula.user-op": what is refused. What works is in tests/python/host/test_user_ops.py, which
 * builds libraries. */
#include "../run.h"

static void expect_refusal(const char *config, trm_status status, const char *message) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule user\nENTRY e { a = f32[2] parameter(0)\n"
           "  h = (f32[2]) custom-call(a), custom_call_target=\"tremula.user-op\", "
           "custom_call_has_side_effect=true, backend_config=\"%s\"\n"
           "  ROOT x = f32[2] get-tuple-element(h), index=0 }\n",
           config);
  trm_error error = {0};
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "user", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  assert_int_equal(trm_compile(module, NULL, 0, &executable, &error), status);
  if (strstr(error.message, message) == NULL) fail_msg("says: %s", error.message);
  assert_non_null(strstr(error.message, "custom-call"));
  trm_module_free(module);
}

static void test_config(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "{",
      "[]",
      "{}",
      "{\\\"library\\\":\\\"x\\\"}",
      "{\\\"op\\\":\\\"x\\\"}",
      "{\\\"library\\\":1,\\\"op\\\":\\\"x\\\"}",
      "{\\\"library\\\":\\\"x\\\",\\\"op\\\":\\\"x\\\",\\\"attributes\\\":7}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    expect_refusal(bad[i], TRM_INVALID_ARGUMENT, "must give 'library' and 'op'");
  }
}

static void test_library(void **state) {
  (void)state;
  expect_refusal("{\\\"library\\\":\\\"/nowhere.so\\\",\\\"op\\\":\\\"F\\\"}", TRM_NOT_FOUND,
                 "could not be opened: /nowhere.so");
  expect_refusal("{\\\"library\\\":\\\"libc.so.6\\\",\\\"op\\\":\\\"no_such_function\\\"}",
                 TRM_NOT_FOUND, "libc.so.6 has no function 'no_such_function'");
  expect_refusal("{\\\"library\\\":\\\"libc.so.6\\\",\\\"op\\\":\\\"abs\\\"}", TRM_UNIMPLEMENTED,
                 "C signature of tremula/user_op.h");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_config), cmocka_unit_test(test_library)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

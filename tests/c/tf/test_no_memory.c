/* A node whose run has no memory at any of its moments fails with a message, leaves nothing behind,
 * and runs when there is memory again. */
#include "base/memory.h"
#include "tf_case.h"

static int configure_all(void **state) {
  (void)state;
  configure();
  return 0;
}

/* A site, its run and its end, where the allocation `countdown` calls away fails. */
static TF_Code run_with(int64_t countdown, const char *module, float *out_result) {
  trm_tf_site *site = NULL;
  trm_error error = {0};
  TF_OpKernelContext context = {0};
  set_input(&context, 1, 2);
  const TF_StringView name = {"node", strlen("node")};
  trm_tf_forget_units();
  trm_allocation_fail_after(countdown);
  trm_status status =
      trm_tf_site_create(TRM_TF_CALL_MODULE, module, strlen(module), name, "a\n", &site, &error);
  if (status == TRM_OK) trm_tf_launch_compute(site, &context);
  trm_allocation_fail_after(-1);
  if (status == TRM_OK) status = (trm_status)context.code;
  if (status == TRM_OK) *out_result = *(float *)TF_TensorData(context.outputs[0]);
  else assert_true(error.message[0] != '\0' || context.message[0] != '\0');
  fake_context_clear(&context);
  trm_tf_site_free(site);
  assert_int_equal(fake_num_tensors(), 0);
  return (TF_Code)status;
}

static void test_run(void **state) {
  (void)state;
  char text[256];
  float result = 0;
  int64_t failed = 0;
  times(3, text);
  for (TF_Code code; (code = run_with(failed, text, &result)) != TF_OK; ++failed)
    assert_int_equal(code, TF_RESOURCE_EXHAUSTED);
  assert_true(failed > 100);
  assert_true(result == 3);
  assert_true(run_with(-1, text, &result) == TF_OK && result == 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_run)};
  return cmocka_run_group_tests(tests, configure_all, NULL);
}

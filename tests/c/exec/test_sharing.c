/* Values that share memory, or must not: cases that were once wrong. */
#include <stdlib.h>

#include "../run.h"
#include "base/half.h"

/* The result of a conditional becomes loop state. In its first branch the new value is computed
 * while the old state is still to be read. */
static void test_branch_in_a_loop(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "yes { p = (f32[3], f32[3]) parameter(0)  s = f32[3] get-tuple-element(p), index=0\n"
      "  x = f32[3] get-tuple-element(p), index=1\n"
      "  y = f32[3] reverse(x), dimensions={0}\n"
      "  z = f32[3] reverse(s), dimensions={0}, control-predecessors={y}\n"
      "  ROOT t = (f32[3], f32[3]) tuple(y, z) }\n"
      "no { p = (f32[3], f32[3]) parameter(0)  x = f32[3] get-tuple-element(p), index=1\n"
      "  ROOT t = (f32[3], f32[3]) tuple(x, x) }\n"
      "cond { s = (s32[], f32[3], f32[3], pred[]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(1)\n"
      "  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[3], f32[3], pred[]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)  a = f32[3] get-tuple-element(s), index=1\n"
      "  x = f32[3] get-tuple-element(s), index=2  q = pred[] get-tuple-element(s), index=3\n"
      "  u = (f32[3], f32[3]) tuple(a, x)\n"
      "  c = (f32[3], f32[3]) conditional(q, u, u), true_computation=yes, false_computation=no\n"
      "  v = f32[3] get-tuple-element(c), index=0  w = f32[3] get-tuple-element(c), index=1\n"
      "  ROOT t = (s32[], f32[3], f32[3], pred[]) tuple(j, v, w, q) }\n"
      "ENTRY e { a = f32[3] parameter(0)  x = f32[3] parameter(1)  q = pred[] parameter(2)\n"
      "  z = s32[] constant(0)  t = (s32[], f32[3], f32[3], pred[]) tuple(z, a, x, q)\n"
      "  l = (s32[], f32[3], f32[3], pred[]) while(t), condition=cond, body=body\n"
      "  y = f32[3] get-tuple-element(l), index=1  w = f32[3] get-tuple-element(l), index=2\n"
      "  ROOT r = f32[6] concatenate(y, w), dimensions={0} }\n";
  const float a[3] = {1, 2, 3}, x[3] = {10, 20, 30}, turned[6] = {30, 20, 10, 3, 2, 1};
  const float same[6] = {10, 20, 30, 10, 20, 30};
  const uint8_t yes = 1, no = 0;
  test_expect_f32(text, (const void *const[]){a, x, &yes}, turned, 6);
  test_expect_f32(text, (const void *const[]){a, x, &no}, same, 6);
}

/* Packed weights are kept by the number of their contents; a new seed must not bring an old number
 * back. */
static void test_seed_between_runs(void **state) {
  (void)state;
  enum { N = 64 };
  char text[512];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e { x = f16[%d,%d] parameter(0)  w = f16[%d,%d] parameter(1)\n"
           "  ROOT d = f16[%d,%d] dot(x, w), lhs_contracting_dims={1},\n"
           "    rhs_contracting_dims={0} }\n",
           N, N, N, N, N, N);
  trm_error error;
  trm_engine *engine = NULL;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  assert_int_equal(trm_engine_create(executable, &engine, &error), TRM_OK);
  trm_executable_free(executable);
  uint16_t *x = calloc(N * N, sizeof *x), *w = calloc(N * N, sizeof *w);
  uint16_t *y = calloc(N * N, sizeof *y);
  for (int i = 0; i < N; ++i) x[i * N + i] = trm_float_to_half(1);
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < N * N; ++i) w[i] = trm_float_to_half((float)(round * 100 + i % 7));
    trm_engine_set_seed(engine, 5);
    const void *inputs[2] = {x, w};
    void *outputs[1] = {y};
    assert_int_equal(trm_engine_run(engine, inputs, NULL, outputs, &error), TRM_OK);
    assert_memory_equal(y, w, N * N * sizeof *y);
  }
  trm_engine_free(engine);
  free(x);
  free(w);
  free(y);
}

static void expect_refused(const char *text, trm_status status, const char *words) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  for (int m = 0; m < 3; ++m) {
    assert_int_equal(trm_compile(module, &test_modes[m], 1, &executable, &error), status);
    if (strstr(error.message, words) == NULL) fail_msg("%s", error.message);
  }
  trm_module_free(module);
}

static void test_bitcast_of_layouts(void **state) {
  (void)state;
  /* The bytes 1 to 6 in two columns of three; those of a square, by columns. */
  const float six[6] = {1, 2, 3, 4, 5, 6}, columns[6] = {1, 4, 2, 5, 3, 6};
  test_expect_f32("HloModule m\nENTRY e { p = f32[2,3]{1,0} parameter(0)\n"
                  "  ROOT b = f32[3,2]{0,1} bitcast(p) }\n",
                  (const void *const[]){six}, columns, 6);
  const float square[4] = {1, 2, 3, 4}, turned[4] = {1, 3, 2, 4};
  test_expect_f32("HloModule m\nENTRY e { p = f32[2,2]{1,0} parameter(0)\n"
                  "  ROOT b = f32[2,2]{0,1} bitcast(p) }\n",
                  (const void *const[]){square}, turned, 4);
  /* Dimensions of size 1 stand anywhere. */
  const float p[3] = {1, 2, 3};
  test_expect_f32("HloModule m\nENTRY e { p = f32[1,3]{1,0} parameter(0)\n"
                  "  ROOT b = f32[3,1]{0,1} bitcast(p) }\n",
                  (const void *const[]){p}, p, 3);
}

static void test_outfeed_with_a_result(void **state) {
  (void)state;
  expect_refused("HloModule m\nENTRY e { p = f32[2] parameter(0)\n"
                 "  ROOT o = f32[2] custom-call(p), custom_call_target=\"tremula.outfeed\",\n"
                 "    custom_call_has_side_effect=true,\n"
                 "    backend_config=\"{\\\"feed\\\":\\\"q\\\"}\" }\n",
                 TRM_INVALID_ARGUMENT, "token");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_branch_in_a_loop), cmocka_unit_test(test_seed_between_runs),
      cmocka_unit_test(test_bitcast_of_layouts), cmocka_unit_test(test_outfeed_with_a_result)};
  return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}

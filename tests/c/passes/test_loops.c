/* What leaves a loop, what stays, and that the optimised program can be saved and loaded. */
#include "../run.h"

static const float four[4] = {1, 2, 3, 4};

/* Expects the numbers in every mode, and of the optimised program that it can be saved, loaded,
 * printed and read. */
static void expect(const char *text, const float *expected) {
  const void *inputs[1] = {four};
  test_expect_f32(text, inputs, expected, 4);
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  trm_module *module = NULL;
  assert_int_equal(trm_executable_print(executable, &printed, &error), TRM_OK);
  if (trm_module_read(printed, strlen(printed), "printed", &module, &error) != TRM_OK) {
    fail_msg("%s\n%s", error.message, printed);
  }
  trm_free(printed);
  trm_module_free(module);
  void *data = NULL;
  size_t size = 0;
  assert_int_equal(trm_executable_serialize(executable, &data, &size, &error), TRM_OK);
  trm_executable_free(executable);
  if (trm_executable_deserialize(data, size, &executable, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_free(data);
  trm_executable_free(executable);
}

#define CONDITION(state)                                                         \
  "cond { s = " state " parameter(0)  i = s32[] get-tuple-element(s), index=0\n" \
  "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
#define COUNTER                                                          \
  "  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)\n" \
  "  j = s32[] add(i, one)\n"
#define STATE "(s32[], f32[4], f32[4])"
#define ENTRY                                                                            \
  "ENTRY e { p = f32[4] parameter(0)  z = s32[] constant(0)  zero = f32[] constant(0)\n" \
  "  b = f32[4] broadcast(zero), dimensions={}  t = " STATE " tuple(z, p, b)\n"          \
  "  w = " STATE " while(t), condition=cond, body=body\n"                                \
  "  ROOT r = f32[4] get-tuple-element(w), index=2 }\n"

/* A reshape is made again in the loop, and read by what leaves it. */
static void test_free_and_moved(void **state) {
  (void)state;
  const float expected[4] = {6, 12, 18, 24};
  expect(
      "HloModule m\n" CONDITION(
          STATE) "body { s = " STATE " parameter(0)\n" COUNTER
                 "  x = f32[4] get-tuple-element(s), index=1  a = f32[4] get-tuple-element(s), index=2\n"
                 "  m = f32[2,2] reshape(x)  n = f32[2,2] add(m, m)  o = f32[4] reshape(n)\n"
                 "  c = f32[2,2] reshape(a)  d = f32[2,2] multiply(c, m)  k = f32[4] reshape(d)\n"
                 "  e1 = f32[4] subtract(k, k)  f = f32[4] add(a, o)  g = f32[4] add(f, e1)\n"
                 "  ROOT r = " STATE " tuple(j, x, g) }\n" ENTRY,
      expected);
}

/* The state goes whole into an inner loop: it must not grow. */
static void test_state_used_whole(void **state) {
  (void)state;
  const float expected[4] = {6, 24, 54, 96};
  expect(
      "HloModule m\n"
      "cond2 { s = " STATE " parameter(0)  ROOT n = pred[] constant(false) }\n"
      "body2 { ROOT s = " STATE " parameter(0) }\n" CONDITION(
          STATE) "body { s = " STATE " parameter(0)\n" COUNTER
                 "  x = f32[4] get-tuple-element(s), index=1  y = f32[4] multiply(x, x)\n"
                 "  w = " STATE " while(s), condition=cond2, body=body2\n"
                 "  a = f32[4] get-tuple-element(w), index=2  b = f32[4] add(a, y)  c = f32[4] add(b, y)\n"
                 "  ROOT r = " STATE " tuple(j, x, c) }\n" ENTRY,
      expected);
}

/* An instruction with many operands, and a constant with a control edge, leave the loop. */
static void test_many_operands(void **state) {
  (void)state;
  char text[8192];
  int used = snprintf(text, sizeof text,
                      "HloModule m\n" CONDITION(
                          STATE) "body { s = " STATE " parameter(0)\n" COUNTER
                                 "  x = f32[4] get-tuple-element(s), index=1\n"
                                 "  a = f32[4] get-tuple-element(s), index=2\n"
                                 "  h = f32[4] constant({1, 1, 1, 1}), control-predecessors={j}\n"
                                 "  y = f32[4] add(x, h)\n  c = f32[320] concatenate(y");
  for (int k = 1; k < 80; ++k) used += snprintf(text + used, sizeof text - (size_t)used, ", x");
  snprintf(text + used, sizeof text - (size_t)used,
           "), dimensions={0}\n  d = f32[4] slice(c), slice={[2:6]}\n  b = f32[4] add(a, d)\n"
           "  ROOT r = " STATE " tuple(j, x, b) }\n" ENTRY);
  const float expected[4] = {12, 15, 3, 6};
  expect(text, expected);
}

/* Names that the passes would give are taken already. */
static void test_names_that_are_taken(void **state) {
  (void)state;
  const float expected[4] = {4, 3, 2, 1};
  for (int k = 1; k < 40; ++k) { /* wherever the passes begin to count */
    char text[1024];
    snprintf(text, sizeof text,
             "HloModule m\ncomputation.1 { x = f32[4] parameter(0)  ROOT n = f32[4] negate(x) }\n"
             "ENTRY computation.2 { p = f32[4] parameter(0)\n"
             "  a = f32[4] call(p), to_apply=computation.1\n  b = f32[4] negate(a)\n"
             "  fusion.%d = f32[4] reverse(b), dimensions={0}\n"
             "  c = f32[4] call(fusion.%d), to_apply=computation.1\n"
             "  ROOT d = f32[4] abs(c) }\n",
             k, k);
    expect(text, expected);
  }
}

/* A fusion of both would wait for itself: the first is waited for by what the second reads. */
static void test_control_edge_through_a_fusion(void **state) {
  (void)state;
  const float expected[4] = {5, 6, 7, 8};
  expect("HloModule m\nENTRY e { p = f32[4] parameter(0)  a = f32[4] add(p, p)\n"
         "  b = f32[4] reverse(p), dimensions={0}, control-predecessors={a}\n"
         "  c = f32[4] negate(b)  d = f32[4] subtract(a, c)\n"
         "  f = f32[4] reverse(d), dimensions={0}\n"
         "  g = f32[4] add(f, a)  h = f32[4] constant({6, 6, 6, 6})\n"
         "  ROOT r = f32[4] subtract(g, h) }\n",
         expected);
}

/* Small types saturate for a float, and keep the low bits of an integer. */
static void test_convert_through_float(void **state) {
  (void)state;
  const char *text = "HloModule m\nENTRY e { p = f32[4] parameter(0)\n"
                     "  c = f32[4] constant({100, 100, 50, 50})\n"
                     "  q = f32[4] multiply(p, c)  u = u8[4] convert(q)  f = f32[4] convert(u)\n"
                     "  s = s8[4] convert(f)  t = s8[4] convert(u)  d = s8[4] subtract(s, t)\n"
                     "  ROOT r = f32[4] convert(d) }\n";
  const float expected[4] = {0, -73, -23, -73};
  expect(text, expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_free_and_moved),
                                     cmocka_unit_test(test_state_used_whole),
                                     cmocka_unit_test(test_many_operands),
                                     cmocka_unit_test(test_names_that_are_taken),
                                     cmocka_unit_test(test_control_edge_through_a_fusion),
                                     cmocka_unit_test(test_convert_through_float)};
  return cmocka_run_group_tests_name("loops", tests, NULL, NULL);
}

/* What XLA schedules in two parts is computed as one; numbers are those of the plain forms. */
#include "../run.h"

#define ENTRY(body) "HloModule m\nENTRY e {\n  x = f32[2,3] parameter(0)\n" body "}\n"

static const float x[6] = {1, -2, 3, -4, 5, -6}, twice[6] = {2, -4, 6, -8, 10, -12},
                   negated[6] = {-1, 2, -3, 4, -5, 6};
static const void *const inputs[1] = {x};

static void test_copies(void **state) {
  (void)state;
  test_expect_f32(ENTRY("  s = (f32[2,3], f32[2,3], u32[]) copy-start(x)\n"
                        "  y = f32[2,3] copy-done(s)\n  ROOT r = f32[2,3] add(x, y)\n"),
                  inputs, twice, 6);
}

static void test_short_form(void **state) {
  (void)state;
  test_expect_f32(ENTRY("  s = ((f32[2,3], f32[2,3]), f32[2,3], s32[], token[]) add-start(x, x)\n"
                        "  u = ((f32[2,3], f32[2,3]), f32[2,3], s32[], token[]) add-update(s)\n"
                        "  ROOT r = f32[2,3] add-done(u)\n"),
                  inputs, twice, 6);
}

static void test_calls(void **state) {
  (void)state;
  test_expect_f32("HloModule m\nneg {\n  a = f32[2,3] parameter(0)\n"
                  "  ROOT n = f32[2,3] negate(a)\n}\nENTRY e {\n  x = f32[2,3] parameter(0)\n"
                  "  s = ((f32[2,3]), f32[2,3]) async-start(x), calls=neg, "
                  "async_execution_thread=\"other\"\n"
                  "  ROOT r = f32[2,3] async-done(s), calls=neg\n}\n",
                  inputs, negated, 6);
}

static void test_collectives(void **state) {
  (void)state;
  test_expect_f32("HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                  "  ROOT c = f32[] add(a, b)\n}\nENTRY e {\n  x = f32[2,3] parameter(0)\n"
                  "  s = f32[2,3] all-reduce-start(x), replica_groups={}, to_apply=add\n"
                  "  d = f32[2,3] all-reduce-done(s)\n"
                  "  g = (f32[2,3], f32[2,3]) all-gather-start(d), dimensions={0}, "
                  "replica_groups={}\n"
                  "  h = f32[2,3] all-gather-done(g)\n"
                  "  p = (f32[2,3], f32[2,3], u32[], u32[]) collective-permute-start(h), "
                  "source_target_pairs={{0,0}}\n"
                  "  q = f32[2,3] collective-permute-done(p)\n"
                  "  ROOT r = f32[2,3] add(q, x)\n}\n",
                  inputs, twice, 6);
}

/* The start is in one turn of the loop, its end in the next. */
static void test_across_turns(void **state) {
  (void)state;
  test_expect_f32("HloModule m\n"
                  "cond {\n  s = (s32[], (f32[2,3], f32[2,3], u32[])) parameter(0)\n"
                  "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(4)\n"
                  "  ROOT c = pred[] compare(i, n), direction=LT\n}\n"
                  "body {\n  s = (s32[], (f32[2,3], f32[2,3], u32[])) parameter(0)\n"
                  "  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n"
                  "  j = s32[] add(i, one)\n"
                  "  o = (f32[2,3], f32[2,3], u32[]) get-tuple-element(s), index=1\n"
                  "  d = f32[2,3] copy-done(o)\n  m = f32[2,3] negate(d)\n"
                  "  t = (f32[2,3], f32[2,3], u32[]) copy-start(m)\n"
                  "  ROOT r = (s32[], (f32[2,3], f32[2,3], u32[])) tuple(j, t)\n}\n"
                  "ENTRY e {\n  x = f32[2,3] parameter(0)\n  z = s32[] constant(1)\n"
                  "  t = (f32[2,3], f32[2,3], u32[]) copy-start(x)\n"
                  "  s = (s32[], (f32[2,3], f32[2,3], u32[])) tuple(z, t)\n"
                  "  w = (s32[], (f32[2,3], f32[2,3], u32[])) while(s), condition=cond, body=body\n"
                  "  o = (f32[2,3], f32[2,3], u32[]) get-tuple-element(w), index=1\n"
                  "  ROOT r = f32[2,3] copy-done(o)\n}\n",
                  inputs, negated, 6);
}

static void test_start_indices(void **state) {
  (void)state;
  static const char text[] =
      ENTRY("  i = s32[2] constant({1, 1})\n"
            "  s = f32[1,2] dynamic-slice(x, i), dynamic_slice_sizes={1,2}\n"
            "  j = s32[2] constant({0, 1})\n  ROOT r = f32[2,3] dynamic-update-slice(x, s, j)\n");
  const float expected[6] = {1, 5, -6, -4, 5, -6};
  test_expect_f32(text, inputs, expected, 6);
}

/* Windows of scalars. */
static void test_scalar_windows(void **state) {
  (void)state;
  const float s = 3, sum = 6;
  const void *const scalar[1] = {&s};
  test_expect_f32("HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                  "  ROOT c = f32[] add(a, b)\n}\nENTRY e {\n  x = f32[] parameter(0)\n"
                  "  ROOT r = f32[] reduce-window(x, x), to_apply=add\n}\n",
                  scalar, &sum, 1);
  test_expect_f32("HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                  "  ROOT c = f32[] add(a, b)\n}\nge {\n  a = f32[] parameter(0)\n"
                  "  b = f32[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction=GE\n}\n"
                  "ENTRY e {\n  x = f32[] parameter(0)\n"
                  "  ROOT r = f32[] select-and-scatter(x, x, x), select=ge, scatter=add\n}\n",
                  scalar, &sum, 1);
}

static void expect_refused(const char *text, const char *message) {
  trm_error error;
  trm_module *module = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) == TRM_OK) {
    fail_msg("this was taken: %s", text);
  }
  if (strstr(error.message, message) == NULL) fail_msg("got: %s", error.message);
}

static void test_refused(void **state) {
  (void)state;
  expect_refused(ENTRY("  s = (f32[2,3], f32[2,3]) negate-start(x)\n"
                       "  ROOT r = f32[2,3] negate-done(s)\n"),
                 "the shape of an asynchronous start is");
  expect_refused(ENTRY("  u = u32[] constant(0)\n"
                       "  t = ((f32[2,3]), f32[2,3], u32[]) tuple((f32[2,3]) tuple(x), x, u)\n"
                       "  ROOT r = f32[2,3] custom-call-done(t)\n"),
                 "takes what async-start or async-update returns, not tuple");
  expect_refused(ENTRY("  ROOT s = (f32[2,3], f32[3,2], u32[]) copy-start(x)\n"),
                 "its result must be (copy, operand, u32[])");
  expect_refused(ENTRY("  ROOT s = (f32[3,2], f32[2,3]) all-gather-start(x), dimensions={0}\n"),
                 "does not begin with its operand");
  expect_refused(ENTRY("  ROOT s = (f32[2,3], f32[3,3]) all-gather-start(x), dimensions={0}\n"),
                 "does not fit the operand");
  expect_refused(ENTRY("  i = s32[3] constant({1, 1, 1})\n"
                       "  ROOT s = f32[1,2] dynamic-slice(x, i), dynamic_slice_sizes={1,2}\n"),
                 "the start indices must be 2 integers, not s32[3]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_copies),         cmocka_unit_test(test_short_form),
      cmocka_unit_test(test_calls),          cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_across_turns),   cmocka_unit_test(test_start_indices),
      cmocka_unit_test(test_scalar_windows), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

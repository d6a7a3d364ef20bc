/* Loops that inputs of the run count: the estimate takes the numbers of the run that it is of. */
#include "program_case.h"

/* Runs `limit * 2 - 1` times, each time an inner loop that runs `2 * inner` times; `other` counts
 * nothing. */
#define COUNTED(limit)                                                                            \
  "HloModule counted\n"                                                                           \
  "inner_cond {\n  t = (s32[], s32[], f32[64,64]) parameter(0)\n"                                 \
  "  i = s32[] get-tuple-element(t), index=0\n  n = s32[] get-tuple-element(t), index=1\n"        \
  "  two = s32[] constant(2)\n  m = s32[] multiply(n, two)\n"                                     \
  "  ROOT less = pred[] compare(i, m), direction=LT\n}\n"                                         \
  "inner_body {\n  t = (s32[], s32[], f32[64,64]) parameter(0)\n"                                 \
  "  i = s32[] get-tuple-element(t), index=0\n  n = s32[] get-tuple-element(t), index=1\n"        \
  "  a = f32[64,64] get-tuple-element(t), index=2\n  one = s32[] constant(1)\n"                   \
  "  j = s32[] add(i, one)\n  b = f32[64,64] multiply(a, a)\n"                                    \
  "  ROOT r = (s32[], s32[], f32[64,64]) tuple(j, n, b)\n}\n"                                     \
  "cond {\n  t = (s64[], s64[], s32[], f32[64,64]) parameter(0)\n"                                \
  "  i = s64[] get-tuple-element(t), index=0\n  n = s64[] get-tuple-element(t), index=1\n"        \
  "  ROOT less = pred[] compare(i, n), direction=LT\n}\n"                                         \
  "body {\n  t = (s64[], s64[], s32[], f32[64,64]) parameter(0)\n"                                \
  "  i = s64[] get-tuple-element(t), index=0\n  n = s64[] get-tuple-element(t), index=1\n"        \
  "  m = s32[] get-tuple-element(t), index=2\n  a = f32[64,64] get-tuple-element(t), index=3\n"   \
  "  one = s64[] constant(1)\n  j = s64[] add(i, one)\n  zero = s32[] constant(0)\n"              \
  "  u = (s32[], s32[], f32[64,64]) tuple(zero, m, a)\n"                                          \
  "  v = (s32[], s32[], f32[64,64]) while(u), condition=inner_cond, body=inner_body\n"            \
  "  b = f32[64,64] get-tuple-element(v), index=2\n"                                              \
  "  ROOT r = (s64[], s64[], s32[], f32[64,64]) tuple(j, n, m, b)\n}\n"                           \
  "ENTRY main {\n  limit = s64[] " limit                                                          \
  "\n  inner = s32[] parameter(1)\n  other = s32[] parameter(2)\n  x = f32[64,64] parameter(3)\n" \
  "  two = s64[] constant(2)\n  one = s64[] constant(1)\n  twice = s64[] multiply(limit, two)\n"  \
  "  n = s64[] subtract(twice, one)\n  zero = s64[] constant(0)\n"                                \
  "  t = (s64[], s64[], s32[], f32[64,64]) tuple(zero, n, inner, x)\n"                            \
  "  w = (s64[], s64[], s32[], f32[64,64]) while(t), condition=cond, body=body\n"                 \
  "  y = f32[64,64] get-tuple-element(w), index=3\n"                                              \
  "  ROOT r = (f32[64,64], s32[]) tuple(y, other)\n}\n"

static trm_program *plan(const char *text, const void *const *inputs) {
  trm_program_options options = {.size = sizeof options};
  trm_program_options_init(&options);
  options.inputs = inputs;
  return make_program(text, "mk2", &options);
}

/* How often the innermost multiplication is executed. */
static double executions(const trm_program *p) {
  double most = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].type == TRM_STEP_TYPE_ON_TILE_EXECUTE && p->steps[s].executions > most)
      most = p->steps[s].executions;
  }
  return most;
}

static void test_counts(void **state) {
  (void)state;
  const int64_t limit = 4;
  const int32_t inner = 3, other = 9;
  const float x[64 * 64] = {0};
  const void *const inputs[] = {&limit, &inner, &other, x};
  trm_program *p = plan(COUNTED("parameter(0)"), inputs);
  check_sums(p);
  assert_true(executions(p) == 7 * 6);
  for (size_t n = 0; trm_program_note(p, n) != NULL; ++n)
    assert_null(strstr(trm_program_note(p, n), "not known"));

  trm_program *unknown = plan(COUNTED("parameter(0)"), NULL);
  assert_true(executions(unknown) == 1);
  assert_true(unknown->totals.cycles < p->totals.cycles);
  trm_program_free(unknown);

  /* Turns of a count that is compiled in are cheaper by the condition only. */
  const void *const one[] = {NULL, &inner, NULL, NULL};
  trm_program *fixed = plan(COUNTED("constant(4)\n  unused = s64[] parameter(0)"), one);
  assert_true(executions(fixed) == 7 * 6);
  assert_true(fixed->totals.cycles <= p->totals.cycles);
  trm_program_free(fixed);
  trm_program_free(p);
}

/* Only inputs that count loops make another estimate necessary. */
static void test_other_runs(void **state) {
  (void)state;
  const int64_t limit = 4, more = 5;
  const int32_t inner = 3, other = 9;
  const float x[64 * 64] = {0};
  const void *const inputs[] = {&limit, &inner, &other, x};
  const void *const as_before[] = {&limit, &inner, &inner, x};
  const void *const different[] = {&more, &inner, &other, x};
  trm_program *p = plan(COUNTED("parameter(0)"), inputs);
  assert_true(trm_program_suits(p, NULL));
  assert_true(trm_program_suits(p, as_before));
  assert_false(trm_program_suits(p, different));
  trm_program_free(p);
  p = plan(COUNTED("parameter(0)"), NULL);
  assert_true(trm_program_suits(p, NULL));
  assert_false(trm_program_suits(p, inputs));
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts),
                                     cmocka_unit_test(test_other_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Programs whole: control flow, aliasing of buffers, outputs, in every mode of compiling. */
#include <pthread.h>
#include <stdlib.h>

#include "../run.h"

static void test_swap_in_a_loop(void **state) {
  (void)state;
  /* Each iteration swaps a and b: the copies back must look as if done all at once. */
  const char *text =
      "HloModule swap\n"
      "cond { s = (s32[], f32[2], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[2], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  a = f32[2] get-tuple-element(s), index=1  b = f32[2] get-tuple-element(s), index=2\n"
      "  ROOT t = (s32[], f32[2], f32[2]) tuple(j, b, a) }\n"
      "ENTRY e { a = f32[2] parameter(0)  b = f32[2] parameter(1)  z = s32[] constant(0)\n"
      "  t = (s32[], f32[2], f32[2]) tuple(z, a, b)\n"
      "  w = (s32[], f32[2], f32[2]) while(t), condition=cond, body=body\n"
      "  x = f32[2] get-tuple-element(w), index=1  y = f32[2] get-tuple-element(w), index=2\n"
      "  d = f32[2] subtract(x, y)  h = f32[2] add(y, y)\n"
      "  ROOT r = f32[4] concatenate(d, h), dimensions={0} }\n";
  const float a[2] = {1, 2}, b[2] = {10, 30}, expected[4] = {9, 28, 2, 4};
  const void *inputs[2] = {a, b};
  test_expect_f32(text, inputs, expected, 4);
}

static void test_shift_through_loop_state(void **state) {
  (void)state;
  /* Fibonacci: (a, b) becomes (b, a + b). */
  const char *text =
      "HloModule fibonacci\n"
      "cond { s = (s32[], f32[1], f32[1]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(10)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[1], f32[1]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  a = f32[1] get-tuple-element(s), index=1  b = f32[1] get-tuple-element(s), index=2\n"
      "  c = f32[1] add(a, b)  ROOT t = (s32[], f32[1], f32[1]) tuple(j, b, c) }\n"
      "ENTRY e { a = f32[1] parameter(0)  b = f32[1] parameter(1)  z = s32[] constant(0)\n"
      "  t = (s32[], f32[1], f32[1]) tuple(z, a, b)\n"
      "  w = (s32[], f32[1], f32[1]) while(t), condition=cond, body=body\n"
      "  ROOT x = f32[1] get-tuple-element(w), index=1 }\n";
  const float a[1] = {0}, b[1] = {1}, expected[1] = {55};
  const void *inputs[2] = {a, b};
  test_expect_f32(text, inputs, expected, 1);
}

/* A small state that two outputs show, anywhere in memory, and that is read after the loop. */
static void test_small_state(void **state) {
  (void)state;
  const char *text =
      "HloModule small\n"
      "cond { s = (s32[], f32[32]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(7)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[32]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  x = f32[32] get-tuple-element(s), index=1  two = f32[] constant(2)\n"
      "  b = f32[32] broadcast(two), dimensions={}  m = f32[32] multiply(x, b)\n"
      "  y = f32[32] add(m, b)  ROOT t = (s32[], f32[32]) tuple(j, y) }\n"
      "ENTRY e { p = f32[32] parameter(0)  z = s32[] constant(0)\n"
      "  t = (s32[], f32[32]) tuple(z, p)\n"
      "  w = (s32[], f32[32]) while(t), condition=cond, body=body\n"
      "  x = f32[32] get-tuple-element(w), index=1  n = f32[32] negate(x)\n"
      "  ROOT r = (f32[32], f32[32], f32[32]) tuple(x, n, x) }\n";
  for (int m = 0; m < 3; ++m) {
    _Alignas(64) float in[33], out[3][36];
    for (int i = 0; i < 33; ++i) in[i] = (float)i;
    const void *inputs[1] = {in + 1};
    void *outputs[3] = {out[0] + 1, out[1] + 2, out[2] + 3};
    test_run_mode(text, &test_modes[m], inputs, outputs);
    for (int i = 0; i < 32; ++i) {
      const float want = 128 * in[i + 1] + 254;
      assert_true(out[0][i + 1] == want && out[1][i + 2] == -want && out[2][i + 3] == want);
    }
  }
}

static void test_update_in_place(void **state) {
  (void)state;
  /* buffer[i] = i * x in a loop, and the input itself must stay as it was. */
  const char *text =
      "HloModule update\n"
      "cond { s = (s32[], f32[5], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(5)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[5], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  buffer = f32[5] get-tuple-element(s), index=1  x = f32[] get-tuple-element(s), index=2\n"
      "  f = f32[] convert(i)  v = f32[] multiply(f, x)  u = f32[1] reshape(v)\n"
      "  new = f32[5] dynamic-update-slice(buffer, u, i)\n"
      "  ROOT t = (s32[], f32[5], f32[]) tuple(j, new, x) }\n"
      "ENTRY e { p = f32[5] parameter(0)  x = f32[] parameter(1)  z = s32[] constant(0)\n"
      "  t = (s32[], f32[5], f32[]) tuple(z, p, x)\n"
      "  w = (s32[], f32[5], f32[]) while(t), condition=cond, body=body\n"
      "  n = f32[5] get-tuple-element(w), index=1\n"
      "  ROOT r = f32[10] concatenate(n, p), dimensions={0} }\n";
  const float p[5] = {9, 9, 9, 9, 9}, x[1] = {2};
  const float expected[10] = {0, 2, 4, 6, 8, 9, 9, 9, 9, 9};
  const void *inputs[2] = {p, x};
  test_expect_f32(text, inputs, expected, 10);
}

static void test_results_in_place(void **state) {
  (void)state;
  /* A fusion with three results: m = m / 2 + g, w = w - m and, read by nobody, w + g. */
  const char *text =
      "HloModule momentum\n"
      "step { m = f32[70] parameter(0)  g = f32[70] parameter(1)  w = f32[70] parameter(2)\n"
      "  h = f32[] constant(0.5)  hs = f32[70] broadcast(h), dimensions={}\n"
      "  f = f32[70] multiply(m, hs)  m2 = f32[70] add(f, g)  w2 = f32[70] subtract(w, m2)\n"
      "  u = f32[70] add(w, g)\n"
      "  ROOT r = (f32[70], f32[70], f32[70]) tuple(u, m2, w2) }\n"
      "cond { s = (s32[], f32[70], f32[70]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[70], f32[70]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  m = f32[70] get-tuple-element(s), index=1  w = f32[70] get-tuple-element(s), index=2\n"
      "  f = f32[] convert(i)  g = f32[70] broadcast(f), dimensions={}\n"
      "  u = (f32[70], f32[70], f32[70]) fusion(m, g, w), kind=kLoop, calls=step\n"
      "  m2 = f32[70] get-tuple-element(u), index=1  w2 = f32[70] get-tuple-element(u), index=2\n"
      "  ROOT t = (s32[], f32[70], f32[70]) tuple(j, m2, w2) }\n"
      "ENTRY e { m = f32[70] parameter(0)  w = f32[70] parameter(1)  z = s32[] constant(0)\n"
      "  t = (s32[], f32[70], f32[70]) tuple(z, m, w)\n"
      "  l = (s32[], f32[70], f32[70]) while(t), condition=cond, body=body\n"
      "  m2 = f32[70] get-tuple-element(l), index=1  w2 = f32[70] get-tuple-element(l), index=2\n"
      "  ROOT r = f32[140] concatenate(m2, w2), dimensions={0} }\n";
  float m[70], w[70], expected[140];
  for (int i = 0; i < 70; ++i) {
    m[i] = (float)i, w[i] = (float)(3 * i);
    float *const m2 = &expected[i], *const w2 = &expected[70 + i];
    *m2 = m[i], *w2 = w[i];
    for (int k = 0; k < 3; ++k) *m2 = *m2 / 2 + (float)k, *w2 -= *m2;
  }
  const void *inputs[2] = {m, w};
  test_expect_f32(text, inputs, expected, 140);
}

static void test_nested_loops(void **state) {
  (void)state;
  /* sum over i < 4 of sum over j < i of (x + j), with x handed through both loops. */
  const char *text =
      "HloModule nested\n"
      "cond_in { s = (s32[], s32[], f32[], f32[]) parameter(0)\n"
      "  j = s32[] get-tuple-element(s), index=0  i = s32[] get-tuple-element(s), index=1\n"
      "  ROOT l = pred[] compare(j, i), direction=LT }\n"
      "body_in { s = (s32[], s32[], f32[], f32[]) parameter(0)\n"
      "  j = s32[] get-tuple-element(s), index=0  i = s32[] get-tuple-element(s), index=1\n"
      "  x = f32[] get-tuple-element(s), index=2  a = f32[] get-tuple-element(s), index=3\n"
      "  one = s32[] constant(1)  k = s32[] add(j, one)  f = f32[] convert(j)\n"
      "  y = f32[] add(x, f)  b = f32[] add(a, y)\n"
      "  ROOT t = (s32[], s32[], f32[], f32[]) tuple(k, i, x, b) }\n"
      "cond_out { s = (s32[], f32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(4)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body_out { s = (s32[], f32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  x = f32[] get-tuple-element(s), index=1  a = f32[] get-tuple-element(s), index=2\n"
      "  z = s32[] constant(0)  t = (s32[], s32[], f32[], f32[]) tuple(z, i, x, a)\n"
      "  w = (s32[], s32[], f32[], f32[]) while(t), condition=cond_in, body=body_in\n"
      "  b = f32[] get-tuple-element(w), index=3  one = s32[] constant(1)  k = s32[] add(i, one)\n"
      "  ROOT r = (s32[], f32[], f32[]) tuple(k, x, b) }\n"
      "ENTRY e { x = f32[] parameter(0)  z = s32[] constant(0)  f = f32[] constant(0)\n"
      "  t = (s32[], f32[], f32[]) tuple(z, x, f)\n"
      "  w = (s32[], f32[], f32[]) while(t), condition=cond_out, body=body_out\n"
      "  ROOT r = f32[] get-tuple-element(w), index=2 }\n";
  const float x[1] = {100}, expected[1] = {604};
  const void *inputs[1] = {x};
  test_expect_f32(text, inputs, expected, 1);
}

static void test_conditional_forwards(void **state) {
  (void)state;
  /* One branch hands its argument on, the other computes; the argument is used afterwards too. */
  const char *text =
      "HloModule branches\n"
      "same { ROOT x = f32[2] parameter(0) }\n"
      "twice { x = f32[2] parameter(0)  ROOT y = f32[2] add(x, x) }\n"
      "negated { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }\n"
      "ENTRY e { i = s32[] parameter(0)  p = f32[2] parameter(1)  x = f32[2] multiply(p, p)\n"
      "  c = f32[2] conditional(i, x, x, x), branch_computations={same, twice, negated}\n"
      "  ROOT r = f32[4] concatenate(c, x), dimensions={0} }\n";
  const float p[2] = {1, 3};
  const float expected[4][4] = {{1, 9, 1, 9}, {2, 18, 1, 9}, {-1, -9, 1, 9}, {-1, -9, 1, 9}};
  for (int32_t i = 0; i < 4; ++i) { /* past the end: the last branch */
    const void *inputs[2] = {&i, p};
    test_expect_f32(text, inputs, expected[i], 4);
  }
}

static void test_outputs_of_every_kind(void **state) {
  (void)state;
  /* A parameter, the same value twice, a constant, and an empty array. */
  const char *text =
      "HloModule outputs\n"
      "ENTRY e { p = f32[2] parameter(0)  q = f32[0,3] parameter(1)  c = f32[2] constant({7, 8})\n"
      "  s = f32[2] add(p, c)\n"
      "  ROOT t = (f32[2], f32[2], (f32[2], f32[2]), f32[0,3]) tuple(p, s, (f32[2], f32[2]) n, q)\n"
      "  n = (f32[2], f32[2]) tuple(s, c) }\n";
  const float p[2] = {1, 2};
  for (int m = 0; m < 3; ++m) {
    float out[4][2] = {{0}}, none[1];
    void *outputs[5] = {out[0], out[1], out[2], out[3], none};
    const void *inputs[2] = {p, none};
    test_run_mode(text, &test_modes[m], inputs, outputs);
    const float expected[4][2] = {{1, 2}, {8, 10}, {8, 10}, {7, 8}};
    assert_memory_equal(out, expected, sizeof expected);
  }
}

static void test_deep_calls(void **state) {
  (void)state;
  /* 10 000 calls inside one another, each adding 1. */
  enum { DEPTH = 10000 };
  char *text = malloc(DEPTH * 128 + 1024);
  size_t length = (size_t)sprintf(text, "HloModule deep\nf0 { p = f32[] parameter(0)  "
                                        "one = f32[] constant(1)  ROOT r = f32[] add(p, one) }\n");
  for (int i = 1; i < DEPTH; ++i) {
    length += (size_t)sprintf(text + length,
                              "f%d { p = f32[] parameter(0)  one = f32[] constant(1)  "
                              "q = f32[] add(p, one)  ROOT r = f32[] call(q), to_apply=f%d }\n",
                              i, i - 1);
  }
  sprintf(text + length,
          "ENTRY e { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f%d }\n", DEPTH - 1);
  const float p[1] = {5}, expected[1] = {5 + DEPTH};
  const void *inputs[1] = {p};
  test_expect_f32(text, inputs, expected, 1);
  free(text);
}

static void expect_refused(const char *text, trm_status status, const char *words) {
  trm_error error = {0};
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  trm_status got = trm_module_read(text, strlen(text), "test", &module, &error);
  if (got == TRM_OK) got = trm_compile(module, NULL, 0, &executable, &error);
  trm_module_free(module);
  trm_executable_free(executable);
  assert_int_equal(got, status);
  if (strstr(error.message, words) == NULL) fail_msg("the message is: %s", error.message);
}

static void test_refusals(void **state) {
  (void)state;
  expect_refused("HloModule m\nf { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=g }\n"
                 "g { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f }\n"
                 "ENTRY e { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f }\n",
                 TRM_INVALID_ARGUMENT, "recursion");
  /* Calls that double at every level: 2^40 instructions. */
  char text[8192];
  size_t length = (size_t)sprintf(text, "HloModule m\nf0 { p = f32[] parameter(0)  "
                                        "ROOT r = f32[] add(p, p) }\n");
  for (int i = 1; i < 40; ++i) {
    length += (size_t)sprintf(text + length,
                              "f%d { p = f32[] parameter(0)  q = f32[] call(p), to_apply=f%d  "
                              "ROOT r = f32[] call(q), to_apply=f%d }\n",
                              i, i - 1, i - 1);
  }
  sprintf(text + length,
          "ENTRY e { p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f39 }\n");
  expect_refused(text, TRM_RESOURCE_EXHAUSTED, "instructions");
  expect_refused("HloModule m\nENTRY e { p = f32[2] parameter(0)\n ROOT r = f32[2] custom-call(p), "
                 "custom_call_target=\"nobody\", metadata={op_type=\"Mystery\" op_name=\"net/m\" "
                 "source_file=\"model.py\" source_line=41} }\n",
                 TRM_UNIMPLEMENTED, "model.py:41");
}

static void test_options(void **state) {
  (void)state;
  trm_error error;
  trm_module *module;
  trm_executable *executable;
  const char *text = "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\n";
  assert_int_equal(trm_module_read(text, strlen(text), NULL, &module, &error), TRM_OK);
  const trm_option unknown = {"optimize", "true"}, wrong = {"optimise", "yes"};
  assert_int_equal(trm_compile(module, &unknown, 1, &executable, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "Did you mean 'optimise'?"));
  assert_int_equal(trm_compile(module, &wrong, 1, &executable, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "true or false"));
  trm_module_free(module);
}

#if defined(__SSE__)
#include <xmmintrin.h>

static void test_denormals_whoever_calls(void **state) {
  (void)state;
  const char *text =
      "HloModule m\nENTRY e { p = f32[3] parameter(0)  h = f32[] constant(0.5)\n"
      "  b = f32[3] broadcast(h), dimensions={}\n  ROOT r = f32[3] multiply(p, b) }\n";
  const float p[3] = {0x1p-126f, 0x1p-140f, 1}, expected[3] = {0x1p-127f, 0x1p-141f, 0.5f};
  const void *inputs[1] = {p};
  const unsigned mode = _mm_getcsr();
  float output[3];
  void *outputs[1] = {output};
  _mm_setcsr(mode | 0x8040); /* as TensorFlow's threads have it */
  for (int m = 0; m < 3; ++m) {
    test_run_mode(text, &test_modes[m], inputs, outputs);
    assert_int_equal(_mm_getcsr() & 0x8040, 0x8040);
    assert_memory_equal(output, expected, sizeof expected);
  }
  _mm_setcsr(mode);
}
#endif

/* ---- Two engines in two threads ------------------------------------------------------------- */

static const char *long_text =
    "HloModule long\n"
    "cond { s = (s32[], f32[256]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(2000)  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[256]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)  j = s32[] add(i, one)  a = f32[256] get-tuple-element(s), index=1\n"
    "  f = f32[] constant(1)  b = f32[256] broadcast(f), dimensions={}\n"
    "  c = f32[256] add(a, b)  ROOT t = (s32[], f32[256]) tuple(j, c) }\n"
    "ENTRY e { a = f32[256] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[256]) tuple(z, a)\n"
    "  w = (s32[], f32[256]) while(t), condition=cond, body=body\n"
    "  ROOT x = f32[256] get-tuple-element(w), index=1 }\n";

typedef struct worker {
  trm_executable *executable;
  float start;
  bool good;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  trm_engine *engine;
  float in[256], out[256];
  for (int i = 0; i < 256; ++i) in[i] = w->start + (float)i;
  const void *inputs[1] = {in};
  void *outputs[1] = {out};
  w->good = trm_engine_create(w->executable, &engine, NULL) == TRM_OK;
  for (int r = 0; w->good && r < 20; ++r) {
    w->good = trm_engine_run(engine, inputs, NULL, outputs, NULL) == TRM_OK;
    for (int i = 0; i < 256; ++i) w->good = w->good && out[i] == in[i] + 2000;
  }
  trm_engine_free(engine);
  return NULL;
}

static void test_two_engines(void **state) {
  (void)state;
  trm_executable *executable = test_compile(long_text, &test_modes[0]);
  worker workers[2] = {{executable, 0, false}, {executable, 5000, false}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, work, &workers[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  assert_true(workers[0].good && workers[1].good);
  trm_executable_free(executable);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_swap_in_a_loop),
      cmocka_unit_test(test_shift_through_loop_state),
      cmocka_unit_test(test_small_state),
      cmocka_unit_test(test_update_in_place),
      cmocka_unit_test(test_results_in_place),
      cmocka_unit_test(test_nested_loops),
      cmocka_unit_test(test_conditional_forwards),
      cmocka_unit_test(test_outputs_of_every_kind),
      cmocka_unit_test(test_deep_calls),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_two_engines),
#if defined(__SSE__)
      cmocka_unit_test(test_denormals_whoever_calls),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

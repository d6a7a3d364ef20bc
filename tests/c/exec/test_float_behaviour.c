/* Floating-point events that end a run, and how float16 is rounded. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"
#include "base/half.h"

static trm_executable *compile(const char *text, const trm_option *options, size_t num_options) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, options, num_options, &executable, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_module_free(module);
  return executable;
}

/* Runs with options set to true; returns the status. */
static trm_status run(const char *text, const char *const *keys, size_t num_keys, const void *input,
                      void *output, trm_error *error) {
  trm_option options[4];
  for (size_t i = 0; i < num_keys; ++i) options[i] = (trm_option){keys[i], "true"};
  trm_executable *executable = compile(text, options, num_keys);
  trm_engine *engine = NULL;
  if (trm_engine_create(executable, &engine, error) != TRM_OK) fail_msg("%s", error->message);
  const void *inputs[1] = {input};
  void *outputs[1] = {output};
  const trm_status status = trm_engine_run(engine, inputs, NULL, outputs, error);
  trm_engine_free(engine);
  trm_executable_free(executable);
  return status;
}

static const char *const events[3] = {"invalid", "division_by_zero", "overflow"};

/* f(x) for f32[4] raises exactly the events in `expected`, each when its option is on. */
static void expect(const char *body, const float x[4], unsigned expected) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
           "ENTRY e { x = f32[4] parameter(0)  zero = f32[] constant(0)\n"
           "  z = f32[4] broadcast(zero), dimensions={}  %s }\n",
           body);
  float output[4];
  trm_error error;
  assert_int_equal(run(text, NULL, 0, x, output, &error), TRM_OK);
  for (unsigned e = 0; e < 3; ++e) {
    const trm_status status = run(text, &events[e], 1, x, output, &error);
    if (status != ((expected >> e & 1) != 0 ? TRM_INTERNAL : TRM_OK)) {
      fail_msg("%s with %s: %s", body, events[e], trm_status_name(status));
    }
    if (status != TRM_OK) {
      assert_non_null(strstr(error.message, "Tiles in excepted state"));
      assert_non_null(strstr(error.message, "%culprit"));
    }
  }
}

enum { INVALID = 1, DIVISION = 2, OVERFLOW = 4 };

static void test_events(void **state) {
  (void)state;
  const float plain[4] = {1, 2, 3, 4}, zero[4] = {1, 0, 3, 4}, negative[4] = {1, -2, 3, 4};
  const float large[4] = {1, 3e38f, 3e38f, 4}, infinite[4] = {1, INFINITY, 3, 4};
  const float both[4] = {INFINITY, -INFINITY, 3, 4}, nan[4] = {1, NAN, 3, 4};
  static const char divide[] = "one = f32[] constant(1)  o = f32[4] broadcast(one), dimensions={}\n"
                               "ROOT culprit = f32[4] divide(o, x)";
  expect(divide, plain, 0);
  expect(divide, zero, DIVISION);
  expect(divide, nan, 0);
  expect(divide, infinite, 0);
  expect("ROOT culprit = f32[4] divide(z, x)", zero, INVALID);
  expect("ROOT culprit = f32[4] log(x)", zero, DIVISION);
  expect("ROOT culprit = f32[4] log(x)", negative, INVALID);
  expect("ROOT culprit = f32[4] sqrt(x)", negative, INVALID);
  expect("ROOT culprit = f32[4] multiply(x, x)", large, OVERFLOW);
  expect("ROOT culprit = f32[4] subtract(x, x)", infinite, INVALID);
  /* In the middle of what would be one fusion, and gone in its result. */
  expect("culprit = f32[4] multiply(x, x)  ROOT r = f32[4] tanh(culprit)", large, OVERFLOW);
  static const char sum[] = "r = f32[] reduce(x, zero), dimensions={0}, to_apply=add\n"
                            "ROOT b = f32[4] broadcast(r), dimensions={}";
  char renamed[256];
  snprintf(renamed, sizeof renamed, "culprit%s", sum + 1);
  char *reads = strstr(renamed, "broadcast(r)");
  snprintf(reads, sizeof renamed - (size_t)(reads - renamed), "broadcast(culprit), dimensions={}");
  expect(renamed, large, OVERFLOW);
  expect(renamed, both, INVALID);
  expect(renamed, infinite, 0);
}

/* A kernel that could work in place would have lost the operand that tells. */
static void test_update_in_place(void **state) {
  (void)state;
  const float zero[4] = {1, 0, 3, 4};
  expect("y = f32[4] add(x, z)  culprit = f32[4] rsqrt(y)  ROOT r = f32[4] negate(culprit)", zero,
         DIVISION);
}

static void test_half_overflow(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "ENTRY e { x = f16[4] parameter(0)  ROOT culprit = f16[4] multiply(x, x) }\n";
  const uint16_t x[4] = {trm_float_to_half(2), trm_float_to_half(300), trm_float_to_half(-300),
                         trm_float_to_half(INFINITY)};
  uint16_t y[4];
  trm_error error;
  assert_int_equal(run(text, &events[2], 1, x, y, &error), TRM_INTERNAL);
  assert_int_equal(run(text, &events[0], 1, x, y, &error), TRM_OK);
  assert_int_equal(y[1], 0x7c00);
}

/* ---- Too large for a half ------------------------------------------------------------------- */

/* Runs a program of f16[8] -> f16[8] in which `body` computes r of x; by fast kernels, by the
 * optimiser's fusions and by reference kernels. `expected`: with largest; NaN with nan, too, where
 * it is not finite or +-65504. */
static void expect_halves(const char *body, const float *x, const float *expected) {
  static const char *const modes[3][2] = {
      {"optimise", "true"}, {"optimise", "false"}, {"reference", "true"}};
  char text[2048];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "sum { a = f16[] parameter(0)  b = f16[] parameter(1)  ROOT s = f16[] add(a, b) }\n"
           "ENTRY e { x = f16[8] parameter(0)  %s }\n",
           body);
  uint16_t halves[8], y[8];
  for (int i = 0; i < 8; ++i) halves[i] = trm_float_to_half(x[i]);
  for (int m = 0; m < 6; ++m) {
    const bool nan = m >= 3;
    const trm_option options[2] = {{modes[m % 3][0], modes[m % 3][1]},
                                   {"half_overflow", nan ? "nan" : "largest"}};
    trm_executable *executable = compile(text, options, 2);
    trm_engine *engine = NULL;
    trm_error error;
    if (trm_engine_create(executable, &engine, &error) != TRM_OK) fail_msg("%s", error.message);
    const void *inputs[1] = {halves};
    void *outputs[1] = {y};
    if (trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK) {
      fail_msg("%s", error.message);
    }
    trm_engine_free(engine);
    trm_executable_free(executable);
    for (int i = 0; i < 8; ++i) {
      const float found = trm_half_to_float(y[i]);
      const float wanted = nan && fabsf(expected[i]) == 65504 ? NAN : expected[i];
      if (!(found == wanted || (isnan(found) && isnan(wanted)))) {
        fail_msg("mode %d, element %d of %s: %g, not %g", m, i, body, (double)found,
                 (double)wanted);
      }
    }
  }
}

static void test_halves_that_overflow(void **state) {
  (void)state;
  const float x[8] = {2, 300, -300, INFINITY, -INFINITY, NAN, 0, 255};
  expect_halves("y = f16[8] multiply(x, x)  ROOT r = f16[8] multiply(y, x)", x,
                (float[8]){8, 65504, -65504, INFINITY, -INFINITY, NAN, 0, 65504});
  /* What has overflowed inside a fusion is a number there: 65504 / 64. */
  expect_halves("y = f16[8] multiply(x, x)  c = f16[] constant(0.015625)\n"
                "  b = f16[8] broadcast(c), dimensions={}  z = f16[8] multiply(y, b)\n"
                "  m = f16[] constant(1023.5)  l = f16[8] broadcast(m), dimensions={}\n"
                "  e = pred[8] compare(z, l), direction=EQ\n"
                "  ROOT r = f16[8] select(e, y, z)",
                x, (float[8]){0.0625f, 65504, 65504, INFINITY, INFINITY, NAN, 0, 1016});
  expect_halves("w = f32[8] convert(x)  v = f32[8] multiply(w, w)  ROOT r = f16[8] convert(v)", x,
                (float[8]){4, 65504, 65504, INFINITY, INFINITY, NAN, 0, 65024});
  expect_halves("ROOT r = f16[8] exponential(x)", x,
                (float[8]){7.390625f, 65504, 0, INFINITY, 0, NAN, 1, 65504});
}

static void test_poles_of_halves(void **state) {
  (void)state;
  const float x[8] = {2, 0, -0.0f, INFINITY, 4, NAN, 0.5f, 1};
  expect_halves("c = f16[] constant(1)  b = f16[8] broadcast(c), dimensions={}\n"
                "  ROOT r = f16[8] divide(b, x)",
                x, (float[8]){0.5f, NAN, NAN, 0, 0.25f, NAN, 2, 1});
  expect_halves("y = f16[8] multiply(x, x)  ROOT r = f16[8] rsqrt(y)", x,
                (float[8]){0.5f, NAN, NAN, 0, 0.25f, NAN, 2, 1});
  expect_halves("y = f16[8] multiply(x, x)  ROOT r = f16[8] log(y)", x,
                (float[8]){1.38671875f, NAN, NAN, INFINITY, 2.7734375f, NAN, -1.38671875f, 0});
  /* A quotient that is too large is no pole, also where it is a constant. */
  const float small[8] = {0x1p-24f, -0x1p-24f, 0x1p-16f, 1, 2, 4, 8, 16}, many = 65504;
  expect_halves("c = f16[] constant(1)  b = f16[8] broadcast(c), dimensions={}\n"
                "  ROOT r = f16[8] divide(b, x)",
                small, (float[8]){many, -many, many, 1, 0.5f, 0.25f, 0.125f, 0.0625f});
  expect_halves("c = f16[] constant(1)  d = f16[] constant(6e-08)  q = f16[] divide(c, d)\n"
                "  ROOT r = f16[8] broadcast(q), dimensions={}",
                small, (float[8]){many, many, many, many, many, many, many, many});
}

static void test_sums_of_halves_that_overflow(void **state) {
  (void)state;
  const char *sum = "z = f16[] constant(0)  s = f16[] reduce(x, z), dimensions={0}, to_apply=sum\n"
                    "  ROOT r = f16[8] broadcast(s), dimensions={}";
  const float many = 65504;
  expect_halves(sum, (float[8]){60000, 60000, 1, 1, 1, 1, 1, 1},
                (float[8]){many, many, many, many, many, many, many, many});
  expect_halves(sum, (float[8]){-60000, -60000, 1, 1, 1, 1, 1, 1},
                (float[8]){-many, -many, -many, -many, -many, -many, -many, -many});
  expect_halves(
      sum, (float[8]){INFINITY, 60000, 60000, 1, 1, 1, 1, 1},
      (float[8]){INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY});
  expect_halves("a = f16[8,1] reshape(x)  b = f16[1,8] reshape(x)\n"
                "  d = f16[1,1] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                "  s = f16[] reshape(d)  ROOT r = f16[8] broadcast(s), dimensions={}",
                (float[8]){255, 255, 1, 1, 1, 1, 1, 1},
                (float[8]){many, many, many, many, many, many, many, many});
}

/* Events that limits would hide, and what is no event. */
static void test_events_of_halves(void **state) {
  (void)state;
  static const char square[] =
      "HloModule m\n"
      "ENTRY e { x = f16[4] parameter(0)  ROOT culprit = f16[4] multiply(x, x) }\n";
  static const char inverse[] = "HloModule m\nENTRY e { x = f16[4] parameter(0)\n"
                                "  c = f16[] constant(1)  b = f16[4] broadcast(c), dimensions={}\n"
                                "  ROOT culprit = f16[4] divide(b, x) }\n";
  static const char number[] =
      "HloModule m\n"
      "ENTRY e { x = f16[4] parameter(0)  ROOT culprit = s32[4] convert(x) }\n";
  static const struct {
    const char *text, *event, *overflow;
    float x;
    const char *words; /* of the error; NULL: there is none */
  } rows[] = {{square, "overflow", "largest", 300, "FP_OFLO"},
              {square, "overflow", "nan", 300, "FP_OFLO"},
              {square, "invalid", "nan", 300, "FP_INV"},
              {square, "invalid", "largest", 300, NULL},
              {square, "overflow", "largest", INFINITY, NULL},
              {inverse, "overflow", "largest", 0, NULL},
              {inverse, "division_by_zero", "largest", 0, "FP_DIV0"},
              {inverse, "division_by_zero", "nan", 0, "FP_DIV0"},
              {inverse, "invalid", "largest", 0, NULL},
              {number, "invalid", "largest", NAN, "FP_INV"},
              {number, "invalid", "infinity", INFINITY, "FP_INV"},
              {number, "overflow", "largest", NAN, NULL},
              {number, "invalid", "largest", -7.5f, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const trm_option options[2] = {{rows[i].event, "true"}, {"half_overflow", rows[i].overflow}};
    trm_executable *executable = compile(rows[i].text, options, 2);
    trm_engine *engine = NULL;
    trm_error error;
    if (trm_engine_create(executable, &engine, &error) != TRM_OK) fail_msg("%s", error.message);
    const uint16_t one = trm_float_to_half(1);
    const uint16_t x[4] = {one, one, trm_float_to_half(rows[i].x), one};
    uint32_t y[4];
    const void *inputs[1] = {x};
    void *outputs[1] = {y};
    const trm_status status = trm_engine_run(engine, inputs, NULL, outputs, &error);
    trm_engine_free(engine);
    trm_executable_free(executable);
    if ((status == TRM_OK) != (rows[i].words == NULL) ||
        (status != TRM_OK && strstr(error.message, rows[i].words) == NULL)) {
      fail_msg("row %zu: %s", i, status == TRM_OK ? "no error" : error.message);
    }
  }
}

/* ---- Stochastic rounding -------------------------------------------------------------------- */

enum { COUNT = 40000 };

/* Rounds COUNT copies of `value` with a seed. */
static void round_many(const char *attribute, const char *option, float value, uint64_t seed,
                       uint16_t *out_halves) {
  char text[512];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "ENTRY e { x = f32[%d] parameter(0)  ROOT h = f16[%d] convert(x)%s }\n",
           COUNT, COUNT, attribute);
  const trm_option options[1] = {{"stochastic_rounding", option}};
  trm_executable *executable = compile(text, options, 1);
  trm_engine *engine = NULL;
  trm_error error;
  if (trm_engine_create(executable, &engine, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_engine_set_seed(engine, seed);
  float *x = malloc(COUNT * sizeof *x);
  assert_non_null(x);
  for (int i = 0; i < COUNT; ++i) x[i] = value;
  const void *inputs[1] = {x};
  void *outputs[1] = {out_halves};
  if (trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  free(x);
  trm_engine_free(engine);
  trm_executable_free(executable);
}

static double mean(const uint16_t *halves) {
  double sum = 0;
  for (int i = 0; i < COUNT; ++i) sum += (double)trm_half_to_float(halves[i]);
  return sum / COUNT;
}

static void test_mean(void **state) {
  (void)state;
  /* A quarter of the way from a half to the next; the last is a subnormal. */
  static const struct {
    float value, step;
  } cases[] = {{1 + 0x1p-12f, 0x1p-10f},
               {-1000 - 0x1p-3f, 0x1p-1f},
               {9.25f * 0x1p-24f, 0x1p-24f},
               {0.25f * 0x1p-24f, 0x1p-24f}};
  static uint16_t halves[COUNT];
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    round_many("", "on", cases[c].value, 7, halves);
    /* The deviation of the mean is step * sqrt(3/16/COUNT): this is nine of them. */
    const double error = fabs(mean(halves) - (double)cases[c].value) / (double)cases[c].step;
    if (!(error < 0.02)) fail_msg("case %zu: off by %g steps", c, error);
    for (int i = 0; i < COUNT; ++i) {
      const double off = (double)trm_half_to_float(halves[i]) - (double)cases[c].value;
      assert_true(fabs(off) < (double)cases[c].step);
    }
  }
  round_many("", "on", 65519.0f, 7, halves);
  for (int i = 0; i < COUNT; ++i) assert_int_equal(halves[i], 0x7bff);
}

static void test_seeds(void **state) {
  (void)state;
  static uint16_t first[COUNT], again[COUNT], other[COUNT];
  round_many("", "on", 1.0003f, 1, first);
  round_many("", "replica-identical", 1.0003f, 1, again);
  round_many("", "on", 1.0003f, 2, other);
  assert_memory_equal(first, again, sizeof first);
  assert_memory_not_equal(first, other, sizeof first);
}

static void test_attribute(void **state) {
  (void)state;
  static uint16_t halves[COUNT];
  const uint16_t nearest = trm_float_to_half(1.0003f);
  bool differs = false;
  round_many(", frontend_attributes={STOCHASTIC_ROUNDING=\"THREESTATE_ON\"}", "off", 1.0003f, 1,
             halves);
  for (int i = 0; i < COUNT; ++i) differs = differs || halves[i] != nearest;
  assert_true(differs);
  round_many(", frontend_attributes={STOCHASTIC_ROUNDING=\"THREESTATE_OFF\"}", "on", 1.0003f, 1,
             halves);
  for (int i = 0; i < COUNT; ++i) assert_int_equal(halves[i], nearest);
}

/* Sums, dots and loops too: the pass leaves programs valid and the sums right on average. */
static void test_program(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "sum { a = f16[] parameter(0)  b = f16[] parameter(1)  ROOT c = f16[] add(a, b) }\n"
      "cond { s = (s32[], f16[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f16[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  v = f16[8] get-tuple-element(s), index=1  t = f16[8] tanh(v)\n"
      "  ROOT r = (s32[], f16[8]) tuple(j, t) }\n"
      "ENTRY e { x = f16[8,8] parameter(0)  z = f16[] constant(0)  n = s32[] constant(0)\n"
      "  d = f16[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  r = f16[8] reduce(d, z), dimensions={1}, to_apply=sum\n"
      "  t = (s32[], f16[8]) tuple(n, r)  w = (s32[], f16[8]) while(t), condition=cond, body=body\n"
      "  ROOT y = f16[8] get-tuple-element(w), index=1 }\n";
  uint16_t x[64], y[8], nearest[8];
  for (int i = 0; i < 64; ++i) x[i] = trm_float_to_half(0.01f * (float)(i % 7));
  const void *inputs[1] = {x};
  void *outputs[2] = {y, nearest};
  static const trm_option options[2][3] = {
      {{"stochastic_rounding", "on"}, {"verify", "true"}, {"optimise", "true"}},
      {{"stochastic_rounding", "off"}, {"verify", "true"}, {"optimise", "false"}}};
  for (int o = 0; o < 2; ++o) {
    trm_executable *executable = compile(text, options[o], 3);
    trm_engine *engine = NULL;
    trm_error error;
    if (trm_engine_create(executable, &engine, &error) != TRM_OK ||
        trm_engine_run(engine, inputs, NULL, &outputs[o], &error) != TRM_OK) {
      fail_msg("%s", error.message);
    }
    trm_engine_free(engine);
    trm_executable_free(executable);
  }
  for (int i = 0; i < 8; ++i) {
    const float a = trm_half_to_float(y[i]), b = trm_half_to_float(nearest[i]);
    assert_true(fabsf(a - b) <= 0.01f * fabsf(b));
  }
}

static void test_unknown_rounding(void **state) {
  (void)state;
  static const char text[] = "HloModule m\nENTRY e { ROOT x = f16[4] parameter(0) }\n";
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  const trm_option option = {"stochastic_rounding", "true"};
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_compile(module, &option, 1, &executable, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "replica-identical"));
  trm_module_free(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_events),
                                     cmocka_unit_test(test_update_in_place),
                                     cmocka_unit_test(test_half_overflow),
                                     cmocka_unit_test(test_halves_that_overflow),
                                     cmocka_unit_test(test_poles_of_halves),
                                     cmocka_unit_test(test_sums_of_halves_that_overflow),
                                     cmocka_unit_test(test_events_of_halves),
                                     cmocka_unit_test(test_mean),
                                     cmocka_unit_test(test_seeds),
                                     cmocka_unit_test(test_attribute),
                                     cmocka_unit_test(test_program),
                                     cmocka_unit_test(test_unknown_rounding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

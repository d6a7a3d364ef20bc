/* bfloat16 on the host: the numbers are those of the reference kernels, and no reference kernel
 * runs. */
#include <stdbool.h>

#include "../run.h"

enum { COUNT = 4096 };

static uint16_t x[COUNT], y[COUNT];

/* All exponents, ties, and every special value. */
static void fill(uint16_t *values, uint32_t seed, bool is_tame) {
  static const uint16_t special[] = {0x0000, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f7f,
                                     0xff7f, 0x0001, 0x807f, 0x0080, 0x3f80, 0xbf80, 0x7fff};
  enum { SPECIAL = sizeof special / sizeof *special };
  for (int i = 0; i < COUNT; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const uint16_t bits = (uint16_t)(seed >> 16);
    if (is_tame) values[i] = (uint16_t)((bits & 0x80ffu) + 0x3f00u); /* 0.5 to 2, both signs */
    else values[i] = seed >> 28 == 0 ? special[(seed >> 8) % SPECIAL] : bits;
  }
}

static void expect_fast(const char *text, const void *const *inputs, void *const *outputs) {
  char *times;
  test_times(text, inputs, outputs, &times);
  if (strstr(times, "reference.") != NULL) fail_msg("%s", times);
  trm_free(times);
}

static bool is_nan(uint16_t bits) { return (bits & 0x7fffu) > 0x7f80u; }
/* Values in order, both zeros one number. */
static int rank_of(uint16_t bits) {
  return bits & 0x8000u ? -(int)(bits & 0x7fffu) : (int)(bits & 0x7fffu);
}

/* The result of a program, of `size` bytes an element, in each mode. Of bfloat16 it may be `ulps`
 * apart; a NaN is a NaN. */
static void expect(const char *text, int count, size_t size, int ulps) {
  static uint16_t expected[2 * COUNT], output[2 * COUNT];
  const void *inputs[2] = {x, y};
  void *outputs[1] = {expected};
  test_run_mode(text, &test_modes[2], inputs, outputs);
  outputs[0] = output;
  expect_fast(text, inputs, outputs);
  for (int m = 0; m < 2; ++m) {
    memset(output, 0, sizeof output);
    test_run_mode(text, &test_modes[m], inputs, outputs);
    if (size != 2) {
      assert_memory_equal(output, expected, (size_t)count * size);
      continue;
    }
    for (int i = 0; i < count; ++i) {
      if (is_nan(output[i]) && is_nan(expected[i])) continue;
      const int apart = rank_of(output[i]) - rank_of(expected[i]);
      if (apart > ulps || apart < -ulps || is_nan(output[i]) != is_nan(expected[i])) {
        fail_msg("mode %d, element %d of %04x and %04x: %04x instead of %04x of\n%s", m, i, x[i],
                 y[i], output[i], expected[i], text);
      }
    }
  }
}

static void elementwise(const char *body, const char *type, size_t size, int ulps) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e { x = bf16[4096] parameter(0)  y = bf16[4096] parameter(1)\n"
           "  c = bf16[] constant(1.5)  d = bf16[4096] broadcast(c), dimensions={}\n"
           "  ROOT r = %s[4096] %s }\n",
           type, body);
  expect(text, COUNT, size, ulps);
}

static void test_elementwise(void **state) {
  (void)state;
  fill(x, 1, false), fill(y, 2, false);
  static const char *const exact[] = {
      "add(x, y)",      "subtract(x, y)", "multiply(x, y)",
      "divide(x, y)",   "maximum(x, y)",  "minimum(x, y)",
      "negate(x)",      "abs(x)",         "sign(x)",
      "floor(x)",       "ceil(x)",        "sqrt(x)",
      "multiply(x, d)", "clamp(y, x, d)", "round-nearest-even(x)",
  };
  for (size_t i = 0; i < sizeof exact / sizeof *exact; ++i) elementwise(exact[i], "bf16", 2, 0);
  elementwise("compare(x, y), direction=LT", "pred", 1, 0);
  fill(x, 3, true), fill(y, 4, true);
  static const char *const near[] = {"exponential(x)", "tanh(x)", "logistic(x)", "sine(x)"};
  for (size_t i = 0; i < sizeof near / sizeof *near; ++i) elementwise(near[i], "bf16", 2, 1);
  elementwise("convert(x)", "f32", 4, 0);
  elementwise("convert(x)", "s32", 4, 0);
}

/* A float32's NaN has bits that rounding would carry into the sign. */
static void test_long_nans(void **state) {
  (void)state;
  fill(x, 9, true), fill(y, 10, true);
  expect("HloModule m\nENTRY e { x = bf16[4096] parameter(0)  y = bf16[4096] parameter(1)\n"
         "  b = u32[] constant(2147483647)  f = f32[] bitcast-convert(b)\n"
         "  n = f32[4096] broadcast(f), dimensions={}  g = f32[4096] convert(x)\n"
         "  s = f32[4096] add(g, n)  c = bf16[4096] convert(s)  p = pred[4096] compare(x, y),"
         " direction=LT\n"
         "  ROOT r = bf16[4096] select(p, c, y) }\n",
         COUNT, 2, 0);
}

/* Each step rounds, and what is between them is no bfloat16 array. */
static void test_chain(void **state) {
  (void)state;
  fill(x, 5, true), fill(y, 6, true);
  expect("HloModule m\nENTRY e { x = bf16[64,64] parameter(0)  y = bf16[4096] parameter(1)\n"
         "  s = bf16[64] slice(y), slice={[0:64]}  b = bf16[64,64] broadcast(s), dimensions={1}\n"
         "  m = bf16[64,64] multiply(x, b)  t = bf16[64,64] transpose(m), dimensions={1,0}\n"
         "  a = bf16[64,64] add(m, t)  f = f32[64,64] convert(a)  g = f32[64,64] multiply(f, f)\n"
         "  h = bf16[64,64] convert(g)  v = bf16[4096] reshape(h)  p = pred[4096] compare(v, y),"
         " direction=GT\n"
         "  ROOT r = bf16[4096] select(p, v, y) }\n",
         COUNT, 2, 0);
  /* Integers become bfloat16, and a loop keeps its state. */
  expect("HloModule m\n"
         "cond { s = (s32[], bf16[4096]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
         "body { s = (s32[], bf16[4096]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  v = bf16[4096] get-tuple-element(s), index=1  o = s32[] constant(1)\n"
         "  j = s32[] add(i, o)  f = bf16[] convert(j)  b = bf16[4096] broadcast(f),"
         " dimensions={}\n"
         "  w = bf16[4096] multiply(v, b)  ROOT t = (s32[], bf16[4096]) tuple(j, w) }\n"
         "ENTRY e { x = bf16[4096] parameter(0)  y = bf16[4096] parameter(1)\n"
         "  z = s32[] constant(0)  a = bf16[4096] add(x, y)\n"
         "  t = (s32[], bf16[4096]) tuple(z, a)\n"
         "  l = (s32[], bf16[4096]) while(t), condition=cond, body=body\n"
         "  ROOT r = bf16[4096] get-tuple-element(l), index=1 }\n",
         COUNT, 2, 0);
}

/* Bits that change their type inside a chain do not cut it in two. */
static void test_one_fusion(void **state) {
  (void)state;
  static uint16_t output[COUNT];
  const void *inputs[1] = {x};
  void *outputs[1] = {output};
  char *times;
  test_times("HloModule m\nENTRY e { x = bf16[4096] parameter(0)  t = bf16[4096] tanh(x)\n"
             "  ROOT r = bf16[4096] multiply(t, x) }\n",
             inputs, outputs, &times);
  assert_int_equal(test_occurrences(times, "fast.fusion"),
                   2); /* the step's row, and the kernel's */
  trm_free(times);
}

#define BODIES                                                                                \
  "HloModule m\n"                                                                             \
  "add { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] add(a, b) }\n"     \
  "max { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] maximum(a, b) }\n" \
  "ge { a = bf16[] parameter(0)  b = bf16[] parameter(1)\n"                                   \
  "  ROOT c = pred[] compare(a, b), direction=GE }\n"                                         \
  "ENTRY e { x = bf16[64,64] parameter(0)  y = bf16[4096] parameter(1)\n"                     \
  "  z = bf16[] constant(0)  m = bf16[] constant(-inf)\n"

static void test_reductions(void **state) {
  (void)state;
  fill(x, 7, true), fill(y, 8, true);
  expect(BODIES "  ROOT r = bf16[64] reduce(x, z), dimensions={0}, to_apply=add }\n", 64, 2, 1);
  expect(BODIES "  ROOT r = bf16[64] reduce(x, m), dimensions={1}, to_apply=max }\n", 64, 2, 0);
  expect(BODIES "  ROOT r = bf16[32,32] reduce-window(x, m), window={size=3x3 stride=2x2"
                " pad=0_1x0_1}, to_apply=max }\n",
         1024, 2, 0);
  expect(BODIES "  ROOT r = bf16[4096] reduce-window(y, z), window={size=4096 pad=4095_0},"
                " to_apply=add }\n",
         COUNT, 2, 1);
  expect(BODIES "  s = bf16[1024] slice(y), slice={[0:1024]}  t = bf16[32,32] reshape(s)\n"
                "  ROOT r = bf16[64,64] select-and-scatter(x, t, z), window={size=2x2"
                " stride=2x2}, select=ge, scatter=add }\n",
         COUNT, 2, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_elementwise),
                                     cmocka_unit_test(test_chain), cmocka_unit_test(test_long_nans),
                                     cmocka_unit_test(test_reductions),
                                     cmocka_unit_test(test_one_fusion)};
  return cmocka_run_group_tests_name("bfloat16", tests, NULL, NULL);
}

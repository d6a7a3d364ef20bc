/* Casts of floats to integers that cannot hold them: both rules (the option casts), each type, and
 * each way of computing, against the definitions. */
#include <math.h>

#include "../run.h"
#include "base/half.h"

enum { COUNT = 72 }; /* more than any vector's, and a rest */

static const char *const floats[] = {"f16", "bf16", "f32", "f64"};
static const struct {
  const char *name;
  int bits;
  bool is_signed;
} integers[] = {{"s8", 8, true},  {"s16", 16, true},  {"s32", 32, true},  {"s64", 64, true},
                {"u8", 8, false}, {"u16", 16, false}, {"u32", 32, false}, {"u64", 64, false}};
enum { FLOATS = 4, INTEGERS = 8 };

static const double edges[] = {
    0,       -0.0,      0.5,        -0.5,       0.999,     -0.999, 1,        -1,        1.9,
    -1.9,    127,       127.5,      128,        -128,      -128.5, -129,     255,       255.9,
    256,     -256,      32767,      32768,      -32768,    -32769, 65504,    65535,     65536,
    -65536,  0x1p31,    0x1p30,     -0x1p31,    -0x1.2p31, 0x1p32, 0x1.8p32, 0x1p62,    0x1p63,
    -0x1p63, -0x1.8p63, 0x1.8p63,   0x1p64,     1e30,      -1e30,  INFINITY, -INFINITY, NAN,
    3e9,     -3e9,      2147483647, 4294967295, 2147483520};
enum { EDGES = sizeof edges / sizeof *edges };

static double values[FLOATS][COUNT];
static union {
  uint16_t half[COUNT];
  float single[COUNT];
  double wide[COUNT];
} inputs[FLOATS];

static void make_inputs(void) {
  for (int i = 0; i < COUNT; ++i) {
    const float x = (float)edges[i % EDGES];
    inputs[0].half[i] = trm_float_to_half(x);
    inputs[1].half[i] = trm_float_to_bfloat16(x);
    inputs[2].single[i] = x;
    inputs[3].wide[i] = edges[i % EDGES];
    values[0][i] = (double)trm_half_to_float(inputs[0].half[i]);
    values[1][i] = (double)trm_bfloat16_to_float(inputs[1].half[i]);
    values[2][i] = (double)x;
    values[3][i] = edges[i % EDGES];
  }
}

/* The low bits of what the rule says. */
static uint64_t cast(double x, int bits, bool is_signed, bool wraps) {
  const double whole = trunc(x);
  if (!wraps) {
    const double most = ldexp(1, is_signed ? bits - 1 : bits), least = is_signed ? -most : 0;
    if (isnan(x)) return 0;
    if (whole >= most) return UINT64_MAX >> (is_signed ? 65 - bits : 64 - bits);
    if (whole <= least) return is_signed ? UINT64_MAX << (bits - 1) : 0;
    return is_signed ? (uint64_t)(int64_t)whole : (uint64_t)whole;
  }
  if (bits == 64 && !is_signed && whole >= 0x1p63 && whole < 0x1p64) return (uint64_t)whole;
  const int width = bits < 32 || (bits == 32 && is_signed) ? 32 : 64;
  const bool fits = whole >= -ldexp(1, width - 1) && whole < ldexp(1, width - 1);
  return fits ? (uint64_t)(int64_t)whole : UINT64_MAX << (width - 1);
}

static void compute(const char *text, bool wraps, int mode, const void *input, void *output) {
  const trm_option options[] = {
      {"casts", wraps ? "wrap" : "saturate"}, {"verify", "true"}, test_modes[mode]};
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, options, 3, &executable, &error) != TRM_OK ||
      trm_engine_create(executable, &engine, &error) != TRM_OK ||
      trm_engine_run(engine, &input, NULL, &output, &error) != TRM_OK) {
    fail_msg("%s: %s", text, error.message);
  }
  trm_module_free(module);
  trm_executable_free(executable);
  trm_engine_free(engine);
}

static void expect(const char *text, int f, int n, int first, int count, const void *input) {
  const int bytes = integers[n].bits / 8;
  for (int m = 0; m < 6; ++m) {
    const bool wraps = m >= 3;
    uint8_t found[8 * COUNT] = {0};
    compute(text, wraps, m % 3, input, found);
    for (int i = 0; i < count; ++i) {
      const double x = values[f][first + i];
      const uint64_t expected = cast(x, integers[n].bits, integers[n].is_signed, wraps);
      uint64_t got = 0;
      memcpy(&got, found + i * bytes, (size_t)bytes);
      const uint64_t mask = UINT64_MAX >> (64 - integers[n].bits);
      if (got != (expected & mask)) {
        fail_msg("mode %d, %s of %g: %llx, not %llx\n%s", m, integers[n].name, x,
                 (unsigned long long)got, (unsigned long long)(expected & mask), text);
      }
    }
  }
}

/* `format` has the float's type twice or more (%1$s), and the integer's (%2$s). */
static void expect_all(const char *format) {
  for (int f = 0; f < FLOATS; ++f) {
    for (int n = 0; n < INTEGERS; ++n) {
      char text[1024];
      snprintf(text, sizeof text, format, floats[f], integers[n].name);
      expect(text, f, n, 0, COUNT, &inputs[f]);
    }
  }
}

static void test_arrays(void **state) {
  (void)state;
  expect_all("HloModule m\nENTRY e { x = %1$s[72] parameter(0)  ROOT r = %2$s[72] convert(x) }\n");
}

static void test_in_chains(void **state) {
  (void)state;
  expect_all(
      "HloModule m\nENTRY e { x = %1$s[72] parameter(0)  y = %1$s[72] negate(x)\n"
      "  z = %1$s[72] negate(y)  a = %1$s[72] abs(z)  s = pred[72] compare(z, y), direction=EQ\n"
      "  w = %1$s[72] select(s, a, z)  c = %2$s[72] convert(w)  o = %2$s[] constant(5)\n"
      "  b = %2$s[72] broadcast(o), dimensions={}  d = %2$s[72] xor(c, b)\n"
      "  ROOT r = %2$s[72] xor(d, b) }\n");
}

static void test_in_loops(void **state) {
  (void)state;
  expect_all(
      "HloModule m\n"
      "c { s = (s32[], %1$s[72], %2$s[72]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(2)  ROOT r = pred[] compare(i, n), direction=LT }\n"
      "b { s = (s32[], %1$s[72], %2$s[72]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  o = s32[] constant(1)  j = s32[] add(i, o)\n"
      "  x = %1$s[72] get-tuple-element(s), index=1  y = %1$s[72] negate(x)\n"
      "  k = %2$s[72] convert(y)  ROOT t = (s32[], %1$s[72], %2$s[72]) tuple(j, y, k) }\n"
      "ENTRY e { x = %1$s[72] parameter(0)  z = s32[] constant(0)  q = %2$s[] constant(0)\n"
      "  w = %2$s[72] broadcast(q), dimensions={}\n"
      "  t = (s32[], %1$s[72], %2$s[72]) tuple(z, x, w)\n"
      "  l = (s32[], %1$s[72], %2$s[72]) while(t), condition=c, body=b\n"
      "  ROOT r = %2$s[72] get-tuple-element(l), index=2 }\n");
}

static void test_scalars_and_constants(void **state) {
  (void)state;
  for (int n = 0; n < INTEGERS; ++n) {
    for (int i = 0; i < EDGES; ++i) {
      char text[512];
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e { x = f32[] parameter(0)  ROOT r = %s[] convert(x) }\n",
               integers[n].name);
      expect(text, 2, n, i, 1, &inputs[2].single[i]);
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e { x = f32[] parameter(0)  c = f32[] constant(%.9g)\n"
               "  b = f32[3] broadcast(c), dimensions={}  s = f32[1] slice(b), slice={[1:2]}\n"
               "  ROOT r = %s[1] convert(s) }\n",
               (double)inputs[2].single[i], integers[n].name);
      expect(text, 2, n, i, 1, &inputs[2].single[i]);
    }
  }
}

/* Without the option: by the names of TensorFlow's operations. */
static void test_the_rule_by_default(void **state) {
  (void)state;
  static const struct {
    const char *metadata;
    uint8_t expected[3];
  } rows[] = {{"", {0, 255, 0}}, {", metadata={op_type=\"Cast\"}", {255, 44, 0}}};
  const float x[3] = {-1, 300, NAN};
  for (int r = 0; r < 2; ++r) {
    char text[256];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e { x = f32[3] parameter(0)  ROOT r = u8[3] convert(x)%s }\n",
             rows[r].metadata);
    for (int m = 0; m < 3; ++m) {
      uint8_t found[3];
      const void *operands[1] = {x};
      void *results[1] = {found};
      test_run_mode(text, &test_modes[m], operands, results);
      assert_memory_equal(found, rows[r].expected, 3);
    }
  }
}

int main(void) {
  make_inputs();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arrays), cmocka_unit_test(test_in_chains),
      cmocka_unit_test(test_in_loops), cmocka_unit_test(test_scalars_and_constants),
      cmocka_unit_test(test_the_rule_by_default)};
  return cmocka_run_group_tests_name("casts", tests, NULL, NULL);
}

/* Groups of rows: which programs have them, and that their numbers are those without, bit for bit.
 */
#include <math.h>
#include <stdlib.h>

#include "../run.h"

static const trm_option without = {"disabled_passes", "group-rows"};

static bool has_specials; /* among the inputs: zeros, infinities, NaNs, denormals */

static float *make_floats(size_t count, unsigned seed) {
  float *values = malloc(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)seed * 0x1p-29f;
    if (has_specials && i % 509 == 0) {
      static const float specials[] = {-0.0f, 0.0f,   INFINITY, -INFINITY,
                                       NAN,   1e-40f, -3e38f,   80.0f};
      values[i] = specials[i / 509 % 8];
    }
  }
  return values;
}

/* How many groups the compiled program has. */
static size_t count_groups(const char *text) {
  trm_error error;
  char *printed = NULL;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  assert_int_equal(trm_executable_print(executable, &printed, &error), TRM_OK);
  const size_t groups = (size_t)test_occurrences(printed, "tremula.rows");
  trm_free(printed);
  trm_executable_free(executable);
  return groups;
}

/* Runs a program of `num_inputs` arrays of in[i] floats and `num_outputs` of out[i], with and
 * without groups: the same bits. */
static void expect_same(const char *text, size_t groups, size_t num_inputs, const size_t *in,
                        size_t num_outputs, const size_t *out) {
  void *inputs[4], *with_groups[4], *without_groups[4];
  if (count_groups(text) != groups) {
    fail_msg("%zu groups of rows instead of %zu", count_groups(text), groups);
  }
  for (size_t i = 0; i < num_inputs; ++i) inputs[i] = make_floats(in[i], 7 + (unsigned)i);
  for (size_t i = 0; i < num_outputs; ++i) {
    with_groups[i] = calloc(out[i], sizeof(float));
    without_groups[i] = calloc(out[i], sizeof(float));
  }
  test_run_mode(text, &test_modes[0], (const void *const *)inputs, with_groups);
  test_run_mode(text, &without, (const void *const *)inputs, without_groups);
  for (size_t i = 0; i < num_outputs; ++i) {
    const float *a = with_groups[i], *b = without_groups[i];
    for (size_t k = 0; k < out[i]; ++k) {
      if (memcmp(&a[k], &b[k], sizeof a[k]) != 0 && !(isnan(a[k]) && isnan(b[k]))) {
        fail_msg("result %zu, element %zu: %g instead of %g", i, k, (double)a[k], (double)b[k]);
      }
    }
    free(with_groups[i]);
    free(without_groups[i]);
  }
  for (size_t i = 0; i < num_inputs; ++i) free(inputs[i]);
}

#define SUM "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
#define MAXIMUM \
  "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }\n"

/* The last block has fewer rows. */
static void test_softmax(void **state) {
  (void)state;
  const size_t sizes[] = {1009 * 300}; /* 1009 is a prime */
  expect_same(
      "HloModule m\n" SUM MAXIMUM
      "ENTRY e { x = f32[1009,300] parameter(0)  low = f32[] constant(-inf)\n"
      "  m = f32[1009] reduce(x, low), dimensions={1}, to_apply=max\n"
      "  mm = f32[1009,300] broadcast(m), dimensions={0}  d = f32[1009,300] subtract(x, mm)\n"
      "  p = f32[1009,300] exponential(d)  zero = f32[] constant(0)\n"
      "  s = f32[1009] reduce(p, zero), dimensions={1}, to_apply=sum\n"
      "  ss = f32[1009,300] broadcast(s), dimensions={0}\n"
      "  ROOT r = f32[1009,300] divide(p, ss) }\n",
      1, 1, sizes, 1, sizes);
}

/* Two dimensions are the rows of most values, one of others; the gain is read whole, and has as
 * many elements as there are rows. The sum and the mean are results too. */
static void test_layer_norm(void **state) {
  (void)state;
  const size_t in[] = {6 * 48 * 288, 6 * 48 * 288, 288};
  const size_t out[] = {6 * 48 * 288, 6 * 48 * 288, 288};
  expect_same(
      "HloModule m\n" SUM
      "ENTRY e { x = f32[6,48,288] parameter(0)  y = f32[6,48,288] parameter(1)\n"
      "  g = f32[288] parameter(2)  z = f32[6,48,288] add(x, y)  zero = f32[] constant(0)\n"
      "  s = f32[6,48] reduce(z, zero), dimensions={2}, to_apply=sum\n"
      "  n = f32[] constant(0.00347222)  nn = f32[6,48] broadcast(n), dimensions={}\n"
      "  m = f32[6,48] multiply(s, nn)  mm = f32[6,48,288] broadcast(m), dimensions={0,1}\n"
      "  d = f32[6,48,288] subtract(z, mm)  q = f32[6,48,288] multiply(d, d)\n"
      "  t = f32[6,48] reduce(q, zero), dimensions={2}, to_apply=sum\n"
      "  f = f32[288] reshape(t)  ff = f32[288] rsqrt(f)  k = f32[6,48] reshape(ff)\n"
      "  kk = f32[6,48,288] broadcast(k), dimensions={0,1}  a = f32[6,48,288] multiply(d, kk)\n"
      "  gg = f32[6,48,288] broadcast(g), dimensions={2}  b = f32[6,48,288] multiply(a, gg)\n"
      "  mean = f32[288] reshape(m)\n"
      "  ROOT r = (f32[6,48,288], f32[6,48,288], f32[288]) tuple(z, b, mean) }\n",
      1, 3, in, 3, out);
}

/* The columns of an iota and of a slice are the same in every row. */
static void test_iota_and_slice(void **state) {
  (void)state;
  const size_t in[] = {512 * 400}, out[] = {512 * 200, 512};
  expect_same("HloModule m\n" SUM
              "ENTRY e { x = f32[512,400] parameter(0)  c = f32[512,200] iota(), iota_dimension=1\n"
              "  l = f32[512,200] slice(x), slice={[0:512], [100:300]}\n"
              "  a = f32[512,200] multiply(l, c)  zero = f32[] constant(0)\n"
              "  s = f32[512] reduce(a, zero), dimensions={1}, to_apply=sum\n"
              "  ss = f32[512,200] broadcast(s), dimensions={0}  b = f32[512,200] divide(a, ss)\n"
              "  ROOT r = (f32[512,200], f32[512]) tuple(b, s) }\n",
              1, 1, in, 2, out);
}

/* The number of the row, what reads a value of another row, and sums of columns are no rows. */
static void test_other_rows(void **state) {
  (void)state;
  const size_t in[] = {512 * 512}, out[] = {512 * 512};
  expect_same("HloModule m\n" SUM
              "ENTRY e { x = f32[512,512] parameter(0)  zero = f32[] constant(0)\n"
              "  c = f32[512,512] iota(), iota_dimension=0  y = f32[512,512] add(x, c)\n"
              "  v = f32[512,512] reverse(y), dimensions={0}\n"
              "  k = f32[512] reduce(y, zero), dimensions={0}, to_apply=sum\n"
              "  s = f32[512] reduce(v, zero), dimensions={1}, to_apply=sum\n"
              "  ss = f32[512,512] broadcast(s), dimensions={1}\n"
              "  kk = f32[512,512] broadcast(k), dimensions={0}  a = f32[512,512] add(v, ss)\n"
              "  ROOT r = f32[512,512] add(a, kk) }\n",
              0, 1, in, 1, out);
}

/* Sums of rows that are used as columns: what depends on all of them is a group of its own. */
static void test_rows_as_columns(void **state) {
  (void)state;
  const size_t in[] = {512 * 512}, out[] = {512 * 512};
  expect_same("HloModule m\n" SUM
              "ENTRY e { x = f32[512,512] parameter(0)  zero = f32[] constant(0)\n"
              "  y = f32[512,512] multiply(x, x)\n"
              "  s = f32[512] reduce(y, zero), dimensions={1}, to_apply=sum\n"
              "  ss = f32[512,512] broadcast(s), dimensions={1}  a = f32[512,512] add(y, ss)\n"
              "  t = f32[512] reduce(a, zero), dimensions={1}, to_apply=sum\n"
              "  tt = f32[512,512] broadcast(t), dimensions={0}\n"
              "  ROOT r = f32[512,512] subtract(a, tt) }\n",
              2, 1, in, 1, out);
}

/* A path that leaves the group and comes back keeps the group apart. */
static void test_path_outside(void **state) {
  (void)state;
  const size_t in[] = {512 * 512}, out[] = {512 * 512};
  expect_same("HloModule m\n" SUM
              "ENTRY e { x = f32[512,512] parameter(0)  zero = f32[] constant(0)\n"
              "  s = f32[512] reduce(x, zero), dimensions={1}, to_apply=sum\n"
              "  ss = f32[512,512] broadcast(s), dimensions={0}  a = f32[512,512] subtract(x, ss)\n"
              "  d = f32[512,512] dot(a, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
              "  t = f32[512] reduce(d, zero), dimensions={1}, to_apply=sum\n"
              "  tt = f32[512,512] broadcast(t), dimensions={0}  b = f32[512,512] multiply(a, tt)\n"
              "  ROOT r = f32[512,512] add(b, ss) }\n",
              2, 1, in, 1, out);
}

/* Large results go past the caches; in blocks, the last rows are computed twice. */
static void test_large(void **state) {
  (void)state;
  const size_t sizes[] = {(size_t)4099 * 1100};
  expect_same("HloModule m\n" SUM
              "ENTRY e { x = f32[4099,1100] parameter(0)  zero = f32[] constant(0)\n"
              "  s = f32[4099] reduce(x, zero), dimensions={1}, to_apply=sum\n"
              "  ss = f32[4099,1100] broadcast(s), dimensions={0}\n"
              "  ROOT r = f32[4099,1100] subtract(x, ss) }\n",
              1, 1, sizes, 1, sizes);
  const size_t whole[] = {(size_t)4099 * 1088};
  expect_same("HloModule m\n" SUM
              "ENTRY e { x = f32[4099,1088] parameter(0)  zero = f32[] constant(0)\n"
              "  s = f32[4099] reduce(x, zero), dimensions={1}, to_apply=sum\n"
              "  ss = f32[4099,1088] broadcast(s), dimensions={0}\n"
              "  ROOT r = f32[4099,1088] subtract(x, ss) }\n",
              1, 1, whole, 1, whole);
}

/* In a loop the state may be overwritten in place. */
static void test_loop(void **state) {
  (void)state;
  const size_t sizes[] = {512 * 256};
  expect_same(
      "HloModule m\n" SUM
      "cond { t = (s32[], f32[512,256]) parameter(0)  i = s32[] get-tuple-element(t), index=0\n"
      "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { t = (s32[], f32[512,256]) parameter(0)  i = s32[] get-tuple-element(t), index=0\n"
      "  x = f32[512,256] get-tuple-element(t), index=1  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)  zero = f32[] constant(0)  y = f32[512,256] sine(x)\n"
      "  s = f32[512] reduce(y, zero), dimensions={1}, to_apply=sum\n"
      "  ss = f32[512,256] broadcast(s), dimensions={0}  r = f32[512,256] subtract(y, ss)\n"
      "  ROOT u = (s32[], f32[512,256]) tuple(j, r) }\n"
      "ENTRY e { x = f32[512,256] parameter(0)  z = s32[] constant(0)\n"
      "  t = (s32[], f32[512,256]) tuple(z, x)\n"
      "  w = (s32[], f32[512,256]) while(t), condition=cond, body=body\n"
      "  ROOT r = f32[512,256] get-tuple-element(w), index=1 }\n",
      1, 1, sizes, 1, sizes);
}

/* Rows of 64 elements and multiples of that have machine code on some CPUs: sums of one and of
 * several blocks, extremes, numbers of a row between the passes, several results, and inputs that
 * are not numbers. */
static void test_row_programs(void **state) {
  (void)state;
  static const size_t lengths[] = {64, 320, 1024, 1088, 2112, 4096};
  for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; ++i) {
    const size_t n = lengths[i / 2], rows = 300000 / n + 301;
    const size_t in[] = {rows * n, n, rows * n}, out[] = {rows * n, rows, rows * n, rows};
    char text[4000];
    const int length = snprintf(
        text, sizeof text,
        "HloModule m\n" SUM MAXIMUM
        "min { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] minimum(a, b) }\n"
        "ENTRY e { x = f32[%1$zu,%2$zu] parameter(0)  g = f32[%2$zu] parameter(1)\n"
        "  k = f32[%1$zu,%2$zu] parameter(2)  low = f32[] constant(-inf)\n"
        "  top = f32[] constant(1e30)  zero = f32[] constant(0)\n"
        "  zeros = f32[%1$zu,%2$zu] broadcast(zero), dimensions={}\n"
        "  p = pred[%1$zu,%2$zu] compare(k, zeros), direction=LT\n"
        "  y = f32[%1$zu,%2$zu] select(p, zeros, x)\n"
        "  m = f32[%1$zu] reduce(y, low), dimensions={1}, to_apply=max\n"
        "  l = f32[%1$zu] reduce(x, top), dimensions={1}, to_apply=min\n"
        "  mm = f32[%1$zu,%2$zu] broadcast(m), dimensions={0}\n"
        "  d = f32[%1$zu,%2$zu] subtract(y, mm)  e = f32[%1$zu,%2$zu] exponential(d)\n"
        "  s = f32[%1$zu] reduce(e, zero), dimensions={1}, to_apply=sum\n"
        "  t = f32[%1$zu] reduce(k, zero), dimensions={1}, to_apply=sum\n"
        "  u = f32[%1$zu] add(s, t)  v = f32[%1$zu] tanh(u)\n"
        "  ss = f32[%1$zu,%2$zu] broadcast(s), dimensions={0}\n"
        "  vv = f32[%1$zu,%2$zu] broadcast(v), dimensions={0}\n"
        "  q = f32[%1$zu,%2$zu] divide(e, ss)\n"
        "  gg = f32[%1$zu,%2$zu] broadcast(g), dimensions={1}\n"
        "  r = f32[%1$zu,%2$zu] multiply(q, gg)  o = f32[%1$zu,%2$zu] subtract(r, vv)\n"
        "  z = f32[%1$zu] multiply(v, l)\n"
        "  ROOT w = (f32[%1$zu,%2$zu], f32[%1$zu], f32[%1$zu,%2$zu], f32[%1$zu])\n"
        "    tuple(o, z, e, u) }\n",
        rows, n);
    assert_true(length > 0 && (size_t)length < sizeof text);
    has_specials = i % 2 != 0;
    expect_same(text, 1, 3, in, 4, out);
    has_specials = false;
  }
}

/* Rows of bfloat16 are read as they are: the types of bits change inside a group. */
static void test_bfloat16(void **state) {
  (void)state;
  static const size_t lengths[] = {64, 1024, 1000};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    const size_t n = lengths[i], rows = 600000 / n;
    const size_t in[] = {rows * n / 2}, out[] = {rows, rows * n};
    char text[2000];
    snprintf(text, sizeof text,
             "HloModule m\n" SUM
             "ENTRY e { x = bf16[%1$zu,%2$zu] parameter(0)  f = f32[%1$zu,%2$zu] convert(x)\n"
             "  half = f32[] constant(0.5)  halves = f32[%1$zu,%2$zu] broadcast(half), "
             "dimensions={}\n  most = f32[] constant(1e9)\n"
             "  mosts = f32[%1$zu,%2$zu] broadcast(most), dimensions={}\n"
             "  a = f32[%1$zu,%2$zu] abs(f)\n"
             "  p = pred[%1$zu,%2$zu] compare(a, mosts), direction=LT\n"
             "  y = f32[%1$zu,%2$zu] select(p, f, halves)  zero = f32[] constant(0)\n"
             "  s = f32[%1$zu] reduce(y, zero), dimensions={1}, to_apply=sum\n"
             "  r = bf16[%1$zu] convert(s)  t = f32[%1$zu] convert(r)\n"
             "  u = f32[%1$zu,%2$zu] broadcast(t), dimensions={0}\n"
             "  z = f32[%1$zu,%2$zu] add(f, u)\n"
             "  ROOT w = (f32[%1$zu], f32[%1$zu,%2$zu]) tuple(t, z) }\n",
             rows, n);
    expect_same(text, 1, 1, in, 2, out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_softmax),         cmocka_unit_test(test_layer_norm),
      cmocka_unit_test(test_iota_and_slice),  cmocka_unit_test(test_other_rows),
      cmocka_unit_test(test_rows_as_columns), cmocka_unit_test(test_path_outside),
      cmocka_unit_test(test_large),           cmocka_unit_test(test_loop),
      cmocka_unit_test(test_row_programs),    cmocka_unit_test(test_bfloat16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

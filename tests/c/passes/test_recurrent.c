/* Recurrent loops in the host's tail: products of all steps at once, gates in one fusion, no
 * state for nobody; and where that must not happen. The numbers are integers: every order of
 * additions gives the same. */
#include "../run.h"

enum { STEPS = 4, ROWS = 2, INPUTS = 3, UNITS = 16, GATES = 2 * UNITS };

static float x[STEPS * ROWS * INPUTS], w[INPUTS * GATES], r[UNITS * GATES], bias[GATES];

static void fill(float *values, int count, int seed) {
  for (int i = 0; i < count; ++i) values[i] = (float)((i * 7 + seed) % 5 - 2);
}

/* The loop's text. `state` follows the counter: the hidden values, x, w, r and the bias. */
#define STATE "(s32[], f32[2,16], f32[4,2,3], f32[3,32], f32[16,32], f32[32])"
typedef struct variant {
  const char *limit; /* the condition's right side */
  const char *input; /* makes x0 of arrays x and the counter i */
  const char *dot;   /* the product of x0 and v */
  const char *next;  /* the weights of the next turn */
} variant;

static const variant by_gather = {
    "n = s32[] constant(4)",
    "  x0 = f32[2,3] gather(x, i), offset_dims={0,1}, collapsed_slice_dims={0},"
    " start_index_map={0}, index_vector_dim=0, slice_sizes={1,2,3}\n",
    "  d = f32[2,32] dot(x0, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", "v"};

static void print(const variant *one, char *text, size_t size) {
  snprintf(text, size,
           "HloModule m\n"
           "cond { s = " STATE " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  %s  ROOT l = pred[] compare(i, n), direction=LT }\n"
           "body { s = " STATE " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  one = s32[] constant(1)  j = s32[] add(i, one)  zero = s32[] constant(0)\n"
           "  h = f32[2,16] get-tuple-element(s), index=1\n"
           "  x = f32[4,2,3] get-tuple-element(s), index=2\n"
           "  v = f32[3,32] get-tuple-element(s), index=3\n"
           "  r = f32[16,32] get-tuple-element(s), index=4\n"
           "  b = f32[32] get-tuple-element(s), index=5  vn = f32[3,32] negate(v)\n"
           "%s%s"
           "  e = f32[2,32] dot(h, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
           "  f = f32[2,32] add(d, e)  c = f32[2,32] broadcast(b), dimensions={1}\n"
           "  g = f32[2,32] add(f, c)\n"
           "  k = f32[2,16] slice(g), slice={[0:2], [0:16]}\n"
           "  l = f32[2,16] slice(g), slice={[0:2], [16:32]}\n"
           "  m = f32[2,16] maximum(k, l)  o = f32[2,16] sign(m)  q = f32[2,16] subtract(o, k)\n"
           "  t = f32[2,16] sign(q)\n"
           "  ROOT u = " STATE " tuple(j, t, x, %s, r, b) }\n"
           "ENTRY e { p = f32[4,2,3] parameter(0)  v = f32[3,32] parameter(1)\n"
           "  r = f32[16,32] parameter(2)  b = f32[32] parameter(3)  z = s32[] constant(0)\n"
           "  f = f32[] constant(1)  h = f32[2,16] broadcast(f), dimensions={}\n"
           "  t = " STATE " tuple(z, h, p, v, r, b)\n"
           "  l = " STATE " while(t), condition=cond, body=body\n"
           "  ROOT o = f32[2,16] get-tuple-element(l), index=1 }\n",
           one->limit, one->input, one->dot, one->next);
}

/* Whether the product is one before the loop; and the same numbers in all modes. */
static void expect(const variant *one, bool is_batched) {
  char text[8192];
  print(one, text, sizeof text);
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  const int whole = test_occurrences(printed, "dot(f32[4,2,3]");
  const char *entry = strstr(printed, "ENTRY");
  if (whole != is_batched || (is_batched && test_occurrences(entry, "dot(f32[4,2,3]") != 1)) {
    fail_msg("%s:\n%s", is_batched ? "not batched" : "batched", printed);
  }
  /* The bias and both gates: one fusion, and no slice but in it and of the bias. */
  assert_int_equal(test_occurrences(printed, "kind=kLoop"), 1);
  assert_int_equal(test_occurrences(printed, "f32[2,32]{1,0} add("), 0);
  trm_free(printed);
  const void *inputs[4] = {x, w, r, bias};
  const size_t bytes = ROWS * UNITS * sizeof(float);
  test_expect_same_bits(text, inputs, 1, &bytes);
}

static void test_batched(void **state) {
  (void)state;
  expect(&by_gather, true);
  variant one = by_gather;
  one.input = "  y = f32[1,2,3] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,2,3}\n"
              "  x0 = f32[2,3] reshape(y)\n";
  expect(&one, true);
  /* From the back, and beyond the ends: both clamp. */
  one.input = "  ten = s32[] constant(3)  back = s32[] subtract(ten, i)\n"
              "  y = f32[1,2,3] dynamic-slice(x, back, zero, zero), dynamic_slice_sizes={1,2,3}\n"
              "  x0 = f32[2,3] reshape(y)\n";
  expect(&one, true);
  one.input = "  two = s32[] constant(-2)  at = s32[] add(two, i)  more = s32[] multiply(at, at)\n"
              "  last = s32[] add(more, at)\n"
              "  y = f32[1,2,3] dynamic-slice(x, last, zero, zero), dynamic_slice_sizes={1,2,3}\n"
              "  x0 = f32[2,3] reshape(y)\n";
  expect(&one, true);
  /* The dimension of one stays, up to the result. */
  one.input = "  x0 = f32[1,2,3] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,2,3}\n";
  one.dot = "  y = f32[1,2,32] dot(x0, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n"
            "  d = f32[2,32] reshape(y)\n";
  expect(&one, true);
  one = by_gather;
  one.limit = "n = s32[] constant(2)";
  expect(&one, true);
}

static void test_not_batched(void **state) {
  (void)state;
  variant one = by_gather;
  one.limit = "n = s32[] constant(1)"; /* too much would be computed */
  expect(&one, false);
  one = by_gather;
  one.next = "vn"; /* the weights change */
  expect(&one, false);
  one = by_gather; /* other parts than one of the first dimension */
  one.input = "  y = f32[4,1,3] dynamic-slice(x, zero, i, zero), dynamic_slice_sizes={4,1,3}\n"
              "  k0 = f32[4,3] reshape(y)  x0 = f32[2,3] slice(k0), slice={[0:2],[0:3]}\n";
  expect(&one, false);
}

#define SUMS "(s32[], f32[4], f32[4], f32[4])"
/* What is summed up for nobody goes, with what only it reads; `last` of the state is read. */
static void expect_state(int last, const char *limit, int additions) {
  static const float four[4] = {1, 2, 3, 4};
  char text[2048];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "cond { s = " SUMS " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  %s  ROOT l = pred[] compare(i, n), direction=LT }\n"
           "body { s = " SUMS " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
           "  a = f32[4] get-tuple-element(s), index=1  b = f32[4] get-tuple-element(s), index=2\n"
           "  c = f32[4] get-tuple-element(s), index=3  d = f32[4] reverse(b), dimensions={0}\n"
           "  e = f32[4] add(a, d)  f = f32[4] reverse(c), dimensions={0}  g = f32[4] add(b, f)\n"
           "  ROOT r = " SUMS " tuple(j, e, g, c) }\n"
           "ENTRY e { p = f32[4] parameter(0)  z = s32[] constant(0)\n"
           "  t = " SUMS " tuple(z, p, p, p)  w = " SUMS " while(t), condition=cond, body=body\n"
           "  ROOT o = f32[4] get-tuple-element(w), index=%d }\n",
           limit, last);
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  if (test_occurrences(printed, "f32[4]{0} add(") != additions)
    fail_msg("not %d additions:\n%s", additions, printed);
  trm_free(printed);
  const void *inputs[1] = {four};
  float expected[4];
  void *outputs[1] = {expected};
  test_run_mode(text, &test_modes[2], inputs, outputs);
  test_expect_f32(text, inputs, expected, 4);
}

static void test_dropped_state(void **state) {
  (void)state;
  const char *three = "n = s32[] constant(3)";
  expect_state(1, three, 2); /* the first sum reads the second */
  expect_state(2, three, 1);
  expect_state(3, three, 0);
  /* The condition takes the first sum, for nothing; and reads it. */
  expect_state(2, "a = f32[4] get-tuple-element(s), index=1  n = s32[] constant(3)", 1);
  expect_state(3,
               "a = f32[4] get-tuple-element(s), index=1  h = f32[1] slice(a), slice={[0:1]}\n"
               "  f = f32[] reshape(h)  z = f32[] constant(3)  g = f32[] minimum(f, z)\n"
               "  n = s32[] convert(g)",
               2);
}

int main(void) {
  fill(x, STEPS * ROWS * INPUTS, 1);
  fill(w, INPUTS * GATES, 2);
  fill(r, UNITS * GATES, 3);
  fill(bias, GATES, 4);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_batched),
                                     cmocka_unit_test(test_not_batched),
                                     cmocka_unit_test(test_dropped_state)};
  return cmocka_run_group_tests_name("recurrent", tests, NULL, NULL);
}

/* Arrays that a loop fills and another reads part by part: those whose parts are cheap to compute
 * of others are not kept (the pass recompute-slices), and where that must not happen. The numbers
 * are integers, and all modes give the same. */
#include "../run.h"

#define FIRST "(s32[], f32[4], f32[3,4], f32[3,4])"
#define SECOND "(s32[], f32[4], f32[3,4], f32[3,4])"

typedef struct variant {
  const char *turns;  /* of the first loop */
  const char *other;  /* makes o, whose parts are the second array's, of s */
  const char *at;     /* where the first loop writes them: i or back */
  const char *read;   /* makes q, of the second array b, in the second loop */
  const char *next;   /* what the second loop hands on of b */
  const char *after;  /* lines after the second loop */
  const char *result; /* f32[3,4], beside the second loop's own */
} variant;

static const variant usual = {
    .turns = "3",
    .other = "  v = f32[4] subtract(one, s)  o = f32[4] multiply(s, v)\n",
    .at = "i",
    .read = "  c = f32[1,4] dynamic-slice(b, back, zero), dynamic_slice_sizes={1,4}\n"
            "  q = f32[4] reshape(c)\n",
    .next = "b",
    .after = "",
    .result = "p"};

/* `arrays`: how many the first loop fills. */
static void expect(const variant *one, int arrays) {
  char text[8192];
  const int length = snprintf(
      text, sizeof text,
      "HloModule m\n"
      "cond { t = " FIRST " parameter(0)  i = s32[] get-tuple-element(t), index=0\n"
      "  n = s32[] constant(%s)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "cond2 { t = " SECOND " parameter(0)  i = s32[] get-tuple-element(t), index=0\n"
      "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { t = " FIRST " parameter(0)  i = s32[] get-tuple-element(t), index=0\n"
      "  k = s32[] constant(1)  j = s32[] add(i, k)  zero = s32[] constant(0)\n"
      "  two = s32[] constant(2)  back = s32[] subtract(two, i)\n"
      "  x = f32[4] get-tuple-element(t), index=1  a = f32[3,4] get-tuple-element(t), index=2\n"
      "  b = f32[3,4] get-tuple-element(t), index=3  u = f32[] constant(1)\n"
      "  one = f32[4] broadcast(u), dimensions={}  s = f32[4] add(x, x)\n%s"
      "  c = f32[1,4] reshape(s)  d = f32[1,4] reshape(o)\n"
      "  e = f32[3,4] dynamic-update-slice(a, c, i, zero)\n"
      "  f = f32[3,4] dynamic-update-slice(b, d, %s, zero)\n"
      "  y = f32[4] subtract(s, one)  ROOT r = " FIRST " tuple(j, y, e, f) }\n"
      "body2 { t = " SECOND " parameter(0)  i = s32[] get-tuple-element(t), index=0\n"
      "  k = s32[] constant(1)  j = s32[] add(i, k)  zero = s32[] constant(0)\n"
      "  two = s32[] constant(2)  back = s32[] subtract(two, i)\n"
      "  x = f32[4] get-tuple-element(t), index=1  a = f32[3,4] get-tuple-element(t), index=2\n"
      "  b = f32[3,4] get-tuple-element(t), index=3\n%s"
      "  d = f32[1,4] dynamic-slice(a, i, zero), dynamic_slice_sizes={1,4}\n"
      "  e = f32[4] reshape(d)  f = f32[4] subtract(x, q)  g = f32[4] add(f, e)\n"
      "  ROOT r = " SECOND " tuple(j, g, a, %s) }\n"
      "ENTRY e { x = f32[4] parameter(0)  p = f32[3,4] parameter(1)  z = s32[] constant(0)\n"
      "  t = " FIRST " tuple(z, x, p, p)  w = " FIRST " while(t), condition=cond, body=body\n"
      "  y = f32[4] get-tuple-element(w), index=1  a = f32[3,4] get-tuple-element(w), index=2\n"
      "  b = f32[3,4] get-tuple-element(w), index=3  t2 = " SECOND " tuple(z, y, a, b)\n"
      "  w2 = " SECOND " while(t2), condition=cond2, body=body2\n"
      "%s"
      "  g = f32[4] get-tuple-element(w2), index=1  ROOT o = (f32[4], f32[3,4]) tuple(g, %s) }\n",
      one->turns, one->other, one->at, one->read, one->next, one->after, one->result);
  assert_true(length > 0 && (size_t)length < sizeof text);
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  if (test_occurrences(printed, " dynamic-update-slice(") != arrays) {
    fail_msg("not %d arrays:\n%s", arrays, printed);
  }
  trm_free(printed);
  static const float x[4] = {1, -2, 3, 5}, p[12] = {7, 4, -6, 2, 8, 3, 1, -9, 2, 2, 5, 6};
  const void *inputs[2] = {x, p};
  const size_t bytes[2] = {4 * sizeof(float), 12 * sizeof(float)};
  test_expect_same_bits(text, inputs, 2, bytes);
}

static void test_recomputed(void **state) {
  (void)state;
  expect(&usual, 1);
  variant one = usual;
  one.other = "  o = f32[4] negate(s)\n";
  expect(&one, 1);
  one.other = "  o = f32[4] add(s, s)\n"; /* the value that is kept, twice */
  expect(&one, 1);
  /* At any index, also beyond the ends, and twice. */
  one = usual;
  one.read = "  ten = s32[] constant(10)  far = s32[] multiply(i, ten)\n"
             "  c = f32[1,4] dynamic-slice(b, far, zero), dynamic_slice_sizes={1,4}\n"
             "  h = f32[1,4] dynamic-slice(b, back, zero), dynamic_slice_sizes={1,4}\n"
             "  c1 = f32[4] reshape(c)  h1 = f32[4] reshape(h)  q = f32[4] multiply(c1, h1)\n";
  expect(&one, 1);
}

static void test_kept(void **state) {
  (void)state;
  variant one = usual;
  one.turns = "2"; /* a part is what was there before */
  expect(&one, 2);
  one = usual;
  one.at = "back"; /* a part belongs to another one */
  expect(&one, 2);
  one = usual;
  one.other = "  o = f32[4] sign(s)\n"; /* not among the cheap ones */
  expect(&one, 2);
  one.other = "  o = f32[4] subtract(one, x)\n"; /* of what is not kept */
  expect(&one, 2);
  one = usual;
  one.read = "  h = f32[12] reshape(b)  q = f32[4] slice(h), slice={[2:6]}\n";
  expect(&one, 2);
  one = usual;
  one.next = "h"; /* it changes */
  one.read = "  h = f32[3,4] negate(b)\n"
             "  c = f32[1,4] dynamic-slice(b, back, zero), dynamic_slice_sizes={1,4}\n"
             "  q = f32[4] reshape(c)\n";
  expect(&one, 2);
  one = usual;
  one.result = "b"; /* somebody else wants it */
  expect(&one, 2);
  one.after = "  c = f32[3,4] get-tuple-element(w2), index=3\n";
  one.result = "c";
  expect(&one, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_recomputed),
                                     cmocka_unit_test(test_kept)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

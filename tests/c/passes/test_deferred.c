/* Sums of products over the turns of a loop: one product after the loop, where nobody sees the sums
 * in between; and arrays that a loop fills, whose first contents nobody sees. The numbers are
 * integers: every order of additions gives the same. */
#include "../run.h"

enum { TURNS = 5, ROWS = 2, LEFT = 8, RIGHT = 6, ALL = TURNS * ROWS * RIGHT, SUMS = LEFT * RIGHT };

static float stacked[ALL], first[SUMS];

#define STATE "(s32[], f32[8,6], f32[2,8], f32[5,2,6], f32[8,6])"
typedef struct variant {
  const char *limit;   /* ends the condition: pred l */
  const char *operand; /* makes b */
  const char *sum;     /* makes the next sum t of product d, or of another */
  const char *more;    /* the last element's next value */
} variant;

static const variant by_counter = {
    "ROOT l = pred[] compare(i, n), direction=LT",
    "y = f32[1,2,6] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,2,6}\n"
    "  b = f32[2,6] reshape(y)",
    "t = f32[8,6] add(s1, d)", "s4"};

static void print(const variant *one, char *text, size_t size) {
  snprintf(text, size,
           "HloModule m\n"
           "cond { s = " STATE " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  unread = f32[8,6] get-tuple-element(s), index=1\n"
           "  n = s32[] constant(5)  %s }\n"
           "body { s = " STATE " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  one = s32[] constant(1)  j = s32[] add(i, one)  zero = s32[] constant(0)\n"
           "  five = s32[] constant(5)\n"
           "  s1 = f32[8,6] get-tuple-element(s), index=1\n"
           "  a = f32[2,8] get-tuple-element(s), index=2\n"
           "  x = f32[5,2,6] get-tuple-element(s), index=3\n"
           "  s4 = f32[8,6] get-tuple-element(s), index=4\n"
           "  r = f32[2,8] reverse(a), dimensions={1}  f = f32[] convert(i)\n"
           "  g = f32[2,8] broadcast(f), dimensions={}  next = f32[2,8] subtract(g, r)\n"
           "  %s\n"
           "  d = f32[8,6] dot(next, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
           "  %s\n"
           "  ROOT u = " STATE " tuple(j, t, next, x, %s) }\n"
           "ENTRY e { x = f32[5,2,6] parameter(0)  p = f32[8,6] parameter(1)\n"
           "  z = s32[] constant(0)  f = f32[] constant(1)\n"
           "  a = f32[2,8] broadcast(f), dimensions={}\n"
           "  t = " STATE " tuple(z, p, a, x, p)\n"
           "  l = " STATE " while(t), condition=cond, body=body\n"
           "  o = f32[8,6] get-tuple-element(l), index=1\n"
           "  q = f32[8,6] get-tuple-element(l), index=4\n"
           "  v = f32[8,6] subtract(o, q)  ROOT w = (f32[8,6], f32[8,6]) tuple(o, v) }\n",
           one->limit, one->operand, one->sum, one->more);
}

/* How many products are after the loop, and how many arrays the loop keeps for them. */
static void expect(const variant *one, int products, int kept) {
  char text[8192];
  print(one, text, sizeof text);
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  const char *entry = strstr(printed, "ENTRY");
  if (test_occurrences(entry, " dot(") != products ||
      test_occurrences(printed, "dynamic-update-slice(") != kept) {
    fail_msg("not %d products of %d arrays:\n%s", products, kept, printed);
  }
  trm_free(printed);
  const void *inputs[2] = {stacked, first};
  const size_t bytes[2] = {SUMS * sizeof(float), SUMS * sizeof(float)};
  test_expect_same_bits(text, inputs, 2, bytes);
}

static void test_deferred(void **state) {
  (void)state;
  expect(&by_counter, 1, 1); /* the other operand is an array already */
  variant one = by_counter;
  one.operand = "back = s32[] subtract(five, i)  k = s32[] subtract(back, one)\n"
                "  y = f32[1,2,6] dynamic-slice(x, k, zero, zero), dynamic_slice_sizes={1,2,6}\n"
                "  b = f32[2,6] reshape(y)";
  expect(&one, 1, 1);
  one.operand = "below = pred[] compare(i, zero), direction=LT  above = s32[] add(i, five)\n"
                "  k = s32[] select(below, above, i)\n"
                "  y = f32[1,2,6] dynamic-slice(x, k, zero, zero), dynamic_slice_sizes={1,2,6}\n"
                "  b = f32[2,6] reshape(y)";
  expect(&one, 1, 1);
  one.operand = "c = f32[2,6] slice(r), slice={[0:2], [1:7]}  b = f32[2,6] negate(c)";
  expect(&one, 1, 2);
  /* A part that comes twice: the values are kept. */
  one.operand = "y = f32[1,2,6] dynamic-slice(x, j, zero, zero), dynamic_slice_sizes={1,2,6}\n"
                "  b = f32[2,6] reshape(y)";
  expect(&one, 1, 2);
  one = by_counter;
  one.sum = "e = f32[6,8] dot(b, next), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
            "  h = f32[8,6] transpose(e), dimensions={1,0}  t = f32[8,6] add(h, s1)";
  expect(&one, 1, 1);
  one = by_counter; /* two sums, which share what is kept */
  one.more = "w";
  one.sum = "t = f32[8,6] add(s1, d)\n"
            "  e = f32[8,6] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
            "  w = f32[8,6] add(s4, e)";
  expect(&one, 2, 2);
}

static void test_not_deferred(void **state) {
  (void)state;
  variant one = by_counter;
  one.more = "s1"; /* the sum of the turn before is read */
  expect(&one, 0, 0);
  one = by_counter;
  one.more = "t";
  expect(&one, 0, 0);
  one = by_counter;
  one.more = "d"; /* the product is read */
  expect(&one, 0, 0);
  one = by_counter;
  one.sum = "t = f32[8,6] subtract(s1, d)";
  expect(&one, 0, 0);
  one = by_counter; /* the condition reads the sum, and may end the loop */
  one.limit = "g = f32[1,1] slice(unread), slice={[0:1], [0:1]}  f = f32[] reshape(g)\n"
              "  most = f32[] constant(40)  m = pred[] compare(f, most), direction=LT\n"
              "  k = pred[] compare(i, n), direction=LT  ROOT l = pred[] and(k, m)";
  expect(&one, 0, 0);
  one = by_counter; /* too few turns */
  one.limit = "three = s32[] constant(3)  ROOT l = pred[] compare(i, three), direction=LT";
  expect(&one, 0, 0);
}

/* ---- Filled arrays -------------------------------------------------------------------------- */

#define FILL "(s32[], f32[4,3], f32[3])"
/* What is in an array of sevens after a loop that writes parts. */
static void expect_filled(const char *limit, const char *index, const char *part, int copies) {
  char text[4096];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "cond { s = " FILL " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  a = f32[4,3] get-tuple-element(s), index=1\n"
           "  n = s32[] constant(%s)  ROOT l = pred[] compare(i, n), direction=LT }\n"
           "body { s = " FILL " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  one = s32[] constant(1)  j = s32[] add(i, one)  zero = s32[] constant(0)\n"
           "  three = s32[] constant(3)  a = f32[4,3] get-tuple-element(s), index=1\n"
           "  v = f32[3] get-tuple-element(s), index=2  w = f32[3] multiply(v, v)\n"
           "  %s  p = f32[1,3] reshape(%s)\n"
           "  u = f32[4,3] dynamic-update-slice(a, p, k, zero)\n"
           "  ROOT t = " FILL " tuple(j, u, w) }\n"
           "ENTRY e { v = f32[3] parameter(0)  f = f32[] constant(7)  z = s32[] constant(0)\n"
           "  a = f32[4,3] broadcast(f), dimensions={}  t = " FILL " tuple(z, a, v)\n"
           "  l = " FILL " while(t), condition=cond, body=body\n"
           "  ROOT o = f32[4,3] get-tuple-element(l), index=1 }\n",
           limit, index, part);
  static const float two[3] = {1, -1, 2};
  const void *inputs[1] = {two};
  float expected[12];
  void *outputs[1] = {expected};
  test_run_mode(text, &test_modes[2], inputs, outputs);
  test_expect_f32(text, inputs, expected, 12);
  char *times;
  test_times(text, inputs, outputs, &times);
  if (test_occurrences(times, "= f32[4,3] broadcast(") != copies)
    fail_msg("not %d:\n%s", copies, times);
  trm_free(times);
}

static void test_filled(void **state) {
  (void)state;
  expect_filled("4", "k = s32[] add(i, zero)", "v", 0);
  expect_filled("4", "k = s32[] subtract(three, i)", "v", 0);
  /* One part stays as it was. */
  expect_filled("3", "k = s32[] add(i, zero)", "v", 1);
  expect_filled("4", "k = s32[] add(zero, one)", "v", 1);
  expect_filled("4", "k = s32[] add(i, one)", "v", 1);
  /* The loop reads what it has not written. */
  expect_filled("4",
                "k = s32[] add(i, zero)\n"
                "  y = f32[1,3] slice(a), slice={[3:4], [0:3]}  x = f32[3] reshape(y)",
                "x", 1);
}

int main(void) {
  for (int i = 0; i < ALL; ++i) stacked[i] = (float)(i * 7 % 5 - 2);
  for (int i = 0; i < SUMS; ++i) first[i] = (float)(i * 3 % 7 - 3);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_deferred),
                                     cmocka_unit_test(test_not_deferred),
                                     cmocka_unit_test(test_filled)};
  return cmocka_run_group_tests_name("deferred", tests, NULL, NULL);
}

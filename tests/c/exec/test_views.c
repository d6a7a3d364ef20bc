/* Parts of arrays that loops read where they are: every index, wherever the array comes from. */
#include "../run.h"

#define CONDITION(name, state, turns)                                             \
  name " { s = " state " parameter(0)  i = s32[] get-tuple-element(s), index=0\n" \
       "  n = s32[] constant(" turns ")  ROOT c = pred[] compare(i, n), direction=LT }\n"

/* Indices before the beginning and behind the end: they are moved to the nearest part. */
#define STATE "(s32[], f32[2], f32[3,2])"
static const char of_input[] = "HloModule m\n" CONDITION(
    "more", STATE,
    "6") "turn { s = " STATE " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  a = f32[2] get-tuple-element(s), index=1  x = f32[3,2] get-tuple-element(s), index=2\n"
         "  two = s32[] constant(2)  at = s32[] subtract(i, two)  z = s32[] constant(0)\n"
         "  p = f32[1,2] dynamic-slice(x, at, z), dynamic_slice_sizes={1,2}  q = f32[2] reshape(p)\n"
         "  t = f32[] constant(10)  u = f32[2] broadcast(t), dimensions={}  b = f32[2] multiply(a, u)\n"
         "  c = f32[2] add(b, q)  one = s32[] constant(1)  j = s32[] add(i, one)\n"
         "  ROOT r = " STATE " tuple(j, c, x) }\n"
         "ENTRY e { x = f32[3,2] parameter(0)  i = s32[] constant(0)  z = f32[] constant(0)\n"
         "  a = f32[2] broadcast(z), dimensions={}  s = " STATE " tuple(i, a, x)\n"
         "  l = " STATE " while(s), condition=more, body=turn\n"
         "  ROOT y = f32[2] get-tuple-element(l), index=1 }\n";
#undef STATE

static void test_parts_of_an_input(void **state) {
  (void)state;
  static const float x[6] = {1, 4, 2, 5, 3, 6}, expected[2] = {111233, 444566};
  const void *inputs[1] = {x};
  test_expect_f32(of_input, inputs, expected, 2);
}

/* One loop writes a stack, the next reads it backwards; the part itself is the state. */
#define STATE "(s32[], f32[4,2])"
#define BACK "(s32[], f32[2], f32[2], f32[4,2])"
static const char of_stack[] = "HloModule m\n" CONDITION("more", STATE, "4") CONDITION(
    "again", BACK,
    "4") "push { s = " STATE " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  x = f32[4,2] get-tuple-element(s), index=1  z = s32[] constant(0)\n"
         "  p = f32[1,2] dynamic-slice(x, i, z), dynamic_slice_sizes={1,2}\n"
         "  f = f32[] convert(i)  g = f32[1,2] broadcast(f), dimensions={}  q = f32[1,2] add(p, g)\n"
         "  y = f32[4,2] dynamic-update-slice(x, q, i, z)  t = f32[1,2] multiply(p, q)\n"
         "  w = f32[4,2] dynamic-update-slice(y, t, z, z)\n"
         "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
         "  ROOT r = " STATE " tuple(j, w) }\n"
         "pop { s = " BACK " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  a = f32[2] get-tuple-element(s), index=1  b = f32[2] get-tuple-element(s), index=2\n"
         "  x = f32[4,2] get-tuple-element(s), index=3  three = s32[] constant(3)\n"
         "  at = s32[] subtract(three, i)  z = s32[] constant(0)\n"
         "  p = f32[1,2] dynamic-slice(x, at, z), dynamic_slice_sizes={1,2}  q = f32[2] reshape(p)\n"
         "  m = f32[2] add(a, a)  c = f32[2] add(m, b)\n"
         "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
         "  ROOT r = " BACK " tuple(j, c, q, x) }\n"
         "ENTRY e { x = f32[4,2] parameter(0)  i = s32[] constant(0)  s = " STATE " tuple(i, x)\n"
         "  l = " STATE " while(s), condition=more, body=push\n"
         "  w = f32[4,2] get-tuple-element(l), index=1  z = f32[] constant(1)\n"
         "  a = f32[2] broadcast(z), dimensions={}  k = " BACK " tuple(i, a, a, w)\n"
         "  b = " BACK " while(k), condition=again, body=pop\n"
         "  ROOT y = f32[2] get-tuple-element(b), index=1 }\n";
#undef STATE

static void test_parts_of_a_stack(void **state) {
  (void)state;
  static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float stack[4][2], expected[2];
  for (int c = 0; c < 2; ++c) {
    for (int r = 0; r < 4; ++r) stack[r][c] = x[2 * r + c];
    for (int i = 0; i < 4; ++i) {
      const float old = stack[i][c], new = old + (float)i;
      stack[i][c] = new;
      stack[0][c] = old * new;
    }
    float a = 1, b = 1;
    for (int i = 0; i < 4; ++i) {
      a = 2 * a + b;
      b = stack[3 - i][c];
    }
    expected[c] = a;
  }
  const void *inputs[1] = {x};
  test_expect_f32(of_stack, inputs, expected, 2);
}

/* The condition is a part of an array, and a loop inside reads a part that the outer one found. */
#define OUTER "(s32[], f32[2], pred[4], f32[3,2])"
#define INNER "(s32[], f32[2], f32[2])"
static const char nested[] = "HloModule m\n" CONDITION(
    "more", INNER,
    "3") "goes { s = " OUTER " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  p = pred[4] get-tuple-element(s), index=2\n"
         "  q = pred[1] dynamic-slice(p, i), dynamic_slice_sizes={1}  ROOT c = pred[] reshape(q) }\n"
         "inner { s = " INNER " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  a = f32[2] get-tuple-element(s), index=1  q = f32[2] get-tuple-element(s), index=2\n"
         "  b = f32[2] add(a, q)  one = s32[] constant(1)  j = s32[] add(i, one)\n"
         "  ROOT r = " INNER " tuple(j, b, q) }\n"
         "outer { s = " OUTER " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
         "  a = f32[2] get-tuple-element(s), index=1  p = pred[4] get-tuple-element(s), index=2\n"
         "  x = f32[3,2] get-tuple-element(s), index=3  z = s32[] constant(0)\n"
         "  v = f32[1,2] dynamic-slice(x, i, z), dynamic_slice_sizes={1,2}  q = f32[2] reshape(v)\n"
         "  t = f32[] constant(10)  u = f32[2] broadcast(t), dimensions={}  b = f32[2] multiply(a, u)\n"
         "  n = " INNER " tuple(z, b, q)  l = " INNER " while(n), condition=more, body=inner\n"
         "  c = f32[2] get-tuple-element(l), index=1  one = s32[] constant(1)  j = s32[] add(i, one)\n"
         "  ROOT r = " OUTER " tuple(j, c, p, x) }\n"
         "ENTRY e { x = f32[3,2] parameter(0)  i = s32[] constant(0)  z = f32[] constant(0)\n"
         "  p = pred[4] constant({1,1,1,0})  a = f32[2] broadcast(z), dimensions={}\n"
         "  s = " OUTER " tuple(i, a, p, x)  l = " OUTER " while(s), condition=goes, body=outer\n"
         "  ROOT y = f32[2] get-tuple-element(l), index=1 }\n";

static void test_parts_in_nested_loops(void **state) {
  (void)state;
  static const float x[6] = {1, 3, 2, 2, 3, 1}, expected[2] = {369, 963};
  const void *inputs[1] = {x};
  test_expect_f32(nested, inputs, expected, 2);
}

/* And that they are no copies: the table of times has their steps. */
static void test_parts_are_not_copied(void **state) {
  (void)state;
  static const float x[6];
  float y[2];
  const void *inputs[1] = {x};
  void *outputs[1] = {y};
  char *text;
  test_times(of_input, inputs, outputs, &text);
  assert_non_null(strstr(text, " view "));
  assert_null(strstr(text, "fast.dynamic-slice"));
  trm_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts_of_an_input),
      cmocka_unit_test(test_parts_of_a_stack),
      cmocka_unit_test(test_parts_in_nested_loops),
      cmocka_unit_test(test_parts_are_not_copied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

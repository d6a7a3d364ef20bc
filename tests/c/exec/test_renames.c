/* Instructions that need no step: transposes of products, and sizes that an array has already. The
 * same numbers in every mode. */
#include "../run.h"

#include <stdlib.h>

typedef struct shape {
  const char *lhs, *rhs, *dot, *numbers, *out, *permutation;
  int lhs_count, rhs_count, count;
  bool is_renamed;
} shape;

static const shape shapes[] = {
    {"5,7", "5,9", "7,9", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", "9,7", "1,0", 35,
     45, 63, true},
    {"7,5", "5,9", "7,9", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", "9,7", "1,0", 35,
     45, 63, true},
    {"3,7,5", "3,5,9", "3,7,9",
     "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
     "3,9,7", "0,2,1", 105, 135, 189, true},
    {"2,3,5", "5,4", "2,3,4", "lhs_contracting_dims={2}, rhs_contracting_dims={0}", "4,2,3",
     "2,0,1", 30, 20, 24, true},
    /* Another order than that of the operands. */
    {"2,3,5", "5,4", "2,3,4", "lhs_contracting_dims={2}, rhs_contracting_dims={0}", "3,4,2",
     "1,2,0", 30, 20, 24, false},
};

static void write_program(const shape *s, const char *type, bool also_used, char *text,
                          size_t size) {
  snprintf(text, size,
           "HloModule m\nENTRY e { x = f32[%s] parameter(0)  y = f32[%s] parameter(1)\n"
           "  a = %s[%s] convert(x)  b = %s[%s] convert(y)\n"
           "  d = %s[%s] dot(a, b), %s\n  t = %s[%s] transpose(d), dimensions={%s}\n"
           "  u = f32[%s] convert(t)  v = f32[%s] convert(d)\n"
           "  ROOT r = (f32[%s], f32[%s]) tuple(u, %s) }\n",
           s->lhs, s->rhs, type, s->lhs, type, s->rhs, type, s->dot, s->numbers, type, s->out,
           s->permutation, s->out, s->dot, s->out, also_used ? s->dot : s->out,
           also_used ? "v" : "u");
}

static void test_same_numbers(void **state) {
  (void)state;
  float x[105], y[135];
  for (int i = 0; i < 105; ++i) x[i] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < 135; ++i) y[i] = (float)(i * 5 % 13 - 6);
  const void *inputs[2] = {x, y};
  for (size_t i = 0; i < 4 * (sizeof shapes / sizeof *shapes); ++i) {
    const shape *s = &shapes[i / 4];
    char text[1024];
    write_program(s, i % 2 == 0 ? "f32" : "f16", i / 2 % 2 == 1, text, sizeof text);
    float got[2][189] = {{0}}, want[2][189] = {{0}};
    void *outputs[2] = {got[0], got[1]}, *expected[2] = {want[0], want[1]};
    test_run_mode(text, &test_modes[2], inputs, expected);
    for (int m = 0; m < 2; ++m) {
      test_run_mode(text, &test_modes[m], inputs, outputs);
      assert_memory_equal(got, want, sizeof got); /* small whole numbers: sums are exact */
    }
  }
}

static void test_nothing_is_moved(void **state) {
  (void)state;
  static float x[105], y[135], u[189], v[189];
  const void *inputs[2] = {x, y};
  void *outputs[2] = {u, v};
  for (size_t i = 0; i < 2 * (sizeof shapes / sizeof *shapes); ++i) {
    const shape *s = &shapes[i / 2];
    const bool also_used = i % 2 == 1;
    char text[1024];
    write_program(s, "f32", also_used, text, sizeof text);
    char *times;
    test_times(text, inputs, outputs, &times);
    assert_non_null(strstr(times, ".dot"));
    assert_int_equal(strstr(times, "fast.move") == NULL, s->is_renamed && !also_used);
    trm_free(times);
  }
}

static void test_sizes_that_are_set_already(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e { x = f32[2,3] parameter(0)  n = s32[] constant(3)\n"
      "  y = f32[2,3] set-dimension-size(x, n), dimensions={1}\n"
      "  z = f32[2,3] negate(y)  ROOT r = (f32[2,3], f32[2,3]) tuple(y, z) }\n";
  static const float x[6] = {1, 2, 3, 4, 5, 6};
  const void *inputs[1] = {x};
  for (int m = 0; m < 3; ++m) {
    float y[6] = {0}, z[6] = {0};
    void *outputs[2] = {y, z};
    test_run_mode(text, &test_modes[m], inputs, outputs);
    for (int i = 0; i < 6; ++i) assert_true(y[i] == x[i] && z[i] == -x[i]);
  }
  float y[6], z[6];
  void *outputs[2] = {y, z};
  char *times;
  test_times(text, inputs, outputs, &times);
  assert_null(strstr(times, "reference."));
  trm_free(times);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_numbers),
      cmocka_unit_test(test_nothing_is_moved),
      cmocka_unit_test(test_sizes_that_are_set_already),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

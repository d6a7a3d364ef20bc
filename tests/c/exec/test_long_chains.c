/* Long elementwise chains: the host computes them in one step, with the same bits. */
#include "../run.h"

#include <stdlib.h>

enum { COUNT = 1000, LENGTH = 120 };

/* x = tanh(x * 1.01 + y) and so on, LENGTH times. */
static void write_chain(const char *type, char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size,
                                 "HloModule m\nENTRY e { x = f32[%d] parameter(0)\n"
                                 "  y = f32[%d] parameter(1)  w = %s[%d] convert(y)\n"
                                 "  c = %s[] constant(0.99)  b = %s[%d] broadcast(c), "
                                 "dimensions={}\n  s0 = %s[%d] convert(x)\n",
                                 COUNT, COUNT, type, COUNT, type, type, COUNT, type, COUNT);
  static const char *const before[] = {"multiply(b, ", "add(w, ", "tanh(", "subtract(w, ",
                                       "maximum(b, "};
  for (int i = 0; i < LENGTH; ++i) {
    used += (size_t)snprintf(text + used, size - used, "  s%d = %s[%d] %ss%d)\n", i + 1, type,
                             COUNT, before[i % 5], i);
  }
  snprintf(text + used, size - used, "  ROOT r = f32[%d] convert(s%d) }\n", COUNT, LENGTH);
}

static void test_one_step_and_the_same_bits(void **state) {
  (void)state;
  static float x[COUNT], y[COUNT], got[COUNT], want[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    x[i] = (float)(i % 37) / 8 - 2;
    y[i] = (float)(i % 23) / 16 - 0.5f;
  }
  const void *inputs[2] = {x, y};
  for (int t = 0; t < 2; ++t) {
    static char text[16384];
    write_chain(t == 0 ? "f32" : "f16", text, sizeof text);
    void *outputs[1] = {want};
    test_run_mode(text, &test_modes[1], inputs, outputs); /* every instruction by itself */
    outputs[0] = got;
    test_run_mode(text, &test_modes[0], inputs, outputs);
    assert_memory_equal(got, want, sizeof got);

    trm_error error;
    char *times, *module;
    test_times(text, inputs, outputs, &times);
    trm_executable *executable = test_compile(text, &test_modes[0]);
    assert_int_equal(trm_executable_print(executable, &module, &error), TRM_OK);
    assert_int_equal(test_occurrences(times, "fast.fusion"), 2); /* a step, a sum */
    assert_int_equal(test_occurrences(module, "kind=kLoop"), 1);
    trm_free(times);
    trm_free(module);
    trm_executable_free(executable);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_step_and_the_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

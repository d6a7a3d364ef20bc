/* Which convolutions the pass multi-conv makes one custom call. */
#include "../run.h"
#include "passes/pass.h"

static int calls_in(const char *text) {
  trm_error error;
  trm_module *module = NULL;
  char *printed;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  if (trm_passes_run_ipu(module, NULL, NULL, &error) != TRM_OK) fail_msg("%s", error.message);
  assert_int_equal(trm_module_verify(module, &error), TRM_OK);
  assert_int_equal(trm_module_print(module, &printed, &error), TRM_OK);
  const int found = test_occurrences(printed, "custom_call_target=\"tremula.multi-conv\"");
  trm_free(printed);
  trm_module_free(module);
  return found;
}

#define INPUTS                                                                            \
  "HloModule m\nENTRY e { x = f32[1,4,4,2] parameter(0)  y = f32[1,4,4,2] parameter(1)\n" \
  "  w = f32[1,1,2,2] parameter(2)\n"
#define CONVOLUTION(name, of, scope, type)                                            \
  "  " name " = f32[1,4,4,2] convolution(" of ", w), window={size=1x1},\n"            \
  "    dim_labels=b01f_01io->b01f, frontend_attributes={multi_conv=\"" scope "\"},\n" \
  "    metadata={op_type=\"" type "\" op_name=\"" name "\"}\n"
#define RESULTS "  ROOT t = (f32[1,4,4,2], f32[1,4,4,2]) tuple(a, b) }\n"

static void test_together(void **state) {
  (void)state;
  assert_int_equal(calls_in(INPUTS CONVOLUTION("a", "x", "s", "Conv2D")
                                CONVOLUTION("b", "y", "s", "Conv2D") RESULTS),
                   1);
}

/* Two calls of multi_conv(), two kinds, and convolutions of which one needs the other. */
static void test_apart(void **state) {
  (void)state;
  assert_int_equal(calls_in(INPUTS CONVOLUTION("a", "x", "s", "Conv2D")
                                CONVOLUTION("b", "y", "t", "Conv2D") RESULTS),
                   0);
  assert_int_equal(calls_in(INPUTS CONVOLUTION("a", "x", "s", "Conv2D")
                                CONVOLUTION("b", "y", "s", "Conv2DBackpropInput") RESULTS),
                   0);
  assert_int_equal(
      calls_in(
          INPUTS CONVOLUTION("a", "x", "s", "Conv2D") "  n = f32[1,4,4,2] negate(a)\n" CONVOLUTION(
              "b", "n", "s", "Conv2D") RESULTS),
      0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_together), cmocka_unit_test(test_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

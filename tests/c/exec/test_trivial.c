/* Which programs need no device. */
#include "../run.h"
#include "tremula/inspect.h"

static const struct {
  const char *text;
  bool is_trivial;
} rows[] = {
    /* all results are constants */
    {"HloModule m\nENTRY e { z = f32[] constant(0)  c = s32[2] constant({1, 2})\n"
     "  ROOT t = (f32[], s32[2]) tuple(z, c) }\n",
     true},
    {"HloModule m\nENTRY e { z = f32[] constant(0)\n"
     "  ROOT z2 = f32[2,3] broadcast(z), dimensions={} }\n",
     false},
    /* all are inputs */
    {"HloModule m\nENTRY e { x = f32[3] parameter(0)  y = f32[2] parameter(1)\n"
     "  ROOT t = (f32[2], f32[3]) tuple(y, x) }\n",
     true},
    {"HloModule m\nENTRY e { x = f32[3] parameter(0)  c = f32[3] constant({1, 2, 3})\n"
     "  ROOT t = (f32[3], f32[3]) tuple(c, x) }\n",
     false},
    /* scalars of scalars */
    {"HloModule m\nENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)\n"
     "  s = f32[] add(x, y)  m = f32[] multiply(s, x)  ROOT c = s32[] convert(m) }\n",
     true},
    {"HloModule m\nENTRY e { x = f32[1] parameter(0)  ROOT y = f32[1] tanh(x) }\n", false},
    {"HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)\n"
     "  ROOT s = f32[] add(a, b) }\nENTRY e { x = f32[3] parameter(0)  z = f32[] constant(0)\n"
     "  ROOT y = f32[] reduce(x, z), dimensions={0}, to_apply=add }\n",
     false},
    /* effects */
    {"HloModule m\nENTRY e { x = f32[] parameter(0)\n"
     "  o = () custom-call(x), custom_call_target=\"tremula.outfeed\",\n"
     "    custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\": \\\"0\\\"}\"\n"
     "  ROOT y = f32[] tanh(x) }\n",
     false},
};

static void test_what_needs_no_device(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    trm_executable *executable = test_compile(rows[i].text, &test_modes[0]);
    assert_int_equal(trm_inspect_is_trivial(trm_inspect_module(executable)), rows[i].is_trivial);
    trm_executable_free(executable);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_needs_no_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

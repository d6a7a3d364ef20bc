/* Changes that somebody asks about: a layer in half precision, and failing allocations. */
#include "base/memory.h"
#include "program_case.h"

/* Two layers; an output updates the weights of the first. */
static const char text[] =
    "HloModule m, input_output_alias={ {1}: (1, {}, must-alias) }\n"
    "ENTRY e { x = f32[64,256] parameter(0)  v = f32[256,256] parameter(1)\n"
    "  w = f32[256,256] parameter(2)\n"
    "  a = f32[64,256] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"net/one/MatMul\"}\n"
    "  b = f32[64,256] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"net/two/MatMul\"}\n"
    "  n = f32[256,256] negate(v), metadata={op_name=\"update\"}\n"
    "  ROOT r = (f32[64,256], f32[256,256]) tuple(b, n) }";

/* The bytes of an input that is read or updated. */
static int64_t bytes_of(const trm_program *p, const char *name) {
  trm_program_variable_info v = {.size = sizeof v};
  for (size_t i = 0; trm_program_variable_get(p, i, &v); ++i) {
    if (v.is_input && v.name[0] == name[0]) return v.total_bytes;
  }
  fail_msg("no input %s", name);
  return 0;
}

static void expect_bytes(const trm_program *p, const char *change, int64_t v, int64_t w) {
  trm_error error;
  trm_program *changed;
  if (trm_program_create_changed(p, &change, 1, &changed, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  check_sums(changed);
  assert_int_equal(bytes_of(changed, "v"), v);
  assert_int_equal(bytes_of(changed, "w"), w);
  assert_int_equal(bytes_of(changed, "x"), 4 * 64 * 256); /* comes in as it is */
  trm_program_free(changed);
}

/* What the program only reads becomes float16, what it updates stays. */
static void test_weights(void **state) {
  (void)state;
  trm_program *p = make_program(text, "mk2", NULL);
  const int64_t whole = 4 * 256 * 256;
  expect_bytes(p, "net/one:half", whole, whole);
  expect_bytes(p, "net/two:half", whole, whole / 2);
  expect_bytes(p, "net:half", whole, whole / 2);
  trm_program_free(p);
}

static void test_allocation_failures(void **state) {
  (void)state;
  static const char *const changes[] = {"net/one:half", "net/two:recompute", "amp=0.3",
                                        "memory=600KiB"};
  static const char *const unknown[] = {"net/too:half"};
  trm_program *p = make_program(text, "mk2", NULL);
  trm_error error;
  int failures = 0, successes = 0; /* a cache that cannot grow is no failure */
  for (int64_t n = 0; n < 5000 && successes < 50; ++n) {
    trm_program *changed = NULL;
    trm_allocation_fail_after(n);
    const trm_status status = trm_program_create_changed(p, changes, 4, &changed, &error);
    trm_allocation_fail_after(n);
    const trm_status no_layer = trm_program_create_changed(p, unknown, 1, &changed, &error);
    trm_allocation_fail_after(-1);
    assert_true(no_layer == TRM_NOT_FOUND || no_layer == TRM_RESOURCE_EXHAUSTED);
    if (status == TRM_OK) {
      trm_program_free(changed);
      ++successes;
    } else {
      assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
      ++failures;
      successes = 0;
    }
  }
  assert_true(failures > 10 && successes == 50);
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

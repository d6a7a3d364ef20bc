/* Changes that somebody asks about: a layer in half precision, and failing allocations. */
#include "base/memory.h"
#include "ipu/program/change.h"
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
    "  n = f32[256,256] negate(v), metadata={op_name=\"net/two/update\"}\n"
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

/* The program as a pipeline: two stages, and the update of v behind the loop of mini-batches. */
static void test_pipeline(void **state) {
  (void)state;
  trm_change change = {.shards = 2, .mini_batches = 4, .schedule = "Interleaved"};
  trm_program *p = make_program(text, "mk2", NULL), *pipeline = NULL;
  trm_error error;
  int failures = 0, successes = 0; /* a cache that cannot grow is no failure */
  for (int64_t n = 0; n < 10000 && successes < 50; ++n) {
    trm_allocation_fail_after(n);
    const trm_status status = trm_change_plan(p, &change, &pipeline, &error);
    trm_allocation_fail_after(-1);
    if (status != TRM_OK) {
      assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
      ++failures;
      successes = 0;
    } else if (++successes < 50) {
      trm_program_free(pipeline);
    }
  }
  assert_true(failures > 10 && successes == 50);
  trm_program_pipeline_info info = {.size = sizeof info};
  assert_true(trm_program_pipeline_get(pipeline, &info));
  assert_int_equal(info.num_stages, 2);
  assert_int_equal(info.mini_batches, 4);
  assert_string_equal(info.schedule, "Interleaved");
  assert_int_equal(pipeline->updated_states, 1);
  assert_string_equal(pipeline->cuts[0].before, "net/two");
  bool images;
  assert_int_equal((int64_t)trm_program_items(pipeline, &images), 4 * 64);
  int sums = 0, updates = 0; /* nothing is summed: the update of v reads only v */
  for (uint32_t s = 0; s < pipeline->num_steps; ++s) {
    const trm_program_step *step = &pipeline->steps[s];
    sums += step->executions == 4 && strstr(step->name, "add") != NULL && step->stage >= 0;
    updates += step->executions == 1 && strstr(step->name, "update") != NULL && step->cycles > 0;
  }
  assert_int_equal(sums, 0);
  assert_true(updates > 0);
  trm_program_free(pipeline);
  trm_program_free(p);
}

/* One fusion makes a weight and its momentum. It is behind the loop, which sums the gradient. */
static void test_pipeline_with_momentum(void **state) {
  (void)state;
  static const char momentum[] =
      "HloModule m, input_output_alias={ {1}: (1, {}, must-alias), {2}: (2, {}, must-alias) }\n"
      "ENTRY e { x = f32[64,256] parameter(0)  v = f32[256,256] parameter(1)\n"
      "  m = f32[256,256] parameter(2)  w = f32[256,256] parameter(3)\n"
      "  a = f32[64,256] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "metadata={op_name=\"net/one/MatMul\"}\n"
      "  b = f32[64,256] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "metadata={op_name=\"net/two/MatMul\"}\n"
      "  g = f32[256,256] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
      "metadata={op_name=\"gradients/net/one/MatMul_grad/MatMul_1\"}\n"
      "  r = f32[] constant(0.9)  s = f32[256,256] broadcast(r), dimensions={}\n"
      "  d = f32[256,256] multiply(m, s), metadata={op_name=\"Momentum/update\"}\n"
      "  n = f32[256,256] add(d, g), metadata={op_name=\"Momentum/update\"}\n"
      "  u = f32[256,256] subtract(v, n), metadata={op_name=\"Momentum/update\"}\n"
      "  ROOT t = (f32[64,256], f32[256,256], f32[256,256]) tuple(b, u, n) }";
  const trm_change change = {.shards = 2, .mini_batches = 4, .schedule = "Grouped"};
  trm_program *p = make_program(momentum, "mk2", NULL), *pipeline = NULL;
  trm_error error;
  assert_int_equal(trm_change_plan(p, &change, &pipeline, &error), TRM_OK);
  assert_int_equal(pipeline->updated_states, 2);
  int updates = 0;
  for (uint32_t s = 0; s < pipeline->num_steps; ++s) {
    const trm_program_step *step = &pipeline->steps[s];
    if (step->end != s + 1 || strstr(step->name, "Momentum/update") == NULL) continue;
    assert_true(step->executions == 1);
    ++updates;
  }
  assert_true(updates > 0);
  trm_program_free(pipeline);
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_allocation_failures),
      cmocka_unit_test(test_pipeline),
      cmocka_unit_test(test_pipeline_with_momentum),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

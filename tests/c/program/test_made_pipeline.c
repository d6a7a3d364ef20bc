/* A program of one batch as a pipeline: it is what somebody would write with these stages. */
#include "ipu/program/change.h"
#include "program_case.h"

/* Two layers, the first with a moving average. The learning rate is a number that the program
 * computes outside of all layers, as TensorFlow's Adam does. */
#define UPDATE(layer, weight, momentum, gradient)                \
  "  n" momentum " = f32[256,256] add(" momentum ", " gradient   \
  "), metadata={op_name=\"Adam/update_" layer "/add\"}\n"        \
  "  r" momentum " = f32[256,256] multiply(n" momentum           \
  ", rates), metadata={op_name=\"Adam/update_" layer "/mul\"}\n" \
  "  n" weight " = f32[256,256] subtract(" weight ", r" momentum \
  "), metadata={op_name=\"Adam/update_" layer "/sub\"}\n"
static const char text[] =
    "HloModule m, input_output_alias={ {1}: (1, {}, must-alias), {2}: (2, {}, must-alias), "
    "{3}: (3, {}, must-alias), {4}: (4, {}, must-alias), {5}: (5, {}, must-alias) }\n"
    "sum { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }\n"
    "ENTRY e { x = f32[64,256] parameter(0)  v = f32[256,256] parameter(1)\n"
    "  m = f32[256,256] parameter(2)  w = f32[256,256] parameter(3)\n"
    "  k = f32[256,256] parameter(4)  a = f32[256] parameter(5)\n"
    "  b = f32[] parameter(6)  zero = f32[] constant(0)\n"
    "  one = f32[64,256] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"net/one/Tensordot/MatMul\"}\n"
    "  t = f32[64,256] tanh(one), metadata={op_name=\"net/one/Tanh\"}\n"
    "  s = f32[256] reduce(t, zero), dimensions={0}, to_apply=sum, "
    "metadata={op_name=\"net/one/Sum\"}\n"
    "  two = f32[64,256] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"net/two/MatMul\"}\n"
    "  d = f32[256] subtract(s, a), metadata={op_name=\"net/one/avg/sub\"}\n"
    "  na = f32[256] add(a, d), metadata={op_name=\"net/one/avg/Assign\"}\n"
    "  gw = f32[256,256] dot(t, two), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"gradients/net/two/MatMul_grad/MatMul_1\"}\n"
    "  gt = f32[64,256] dot(two, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "metadata={op_name=\"gradients/net/two/MatMul_grad/MatMul\"}\n"
    "  gv = f32[256,256] dot(x, gt), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"gradients/net/one/Tensordot/MatMul_grad/MatMul_1\"}\n"
    "  rate = f32[] multiply(b, b), metadata={op_name=\"Adam/mul\"}\n"
    "  rates = f32[256,256] broadcast(rate), dimensions={}, metadata={op_name=\"Adam/mul\"}\n" UPDATE(
        "one", "v", "m", "gv")
        UPDATE(
            "two", "w", "k",
            "gw") "  ROOT r = (f32[64,256], f32[256,256], f32[256,256], f32[256,256], f32[256,256], f32[256]) "
                  "tuple(two, nv, nm, nw, nk, na) }\n";

enum { MINI_BATCHES = 4, ACTIVATION = 64 * 256 * 4 };

typedef struct pair {
  trm_program *whole, *pipeline;
} pair;

static int begin(void **state) {
  static pair made;
  trm_error error;
  const trm_change change = {.shards = 2, .mini_batches = MINI_BATCHES, .schedule = "Grouped"};
  made.whole = make_program(text, "mk2", NULL);
  *state = &made;
  return trm_change_plan(made.whole, &change, &made.pipeline, &error) == TRM_OK ? 0 : -1;
}

static int end(void **state) {
  const pair *made = *state;
  trm_program_free(made->pipeline);
  trm_program_free(made->whole);
  return 0;
}

/* Expects that steps of a name are on an IPU and run so often in all. */
static void expect_steps(const trm_program *p, const char *name, int32_t ipu, double executions) {
  int found = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *step = &p->steps[s];
    if (step->end != s + 1 || strstr(step->name, name) == NULL || step->cycles == 0) continue;
    assert_int_equal(step->ipu, ipu);
    assert_true(step->executions == executions);
    ++found;
  }
  assert_true(found > 0);
}

static void test_weights_are_updated_on_their_ipu(void **state) {
  const trm_program *p = ((const pair *)*state)->pipeline;
  expect_steps(p, "Adam/update_one", 0, 1);
  expect_steps(p, "Adam/update_two", 1, 1);
}

static void test_moving_averages_change_with_each_mini_batch(void **state) {
  const trm_program *p = ((const pair *)*state)->pipeline;
  expect_steps(p, "net/one/avg/Assign", 0, MINI_BATCHES);
}

/* The backward stage of the second layer reads what its forward stage has got. */
static void test_a_value_is_sent_once(void **state) {
  const trm_program *p = ((const pair *)*state)->pipeline;
  int sent = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *step = &p->steps[s];
    const bool goes = step->type == TRM_STEP_TYPE_GLOBAL_EXCHANGE;
    if (goes && step->stage >= 0) ++sent, assert_int_equal(step->bytes_in_total, ACTIVATION);
  }
  assert_int_equal(sent, 2); /* the activations, and their gradient */
}

static void test_cuts_are_where_a_program_can_have_them(void **state) {
  const trm_program *p = ((const pair *)*state)->pipeline;
  assert_int_equal(p->num_cuts, 1);
  assert_string_equal(p->cuts[0].after, "net/one"); /* not its Tensordot */
  assert_string_equal(p->cuts[0].before, "net/two");
}

/* Sums begin with numbers of their type: nothing is cast. */
static void test_nothing_is_cast(void **state) {
  const trm_program *p = ((const pair *)*state)->pipeline;
  for (uint32_t s = 0; s < p->num_steps; ++s) assert_null(strstr(p->steps[s].name, "/Cast"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_weights_are_updated_on_their_ipu),
      cmocka_unit_test(test_moving_averages_change_with_each_mini_batch),
      cmocka_unit_test(test_a_value_is_sent_once),
      cmocka_unit_test(test_cuts_are_where_a_program_can_have_them),
      cmocka_unit_test(test_nothing_is_cast),
  };
  return cmocka_run_group_tests(tests, begin, end);
}

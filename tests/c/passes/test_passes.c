/* The passes, on HLO text: what is in the optimised program, and what is not any more. */
#include "../run.h"

static char *optimised(const char *text) {
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  char *printed = NULL;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  return printed;
}

static void expect(const char *text, const char *word, int count) {
  char *printed = optimised(text);
  const int found = test_occurrences(printed, word);
  if (found != count) fail_msg("'%s' is there %d times, not %d:\n%s", word, found, count, printed);
  trm_free(printed);
}

#define ENTRY(body) "HloModule m\nENTRY e {\n" body "}\n"

static void test_no_ops_disappear(void **state) {
  (void)state;
  const char *text =
      ENTRY("  p = f32[2,3] parameter(0)\n  c = f32[2,3] copy(p)\n  r = f32[6] reshape(c)\n"
            "  s = f32[2,3] reshape(r)\n  t = f32[3,2] transpose(s), dimensions={1,0}\n"
            "  u = f32[2,3] transpose(t), dimensions={1,0}\n  one = f32[] constant(1)\n"
            "  b = f32[2,3] broadcast(one), dimensions={}\n  m = f32[2,3] multiply(u, b)\n"
            "  l = f32[2,3] slice(m), slice={[0:2],[0:3]}\n  ROOT n = f32[2,3] negate(l)\n");
  expect(text, " reshape(", 0);
  expect(text, " transpose(", 0);
  expect(text, " multiply(", 0);
  expect(text, " slice(", 0);
  expect(text, " negate(", 1);
}

/* A stable sort of values and places, of which slices keep the first ones. */
static void expect_top_k(const char *comparison, const char *stable, const char *slice, int count) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "order { a = f32[] parameter(0)  b = f32[] parameter(1)  i = s32[] parameter(2)\n"
           "  j = s32[] parameter(3)  ROOT r = pred[] compare(a, b), %s }\n"
           "ENTRY e { x = f32[3,64] parameter(0)  i = s32[3,64] iota(), iota_dimension=1\n"
           "  s = (f32[3,64], s32[3,64]) sort(x, i), dimensions={1}, %s to_apply=order\n"
           "  v = f32[3,64] get-tuple-element(s), index=0\n"
           "  p = s32[3,64] get-tuple-element(s), index=1\n"
           "  f = f32[3,5] slice(v), slice={[0:3],[0:5]}\n  g = s32[%s\n"
           "  ROOT t = (f32[3,5], s32[3,4]) tuple(f, g) }\n",
           comparison, stable, slice);
  expect(text, " topk(", count);
  expect(text, " sort(", 1 - count);
}

static void test_top_k(void **state) {
  (void)state;
  const char *total = "direction=GT, type=TOTALORDER",
             *first = "3,4] slice(p), slice={[0:3],[0:4]}";
  expect_top_k(total, "is_stable=true,", first, 1);
  expect_top_k("direction=LT, type=TOTALORDER", "is_stable=true,", first, 1);
  expect_top_k("direction=GT", "is_stable=true,", first, 0); /* NaNs have no order */
  expect_top_k(total, "", first, 0);                         /* equal ones in any order */
  expect_top_k(total, "is_stable=true,", "3,4] slice(p), slice={[0:3],[1:5]}", 0);
  expect_top_k(total, "is_stable=true,", "3,4] slice(p), slice={[0:3],[0:8:2]}", 0);
  const char *text =
      "HloModule m\n"
      "order { a = f32[] parameter(0)  b = f32[] parameter(1)  i = s32[] parameter(2)\n"
      "  j = s32[] parameter(3)\n"
      "  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER }\n"
      "ENTRY e { x = f32[8] parameter(0)  i = s32[8] iota(), iota_dimension=0\n"
      "  s = (f32[8], s32[8]) sort(x, i), dimensions={0}, is_stable=true, to_apply=order\n"
      "  v = f32[8] get-tuple-element(s), index=0\n"
      "  ROOT f = f32[2] slice(v), slice={[0:2]} }\n";
  const float x[8] = {1, -0.0f, 7, 3, 7, 2, 5, -9}, two[2] = {7, 7};
  const void *inputs[1] = {x};
  test_expect_f32(text, inputs, two, 2);
}

static void test_adding_zero_stays(void **state) {
  (void)state;
  /* -0.0 + 0.0 is 0.0. */
  const char *text = ENTRY("  p = f32[2] parameter(0)\n  z = f32[] constant(0)\n"
                           "  b = f32[2] broadcast(z), dimensions={}\n"
                           "  ROOT a = f32[2] add(p, b)\n");
  expect(text, " add(", 1);
  const float p[2] = {-0.0f, 3}, zero[2] = {0, 3};
  const void *inputs[1] = {p};
  test_expect_f32(text, inputs, zero, 2);
}

static void test_scalars_are_spread_later(void **state) {
  (void)state;
  const char *text = ENTRY("  x = f32[4] parameter(0)  a = f32[] parameter(1)\n"
                           "  b = f32[] parameter(2)  as = f32[4] broadcast(a), dimensions={}\n"
                           "  bs = f32[4] broadcast(b), dimensions={}\n"
                           "  m = f32[4] multiply(as, bs)  ROOT r = f32[4] subtract(x, m)\n");
  expect(text, "= f32[] multiply(", 1);
  expect(text, "= f32[4] multiply(", 0);
  const float x[4] = {1, 2, 3, 4}, a = 3, b = 0.5f, less[4] = {-0.5f, 0.5f, 1.5f, 2.5f};
  const void *inputs[3] = {x, &a, &b};
  test_expect_f32(text, inputs, less, 4);
}

static void test_converts(void **state) {
  (void)state;
  const char *exact = ENTRY("  p = f16[2] parameter(0)\n  w = f32[2] convert(p)\n"
                            "  n = f16[2] convert(w)\n  ROOT r = f16[2] negate(n)\n");
  expect(exact, " convert(", 0);
  const char *rounds = ENTRY("  p = f32[2] parameter(0)\n  h = f16[2] convert(p)\n"
                             "  n = f16[2] negate(h)\n  ROOT w = f32[2] convert(n)\n");
  expect(rounds, " convert(", 2);
}

static void test_fusion(void **state) {
  (void)state;
  /* One chain with a second result that is used after it. */
  const char *text = ENTRY(
      "  x = f32[8,16] parameter(0)\n  b = f32[16] parameter(1)\n  w = f32[16,4] parameter(2)\n"
      "  c = f32[8,16] broadcast(b), dimensions={1}\n  s = f32[8,16] add(x, c)\n"
      "  t = f32[8,16] tanh(s)\n  u = f32[8,16] multiply(t, s)\n"
      "  d = f32[8,4] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  ROOT r = (f32[8,16], f32[8,4]) tuple(u, d)\n");
  expect(text, " fusion(", 1);
  expect(text, "kind=kLoop", 1);
  /* A cycle would arise: t feeds the dot, and the dot the last add. */
  const char *cycle =
      ENTRY("  x = f32[8,8] parameter(0)\n  s = f32[8,8] add(x, x)\n  t = f32[8,8] tanh(s)\n"
            "  d = f32[8,8] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "  e2 = f32[8,8] negate(d)\n  ROOT u = f32[8,8] multiply(e2, t)\n");
  expect(cycle, " fusion(", 2);
}

/* Numbers have kernels of their own, so only long chains of them are fused; integers never are. */
static void test_fusion_of_numbers(void **state) {
  (void)state;
  const char *four =
      ENTRY("  x = f32[] parameter(0)  one = f32[] constant(1)\n  a = f32[] tanh(x)\n"
            "  b = f32[] add(a, x)  p = pred[] compare(b, one), direction=GT\n"
            "  ROOT c = f32[] select(p, a, b)\n");
  expect(four, " fusion(", 1);
  const char *three = ENTRY("  x = f32[] parameter(0)\n  a = f32[] tanh(x)  b = f32[] add(a, x)\n"
                            "  ROOT c = f32[] multiply(a, b)\n");
  expect(three, " fusion(", 0);
  const char *integers =
      ENTRY("  x = s32[] parameter(0)  y = s32[] parameter(1)\n  a = s32[] add(x, y)\n"
            "  b = s32[] multiply(a, x)  c = s32[] subtract(b, a)  d = s32[] xor(c, b)\n"
            "  ROOT e2 = s32[] and(d, a)\n");
  expect(integers, " fusion(", 0);
}

static void test_common_subexpressions(void **state) {
  (void)state;
  const char *text =
      ENTRY("  x = f32[8] parameter(0)\n  a = f32[8] exponential(x)\n  b = f32[8] exponential(x)\n"
            "  ROOT r = f32[8] add(a, b)\n");
  expect(text, " exponential(", 1);
}

/* The gradient of a layer computes a value that the layer has, and comes first. */
static void test_a_layer_names_what_its_gradient_shares(void **state) {
  (void)state;
  const char *text =
      ENTRY("  x = f32[8] parameter(0)\n"
            "  a = f32[8] exponential(x), frontend_attributes={popnn_scope=\"gradients/n_grad\"}\n"
            "  b = f32[8] exponential(x), frontend_attributes={popnn_scope=\"n\"}\n"
            "  ROOT r = f32[8] add(a, b)\n");
  expect(text, " exponential(", 1);
  expect(text, "popnn_scope=\"n\"", 1);
  expect(text, "gradients/n_grad", 0);
}

static void test_constants_fold(void **state) {
  (void)state;
  const char *text =
      ENTRY("  x = f32[3] parameter(0)\n  a = f32[3] constant({1, 2, 3})\n  b = f32[3] add(a, a)\n"
            "  c = f32[3] sqrt(b)\n  ROOT r = f32[3] maximum(x, c)\n");
  expect(text, " sqrt(", 0);
  expect(text, " constant(", 1);
}

static void test_kernel_reverse_folds(void **state) {
  (void)state;
  const char *text = ENTRY(
      "  x = f32[1,5,5,2] parameter(0)\n  w = f32[3,3,2,4] parameter(1)\n"
      "  v = f32[3,3,2,4] reverse(w), dimensions={0,1}\n"
      "  ROOT c = f32[1,3,3,4] convolution(x, v), window={size=3x3}, dim_labels=b01f_01io->b01f\n");
  expect(text, " reverse(", 0);
  expect(text, "rhs_reversal=1x1", 1);
}

static void test_loop_invariants_leave(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "cond { s = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  a = f32[4] get-tuple-element(s), index=1  w = f32[4] get-tuple-element(s), index=2\n"
      "  t = f32[4] tanh(w)  u = f32[4] exponential(t)  b = f32[4] multiply(a, u)\n"
      "  ROOT r = (s32[], f32[4], f32[4]) tuple(j, b, w) }\n"
      "ENTRY e { a = f32[4] parameter(0)  w = f32[4] parameter(1)  z = s32[] constant(0)\n"
      "  t = (s32[], f32[4], f32[4]) tuple(z, a, w)\n"
      "  l = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body\n"
      "  ROOT r = f32[4] get-tuple-element(l), index=1 }\n";
  char *printed = optimised(text);
  const char *body = strstr(printed, "%body");
  assert_non_null(body);
  const char *end = strstr(body, "\n}");
  const char *tanh_at = strstr(body, " tanh(");
  if (tanh_at != NULL && tanh_at < end) fail_msg("tanh is still in the loop:\n%s", printed);
  trm_free(printed);
  const float a[4] = {1, 2, 3, 4}, w[4] = {0, 0, 0, 0};
  const void *inputs[2] = {a, w};
  test_expect_f32(text, inputs, a, 4);
}

static void test_side_effects_keep_their_order(void **state) {
  (void)state;
  const char *text =
      ENTRY("  x = f32[2] parameter(0)\n"
            "  b = () custom-call(x), custom_call_target=\"tremula.outfeed\", "
            "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"second\\\"}\", "
            "control-predecessors={a}\n"
            "  a = () custom-call(x), custom_call_target=\"tremula.outfeed\", "
            "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"first\\\"}\"\n"
            "  ROOT n = f32[2] negate(x)\n");
  char *printed = optimised(text);
  const char *first = strstr(printed, "first"), *second = strstr(printed, "second");
  assert_non_null(first);
  assert_non_null(second);
  assert_true(first < second);
  trm_free(printed);
}

static void test_batch_norm_fuses(void **state) {
  (void)state;
  const char *text =
      ENTRY("  x = f32[2,4] parameter(0)\n  s = f32[4] parameter(1)\n"
            "  n = f32[2,4] batch-norm-inference(x, s, s, s, s), epsilon=0.001, feature_index=1\n"
            "  z = f32[] constant(0)\n  b = f32[2,4] broadcast(z), dimensions={}\n"
            "  ROOT r = f32[2,4] maximum(n, b)\n");
  expect(text, "batch-norm", 0);
  expect(text, "kind=kLoop", 2); /* the factor, and all the rest */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_ops_disappear),
      cmocka_unit_test(test_top_k),
      cmocka_unit_test(test_adding_zero_stays),
      cmocka_unit_test(test_scalars_are_spread_later),
      cmocka_unit_test(test_converts),
      cmocka_unit_test(test_fusion),
      cmocka_unit_test(test_fusion_of_numbers),
      cmocka_unit_test(test_common_subexpressions),
      cmocka_unit_test(test_a_layer_names_what_its_gradient_shares),
      cmocka_unit_test(test_constants_fold),
      cmocka_unit_test(test_kernel_reverse_folds),
      cmocka_unit_test(test_loop_invariants_leave),
      cmocka_unit_test(test_side_effects_keep_their_order),
      cmocka_unit_test(test_batch_norm_fuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

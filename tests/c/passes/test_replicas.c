/* What the passes do for several replicas: telling which values are the same on all of them, by how
 * float16 is rounded, and batch norms with common statistics. */
#include <math.h>

#include "../run.h"

static trm_executable *compiled(const char *text, const char *ipus, const char *key,
                                const char *value, const char *optimise) {
  const trm_option options[] = {
      {"ipus", ipus}, {key, value}, {"optimise", optimise}, {"verify", "true"}};
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, options, 4, &executable, &error) != TRM_OK) {
    fail_msg("%s\n%s", error.message, text);
  }
  trm_module_free(module);
  return executable;
}

static int occurrences(const trm_executable *executable, const char *word) {
  char *printed = NULL;
  trm_error error;
  int count = 0;
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  for (const char *at = strstr(printed, word); at != NULL; at = strstr(at + 1, word)) ++count;
  trm_free(printed);
  return count;
}

/* ---- The same on all replicas --------------------------------------------------------------- */

/* How many of the casts are known to round the same value on all of `ipus` replicas. */
static void expect_same(const char *body, const char *ipus, int same) {
  static const char head[] =
      "HloModule m\n"
      "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n";
  char text[4096];
  snprintf(text, sizeof text, "%s%s", head, body);
  trm_executable *executable =
      compiled(text, ipus, "stochastic_rounding", "replica-identical", "false");
  const int found = occurrences(executable, "tremula.round-half-stochastically");
  if (found != same) fail_msg("%d, not %d, of\n%s", found, same, text);
  trm_executable_free(executable);
}

static void test_sources(void **state) {
  (void)state;
  const char *text =
      "ENTRY e { x = f32[4] parameter(0)  id = u32[] replica-id()  i = f32[] convert(id)\n"
      "  b = f32[4] broadcast(i), dimensions={}  y = f32[4] add(x, b)\n"
      "  all = f32[4] all-reduce(y), to_apply=sum, replica_groups={}\n"
      "  some = f32[4] all-reduce(y), to_apply=sum, replica_groups={{0,1},{2,3}}\n"
      "  mine = f32[4] custom-call(y), custom_call_target=\"tremula.all-reduce\", "
      "backend_config=\"{\\\"op\\\":\\\"local\\\",\\\"group_size\\\":0}\"\n"
      "  four = f32[4] custom-call(y), custom_call_target=\"tremula.all-reduce\", "
      "backend_config=\"{\\\"op\\\":\\\"mean\\\",\\\"group_size\\\":4}\"\n"
      "  said = f32[4] opt-barrier(y), frontend_attributes={ASSUME_EQUAL=\"true\"}\n"
      "  kept = f32[4] opt-barrier(y)  a7 = f16[4] convert(said)  a8 = f16[4] convert(kept)\n"
      "  a1 = f16[4] convert(x)  a2 = f16[4] convert(y)  a3 = f16[4] convert(all)\n"
      "  a4 = f16[4] convert(some)  a5 = f16[4] convert(mine)  a6 = f16[4] convert(four)\n"
      "  ROOT t = (f16[4], f16[4], f16[4], f16[4], f16[4], f16[4], f16[4], f16[4]) "
      "tuple(a1, a2, a3, a4, a5, a6, a7, a8) }\n";
  expect_same(text, "4", 4); /* x, all, four, said */
  expect_same(text, "1", 8);
}

/* However the JSON of a call is written. */
static void test_config_with_spaces(void **state) {
  (void)state;
  expect_same("ENTRY e { id = u32[] replica-id()  y = f32[] convert(id)\n"
              "  mine = f32[] custom-call(y), custom_call_target=\"tremula.all-reduce\", "
              "backend_config=\"{ \\\"op\\\" : \\\"local\\\", \\\"group_size\\\" : 0 }\"\n"
              "  pairs = f32[] custom-call(y), custom_call_target=\"tremula.all-reduce\", "
              "backend_config=\"{ \\\"group_size\\\" : 2 , \\\"op\\\" : \\\"add\\\" }\"\n"
              "  four = f32[] custom-call(y), custom_call_target=\"tremula.all-reduce\", "
              "backend_config=\"{ \\\"op\\\" : \\\"add\\\" , \\\"group_size\\\" : 4 }\"\n"
              "  a1 = f16[] convert(mine)  a2 = f16[] convert(pairs)  a3 = f16[] convert(four)\n"
              "  ROOT t = (f16[], f16[], f16[]) tuple(a1, a2, a3) }\n",
              "4", 1);
}

/* A value goes round in the state of a loop; `limit` is what the condition compares with. */
static void expect_loop(const char *limit, int same) {
  char text[2048];
  snprintf(text, sizeof text,
           "cond { s = (f32[], f32[], f32[], f32[]) parameter(0)\n"
           "  i = f32[] get-tuple-element(s), index=0  n = f32[] get-tuple-element(s), index=%s\n"
           "  ROOT l = pred[] compare(i, n), direction=LT }\n"
           "body { s = (f32[], f32[], f32[], f32[]) parameter(0)\n"
           "  i = f32[] get-tuple-element(s), index=0  a = f32[] get-tuple-element(s), index=1\n"
           "  b = f32[] get-tuple-element(s), index=2  c = f32[] get-tuple-element(s), index=3\n"
           "  one = f32[] constant(1)  j = f32[] add(i, one)  h = f16[] convert(i)\n"
           "  ROOT r = (f32[], f32[], f32[], f32[]) tuple(j, b, c, c) }\n"
           "ENTRY e { x = f32[] parameter(0)  id = u32[] replica-id()  d = f32[] convert(id)\n"
           "  z = f32[] constant(0)  t = (f32[], f32[], f32[], f32[]) tuple(z, x, x, d)\n"
           "  w = (f32[], f32[], f32[], f32[]) while(t), condition=cond, body=body\n"
           "  w0 = f32[] get-tuple-element(w), index=0  h0 = f16[] convert(w0)\n"
           "  w1 = f32[] get-tuple-element(w), index=1  h1 = f16[] convert(w1)\n"
           "  ROOT r = (f16[], f16[]) tuple(h0, h1) }\n",
           limit);
  expect_same(text, "2", same);
}

static void test_loops(void **state) {
  (void)state;
  expect_loop("0", 1); /* the count is the same; d comes to index 1 after two rounds; h is dead */
  expect_loop("3", 0); /* the replicas go round a different number of times */
  expect_loop("1", 0); /* so they do here, after two rounds */
}

static void test_branches(void **state) {
  (void)state;
  static const char form[] =
      "yes { p = f32[] parameter(0)  h = f16[] convert(p)  n = f16[] negate(h)\n"
      "  ROOT r = f32[] convert(n) }\n"
      "no { p = f32[] parameter(0)  ROOT r = f32[] negate(p) }\n"
      "ENTRY e { x = f32[] parameter(0)  id = u32[] replica-id()  d = f32[] convert(id)\n"
      "  one = f32[] constant(1)  is = pred[] compare(%s, one), direction=LT\n"
      "  c = f32[] conditional(is, x, %s), true_computation=yes, false_computation=no\n"
      "  ROOT h = f16[] convert(c) }\n";
  char text[2048];
  snprintf(text, sizeof text, form, "x", "x");
  expect_same(text, "2", 2);
  snprintf(text, sizeof text, form, "x", "d"); /* one branch gives what differs */
  expect_same(text, "2", 1);
  snprintf(text, sizeof text, form, "d", "x"); /* not all take the same branch */
  expect_same(text, "2", 0);
}

/* A long chain of values that are handed on from one place of a loop's state to the next: the
 * analysis gives up after some rounds, and says that all may differ. */
static void test_long_way(void **state) {
  (void)state;
  enum { LENGTH = 200 };
  static char types[16 * LENGTH], gets[64 * LENGTH], names[16 * LENGTH], text[256 * LENGTH];
  size_t t = 0, g = 0, n = 0;
  for (int i = 0; i < LENGTH; ++i) {
    t += (size_t)snprintf(types + t, sizeof types - t, "%sf32[]", i ? "," : "");
    g += (size_t)snprintf(gets + g, sizeof gets - g,
                          "  v%d = f32[] get-tuple-element(s), index=%d\n", i, i);
    const int from = i == 0 ? 0 : i + 1 < LENGTH ? i + 1 : i;
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s%d", i ? "," : "", i ? "v" : "c", from);
  }
  char first[16 * LENGTH];
  size_t f = 0;
  for (int i = 0; i < LENGTH; ++i) {
    f += (size_t)snprintf(first + f, sizeof first - f, "%s%s", i ? "," : "",
                          i == 0           ? "z"
                          : i + 1 < LENGTH ? "x"
                                           : "d");
  }
  snprintf(text, sizeof text,
           "HloModule m\n"
           "cond { s = (%s) parameter(0)  i = f32[] get-tuple-element(s), index=0\n"
           "  n = f32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }\n"
           "body { s = (%s) parameter(0)\n%s  one = f32[] constant(1)  c0 = f32[] add(v0, one)\n"
           "  ROOT r = (%s) tuple(%s) }\n"
           "ENTRY e { x = f32[] parameter(0)  id = u32[] replica-id()  d = f32[] convert(id)\n"
           "  z = f32[] constant(0)  t = (%s) tuple(%s)\n"
           "  w = (%s) while(t), condition=cond, body=body\n"
           "  w1 = f32[] get-tuple-element(w), index=1  ROOT h = f16[] convert(w1) }\n",
           types, types, gets, types, names, types, first, types);
  trm_executable *executable =
      compiled(text, "2", "stochastic_rounding", "replica-identical", "false");
  assert_int_equal(occurrences(executable, "tremula.round-half-stochastically"), 0);
  trm_executable_free(executable);
}

/* ---- Batch norms ---------------------------------------------------------------------------- */

static const char norm_text[] =
    "HloModule m\n"
    "ENTRY e { x = f32[6,2] parameter(0)  s = f32[2] parameter(1)  d = f32[6,2] parameter(2)\n"
    "  n = (f32[6,2], f32[2], f32[2]) batch-norm-training(x, s, s), epsilon=0.001, "
    "feature_index=1\n"
    "  m = f32[2] get-tuple-element(n), index=1  v = f32[2] get-tuple-element(n), index=2\n"
    "  g = (f32[6,2], f32[2], f32[2]) batch-norm-grad(x, s, m, v, d), epsilon=0.001, "
    "feature_index=1\n"
    "  y = f32[6,2] get-tuple-element(n), index=0  dx = f32[6,2] get-tuple-element(g), index=0\n"
    "  ds = f32[2] get-tuple-element(g), index=1\n"
    "  ROOT t = (f32[6,2], f32[2], f32[6,2], f32[2]) tuple(y, v, dx, ds) }\n";

/* With the same input on all replicas the joined batch has the statistics of each one's. */
static void test_same_inputs(void **state) {
  (void)state;
  static const float x[12] = {1, 2, 3, 4, -1, 0.5f, 2, 9, 7, 5, 0, 1};
  static const float d[12] = {0.5f, 1, 2, -1, 3, 0, 1, 1, -2, 4, 0.25f, 6};
  const float s[2] = {1.5f, 0.5f};
  const void *inputs[3] = {x, s, d};
  float results[3][28];
  static const char *const groups[] = {"1", "2", "4"};
  for (int g = 0; g < 3; ++g) {
    for (int optimise = 0; optimise < 2; ++optimise) {
      trm_executable *executable =
          compiled(norm_text, "4", "batch_norm_group_size", groups[g], optimise ? "true" : "false");
      assert_int_equal(occurrences(executable, "tremula.all-reduce"), g == 0 ? 0 : 4);
      trm_error error;
      trm_engine *engine = NULL;
      float *r = results[g];
      void *outputs[4] = {r, r + 12, r + 14, r + 26};
      if (trm_engine_create_replicated(executable, 4, &engine, &error) != TRM_OK ||
          trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK) {
        fail_msg("%s", error.message);
      }
      trm_engine_free(engine);
      trm_executable_free(executable);
      for (int i = 0; i < 28; ++i) {
        assert_true(fabsf(r[i] - results[0][i]) <= 1e-5f * (1 + fabsf(results[0][i])));
      }
    }
  }
}

static void test_groups(void **state) {
  (void)state;
  trm_executable *executable = compiled(norm_text, "1", "batch_norm_group_size", "2", "true");
  assert_int_equal(occurrences(executable, "tremula.all-reduce"), 0); /* one replica */
  trm_executable_free(executable);
  const trm_option options[] = {{"ipus", "4"}, {"batch_norm_group_size", "3"}};
  trm_error error;
  trm_module *module = NULL;
  executable = NULL;
  assert_int_equal(trm_module_read(norm_text, strlen(norm_text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_compile(module, options, 2, &executable, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "The replica group size (got 3) does not evenly divide the "
                                        "total number of replicas (got 4)"));
  trm_module_free(module);
}

/* What cannot be distributed is refused, not computed by each replica for itself. */
static void test_not_distributed(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "ENTRY e { x = f32[6,2] parameter(0)  s = f32[2] parameter(1)  c = f32[6,2] negate(x)\n"
      "  ROOT n = (f32[6,2], f32[2], f32[2]) batch-norm-training(x, s, s), epsilon=0.001, "
      "feature_index=1, control-predecessors={c} }\n";
  const trm_option options[] = {{"ipus", "2"}, {"batch_norm_group_size", "2"}};
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_compile(module, options, 2, &executable, &error), TRM_UNIMPLEMENTED);
  assert_non_null(strstr(error.message, "n cannot have the statistics of several replicas"));
  assert_int_equal(trm_compile(module, options, 1, &executable, &error), TRM_OK);
  trm_executable_free(executable);
  trm_module_free(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sources),         cmocka_unit_test(test_loops),
      cmocka_unit_test(test_branches),        cmocka_unit_test(test_long_way),
      cmocka_unit_test(test_same_inputs),     cmocka_unit_test(test_groups),
      cmocka_unit_test(test_not_distributed), cmocka_unit_test(test_config_with_spaces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

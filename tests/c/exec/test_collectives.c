/* Collectives: numbers on 1, 2 and 4 replicas, groups, types, and what is refused. */
#include <math.h>

#include "../run.h"
#include "base/half.h"

enum { MAX_REPLICAS = 4 };

/* Compiles and runs `text`, which takes nothing, on `replicas`; results[r] gets `bytes` bytes of
 * the first output of replica r. */
static void run(const char *text, uint32_t replicas, size_t bytes, void *const *results) {
  for (int mode = 0; mode < 3; ++mode) {
    trm_error error;
    trm_executable *executable = test_compile(text, &test_modes[mode]);
    trm_engine *engine = NULL;
    assert_int_equal(trm_executable_output(executable, 0)->bytes, bytes);
    assert_int_equal(trm_engine_create_replicated(executable, replicas, &engine, &error), TRM_OK);
    trm_executable_free(executable);
    assert_int_equal(trm_engine_num_replicas(engine), replicas);
    for (int repeat = 0; repeat < 3; ++repeat) {
      memset(results[0], 0x55, bytes);
      if (trm_engine_run(engine, NULL, NULL, results, &error) != TRM_OK) {
        fail_msg("does not run on %u: %s", replicas, error.message);
      }
      for (uint32_t r = 1; r < replicas; ++r) {
        memcpy(results[r], trm_engine_output(engine, r, 0), bytes);
      }
    }
    assert_null(trm_engine_output(engine, 0, 0));
    assert_null(trm_engine_output(engine, replicas, 0));
    trm_engine_free(engine);
  }
}

/* `expected` holds the replicas' results one after the other. */
static void expect_f32(const char *text, uint32_t replicas, size_t count, const float *expected) {
  float got[MAX_REPLICAS][64];
  void *results[MAX_REPLICAS] = {got[0], got[1], got[2], got[3]};
  run(text, replicas, count * sizeof **got, results);
  for (uint32_t r = 0; r < replicas; ++r) {
    for (size_t i = 0; i < count; ++i) {
      if (got[r][i] != expected[r * count + i]) {
        fail_msg("on %u: replica %u, element %zu: %g instead of %g", replicas, r, i,
                 (double)got[r][i], (double)expected[r * count + i]);
      }
    }
  }
}

#define ADD "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
/* x = r + {1, 2, 3, 4} on replica r */
#define START                                                                     \
  "ENTRY e { id = u32[] replica-id()  f = f32[] convert(id)\n"                    \
  "  g = f32[4] broadcast(f), dimensions={}  c = f32[4] constant({1, 2, 3, 4})\n" \
  "  x = f32[4] add(g, c)\n"

static void test_all_reduce(void **state) {
  (void)state;
  const char *text = "HloModule m\n" ADD START
                     "  ROOT y = f32[4] all-reduce(x), replica_groups={}, to_apply=add }\n";
  expect_f32(text, 1, 4, (const float[]){1, 2, 3, 4});
  expect_f32(text, 2, 4, (const float[]){3, 5, 7, 9, 3, 5, 7, 9});
  expect_f32(text, 4, 4,
             (const float[]){10, 14, 18, 22, 10, 14, 18, 22, 10, 14, 18, 22, 10, 14, 18, 22});
}

static void test_groups(void **state) {
  (void)state;
  const char *pairs =
      "HloModule m\n" ADD START "  ROOT y = f32[4] all-reduce(x), replica_groups={{0,3},{2,1}}, "
      "to_apply=add }\n";
  expect_f32(pairs, 4, 4, (const float[]){5, 7, 9, 11, 5, 7, 9, 11, 5, 7, 9, 11, 5, 7, 9, 11});
  const char *consecutive =
      "HloModule m\n" START
      "  ROOT y = f32[4] custom-call(x), custom_call_target=\"tremula.all-reduce\",\n"
      "    backend_config=\"{\\\"op\\\":\\\"add\\\",\\\"group_size\\\":2}\" }\n";
  expect_f32(consecutive, 4, 4,
             (const float[]){3, 5, 7, 9, 3, 5, 7, 9, 7, 9, 11, 13, 7, 9, 11, 13});
}

/* Ops of the custom call, for float32 on two replicas. */
static void test_operations(void **state) {
  (void)state;
  static const struct {
    const char *op;
    float expected[8];
  } rows[] = {
      {"add", {3, 5, 7, 9, 3, 5, 7, 9}},
      {"mul", {2, 6, 12, 20, 2, 6, 12, 20}},
      {"min", {1, 2, 3, 4, 1, 2, 3, 4}},
      {"max", {2, 3, 4, 5, 2, 3, 4, 5}},
      {"mean", {1.5f, 2.5f, 3.5f, 4.5f, 1.5f, 2.5f, 3.5f, 4.5f}},
      {"square_add", {5, 13, 25, 41, 5, 13, 25, 41}},
      {"local", {1, 2, 3, 4, 2, 3, 4, 5}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char text[1024];
    snprintf(text, sizeof text,
             "HloModule m\n" START
             "  ROOT y = f32[4] custom-call(x), custom_call_target=\"tremula.all-reduce\",\n"
             "    backend_config=\"{\\\"op\\\":\\\"%s\\\"}\" }\n",
             rows[i].op);
    expect_f32(text, 2, 4, rows[i].expected);
  }
}

/* A NaN on one replica is the least and the greatest on all; zeros keep their order. */
static void test_nan(void **state) {
  (void)state;
  for (int i = 0; i < 2; ++i) {
    const char *op = i == 0 ? "minimum" : "maximum";
    char text[1024];
    snprintf(text, sizeof text,
             "HloModule m\n"
             "f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] %s(a, b) }\n"
             "ENTRY e { id = u32[] replica-id()  one = u32[] constant(1)\n"
             "  p = pred[] compare(id, one), direction=EQ  n = f32[] constant(nan)\n"
             "  z = f32[] constant(3)  x = f32[] select(p, n, z)\n"
             "  ROOT y = f32[] all-reduce(x), replica_groups={}, to_apply=f }\n",
             op);
    float got[2];
    void *results[2] = {&got[0], &got[1]};
    run(text, 2, sizeof *got, results);
    assert_true(isnan(got[0]) && isnan(got[1]));
  }
}

/* 2048 + 1 + 1: a half that were rounded in between would stay at 2048. */
static void test_half_sums_are_rounded_once(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "add { a = f16[] parameter(0)  b = f16[] parameter(1)  ROOT s = f16[] add(a, b) }\n"
      "ENTRY e { id = u32[] replica-id()  zero = u32[] constant(0)\n"
      "  p = pred[] compare(id, zero), direction=EQ  n = f16[] constant(2048)\n"
      "  o = f16[] constant(1)  x = f16[] select(p, n, o)\n"
      "  ROOT y = f16[] all-reduce(x), replica_groups={}, to_apply=add }\n";
  uint16_t got[4];
  void *results[4] = {&got[0], &got[1], &got[2], &got[3]};
  run(text, 4, sizeof *got, results);
  for (int r = 0; r < 4; ++r) assert_true(trm_half_to_float(got[r]) == 2052.0f); /* 2051, even */
}

static void test_integers_and_called(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "f { a = s32[] parameter(0)  b = s32[] parameter(1)  t = s32[] constant(10)\n"
      "  u = s32[] multiply(a, t)  ROOT s = s32[] add(u, b) }\n"
      "ENTRY e { id = u32[] replica-id()  x = s32[] convert(id)  one = s32[] constant(1)\n"
      "  z = s32[] add(x, one)\n"
      "  ROOT y = s32[] all-reduce(z), replica_groups={}, to_apply=f }\n";
  int32_t got[4];
  void *results[4] = {&got[0], &got[1], &got[2], &got[3]};
  run(text, 4, sizeof *got, results);
  for (int r = 0; r < 4; ++r) assert_int_equal(got[r], 1234); /* in the order of the replicas */
}

/* Longer than a strip and no multiple of anything. */
static void test_long_arrays(void **state) {
  (void)state;
  enum { N = 10007 };
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\n" ADD "ENTRY e { id = u32[] replica-id()  f = f32[] convert(id)\n"
           "  g = f32[%d] broadcast(f), dimensions={}  i = f32[%d] iota(), iota_dimension=0\n"
           "  x = f32[%d] multiply(g, i)\n"
           "  ROOT y = f32[%d] all-reduce(x), replica_groups={}, to_apply=add }\n",
           N, N, N, N);
  static float got[4][N];
  void *results[4] = {got[0], got[1], got[2], got[3]};
  for (uint32_t replicas = 2; replicas <= 4; ++replicas) {
    run(text, replicas, sizeof *got, results);
    const float factor = (float)(replicas * (replicas - 1) / 2);
    for (uint32_t r = 0; r < replicas; ++r) {
      for (int i = 0; i < N; ++i) assert_true(got[r][i] == factor * (float)i);
    }
  }
}

static void test_tuples(void **state) {
  (void)state;
  const char *text = "HloModule m\n" ADD START "  z = f32[2] slice(x), slice={[1:3]}\n"
                     "  y = (f32[4], f32[2]) all-reduce(x, z), replica_groups={}, to_apply=add\n"
                     "  ROOT w = f32[2] get-tuple-element(y), index=1 }\n";
  expect_f32(text, 2, 2, (const float[]){5, 7, 5, 7});
}

static void test_gather_and_scatter(void **state) {
  (void)state;
  const char *gather = "HloModule m\n" START "  z = f32[2,2] reshape(x)\n"
                       "  ROOT y = f32[2,4] all-gather(z), replica_groups={}, dimensions={1} }\n";
  expect_f32(gather, 2, 8, (const float[]){1, 2, 2, 3, 3, 4, 4, 5, 1, 2, 2, 3, 3, 4, 4, 5});
  const char *stack = "HloModule m\n" START "  ROOT y = f32[2,4] custom-call(x), "
                      "custom_call_target=\"tremula.all-gather\" }\n";
  expect_f32(stack, 2, 8, (const float[]){1, 2, 3, 4, 2, 3, 4, 5, 1, 2, 3, 4, 2, 3, 4, 5});
  const char *scatter =
      "HloModule m\n" ADD START "  z = f32[2,2] reshape(x)\n"
      "  ROOT y = f32[2,1] reduce-scatter(z), replica_groups={}, dimensions={1}, to_apply=add }\n";
  expect_f32(scatter, 2, 2, (const float[]){3, 7, 5, 9});
  const char *padded =
      "HloModule m\n" START "  z = f32[3] slice(x), slice={[0:3]}\n"
      "  ROOT y = f32[2] custom-call(z), custom_call_target=\"tremula.reduce-scatter\",\n"
      "    backend_config=\"{\\\"op\\\":\\\"add\\\"}\" }\n";
  expect_f32(padded, 2, 2, (const float[]){3, 5, 7, 0});
}

static void test_all_to_all(void **state) {
  (void)state;
  const char *array = "HloModule m\n" START
                      "  ROOT y = f32[4] all-to-all(x), replica_groups={}, dimensions={0} }\n";
  expect_f32(array, 2, 4, (const float[]){1, 2, 2, 3, 3, 4, 4, 5});
  const char *tuple = "HloModule m\n" START
                      "  a = f32[2] slice(x), slice={[0:2]}  b = f32[2] slice(x), slice={[2:4]}\n"
                      "  t = (f32[2], f32[2]) all-to-all(a, b), replica_groups={{0,1}}\n"
                      "  ROOT y = f32[2] get-tuple-element(t), index=1 }\n";
  expect_f32(tuple, 2, 2, (const float[]){2, 3, 4, 5});
  const char *custom =
      "HloModule m\n" START "  z = f32[2,2] reshape(x)\n"
      "  ROOT y = f32[1,4] custom-call(z), custom_call_target=\"tremula.all-to-all\",\n"
      "    backend_config=\"{\\\"split\\\":0,\\\"concat\\\":1}\" }\n";
  expect_f32(custom, 2, 4, (const float[]){1, 2, 2, 3, 3, 4, 4, 5});
}

static void test_permute_and_broadcast(void **state) {
  (void)state;
  const char *permute = "HloModule m\n" START "  ROOT y = f32[4] collective-permute(x), "
                        "source_target_pairs={{0,1},{1,2}} }\n";
  expect_f32(permute, 4, 4, (const float[]){0, 0, 0, 0, 1, 2, 3, 4, 2, 3, 4, 5, 0, 0, 0, 0});
  const char *broadcast = "HloModule m\n" START "  ROOT y = f32[4] collective-broadcast(x), "
                          "replica_groups={{1,0},{2,3}} }\n";
  expect_f32(broadcast, 4, 4, (const float[]){2, 3, 4, 5, 2, 3, 4, 5, 3, 4, 5, 6, 3, 4, 5, 6});
}

static void test_replication_factor(void **state) {
  (void)state;
  const char *text = "HloModule m\nENTRY e { ROOT n = s32[] custom-call(), "
                     "custom_call_target=\"tremula.replication-factor\" }\n";
  int32_t got[4];
  void *results[4] = {&got[0], &got[1], &got[2], &got[3]};
  run(text, 1, sizeof *got, results);
  assert_int_equal(got[0], 1);
  run(text, 3, sizeof *got, results);
  for (int r = 0; r < 3; ++r) assert_int_equal(got[r], 3);
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void expect_run_fails(const char *text, uint32_t replicas, const char *words) {
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  trm_engine *engine = NULL;
  char result[256];
  void *outputs[1] = {result};
  assert_true(trm_executable_output(executable, 0)->bytes <= sizeof result);
  assert_int_equal(trm_engine_create_replicated(executable, replicas, &engine, &error), TRM_OK);
  trm_executable_free(executable);
  assert_int_not_equal(trm_engine_run(engine, NULL, NULL, outputs, &error), TRM_OK);
  if (strstr(error.message, words) == NULL) fail_msg("%s", error.message);
  trm_engine_free(engine);
}

static void test_refused_when_run(void **state) {
  (void)state;
  expect_run_fails("HloModule m\n" START
                   "  ROOT y = f32[4] custom-call(x), custom_call_target=\"tremula.all-reduce\",\n"
                   "    backend_config=\"{\\\"group_size\\\":3}\" }\n",
                   4,
                   "The replica group size (got 3) does not evenly divide the total number of "
                   "replicas (got 4)");
  expect_run_fails("HloModule m\n" ADD START
                   "  ROOT y = f32[4] all-reduce(x), replica_groups={{0,2},{1}}, to_apply=add }\n",
                   2, "replica group 0 names replica 2, but the program runs on 2");
  expect_run_fails("HloModule m\n" ADD START
                   "  ROOT y = f32[4] all-reduce(x), replica_groups={{0}}, to_apply=add }\n",
                   2, "replica 1 is in none of its replica groups");
  expect_run_fails("HloModule m\n" START "  ROOT y = f32[4,4] custom-call(x), "
                   "custom_call_target=\"tremula.all-gather\" }\n",
                   2, "the replication factor that it was given is not that of the program");
  expect_run_fails("HloModule m\n" START
                   "  ROOT y = f32[4] all-to-all(x), replica_groups={}, dimensions={0} }\n",
                   3, "cannot be split in 3 along dimension 0");
  expect_run_fails("HloModule m\n" START
                   "  ROOT y = f32[4] collective-permute(x), source_target_pairs={{5,1}} }\n",
                   2, "names replica 5, but the program runs on 2");
}

static void expect_compile_fails(const char *text, const char *words) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) == TRM_OK) {
    assert_int_not_equal(trm_compile(module, NULL, 0, &executable, &error), TRM_OK);
    trm_module_free(module);
  }
  if (strstr(error.message, words) == NULL) fail_msg("%s", error.message);
}

static void test_refused_when_compiled(void **state) {
  (void)state;
  expect_compile_fails(
      "HloModule m\n" START
      "  ROOT y = f32[4] custom-call(x), custom_call_target=\"tremula.all-reduce\",\n"
      "    backend_config=\"{\\\"op\\\":\\\"sum\\\"}\" }\n",
      "its 'op' is 'sum'");
  expect_compile_fails(
      "HloModule m\n" START
      "  ROOT y = f32[4] custom-call(x), custom_call_target=\"tremula.all-reduce\",\n"
      "    backend_config=\"{\\\"op\\\":\\\"logical_and\\\"}\" }\n",
      "values of the type f32 have no 'logical_and'");
  expect_compile_fails(
      "HloModule m\n" START
      "  ROOT y = f32[4] custom-call(x), custom_call_target=\"tremula.all-reduce\",\n"
      "    backend_config=\"{\\\"groups\\\":2}\" }\n",
      "the unknown key 'groups'");
  expect_compile_fails(
      "HloModule m\n" START
      "  ROOT y = f32[5] custom-call(x), custom_call_target=\"tremula.all-reduce\" }\n",
      "result 0 does not fit its operand");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_reduce),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_operations),
      cmocka_unit_test(test_nan),
      cmocka_unit_test(test_half_sums_are_rounded_once),
      cmocka_unit_test(test_integers_and_called),
      cmocka_unit_test(test_long_arrays),
      cmocka_unit_test(test_tuples),
      cmocka_unit_test(test_gather_and_scatter),
      cmocka_unit_test(test_all_to_all),
      cmocka_unit_test(test_permute_and_broadcast),
      cmocka_unit_test(test_replication_factor),
      cmocka_unit_test(test_refused_when_run),
      cmocka_unit_test(test_refused_when_compiled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

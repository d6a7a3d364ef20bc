/* Collectives of several arrays (src/host/passes/collectives.c): which are combined, and that the
 * bits stay. */
#include "../run.h"

enum { REPLICAS = 4, MOST = 4096 };

#define RANDOM(name, dims, number)                                                            \
  "  " name " = f32[" dims "] custom-call(), custom_call_target=\"tremula.random\", "         \
  "custom_call_has_side_effect=true, backend_config=\"{\\\"distribution\\\":\\\"uniform\\\"," \
  "\\\"seed\\\":0,\\\"seed2\\\":0,\\\"id\\\":" number "}\"\n"
#define HEAD                                                                               \
  "HloModule m\n"                                                                          \
  "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"     \
  "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(b, a) }\n"     \
  "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }\n" \
  "ENTRY e {\n" RANDOM("x", "10", "1") RANDOM("y", "20", "2") RANDOM("z", "30", "3")
#define CALL(target, config) \
  "custom_call_target=\"tremula." target "\", backend_config=\"{" config "}\"\n"
#define ADD_ALL CALL("all-reduce", "\\\"op\\\":\\\"add\\\",\\\"group_size\\\":0")
#define MEAN_ALL CALL("all-reduce", "\\\"op\\\":\\\"mean\\\",\\\"group_size\\\":0")

static trm_executable *compiled(const char *text, const char *key, const char *bytes) {
  const trm_option options[] = {{"ipus", "4"}, {"verify", "true"}, {key, bytes}};
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, options, 3, &executable, &error) != TRM_OK) {
    fail_msg("%s\n%s", error.message, text);
  }
  trm_module_free(module);
  return executable;
}

/* The outputs of all replicas, one behind the other; returns how many bytes. */
static size_t run(trm_executable *executable, char *results) {
  trm_error error;
  trm_engine *engine = NULL;
  char first[MOST];
  void *outputs[8];
  size_t used = 0, num = trm_executable_num_outputs(executable);
  assert_true(num <= 8);
  for (size_t o = 0; o < num; ++o) {
    outputs[o] = first + used;
    used += trm_executable_output(executable, o)->bytes;
  }
  if (trm_engine_create_replicated(executable, REPLICAS, &engine, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_engine_set_seed(engine, 5);
  if (trm_engine_run(engine, NULL, NULL, outputs, &error) != TRM_OK) fail_msg("%s", error.message);
  used = 0;
  for (uint32_t r = 0; r < REPLICAS; ++r) {
    for (size_t o = 0; o < num; ++o) {
      const size_t bytes = trm_executable_output(executable, o)->bytes;
      assert_true(used + bytes <= MOST);
      memcpy(results + used, r == 0 ? outputs[o] : trm_engine_output(engine, r, o), bytes);
      used += bytes;
    }
  }
  trm_engine_free(engine);
  return used;
}

/* With so many bytes the program has `wanted` instructions or calls `word`; its numbers stay. */
static void expect(const char *text, const char *key, const char *bytes, const char *word,
                   int wanted) {
  static char before[MOST], after[MOST];
  trm_error error;
  trm_executable *plain = compiled(text, key, "0"), *combined = compiled(text, key, bytes);
  char *printed = NULL;
  if (trm_executable_print(combined, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  if (test_occurrences(printed, word) != wanted) fail_msg("not %d %s:\n%s", wanted, word, printed);
  trm_free(printed);
  const size_t size = run(plain, before);
  assert_int_equal(run(combined, after), size);
  assert_memory_equal(before, after, size);
  trm_executable_free(plain);
  trm_executable_free(combined);
}

#define THREE(a, b, c)                                          \
  HEAD "  a = f32[10] " a "  b = f32[20] " b "  c = f32[30] " c \
       "  ROOT t = (f32[10], f32[20], f32[30]) tuple(a, b, c) }\n"
#define REDUCE(of, by, groups) "all-reduce(" of "), replica_groups={" groups "}, to_apply=" by "\n"

static void test_up_to_the_limit(void **state) {
  (void)state;
  const char *text =
      THREE("custom-call(x), " ADD_ALL, "custom-call(y), " ADD_ALL, "custom-call(z), " ADD_ALL);
  expect(text, "combined_sums", "240", "tremula.all-reduce", 1);
  expect(text, "combined_sums", "239", "tremula.all-reduce", 2); /* y and z, x */
  expect(text, "combined_sums", "119", "tremula.all-reduce", 3); /* x and y have 120 bytes */
  expect(text, "combined_gathers", "1000", "tremula.all-reduce", 3);
  expect(THREE(REDUCE("x", "add", ""), REDUCE("y", "sum", ""), REDUCE("z", "add", "")),
         "combined_sums", "1000", " all-reduce(", 1);
}

static void test_only_like_ones(void **state) {
  (void)state;
  expect(THREE("custom-call(x), " ADD_ALL, "custom-call(y), " MEAN_ALL, "custom-call(z), " ADD_ALL),
         "combined_sums", "1000", "tremula.all-reduce", 2);
  expect(THREE(REDUCE("x", "add", ""), REDUCE("y", "max", ""), REDUCE("z", "add", "")),
         "combined_sums", "1000", " all-reduce(", 2);
  expect(THREE(REDUCE("x", "add", "{0,1},{2,3}"), REDUCE("y", "add", "{0,1},{2,3}"),
               REDUCE("z", "add", "{0,2},{1,3}")),
         "combined_sums", "1000", " all-reduce(", 2);
}

/* A sum that needs another one is in another collective, also where the way is crossed: b needs a,
 * and c, which is like a, needs d, which is like b. */
static void test_needs(void **state) {
  (void)state;
  expect(HEAD "  a = f32[10] custom-call(x), " ADD_ALL "  n = f32[10] negate(a)\n"
              "  b = f32[10] custom-call(n), " ADD_ALL "  c = f32[20] custom-call(y), " ADD_ALL
              "  ROOT t = (f32[10], f32[20]) tuple(b, c) }\n",
         "combined_sums", "1000", "tremula.all-reduce", 2);
  expect(HEAD "  a = f32[10] custom-call(x), " ADD_ALL "  n = f32[10] negate(a)\n"
              "  d = f32[20] custom-call(y), " MEAN_ALL "  m = f32[20] negate(d)\n"
              "  b = f32[10] custom-call(n), " MEAN_ALL "  c = f32[20] custom-call(m), " ADD_ALL
              "  ROOT t = (f32[10], f32[20]) tuple(b, c) }\n",
         "combined_sums", "1000", "tremula.all-reduce", 3);
}

/* What needs sums early does not keep others from being late. */
static void test_late(void **state) {
  (void)state;
  expect(HEAD "  a = f32[10] custom-call(x), " ADD_ALL "  m = f32[20] custom-call(y), " MEAN_ALL
              "  n = f32[20] negate(m)  b = f32[20] custom-call(n), " ADD_ALL
              "  ROOT t = (f32[10], f32[20]) tuple(a, b) }\n",
         "combined_sums", "1000", "tremula.all-reduce", 2);
}

/* Nothing else becomes a tuple, whatever has no bytes. */
static void test_others_stay(void **state) {
  (void)state;
  const char *text = HEAD
      "  i = s32[10] iota(), iota_dimension=0  e = f32[0] slice(x), slice={[0:0]}\n"
      "  s = (f32[10], s32[10]) custom-call(x, i), custom_call_target=\"tremula.all-reduce\"\n"
      "  a = f32[10] get-tuple-element(s), index=0  b = s32[10] get-tuple-element(s), index=1\n"
      "  c = f32[0] custom-call(e), " ADD_ALL "  d = f32[0] custom-call(e), " ADD_ALL
      "  ROOT t = (f32[10], s32[10], f32[0], f32[0]) tuple(a, b, c, d) }\n";
  expect(text, "combined_sums", "1000", "tremula.all-reduce", 2);
  expect(text, "combined_gathers", "1000", "tremula.all-reduce", 3);
}

static void test_other_collectives(void **state) {
  (void)state;
#define SCATTER CALL("reduce-scatter", "\\\"op\\\":\\\"add\\\",\\\"group_size\\\":0")
#define GATHER CALL("all-gather", "\\\"group_size\\\":0")
  expect(HEAD "  a = f32[3] custom-call(x), " SCATTER "  b = f32[5] custom-call(y), " SCATTER
              "  ROOT t = (f32[3], f32[5]) tuple(a, b) }\n",
         "combined_scatters", "1000", "tremula.reduce-scatter", 1);
  expect(HEAD "  a = f32[4,10] custom-call(x), " GATHER "  b = f32[4,20] custom-call(y), " GATHER
              "  ROOT t = (f32[4,10], f32[4,20]) tuple(a, b) }\n",
         "combined_gathers", "1000", "tremula.all-gather", 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_up_to_the_limit), cmocka_unit_test(test_only_like_ones),
      cmocka_unit_test(test_needs),           cmocka_unit_test(test_late),
      cmocka_unit_test(test_others_stay),     cmocka_unit_test(test_other_collectives),
  };
  return cmocka_run_group_tests_name("combined", tests, NULL, NULL);
}

/* The table of custom calls: which row a target is of, in modules that are read, copied and built;
 * and what a call is told, as JSON. */
#include "files.h"
#include "hlo/config.h"
#include "tremula/inspect.h"

static trm_module *call_of(const char *target, const char *config) {
  char text[512];
  const int size = snprintf(text, sizeof text,
                            "HloModule m\nENTRY e { x = f32[2] parameter(0)\n  ROOT c = f32[2] "
                            "custom-call(x), custom_call_target=\"%s\", backend_config=\"%s\" }\n",
                            target, config);
  return parse_ok(text, (size_t)size);
}

static const trm_instruction *root_of(const trm_module *module) {
  const trm_computation *entry = &module->computations[module->entry];
  return &entry->instructions[entry->root];
}

static void test_rows(void **state) {
  (void)state;
  static const struct {
    const char *target;
    trm_call_id id;
    trm_opcode acts_as;
  } rows[] = {
      {"tremula.infeed", TRM_CALL_INFEED, TRM_OP_INFEED},
      {"tremula.infeeds", TRM_CALL_NONE, TRM_OP_CUSTOM_CALL},
      {"tremula.infee", TRM_CALL_NONE, TRM_OP_CUSTOM_CALL},
      {"tremula.all-reduce", TRM_CALL_ALL_REDUCE, TRM_OP_ALL_REDUCE},
      {"Sharding", TRM_CALL_SHARDING, TRM_OP_COPY},
      {"mhlo.erf", TRM_CALL_MHLO_ERF, TRM_OP_ERF},
      {"lapack_dpotrf_ffi", TRM_CALL_LAPACK_POTRF, TRM_OP_CHOLESKY},
      {"lapack_zpotrf_ffi", TRM_CALL_LAPACK_POTRF, TRM_OP_CHOLESKY},
      {"lapack_xpotrf_ffi", TRM_CALL_LAPACK_OTHER, TRM_OP_CUSTOM_CALL},
      {"lapack_", TRM_CALL_LAPACK_OTHER, TRM_OP_CUSTOM_CALL},
      {"somebody's", TRM_CALL_NONE, TRM_OP_CUSTOM_CALL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    trm_module *module = call_of(rows[i].target, ""), *clone = NULL, *read = NULL;
    trm_error error;
    void *proto = NULL;
    size_t size;
    assert_int_equal(trm_module_clone(module, &clone, &error), TRM_OK);
    assert_int_equal(trm_module_serialize(module, &proto, &size, &error), TRM_OK);
    assert_int_equal(trm_module_read(proto, size, "test", &read, &error), TRM_OK);
    const trm_module *const all[] = {module, clone, read};
    for (int m = 0; m < 3; ++m) {
      assert_int_equal(root_of(all[m])->call_id, rows[i].id);
      assert_int_equal(trm_instruction_acts_as(root_of(all[m])), rows[i].acts_as);
    }
    trm_free(proto);
    trm_module_free(module);
    trm_module_free(clone);
    trm_module_free(read);
  }
}

/* Each target of the table finds its own row, so no row hides another. */
static void test_rows_are_reached(void **state) {
  (void)state;
  for (int id = TRM_CALL_NONE + 1; id < TRM_NUM_CALLS; ++id) {
    char target[128];
    snprintf(target, sizeof target, "%s", trm_call_target((trm_call_id)id));
    char *letter = strchr(target, '?');
    if (letter != NULL) *letter = 's';
    assert_int_equal(trm_call_find(target), id);
  }
}

static void test_config(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{\\\"a\\\":true,\\\"b\\\":12,\\\"c\\\":\\\"text\\\"}",
      " {\\n\\\"c\\\" :\\t\\\"text\\\" , \\\"b\\\" : 12, \\\"a\\\"  :  true } ",
      "{\\\"d\\\":\\\"\\\\\\\"a\\\\\\\":false\\\",\\\"b\\\":12,\\\"a\\\":true,\\\"c\\\":\\\"te\\\\u0078t\\\"}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    trm_module *module = call_of("somebody's", texts[i]);
    const trm_instruction *call = root_of(module);
    assert_true(trm_config_is(call, "a", JSON_TRUE));
    assert_false(trm_config_is(call, "a", JSON_FALSE));
    assert_false(trm_config_is(call, "none", JSON_NULL));
    assert_int_equal(trm_config_integer(call, "b", 7), 12);
    assert_int_equal(trm_config_integer(call, "a", 7), 7);
    assert_true(trm_config_is_text(call, "c", "text"));
    assert_false(trm_config_is_text(call, "c", "tex"));
    trm_module_free(module);
  }
  trm_module *module = call_of("somebody's", "no JSON");
  assert_int_equal(trm_config_integer(root_of(module), "b", 7), 7);
  assert_false(trm_config_is_text(root_of(module), "c", "text"));
  trm_module_free(module);
}

static bool is_hashable(const char *target, const char *config) {
  trm_module *module = call_of(target, config);
  trm_error error;
  void *proto = NULL;
  size_t size;
  assert_int_equal(trm_module_serialize(module, &proto, &size, &error), TRM_OK);
  const bool hashable = trm_inspect_is_hashable(proto, size);
  trm_free(proto);
  trm_module_free(module);
  return hashable;
}

static void hash_of(const char *side_table, uint64_t out_hash[2]) {
  trm_module *module = call_of("tremula.user-op", "{}");
  trm_error error;
  void *proto = NULL;
  size_t size;
  module->frontend_side_table = side_table;
  assert_int_equal(trm_module_serialize(module, &proto, &size, &error), TRM_OK);
  trm_inspect_hash(proto, size, out_hash);
  trm_free(proto);
  trm_module_free(module);
}

/* Names of inputs are the only part of a module that its hash leaves out. */
static void test_hashes(void **state) {
  (void)state;
  uint64_t one[2], other[2];
  hash_of("{\"arguments\": 1, \"inputs\": [\"x\"]}", one);
  hash_of("{\"arguments\": 1, \"inputs\": [\"a name of another length\"]}", other);
  assert_memory_equal(one, other, sizeof one);
  const char *const differ[] = {"{\"arguments\": 2, \"inputs\": [\"x\"]}", "{\"more\": 1}",
                                "no JSON", "other", NULL};
  for (int i = 0; i < 5; ++i) {
    hash_of(differ[i], other);
    assert_memory_not_equal(one, other, sizeof one);
    memcpy(one, other, sizeof one);
  }
  trm_inspect_hash("no module", 9, one);
  trm_inspect_hash("no module!", 10, other);
  assert_memory_not_equal(one, other, sizeof one);
}

static void test_hashable(void **state) {
  (void)state;
  assert_true(is_hashable("tremula.user-op", "{\\\"is_hashable\\\": true}"));
  assert_true(is_hashable("tremula.user-op", "{\\\"library\\\": \\\"is_hashable\\\"}"));
  assert_false(is_hashable("tremula.user-op", "{\\\"is_hashable\\\": false}"));
  assert_false(is_hashable("tremula.user-op", "{\\\"is_hashable\\\":false}"));
  assert_false(is_hashable("tremula.user-op", "{\\n  \\\"is_hashable\\\" :\\n false }"));
  /* Said by somebody else, or in the text of an attribute. */
  assert_true(is_hashable("somebody's", "{\\\"is_hashable\\\": false}"));
  assert_true(is_hashable("tremula.user-op",
                          "{\\\"attributes\\\":\\\"\\\\\\\"is_hashable\\\\\\\": false\\\"}"));
  assert_true(trm_inspect_is_hashable("tremula.user-op", 15)); /* no module */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),     cmocka_unit_test(test_rows_are_reached),
      cmocka_unit_test(test_config),   cmocka_unit_test(test_hashes),
      cmocka_unit_test(test_hashable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

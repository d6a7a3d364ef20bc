/* Modules with notes of the framework that they come from (src/hlo/lowered.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hlo/hlo.h"

/* A program with one argument, one variable and one state, all of which it returns. */
static const char text[] =
    "HloModule a_inference_program_12__.9, input_output_alias={ {1}: (1, {}, may-alias), {0}: (2, "
    "{}, may-alias) }\n"
    "program { ROOT p = f32[2] parameter(0) }\n"
    "ENTRY a_inference_program_12__.9 {\n"
    "  x = f32[2] parameter(0)\n"
    "  v = f32[2] parameter(1)\n"
    "  s = f32[2] parameter(2)\n"
    "  c = f32[2] call(x), to_apply=program\n"
    "  sum = f32[2] add(v, s), metadata={op_type=\"Add\" op_name=\"main/n2/n1/inner\" "
    "source_file=\"bridge.py\" source_line=7}, frontend_attributes={b=\"old\",z=\"kept\"}\n"
    "  next = f32[2] multiply(s, sum), metadata={op_type=\"Mul\" op_name=\"n3\"}\n"
    "  ROOT r = (f32[2], f32[2], f32[2]) tuple(next, sum, c)\n"
    "}\n";

static const char notes[] =
    "{\"name\": \"program\", \"side_table\": \"{\\\"arguments\\\": 1}\", \"first_state\": 2, "
    "\"aliases\": [[1, 0]], \"nodes\": {"
    "\"n1\": {\"name\": \"dense/add\", \"file\": \"model.py\", \"line\": 3, \"shard\": [1], "
    "\"attributes\": {\"b\": \"new\", \"a\": \"1\"}},"
    "\"n2\": {\"name\": \"outer\", \"file\": null, \"line\": 0},"
    "\"n3\": {\"name\": \"relu\", \"file\": null, \"line\": 0, \"type\": \"Relu\"}}}";

static void to_proto(const char *hlo, void **out_data, size_t *out_size) {
  trm_error error = {0};
  trm_module *module;
  if (trm_module_read(hlo, strlen(hlo), NULL, &module, &error) != TRM_OK)
    fail_msg("%s", error.message);
  assert_int_equal(trm_module_serialize(module, out_data, out_size, &error), TRM_OK);
  trm_module_free(module);
}

static trm_status read_lowered(const char *hlo, const char *with, trm_module **out_module,
                               trm_error *error) {
  void *data;
  size_t size;
  to_proto(hlo, &data, &size);
  const trm_status status = trm_module_read_lowered(data, size, with, out_module, error);
  trm_free(data);
  return status;
}

/* Random numbers depend on ids, so writing the module keeps them, and the order. */
static void expect_kept(const trm_module *module) {
  trm_error error = {0};
  void *data;
  size_t size;
  trm_module *again;
  assert_int_equal(trm_module_serialize(module, &data, &size, &error), TRM_OK);
  assert_int_equal(trm_module_read(data, size, NULL, &again, &error), TRM_OK);
  trm_free(data);
  const trm_computation *before = &module->computations[module->entry];
  const trm_computation *after = &again->computations[again->entry];
  assert_int_equal(before->num_instructions, after->num_instructions);
  for (trm_index i = 0; i < before->num_instructions; ++i) {
    assert_int_equal(before->instructions[i].id, after->instructions[i].id);
    assert_string_equal(before->instructions[i].name, after->instructions[i].name);
  }
  trm_module_free(again);
}

static void test_notes_are_applied(void **state) {
  (void)state;
  trm_error error = {0};
  trm_module *module;
  if (read_lowered(text, notes, &module, &error) != TRM_OK) fail_msg("%s", error.message);
  char *printed;
  assert_int_equal(trm_module_print(module, &printed, &error), TRM_OK);
  static const char *const expected[] = {
      "HloModule program, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, may-alias) }",
      "frontend_attributes={tremula_side_table=\"{\\\"arguments\\\": 1}\"}",
      "ENTRY %program.1 (x: f32[2], v: f32[2]) -> (f32[2], f32[2]) {",
      "sharding={maximal device=1}",
      "frontend_attributes={a=\"1\",b=\"new\",z=\"kept\"}",
      "metadata={op_type=\"Add\" op_name=\"dense/add\" source_file=\"model.py\" source_line=3}",
      "metadata={op_type=\"Relu\" op_name=\"relu\"}",
      "%s = f32[2]{0} broadcast(f32[] %zero.",
      "tuple(f32[2]{0} %sum, f32[2]{0} %c)"};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; ++i) {
    if (strstr(printed, expected[i]) == NULL) fail_msg("no \"%s\" in\n%s", expected[i], printed);
  }
  trm_free(printed);
  expect_kept(module);
  assert_int_equal(trm_module_num_outputs(module), 2);
  trm_tensor_info infos[2];
  int64_t aliases[2];
  assert_int_equal(trm_module_outputs(module, infos, aliases, &error), TRM_OK);
  assert_int_equal(infos[0].dtype, TRM_F32);
  assert_int_equal(infos[0].rank, 1);
  assert_int_equal(infos[0].dims[0], 2);
  assert_int_equal(infos[0].bytes, 8);
  assert_int_equal(aliases[0], 1);
  assert_int_equal(aliases[1], 0);
  trm_module_free(module);
}

/* TensorFlow after 2.15 names instructions after their nodes. */
static void test_instructions_are_named_after_opcodes(void **state) {
  (void)state;
  static const char hlo[] = "HloModule m\n"
                            "ENTRY e {\n"
                            "  add.1 = f32[2] parameter(0)\n"
                            "  n1.2 = f32[2] add(add.1, add.1), metadata={op_name=\"n1\"}\n"
                            "  n1.3 = f32[2] add(n1.2, n1.2), metadata={op_name=\"n1\"}\n"
                            "  n2 = f32[2] multiply(n1.3, n1.2), metadata={op_name=\"main/n2\"}\n"
                            "  n12.1 = f32[2] negate(n2), metadata={op_name=\"n1\"}\n"
                            "  sine.7 = f32[2] sine(n12.1), metadata={op_name=\"sine\"}\n"
                            "  ROOT own = f32[2] cosine(sine.7)\n"
                            "}\n";
  static const char *const expected[] = {"add.1", "add.2",  "add.3", "multiply.3",
                                         "n12.1", "sine.7", "own"};
  trm_error error = {0};
  trm_module *module;
  if (read_lowered(hlo, "{}", &module, &error) != TRM_OK) fail_msg("%s", error.message);
  const trm_computation *entry = &module->computations[module->entry];
  assert_int_equal(entry->num_instructions, sizeof expected / sizeof *expected);
  for (trm_index i = 0; i < entry->num_instructions; ++i) {
    assert_string_equal(entry->instructions[i].name, expected[i]);
  }
  trm_module_free(module);
}

static void test_no_notes_change_nothing(void **state) {
  (void)state;
  trm_error error = {0};
  trm_module *plain, *lowered;
  char *first, *second;
  void *data;
  size_t size;
  to_proto(text, &data, &size);
  assert_int_equal(trm_module_read(data, size, NULL, &plain, &error), TRM_OK);
  assert_int_equal(trm_module_read_lowered(data, size, "{}", &lowered, &error), TRM_OK);
  assert_int_equal(trm_module_print(plain, &first, &error), TRM_OK);
  assert_int_equal(trm_module_print(lowered, &second, &error), TRM_OK);
  assert_string_equal(first, second);
  trm_free(first);
  trm_free(second);
  trm_free(data);
  trm_module_free(plain);
  trm_module_free(lowered);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *hlo, *notes, *message;
  } cases[] = {
      {text, "[1]", "no object of JSON"},
      {text, "{", "no object of JSON"},
      {text, "{\"nodes\": {\"n1\": {\"file\": null}}}", "a node has no name"},
      {text, "{\"nodes\": {\"n1\": {\"name\": \"add\", \"shard\": [0, 1]}}}",
       "add is on 2 devices"},
      {text, "{\"nodes\": {\"n1\": {\"name\": \"add\", \"attributes\": {\"a\": 1}}}}",
       "the attribute 'a' is no text"},
      {text, "{\"aliases\": [[5, 0]]}", "alias"},
      {"HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
       "ENTRY e { ROOT x = f32[] parameter(0) }\n",
       "{\"first_state\": 0}", "no tuple"},
      {"HloModule m\nENTRY e {\n  x = f32[<=4] parameter(0)\n"
       "  ROOT y = f32[<=4] negate(x), metadata={op_type=\"Neg\" op_name=\"n1\"}\n}\n",
       "{\"nodes\": {\"n1\": {\"name\": \"minus\", \"file\": \"m.py\", \"line\": 3}}}",
       "An operation (unknown): the shape of its result depends on values"},
      {"HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  n = s32[] parameter(1)\n"
       "  ROOT y = f32[<=4] set-dimension-size(x, n), dimensions={0}, metadata={op_type=\"Where\" "
       "op_name=\"n1\"}\n}\n",
       "{\"nodes\": {\"n1\": {\"name\": \"mask\", \"file\": \"m.py\", \"line\": 3}}}",
       "mask (Where, defined at m.py:3): the shape of its result depends on values"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    trm_error error = {0};
    trm_module *module = NULL;
    assert_int_not_equal(read_lowered(cases[i].hlo, cases[i].notes, &module, &error), TRM_OK);
    assert_null(module);
    if (strstr(error.message, cases[i].message) == NULL) {
      fail_msg("\"%s\" does not say \"%s\"", error.message, cases[i].message);
    }
  }
}

static void test_memory_that_runs_out(void **state) {
  (void)state;
  void *data;
  size_t size;
  to_proto(text, &data, &size);
  for (int64_t n = 0;; ++n) {
    trm_error error = {0};
    trm_module *module = NULL;
    trm_allocation_fail_after(n);
    const trm_status status = trm_module_read_lowered(data, size, notes, &module, &error);
    trm_allocation_fail_after(-1);
    trm_module_free(module);
    if (status == TRM_OK) break;
    assert_null(module);
    assert_true(n < 10000);
  }
  trm_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_notes_are_applied),
      cmocka_unit_test(test_instructions_are_named_after_opcodes),
      cmocka_unit_test(test_no_notes_change_nothing),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_memory_that_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

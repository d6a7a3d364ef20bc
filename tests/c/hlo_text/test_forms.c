/* Forms of HLO text that XLA's reader takes beside what its printer writes. */
#include "files.h"

/* The text reads, verifies and prints `wanted` somewhere; what is printed prints alike. */
static void expect_read(const char *text, const char *wanted) {
  trm_error error;
  trm_module *module = NULL, *again = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("%s\nof: %s", error.message, text);
  }
  char *first = print_ok(module);
  if (strstr(first, wanted) == NULL) fail_msg("no '%s' in\n%s", wanted, first);
  if (trm_module_read(first, strlen(first), "again", &again, &error) != TRM_OK) {
    fail_msg("%s\nof: %s", error.message, first);
  }
  char *second = print_ok(again);
  assert_string_equal(first, second);
  trm_free(first);
  trm_free(second);
  trm_module_free(module);
  trm_module_free(again);
}

static void test_nested_instructions(void **state) {
  (void)state;
  expect_read("HloModule m\nENTRY e {\n"
              "  ROOT r = add(f32[4] parameter(0),\n"
              "    multiply(f32[4] parameter(1), f32[4] parameter(2)))\n}",
              "ROOT %r = f32[4]{0} add(f32[4]{0} %parameter.anon.0, f32[4]{0} %multiply.anon.3)");
  /* Named and unnamed ones among the operands; the root is the outermost. */
  expect_read("HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"
              "  ROOT t = tuple(x, negate(x), (f32[2], f32[2]) tuple(x, abs(negate(x))), x)\n"
              "  last = f32[2] abs(x)\n}",
              "ROOT %t = (f32[2]{0}, f32[2]{0}, (f32[2]{0}, f32[2]{0}), f32[2]{0}) tuple(");
  expect_read("HloModule m\nENTRY e {\n  ROOT r = sqrt(f32[2,2] broadcast(f32[] parameter(0)))\n}",
              "broadcast(f32[] %parameter.anon.0), dimensions={}");
}

/* What a dot's operands may be rounded to is kept; we round none. */
static void test_algorithms(void **state) {
  (void)state;
  static const char *const texts[][2] = {{"f32", "dot_bf16_bf16_f32_x3"},
                                         {"f32", "dot_tf32_tf32_f32"},
                                         {"f16", "dot_f16_f16_f16"},
                                         {"f64", "dot_f32_f32_f32"},
                                         {"f64", "dot_f64_f64_f64"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    char text[512], wanted[128];
    const char *type = texts[i][0];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  a = %s[2,3] parameter(0)\n  b = %s[3,2] parameter(1)\n"
             "  ROOT d = %s[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
             "algorithm=%s\n}",
             type, type, type, texts[i][1]);
    snprintf(wanted, sizeof wanted, "rhs_contracting_dims={0}, algorithm=%s\n", texts[i][1]);
    expect_read(text, wanted);
  }
}

static void test_without_header(void **state) {
  (void)state;
  expect_read("// only a computation\nsquare {\n  x = f32[] parameter(0)\n  y = multiply(x, x)\n}",
              "HloModule module, entry_computation_layout={(f32[])->f32[]}\n\n"
              "ENTRY %square (x: f32[])");
  expect_read("ENTRY %first (x: f32[]) -> f32[] {\n  ROOT %x = f32[] parameter(0)\n}\n"
              "other { z = s32[] constant(1) }",
              "ENTRY %first");
  /* The last computation is the entry where none is marked. */
  expect_read("HloModule m:\none { a = f32[] constant(1) }\ntwo { b = f32[] constant(2) }",
              "ENTRY %two");
}

static void test_single_instruction(void **state) {
  (void)state;
  expect_read("%y = f32[2,3]{1,0} multiply(f32[2,3]{1,0} %a, f32[2,3]{1,0} %a)",
              "ENTRY %entry (a: f32[2,3]) -> f32[2,3] {");
  expect_read("f32[2,3] subtract(f32[2,3], f32[2,3])",
              "ENTRY %entry (parameter.0: f32[2,3], parameter.1: f32[2,3]) -> f32[2,3] {");
  expect_read("r = f32[3] reduce(f32[2,3] x, f32[] zero), dimensions={0}, to_apply=\n{\n"
              "  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}",
              "to_apply=%inline.0");
}

/* Computations in the place of their names, and in these again. */
static void test_inline_computations(void **state) {
  (void)state;
  expect_read("f32[4] conditional(s32[], f32[4], f32[4]), branch_computations={\n"
              "{\n  x = f32[4] parameter(0)\n"
              "  ROOT y = f32[4] fusion(x), kind=kLoop, calls={\n"
              "    x = f32[4] parameter(0)\n    ROOT y = f32[4] ceil(x)\n  }\n},\n"
              "{ ROOT x = f32[4] parameter(0) }\n}",
              "branch_computations={%inline.0, %inline.1}");
}

static void test_ends_of_lines(void **state) {
  (void)state;
  expect_read("HloModule m\r// a comment\rENTRY e {\r  x = f32[] parameter(0) // another\r}", "%x");
  expect_read("HloModule m\r\n// a comment\r\nENTRY e {\r\n  x = f32[] parameter(0)\r\n}", "%x");
}

static void test_attributes_left_out(void **state) {
  (void)state;
  static const char add[] = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                            "  ROOT c = f32[] add(a, b)\n}\n";
  static const char ge[] = "ge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                           "  ROOT c = pred[] compare(a, b), direction=GE\n}\n";
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\n%sENTRY e {\n  x = f32[] parameter(0)\n"
           "  ROOT r = f32[] reduce-window(x, x), to_apply=add\n}",
           add);
  expect_read(text, "reduce-window(f32[] %x, f32[] %x), to_apply=%add");
  snprintf(text, sizeof text,
           "HloModule m\n%s%sENTRY e {\n  x = f32[] parameter(0)\n"
           "  ROOT r = f32[] select-and-scatter(x, x, x), select=ge, scatter=add\n}",
           add, ge);
  expect_read(text, "select=%ge, scatter=%add");
  expect_read("HloModule m\nENTRY e {\n  t = token[] after-all()\n"
              "  r = (f32[], u32[], token[]) recv(t), is_host_transfer=true\n"
              "  ROOT d = (f32[], token[]) recv-done(r), is_host_transfer=true\n}",
              "recv(token[] %t), is_host_transfer=true");
}

/* Read, and nothing is lost by not keeping it. */
static void test_hints(void **state) {
  (void)state;
  expect_read("HloModule m, buffer_donor={ (0, {}), (1, {}) }\nENTRY e {\n"
              "  a = f32[2,3] parameter(0)\n  b = f32[3,2] parameter(1)\n"
              "  ROOT d = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
              "algorithm=unset\n}",
              "rhs_contracting_dims={0}\n");
  expect_read("HloModule m, origin_recovery_table={\n  {\"a\"} : {\"b\"},\n  \"ENTRY %x { }\"\n}\n"
              "ENTRY e {\n  a = f32[2] parameter(0), origin={{\"a\"}}\n"
              "  ROOT e = f32[2] exponential(a), "
              "result_accuracy={tolerance={rtol=0.5, atol=1.0, ulps=2}}\n}",
              "exponential(f32[2]{0} %a)");
  expect_read("HloModule m\nENTRY e {\n  a = f32[2]{0:D(D)} parameter(0)\n"
              "  ROOT c = f32[2] custom-call(a), custom_call_target=\"t\", "
              "schedule=SCHEDULE_LATEST, operand_layout_constraints={f32[2]{0}}\n}",
              "custom_call_target=\"t\"");
}

/* A module with any of these can be written: what a partitioner notes is left out. */
static void test_shardings(void **state) {
  (void)state;
  static const char *const shardings[][2] = {
      {"{replicated metadata={op_name=\"a}b\\\"\"}}", "{replicated}"},
      {"{manual shard_as 1}", "{manual}"},
      {"{devices=[2,2]<=[4] last_tile_dims={manual, replicated} shard_like 12}",
       "{devices=[2,2]<=[4] last_tile_dims={manual, replicated}}"},
      {"{maximal device=1 metadata={{op_name=\"x\"}, {op_name=\"y\"}}}", "{maximal device=1}"}};
  for (size_t i = 0; i < sizeof shardings / sizeof *shardings; ++i) {
    char text[512];
    trm_error error;
    trm_module *module, *again = NULL;
    void *data = NULL;
    size_t size;
    snprintf(text, sizeof text, "HloModule m\nENTRY e { x = f32[4,4] parameter(0), sharding=%s }",
             shardings[i][0]);
    module = parse_ok(text, strlen(text));
    if (trm_module_serialize(module, &data, &size, &error) != TRM_OK ||
        trm_module_read(data, size, "again", &again, &error) != TRM_OK) {
      fail_msg("%s", error.message);
    }
    assert_string_equal(find_instruction(again, "x")->sharding, shardings[i][1]);
    trm_free(data);
    trm_module_free(module);
    trm_module_free(again);
  }
  trm_error error;
  void *data = NULL;
  size_t size;
  static const char open[] =
      "HloModule m\nENTRY e { x = f32[4] parameter(0), sharding={manual shard_as} }";
  trm_module *module = parse_ok(open, sizeof open - 1);
  assert_int_equal(trm_module_serialize(module, &data, &size, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "expected a number"));
  trm_module_free(module);
}

static void test_values(void **state) {
  (void)state;
  expect_read("HloModule m\nENTRY e { c = u64[2] constant({-1, -2}) }",
              "{18446744073709551615, 18446744073709551614}");
  expect_read("HloModule m\nENTRY e { c = f32[2] constant({nan(0x1), -nan(0x7fffff)}) }", "nan");
}

/* Of what TensorFlow and XLA schedule in two parts; start indices as they were before 2019. */
static void test_old_and_new(void **state) {
  (void)state;
  expect_read("HloModule m\nENTRY e {\n  x = f32[4,8] parameter(0)\n  i = s32[2] parameter(1)\n"
              "  s = f32[2,3] dynamic-slice(x, i), dynamic_slice_sizes={2,3}\n"
              "  ROOT u = f32[4,8] dynamic-update-slice(x, s, i)\n}",
              "dynamic-slice(f32[4,8]{1,0} %x, s32[2]{0} %i)");
  expect_read("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n"
              "  t = token[] after-all(x)\n  y = f32[4] add-dependency(x, t)\n"
              "  s = (f32[4], f32[4], u32[]) copy-start(y)\n  ROOT d = f32[4] copy-done(s)\n}",
              "after-all(f32[4]{0} %x)");
}

/* Replica groups by axes of a mesh are those that they stand for, the axes' parts from the major
 * one. */
static void test_meshes(void **state) {
  (void)state;
  static const struct {
    const char *groups, *printed;
  } cases[] = {
      {"mesh['a'=2,'b'=4] {'a'}", "{{0,4},{1,5},{2,6},{3,7}}"},
      {"mesh['a'=2,'b'=4] {'b'}", "{{0,1,2,3},{4,5,6,7}}"},
      {"mesh['a'=2,'b'=4]{'b','a'}", "{{0,4,1,5,2,6,3,7}}"},
      {"mesh['a'=2,'b'=4] {'b':(1)2}", "{{0,2},{1,3},{4,6},{5,7}}"},
      {"mesh['a'=2,'b'=4] {'b':(2)2}", "{{0,1},{2,3},{4,5},{6,7}}"},
      {"mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}", "{{0,1},{2,3},{4,5},{6,7}}"},
      {"mesh['a'=1,'b'=2], device_ids=(1,0) {'b'}", "{{1,0}}"},
      {"mesh['a'=2] {}", "{{0},{1}}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[512], wanted[128];
    snprintf(text, sizeof text,
             "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
             "  ROOT c = f32[] add(a, b)\n}\nENTRY e {\n  p = f32[4] parameter(0)\n"
             "  ROOT r = f32[4] all-reduce(p), replica_groups=%s, to_apply=add\n}",
             cases[i].groups);
    snprintf(wanted, sizeof wanted, "replica_groups=%s,", cases[i].printed);
    expect_read(text, wanted);
  }
}

static void test_one_value_for_an_array(void **state) {
  (void)state;
  /* As XLA reads it: the first element. */
  expect_read("HloModule m\nENTRY e { ROOT p = f32[2,3] constant(5) }",
              "constant({ { 5, 0, 0 }, { 0, 0, 0 } })");
  expect_read("HloModule m\nENTRY e { ROOT p = pred[3] constant(true) }", "constant({1, 0, 0})");
}

/* An order takes the place of a type; integers have but one. */
static void test_orders(void **state) {
  (void)state;
  expect_read("HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n"
              "  ROOT c = pred[4] compare(p, p), direction=LT, order=TOTAL\n}",
              "direction=LT, type=TOTALORDER");
  expect_read("HloModule m\nENTRY e {\n  p = s32[4] parameter(0)\n"
              "  ROOT c = pred[4] compare(p, p), direction=LT, order=TOTAL\n}",
              "direction=LT\n");
}

/* Numbers of replicas and partitions have one shape; the carries of a scan are its last operands.
 */
static void test_what_follows_from_others(void **state) {
  (void)state;
  expect_read("HloModule m\nENTRY e {\n  p = partition-id()\n  r = replica-id()\n"
              "  ROOT s = add(p, r)\n}",
              "ROOT %s = u32[] add(u32[] %p, u32[] %r)");
  expect_read(
      "HloModule m\nstep {\n  x = f32[2] parameter(0)\n  k = s32[] parameter(1)\n"
      "  c = f32[2] parameter(2)\n  s = f32[2] add(x, c)\n"
      "  ROOT t = (f32[2], s32[], f32[2]) tuple(s, k, s)\n}\n"
      "ENTRY e {\n  x = f32[2,3] parameter(0)\n  k = s32[] parameter(1)\n"
      "  c = f32[2] parameter(2)\n"
      "  ROOT r = (f32[2,3], s32[], f32[2]) scan(x, k, c), dimensions={1}, to_apply=step\n}",
      "dimensions={1}, num_carries=2, to_apply");
}

/* What XLA's reader asks for or takes for another value is printed, also where it says little. */
static void test_printed_for_xla(void **state) {
  (void)state;
  expect_read("HloModule m\nENTRY e {\n  x = f32[4,6] parameter(0)\n"
              "  ROOT t = topk(x), k=2\n}",
              "topk(f32[4,6]{1,0} %x), k=2, largest=true\n");
  expect_read("HloModule m\nENTRY e {\n  x = f32[4,6] parameter(0)\n"
              "  ROOT t = topk(x), k=2, largest=false\n}",
              ", k=2, largest=false\n");
  expect_read("HloModule m\nENTRY e {\n  x = f32[4,6] parameter(0)\n  i = s32[4,1] parameter(1)\n"
              "  ROOT g = gather(x, i), offset_dims={1}, collapsed_slice_dims={}, "
              "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
              "index_vector_dim=1, slice_sizes={1,2}\n}",
              "offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, operand_b");
}

/* What is read and not supported is named, and is no mistake of syntax. */
static void test_named_refusals(void **state) {
  (void)state;
  static const char *const refused[][2] = {
      {"f32[?] parameter(1)", "line 4, column 16: a dimension without a bound"},
      {"f32[4,4] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
       "sparsity_config={lhs={1}}",
       "dot with 'sparsity_config' is not supported"},
      {"f32[4,4] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
       "block_scaling_config={lhs={1}}",
       "dot with 'block_scaling_config' is not supported"},
      {"f32[4,4] collective-broadcast(p), replica_groups={{0,1}}, has_dynamic_root=true",
       "collective-broadcast with 'has_dynamic_root' is not supported"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    char text[512];
    trm_module *module = NULL;
    trm_error error;
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  p = f32[4,4] parameter(0)\n  ROOT r = %s\n}",
             refused[i][0]);
    assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error),
                     TRM_UNIMPLEMENTED);
    if (strstr(error.message, refused[i][1]) == NULL) fail_msg("%s", error.message);
  }
  expect_read("HloModule m\nENTRY e {\n  p = f32[4,4] parameter(0)\n  ROOT r = f32[4,4] dot(p, p), "
              "lhs_contracting_dims={1}, rhs_contracting_dims={1}, sparsity_config={}\n}",
              "ROOT %r = f32[4,4]{1,0} dot(");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_meshes),
                                     cmocka_unit_test(test_one_value_for_an_array),
                                     cmocka_unit_test(test_orders),
                                     cmocka_unit_test(test_what_follows_from_others),
                                     cmocka_unit_test(test_printed_for_xla),
                                     cmocka_unit_test(test_named_refusals),
                                     cmocka_unit_test(test_nested_instructions),
                                     cmocka_unit_test(test_without_header),
                                     cmocka_unit_test(test_single_instruction),
                                     cmocka_unit_test(test_inline_computations),
                                     cmocka_unit_test(test_ends_of_lines),
                                     cmocka_unit_test(test_attributes_left_out),
                                     cmocka_unit_test(test_hints),
                                     cmocka_unit_test(test_algorithms),
                                     cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_old_and_new),
                                     cmocka_unit_test(test_shardings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

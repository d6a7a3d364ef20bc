/* What the parser makes of values: attributes, constants, order, names, asynchronous forms. */
#include <math.h>

#include "files.h"

static void test_attributes(void **state) {
  (void)state;
  size_t size;
  char *data = load("linear", &size);
  trm_module *module = parse_ok(data, size);
  const trm_instruction *c = find_instruction(module, "convolution");
  assert_int_equal(c->window->rank, 2);
  assert_int_equal(c->window->dims[0].size, 3);
  assert_int_equal(c->window->dims[0].stride, 1);
  assert_int_equal(c->window->dims[1].stride, 2);
  assert_int_equal(c->window->dims[1].padding_low, 1);
  assert_int_equal(c->window->dims[1].padding_high, 1);
  assert_true(c->window->dims[0].reversal);
  assert_false(c->window->dims[1].reversal);
  assert_int_equal(c->convolution->input_feature, 3);
  assert_int_equal(c->convolution->input_spatial[1], 2);
  assert_int_equal(c->convolution->kernel_output_feature, 3);
  assert_int_equal(c->convolution->kernel_spatial[0], 0);
  assert_int_equal(c->convolution->feature_group_count, 2);
  assert_int_equal(c->convolution->batch_group_count, 1);
  assert_int_equal(c->operand_precision.items[0], 2);
  const trm_instruction *dilated = find_instruction(module, "dilated");
  assert_int_equal(dilated->window->dims[0].base_dilation, 2);
  assert_int_equal(dilated->window->dims[0].window_dilation, 1);
  assert_int_equal(dilated->window->dims[1].window_dilation, 2);
  const trm_instruction *solve = find_instruction(module, "solve");
  assert_int_equal(solve->triangular_solve->transpose_a, 3);
  assert_string_equal(find_instruction(module, "fusion")->fusion_kind, "kLoop");
  const trm_instruction *unpool = find_instruction(module, "unpool");
  assert_string_equal(module->computations[unpool->called[0]].name, "ge");
  assert_string_equal(module->computations[unpool->called[1]].name, "add");
  assert_true(find_instruction(module, "normal")->epsilon == 0.001f);
  trm_module_free(module);
  free(data);
  data = load("data", &size);
  module = parse_ok(data, size);
  const trm_instruction *pad = find_instruction(module, "pad");
  assert_int_equal(pad->padding[0].interior, 1);
  assert_int_equal(pad->padding[1].low, -2);
  assert_int_equal(find_instruction(module, "slice")->slice[0].stride, 2);
  assert_int_equal(find_instruction(module, "slice")->slice[1].stride, 1);
  /* Notes are left out, as a proto leaves them out. */
  assert_string_equal(find_instruction(module, "x")->sharding, "{devices=[2,1]0,1}");
  trm_module_free(module);
  free(data);
  data = load("communication", &size);
  module = parse_ok(data, size);
  const trm_replica_groups *groups =
      &find_instruction(module, "iota-groups")->collective->replica_groups;
  assert_int_equal(groups->count, 2); /* [2,2]<=[2,2]T(1,0): {0,2},{1,3} */
  assert_int_equal(groups->groups[0].items[1], 2);
  assert_int_equal(groups->groups[1].items[0], 1);
  assert_int_equal(find_instruction(module, "permute")->collective->source_target_pairs.count, 8);
  trm_module_free(module);
  free(data);
}

static void test_texts(void **state) {
  (void)state;
  size_t size;
  char *data = load("control", &size);
  trm_module *module = parse_ok(data, size);
  const trm_instruction *loop = find_instruction(module, "while");
  assert_string_equal(module->computations[loop->called[0]].name, "condition");
  assert_string_equal(loop->metadata.op_name, "a \"quoted\" loop");
  assert_int_equal(loop->metadata.source_line, 41);
  assert_string_equal(loop->backend_config, "{\"known_trip_count\":{\"n\":\"10\"}}");
  assert_string_equal(find_instruction(module, "call")->backend_config,
                      "{\"key\": \"}\", \"list\": [1, 2]}");
  const trm_instruction *several = find_instruction(module, "several");
  static const char bytes[] = "\0\1\377 \\ \n\tA";
  assert_int_equal(several->backend_config_size, sizeof bytes - 1);
  assert_memory_equal(several->backend_config, bytes, sizeof bytes);
  assert_int_equal(several->num_called, 2);
  const trm_instruction *barrier = find_instruction(module, "barrier");
  assert_string_equal(barrier->frontend_attributes[1], "a=b, {c}");
  assert_string_equal(barrier->frontend_attributes[3], "{\"a\":1}");
  assert_null(barrier->frontend_attributes[4]);
  assert_int_equal(find_instruction(module, "constant")->num_control_predecessors, 2);
  assert_string_equal(module->frontend_side_table, "{\"7\":{\"name\":\"dense/MatMul\"}}");
  char buffer[256];
  assert_string_equal(trm_instruction_text(module, loop, buffer, sizeof buffer),
                      "%while = (s32[], f32[4]) while(...) (model.py:41, a \"quoted\" loop)");
  assert_string_equal(trm_instruction_text(module, several, buffer, sizeof buffer),
                      "%several = f32[4] custom-call(...)");
  assert_string_equal(trm_instruction_text(module, loop, buffer, 8), "%while ");
  trm_module_free(module);
  free(data);
}

static void test_constants(void **state) {
  (void)state;
  size_t size;
  char *data = load("constants", &size);
  trm_module *module = parse_ok(data, size);
#define LEAF(name, type) ((const type *)find_instruction(module, name)->literal->leaves[0])
  assert_int_equal(LEAF("preds", uint8_t)[0], 1);
  assert_int_equal(LEAF("preds", uint8_t)[2], 0);
  assert_int_equal(LEAF("s8", int8_t)[0], -128);
  assert_true(LEAF("s64", int64_t)[0] == INT64_MIN);
  assert_true(LEAF("s64", int64_t)[1] == INT64_MAX);
  assert_true(LEAF("u64", uint64_t)[0] == UINT64_MAX);
  static const uint16_t halves[] = {0x7bff, 0x0400, 0x0001, 0x8000, 0x3555};
  assert_memory_equal(LEAF("f16", uint16_t), halves, sizeof halves);
  static const uint16_t bfloats[] = {0x7f7f, 0x3f80, 0xff80}; /* 1.00390625 ties to even */
  assert_memory_equal(LEAF("bf16", uint16_t), bfloats, sizeof bfloats);
  assert_true(LEAF("f32", float)[2] == 0.1f);
  assert_true(signbit(LEAF("f32", float)[3]));
  assert_true(isnan(LEAF("f32", float)[4]) && isnan(LEAF("f32", float)[5]));
  assert_true(LEAF("f32", float)[7] < 0 && isinf(LEAF("f32", float)[7]));
  assert_true(LEAF("c64", float)[1] == -2.5f);
  assert_true(LEAF("c128", double)[1] == 1e-300);
  const trm_literal *tuple = find_instruction(module, "tuple")->literal;
  assert_int_equal(tuple->num_leaves, 3);
  assert_int_equal(*(const int32_t *)tuple->leaves[1], 3);
#undef LEAF
  trm_module_free(module);
  free(data);
}

/* Decimal text just above a tie must not be rounded twice, by way of float. */
static void test_rounding(void **state) {
  (void)state;
  static const char text[] = "HloModule m\nENTRY e {\n"
                             "  a = f16[2] constant({1.00048828125, 1.00048828125001})\n"
                             "  ROOT b = bf16[2] constant({1.00390625, 1.00390625000001})\n}\n";
  trm_module *module = parse_ok(text, sizeof text - 1);
  const uint16_t *half = find_instruction(module, "a")->literal->leaves[0];
  const uint16_t *bfloat = find_instruction(module, "b")->literal->leaves[0];
  assert_int_equal(half[0], 0x3c00); /* the tie itself, to even */
  assert_int_equal(half[1], 0x3c01);
  assert_int_equal(bfloat[0], 0x3f80);
  assert_int_equal(bfloat[1], 0x3f81);
  trm_module_free(module);
}

/* Every half, and many floats, come back from their text bit by bit. */
static void test_floats_round_trip(void **state) {
  (void)state;
  enum { COUNT = 4096 };
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\nENTRY e {\n  h = f16[65536] constant({");
  for (int i = 0; i < 65536; ++i) trm_text_format(&text, "%s0", i == 0 ? "" : ",");
  trm_text_format(&text, "})\n  ROOT f = f32[%d] constant({", COUNT);
  for (int i = 0; i < COUNT; ++i) trm_text_format(&text, "%s0", i == 0 ? "" : ",");
  trm_text_format(&text, "})\n}\n");
  trm_module *module = parse_ok(text.data, text.length);
  uint16_t *halves = (uint16_t *)find_instruction(module, "h")->literal->leaves[0];
  uint32_t *floats = (uint32_t *)find_instruction(module, "f")->literal->leaves[0];
  uint32_t random = 12345;
  for (int i = 0; i < 65536; ++i) halves[i] = (uint16_t)((i & 0x7fff) > 0x7c00 ? 0x7e00 : i);
  for (int i = 0; i < COUNT; ++i) {
    random = random * 1664525u + 1013904223u;
    floats[i] = (random & 0x7f800000u) == 0x7f800000u ? 0x7f800000u : random;
  }
  char *printed = print_ok(module);
  trm_module *again = parse_ok(printed, strlen(printed));
  assert_memory_equal(find_instruction(again, "h")->literal->leaves[0], halves, 65536 * 2);
  assert_memory_equal(find_instruction(again, "f")->literal->leaves[0], floats, COUNT * 4);
  trm_free(printed);
  trm_module_free(again);
  trm_module_free(module);
  trm_text_free(&text);
}

/* Forward references are put in order; the rest keeps the text's; shapes are inferred. */
static void test_order(void **state) {
  (void)state;
  size_t size;
  char *data = load("short_form", &size);
  trm_module *module = parse_ok(data, size);
  const trm_computation *entry = &module->computations[module->entry];
  for (trm_index i = 0; i < entry->num_instructions; ++i) {
    for (uint32_t k = 0; k < entry->instructions[i].num_operands; ++k) {
      assert_true(entry->instructions[i].operands[k] < i);
    }
  }
  const trm_instruction *product = find_instruction(module, "product");
  assert_int_equal(product->shape.rank, 2);
  assert_int_equal(product->shape.dims[1], 4);
  assert_string_equal(entry->instructions[entry->root].name, "out.2"); /* sum has the other */
  assert_true(module->is_scheduled);
  assert_int_equal(module->num_aliases, 1);
  assert_true(module->aliases[0].must_alias);
  assert_int_equal(module->aliases[0].parameter_number, 2);
  assert_int_equal(entry->instructions[entry->parameters[1]].shape.layout[0], 0);
  /* Names and ids are unique in the module. */
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    for (trm_index i = 0; i < module->computations[c].num_instructions; ++i) {
      const trm_instruction *a = &module->computations[c].instructions[i];
      assert_ptr_equal(find_instruction(module, a->name), a);
      assert_in_range((uint64_t)a->id, 1, 12);
    }
  }
  trm_module_free(module);
  free(data);
}

static void test_async_sugar(void **state) {
  (void)state;
  size_t size;
  char *data = load("async_sugar", &size);
  trm_module *module = parse_ok(data, size);
  const trm_instruction *start = find_instruction(module, "work-start");
  assert_int_equal(start->opcode, TRM_OP_ASYNC_START);
  assert_int_equal(start->num_operands, 2);
  const trm_computation *wrapped = &module->computations[start->called[0]];
  assert_int_equal(wrapped->num_parameters, 2);
  const trm_instruction *call = &wrapped->instructions[wrapped->root];
  assert_string_equal(call->custom_call->target, "work");
  assert_int_equal(call->shape.dims[0], 20);
  assert_int_equal(find_instruction(module, "work-done")->opcode, TRM_OP_ASYNC_DONE);
  trm_module_free(module);
  free(data);
}

/* Newer XLA keeps source lines in tables. */
static void test_frames(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n\nFileNames\n1 \"a.py\"\n2 \"b.py\"\n\nFunctionNames\n1 \"train\"\n\n"
      "FileLocations\n1 {file_name_id=1 function_name_id=1 line=7 column=2}\n"
      "2 {file_name_id=2 function_name_id=1 line=41 end_line=42}\n\n"
      "StackFrames\n1 {file_location_id=2 parent_frame_id=1}\n\n"
      "ENTRY FileNames {\n  p = f32[] parameter(0)\n"
      "  ROOT n = f32[] negate(p), metadata={op_name=\"x\" stack_frame_id=1}\n}\n";
  trm_module *module = parse_ok(text, sizeof text - 1);
  const trm_instruction *n = find_instruction(module, "n");
  assert_string_equal(n->metadata.source_file, "b.py");
  assert_int_equal(n->metadata.source_line, 41);
  trm_module_free(module);
}

/* The leaves of a tuple of arrays are its elements, whoever has made it: a plan of a loop with
 * thousands of variables asks for each leaf of its state at each of its readers. */
static void test_flat_tuples(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e {\n  p = (f32[2], s32[3]) parameter(0)\n  a = f32[2] "
      "get-tuple-element(p), index=0\n  k = token[] after-all()\n  t = (f32[2], token[]) "
      "tuple(a, k)\n  ROOT n = (f32[2], (f32[2], s32[3])) tuple(a, p)\n}\n";
  trm_module *parsed = parse_ok(text, sizeof text - 1), *module;
  void *data;
  size_t size;
  assert_int_equal(trm_module_serialize(parsed, &data, &size, NULL), TRM_OK);
  assert_int_equal(trm_module_read(data, size, NULL, &module, NULL), TRM_OK);
  for (int read = 0; read < 2; ++read) {
    const trm_module *one = read == 0 ? parsed : module;
    const trm_shape *p = &find_instruction(one, "p")->shape,
                    *n = &find_instruction(one, "n")->shape;
    assert_true(p->is_flat && n->elements[1].is_flat);
    assert_true(!n->is_flat && !find_instruction(one, "t")->shape.is_flat);
    assert_int_equal(trm_shape_num_leaves(p), 2);
    assert_ptr_equal(trm_shape_leaf(p, 1), &p->elements[1]);
    assert_null(trm_shape_leaf(p, 2));
    assert_int_equal(trm_shape_num_leaves(n), 3);
    assert_int_equal(trm_shape_leaf(n, 2)->dtype, TRM_S32);
    assert_int_equal(trm_shape_num_leaves(&find_instruction(one, "t")->shape), 1);
  }
  trm_free(data);
  trm_module_free(parsed);
  trm_module_free(module);
}

/* 100 000 instructions in a chain, once forward and once from the end. */
static void test_long_chain(void **state) {
  (void)state;
  enum { LENGTH = 100000 };
  for (int backward = 0; backward < 2; ++backward) {
    trm_text text = {0};
    trm_text_format(&text, "HloModule m\nENTRY e {\n");
    for (int i = 0; i <= LENGTH; ++i) {
      const int n = backward ? LENGTH - i : i;
      const char *root = n == LENGTH ? "ROOT " : "";
      if (n == 0) trm_text_format(&text, "%sx0 = f32[] parameter(0)\n", root);
      else trm_text_format(&text, "%sx%d = f32[] negate(x%d)\n", root, n, n - 1);
    }
    trm_text_format(&text, "}\n");
    trm_module *module = parse_ok(text.data, text.length);
    const trm_computation *entry = &module->computations[module->entry];
    assert_int_equal(entry->num_instructions, LENGTH + 1);
    assert_string_equal(entry->instructions[0].name, "x0");
    assert_int_equal(entry->root, LENGTH);
    trm_module_free(module);
    trm_text_free(&text);
  }
}

static void test_deep_calls(void **state) {
  (void)state;
  enum { DEPTH = 10000 };
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\n");
  for (int i = DEPTH; i > 0; --i) {
    trm_text_format(&text, "%sc%d {\n  p = f32[] parameter(0)\n  ROOT r = %s(p)%s",
                    i == DEPTH ? "ENTRY " : "", i, i == 1 ? "f32[] negate" : "f32[] call",
                    i == 1 ? "" : ", to_apply=c");
    if (i > 1) trm_text_format(&text, "%d", i - 1);
    trm_text_format(&text, "\n}\n");
  }
  trm_module *module = parse_ok(text.data, text.length);
  assert_int_equal(module->num_computations, DEPTH);
  assert_string_equal(module->computations[0].name, "c1");
  trm_module_free(module);
  trm_text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attributes),        cmocka_unit_test(test_texts),
      cmocka_unit_test(test_constants),         cmocka_unit_test(test_rounding),
      cmocka_unit_test(test_floats_round_trip), cmocka_unit_test(test_order),
      cmocka_unit_test(test_async_sugar),       cmocka_unit_test(test_frames),
      cmocka_unit_test(test_flat_tuples),       cmocka_unit_test(test_long_chain),
      cmocka_unit_test(test_deep_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A program in one document: JSON, CBOR and text; the tensor map; graphs in the DOT language. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cbor.h>
#include <jansson.h>
#include <cmocka.h>

#include "report/stream.h"
#include "tremula/inspect.h"
#include "tremula/report.h"

static const char text[] =
    "HloModule m\nbody { s = (s32[], f32[64,64]) parameter(0)\n"
    "i = s32[] get-tuple-element(s), index=0  x = f32[64,64] get-tuple-element(s), index=1\n"
    "one = s32[] constant(1)  n = s32[] add(i, one)\n"
    "y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "ROOT t = (s32[], f32[64,64]) tuple(n, y) }\n"
    "condition { s = (s32[], f32[64,64]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "five = s32[] constant(5)  ROOT c = pred[] compare(i, five), direction=LT }\n"
    "ENTRY e { a = f32[64,64] parameter(0), sharding={maximal device=0}\n"
    "zero = s32[] constant(0)  b = f32[64,64] tanh(a)\n"
    "t = (s32[], f32[64,64]) tuple(zero, b)\n"
    "w = (s32[], f32[64,64]) while(t), condition=condition, body=body\n"
    "ROOT r = f32[64,64] get-tuple-element(w), index=1 }";

static trm_executable *executable;
static trm_program *program;

static int make(void **state) {
  (void)state;
  trm_error error;
  trm_module *module;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, NULL, 0, &executable, &error) != TRM_OK ||
      trm_program_create_for_executable(executable, NULL, NULL, &program, &error) != TRM_OK) {
    printf("%s\n", error.message);
    return 1;
  }
  trm_module_free(module);
  return 0;
}

static int release(void **state) {
  (void)state;
  trm_program_free(program);
  trm_executable_free(executable);
  return 0;
}

/* ---- Streams ---- */

static void put_all(trm_stream *s) {
  trm_stream_open(s);
  trm_stream_object(s);
  trm_stream_put_string(s, "text", "a \"b\"\n\xc3\xa4");
  trm_stream_put_string(s, "no UTF-8", "\xff");
  trm_stream_put_int(s, "least", INT64_MIN);
  trm_stream_put_int(s, "most", INT64_MAX);
  trm_stream_key(s, "list");
  trm_stream_array(s);
  trm_stream_array(s);
  trm_stream_end_array(s);
  trm_stream_bool(s, true);
  trm_stream_real(s, 0.25);
  trm_stream_object(s);
  trm_stream_end_object(s);
  trm_stream_end_array(s);
  trm_stream_key(s, "after");
  trm_stream_bool(s, false);
  trm_stream_end_object(s);
}

static const char written[] =
    "{\"text\":\"a \\\"b\\\"\\n\xc3\xa4\",\"no UTF-8\":\"?\",\"least\":-9223372036854775808,"
    "\"most\":9223372036854775807,\"list\":[[],true,0.25,{}],\"after\":false}";

static void test_json(void **state) {
  (void)state;
  trm_error error;
  trm_stream stream = {0};
  put_all(&stream);
  assert_int_equal(trm_stream_close(&stream, "a test", &error), TRM_OK);
  assert_string_equal(stream.text.data, written);
  assert_int_equal(stream.written, strlen(written));
  trm_text_free(&stream.text);
}

static void test_limit(void **state) {
  (void)state;
  trm_error error;
  trm_stream enough = {.limit = sizeof written - 1}, less = {.limit = sizeof written - 2};
  put_all(&enough);
  assert_int_equal(trm_stream_close(&enough, "a test", &error), TRM_OK);
  put_all(&less);
  assert_int_equal(trm_stream_close(&less, "a test", &error), TRM_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(error.message, "a test would take more than"));
  trm_text_free(&enough.text);
  trm_text_free(&less.text);
}

static void test_cbor(void **state) {
  (void)state;
  trm_error error;
  trm_stream stream = {.cbor = true};
  put_all(&stream);
  assert_int_equal(trm_stream_close(&stream, "a test", &error), TRM_OK);
  struct cbor_load_result result;
  cbor_item_t *tag =
      cbor_load((const unsigned char *)stream.text.data, stream.text.length, &result);
  assert_int_equal(result.error.code, CBOR_ERR_NONE);
  assert_int_equal(result.read, stream.text.length);
  assert_int_equal(cbor_tag_value(tag), 55799);
  cbor_item_t *map = cbor_tag_item(tag);
  assert_int_equal(cbor_map_size(map), 6);
  const struct cbor_pair *pairs = cbor_map_handle(map);
  assert_int_equal(cbor_get_int(pairs[2].value), INT64_MAX); /* of -1 - n */
  assert_true(cbor_isa_negint(pairs[2].value));
  assert_int_equal(cbor_get_int(pairs[3].value), INT64_MAX);
  assert_int_equal(cbor_array_size(pairs[4].value), 4);
  cbor_decref(&map);
  cbor_decref(&tag);
  trm_text_free(&stream.text);
}

/* ---- Programs ---- */

static json_t *describe(trm_report_part part) {
  trm_error error;
  char *data;
  size_t size;
  if (trm_report_describe(executable, program, part, TRM_REPORT_AS_JSON, 0, &data, &size, &error) !=
      TRM_OK) {
    fail_msg("%s", error.message);
  }
  json_error_t why;
  json_t *all = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why);
  if (all == NULL) fail_msg("%s", why.text);
  trm_free(data);
  return all;
}

static const json_t *at(const json_t *object, const char *a, const char *b, const char *c) {
  const json_t *found = json_object_get(object, a);
  if (b != NULL) found = json_object_get(found, b);
  if (c != NULL) found = json_object_get(found, c);
  assert_non_null(found);
  return found;
}

static int64_t sum(const json_t *list) {
  int64_t total = 0;
  for (size_t i = 0; i < json_array_size(list); ++i) {
    total += json_integer_value(json_array_get(list, i));
  }
  return total;
}

static size_t count_steps(const json_t *list) {
  size_t count = json_array_size(list);
  for (size_t i = 0; i < json_array_size(list); ++i) {
    count += count_steps(json_object_get(json_array_get(list, i), "children"));
  }
  return count;
}

static void test_graph(void **state) {
  (void)state;
  trm_program_totals totals = {.size = sizeof totals};
  assert_true(trm_program_get_totals(program, &totals));
  json_t *all = describe(TRM_REPORT_GRAPH);
  assert_string_equal(json_string_value(at(all, "module", NULL, NULL)), "m");
  assert_int_equal(json_integer_value(at(all, "target", "tilesPerIPU", NULL)),
                   totals.tiles_per_ipu);
  assert_int_equal(json_integer_value(at(all, "graph", "numVertices", NULL)), totals.num_vertices);
  assert_int_equal(json_array_size(at(all, "computeSets", "names", NULL)), totals.num_compute_sets);
  assert_int_equal(sum(at(all, "computeSets", "vertexCounts", NULL)), totals.num_vertices);
  const json_t *types = at(all, "vertexTypes", "names", NULL);
  assert_true(json_array_size(types) > 0);
  for (size_t i = 1; i < json_array_size(types); ++i) { /* each once */
    assert_true(strcmp(json_string_value(json_array_get(types, i - 1)),
                       json_string_value(json_array_get(types, i))) < 0);
  }
  assert_int_equal(sum(at(all, "memory", "byTile", "total")), totals.memory_bytes);
  assert_int_equal(sum(at(all, "memory", "byTile", "totalIncludingGaps")),
                   totals.memory_bytes_with_gaps);
  const json_t *liveness = at(all, "memory", "liveness", NULL);
  assert_int_equal(sum(at(liveness, "alwaysLive", "bytesByTile", NULL)), totals.always_live_bytes);
  assert_int_equal(count_steps(at(liveness, "notAlwaysLive", "byProgram", NULL)), totals.num_steps);
  json_decref(all);
}

static void test_execution(void **state) {
  (void)state;
  json_t *all = describe(TRM_REPORT_EXECUTION);
  const json_t *steps = at(all, "simulation", "steps", NULL);
  double cycles = 0;
  for (size_t i = 0; i < json_array_size(steps); ++i) {
    const json_t *step = json_array_get(steps, i);
    cycles += (double)json_integer_value(at(step, "cycles", NULL, NULL)) *
              json_number_value(at(step, "executions", NULL, NULL));
  }
  trm_program_totals totals = {.size = sizeof totals};
  assert_true(trm_program_get_totals(program, &totals));
  assert_int_equal(json_integer_value(at(all, "simulation", "cycles", NULL)), totals.cycles);
  assert_true(cycles > 0 && cycles <= (double)totals.cycles);
  json_decref(all);
}

static void test_tensor_map(void **state) {
  (void)state;
  json_t *all = describe(TRM_REPORT_TENSOR_MAP);
  const char *computation;
  json_t *tensors;
  bool found = false;
  json_object_foreach((json_t *)(uintptr_t)at(all, "mappings", NULL, NULL), computation, tensors) {
    for (size_t i = 0; i < json_array_size(tensors); ++i) {
      const json_t *tensor = json_array_get(tensors, i);
      assert_int_equal(json_array_size(tensor), 9);
      int64_t elements = 0, shape = 1;
      const json_t *tiles = json_array_get(tensor, 7);
      for (size_t t = 0; t < json_array_size(tiles); ++t) {
        elements += json_integer_value(json_array_get(json_array_get(tiles, t), 1));
      }
      for (size_t d = 0; d < json_array_size(json_array_get(tensor, 2)); ++d) {
        shape *= json_integer_value(json_array_get(json_array_get(tensor, 2), d));
      }
      assert_int_equal(elements, json_integer_value(json_array_get(tensor, 6)));
      assert_int_equal(elements, shape);
      if (strcmp(json_string_value(json_array_get(tensor, 0)), "a") == 0) found = true;
    }
  }
  assert_true(found);
  json_decref(all);
}

static void test_text(void **state) {
  (void)state;
  trm_error error;
  char *data;
  size_t size;
  assert_int_equal(trm_report_describe(executable, program, TRM_REPORT_GRAPH, TRM_REPORT_AS_TEXT, 0,
                                       &data, &size, &error),
                   TRM_OK);
  assert_int_equal(size, strlen(data));
  assert_non_null(strstr(data, "Memory: it fits"));
  assert_null(strstr(data, "Cycles of a run"));
  trm_free(data);
  assert_int_equal(trm_report_describe(executable, program, TRM_REPORT_EXECUTION,
                                       TRM_REPORT_AS_TEXT, 0, &data, &size, &error),
                   TRM_OK);
  assert_non_null(strstr(data, "Cycles of a run"));
  trm_free(data);
  assert_int_equal(trm_report_describe(executable, program, TRM_REPORT_TENSOR_MAP,
                                       TRM_REPORT_AS_TEXT, 0, &data, &size, &error),
                   TRM_INVALID_ARGUMENT);
  assert_int_equal(trm_report_describe_file(executable, program, TRM_REPORT_TENSOR_MAP,
                                            "/no/such/folder/map.json", &error),
                   TRM_NOT_FOUND);
}

/* ---- Graphs ---- */

static size_t count_of(const char *haystack, const char *needle) {
  size_t count = 0;
  for (const char *c = strstr(haystack, needle); c != NULL; c = strstr(c + 1, needle)) ++count;
  return count;
}

static void test_dot(void **state) {
  (void)state;
  trm_error error;
  trm_module *module;
  char *graph;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_string_equal(trm_module_name(module), "m");
  assert_string_equal(trm_executable_name(executable), "m");
  const char *const opcodes[] = {"dot", "tanh", "no-such-opcode"};
  assert_int_equal(trm_inspect_count(module, opcodes, 3), 2);
  assert_int_equal(trm_module_print_dot(module, true, &graph, &error), TRM_OK);
  assert_int_equal(count_of(graph, "subgraph cluster_"), 3);
  assert_int_equal(count_of(graph, "label=\""), 3 + 17); /* computations and instructions */
  assert_int_equal(count_of(graph, "style=dotted"), 2);  /* the loop's condition and body */
  assert_int_equal(count_of(graph, "fillcolor=lightblue"), 1);
  assert_int_equal(count_of(graph, "{"), count_of(graph, "}"));
  trm_free(graph);
  trm_module_free(module);
}

static void test_schedule(void **state) {
  (void)state;
  trm_error error;
  char *graph;
  assert_int_equal(trm_program_print_schedule(program, &graph, &error), TRM_OK);
  assert_true(count_of(graph, "label=\"#1 ") >= 2); /* in the entry and in the loop */
  assert_true(count_of(graph, "color=grey") >= 1);
  trm_free(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_json),      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_cbor),      cmocka_unit_test(test_graph),
      cmocka_unit_test(test_execution), cmocka_unit_test(test_tensor_map),
      cmocka_unit_test(test_text),      cmocka_unit_test(test_dot),
      cmocka_unit_test(test_schedule),
  };
  return cmocka_run_group_tests(tests, make, release);
}

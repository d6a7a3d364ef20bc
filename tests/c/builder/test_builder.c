/* The builder: programs written in C verify, print, and keep their order; mistakes stick. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hlo/hlo.h"
#include "tremula/builder.h"

static const int64_t four[] = {4};
static const int64_t two_three[] = {2, 3};
#define VECTOR4 ((trm_type){TRM_F32, 1, four})
#define MATRIX ((trm_type){TRM_F32, 2, two_three})
#define SCALAR(dtype) ((trm_type){(dtype), 0, NULL})

static trm_builder *create(void) {
  trm_builder *b = NULL;
  trm_error error;
  assert_int_equal(trm_builder_create("test", &b, &error), TRM_OK);
  return b;
}

/* Builds, and checks that text and proto give the module back. */
static trm_module *build(trm_builder *b, trm_value root) {
  trm_error error = {0};
  trm_module *module = NULL, *copy = NULL;
  char *text = NULL, *again = NULL;
  void *data = NULL;
  size_t size = 0;
  if (trm_builder_build(b, root, &module, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_builder_free(b);
  assert_int_equal(trm_module_print(module, &text, &error), TRM_OK);
  assert_int_equal(trm_module_serialize(module, &data, &size, &error), TRM_OK);
  if (trm_module_read(data, size, "built", &copy, &error) != TRM_OK) fail_msg("%s", error.message);
  assert_int_equal(trm_module_print(copy, &again, &error), TRM_OK);
  assert_string_equal(text, again);
  trm_module_free(copy);
  if (trm_module_read(text, strlen(text), "built", &copy, &error) != TRM_OK) {
    fail_msg("%s in\n%s", error.message, text);
  }
  trm_module_free(copy);
  trm_free(again);
  trm_free(data);
  trm_free(text);
  return module;
}

static void expect_shape(const trm_builder *b, trm_value value, const char *shape) {
  trm_tensor_info info;
  char text[128];
  assert_true(trm_builder_value_info(b, value, &info));
  const trm_shape found = {.dtype = info.dtype, .rank = info.rank, .dims = info.dims};
  assert_string_equal(trm_shape_text(&found, text, sizeof text), shape);
}

static void test_elementwise(void **state) {
  (void)state;
  trm_builder *b = create();
  const trm_value x = trm_build_parameter(b, 0, VECTOR4, "x");
  const float ones[] = {1, 2, 3, 4};
  const trm_value c = trm_build_constant(b, VECTOR4, ones, sizeof ones);
  const trm_value y = trm_build_binary(b, "multiply", trm_build_unary(b, "tanh", x), c);
  const trm_value p = trm_build_compare(b, "GT", x, c);
  const trm_value z = trm_build_select(b, p, y, x);
  const trm_value low = trm_build_scalar(b, TRM_F32, -1), high = trm_build_scalar(b, TRM_F32, 1);
  const trm_value w = trm_build_clamp(b, low, z, high);
  expect_shape(b, p, "pred[4]");
  const trm_value h = trm_build_convert(b, w, TRM_F16);
  expect_shape(b, h, "f16[4]");
  expect_shape(b, trm_build_bitcast_convert(b, h, TRM_U8), "u8[4,2]");
  const trm_value r = trm_build_reduce_precision(b, w, 5, 10);
  trm_module_free(build(b, r));
}

static void test_scalars(void **state) {
  (void)state;
  trm_builder *b = create();
  const trm_value list[] = {
      trm_build_scalar(b, TRM_S8, 300),     trm_build_scalar(b, TRM_S8, -300),
      trm_build_scalar(b, TRM_U8, -1),      trm_build_scalar(b, TRM_S32, 2.5),
      trm_build_scalar(b, TRM_U64, 0x1p63), trm_build_scalar(b, TRM_F16, 1.5),
      trm_build_scalar(b, TRM_PRED, 2),     trm_build_scalar(b, TRM_BF16, -2)};
  trm_module *module = build(b, trm_build_tuple(b, list, 8));
  const trm_computation *entry = &module->computations[module->entry];
  const void *bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = entry->instructions[i].literal->leaves[0];
  assert_int_equal(*(const int8_t *)bytes[0], 127);
  assert_int_equal(*(const int8_t *)bytes[1], -128);
  assert_int_equal(*(const uint8_t *)bytes[2], 0);
  assert_int_equal(*(const int32_t *)bytes[3], 2);
  assert_true(*(const uint64_t *)bytes[4] == UINT64_C(1) << 63);
  assert_int_equal(*(const uint16_t *)bytes[5], 0x3e00);
  assert_int_equal(*(const uint8_t *)bytes[6], 1);
  assert_int_equal(*(const uint16_t *)bytes[7], 0xc000);
  trm_module_free(module);
}

static void test_data(void **state) {
  (void)state;
  trm_builder *b = create();
  const trm_value x = trm_build_parameter(b, 0, MATRIX, "x");
  const trm_value s = trm_build_scalar(b, TRM_S32, 0), zero = trm_build_scalar(b, TRM_F32, 0);
  const trm_value starts[] = {s, s}, pair[] = {x, x};
  expect_shape(b, trm_build_broadcast(b, x, TRM_AXES(5, 2, 3), TRM_AXES(1, 2)), "f32[5,2,3]");
  expect_shape(b, trm_build_reshape(b, x, TRM_AXES(6)), "f32[6]");
  expect_shape(b, trm_build_transpose(b, x, TRM_AXES(1, 0)), "f32[3,2]");
  expect_shape(b, trm_build_reverse(b, x, TRM_AXES(0)), "f32[2,3]");
  expect_shape(b, trm_build_slice(b, x, TRM_AXES(0, 0), TRM_AXES(2, 3), TRM_AXES(1, 2)),
               "f32[2,2]");
  expect_shape(b, trm_build_slice(b, x, TRM_AXES(1, 0), TRM_AXES(2, 3), TRM_NO_AXES), "f32[1,3]");
  const trm_value part = trm_build_dynamic_slice(b, x, starts, TRM_AXES(1, 2));
  expect_shape(b, part, "f32[1,2]");
  expect_shape(b, trm_build_dynamic_update_slice(b, x, part, starts), "f32[2,3]");
  expect_shape(b, trm_build_concatenate(b, pair, 2, 1), "f32[2,6]");
  expect_shape(b, trm_build_pad(b, x, zero, TRM_AXES(1, 0), TRM_AXES(0, -1), TRM_AXES(1, 0)),
               "f32[4,2]");
  const trm_value i = trm_build_iota(b, (trm_type){TRM_S32, 2, two_three}, 1);
  expect_shape(b, i, "s32[2,3]");
  const trm_value indices =
      trm_build_reshape(b, trm_build_iota(b, (trm_type){TRM_S32, 1, two_three}, 0), TRM_AXES(2, 1));
  const trm_gather_spec gather = {.offset_dims = TRM_AXES(1),
                                  .collapsed_slice_dims = TRM_AXES(0),
                                  .start_index_map = TRM_AXES(0),
                                  .slice_sizes = TRM_AXES(1, 3),
                                  .index_vector_dim = 1};
  const trm_value rows = trm_build_gather(b, x, indices, &gather);
  expect_shape(b, rows, "f32[2,3]");
  const trm_scatter_spec scatter = {.update_window_dims = TRM_AXES(1),
                                    .inserted_window_dims = TRM_AXES(0),
                                    .scatter_dims_to_operand_dims = TRM_AXES(0),
                                    .index_vector_dim = 1};
  const trm_function sum = trm_builder_scalar_function(b, "add", TRM_F32);
  trm_module_free(build(b, trm_build_scatter(b, x, indices, rows, &scatter, sum)));
}

static void test_reductions(void **state) {
  (void)state;
  const int64_t image_dims[] = {2, 8, 8, 3}, kernel_dims[] = {3, 3, 3, 16}, three[] = {3};
  trm_builder *b = create();
  const trm_value x = trm_build_parameter(b, 0, (trm_type){TRM_F32, 4, image_dims}, "x");
  const trm_value k = trm_build_parameter(b, 1, (trm_type){TRM_F32, 4, kernel_dims}, "k");
  const trm_value v = trm_build_parameter(b, 2, (trm_type){TRM_F32, 1, three}, "v");
  const trm_value zero = trm_build_scalar(b, TRM_F32, 0);
  const trm_function sum = trm_builder_scalar_function(b, "add", TRM_F32);
  trm_builder_begin(b, "ge");
  const trm_value l = trm_build_parameter(b, 0, SCALAR(TRM_F32), NULL);
  const trm_value r = trm_build_parameter(b, 1, SCALAR(TRM_F32), NULL);
  const trm_function ge = trm_builder_end(b, trm_build_compare(b, "GE", l, r));
  expect_shape(b, trm_build_reduce(b, x, zero, TRM_AXES(1, 2), sum), "f32[2,3]");
  const trm_window_spec same[] = {{.size = 3, .padding_low = 1, .padding_high = 1},
                                  {.size = 3, .padding_low = 1, .padding_high = 1}};
  expect_shape(b, trm_build_convolution(b, x, k, "b01f_01io->b01f", same, 1, 1, TRM_INVALID_TYPE),
               "f32[2,8,8,16]");
  expect_shape(b, trm_build_convolution(b, x, k, "b01f_01io->bf01", same, 1, 1, TRM_F16),
               "f16[2,16,8,8]");
  const trm_window_spec pool[] = {
      {.size = 1}, {.size = 2, .stride = 2}, {.size = 2, .stride = 2}, {.size = 1}};
  const trm_value pooled = trm_build_reduce_window(b, x, zero, pool, sum);
  expect_shape(b, pooled, "f32[2,4,4,3]");
  expect_shape(b, trm_build_select_and_scatter(b, x, pooled, zero, pool, ge, sum), "f32[2,8,8,3]");
  expect_shape(b, trm_build_sort(b, &x, 1, 1, true, ge), "f32[2,8,8,3]");
  expect_shape(b,
               trm_build_dot(b, x, x, TRM_AXES(0), TRM_AXES(0), TRM_AXES(2, 3), TRM_AXES(2, 3),
                             TRM_INVALID_TYPE),
               "f32[2,8,8]");
  const trm_value normal = trm_build_batch_norm_training(b, x, v, v, 0.001f, 3);
  const trm_value y = trm_build_get_tuple_element(b, normal, 0);
  const trm_value mean = trm_build_get_tuple_element(b, normal, 1);
  expect_shape(b, trm_build_batch_norm_inference(b, x, v, v, mean, mean, 0.001f, 3),
               "f32[2,8,8,3]");
  const trm_value gradients = trm_build_batch_norm_grad(b, x, v, mean, mean, y, 0.001f, 3);
  expect_shape(b, trm_build_get_tuple_element(b, gradients, 2), "f32[3]");
  expect_shape(b, trm_build_all_reduce(b, y, sum), "f32[2,8,8,3]");
  trm_module_free(build(b, gradients));
}

static void test_functions_of_several(void **state) {
  (void)state;
  trm_builder *b = create();
  const trm_value x = trm_build_parameter(b, 0, MATRIX, "x");
  const trm_value seed = trm_build_convert(b, trm_build_replica_id(b), TRM_U64);
  const trm_value bits = trm_build_rng_bit_generator(b, trm_build_reshape(b, seed, TRM_AXES(1)), 1,
                                                     (trm_type){TRM_U32, 2, two_three});
  const trm_value drawn = trm_build_convert(b, trm_build_get_tuple_element(b, bits, 1), TRM_F32);
  expect_shape(b, drawn, "f32[2,3]");
  const trm_value both[] = {x, drawn};
  const trm_value y =
      trm_build_map(b, both, 2, trm_builder_scalar_function(b, "multiply", TRM_F32));
  expect_shape(b, y, "f32[2,3]");
  trm_builder_begin(b, "sum_and_product");
  const trm_value a = trm_build_parameter(b, 0, SCALAR(TRM_F32), NULL);
  const trm_value c = trm_build_parameter(b, 1, SCALAR(TRM_F32), NULL);
  const trm_value d = trm_build_parameter(b, 2, SCALAR(TRM_F32), NULL);
  const trm_value e = trm_build_parameter(b, 3, SCALAR(TRM_F32), NULL);
  const trm_value next[] = {trm_build_binary(b, "add", a, d),
                            trm_build_binary(b, "multiply", c, e)};
  const trm_function combine = trm_builder_end(b, trm_build_tuple(b, next, 2));
  const trm_value inits[] = {trm_build_scalar(b, TRM_F32, 0), trm_build_scalar(b, TRM_F32, 1)};
  const trm_value operands[] = {x, y};
  const trm_value r = trm_build_reduce_many(b, operands, inits, 2, TRM_AXES(0), combine);
  expect_shape(b, trm_build_get_tuple_element(b, r, 1), "f32[3]");
  trm_module_free(build(b, r));
}

/* while (i < 3) { outfeed(a); a = a + infeed(); ++i; }, on IPU 1, updating parameter 0. */
static void test_control(void **state) {
  (void)state;
  trm_builder *b = create();
  trm_builder_set_source(b, "While", "loop/while", "model.py", 12);
  const trm_value start[] = {trm_build_scalar(b, TRM_S32, 0),
                             trm_build_parameter(b, 0, VECTOR4, "a")};
  const trm_value initial = trm_build_tuple(b, start, 2);
  trm_builder_begin(b, "condition");
  const trm_value s = trm_build_parameter_like(b, 0, initial, "state");
  const trm_function condition =
      trm_builder_end(b, trm_build_compare(b, "LT", trm_build_get_tuple_element(b, s, 0),
                                           trm_build_scalar(b, TRM_S32, 3)));
  trm_builder_begin(b, "body");
  const trm_value t = trm_build_parameter_like(b, 0, initial, "state");
  const trm_value a = trm_build_get_tuple_element(b, t, 1);
  const trm_type fed = VECTOR4;
  trm_build_custom_call(b, "tremula.outfeed", &a, 1, NULL, 0, true, "{\"feed\":\"o\"}");
  const trm_value in =
      trm_build_custom_call(b, "tremula.infeed", NULL, 0, &fed, 1, true, "{\"feed\":\"i\"}");
  trm_builder_set_device(b, 1);
  const trm_value sum = trm_build_binary(b, "add", a, in);
  trm_builder_set_device(b, -1);
  const trm_value next[] = {trm_build_binary(b, "add", trm_build_get_tuple_element(b, t, 0),
                                             trm_build_scalar(b, TRM_S32, 1)),
                            sum};
  const trm_function body = trm_builder_end(b, trm_build_tuple(b, next, 2));
  const trm_value end = trm_build_while(b, initial, condition, body);
  const trm_value last = trm_build_get_tuple_element(b, end, 1);
  trm_build_custom_call(b, "tremula.outfeed", &last, 1, NULL, 0, true, "{\"feed\":\"o\"}");
  trm_builder_begin(b, "negate");
  const trm_function negate =
      trm_builder_end(b, trm_build_unary(b, "negate", trm_build_parameter(b, 0, VECTOR4, NULL)));
  const trm_value choice = trm_build_scalar(b, TRM_PRED, 1);
  const trm_function branches[] = {negate, negate};
  const trm_value arguments[] = {last, last};
  const trm_value result[] = {trm_build_call(b, negate, &last, 1),
                              trm_build_conditional(b, choice, branches, arguments, 2)};
  trm_builder_alias(b, 0, 0);
  trm_module *module = build(b, trm_build_tuple(b, result, 2));
  const trm_computation *entry = &module->computations[module->entry];
  assert_int_equal(module->num_aliases, 1);
  int effects = 0, sharded = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const trm_instruction *instruction = &computation->instructions[i];
      sharded += instruction->sharding != NULL;
      assert_string_equal(instruction->metadata.op_name, "loop/while");
      if (computation != entry || !trm_instruction_has_side_effect(module, instruction)) continue;
      assert_int_equal(instruction->num_control_predecessors, effects++); /* 0 and 1 */
    }
  }
  assert_int_equal(effects, 2); /* the loop, and then the outfeed */
  assert_int_equal(sharded, 1);
  trm_module_free(module);
}

static void expect_mistake(trm_builder *b, trm_value root, const char *message) {
  trm_error error = {0};
  trm_module *module = NULL;
  assert_int_equal(trm_builder_build(b, root, &module, &error), TRM_INVALID_ARGUMENT);
  assert_null(module);
  if (strstr(error.message, message) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", error.message, message);
  }
  trm_builder_free(b);
}

static void test_mistakes(void **state) {
  (void)state;
  trm_builder *b = create();
  trm_value x = trm_build_parameter(b, 0, VECTOR4, "x");
  trm_value y = trm_build_parameter(b, 1, MATRIX, "y");
  trm_builder_set_source(b, "Add", "dense/Add", "model.py", 7);
  trm_value bad = trm_build_binary(b, "add", x, y);
  assert_int_equal(trm_builder_status(b), TRM_INVALID_ARGUMENT);
  trm_build_unary(b, "no-such", bad); /* the first mistake stays */
  expect_mistake(b, x, "operands differ: f32[4] and f32[2,3] (while building dense/Add)");

  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  expect_mistake(b, trm_build_unary(b, "frobnicate", x), "\"frobnicate\" is not an opcode");
  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  expect_mistake(b, trm_build_unary(b, "reshape", x), "reshape is not an opcode of 1 operand");
  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  expect_mistake(b, trm_build_slice(b, x, TRM_AXES(0, 0), TRM_AXES(1), TRM_NO_AXES),
                 "every list must have 1 entries");
  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  trm_builder_begin(b, "inner");
  bad = trm_build_unary(b, "negate", x);
  expect_mistake(b, bad, "belongs to function main and is used in inner.1");
  b = create();
  trm_builder_begin(b, "inner");
  expect_mistake(b, trm_build_parameter(b, 0, VECTOR4, "x"), "begun and not ended");
  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  trm_builder_end(b, x);
  expect_mistake(b, x, "trm_builder_end without trm_builder_begin");
  b = create();
  expect_mistake(b, (trm_value){0, 5}, "is not one of its values");
  b = create();
  x = trm_build_parameter(b, 1, VECTOR4, "x");
  expect_mistake(b, x, "no parameter 0");
  b = create();
  expect_mistake(b, trm_build_constant(b, VECTOR4, four, 3), "has 16 bytes, and 3 are given");
  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  expect_mistake(b, trm_build_reduce(b, x, x, TRM_AXES(0), (trm_function){77}),
                 "is not a finished function");
  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  expect_mistake(b, trm_build_convolution(b, x, x, "b0f_0io>b0f", NULL, 1, 1, TRM_INVALID_TYPE),
                 "are not of the form");
  b = create();
  x = trm_build_parameter(b, 0, VECTOR4, "x");
  trm_builder_alias(b, 3, 0);
  expect_mistake(b, x, "names no output");
}

static void test_spent(void **state) {
  (void)state;
  trm_builder *b = create();
  trm_error error;
  trm_module *module, *again = NULL;
  const trm_value x = trm_build_parameter(b, 0, VECTOR4, "x");
  assert_int_equal(trm_builder_build(b, x, &module, &error), TRM_OK);
  assert_int_equal(trm_builder_build(b, x, &again, &error), TRM_FAILED_PRECONDITION);
  trm_build_unary(b, "negate", x); /* does nothing */
  trm_builder_set_device(b, 1);
  trm_builder_free(b);
  trm_module_free(module);
}

static trm_status build_small(trm_module **out_module, trm_error *error) {
  trm_builder *b = NULL;
  const trm_status status = trm_builder_create("small", &b, error);
  if (status != TRM_OK) return status;
  trm_builder_set_device(b, 0);
  const trm_value x = trm_build_parameter(b, 0, MATRIX, "x");
  const trm_function sum = trm_builder_scalar_function(b, "add", TRM_F32);
  const trm_value r = trm_build_reduce(b, x, trm_build_scalar(b, TRM_F32, 0), TRM_AXES(1), sum);
  trm_builder_alias(b, -1, 0);
  trm_builder_alias(b, -1, 0);
  const trm_value root = trm_build_broadcast(b, r, TRM_AXES(2, 3), TRM_AXES(0));
  (void)root;
  const trm_status built = trm_builder_build(b, root, out_module, error);
  trm_builder_free(b);
  return built;
}

static void test_allocation_failure(void **state) {
  (void)state;
  for (int64_t n = 0;; ++n) {
    trm_error error = {0};
    trm_module *module = NULL;
    trm_allocation_fail_after(n);
    const trm_status status = build_small(&module, &error);
    trm_allocation_fail_after(-1);
    trm_module_free(module);
    if (status != TRM_RESOURCE_EXHAUSTED) {
      /* All allocations succeeded: what is left is that two aliases are one too many. */
      assert_int_equal(status, TRM_INVALID_ARGUMENT);
      assert_non_null(strstr(error.message, "has an alias already"));
      break;
    }
    assert_true(n < 10000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_elementwise),
                                     cmocka_unit_test(test_scalars),
                                     cmocka_unit_test(test_data),
                                     cmocka_unit_test(test_reductions),
                                     cmocka_unit_test(test_functions_of_several),
                                     cmocka_unit_test(test_control),
                                     cmocka_unit_test(test_mistakes),
                                     cmocka_unit_test(test_spent),
                                     cmocka_unit_test(test_allocation_failure)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

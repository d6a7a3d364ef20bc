/* Which calls of Poplar's libraries the pass library-calls states. */
#include "../run.h"
#include "hlo/library_call.h"
#include "passes/pass.h"

/* The call of an instruction in a printed module; "" without any. */
static void find_statement(const char *printed, const char *name, char *out_text, size_t size) {
  char start[64];
  snprintf(start, sizeof start, "%%%s = ", name);
  const char *line = strstr(printed, start);
  if (line == NULL) fail_msg("there is no %s in\n%s", name, printed);
  const char *end = strchr(line, '\n'), *call = strstr(line, "/*library: ");
  out_text[0] = '\0';
  if (call == NULL || (end != NULL && call > end)) return;
  call += strlen("/*library: ");
  const size_t length = (size_t)(strstr(call, "*/") - call);
  assert_true(length < size);
  memcpy(out_text, call, length);
  out_text[length] = '\0';
}

typedef struct statement {
  const char *name, *call;
} statement;

/* The pass twice: what is stated is replaced, not repeated. */
static void expect(const char *text, const statement *expected, size_t count) {
  trm_error error;
  trm_module *module = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  for (int run = 0; run < 2; ++run) {
    char *printed, found[512];
    assert_int_equal(trm_pass_library_calls(module, &error), TRM_OK);
    assert_int_equal(trm_module_print(module, &printed, &error), TRM_OK);
    for (size_t e = 0; e < count; ++e) {
      find_statement(printed, expected[e].name, found, sizeof found);
      if (strcmp(found, expected[e].call) != 0) {
        fail_msg("%s: %s\ninstead of %s", expected[e].name, found, expected[e].call);
      }
    }
    trm_free(printed);
  }
  trm_module_free(module);
}

#define EXPECT(text, ...)                                        \
  do {                                                           \
    const statement all[] = {__VA_ARGS__};                       \
    expect("HloModule m\n" text, all, sizeof all / sizeof *all); \
  } while (0)

static void test_scaled_add(void **state) {
  (void)state;
  EXPECT("ENTRY e { x = f32[64] parameter(0)  y = f32[64] parameter(1)  a = f32[] constant(0.5)\n"
         "  as = f32[64] broadcast(a), dimensions={}  ay = f32[64] multiply(y, as)\n"
         "  ROOT r = f32[64] add(x, ay) }\n",
         {"r", "word=\"scaled-inplace-xb-y\",vertices=\"AddTo\",group=1"},
         {"ay", "word=\"fusion\",is=\"absorbed\""});
}

/* With the product in the same fusion one vertex computes both. */
static void test_scaled_add_in_a_fusion(void **state) {
  (void)state;
  EXPECT("f { x = f32[64] parameter(0)  y = f32[64] parameter(1)  a = f32[] constant(0.5)\n"
         "  as = f32[64] broadcast(a), dimensions={}  ay = f32[64] multiply(y, as)\n"
         "  ROOT r = f32[64] subtract(x, ay) }\n"
         "ENTRY e { p = f32[64] parameter(0)  q = f32[64] parameter(1)\n"
         "  ROOT s = f32[64] fusion(p, q), kind=kLoop, calls=f }\n",
         {"r", "word=\"scaled-inplace-xb-y\",vertices=\"AddTo\",group=1"},
         {"ay", "word=\"fusion\",is=\"joined\""});
}

/* A value that others read too is computed by itself. */
static void test_product_of_two_readers(void **state) {
  (void)state;
  EXPECT("ENTRY e { x = f32[64] parameter(0)  y = f32[64] parameter(1)  a = f32[] constant(0.5)\n"
         "  as = f32[64] broadcast(a), dimensions={}  ay = f32[64] multiply(y, as)\n"
         "  s = f32[64] add(x, ay)  ROOT r = (f32[64], f32[64]) tuple(s, ay) }\n",
         {"s", ""}, {"ay", "word=\"fusion\""});
}

static void test_update_by_a_gradient(void **state) {
  (void)state;
  EXPECT("ENTRY e { w = f32[3,3,4,8] parameter(0)  x = f32[2,9,9,4] parameter(1)\n"
         "  d = f32[2,7,7,8] parameter(2)  a = f32[] constant(0.5)\n"
         "  as = f32[3,3,4,8] broadcast(a), dimensions={}\n"
         "  g = f32[3,3,4,8] convolution(x, d), window={size=7x7}, dim_labels=f01b_i01o->01bf,\n"
         "    metadata={op_name=\"grad/Conv2DBackpropFilter\"}\n"
         "  ag = f32[3,3,4,8] multiply(g, as)  ROOT r = f32[3,3,4,8] subtract(w, ag) }\n",
         {"r", "scope=\"grad/Conv2DBackpropFilter\",word=\"fusion\","
               "vertices=\"AddTo\",group=1,is=\"shared\""},
         {"g", "word=\"fusion\",group=1"}, {"ag", "word=\"fusion\",is=\"absorbed\""});
}

#define SUM                                                                 \
  "sum { p = f32[] parameter(0)  q = f32[] parameter(1)\n  ROOT r = f32[] " \
  "add(p, q) }\n"

static void test_casts_around_a_sum(void **state) {
  (void)state;
  EXPECT(SUM "ENTRY e { x = f16[8,64] parameter(0)  z = f32[] constant(0)\n"
             "  w = f32[8,64] convert(x)  n = f32[8] reduce(w, z), dimensions={1}, to_apply=sum\n"
             "  ROOT h = f16[8] convert(n) }\n",
         {"h", "is=\"absorbed\""}, {"w", ""}, {"n", ""});
}

static void test_sum_of_squares(void **state) {
  (void)state;
  EXPECT(SUM "ENTRY e { x = f32[8,64] parameter(0)  z = f32[] constant(0)\n"
             "  s = f32[8,64] multiply(x, x)\n"
             "  ROOT n = f32[8] reduce(s, z), dimensions={1}, to_apply=sum }\n",
         {"s", "word=\"square\",vertices=\"Op/Square\",is=\"absorbed\""}, {"n", "word=\"fusion\""});
}

static void test_nonlinearities(void **state) {
  (void)state;
  EXPECT("ENTRY e { x = f32[64] parameter(0)  g = f32[64] parameter(1)  z = f32[] constant(0)\n"
         "  zs = f32[64] broadcast(z), dimensions={}  r = f32[64] maximum(x, zs)\n"
         "  p = pred[64] compare(r, zs), direction=GT, metadata={op_type=\"ReluGrad\" "
         "op_name=\"relu_grad\"}\n"
         "  d = f32[64] select(p, g, zs), metadata={op_type=\"ReluGrad\" op_name=\"relu_grad\"}\n"
         "  ROOT l = f32[64] logistic(d) }\n",
         {"r", "word=\"relu\",vertices=\"Nonlinearity\""},
         {"p", "word=\"relu-grad\",vertices=\"NonLinearityGrad\",group=1"},
         {"d", "word=\"relu-grad\",vertices=\"NonLinearityGrad\",group=1"},
         {"l", "word=\"sigmoid\",vertices=\"Nonlinearity\""});
}

/* Custom calls are called by what they do, with the numbers of their names. */
static void test_custom_calls(void **state) {
  (void)state;
  EXPECT("ENTRY e { x = f32[64] parameter(0)\n"
         "  s.7 = f32[64] custom-call(x), custom_call_target=\"tremula.all-reduce\"\n"
         "  ROOT q = f32[64] custom-call(s.7), custom_call_target=\"somebody's\" }\n",
         {"s.7", "word=\"all-reduce.7\",is=\"plain\""}, {"q", ""});
}

/* What Python marks as a layer of popnn's. */
static void test_marks(void **state) {
  (void)state;
  EXPECT("ENTRY e { x = f32[64] parameter(0)\n"
         "  m = f32[64] tanh(x), frontend_attributes={popnn_word=\"lstm\",popnn_part=\"Cell\"}\n"
         "  ROOT n = f32[64] tanh(m) }\n",
         {"m", "word=\"lstm\",part=\"Cell\",is=\"shared\",is=\"plain\""}, {"n", ""});
}

/* The calls belong to the module that the pass has seen: a copy is planned by itself. */
static void test_copies_have_no_calls(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e { x = f32[64] parameter(0)  ROOT s = f32[64] logistic(x) }\n";
  trm_module *module = NULL, *copy = NULL;
  trm_error error;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_pass_library_calls(module, &error), TRM_OK);
  assert_int_equal(trm_module_clone_lightly(module, &copy, &error), TRM_OK);
  const trm_computation *entry = &module->computations[module->entry];
  assert_int_equal(entry->instructions[entry->root].library_call->pattern, TRM_LIBRARY_SIGMOID);
  assert_null(copy->computations[copy->entry].instructions[entry->root].library_call);
  trm_module_free(module);
  trm_module_free(copy);
}

static void test_pools(void **state) {
  (void)state;
  EXPECT("most { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] maximum(p, q) }\n"
         "ENTRY e { x = f32[1,8,8,4] parameter(0)  z = f32[] constant(-inf)\n"
         "  ROOT m = f32[1,4,4,4] reduce-window(x, z), window={size=1x2x2x1 stride=1x2x2x1},\n"
         "    to_apply=most }\n",
         {"m", "word=\"max-pool\",part=\"maxPool2x2\""});
}

/* float32 between halves is only inside the vertices; of a few elements it is computed. */
static void test_casts_in_a_fusion(void **state) {
  (void)state;
  EXPECT("f { x = f16[64] parameter(0)  w = f32[64] convert(x)  s = f32[64] sine(w)\n"
         "  ROOT h = f16[64] convert(s) }\n"
         "g { x = f16[4] parameter(0)  v = f32[4] convert(x)  t = f32[4] sine(v)\n"
         "  ROOT i = f16[4] convert(t) }\n"
         "ENTRY e { p = f16[64] parameter(0)  q = f16[4] parameter(1)\n"
         "  a = f16[64] fusion(p), kind=kLoop, calls=f\n"
         "  b = f16[4] fusion(q), kind=kLoop, calls=g\n"
         "  ROOT r = (f16[64], f16[4]) tuple(a, b) }\n",
         {"a", "is=\"halves\""}, {"w", "is=\"absorbed\""}, {"h", "is=\"absorbed\""}, {"v", ""},
         {"i", ""});
}

/* An operand of full size that is float32 makes the first conversion real. */
static void test_casts_of_mixed_operands(void **state) {
  (void)state;
  EXPECT("f { x = f16[64] parameter(0)  y = f32[64] parameter(1)  w = f32[64] convert(x)\n"
         "  s = f32[64] add(w, y)  ROOT h = f16[64] convert(s) }\n"
         "ENTRY e { p = f16[64] parameter(0)  q = f32[64] parameter(1)\n"
         "  ROOT a = f16[64] fusion(p, q), kind=kLoop, calls=f }\n",
         {"a", ""}, {"w", ""}, {"h", ""});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scaled_add),
                                     cmocka_unit_test(test_scaled_add_in_a_fusion),
                                     cmocka_unit_test(test_product_of_two_readers),
                                     cmocka_unit_test(test_update_by_a_gradient),
                                     cmocka_unit_test(test_casts_around_a_sum),
                                     cmocka_unit_test(test_sum_of_squares),
                                     cmocka_unit_test(test_nonlinearities),
                                     cmocka_unit_test(test_custom_calls),
                                     cmocka_unit_test(test_marks),
                                     cmocka_unit_test(test_copies_have_no_calls),
                                     cmocka_unit_test(test_pools),
                                     cmocka_unit_test(test_casts_in_a_fusion),
                                     cmocka_unit_test(test_casts_of_mixed_operands)};
  return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}

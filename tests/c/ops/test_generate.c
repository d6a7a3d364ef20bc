/* Machine code for runs of strip code against the vector functions, bit by bit: random programs of
 * every operation that has nodes, at lengths with and without a tail. */
#include "fast_case.h"

#include "host/ops/elementwise/strip_code.h"
#include "host/ops/generate/writer.h"
#include "tremula/tremula.h"

enum { TYPES = 6, MAX_VALUES = 160, LARGEST = 5003 };
static const char *const type_names[TYPES] = {"f32", "f16", "s32", "u32", "pred", "u16"};
static const trm_dtype dtypes[TYPES] = {TRM_F32, TRM_F16, TRM_S32, TRM_U32, TRM_PRED, TRM_U16};

typedef struct program {
  trm_text text;
  int64_t count;
  int types[MAX_VALUES]; /* of value v<k> */
  int num_values, num_parameters;
  int parameter_types[16];
} program;

static int add_value(program *p, int type) {
  p->types[p->num_values] = type;
  trm_text_format(&p->text, "  v%d = %s[%lld] ", p->num_values, type_names[type],
                  (long long)p->count);
  return p->num_values++;
}

/* A value of the type: a recent one often, to make chains; a constant or a conversion at times. */
static int find_value(program *p, int type) {
  if (case_random_below(8) == 0 && type != 1) {
    static const char *const constants[TYPES] = {"0.7", "", "3", "5", "true", "9"};
    static const char *const others[TYPES] = {"0", "", "-7", "2", "false", "65535"};
    const char *text = (case_random_below(2) != 0 ? constants : others)[type];
    trm_text_format(&p->text, "  c%d = %s[] constant(%s)\n", p->num_values, type_names[type], text);
    const int scalar = p->num_values;
    add_value(p, type);
    trm_text_format(&p->text, "broadcast(c%d), dimensions={}\n", scalar);
    return p->num_values - 1;
  }
  for (int tries = 0; tries < 40; ++tries) {
    const int back = (int)case_random_below(tries < 5 ? 4 : p->num_values);
    if (back < p->num_values && p->types[p->num_values - 1 - back] == type)
      return p->num_values - 1 - back;
  }
  int from = 0;
  while (p->types[from] != 0) ++from; /* parameter 0 is one */
  if (type == 4) {                    /* by a comparison: a conversion has no nodes for all types */
    add_value(p, 4);
    trm_text_format(&p->text, "compare(v%d, v%d), direction=LT\n", from, from);
  } else {
    add_value(p, type);
    trm_text_format(&p->text, "convert(v%d)\n", from);
  }
  return p->num_values - 1;
}

static void add_random(program *p) {
  static const char *const unary[] = {"abs",
                                      "negate",
                                      "sign",
                                      "ceil",
                                      "floor",
                                      "round-nearest-afz",
                                      "sqrt",
                                      "exponential",
                                      "log",
                                      "logistic",
                                      "exponential-minus-one",
                                      "log-plus-one",
                                      "tanh",
                                      "erf",
                                      "cbrt",
                                      "rsqrt",
                                      "round-nearest-even",
                                      "sine"};
  static const char *const binary[] = {"add",    "subtract", "multiply",
                                       "divide", "maximum",  "minimum"};
  static const char *const bits[] = {"add",
                                     "subtract",
                                     "multiply",
                                     "and",
                                     "or",
                                     "xor",
                                     "maximum",
                                     "minimum",
                                     "shift-left",
                                     "shift-right-logical",
                                     "shift-right-arithmetic"};
  static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  const int type = (int)case_random_below(TYPES);
  const int64_t kind = case_random_below(10);
  if (type < 2 && kind < 4) {
    const int a = find_value(p, type);
    add_value(p, type);
    trm_text_format(&p->text, "%s(v%d)\n",
                    unary[case_random_below((int64_t)(sizeof unary / sizeof *unary))], a);
  } else if (type < 2 && kind < 8) {
    const int a = find_value(p, type), b = find_value(p, type);
    add_value(p, type);
    trm_text_format(&p->text, "%s(v%d, v%d)\n", binary[case_random_below(6)], a, b);
  } else if (type < 4 && kind == 8) {
    const int mask = find_value(p, 4), a = find_value(p, type), b = find_value(p, type);
    add_value(p, type);
    trm_text_format(&p->text, "select(v%d, v%d, v%d)\n", mask, a, b);
  } else if (type < 2) {
    const int a = find_value(p, type), b = find_value(p, type), c = find_value(p, type);
    add_value(p, type);
    trm_text_format(&p->text, "clamp(v%d, v%d, v%d)\n", a, b, c);
  } else if (type < 4 && kind < 7) {
    const int a = find_value(p, type), b = find_value(p, type);
    add_value(p, type);
    trm_text_format(&p->text, "%s(v%d, v%d)\n", bits[case_random_below(11)], a, b);
  } else if (type < 4 && kind == 7) {
    const int a = find_value(p, 0);
    add_value(p, type);
    trm_text_format(&p->text, "bitcast-convert(v%d)\n", a);
  } else if (type == 5) {
    const int a = find_value(p, 2 + (int)case_random_below(2));
    add_value(p, type);
    trm_text_format(&p->text, "convert(v%d)\n", a);
  } else if (type < 4) {
    const int from = (int)case_random_below(TYPES), a = find_value(p, from == 1 ? 0 : from);
    add_value(p, type);
    trm_text_format(&p->text, "convert(v%d)\n", a);
  } else if (kind < 6) {
    const int from = (int)case_random_below(4), a = find_value(p, from), b = find_value(p, from);
    add_value(p, 4);
    trm_text_format(&p->text, "compare(v%d, v%d), direction=%s\n", a, b,
                    directions[case_random_below(6)]);
  } else {
    const int a = find_value(p, 4), b = find_value(p, 4);
    add_value(p, 4);
    if (kind < 7) trm_text_format(&p->text, "not(v%d)\n", a);
    else trm_text_format(&p->text, "%s(v%d, v%d)\n", bits[3 + case_random_below(3)], a, b);
  }
}

static void make_program(program *p, int length) {
  static const int64_t counts[] = {1, 5, 16, 17, 160, 2049, LARGEST};
  p->count = counts[case_random_below(7)];
  trm_text_format(&p->text, "HloModule random\n\nENTRY e {\n");
  p->num_parameters = 2 + (int)case_random_below(13);
  for (int i = 0; i < p->num_parameters; ++i) {
    const int type = i == 0 ? 0 : (int)case_random_below(TYPES);
    p->parameter_types[i] = type;
    add_value(p, type);
    trm_text_format(&p->text, "parameter(%d)\n", i);
  }
  while (p->num_values < length) add_random(p);
  const int results = 1 + (int)case_random_below(4);
  int roots[4];
  for (int i = 0; i < results; ++i)
    roots[i] = p->num_values - 1 - (int)case_random_below(p->num_values < 30 ? 2 : 30);
  trm_text_format(&p->text, "  ROOT r = (");
  for (int i = 0; i < results; ++i) {
    trm_text_format(&p->text, "%s%s[%lld]", i > 0 ? ", " : "", type_names[p->types[roots[i]]],
                    (long long)p->count);
  }
  trm_text_format(&p->text, ") tuple(");
  for (int i = 0; i < results; ++i) trm_text_format(&p->text, "%sv%d", i > 0 ? ", " : "", roots[i]);
  trm_text_format(&p->text, ")\n}\n");
  assert_false(p->text.failed);
}

/* Runs the program's entry as one piece of strip code; returns how much machine code it has. */
static uint32_t run_program(const trm_module *module, const char *generate,
                            const void *const *operands, case_results *out) {
  trm_error error = {0};
  trm_arena arena = {0};
  trm_strip_code *code;
  bool is_supported;
  setenv("TREMULA_GENERATE", generate, 1);
  const trm_computation *entry = &module->computations[module->entry];
  case_check(trm_strip_compile(module, entry, &arena, &code, &is_supported, &error), &error);
  assert_true(is_supported);
  const trm_shape *shape = &entry->instructions[entry->root].shape;
  out->count = trm_shape_num_leaves(shape);
  for (int32_t i = 0; i < out->count; ++i) {
    out->shapes[i] = *trm_shape_leaf(shape, i);
    out->data[i] = case_allocate(trm_shape_bytes(&out->shapes[i]));
  }
  void *scratch = case_allocate(trm_strip_scratch_bytes(code));
  trm_strip_run(code, operands, out->data, scratch);
  for (int32_t i = 0; i < out->count; ++i) { /* nothing behind the end was written */
    const unsigned char *end = (unsigned char *)out->data[i] + trm_shape_bytes(&out->shapes[i]);
    for (int k = 0; k < 64; ++k) assert_int_equal(end[k], 0xcd);
  }
  const uint32_t mappings = code->num_mappings;
  trm_strip_destroy(code);
  trm_free(scratch);
  trm_arena_free(&arena);
  return mappings;
}

static void test_random_programs(void **state) {
  (void)state;
  const bool has_code = strcmp(trm_vector_ops_get()->name, "baseline") != 0;
  uint32_t total = 0;
  for (int round = 0; round < 600; ++round) {
    program p = {.num_values = 0};
    make_program(&p, 20 + (int)case_random_below(MAX_VALUES - 60));
    trm_error error = {0};
    trm_module *module;
    case_check(trm_module_read(p.text.data, p.text.length, "random", &module, &error), &error);
    void *operands[16];
    for (int i = 0; i < p.num_parameters; ++i) {
      const trm_dtype dtype = dtypes[p.parameter_types[i]];
      operands[i] = case_allocate((size_t)p.count * trm_dtype_size(dtype));
      case_fill(dtype, operands[i], p.count, round % 2 == 0 ? VALUES_WILD : VALUES_TAME);
    }
    case_results want, got;
    memset(&want, 0, sizeof want);
    memset(&got, 0, sizeof got);
    assert_int_equal(run_program(module, "0", (const void *const *)operands, &want), 0);
    total += run_program(module, "1", (const void *const *)operands, &got);
    case_compare(&got, &want, 0, 0, p.text.data);
    case_results_free(&want);
    case_results_free(&got);
    for (int i = 0; i < p.num_parameters; ++i) trm_free(operands[i]);
    trm_module_free(module);
    trm_text_free(&p.text);
  }
  if (has_code) assert_true(total >= 600);
  else assert_int_equal(total, 0);
}

/* More values at a time than there are registers, and more arrays than pointers: both are cut. */
static void test_pressure(void **state) {
  (void)state;
  trm_text text = {0};
  trm_text_format(&text, "HloModule pressure\n\nENTRY e {\n");
  enum { VALUES = 60 };
  for (int i = 0; i < 16; ++i) trm_text_format(&text, "  p%d = f32[40] parameter(%d)\n", i, i);
  for (int i = 0; i < VALUES; ++i)
    trm_text_format(&text, "  a%d = f32[40] multiply(p%d, p%d)\n", i, i % 16,
                    (i * 7 + i / 16) % 16);
  trm_text_format(&text, "  s0 = f32[40] add(a0, a%d)\n", VALUES - 1);
  for (int i = 1; i < VALUES; ++i)
    trm_text_format(&text, "  %ss%d = f32[40] subtract(s%d, a%d)\n", i == VALUES - 1 ? "ROOT " : "",
                    i, i - 1, i);
  trm_text_format(&text, "}\n");
  trm_error error = {0};
  trm_module *module;
  case_check(trm_module_read(text.data, text.length, "pressure", &module, &error), &error);
  void *operands[16];
  for (int i = 0; i < 16; ++i) {
    operands[i] = case_allocate(160);
    case_fill(TRM_F32, operands[i], 40, VALUES_TAME);
  }
  case_results want, got;
  memset(&want, 0, sizeof want);
  memset(&got, 0, sizeof got);
  run_program(module, "0", (const void *const *)operands, &want);
  const uint32_t mappings = run_program(module, "1", (const void *const *)operands, &got);
  if (strcmp(trm_vector_ops_get()->name, "baseline") != 0) assert_in_range(mappings, 2, 40);
  case_compare(&got, &want, 0, 0, "pressure");
  case_results_free(&want);
  case_results_free(&got);
  for (int i = 0; i < 16; ++i) trm_free(operands[i]);
  trm_module_free(module);
  trm_text_free(&text);
}

/* By one number for all elements: all bits of the quotients, near the ends of the ranges too. */
static void test_divide_by_number(void **state) {
  (void)state;
  enum { COUNT = 20011 };
  static const char *const text =
      "HloModule m\n\nENTRY e {\n  x = f32[20011] parameter(0)\n  y = f32[] parameter(1)\n"
      "  b = f32[20011] broadcast(y), dimensions={}\n  ROOT q = f32[20011] divide(x, b)\n}\n";
  trm_error error = {0};
  trm_module *module;
  case_check(trm_module_read(text, strlen(text), "divide", &module, &error), &error);
  float *x = case_allocate(COUNT * sizeof(float)), y;
  for (int round = 0; round < 300; ++round) {
    const uint32_t exponent =
        round % 3 == 0 ? (uint32_t)case_random_below(256) : 104 + (uint32_t)case_random_below(46);
    const uint32_t bits = (uint32_t)(case_random() >> 32 & 0x807fffff) | exponent << 23;
    memcpy(&y, &bits, sizeof y);
    if (round % 7 == 0) y = (float)case_special();
    for (int i = 0; i < COUNT; ++i) {
      uint32_t word = (uint32_t)(case_random() >> 32);
      if (i / 64 % 2 == 0)
        word = (word & 0x807fffff) | (uint32_t)(100 + case_random_below(50)) << 23;
      memcpy(&x[i], &word, sizeof word);
      if (i % 61 == 0) x[i] = (float)case_special();
    }
    const void *operands[] = {x, &y};
    case_results got;
    memset(&got, 0, sizeof got);
    run_program(module, "1", operands, &got);
    for (int i = 0; i < COUNT; ++i) {
      const float want = x[i] / y, is = ((const float *)got.data[0])[i];
      if (memcmp(&want, &is, sizeof is) != 0 && !(isnan(want) && isnan(is)))
        fail_msg("%a / %a is %a, not %a", (double)x[i], (double)y, (double)want, (double)is);
    }
    case_results_free(&got);
  }
  trm_free(x);
  trm_module_free(module);
}

/* Results that are written past the caches, at whole cache lines and not. */
static void test_large_results(void **state) {
  (void)state;
  enum { COUNT = (8 << 20) + 37, PART = 100003 };
  static const char *const text =
      "HloModule m\n\nENTRY e {\n  x = f32[8388645] parameter(0)\n"
      "  a = f32[8388645] multiply(x, x)\n  h = f16[8388645] convert(a)\n"
      "  s = f32[8388645] sqrt(a)\n  ROOT r = (f32[8388645], f16[8388645]) tuple(s, h)\n}\n";
  trm_error error = {0};
  trm_module *module;
  case_check(trm_module_read(text, strlen(text), "large", &module, &error), &error);
  float *x = case_allocate(COUNT * sizeof(float));
  for (int i = 0; i < COUNT; ++i) x[i] = (float)(i % PART);
  char *results[] = {case_allocate(COUNT * sizeof(float)), case_allocate(COUNT * 2)};
  trm_arena arena = {0};
  trm_strip_code *code;
  bool is_supported;
  const trm_computation *entry = &module->computations[module->entry];
  setenv("TREMULA_GENERATE", "1", 1);
  case_check(trm_strip_compile(module, entry, &arena, &code, &is_supported, &error), &error);
  assert_true(is_supported && code->stages[0].streams);
  void *scratch = case_allocate(trm_strip_scratch_bytes(code));
  for (size_t offset = 0; offset < 64; offset += 20) {
    const void *operands[] = {x};
    void *at[] = {results[0] + offset, results[1] + offset};
    memset(results[0], 0xcd, COUNT * sizeof(float) + 64);
    trm_strip_run(code, operands, at, scratch);
    for (int i = 0; i < COUNT; ++i) assert_true(((float *)at[0])[i] == x[i]);
    const uint16_t *halves = at[1];
    assert_int_equal(halves[3], 0x4880); /* 9 */
    for (int i = PART; i < COUNT; ++i) assert_int_equal(halves[i], halves[i - PART]);
    assert_int_equal(((unsigned char *)at[0])[COUNT * sizeof(float)], 0xcd);
  }
  trm_strip_destroy(code);
  trm_free(scratch);
  trm_arena_free(&arena);
  trm_free(results[0]);
  trm_free(results[1]);
  trm_free(x);
  trm_module_free(module);
}

/* Columns of wider arrays: registers point to them where a strip lies in a row, else they are
 * copied. */
static void test_columns(void **state) {
  (void)state;
  enum { ROWS = 37, MOST = 1500 };
  static const int widths[] = {16, 80, 96, 100, 256, 257, 1000, 1500};
  float *x = case_allocate((size_t)4 * ROWS * MOST * sizeof *x);
  uint8_t *chosen = case_allocate((size_t)2 * ROWS * MOST);
  for (int i = 0; i < 4 * ROWS * MOST; ++i) x[i] = (float)(i % 10007);
  for (int i = 0; i < 2 * ROWS * MOST; ++i) chosen[i] = (uint8_t)(i % 7 % 2);
  for (size_t k = 0; k < sizeof widths / sizeof *widths; ++k) {
    const int w = widths[k];
    trm_text text = {0};
    trm_text_format(&text,
                    "HloModule m\n\nENTRY e {\n  x = f32[37,%d] parameter(0)\n"
                    "  k = pred[37,%d] parameter(1)\n"
                    "  a = f32[37,%d] slice(x), slice={[0:37], [%d:%d]}\n"
                    "  b = f32[37,%d] slice(x), slice={[0:37], [%d:%d]}\n"
                    "  c = pred[37,%d] slice(k), slice={[0:37], [%d:%d]}\n"
                    "  n = f32[37,%d] negate(a)\n  ROOT s = f32[37,%d] select(c, n, b)\n}\n",
                    4 * w, 2 * w, w, w, 2 * w, w, 3 * w, 4 * w, w, w, 2 * w, w, w);
    trm_error error = {0};
    trm_module *module;
    case_check(trm_module_read(text.data, text.length, "columns", &module, &error), &error);
    const void *operands[] = {x, chosen};
    for (int generates = 0; generates < 2; ++generates) {
      case_results got;
      memset(&got, 0, sizeof got);
      run_program(module, generates ? "1" : "0", operands, &got);
      for (int i = 0; i < ROWS * w; ++i) {
        const int row = i / w, column = i % w;
        const float want = chosen[row * 2 * w + w + column] ? -x[row * 4 * w + w + column]
                                                            : x[row * 4 * w + 3 * w + column];
        assert_true(((const float *)got.data[0])[i] == want);
      }
      case_results_free(&got);
    }
    trm_module_free(module);
    trm_text_free(&text);
  }
  trm_free(x);
  trm_free(chosen);
}

/* h = exp(x) tanh(y), and sums of it, of two iterations or four: each node comes after what it
 * reads, of its own iteration; what is written comes after what is read; sums are in the order of
 * the iterations; and the iterations meet in the code. */
static void test_schedule(void **state) {
  (void)state;
  for (uint32_t iterations = 2; iterations <= 4; iterations += 2) {
    trm_generator g = {.is_wide = false}, out;
    const trm_node x = trm_generate(&g, NODE_LOAD, TRM_NO_NODE, TRM_NO_NODE, TRM_NO_NODE, 0);
    const trm_node y = trm_generate(&g, NODE_LOAD, TRM_NO_NODE, TRM_NO_NODE, TRM_NO_NODE, 1);
    const trm_node h = trm_generate(&g, NODE_MULTIPLY, trm_generate_exp(&g, x),
                                    trm_generate_tanh(&g, y), TRM_NO_NODE, 0);
    trm_generate(&g, NODE_STORE, h, TRM_NO_NODE, TRM_NO_NODE, 1);
    trm_generate(&g, NODE_SUM_INTO, h, TRM_NO_NODE, TRM_NO_NODE, 2);
    const uint32_t plain = (uint32_t)g.nodes.count;
    uint32_t of_iteration = 0;
    for (trm_node node = 0; node < plain; ++node) of_iteration += !g.nodes.items[node].is_invariant;
    assert_true(trm_schedule(&g, iterations, TRM_LEAST_RESERVED, &out));
    assert_int_equal(out.nodes.count, plain + iterations * of_iteration);
    uint32_t sums = 0, loads[4] = {0}, changes = 0;
    for (trm_node node = plain; node < out.nodes.count; ++node) {
      const trm_node_data *data = &out.nodes.items[node];
      assert_true(data->iteration < iterations && !data->is_invariant);
      for (uint32_t k = 0; k < trm_node_kinds[data->kind].operands; ++k) {
        const trm_node_data *read = &out.nodes.items[data->operands[k]];
        assert_true(data->operands[k] < node);
        assert_true(read->is_invariant ||
                    (data->operands[k] >= plain && read->iteration == data->iteration));
      }
      if (data->kind == NODE_LOAD) ++loads[data->iteration];
      if (data->kind == NODE_STORE) assert_int_equal(loads[data->iteration], 2);
      if (data->kind == NODE_SUM_INTO) assert_int_equal(data->iteration, sums++);
      changes += node > plain && data->iteration != out.nodes.items[node - 1].iteration;
    }
    assert_int_equal(sums, iterations);
    assert_true(changes > 2 * iterations);
    trm_machine_code codes[2] = {{0}};
    for (int i = 0; i < 2; ++i) assert_true(trm_generator_finish(&g, i == 1, &codes[i]));
    assert_true(codes[0].bytes.count != codes[1].bytes.count ||
                memcmp(codes[0].bytes.items, codes[1].bytes.items, codes[0].bytes.count) != 0);
    for (int i = 0; i < 2; ++i) trm_code_free(&codes[i]);
    trm_generator_free(&g);
    trm_generator_free(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_programs),  cmocka_unit_test(test_large_results),
      cmocka_unit_test(test_divide_by_number), cmocka_unit_test(test_pressure),
      cmocka_unit_test(test_columns),          cmocka_unit_test(test_schedule)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

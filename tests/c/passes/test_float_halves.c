/* Halves stored as floats (halves=float): nothing rounds inside a program, edges round. */
#include <math.h>
#include <unistd.h>

#include "../run.h"
#include "base/half.h"
#include "ipu/program/program.h"

enum { COUNT = 4 };

#define COMPUTATIONS                                                                         \
  "HloModule m\n"                                                                            \
  "sum { p = f16[] parameter(0)  q = f16[] parameter(1)  ROOT r = f16[] add(p, q) }\n"       \
  "up { p = f16[] parameter(0)  q = f16[] parameter(1)\n"                                    \
  "  ROOT r = pred[] compare(p, q), direction=LT }\n"                                        \
  "bits { p = f16[] parameter(0)  q = f16[] parameter(1)  a = s16[] bitcast-convert(p)\n"    \
  "  b = s16[] bitcast-convert(q)  ROOT r = pred[] compare(a, b), direction=LT }\n"          \
  "goes { s = (s32[], f16[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"       \
  "  n = s32[] constant(3)  ROOT r = pred[] compare(i, n), direction=LT }\n"                 \
  "turn { s = (s32[], f16[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"       \
  "  o = s32[] constant(1)  j = s32[] add(i, o)  v = f16[4] get-tuple-element(s), index=1\n" \
  "  w = f16[4] multiply(v, v)  ROOT t = (s32[], f16[4]) tuple(j, w) }\n"                    \
  "twice { p = f16[4] parameter(0)  ROOT r = f16[4] add(p, p) }\n"                           \
  "same { p = f16[4] parameter(0)  ROOT r = f16[4] copy(p) }\n"                              \
  "ENTRY e { x = f16[4] parameter(0)  y = f16[4] parameter(1)\n  "

/* The program, compiled with the verifier after each pass. mode: of test_modes. */
static trm_executable *compile(const char *text, const char *halves, int mode) {
  const trm_option options[] = {
      {"halves", halves}, {"verify", "true"}, {"half_overflow", "nan"}, test_modes[mode]};
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, options, 4, &executable, &error) != TRM_OK) {
    fail_msg("%s: %s", text, error.message);
  }
  trm_module_free(module);
  return executable;
}

static trm_engine *engine_of(trm_executable *executable, uint32_t replicas) {
  trm_error error;
  trm_engine *engine = NULL;
  if (trm_engine_create_replicated(executable, replicas, &engine, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_executable_free(executable);
  return engine;
}

static void run(trm_engine *engine, const void *const *inputs, const uint64_t *versions,
                void *const *outputs, const uint64_t *output_versions) {
  trm_error error;
  if (trm_engine_run_replicated(engine, inputs, versions, outputs, output_versions, &error) !=
      TRM_OK) {
    fail_msg("%s", error.message);
  }
}

static void to_halves(const float *x, uint16_t *out) {
  for (int i = 0; i < COUNT; ++i) out[i] = trm_float_to_half(x[i]);
}

static const float some[2][COUNT] = {{2, 300, -1000, 65504}, {3, 300, 60000, 65504}};

/* `body` computes four numbers of x and y, of `bytes` each. */
static void compute(const char *body, const char *halves, int mode, void *out) {
  char text[4096];
  snprintf(text, sizeof text, COMPUTATIONS "%s }\n", body);
  uint16_t x[2][COUNT];
  for (int k = 0; k < 2; ++k) to_halves(some[k], x[k]);
  const void *inputs[2] = {x[0], x[1]};
  trm_engine *engine = engine_of(compile(text, halves, mode), 1);
  run(engine, inputs, NULL, &out, NULL);
  trm_engine_free(engine);
}

static void expect_halves(const char *body, const float *expected) {
  for (int m = 0; m < 3; ++m) {
    uint16_t found[COUNT] = {0}, wanted[COUNT];
    to_halves(expected, wanted);
    compute(body, "float", m, found);
    for (int i = 0; i < COUNT; ++i) {
      if (found[i] != wanted[i]) {
        fail_msg("mode %d, element %d of %s: %g instead of %g", m, i, body,
                 (double)trm_half_to_float(found[i]), (double)expected[i]);
      }
    }
  }
}

static void expect_floats(const char *body, const float *expected) {
  for (int m = 0; m < 3; ++m) {
    float found[COUNT] = {0};
    compute(body, "float", m, found);
    for (int i = 0; i < COUNT; ++i) {
      if (!(found[i] == expected[i])) {
        fail_msg("mode %d, element %d of %s: %.9g instead of %.9g", m, i, body, (double)found[i],
                 (double)expected[i]);
      }
    }
  }
}

static void test_nothing_rounds_inside(void **state) {
  (void)state;
  expect_halves("z = f16[4] multiply(x, y)  ROOT r = f16[4] divide(z, y)", some[0]);
  expect_floats("z = f16[4] multiply(x, y)  ROOT r = f32[4] convert(z)",
                (float[]){6, 90000, -6e7f, 65504.0f * 65504.0f});
  expect_floats("c = f32[] constant(1.0001)  b = f32[4] broadcast(c), dimensions={}\n"
                "  h = f16[4] convert(b)  z = f16[4] add(h, h)  ROOT r = f32[4] convert(z)",
                (float[]){2.0002f, 2.0002f, 2.0002f, 2.0002f});
  /* A sum of 65536 * 4. */
  expect_floats("c = f16[] constant(65504)  b = f16[4,4] broadcast(c), dimensions={}\n"
                "  z = f16[] constant(0)\n"
                "  s = f16[4] reduce(b, z), dimensions={0}, to_apply=sum\n"
                "  ROOT r = f32[4] convert(s)",
                (float[]){262016, 262016, 262016, 262016});
  expect_floats("a = f16[4,1] reshape(x)  b = f16[1,4] reshape(y)\n"
                "  d = f16[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                "  s = f16[1,4] slice(d), slice={[1:2], [0:4]}  f = f16[4] reshape(s)\n"
                "  ROOT r = f32[4] convert(f)",
                (float[]){900, 90000, 1.8e7f, 300 * 65504.0f});
}

static void test_edges_round(void **state) {
  (void)state;
  expect_halves("ROOT z = f16[4] multiply(x, y)", (float[]){6, INFINITY, -INFINITY, INFINITY});
  expect_halves("c = f16[] constant(1.001)  b = f16[4] broadcast(c), dimensions={}\n"
                "  ROOT z = f16[4] add(b, b)",
                (float[]){2.002f, 2.002f, 2.002f, 2.002f});
}

static void test_bits_are_those_of_halves(void **state) {
  (void)state;
  static const uint16_t bits[COUNT] = {0x4600, 0x7c00, 0xfc00, 0x7c00};
  for (int m = 0; m < 3; ++m) {
    uint16_t found[COUNT] = {0};
    compute("z = f16[4] multiply(x, y)  ROOT r = u16[4] bitcast-convert(z)", "float", m, found);
    assert_memory_equal(found, bits, sizeof bits);
  }
  expect_floats("b = u16[4] bitcast-convert(x)  s = u16[4] constant({0, 32768, 32768, 0})\n"
                "  c = u16[4] xor(b, s)  h = f16[4] bitcast-convert(c)  z = f16[4] multiply(h, y)\n"
                "  ROOT r = f32[4] convert(z)",
                (float[]){6, -90000, 6e7f, 65504.0f * 65504.0f});
}

static void test_numbers_that_no_half_holds(void **state) {
  (void)state;
  expect_floats("c = f16[] constant(65504)  b = f16[4] broadcast(c), dimensions={}\n"
                "  z = f16[4] multiply(x, y)  g = pred[4] compare(z, b), direction=GT\n"
                "  f = pred[4] is-finite(z)  a = pred[4] and(g, f)  ROOT r = f32[4] convert(a)",
                (float[]){0, 1, 0, 1});
  expect_floats("i = f16[4100] iota(), iota_dimension=0  s = f16[4] slice(i), slice={[4095:4099]}\n"
                "  ROOT r = f32[4] convert(s)",
                (float[]){4095, 4096, 4097, 4098});
  expect_floats("z = f16[4] multiply(x, y)  i = s32[4] convert(z)  s = f16[4] convert(i)\n"
                "  ROOT r = f32[4] convert(s)",
                (float[]){6, 90000, -6e7f, 2147483648.0f});
}

/* A number is rounded where the program says so. */
static void test_reduce_precision(void **state) {
  (void)state;
  expect_floats("c = f16[] constant(2)  b = f16[4] broadcast(c), dimensions={}\n"
                "  z = f16[4] divide(x, y)  w = f16[4] divide(z, b)\n"
                "  p = f16[4] reduce-precision(w), exponent_bits=5, mantissa_bits=10\n"
                "  ROOT r = f32[4] convert(p)",
                (float[]){0.33325195f, 0.5f, -0.0083312988f, 0.5f});
}

static void test_control_flow(void **state) {
  (void)state;
  expect_floats("n = s32[] constant(0)  c = f16[] constant(10)  b = f16[4] broadcast(c),\n"
                "  dimensions={}  t = (s32[], f16[4]) tuple(n, b)\n"
                "  w = (s32[], f16[4]) while(t), condition=goes, body=turn\n"
                "  v = f16[4] get-tuple-element(w), index=1  ROOT r = f32[4] convert(v)",
                (float[]){1e8f, 1e8f, 1e8f, 1e8f});
  expect_floats("s = f16[1] slice(x), slice={[3:4]}  a = f16[] reshape(s)  t = f16[] add(a, a)\n"
                "  p = pred[] compare(t, a), direction=GT\n"
                "  c = f16[4] conditional(p, y, x), true_computation=twice,\n"
                "  false_computation=same  ROOT r = f32[4] convert(c)",
                (float[]){6, 600, 120000, 131008});
}

static void test_sorts(void **state) {
  (void)state;
  expect_floats("z = f16[4] multiply(y, y)  s = f16[4] sort(z), dimensions={0}, to_apply=up\n"
                "  ROOT r = f32[4] convert(s)",
                (float[]){9, 90000, 3.6e9f, 65504.0f * 65504.0f});
  /* By the bits of halves, of which three are infinity's: the order stays. */
  expect_floats("z = f16[4] multiply(y, y)  v = f16[4] reverse(z), dimensions={0}\n"
                "  s = f16[4] sort(v), dimensions={0}, is_stable=true, to_apply=bits\n"
                "  ROOT r = f32[4] convert(s)",
                (float[]){9, 65504.0f * 65504.0f, 3.6e9f, 90000});
}

/* A half that only passes through keeps every bit, a NaN's too. */
static void test_passing_through(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e { x = f16[2] parameter(0)  y = f16[2] parameter(1)\n"
      "  ROOT t = (f16[2], (f16[2], s32[])) tuple(x, n)  s = s32[] constant(7)\n"
      "  z = f16[2] add(x, y)  n = (f16[2], s32[]) tuple(z, s) }\n";
  static const uint16_t x[2] = {0x7d01, 0x8001}, y[2] = {0x3c00, 0};
  for (int m = 0; m < 3; ++m) {
    uint16_t first[2], second[2];
    int32_t third;
    const void *inputs[2] = {x, y};
    void *outputs[3] = {first, second, &third};
    trm_engine *engine = engine_of(compile(text, "float", m), 1);
    run(engine, inputs, NULL, outputs, NULL);
    trm_engine_free(engine);
    assert_memory_equal(first, x, sizeof x);
    assert_int_equal(second[1], 0x8001);
    assert_int_equal(third, 7);
  }
}

/* Feeds and the host take halves and give halves. */
#define FEED(name)                                                                \
  ", custom_call_has_side_effect=true, custom_call_target=\"tremula." name "\", " \
  "backend_config="
static const char fed[] =
    "HloModule m\nENTRY e {\n"
    "  in = ((f16[2], s32[])) custom-call()" FEED(
        "infeed") "\"{\\\"feed\\\":\\\"in\\\"}\"\n"
                  "  p = (f16[2], s32[]) get-tuple-element(in), index=0\n"
                  "  x = f16[2] get-tuple-element(p), index=0  n = s32[] get-tuple-element(p), index=1\n"
                  "  y = f16[2] multiply(x, x)\n"
                  "  h = (f16[2]) custom-call(y)" FEED(
                      "host-call") "\"{\\\"host_call\\\":\\\"f\\\"}\"\n"
                                   "  z = f16[2] get-tuple-element(h), index=0  q = f16[2] divide(y, x)  w = f16[2] add(z, q)\n"
                                   "  pair = (f16[2], s32[]) tuple(w, n)\n"
                                   "  out = () custom-call(pair, x)" FEED(
                                       "outfeed") "\"{\\\"feed\\\":\\\"out\\\"}\"\n"
                                                  "  ROOT r = f32[2] convert(y) }\n";

static trm_status square(void *user, const void *const *inputs, void *const *outputs,
                         uint32_t replica, trm_error *error) {
  (void)replica, (void)error;
  memcpy(user, inputs[0], 2 * sizeof(uint16_t));
  static const uint16_t result[2] = {0x3c00, 0x4000}; /* 1, 2 */
  memcpy(outputs[0], result, sizeof result);
  return TRM_OK;
}

static void test_feeds_and_the_host(void **state) {
  (void)state;
  static const trm_tensor_info elements[3] = {
      {"", TRM_F16, 1, {2}, 4}, {"", TRM_S32, 0, {0}, 4}, {"", TRM_F16, 1, {2}, 4}};
  trm_error error;
  trm_infeed *infeed;
  trm_outfeed *outfeed;
  uint16_t seen[2] = {0};
  trm_engine *engine = engine_of(compile(fed, "float", 0), 1);
  assert_int_equal(trm_infeed_create(elements, 2, 3, &infeed, &error), TRM_OK);
  assert_int_equal(trm_outfeed_create(elements, 3, false, &outfeed, &error), TRM_OK);
  if (trm_engine_bind_infeed(engine, "in", infeed, &error) != TRM_OK ||
      trm_engine_bind_outfeed(engine, "out", outfeed, &error) != TRM_OK ||
      trm_engine_set_host_function(engine, "f", square, seen, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  const uint16_t x[2] = {0x4200, 0x5cb0}; /* 3, 300 */
  const int32_t n = 5;
  const void *given[2] = {x, &n};
  bool accepted = false;
  trm_infeed_open(infeed);
  assert_int_equal(trm_infeed_push(infeed, given, &accepted, &error), TRM_OK);
  float y[2];
  void *outputs[1] = {y};
  run(engine, NULL, NULL, outputs, NULL);
  assert_float_equal(y[1], 90000, 0);
  assert_int_equal(seen[0], 0x4880); /* 9 */
  assert_int_equal(seen[1], 0x7c00); /* the host sees an infinity */
  size_t count;
  void **blocks;
  assert_int_equal(trm_outfeed_take(outfeed, &count, &blocks, &error), TRM_OK);
  assert_int_equal(count, 1);
  assert_int_equal(((const uint16_t *)blocks[0])[1], trm_float_to_half(302));
  assert_int_equal(*(const int32_t *)blocks[1], 5);
  assert_memory_equal(blocks[2], x, sizeof x);
  for (int b = 0; b < 3; ++b) trm_free(blocks[b]);
  trm_free(blocks);
  trm_engine_free(engine);
  trm_infeed_release(infeed);
  trm_outfeed_release(outfeed);
}

/* ---- Variables and weights ------------------------------------------------------------------ */

static const char counter[] =
    "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n"
    "ENTRY e { v = f16[2] parameter(0)  d = f16[2] parameter(1)  w = f16[2] add(v, d)\n"
    "  f = f32[2] convert(w)  ROOT t = (f16[2], f32[2]) tuple(w, f) }\n";

/* A variable is float32 until the host writes it; steps that a half would lose add up. */
static void test_variables(void **state) {
  (void)state;
  const uint16_t step[2] = {0x1000, 0x7bff}; /* 2^-11, 65504 */
  for (uint32_t replicas = 1; replicas <= 2; ++replicas) {
    uint16_t blocks[2][2] = {{0x4000, 0}, {0, 0}}; /* 2, 0 */
    uint64_t numbers[2] = {1, 2};
    float sums[2];
    trm_engine *engine = engine_of(compile(counter, "float", 0), replicas);
    for (int i = 0; i < 16; ++i) {
      const int from = i & 1;
      const void *inputs[2] = {blocks[from], step};
      void *outputs[2] = {blocks[1 - from], sums};
      numbers[1 - from] += 2;
      run(engine, inputs, (uint64_t[]){numbers[from], 1000}, outputs,
          (uint64_t[]){numbers[1 - from], 0});
    }
    assert_float_equal(sums[0], 2 + 16.0f / 2048, 0);
    assert_float_equal(sums[1], 16 * 65504.0f, 0);
    assert_int_equal(blocks[0][0], trm_float_to_half(2 + 16.0f / 2048));
    assert_int_equal(blocks[0][1], 0x7c00);
    if (replicas == 2) {
      assert_memory_equal(trm_engine_output(engine, 1, 0), blocks[0], sizeof blocks[0]);
      assert_memory_equal(trm_engine_output(engine, 1, 1), sums, sizeof sums);
    }
    /* The host writes. */
    blocks[0][1] = 0x3c00;
    const void *inputs[2] = {blocks[0], step};
    void *outputs[2] = {blocks[1], sums};
    run(engine, inputs, (uint64_t[]){numbers[0] + 100, 1000}, outputs, NULL);
    assert_float_equal(sums[1], 65505, 0);
    trm_engine_free(engine);
  }
}

/* Without versions every run begins with what the host has. */
static void test_variables_without_versions(void **state) {
  (void)state;
  const uint16_t step[2] = {0x1000, 0x7bff};
  uint16_t blocks[2][2] = {{0x4000, 0}, {0, 0}};
  float sums[2];
  trm_engine *engine = engine_of(compile(counter, "float", 0), 1);
  for (int i = 0; i < 16; ++i) {
    const void *inputs[2] = {blocks[i & 1], step};
    void *outputs[2] = {blocks[1 - (i & 1)], sums};
    run(engine, inputs, NULL, outputs, NULL);
  }
  assert_int_equal(blocks[0][0], 0x4000); /* lost */
  assert_true(isinf(sums[1]));
  trm_engine_free(engine);
}

/* Weights of a product follow their version. */
static void test_weights(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e { w = f16[2,2] parameter(0)  x = f16[1,2] parameter(1)\n"
      "  d = f16[1,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  ROOT r = f32[1,2] convert(d) }\n";
  uint16_t w[4], x[2];
  for (int i = 0; i < 4; ++i) w[i] = trm_float_to_half((float)(i + 1) * 10000);
  for (int i = 0; i < 2; ++i) x[i] = trm_float_to_half(100);
  float y[2];
  const void *inputs[2] = {w, x};
  void *outputs[1] = {y};
  trm_engine *engine = engine_of(compile(text, "float", 0), 1);
  for (uint64_t version = 1; version <= 2; ++version) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      run(engine, inputs, (uint64_t[]){version, 0}, outputs, NULL);
      assert_float_equal(y[0], 4e6f * (float)version, 0);
      assert_float_equal(y[1], 6e6f * (float)version, 0);
    }
    for (int i = 0; i < 2; ++i) x[i] = trm_float_to_half(200);
    if (version == 1) continue;
    w[0] = trm_float_to_half(0);
    run(engine, inputs, NULL, outputs, NULL);
    assert_float_equal(y[0], 200 * 30000.0f, 0);
  }
  trm_engine_free(engine);
}

/* ---- What stays ----------------------------------------------------------------------------- */

static void test_rounded_by_default(void **state) {
  (void)state;
  char text[4096];
  snprintf(text, sizeof text, COMPUTATIONS "%s }\n",
           "z = f16[4] multiply(x, y)  ROOT r = f16[4] divide(z, y)");
  uint16_t x[2][COUNT], found[2][COUNT];
  for (int k = 0; k < 2; ++k) to_halves(some[k], x[k]);
  const void *inputs[2] = {x[0], x[1]};
  void *out = found[0];
  test_run_mode(text, &test_modes[0], inputs, &out);
  compute("z = f16[4] multiply(x, y)  ROOT r = f16[4] divide(z, y)", "rounded", 0, found[1]);
  assert_int_equal(found[0][1], 0x7c00);
  assert_true(isnan(trm_half_to_float(found[1][1]))); /* half_overflow=nan */
}

/* The estimate plans float16; the interface has float16; a file gives the same program. */
static void test_estimate_and_files(void **state) {
  (void)state;
  char text[4096], path[] = "/tmp/float_halves_XXXXXX";
  snprintf(text, sizeof text, COMPUTATIONS "%s }\n",
           "z = f16[4] multiply(x, y)  ROOT r = f16[4] divide(z, y)");
  trm_error error;
  trm_executable *kinds[3] = {compile(text, "float", 0), compile(text, "rounded", 0), NULL};
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  if (trm_executable_save(kinds[0], path, &error) != TRM_OK ||
      trm_executable_load(path, &kinds[2], &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  unlink(path);
  uint64_t bytes[3], cycles[3];
  for (int k = 0; k < 3; ++k) {
    trm_program *program = NULL;
    trm_program_totals totals = {.size = sizeof totals};
    if (trm_program_create_for_executable(kinds[k], NULL, NULL, &program, &error) != TRM_OK) {
      fail_msg("%s", error.message);
    }
    assert_true(trm_program_get_totals(program, &totals));
    bytes[k] = (uint64_t)totals.worst_tile_bytes;
    cycles[k] = (uint64_t)totals.cycles;
    trm_program_free(program);
    assert_int_equal(trm_executable_input(kinds[k], 0)->dtype, TRM_F16);
    assert_int_equal(trm_executable_output(kinds[k], 0)->dtype, TRM_F16);
    assert_int_equal(trm_executable_output(kinds[k], 0)->bytes, 8);
    assert_string_equal(trm_executable_output(kinds[k], 0)->name,
                        trm_executable_output(kinds[0], 0)->name);
  }
  for (int k = 1; k < 3; ++k) {
    assert_int_equal(bytes[k], bytes[0]);
    assert_int_equal(cycles[k], cycles[0]);
  }
  uint16_t x[2][COUNT], found[COUNT];
  for (int k = 0; k < 2; ++k) to_halves(some[k], x[k]);
  const void *inputs[2] = {x[0], x[1]};
  void *outputs[1] = {found};
  trm_engine *engine = engine_of(kinds[2], 1);
  run(engine, inputs, NULL, outputs, NULL);
  assert_memory_equal(found, x[0], sizeof found);
  trm_engine_free(engine);
  for (int k = 0; k < 2; ++k) trm_executable_free(kinds[k]);
}

/* Stochastic rounding does nothing, wherever it is asked for. */
static void test_no_stochastic_rounding(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e { x = f32[2] parameter(0)\n"
      "  h = f16[2] convert(x), frontend_attributes={STOCHASTIC_ROUNDING=\"THREESTATE_ON\"}\n"
      "  n = f16[2] negate(h)  ROOT r = f32[2] convert(n) }\n";
  const trm_option options[] = {{"halves", "float"}, {"stochastic_rounding", "on"}};
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_compile(module, options, 2, &executable, &error), TRM_OK);
  trm_module_free(module);
  const float x[2] = {1.00025f, 1e5f};
  float y[2];
  const void *inputs[1] = {x};
  void *outputs[1] = {y};
  trm_engine *engine = engine_of(executable, 1);
  run(engine, inputs, NULL, outputs, NULL);
  trm_engine_free(engine);
  for (int i = 0; i < 2; ++i) assert_float_equal(y[i], -x[i], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_rounds_inside),
      cmocka_unit_test(test_edges_round),
      cmocka_unit_test(test_bits_are_those_of_halves),
      cmocka_unit_test(test_numbers_that_no_half_holds),
      cmocka_unit_test(test_reduce_precision),
      cmocka_unit_test(test_control_flow),
      cmocka_unit_test(test_sorts),
      cmocka_unit_test(test_passing_through),
      cmocka_unit_test(test_feeds_and_the_host),
      cmocka_unit_test(test_variables),
      cmocka_unit_test(test_variables_without_versions),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_rounded_by_default),
      cmocka_unit_test(test_estimate_and_files),
      cmocka_unit_test(test_no_stochastic_rounding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

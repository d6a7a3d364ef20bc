/* The estimate that an executable keeps. */
#include <pthread.h>

#include "../run.h"
#include "compile/executable.h"
#include "ipu/program/program.h"
#include "tremula/inspect.h"

static const char text[] =
    "HloModule m\nENTRY e { x = f32[64,32] parameter(0)  w = f32[32,16] parameter(1)\n"
    "  ROOT d = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n";

static trm_program *estimate_of(trm_executable *executable, const trm_program_options *options) {
  trm_error error;
  trm_program *program = NULL;
  if (trm_program_create_for_executable(executable, NULL, options, &program, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  return program;
}

static trm_program_totals totals_of_program(const trm_program *program) {
  trm_program_totals totals = {.size = sizeof totals};
  assert_true(trm_program_get_totals(program, &totals));
  return totals;
}

/* Whoever asks gets the same program; other options are planned for themselves. */
static void test_made_once(void **state) {
  (void)state;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  trm_program_options options = {.size = sizeof options};
  trm_program_options_of(executable, &options);
  options.instrument = true;
  trm_program *first = estimate_of(executable, NULL), *second = estimate_of(executable, NULL);
  trm_program *other = estimate_of(executable, &options);
  assert_ptr_equal(first, second);
  assert_ptr_not_equal(first, other);
  trm_program_free(other);
  trm_program_free(first);
  assert_ptr_equal(second, estimate_of(executable, NULL));
  trm_program_free(second);
  trm_program_free(second);
  trm_executable_free(executable);
}

/* A program that somebody holds outlives the executable's other owners. */
static void test_outlives_its_owner(void **state) {
  (void)state;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  trm_program *program = estimate_of(executable, NULL);
  trm_executable_free(executable);
  assert_true(totals_of_program(program).fits);
  assert_string_equal(program->module->name, "m");
  trm_program_free(program);
}

static void *ask(void *executable) { return estimate_of(executable, NULL); }

static void test_asked_at_once(void **state) {
  (void)state;
  enum { THREADS = 4 };
  trm_executable *executable = test_compile(text, &test_modes[0]);
  pthread_t threads[THREADS];
  void *programs[THREADS];
  for (int t = 0; t < THREADS; ++t) {
    assert_int_equal(pthread_create(&threads[t], NULL, ask, executable), 0);
  }
  for (int t = 0; t < THREADS; ++t) assert_int_equal(pthread_join(threads[t], &programs[t]), 0);
  for (int t = 0; t < THREADS; ++t) {
    assert_ptr_equal(programs[t], programs[0]);
    trm_program_free(programs[t]);
  }
  trm_executable_free(executable);
}

/* Two shards whose elementwise chains the host makes one fusion of. */
static const char shards[] =
    "HloModule m\nENTRY e { x = f32[4096] parameter(0), sharding={maximal device=0}\n"
    "  a = f32[4096] sine(x), sharding={maximal device=0}\n"
    "  b = f32[4096] add(a, x), sharding={maximal device=0}\n"
    "  c = f32[4096] cosine(b), sharding={maximal device=1}\n"
    "  ROOT d = f32[4096] multiply(c, b), sharding={maximal device=1} }\n";

static size_t count(const char *text_of, const char *word) {
  size_t found = 0;
  for (const char *at = strstr(text_of, word); at != NULL; at = strstr(at + 1, word)) ++found;
  return found;
}

/* Each tail makes its own fusions. */
static void test_tails_are_apart(void **state) {
  (void)state;
  const trm_option options[1] = {{"ipus", "2"}};
  char *host, *ipu;
  trm_error error;
  trm_executable *executable = test_compile(shards, &options[0]);
  trm_program *program = estimate_of(executable, NULL);
  assert_int_equal(trm_executable_print(executable, &host, &error), TRM_OK);
  assert_int_equal(trm_module_print(program->module, &ipu, &error), TRM_OK);
  assert_int_equal(count(host, " fusion("), 1);
  assert_int_equal(count(ipu, " fusion("), 2);
  assert_int_equal(totals_of_program(program).num_ipus, 2);
  trm_free(host);
  trm_free(ipu);
  trm_program_free(program);
  trm_executable_free(executable);
}

static trm_program_totals totals_of(trm_executable *executable) {
  trm_program *program = estimate_of(executable, NULL);
  const trm_program_totals totals = totals_of_program(program);
  trm_program_free(program);
  return totals;
}

static void expect_same(trm_program_totals a, trm_program_totals b) {
  assert_int_equal(a.cycles, b.cycles);
  assert_int_equal(a.memory_bytes, b.memory_bytes);
  assert_int_equal(a.worst_tile_bytes, b.worst_tile_bytes);
}

/* How the host runs the program, and whether it comes out of a file, is nothing to the estimate. */
static void test_whatever_the_host_does(void **state) {
  (void)state;
  static const char chain[] =
      "HloModule m\nENTRY e { x = f32[4096] parameter(0)  y = f32[4096] parameter(1)\n"
      "  a = f32[4096] sine(x)  b = f32[4096] add(a, y)  c = f32[4096] multiply(b, b)\n"
      "  ROOT d = f32[4096] tanh(c) }\n";
  const trm_option ways[4] = {{"optimise", "true"},
                              {"overflow", "true"},
                              {"disabled_passes", "fuse"},
                              {"reference", "true"}};
  trm_program_totals first = {0};
  for (int w = 0; w < 4; ++w) {
    trm_error error;
    void *data;
    size_t size;
    trm_executable *executable = test_compile(chain, &ways[w]), *loaded;
    if (w == 0) first = totals_of(executable);
    expect_same(first, totals_of(executable));
    assert_int_equal(trm_executable_serialize(executable, &data, &size, &error), TRM_OK);
    assert_int_equal(trm_executable_deserialize(data, size, &loaded, &error), TRM_OK);
    expect_same(first, totals_of(loaded));
    char *before, *after;
    assert_int_equal(trm_executable_print(executable, &before, &error), TRM_OK);
    assert_int_equal(trm_executable_print(loaded, &after, &error), TRM_OK);
    assert_string_equal(before, after);
    trm_free(before);
    trm_free(after);
    trm_free(data);
    trm_executable_free(loaded);
    trm_executable_free(executable);
  }
}

/* Layers in halves, with what the host computes in float32 or in another way when it rounds
 * stochastically or looks for floating-point events. */
static const char half_layers[] =
    "HloModule m\n"
    "sum { a = f16[] parameter(0)  b = f16[] parameter(1)  ROOT c = f16[] add(a, b) }\n"
    "down { a = f16[] parameter(0)  b = f16[] parameter(1)  c = s32[] parameter(2)\n"
    "  d = s32[] parameter(3)  ROOT g = pred[] compare(a, b), direction=GT }\n"
    "ENTRY e { x = f16[32,8,8,64] parameter(0)  w = f16[3,3,64,64] parameter(1)\n"
    "  scale = f16[64] parameter(2)  offset = f16[64] parameter(3)  rate = f32[] parameter(4)\n"
    "  y = f16[32,8,8,64] convolution(x, w), window={size=3x3 pad=1_1x1_1},"
    " dim_labels=b01f_01io->b01f\n"
    "  n = (f16[32,8,8,64], f16[64], f16[64]) batch-norm-training(y, scale, offset),"
    " epsilon=0.001, feature_index=3\n"
    "  a = f16[32,8,8,64] get-tuple-element(n), index=0\n"
    "  three = f16[] constant(3)  seven = f16[] constant(7)  third = f16[] divide(seven, three)\n"
    "  bt = f16[32,8,8,64] broadcast(third), dimensions={}  ab = f16[32,8,8,64] multiply(a, bt)\n"
    "  t = f16[32,8,8,64] tanh(ab)\n"
    "  rows = f16[32,4096] reshape(t)  zero = f16[] constant(0)\n"
    "  square = f16[32,4096] multiply(rows, rows)\n"
    "  r = f16[32] reduce(square, zero), dimensions={1}, to_apply=sum\n"
    "  i = s32[32,4096] iota(), iota_dimension=1\n"
    "  s = (f16[32,4096], s32[32,4096]) sort(rows, i), dimensions={1}, is_stable=true,"
    " to_apply=down\n"
    "  v = f16[32,4096] get-tuple-element(s), index=0  k = f16[32,8] slice(v), slice={[0:32],"
    "[0:8]}\n"
    "  h = f16[] convert(rate)  bh = f16[3,3,64,64] broadcast(h), dimensions={}\n"
    "  step = f16[3,3,64,64] multiply(w, bh)  new = f16[3,3,64,64] subtract(w, step)\n"
    "  ROOT all = (f16[32], f16[32,8], f16[3,3,64,64]) tuple(r, k, new) }\n";

/* Rounding, overflow and events are modes of an IPU: they change neither memory nor cycles. */
static void test_modes_of_the_hardware(void **state) {
  (void)state;
  static const trm_option modes[] = {{"verify", "true"},
                                     {"stochastic_rounding", "on"},
                                     {"stochastic_rounding", "replica-identical"},
                                     {"half_overflow", "nan"},
                                     {"half_overflow", "largest"},
                                     {"overflow", "true"},
                                     {"invalid", "true"},
                                     {"division_by_zero", "true"}};
  trm_program_totals first = {0};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
    trm_executable *executable = test_compile(half_layers, &modes[m]);
    const trm_program_totals totals = totals_of(executable);
    if (m == 0) first = totals;
    if (memcmp(&totals, &first, sizeof totals) != 0) {
      fail_msg("%s=%s: %lld bytes on the fullest tile, not %lld", modes[m].key, modes[m].value,
               (long long)totals.worst_tile_bytes, (long long)first.worst_tile_bytes);
    }
    trm_executable_free(executable);
  }
}

static const char fed[] = "HloModule m\nENTRY e { t = token[] after-all()\n"
                          "  i = ((f32[8,4], s32[2]), token[]) infeed(t), infeed_config=\"in\"\n"
                          "  p = (f32[8,4], s32[2]) get-tuple-element(i), index=0\n"
                          "  x = f32[8,4] get-tuple-element(p), index=0  y = f32[8,4] tanh(x)\n"
                          "  o = token[] outfeed(y, t), outfeed_config=\"out\"\n"
                          "  ROOT n = s32[2] get-tuple-element(p), index=1 }\n";

static trm_executable *compile_for_plan(const char *hlo) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  assert_int_equal(trm_module_read(hlo, strlen(hlo), "test", &module, &error), TRM_OK);
  if (trm_inspect_compile_for_plan(module, NULL, 0, &executable, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_module_free(module);
  return executable;
}

static void check_interface(const trm_executable *one, const trm_executable *other) {
  assert_int_equal(trm_executable_num_inputs(one), trm_executable_num_inputs(other));
  assert_int_equal(trm_executable_num_outputs(one), trm_executable_num_outputs(other));
  for (size_t i = 0; i < trm_executable_num_inputs(one); ++i) {
    const trm_tensor_info *a = trm_executable_input(one, i), *b = trm_executable_input(other, i);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->rank, b->rank);
  }
  for (size_t f = 0;; ++f) {
    char kinds[2];
    const trm_tensor_info *elements[2];
    size_t counts[2];
    const char *a = trm_executable_feed(one, f, &kinds[0], &elements[0], &counts[0]);
    const char *b = trm_executable_feed(other, f, &kinds[1], &elements[1], &counts[1]);
    assert_int_equal(a == NULL, b == NULL);
    if (a == NULL) return;
    assert_string_equal(a, b);
    assert_int_equal(kinds[0], kinds[1]);
    assert_int_equal(counts[0], counts[1]);
    for (size_t e = 0; e < counts[0]; ++e) {
      assert_int_equal(elements[0][e].dtype, elements[1][e].dtype);
      assert_int_equal(elements[0][e].dims[0], elements[1][e].dims[0]);
    }
  }
}

/* What is only planned has the same plan and interface, and neither the host's module nor steps. */
static void test_planned_only(void **state) {
  (void)state;
  const char *const programs[] = {text, half_layers, fed};
  for (size_t p = 0; p < sizeof programs / sizeof *programs; ++p) {
    trm_executable *whole = test_compile(programs[p], &test_modes[0]);
    trm_executable *planned = compile_for_plan(programs[p]);
    const trm_program_totals a = totals_of(whole), b = totals_of(planned);
    assert_memory_equal(&a, &b, sizeof a);
    check_interface(whole, planned);
    assert_true(whole->schedule->num_steps > 0);
    assert_int_equal(planned->schedule->num_steps, 0);
    assert_int_equal(planned->schedule->num_kernels, 0);
    assert_ptr_equal(planned->module, planned->shared);
    trm_error error;
    trm_engine *engine = NULL;
    assert_int_equal(trm_engine_create(planned, &engine, &error), TRM_FAILED_PRECONDITION);
    trm_executable_free(planned);
    trm_executable_free(whole);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_made_once),       cmocka_unit_test(test_outlives_its_owner),
      cmocka_unit_test(test_asked_at_once),   cmocka_unit_test(test_modes_of_the_hardware),
      cmocka_unit_test(test_tails_are_apart), cmocka_unit_test(test_whatever_the_host_does),
      cmocka_unit_test(test_planned_only)};
  return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}

/* Replicas: their variables, feeds, random numbers and shards; failing, diverging, cancelling. */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "../run.h"

static trm_engine *engine_of(const char *text, uint32_t replicas) {
  trm_error error;
  trm_engine *engine = NULL;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  if (trm_engine_create_replicated(executable, replicas, &engine, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_executable_free(executable);
  return engine;
}

static void must_run(trm_engine *engine, const void *const *inputs, const uint64_t *versions,
                     void *const *outputs, const uint64_t *output_versions) {
  trm_error error;
  if (trm_engine_run_replicated(engine, inputs, versions, outputs, output_versions, &error) !=
      TRM_OK) {
    fail_msg("%s", error.message);
  }
}

static void test_numbers_of_replicas(void **state) {
  (void)state;
  trm_error error;
  trm_engine *engine = NULL;
  trm_executable *executable =
      test_compile("HloModule m\nENTRY e { ROOT i = u32[] replica-id() }\n", &test_modes[0]);
  assert_int_equal(trm_engine_create_replicated(executable, 0, &engine, &error),
                   TRM_INVALID_ARGUMENT);
  assert_int_equal(trm_engine_create_replicated(executable, 5000, &engine, &error),
                   TRM_INVALID_ARGUMENT);
  assert_int_equal(trm_engine_create_replicated(executable, 16, &engine, &error), TRM_OK);
  trm_executable_free(executable);
  uint32_t id = 99;
  void *outputs[1] = {&id};
  for (int i = 0; i < 20; ++i) must_run(engine, NULL, NULL, outputs, NULL);
  assert_int_equal(id, 0);
  for (uint32_t r = 1; r < 16; ++r) {
    assert_int_equal(*(const uint32_t *)trm_engine_output(engine, r, 0), r);
  }
  trm_engine_free(engine);
}

static void test_engine_settings(void **state) {
  (void)state;
  trm_error error;
  trm_engine *engine = NULL;
  trm_executable *executable =
      test_compile("HloModule m\nENTRY e { ROOT i = u32[] replica-id() }\n", &test_modes[0]);
  trm_engine_settings settings = {0};
  assert_int_equal(trm_engine_create_with(executable, &settings, &engine, &error),
                   TRM_INVALID_ARGUMENT); /* without its size */
  settings = (trm_engine_settings){.size = sizeof settings, .num_replicas = 3, .accelerator = ""};
  assert_int_equal(trm_engine_create_with(executable, &settings, &engine, &error), TRM_OK);
  assert_int_equal(trm_engine_num_replicas(engine), 3);
  uint32_t id = 99;
  void *outputs[1] = {&id};
  must_run(engine, NULL, NULL, outputs, NULL);
  assert_int_equal(*(const uint32_t *)trm_engine_output(engine, 2, 0), 2);
  trm_engine_free(engine);
  settings = (trm_engine_settings){.size = sizeof settings, .accelerator = "nothing"};
  assert_int_not_equal(trm_engine_create_with(executable, &settings, &engine, &error), TRM_OK);
  assert_non_null(strstr(error.message, "nothing"));
  settings = (trm_engine_settings){.size = sizeof settings};
  assert_int_equal(trm_engine_create_with(executable, &settings, &engine, &error), TRM_OK);
  assert_int_equal(trm_engine_num_replicas(engine), 1);
  trm_engine_free(engine);
  trm_executable_free(executable);
}

/* ---- Variables ------------------------------------------------------------------------------ */

/* w' = w + replica + 1 */
static const char *counting =
    "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n"
    "ENTRY e { w = f32[2] parameter(0)  id = u32[] replica-id()  f = f32[] convert(id)\n"
    "  one = f32[] constant(1)  g = f32[] add(f, one)  b = f32[2] broadcast(g), dimensions={}\n"
    "  n = f32[2] add(w, b)  d = f32[2] add(n, n)  ROOT t = (f32[2], f32[2]) tuple(d, n) }\n";

static float value(const trm_engine *engine, uint32_t replica) {
  return *(const float *)trm_engine_output(engine, replica, 1);
}

static void test_variables_stay(void **state) {
  (void)state;
  trm_engine *engine = engine_of(counting, 3);
  float first[2] = {10, 10}, a[2], b[2], doubled[2];
  uint64_t version = 7, next = 8;
  const void *inputs[1] = {first};
  void *outputs[2] = {doubled, a};
  uint64_t output_versions[2] = {0, next};
  must_run(engine, inputs, &version, outputs, output_versions);
  assert_true(a[0] == 11 && value(engine, 1) == 12 && value(engine, 2) == 13);
  /* The host hands back what it got: every replica goes on with its own. */
  inputs[0] = a;
  outputs[1] = b;
  version = 8, output_versions[1] = 9;
  must_run(engine, inputs, &version, outputs, output_versions);
  assert_true(b[0] == 12 && value(engine, 1) == 14 && value(engine, 2) == 16);
  assert_true(doubled[0] == 24);
  assert_true(*(const float *)trm_engine_output(engine, 2, 0) == 32);
  /* The value of the run before, as after a step whose assignment did not happen. */
  output_versions[1] = 10;
  must_run(engine, inputs, &version, outputs, output_versions);
  assert_true(b[0] == 12 && value(engine, 1) == 14 && value(engine, 2) == 16);
  /* The host has written the variable: all get that. */
  float written[2] = {100, 100};
  inputs[0] = written;
  version = 50, output_versions[1] = 51;
  must_run(engine, inputs, &version, outputs, output_versions);
  assert_true(b[0] == 101 && value(engine, 1) == 102 && value(engine, 2) == 103);
  /* An old number that is kept nowhere any more. */
  inputs[0] = a;
  version = 8;
  must_run(engine, inputs, &version, outputs, output_versions);
  assert_true(b[0] == 12 && value(engine, 1) == 13 && value(engine, 2) == 14);
  trm_engine_free(engine);
}

static void test_variables_without_versions(void **state) {
  (void)state;
  trm_engine *engine = engine_of(counting, 2);
  float w[2] = {1, 1}, n[2], doubled[2];
  const void *inputs[1] = {w};
  void *outputs[2] = {doubled, n};
  const uint64_t no_version = 0, output_versions[2] = {0, 0};
  for (int i = 0; i < 3; ++i) {
    must_run(engine, inputs, i == 0 ? NULL : &no_version, outputs, i < 2 ? NULL : output_versions);
    assert_true(n[0] == 2 && value(engine, 1) == 3);
  }
  trm_engine_free(engine);
}

/* A dot whose weights differ by replica: what a kernel has packed of one's is not another's. */
static void test_packed_weights_of_replicas(void **state) {
  (void)state;
  enum { N = 64 };
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n"
           "ENTRY e { w = f32[%d,%d] parameter(0)  x = f32[%d,%d] parameter(1)\n"
           "  y = f32[%d,%d] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
           "  id = u32[] replica-id()  f = f32[] convert(id)\n"
           "  b = f32[%d,%d] broadcast(f), dimensions={}  n = f32[%d,%d] add(w, b)\n"
           "  ROOT t = (f32[%d,%d], f32[%d,%d]) tuple(y, n) }\n",
           N, N, N, N, N, N, N, N, N, N, N, N, N, N);
  trm_engine *engine = engine_of(text, 2);
  const size_t bytes = N * N * sizeof(float);
  float *w = malloc(bytes), *x = malloc(bytes), *y = malloc(bytes), *n = malloc(bytes);
  for (int i = 0; i < N * N; ++i) w[i] = x[i] = 1;
  const void *inputs[2] = {w, x};
  void *outputs[2] = {y, n};
  uint64_t versions[2] = {1, 1}, output_versions[2] = {0, 2};
  for (int step = 0; step < 4; ++step) {
    must_run(engine, inputs, versions, outputs, output_versions);
    const float *other = trm_engine_output(engine, 1, 0);
    assert_true(y[5] == N);
    assert_true(other[5] == (float)(N * (1 + step)));
    float *spare = w;
    w = n, n = spare;
    inputs[0] = w, outputs[1] = n;
    versions[0] = output_versions[1]++;
  }
  trm_engine_free(engine);
  free(w), free(x), free(y), free(n);
}

/* ---- Feeds ---------------------------------------------------------------------------------- */

/* Ten steps: takes x, gives x * 10 + replica; the sum of x stays. */
static const char *feeding =
    "HloModule feeds\n"
    "cond { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(10)  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)  j = s32[] add(i, one)  a = f32[] get-tuple-element(s), index=1\n"
    "  in = (f32[]) custom-call(), custom_call_target=\"tremula.infeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"in\\\"}\"\n"
    "  x = f32[] get-tuple-element(in), index=0  b = f32[] add(a, x)\n"
    "  ten = f32[] constant(10)  y = f32[] multiply(x, ten)  id = u32[] replica-id()\n"
    "  f = f32[] convert(id)  z = f32[] add(y, f)\n"
    "  out = () custom-call(z), custom_call_target=\"tremula.outfeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"out\\\"}\"\n"
    "  ROOT t = (s32[], f32[]) tuple(j, b) }\n"
    "ENTRY e { z = s32[] constant(0)  f = f32[] constant(0)  t = (s32[], f32[]) tuple(z, f)\n"
    "  w = (s32[], f32[]) while(t), condition=cond, body=body\n"
    "  ROOT x = f32[] get-tuple-element(w), index=1 }\n";

typedef struct producer {
  trm_infeed *infeed;
  int count;
} producer;

static void *produce(void *argument) {
  producer *p = argument;
  for (int i = 0; i < p->count; ++i) {
    const float element = (float)i;
    const void *elements[1] = {&element};
    bool accepted = false;
    if (trm_infeed_push(p->infeed, elements, &accepted, NULL) != TRM_OK || !accepted) return NULL;
  }
  trm_infeed_end(p->infeed, TRM_OUT_OF_RANGE, "no more");
  return NULL;
}

static const trm_tensor_info scalar = {"", TRM_F32, 0, {0}, 4};

/* Runs `feeding` on 4 replicas with `count` elements. Returns the status. */
static trm_status feed(bool keep_last, int count, trm_outfeed **out_outfeed, float *sum,
                       trm_engine **out_engine, trm_error *error) {
  const trm_tensor_info four = {"", TRM_F32, 1, {4}, 16};
  trm_engine *engine = engine_of(feeding, 4);
  trm_infeed *infeed;
  assert_int_equal(trm_infeed_create(&scalar, 1, 3, &infeed, error), TRM_OK);
  assert_int_equal(trm_outfeed_create(&four, 1, keep_last, out_outfeed, error), TRM_OK);
  if (trm_engine_bind_infeed(engine, "in", infeed, error) != TRM_OK ||
      trm_engine_bind_outfeed(engine, "out", *out_outfeed, error) != TRM_OK) {
    fail_msg("%s", error->message);
  }
  trm_infeed_open(infeed);
  producer p = {infeed, count};
  pthread_t thread;
  pthread_create(&thread, NULL, produce, &p);
  void *outputs[1] = {sum};
  const trm_status status = trm_engine_run(engine, NULL, NULL, outputs, error);
  trm_infeed_close(infeed);
  pthread_join(thread, NULL);
  trm_infeed_release(infeed);
  *out_engine = engine;
  return status;
}

static void test_feeds(void **state) {
  (void)state;
  for (int keep_last = 0; keep_last < 2; ++keep_last) {
    trm_error error;
    trm_outfeed *outfeed;
    trm_engine *engine;
    float sum = 0;
    if (feed(keep_last, 40, &outfeed, &sum, &engine, &error) != TRM_OK)
      fail_msg("%s", error.message);
    assert_true(sum == 180); /* 0 + 4 + ... + 36 */
    assert_true(*(const float *)trm_engine_output(engine, 3, 0) == 210);
    size_t count;
    void **blocks;
    assert_int_equal(trm_outfeed_take(outfeed, &count, &blocks, &error), TRM_OK);
    assert_int_equal(count, keep_last ? 1 : 10);
    const float *rows = blocks[0];
    for (size_t i = 0; i < count * 4; ++i) {
      const size_t element = keep_last ? 36 + i : i;
      assert_true(rows[i] == (float)(element * 10 + element % 4));
    }
    trm_free(blocks[0]);
    trm_free(blocks);
    trm_engine_free(engine);
    trm_outfeed_release(outfeed);
  }
}

/* 38 elements: the last step has two too few, and gives nothing. */
static void test_data_ends_within_a_step(void **state) {
  (void)state;
  trm_error error;
  trm_outfeed *outfeed;
  trm_engine *engine;
  float sum;
  assert_int_equal(feed(false, 38, &outfeed, &sum, &engine, &error), TRM_OUT_OF_RANGE);
  assert_string_equal(error.message, "no more");
  size_t count;
  void **blocks;
  assert_int_equal(trm_outfeed_take(outfeed, &count, &blocks, &error), TRM_OK);
  assert_int_equal(count, 9);
  trm_free(blocks[0]);
  trm_free(blocks);
  trm_engine_free(engine);
  trm_outfeed_release(outfeed);
}

static void test_wrong_outfeed(void **state) {
  (void)state;
  trm_error error;
  trm_engine *engine = engine_of(feeding, 2);
  trm_outfeed *outfeed;
  assert_int_equal(trm_outfeed_create(&scalar, 1, false, &outfeed, &error), TRM_OK);
  assert_int_equal(trm_engine_bind_outfeed(engine, "out", outfeed, &error),
                   TRM_FAILED_PRECONDITION);
  assert_non_null(strstr(error.message, "on 2 replicas"));
  trm_outfeed_release(outfeed);
  trm_engine_free(engine);
}

/* ---- Random numbers ------------------------------------------------------------------------- */

static void test_random_numbers(void **state) {
  (void)state;
  const char *text = "HloModule m\nENTRY e { ROOT r = f32[8] custom-call(), "
                     "custom_call_target=\"tremula.random\", custom_call_has_side_effect=true, "
                     "backend_config=\"{\\\"distribution\\\":\\\"uniform\\\",\\\"seed\\\":1,"
                     "\\\"seed2\\\":2,\\\"id\\\":3}\" }\n";
  float alone[8], first[8], second[8];
  void *outputs[1] = {alone};
  trm_engine *one = engine_of(text, 1), *two = engine_of(text, 2);
  trm_engine_set_seed(one, 42);
  must_run(one, NULL, NULL, outputs, NULL);
  outputs[0] = first;
  trm_engine_set_seed(two, 42);
  must_run(two, NULL, NULL, outputs, NULL);
  memcpy(second, trm_engine_output(two, 1, 0), sizeof second);
  assert_memory_equal(first, alone, sizeof first);
  assert_memory_not_equal(first, second, sizeof first);
  trm_engine_set_seed(two, 42 | UINT64_C(1) << 63); /* identical replicas */
  must_run(two, NULL, NULL, outputs, NULL);
  assert_memory_equal(first, alone, sizeof first);
  assert_memory_equal(first, trm_engine_output(two, 1, 0), sizeof first);
  trm_engine_free(one);
  trm_engine_free(two);
}

/* Roundings of all replicas draw the same where the call says so, however its JSON is written. */
static void test_roundings_alike(void **state) {
  (void)state;
  static const struct {
    const char *config;
    bool alike;
  } rows[] = {{"{}", false},
              {"{\\\"alike\\\":false}", false},
              {"{\\\"alike\\\":true}", true},
              {"{ \\\"alike\\\" : true }", true},
              {"{\\n\\\"alike\\\":\\ttrue\\n}", true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char text[512];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e { x = f32[256] parameter(0)\n"
             "  ROOT r = f16[256] custom-call(x), backend_config=\"%s\",\n"
             "    custom_call_target=\"tremula.round-half-stochastically\" }\n",
             rows[i].config);
    float x[256];
    for (int k = 0; k < 256; ++k) x[k] = 1.0f + 0x1p-12f * (float)k;
    const void *inputs[1] = {x};
    uint16_t first[256];
    void *outputs[1] = {first};
    trm_engine *engine = engine_of(text, 2);
    must_run(engine, inputs, NULL, outputs, NULL);
    const bool same = memcmp(first, trm_engine_output(engine, 1, 0), sizeof first) == 0;
    if (same != rows[i].alike) fail_msg("%s: equal bits: %d", rows[i].config, same);
    trm_engine_free(engine);
  }
}

/* ---- Threads -------------------------------------------------------------------------------- */

/* The same bits whatever number of threads the replicas have. */
static void test_numbers_of_threads(void **state) {
  (void)state;
  enum { N = 1 << 16 };
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
           "ENTRY e { x = f32[%d] parameter(0)  id = u32[] replica-id()  f = f32[] convert(id)\n"
           "  g = f32[%d] broadcast(f), dimensions={}  y = f32[%d] add(x, g)\n"
           "  z = f32[%d] tanh(y)\n"
           "  ROOT w = f32[%d] all-reduce(z), replica_groups={}, to_apply=add }\n",
           N, N, N, N, N);
  float *x = malloc(N * sizeof *x), *expected = malloc(N * sizeof *x), *got = malloc(N * sizeof *x);
  for (int i = 0; i < N; ++i) x[i] = (float)(i % 977) * 0.01f - 5;
  const void *inputs[1] = {x};
  trm_engine *engine = engine_of(text, 4);
  const int before = omp_get_max_threads();
#if defined(__SANITIZE_THREAD__)
  const int most = 4; /* one thread a replica: the sanitizer does not see libgomp's barriers */
#else
  const int most = 8;
#endif
  for (int threads = 1; threads <= most; threads *= 2) {
    void *outputs[1] = {threads == 1 ? expected : got};
    omp_set_num_threads(threads);
    must_run(engine, inputs, NULL, outputs, NULL);
    assert_int_equal(omp_get_max_threads(), threads);
    if (threads > 1) assert_memory_equal(expected, got, N * sizeof *x);
    for (uint32_t r = 1; r < 4; ++r) {
      assert_memory_equal(expected, trm_engine_output(engine, r, 0), N * sizeof *x);
    }
  }
  omp_set_num_threads(before);
  trm_engine_free(engine);
  free(x), free(expected), free(got);
}

/* ---- Failing -------------------------------------------------------------------------------- */

/* Only the replicas below `limit` come to the all-reduce. */
static void diverge(char *text, size_t size, int limit) {
  snprintf(text, size,
           "HloModule m\n"
           "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
           "yes { x = f32[] parameter(0)  ROOT y = f32[] all-reduce(x), replica_groups={}, "
           "to_apply=add }\n"
           "no { ROOT x = f32[] parameter(0) }\n"
           "ENTRY e { id = u32[] replica-id()  n = u32[] constant(%d)\n"
           "  p = pred[] compare(id, n), direction=LT  x = f32[] constant(1)\n"
           "  ROOT y = f32[] conditional(p, x, x), true_computation=yes, false_computation=no }\n",
           limit);
}

static void test_replicas_that_part_ways(void **state) {
  (void)state;
  for (int limit = 0; limit <= 4; ++limit) {
    char text[1024];
    diverge(text, sizeof text, limit);
    trm_engine *engine = engine_of(text, 4);
    for (int i = 0; i < 20; ++i) {
      trm_error error;
      float result = 0;
      void *outputs[1] = {&result};
      const trm_status status = trm_engine_run(engine, NULL, NULL, outputs, &error);
      if (limit == 0 || limit == 4) {
        assert_int_equal(status, TRM_OK);
        assert_true(result == (limit == 0 ? 1 : 4));
      } else {
        assert_int_equal(status, TRM_FAILED_PRECONDITION);
        assert_non_null(strstr(error.message, "every replica must take the same branches"));
      }
    }
    trm_engine_free(engine);
  }
}

/* Two collectives, which half of the replicas take in each order. */
static void test_collectives_in_other_orders(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
      "yes { x = f32[] parameter(0)  ROOT y = f32[] all-reduce(x), replica_groups={}, "
      "to_apply=add }\n"
      "no { x = f32[] parameter(0)  ROOT y = f32[] all-reduce(x), replica_groups={}, "
      "to_apply=add }\n"
      "ENTRY e { id = u32[] replica-id()  n = u32[] constant(1)\n"
      "  p = pred[] compare(id, n), direction=LT  x = f32[] constant(1)\n"
      "  ROOT y = f32[] conditional(p, x, x), true_computation=yes, false_computation=no }\n";
  trm_engine *engine = engine_of(text, 2);
  trm_error error;
  float result;
  void *outputs[1] = {&result};
  for (int i = 0; i < 50; ++i) {
    assert_int_equal(trm_engine_run(engine, NULL, NULL, outputs, &error), TRM_FAILED_PRECONDITION);
  }
  trm_engine_free(engine);
}

/* Each replica gives an element to the outfeed; then replica 0 loops without an end, and the others
 * wait at an all-reduce. */
static const char *endless =
    "HloModule m\n"
    "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
    "cond { s = (u32[]) parameter(0)  i = u32[] get-tuple-element(s), index=0\n"
    "  z = u32[] constant(0)  ROOT l = pred[] compare(i, z), direction=EQ }\n"
    "body { ROOT s = (u32[]) parameter(0) }\n"
    "ENTRY e { id = u32[] replica-id()  token = token[] after-all()\n"
    "  o = token[] outfeed(id, token), outfeed_config=\"begun\"  t = (u32[]) tuple(id)\n"
    "  w = (u32[]) while(t), condition=cond, body=body  i = u32[] get-tuple-element(w), index=0\n"
    "  x = f32[] convert(i)\n"
    "  ROOT y = f32[] all-reduce(x), replica_groups={}, to_apply=add }\n";

typedef struct endless_run {
  trm_engine *engine;
  trm_outfeed *begun;
} endless_run;

/* Cancels when all replicas run. */
static void *cancel_begun(void *argument) {
  const endless_run *run = argument;
  size_t count = 0;
  void **blocks = NULL;
  for (; count == 0; sched_yield()) {
    if (trm_outfeed_take(run->begun, &count, &blocks, NULL) != TRM_OK) return NULL;
    if (blocks != NULL) trm_free(blocks[0]);
    trm_free(blocks);
  }
  trm_engine_cancel(run->engine);
  return NULL;
}

static void test_cancel(void **state) {
  (void)state;
  static const trm_tensor_info of_replicas = {"", TRM_U32, 1, {4}, 16};
  trm_error error;
  endless_run run = {.engine = engine_of(endless, 4)};
  assert_int_equal(trm_outfeed_create(&of_replicas, 1, false, &run.begun, &error), TRM_OK);
  assert_int_equal(trm_engine_bind_outfeed(run.engine, "begun", run.begun, &error), TRM_OK);
  for (int i = 0; i < 2; ++i) {
    float result;
    void *outputs[1] = {&result};
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_begun, &run);
    assert_int_equal(trm_engine_run(run.engine, NULL, NULL, outputs, &error), TRM_CANCELLED);
    assert_string_equal(error.message, "the run was cancelled");
    pthread_join(thread, NULL);
  }
  trm_engine_free(run.engine);
  trm_outfeed_release(run.begun);
}

/* ---- Shards --------------------------------------------------------------------------------- */

static trm_executable *compile_for(const char *text, const char *ipus) {
  const trm_option option = {"ipus", ipus};
  return test_compile(text, &option);
}

static const char *sharded =
    "HloModule m\nENTRY e { x = f32[] parameter(0)\n"
    "  y = f32[] add(x, x), sharding={maximal device=1}\n"
    "  z = f32[] multiply(y, y), sharding={maximal device=2}  ROOT w = f32[] tanh(z) }\n";

static void test_shards(void **state) {
  (void)state;
  trm_error error;
  uint32_t replicas = 0;
  trm_executable *executable = compile_for(sharded, "8"), *loaded;
  assert_int_equal(trm_executable_num_shards(executable), 4); /* a power of two */
  assert_int_equal(trm_executable_num_replicas(executable, &replicas, &error), TRM_OK);
  assert_int_equal(replicas, 2);
  assert_false(trm_executable_tells_replicas_apart(executable));
  void *data;
  size_t size;
  assert_int_equal(trm_executable_serialize(executable, &data, &size, &error), TRM_OK);
  assert_int_equal(trm_executable_deserialize(data, size, &loaded, &error), TRM_OK);
  assert_int_equal(trm_executable_num_shards(loaded), 4);
  assert_int_equal(trm_executable_num_replicas(loaded, &replicas, &error), TRM_OK);
  assert_int_equal(replicas, 2);
  trm_free(data);
  trm_executable_free(loaded);
  trm_executable_free(executable);
  executable = compile_for(sharded, "2");
  assert_int_equal(trm_executable_num_replicas(executable, &replicas, &error), TRM_INTERNAL);
  assert_string_equal(error.message,
                      "Trying to compile a graph for an IPU device with 2 IPUs and 4 shards. The "
                      "number of shards needs to divide the number of IPUs.");
  trm_executable_free(executable);
}

static void test_telling_replicas_apart(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool apart;
  } rows[] = {
      {"HloModule m\nENTRY e { x = f32[] parameter(0)  ROOT y = f32[] tanh(x) }\n", false},
      {"HloModule m\nENTRY e { ROOT i = u32[] replica-id() }\n", true},
      {"HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)\n"
       "  ROOT s = f32[] add(a, b) }\nENTRY e { x = f32[] parameter(0)\n"
       "  ROOT y = f32[] all-reduce(x), replica_groups={}, to_apply=add }\n",
       true},
      {"HloModule m\nENTRY e { ROOT n = s32[] custom-call(), "
       "custom_call_target=\"tremula.replication-factor\" }\n",
       true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    trm_executable *executable = test_compile(rows[i].text, &test_modes[0]);
    assert_int_equal(trm_executable_tells_replicas_apart(executable), rows[i].apart);
    assert_int_equal(trm_executable_num_shards(executable), 1);
    trm_executable_free(executable);
  }
  trm_executable *feeds = test_compile(feeding, &test_modes[0]);
  assert_true(trm_executable_tells_replicas_apart(feeds));
  trm_executable_free(feeds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_of_replicas),
      cmocka_unit_test(test_engine_settings),
      cmocka_unit_test(test_variables_stay),
      cmocka_unit_test(test_variables_without_versions),
      cmocka_unit_test(test_packed_weights_of_replicas),
      cmocka_unit_test(test_feeds),
      cmocka_unit_test(test_data_ends_within_a_step),
      cmocka_unit_test(test_wrong_outfeed),
      cmocka_unit_test(test_random_numbers),
      cmocka_unit_test(test_roundings_alike),
      cmocka_unit_test(test_numbers_of_threads),
      cmocka_unit_test(test_replicas_that_part_ways),
      cmocka_unit_test(test_collectives_in_other_orders),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_shards),
      cmocka_unit_test(test_telling_replicas_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

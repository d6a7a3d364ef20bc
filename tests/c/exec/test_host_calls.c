/* Programs that call functions of the host: values, order, loops, branches, replicas, failures. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "../run.h"
#include "../sleeping.h"

#define CALL                                                                     \
  "custom_call_target=\"tremula.host-call\", custom_call_has_side_effect=true, " \
  "backend_config=\"{\\\"host_call\\\":\\\""
#define END "\\\"}\""

static const char *const plain_text =
    "HloModule plain\n"
    "ENTRY e { a = f32[2] parameter(0)  b = s32[] parameter(1)\n"
    "  h = (f32[2], s32[3]) custom-call(a, b), " CALL "add" END "\n"
    "  x = f32[2] get-tuple-element(h), index=0  y = s32[3] get-tuple-element(h), index=1\n"
    "  z = f32[2] add(x, x)  ROOT t = (f32[2], s32[3]) tuple(z, y) }\n";

static trm_engine *engine_of(const char *text, const trm_option *mode, uint32_t replicas) {
  trm_error error;
  trm_engine *engine = NULL;
  trm_executable *executable = test_compile(text, mode);
  if (trm_engine_create_replicated(executable, replicas, &engine, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_executable_free(executable);
  return engine;
}

static void set(trm_engine *engine, const char *id, trm_host_function function, void *user) {
  trm_error error;
  if (trm_engine_set_host_function(engine, id, function, user, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
}

static trm_status add(void *user, const void *const *inputs, void *const *outputs, uint32_t replica,
                      trm_error *error) {
  (void)replica, (void)error;
  const float *a = inputs[0];
  const int32_t b = *(const int32_t *)inputs[1];
  for (int i = 0; i < 2; ++i) ((float *)outputs[0])[i] = a[i] + (float)b;
  for (int i = 0; i < 3; ++i) ((int32_t *)outputs[1])[i] = b * i;
  ++*(int *)user;
  return TRM_OK;
}

static void test_values(void **state) {
  (void)state;
  for (int m = 0; m < 3; ++m) {
    int calls = 0;
    trm_error error;
    trm_engine *engine = engine_of(plain_text, &test_modes[m], 1);
    set(engine, "add", add, &calls);
    const float a[2] = {1, 2};
    const int32_t b = 5;
    const void *inputs[2] = {a, &b};
    float x[2];
    int32_t y[3];
    void *outputs[2] = {x, y};
    for (int run = 1; run <= 2; ++run) {
      assert_int_equal(trm_engine_run(engine, inputs, NULL, outputs, &error), TRM_OK);
      assert_true(x[0] == 12 && x[1] == 14 && y[0] == 0 && y[1] == 5 && y[2] == 10);
      assert_int_equal(calls, run);
    }
    trm_engine_free(engine);
  }
}

static void test_description(void **state) {
  (void)state;
  trm_executable *executable = test_compile(plain_text, &test_modes[0]);
  const trm_tensor_info *inputs, *outputs;
  size_t num_inputs, num_outputs;
  const char *id =
      trm_executable_host_call(executable, 0, &inputs, &num_inputs, &outputs, &num_outputs);
  assert_string_equal(id, "add");
  assert_int_equal(num_inputs, 2);
  assert_int_equal(num_outputs, 2);
  assert_int_equal(inputs[0].dtype, TRM_F32);
  assert_int_equal(inputs[1].rank, 0);
  assert_int_equal(outputs[1].dtype, TRM_S32);
  assert_int_equal(outputs[1].dims[0], 3);
  assert_int_equal(outputs[1].bytes, 12);
  assert_null(
      trm_executable_host_call(executable, 1, &inputs, &num_inputs, &outputs, &num_outputs));
  trm_executable_free(executable);
}

/* ---- Failures ---- */

static trm_status refuse(void *user, const void *const *inputs, void *const *outputs,
                         uint32_t replica, trm_error *error) {
  (void)inputs, (void)outputs;
  if (replica != *(const uint32_t *)user) return TRM_OK;
  error->status = TRM_INVALID_ARGUMENT;
  strcpy(error->message, "seven is not eight");
  return TRM_INVALID_ARGUMENT;
}

static const char *const failing_text =
    "HloModule failing\n"
    "ENTRY e { a = f32[] parameter(0)\n"
    "  h = (f32[]) custom-call(a), " CALL "check" END
    ", metadata={op_name=\"model/check\" source_file=\"model.py\" source_line=17}\n"
    "  ROOT x = f32[] get-tuple-element(h), index=0 }\n";

static void test_failure(void **state) {
  (void)state;
  trm_error error;
  const float a = 1;
  const void *inputs[1] = {&a};
  float x;
  void *outputs[1] = {&x};
  for (uint32_t replicas = 1; replicas <= 3; replicas += 2) {
    trm_engine *engine = engine_of(failing_text, &test_modes[0], replicas);
    assert_int_equal(trm_engine_run(engine, inputs, NULL, outputs, &error),
                     TRM_FAILED_PRECONDITION);
    assert_non_null(strstr(error.message, "calls a function of the host, 'check', but none"));
    uint32_t who = replicas - 1;
    set(engine, "check", refuse, &who);
    assert_int_equal(trm_engine_run(engine, inputs, NULL, outputs, &error), TRM_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "seven is not eight"));
    assert_non_null(strstr(error.message, "model.py:17"));
    assert_int_equal(trm_engine_set_host_function(engine, "other", refuse, &who, &error),
                     TRM_NOT_FOUND);
    assert_non_null(strstr(error.message, "no host call with the id 'other'"));
    trm_engine_free(engine);
  }
}

static void test_bad_config(void **state) {
  (void)state;
  const char *text = "HloModule bad\nENTRY e { a = f32[] parameter(0)\n"
                     "  h = (f32[]) custom-call(a), custom_call_target=\"tremula.host-call\", "
                     "custom_call_has_side_effect=true, backend_config=\"{}\"\n"
                     "  ROOT x = f32[] get-tuple-element(h), index=0 }\n";
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  assert_int_equal(trm_module_read(text, strlen(text), "bad", &module, &error), TRM_OK);
  assert_int_equal(trm_compile(module, NULL, 0, &executable, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "must be {\"host_call\":\"<id>\"}"));
  trm_module_free(module);
}

/* ---- Order, loops, branches ---- */

typedef struct journal {
  int count;
  int32_t entries[64];
} journal;

static trm_status note(void *user, const void *const *inputs, void *const *outputs,
                       uint32_t replica, trm_error *error) {
  (void)outputs, (void)replica, (void)error;
  journal *j = user;
  if (j->count < 64) j->entries[j->count++] = *(const int32_t *)inputs[0];
  return TRM_OK;
}

/* Notes i, and when i is odd 100 + i, for i from 0 to 5; the order is by control edges. */
static const char *const loop_text =
    "HloModule loop\n"
    "yes { i = s32[] parameter(0)  h = s32[] constant(100)  s = s32[] add(i, h)\n"
    "  n = () custom-call(s), " CALL "note" END "  ROOT r = s32[] add(s, h) }\n"
    "no { i = s32[] parameter(0)  ROOT r = s32[] copy(i) }\n"
    "cond { i = s32[] parameter(0)  n = s32[] constant(6)  ROOT l = pred[] compare(i, n), "
    "direction=LT }\n"
    "body { i = s32[] parameter(0)  one = s32[] constant(1)  two = s32[] constant(2)\n"
    "  n = () custom-call(i), " CALL "note" END "\n"
    "  odd = s32[] remainder(i, two)  is = pred[] compare(odd, one), direction=EQ\n"
    "  c = s32[] conditional(is, i, i), true_computation=yes, false_computation=no, "
    "control-predecessors={n}\n"
    "  ROOT j = s32[] add(i, one) }\n"
    "ENTRY e { z = s32[] constant(0)  ROOT w = s32[] while(z), condition=cond, body=body }\n";

static void test_loop(void **state) {
  (void)state;
  static const int32_t expected[] = {0, 1, 101, 2, 3, 103, 4, 5, 105};
  for (int m = 0; m < 3; ++m) {
    journal j = {0};
    trm_error error;
    trm_engine *engine = engine_of(loop_text, &test_modes[m], 1);
    set(engine, "note", note, &j);
    int32_t result;
    void *outputs[1] = {&result};
    if (trm_engine_run(engine, NULL, NULL, outputs, &error) != TRM_OK) {
      fail_msg("%s", error.message);
    }
    assert_int_equal(result, 6);
    assert_int_equal(j.count, 9);
    assert_memory_equal(j.entries, expected, sizeof expected);
    trm_engine_free(engine);
  }
}

/* ---- Replicas, cancelling ---- */

static trm_status by_replica(void *user, const void *const *inputs, void *const *outputs,
                             uint32_t replica, trm_error *error) {
  (void)error;
  atomic_fetch_add((atomic_int *)user, 1);
  *(float *)outputs[0] = *(const float *)inputs[0] + 10 * (float)replica;
  return TRM_OK;
}

static void test_replicas(void **state) {
  (void)state;
  const char *text =
      "HloModule replicas\n"
      "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
      "ENTRY e { a = f32[] parameter(0)\n"
      "  h = (f32[]) custom-call(a), " CALL "number" END "\n"
      "  x = f32[] get-tuple-element(h), index=0\n"
      "  ROOT r = f32[] all-reduce(x), to_apply=sum, replica_groups={} }\n";
  trm_error error;
  atomic_int calls = 0;
  trm_engine *engine = engine_of(text, &test_modes[0], 4);
  set(engine, "number", by_replica, &calls);
  const float a = 1;
  const void *inputs[1] = {&a};
  float x = 0;
  void *outputs[1] = {&x};
  if (trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK)
    fail_msg("%s", error.message);
  assert_true(x == 64); /* 1 + 11 + 21 + 31 */
  assert_int_equal(calls, 4);
  trm_engine_free(engine);
}

/* Who called, in which order; no lock, for only one thread may call. */
static trm_status note_replica(void *user, const void *const *inputs, void *const *outputs,
                               uint32_t replica, trm_error *error) {
  (void)error;
  journal *j = user;
  if (j->count < 64) j->entries[j->count++] = (int32_t)replica;
  *(float *)outputs[0] = *(const float *)inputs[0] + (float)j->count;
  return TRM_OK;
}

static void test_together(void **state) {
  (void)state;
  const char *text =
      "HloModule together\n"
      "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
      "ENTRY e { a = f32[] parameter(0)  id = u32[] replica-id()  b = f32[] convert(id)\n"
      "  c = f32[] add(a, b)\n"
      "  h = (f32[]) custom-call(c), " CALL "note\\\",\\\"together\\\":true}\"\n"
      "  x = f32[] get-tuple-element(h), index=0\n"
      "  ROOT r = f32[] all-reduce(x), to_apply=sum, replica_groups={} }\n";
  for (uint32_t replicas = 1; replicas <= 4; replicas += 3) {
    trm_error error;
    journal j = {0};
    trm_engine *engine = engine_of(text, &test_modes[0], replicas);
    set(engine, "note", note_replica, &j);
    const float a = 100;
    const void *inputs[1] = {&a};
    float x = 0;
    void *outputs[1] = {&x};
    for (int run = 0; run < 8; ++run) {
      j.count = 0;
      if (trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK) {
        fail_msg("%s", error.message);
      }
      assert_int_equal(j.count, replicas);
      for (int32_t k = 0; k < (int32_t)replicas; ++k) assert_int_equal(j.entries[k], k);
      assert_true(x == (replicas == 1 ? 101 : 416)); /* 101 + 103 + 105 + 107 */
    }
    trm_engine_free(engine);
  }
}

static trm_status cancel_third(void *user, const void *const *inputs, void *const *outputs,
                               uint32_t replica, trm_error *error) {
  (void)outputs, (void)replica, (void)error;
  if (*(const int32_t *)inputs[0] == 2) trm_engine_cancel(user);
  return TRM_OK;
}

static void test_cancel(void **state) {
  (void)state;
  trm_error error;
  trm_engine *engine = engine_of(loop_text, &test_modes[0], 1);
  set(engine, "note", cancel_third, engine);
  int32_t result;
  void *outputs[1] = {&result};
  assert_int_equal(trm_engine_run(engine, NULL, NULL, outputs, &error), TRM_CANCELLED);
  trm_engine_free(engine);
}

/* The first of the calls cancels the run and takes so long that the other replicas have left when
 * the second comes: its arrays are still what they were. */
typedef struct straggler {
  trm_engine *engine;
  int calls;
  float sum;
} straggler;

static trm_status cancel_and_stay(void *user, const void *const *inputs, void *const *outputs,
                                  uint32_t replica, trm_error *error) {
  (void)error;
  straggler *s = user;
  if (replica == 0) trm_engine_cancel(s->engine);
  if (replica == 0) wait_until_others_sleep();
  ++s->calls;
  s->sum += *(const float *)inputs[0];
  *(float *)outputs[0] = 0;
  return TRM_OK;
}

static void test_cancel_together(void **state) {
  (void)state;
  const char *text =
      "HloModule together\n"
      "ENTRY e { a = f32[] parameter(0)  id = u32[] replica-id()  b = f32[] convert(id)\n"
      "  c = f32[] add(a, b)\n"
      "  h = (f32[]) custom-call(c), " CALL "stay\\\",\\\"together\\\":true}\"\n"
      "  ROOT x = f32[] get-tuple-element(h), index=0 }\n";
  trm_error error;
  straggler s = {.engine = engine_of(text, &test_modes[0], 4)};
  set(s.engine, "stay", cancel_and_stay, &s);
  const float a = 100;
  const void *inputs[1] = {&a};
  float x;
  void *outputs[1] = {&x};
  assert_int_equal(trm_engine_run(s.engine, inputs, NULL, outputs, &error), TRM_CANCELLED);
  assert_int_equal(s.calls, 4);
  assert_true(s.sum == 406);
  trm_engine_free(s.engine);
}

typedef struct signalled {
  trm_engine *engine;
  atomic_bool begun;
} signalled;

static trm_status begin(void *user, const void *const *inputs, void *const *outputs,
                        uint32_t replica, trm_error *error) {
  (void)replica, (void)error;
  *(int32_t *)outputs[0] = *(const int32_t *)inputs[0];
  atomic_store(&((signalled *)user)->begun, true);
  return TRM_OK;
}

static void *cancel_begun(void *argument) {
  signalled *s = argument;
  while (!atomic_load(&s->begun)) sched_yield();
  trm_engine_cancel(s->engine);
  return NULL;
}

/* A loop without end, of kernels alone, ends with the cancel. */
static void test_cancel_endless_loop(void **state) {
  (void)state;
  const char *text =
      "HloModule endless\n"
      "cond { s = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  z = s32[] constant(0)  ROOT r = pred[] compare(i, z), direction=GE }\n"
      "body { s = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] xor(i, one)\n"
      "  x = f32[64] get-tuple-element(s), index=1  y = f32[64] add(x, x)\n"
      "  ROOT t = (s32[], f32[64]) tuple(j, y) }\n"
      "ENTRY e { a = s32[] parameter(0)  x = f32[64] parameter(1)\n"
      "  h = (s32[]) custom-call(a), " CALL "begin" END "\n"
      "  i = s32[] get-tuple-element(h), index=0  t = (s32[], f32[64]) tuple(i, x)\n"
      "  w = (s32[], f32[64]) while(t), condition=cond, body=body\n"
      "  ROOT r = f32[64] get-tuple-element(w), index=1 }\n";
  trm_error error;
  signalled s = {.engine = engine_of(text, &test_modes[0], 1)};
  set(s.engine, "begin", begin, &s);
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_begun, &s);
  const int32_t first = 0;
  const float x[64] = {1};
  float result[64];
  const void *inputs[2] = {&first, x};
  void *outputs[1] = {result};
  assert_int_equal(trm_engine_run(s.engine, inputs, NULL, outputs, &error), TRM_CANCELLED);
  pthread_join(thread, NULL);
  trm_engine_free(s.engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),   cmocka_unit_test(test_description),
      cmocka_unit_test(test_failure),  cmocka_unit_test(test_bad_config),
      cmocka_unit_test(test_loop),     cmocka_unit_test(test_replicas),
      cmocka_unit_test(test_cancel),   cmocka_unit_test(test_cancel_endless_loop),
      cmocka_unit_test(test_together), cmocka_unit_test(test_cancel_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* How long units live: as long as nodes have them, a little longer, and never beyond
 * trm_tf_forget_units but for runs that are going on. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "host_calls.h"
#include "tf_case.h"

static int forget_all(void **state) {
  (void)state;
  configure();
  trm_tf_forget_units();
  assert_int_equal(trm_tf_units_kept(), 0);
  return 0;
}

static void test_shared(void **state) {
  (void)state;
  char text[256];
  const uint64_t built = trm_tf_units_built();
  trm_tf_site *one = node_of(times(3, text), NULL), *two = node_of(text, NULL);
  assert_true(run_node(one, NULL) == 3 && run_node(two, NULL) == 3);
  trm_tf_site_free(one);
  trm_tf_site_free(two);
  trm_tf_site *three = node_of(text, NULL); /* the same graph, built again */
  assert_true(run_node(three, NULL) == 3);
  assert_int_equal(trm_tf_units_built() - built, 1);
  trm_tf_site_free(three);
}

static void test_forgotten(void **state) {
  (void)state;
  char text[256];
  trm_tf_site *kept = node_of(times(3, text), NULL), *gone = node_of(times(4, text), NULL);
  assert_true(run_node(kept, NULL) == 3 && run_node(gone, NULL) == 4);
  trm_tf_site_free(gone);
  assert_int_equal(trm_tf_units_kept(), 2);
  trm_tf_forget_units(); /* of nodes that are there, too */
  assert_int_equal(trm_tf_units_kept(), 0);
  const uint64_t built = trm_tf_units_built();
  assert_true(run_node(kept, NULL) == 3);
  assert_true(run_node(kept, NULL) == 3);
  assert_int_equal(trm_tf_units_built() - built, 1);
  trm_tf_forget_units();
  trm_tf_site_free(kept);
}

/* However many graphs a process builds. */
static void test_graph_after_graph(void **state) {
  (void)state;
  char text[256];
  for (int i = 1; i <= 200; ++i) {
    trm_tf_site *site = node_of(times(i, text), NULL);
    assert_true(run_node(site, NULL) == (float)i);
    trm_tf_site_free(site);
    assert_true(trm_tf_units_kept() <= 40);
  }
  const uint64_t built = trm_tf_units_built();
  trm_tf_site *last = node_of(text, NULL);
  run_node(last, NULL);
  assert_int_equal(trm_tf_units_built(), built);
  trm_tf_site_free(last);
  for (int i = 300; i < 400; ++i) { /* those that nodes have stay */
    trm_tf_site *site = node_of(times(i, text), NULL);
    run_node(site, NULL);
    if (i == 300) last = site;
    else trm_tf_site_free(site);
  }
  const uint64_t before = trm_tf_units_built();
  run_node(last, NULL);
  assert_int_equal(trm_tf_units_built(), before);
  trm_tf_site_free(last);
}

/* Of engines with much memory only a few are kept. */
static void test_large(void **state) {
  (void)state;
  for (int i = 1; i <= 12; ++i) {
    char text[1024];
    snprintf(text, sizeof text,
             "HloModule large%d\n"
             "cond { s = (s32[], f32[2,40000000]) parameter(0)\n"
             "  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(%d)\n"
             "  ROOT l = pred[] compare(i, n), direction=LT }\n"
             "body { s = (s32[], f32[2,40000000]) parameter(0)\n"
             "  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(1)\n"
             "  j = s32[] add(i, k)  x = f32[2,40000000] get-tuple-element(s), index=1\n"
             "  y = f32[2,40000000] sine(x)\n"
             "  ROOT t = (s32[], f32[2,40000000]) tuple(j, y) }\n"
             "ENTRY e { a = f32[2] parameter(0)  z = s32[] constant(0)\n"
             "  b = f32[2,40000000] broadcast(a), dimensions={0}\n"
             "  t = (s32[], f32[2,40000000]) tuple(z, b)\n"
             "  w = (s32[], f32[2,40000000]) while(t), condition=cond, body=body\n"
             "  x = f32[2,40000000] get-tuple-element(w), index=1\n"
             "  y = f32[2,1] slice(x), slice={[0:2], [7:8]}  ROOT d = f32[2] reshape(y) }",
             i, i);
    trm_tf_site *site = node_of(text, NULL);
    TF_Tensor *input = fake_tensor(TF_FLOAT, &(int64_t){2}, 1, NULL);
    trm_tf_unit *unit;
    bool taken;
    trm_error error = {0};
    if (trm_tf_site_find(site, &input, 1, 0, &unit, &taken, &error) != TRM_OK)
      fail_msg("%s", error.message);
    trm_tf_unit_done(unit);
    TF_DeleteTensor(input);
    trm_tf_site_free(site);
  }
  assert_int_equal(trm_tf_units_kept(), 4);
}

static void test_broken(void **state) {
  (void)state;
  trm_tf_site *site = node_of("HloModule broken\nENTRY e { nothing }", NULL);
  for (int i = 0; i < 3; ++i) {
    TF_Code code;
    run_node(site, &code);
    assert_int_equal(code, TF_INVALID_ARGUMENT);
  }
  assert_int_equal(trm_tf_units_kept(), 0);
  trm_tf_site_free(site);
}

/* ---- Forgetting while units run ---- */

static const char calling[] =
    "HloModule calling\nENTRY e { a = f32[2] parameter(0)\n"
    "  r = (f32[2]) custom-call(a), custom_call_target=\"tremula.host-call\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"host_call\\\":\\\"0\\\"}\"\n"
    "  ROOT b = f32[2] get-tuple-element(r), index=0 }";

static atomic_int num_calls;

/* The unit that calls this is still there when it returns. */
static void forget_within(const trm_tf_host_request *request) {
  trm_tf_forget_units();
  assert_int_equal(trm_tf_units_kept(), 1);
  memcpy(request->outputs[0].data, request->inputs[0].data, request->inputs[0].bytes);
  ++num_calls;
}

static void test_forgotten_while_running(void **state) {
  (void)state;
  trm_tf_set_host_function(forget_within);
  trm_tf_site *site = node_of(calling, "function\n");
  for (int i = 0; i < 3; ++i) {
    assert_true(run_node(site, NULL) == 1);
    assert_int_equal(trm_tf_units_kept(), 0);
  }
  assert_int_equal(num_calls, 3);
  trm_tf_site_free(site);
  trm_tf_set_host_function(NULL);
}

enum { NUM_THREADS = 4, NUM_RUNS = 60 };

typedef struct worker {
  pthread_t thread;
  int number, wrong;
  trm_tf_site *shared;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  char text[256];
  for (int i = 0; i < NUM_RUNS; ++i) {
    const int factor = 2 + (w->number + i) % 3;
    trm_tf_site *own = node_of(times(factor, text), NULL);
    w->wrong += run_node(own, NULL) != (float)factor;
    w->wrong += run_node(w->shared, NULL) != 7;
    trm_tf_site_free(own);
    if (i % 7 == w->number) trm_tf_forget_units();
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  char text[256];
  trm_tf_site *shared = node_of(times(7, text), NULL);
  worker workers[NUM_THREADS];
  for (int i = 0; i < NUM_THREADS; ++i) {
    workers[i] = (worker){.number = i, .shared = shared};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < NUM_THREADS; ++i) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].wrong, 0);
  }
  trm_tf_site_free(shared);
  trm_tf_forget_units();
  assert_int_equal(trm_tf_units_kept(), 0);
  assert_int_equal(fake_num_tensors(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_shared, forget_all),
      cmocka_unit_test_setup(test_forgotten, forget_all),
      cmocka_unit_test_setup(test_graph_after_graph, forget_all),
      cmocka_unit_test_setup(test_large, forget_all),
      cmocka_unit_test_setup(test_broken, forget_all),
      cmocka_unit_test_setup(test_forgotten_while_running, forget_all),
      cmocka_unit_test_setup(test_threads, forget_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

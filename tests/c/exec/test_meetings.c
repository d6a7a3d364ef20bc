/* Several engines of one executable at once, each with replicas, feeds, a producer and a consumer;
 * one of them is cancelled again and again. For the thread sanitizer above all. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../run.h"

enum { ENGINES = 3, REPLICAS = 2, ROUNDS = 12, STEPS = 10 };

/* Ten steps: takes x, gives x + replica; the sum of x stays. */
static const char *feeding =
    "HloModule feeds\n"
    "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
    "cond { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(10)  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)  j = s32[] add(i, one)  a = f32[] get-tuple-element(s), index=1\n"
    "  in = (f32[]) custom-call(), custom_call_target=\"tremula.infeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"in\\\"}\"\n"
    "  x = f32[] get-tuple-element(in), index=0\n"
    "  y = f32[] all-reduce(x), replica_groups={}, to_apply=add  b = f32[] add(a, y)\n"
    "  out = () custom-call(x), custom_call_target=\"tremula.outfeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"out\\\"}\"\n"
    "  ROOT t = (s32[], f32[]) tuple(j, b) }\n"
    "ENTRY e { z = s32[] constant(0)  f = f32[] constant(0)  t = (s32[], f32[]) tuple(z, f)\n"
    "  w = (s32[], f32[]) while(t), condition=cond, body=body\n"
    "  ROOT x = f32[] get-tuple-element(w), index=1 }\n";

typedef struct place {
  trm_engine *engine;
  trm_infeed *infeed;
  trm_outfeed *outfeed;
  bool is_cancelled; /* now and then */
  atomic_bool runs, has_ended;
  int finished, cancelled, wrong;
} place;

static void *produce(void *argument) {
  place *p = argument;
  for (int i = 0; i < REPLICAS * STEPS; ++i) {
    const float element = (float)i;
    const void *elements[1] = {&element};
    bool accepted = false;
    if (trm_infeed_push(p->infeed, elements, &accepted, NULL) != TRM_OK || !accepted) break;
  }
  return NULL;
}

static void *consume(void *argument) {
  place *p = argument;
  bool last;
  do {
    last = atomic_load(&p->has_ended);
    size_t count;
    void **blocks;
    if (trm_outfeed_take(p->outfeed, &count, &blocks, NULL) != TRM_OK) return NULL;
    trm_free(blocks[0]);
    trm_free(blocks);
    sched_yield();
  } while (!last);
  return NULL;
}

static void *cancel(void *argument) {
  place *p = argument;
  while (!atomic_load(&p->has_ended)) {
    if (atomic_load(&p->runs)) trm_engine_cancel(p->engine);
    sched_yield();
  }
  return NULL;
}

static void run_once(place *p) {
  pthread_t producer;
  float sum = -1;
  void *outputs[1] = {&sum};
  trm_infeed_reset(p->infeed);
  trm_infeed_open(p->infeed);
  pthread_create(&producer, NULL, produce, p);
  atomic_store(&p->runs, p->is_cancelled);
  const trm_status status = trm_engine_run(p->engine, NULL, NULL, outputs, NULL);
  atomic_store(&p->runs, false);
  trm_infeed_close(p->infeed);
  pthread_join(producer, NULL);
  if (status == TRM_CANCELLED && p->is_cancelled) ++p->cancelled;
  else if (status == TRM_OK && sum == 190) ++p->finished; /* 0 + 1 + ... + 19 */
  else ++p->wrong;
}

static void *run_all(void *argument) {
  place *p = argument;
  pthread_t consumer, canceller;
  pthread_create(&consumer, NULL, consume, p);
  if (p->is_cancelled) pthread_create(&canceller, NULL, cancel, p);
  for (int round = 0; round < ROUNDS; ++round) run_once(p);
  atomic_store(&p->has_ended, true);
  pthread_join(consumer, NULL);
  if (p->is_cancelled) pthread_join(canceller, NULL);
  return NULL;
}

static void test_engines_side_by_side(void **state) {
  (void)state;
  static const trm_tensor_info scalar = {"", TRM_F32, 0, {0}, 4};
  static const trm_tensor_info of_replicas = {"", TRM_F32, 1, {REPLICAS}, 4 * REPLICAS};
  place places[ENGINES] = {{.is_cancelled = true}};
  pthread_t threads[ENGINES];
  trm_error error;
  trm_executable *executable = test_compile(feeding, &test_modes[0]);
  for (int e = 0; e < ENGINES; ++e) {
    place *p = &places[e];
    if (trm_engine_create_replicated(executable, REPLICAS, &p->engine, &error) != TRM_OK ||
        trm_infeed_create(&scalar, 1, 3, &p->infeed, &error) != TRM_OK ||
        trm_outfeed_create(&of_replicas, 1, false, &p->outfeed, &error) != TRM_OK ||
        trm_engine_bind_infeed(p->engine, "in", p->infeed, &error) != TRM_OK ||
        trm_engine_bind_outfeed(p->engine, "out", p->outfeed, &error) != TRM_OK) {
      fail_msg("%s", error.message);
    }
  }
  trm_executable_free(executable); /* the engines hold it */
  for (int e = 0; e < ENGINES; ++e) pthread_create(&threads[e], NULL, run_all, &places[e]);
  for (int e = 0; e < ENGINES; ++e) pthread_join(threads[e], NULL);
  for (int e = 0; e < ENGINES; ++e) {
    place *p = &places[e];
    assert_int_equal(p->wrong, 0);
    assert_int_equal(p->finished + p->cancelled, ROUNDS);
    if (!p->is_cancelled) assert_int_equal(p->finished, ROUNDS);
  }
  /* The cancelled one is as good as new. A cancel is for one run: the first takes it. */
  trm_engine_cancel(places[0].engine);
  places[0].is_cancelled = true;
  run_once(&places[0]);
  places[0].is_cancelled = false;
  run_once(&places[0]);
  assert_int_equal(places[0].wrong, 0);
  for (int e = 0; e < ENGINES; ++e) {
    trm_engine_free(places[e].engine);
    trm_infeed_release(places[e].infeed);
    trm_outfeed_release(places[e].outfeed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_engines_side_by_side)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

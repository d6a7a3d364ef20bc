/* Infeeds and outfeeds: order, bounds, ends, cancelling. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../run.h"

static const char *sum_text =
    "HloModule feeds\n"
    "cond { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(100)  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)  j = s32[] add(i, one)  a = f32[2] get-tuple-element(s), index=1\n"
    "  in = (f32[2]) custom-call(), custom_call_target=\"tremula.infeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"in\\\"}\"\n"
    "  x = f32[2] get-tuple-element(in), index=0  b = f32[2] add(a, x)\n"
    "  out = () custom-call(b), custom_call_target=\"tremula.outfeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"out\\\"}\"\n"
    "  ROOT t = (s32[], f32[2]) tuple(j, b) }\n"
    "ENTRY e { z = s32[] constant(0)  f = f32[2] constant({0, 0})\n"
    "  t = (s32[], f32[2]) tuple(z, f)\n"
    "  w = (s32[], f32[2]) while(t), condition=cond, body=body\n"
    "  ROOT x = f32[2] get-tuple-element(w), index=1 }\n";

static const trm_tensor_info pair = {"", TRM_F32, 1, {2}, 8};

typedef struct producer {
  trm_infeed *infeed;
  int count;
  int pushed;
} producer;

static void *produce(void *argument) {
  producer *p = argument;
  for (int i = 1; i <= p->count; ++i) {
    const float element[2] = {(float)i, (float)-i};
    const void *elements[1] = {element};
    bool accepted = false;
    if (trm_infeed_push(p->infeed, elements, &accepted, NULL) != TRM_OK || !accepted) return NULL;
    ++p->pushed;
  }
  return NULL;
}

typedef struct setting {
  trm_engine *engine;
  trm_infeed *infeed;
  trm_outfeed *outfeed;
} setting;

static setting set_up(bool keep_last) {
  setting s;
  trm_error error;
  trm_executable *executable = test_compile(sum_text, &test_modes[0]);
  assert_int_equal(trm_engine_create(executable, &s.engine, &error), TRM_OK);
  trm_executable_free(executable);
  assert_int_equal(trm_infeed_create(&pair, 1, 3, &s.infeed, &error), TRM_OK);
  assert_int_equal(trm_outfeed_create(&pair, 1, keep_last, &s.outfeed, &error), TRM_OK);
  if (trm_engine_bind_infeed(s.engine, "in", s.infeed, &error) != TRM_OK)
    fail_msg("%s", error.message);
  if (trm_engine_bind_outfeed(s.engine, "out", s.outfeed, &error) != TRM_OK)
    fail_msg("%s", error.message);
  return s;
}

static void tear_down(setting s) {
  trm_engine_free(s.engine);
  trm_infeed_release(s.infeed);
  trm_outfeed_release(s.outfeed);
}

static void test_sum(void **state) {
  (void)state;
  setting s = set_up(false);
  trm_error error;
  trm_infeed_open(s.infeed); /* as the launch does before its run starts */
  producer p = {s.infeed, 100, 0};
  pthread_t thread;
  pthread_create(&thread, NULL, produce, &p);
  float result[2];
  void *outputs[1] = {result};
  if (trm_engine_run(s.engine, NULL, NULL, outputs, &error) != TRM_OK)
    fail_msg("%s", error.message);
  pthread_join(thread, NULL);
  trm_infeed_close(s.infeed);
  assert_true(result[0] == 5050 && result[1] == -5050);
  size_t count;
  void **blocks;
  assert_int_equal(trm_outfeed_take(s.outfeed, &count, &blocks, &error), TRM_OK);
  assert_int_equal(count, 100);
  const float *values = blocks[0];
  for (int i = 0; i < 100; ++i) assert_true(values[2 * i] == (float)((i + 1) * (i + 2) / 2));
  trm_free(blocks[0]);
  trm_free(blocks);
  assert_int_equal(trm_outfeed_take(s.outfeed, &count, &blocks, &error), TRM_OK);
  assert_int_equal(count, 0);
  trm_free(blocks[0]);
  trm_free(blocks);
  tear_down(s);
}

static void test_end_and_reset(void **state) {
  (void)state;
  setting s = set_up(true);
  trm_error error;
  const float element[2] = {1, 1};
  const void *elements[1] = {element};
  bool accepted;
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(trm_infeed_push(s.infeed, elements, &accepted, &error), TRM_OK);
    assert_int_equal(accepted, i < 3); /* depth 3, nobody consumes */
  }
  trm_infeed_end(s.infeed, TRM_OUT_OF_RANGE, "End of sequence");
  float result[2];
  void *outputs[1] = {result};
  assert_int_equal(trm_engine_run(s.engine, NULL, NULL, outputs, &error), TRM_OUT_OF_RANGE);
  assert_string_equal(error.message, "End of sequence");
  size_t count;
  void **blocks;
  assert_int_equal(trm_outfeed_take(s.outfeed, &count, &blocks, &error), TRM_OK);
  assert_int_equal(count, 1);
  assert_true(((float *)blocks[0])[0] == 3);
  trm_free(blocks[0]);
  trm_free(blocks);
  trm_infeed_reset(s.infeed);
  assert_int_equal(trm_infeed_push(s.infeed, elements, &accepted, &error), TRM_OK);
  assert_true(accepted);
  tear_down(s);
}

/* Cancels when the run waits for an element: nothing else makes an infeed wanted. */
static void *cancel_waiting(void *argument) {
  const setting *s = argument;
  if (trm_infeed_wanted(s->infeed)) trm_engine_cancel(s->engine);
  return NULL;
}

static void test_cancel(void **state) {
  (void)state;
  setting s = set_up(false);
  trm_error error;
  trm_infeed_open(s.infeed);
  trm_infeed_expect(s.infeed, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_waiting, &s);
  float result[2];
  void *outputs[1] = {result};
  assert_int_equal(trm_engine_run(s.engine, NULL, NULL, outputs, &error), TRM_CANCELLED);
  pthread_join(thread, NULL);
  trm_infeed_close(s.infeed);
  tear_down(s);
}

/* A cancel waits for the next run, and for no more than one. */
static void test_cancel_before_run(void **state) {
  (void)state;
  setting s = set_up(true);
  trm_error error;
  float result[2];
  void *outputs[1] = {result};
  trm_infeed_end(s.infeed, TRM_OUT_OF_RANGE, "End of sequence");
  trm_engine_cancel(s.engine);
  trm_engine_cancel(s.engine);
  assert_int_equal(trm_engine_run(s.engine, NULL, NULL, outputs, &error), TRM_CANCELLED);
  assert_int_equal(trm_engine_run(s.engine, NULL, NULL, outputs, &error), TRM_OUT_OF_RANGE);
  trm_engine_cancel(s.engine);
  trm_engine_forget_cancel(s.engine);
  assert_int_equal(trm_engine_run(s.engine, NULL, NULL, outputs, &error), TRM_OUT_OF_RANGE);
  tear_down(s);
}

static void *cancel_now(void *argument) {
  trm_engine_cancel(argument);
  return NULL;
}

/* One cancel at an unknown time: before the run or while it waits, the run ends. */
static void test_cancel_is_never_lost(void **state) {
  (void)state;
  setting s = set_up(false);
  trm_error error;
  float result[2];
  void *outputs[1] = {result};
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_now, s.engine), 0);
    assert_int_equal(trm_engine_run(s.engine, NULL, NULL, outputs, &error), TRM_CANCELLED);
    pthread_join(thread, NULL);
  }
  trm_infeed_end(s.infeed, TRM_OUT_OF_RANGE, "End of sequence");
  assert_int_equal(trm_engine_run(s.engine, NULL, NULL, outputs, &error), TRM_OUT_OF_RANGE);
  tear_down(s);
}

/* A program without a single step is cancelled like others. */
static void test_cancel_of_nothing(void **state) {
  (void)state;
  trm_error error;
  trm_engine *engine;
  trm_executable *executable =
      test_compile("HloModule nothing\nENTRY e { x = f32[2] parameter(0)  ROOT t = () tuple() }\n",
                   &test_modes[0]);
  assert_int_equal(trm_engine_create(executable, &engine, &error), TRM_OK);
  trm_executable_free(executable);
  const float input[2] = {0, 0};
  const void *inputs[1] = {input};
  trm_engine_cancel(engine);
  assert_int_equal(trm_engine_run(engine, inputs, NULL, NULL, &error), TRM_CANCELLED);
  assert_string_equal(error.message, "the run was cancelled");
  assert_int_equal(trm_engine_run(engine, inputs, NULL, NULL, &error), TRM_OK);
  trm_engine_free(engine);
}

static void test_wrong_queues(void **state) {
  (void)state;
  setting s = set_up(false);
  trm_error error;
  const trm_tensor_info other = {"", TRM_S32, 1, {2}, 8};
  trm_infeed *wrong;
  assert_int_equal(trm_infeed_create(&other, 1, 1, &wrong, &error), TRM_OK);
  assert_int_equal(trm_engine_bind_infeed(s.engine, "in", wrong, &error), TRM_FAILED_PRECONDITION);
  assert_non_null(strstr(error.message, "s32"));
  assert_int_equal(trm_engine_bind_infeed(s.engine, "nobody", wrong, &error), TRM_NOT_FOUND);
  trm_infeed_release(wrong);
  assert_int_equal(trm_infeed_create(&pair, 1, 0, &wrong, &error), TRM_INVALID_ARGUMENT);
  assert_int_equal(trm_infeed_create(&pair, 1, 256, &wrong, &error), TRM_INVALID_ARGUMENT);
  tear_down(s);
}

static void test_unbound(void **state) {
  (void)state;
  trm_error error;
  trm_engine *engine;
  trm_executable *executable = test_compile(sum_text, &test_modes[0]);
  assert_int_equal(trm_engine_create(executable, &engine, &error), TRM_OK);
  char kind;
  size_t count;
  const trm_tensor_info *elements;
  assert_string_equal(trm_executable_feed(executable, 0, &kind, &elements, &count), "in");
  assert_true(kind == 'i' && count == 1 && elements[0].dims[0] == 2);
  assert_null(trm_executable_feed(executable, 2, &kind, &elements, &count));
  trm_executable_free(executable);
  float result[2];
  void *outputs[1] = {result};
  assert_int_equal(trm_engine_run(engine, NULL, NULL, outputs, &error), TRM_FAILED_PRECONDITION);
  trm_engine_free(engine);
}

#define READ                                                                                 \
  "custom-call(), custom_call_target=\"tremula.infeed\", custom_call_has_side_effect=true, " \
  "backend_config=\"{\\\"feed\\\":\\\"in\\\"}\"\n"

/* The number of reads of a program whose entry is a loop of 3 turns, or fewer where `also` says so,
 * over `body`, which has a state (s32[] turn, s32[] data) named s. */
static uint64_t reads_of(const char *also, const char *computations, const char *body) {
  char text[4096];
  snprintf(text, sizeof text,
           "HloModule reads\n%s"
           "cond { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  d = s32[] get-tuple-element(s), index=1  n = s32[] constant(3)\n"
           "  l = pred[] compare(i, n), direction=LT  m = pred[] compare(d, n), direction=LT\n"
           "  ROOT r = pred[] and(l, %s) }\n"
           "body { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
           "  d = s32[] get-tuple-element(s), index=1\n%s"
           "  ROOT t = (s32[], s32[]) tuple(j, e) }\n"
           "ENTRY e { z = s32[] constant(0)  d = s32[] parameter(0)\n"
           "  t = (s32[], s32[]) tuple(z, d)\n"
           "  ROOT w = (s32[], s32[]) while(t), condition=cond, body=body }\n",
           computations, also, body);
  trm_executable *executable = test_compile(text, &test_modes[0]);
  const uint64_t uses = trm_executable_feed_uses(executable, 0);
  char kind;
  size_t count;
  const trm_tensor_info *elements;
  assert_string_equal(trm_executable_feed(executable, 0, &kind, &elements, &count), "in");
  assert_int_equal(trm_executable_feed_uses(executable, 1), 0);
  trm_executable_free(executable);
  return uses;
}

static void test_counted_reads(void **state) {
  (void)state;
  static const char one[] =
      "  in = (s32[]) " READ "  x = s32[] get-tuple-element(in), index=0  e = s32[] add(d, x)\n";
  static const char loop[] =
      "turn { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  two = s32[] constant(2)  j = s32[] subtract(i, two)\n"
      "  d = s32[] get-tuple-element(s), index=1  in = (s32[]) " READ
      "  x = s32[] get-tuple-element(in), index=0  e = s32[] add(d, x)\n"
      "  ROOT t = (s32[], s32[]) tuple(j, e) }\n"
      "more { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(0)  ROOT l = pred[] compare(n, i), direction=LT }\n";
  static const char inner[] = "  seven = s32[] constant(7)  b = (s32[], s32[]) tuple(seven, d)\n"
                              "  w = (s32[], s32[]) while(b), condition=more, body=turn\n"
                              "  e = s32[] get-tuple-element(w), index=1\n";
  static const char branches[] = "yes { p = s32[] parameter(0)  in = (s32[]) " READ
                                 "  ROOT x = s32[] get-tuple-element(in), index=0 }\n"
                                 "no { ROOT p = s32[] parameter(0) }\n";
  static const char choice[] =
      "  c = pred[] compare(d, i), direction=LT\n"
      "  e = s32[] conditional(c, d, d), true_computation=yes, false_computation=no\n";
  assert_int_equal(reads_of("l", "", one), 3);
  assert_int_equal(reads_of("m", "", one), 0); /* data may end it */
  assert_int_equal(reads_of("l", loop, inner), 12);
  assert_int_equal(reads_of("l", branches, choice), 0);
}

typedef struct asker {
  trm_infeed *infeed;
  atomic_int elements, asked; /* pushed; how often the thread asked whether one is wanted */
} asker;

static void *feed_what_is_wanted(void *argument) {
  asker *a = argument;
  while (atomic_fetch_add(&a->asked, 1), trm_infeed_wanted(a->infeed)) {
    const float element[2] = {1, 1};
    const void *elements[1] = {element};
    bool accepted = false;
    if (trm_infeed_push(a->infeed, elements, &accepted, NULL) != TRM_OK || !accepted) break;
    atomic_fetch_add(&a->elements, 1);
  }
  return NULL;
}

/* Whatever less than the truth the run is said to read, as many elements are wanted as it reads. */
static void test_wanted(void **state) {
  (void)state;
  const uint64_t expected[] = {100, 99, 40, 1, 0};
  trm_error error;
  for (size_t k = 0; k < sizeof expected / sizeof *expected; ++k) {
    setting s = set_up(true);
    asker a = {.infeed = s.infeed};
    assert_false(trm_infeed_wanted(s.infeed)); /* nobody reads */
    for (int run = 1; run <= 2; ++run) {
      trm_infeed_expect(s.infeed, expected[k]);
      trm_infeed_open(s.infeed);
      pthread_t thread;
      assert_int_equal(pthread_create(&thread, NULL, feed_what_is_wanted, &a), 0);
      float result[2];
      void *outputs[1] = {result};
      if (trm_engine_run(s.engine, NULL, NULL, outputs, &error) != TRM_OK) {
        fail_msg("%s", error.message);
      }
      while (atomic_load(&a.asked) <= atomic_load(&a.elements)) sched_yield();
      trm_infeed_close(s.infeed);
      pthread_join(thread, NULL);
      assert_true(result[0] == 100);
      assert_int_equal(a.elements, 100 * run);
    }
    tear_down(s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_end_and_reset),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_cancel_before_run),
      cmocka_unit_test(test_cancel_is_never_lost),
      cmocka_unit_test(test_cancel_of_nothing),
      cmocka_unit_test(test_wrong_queues),
      cmocka_unit_test(test_unbound),
      cmocka_unit_test(test_counted_reads),
      cmocka_unit_test(test_wanted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

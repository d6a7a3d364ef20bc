/* Nodes that feed a program: elements in order, as many as a run reads, and none of them lost,
 * freed twice or seen by two threads at once. */
#include <pthread.h>
#include <unistd.h>

#include "tf_case.h"

/* Sums NUM_READ elements f32[2] of the infeed "0" to its input. */
enum { NUM_READ = 5 };
static const char sum_text[] =
    "HloModule fed\n"
    "cond { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(5)  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)  j = s32[] add(i, one)  a = f32[2] get-tuple-element(s), index=1\n"
    "  in = (f32[2]) custom-call(), custom_call_target=\"tremula.infeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"0\\\"}\"\n"
    "  x = f32[2] get-tuple-element(in), index=0  b = f32[2] add(a, x)\n"
    "  ROOT t = (s32[], f32[2]) tuple(j, b) }\n"
    "ENTRY e { z = s32[] constant(0)  f = f32[2] parameter(0)\n"
    "  t = (s32[], f32[2]) tuple(z, f)\n"
    "  w = (s32[], f32[2]) while(t), condition=cond, body=body\n"
    "  ROOT r = f32[2] get-tuple-element(w), index=1 }";

/* A kernel's compute function, as TensorFlow calls it. */
typedef void compute_function(void *kernel, TF_OpKernelContext *context);

typedef struct dataset {
  trm_tf_site *site;
  int next; /* the element that it gives next */
} dataset;

/* One call of a node that takes the run's number and gives whether there is to be more. */
static bool ask(compute_function *kernel, int64_t run, float element, TF_OpKernelContext *context) {
  *context = (TF_OpKernelContext){.num_inputs = 1, .num_outputs = 1};
  context->inputs[0] = fake_tensor(TF_INT64, NULL, 0, &run);
  if (kernel == trm_tf_push_compute) {
    context->inputs[1] = fake_tensor(TF_FLOAT, &(int64_t){2}, 1, (float[2]){element, element});
    context->num_inputs = 2;
  }
  kernel(NULL, context);
  const bool more =
      context->code == TF_OK && context->outputs[0] && *(char *)TF_TensorData(context->outputs[0]);
  return more;
}

static bool ask_once(compute_function *kernel, int64_t run, float element) {
  TF_OpKernelContext context;
  const bool more = ask(kernel, run, element, &context);
  fake_context_clear(&context);
  return more;
}

/* Starts a run, whose number a step holds until it is over. */
static int64_t start(trm_tf_site *site, TF_OpKernelContext *context) {
  *context = (TF_OpKernelContext){0};
  set_input(context, 0, 0);
  trm_tf_start_compute(site, context);
  if (context->code != TF_OK) fail_msg("%s", context->message);
  return *(int64_t *)TF_TensorData(context->outputs[0]);
}

/* The sum, or -1 and the code. */
static float finish_run(int64_t run, TF_Code *out_code) {
  TF_OpKernelContext context;
  ask(trm_tf_finish_compute, run, 0, &context);
  *out_code = context.code;
  const float sum = context.code == TF_OK ? *(float *)TF_TensorData(context.outputs[0]) : -1;
  fake_context_clear(&context);
  return sum;
}

/* A step, as the graph does it. */
static float step(dataset *d) {
  TF_OpKernelContext context;
  const int64_t run = start(d->site, &context);
  bool more = ask_once(trm_tf_ready_compute, run, 0);
  while (more) more = ask_once(trm_tf_push_compute, run, (float)d->next++);
  TF_Code code;
  const float sum = finish_run(run, &code);
  fake_context_clear(&context);
  return sum;
}

static void reset_feed(const char *id) {
  const fake_attribute attributes[] = {{"feed", (const char *const[]){id, NULL}, .count = 1},
                                       {"refusal", (const char *const[]){"", NULL}, .count = 1},
                                       {"empty", (const char *const[]){"", NULL}, .count = 1},
                                       {"remove", .numbers = {0}, .count = 1},
                                       {NULL}};
  TF_OpKernelConstruction construction = {.name = "reset", .attributes = attributes};
  void *kernel = trm_tf_reset_create(&construction);
  TF_OpKernelContext context = {0};
  trm_tf_reset_compute(kernel, &context);
  assert_int_equal(context.code, TF_OK);
  fake_context_clear(&context);
  trm_tf_reset_delete(kernel);
}

/* Also the threads of runs, which end a little later than their steps. */
static void check_all_is_gone(void) {
  trm_tf_forget_units();
  for (int i = 0; i < 60000 && (fake_num_tensors() || trm_tf_units_kept()); ++i) usleep(1000);
  assert_int_equal(trm_tf_units_kept(), 0);
  assert_int_equal(fake_num_tensors(), 0);
}

/* A step gets what it reads and no more, and the next one goes on where it ended. */
static void test_order(void **state) {
  (void)state;
  dataset d = {node_of(sum_text, "order\n"), 0};
  for (int k = 0; k < 20; ++k) {
    const int first = k * NUM_READ;
    assert_true(step(&d) == (float)(NUM_READ * first + NUM_READ * (NUM_READ - 1) / 2));
    assert_int_equal(d.next, first + NUM_READ);
  }
  reset_feed("order");
  trm_tf_site_free(d.site);
  check_all_is_gone();
}

/* Adds elements until the sum is over 20: how many, only they say. */
static const char until_text[] =
    "HloModule until\n"
    "cond { s = (f32[2]) parameter(0)  a = f32[2] get-tuple-element(s), index=0\n"
    "  b = f32[1] slice(a), slice={[0:1]}  c = f32[] reshape(b)  n = f32[] constant(20)\n"
    "  ROOT l = pred[] compare(c, n), direction=LE }\n"
    "body { s = (f32[2]) parameter(0)  a = f32[2] get-tuple-element(s), index=0\n"
    "  in = (f32[2]) custom-call(), custom_call_target=\"tremula.infeed\", "
    "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"0\\\"}\"\n"
    "  x = f32[2] get-tuple-element(in), index=0  b = f32[2] add(a, x)\n"
    "  ROOT t = (f32[2]) tuple(b) }\n"
    "ENTRY e { f = f32[2] parameter(0)  t = (f32[2]) tuple(f)\n"
    "  w = (f32[2]) while(t), condition=cond, body=body\n"
    "  ROOT r = f32[2] get-tuple-element(w), index=0 }";

static void test_on_demand(void **state) {
  (void)state;
  dataset d = {node_of(until_text, "until\n"), 1};
  const int ends[] = {7, 10, 12, 14}; /* 1..6, 7..9, 10+11, 12+13 */
  for (size_t k = 0; k < sizeof ends / sizeof *ends; ++k) {
    assert_true(step(&d) > 20);
    assert_int_equal(d.next, ends[k]);
  }
  reset_feed("until");
  trm_tf_site_free(d.site);
  check_all_is_gone();
}

/* The next run of an infeed cancels one that is abandoned, and so does the end of its step. The end
 * of the data is an error. */
static void test_ends(void **state) {
  (void)state;
  trm_tf_site *site = node_of(sum_text, "ends\n");
  TF_OpKernelContext abandoned_start, started;
  const int64_t abandoned = start(site, &abandoned_start);
  ask_once(trm_tf_push_compute, abandoned, 1);
  const int64_t run = start(site, &started);
  TF_Code code;
  finish_run(abandoned, &code);
  assert_int_equal(code, TF_ABORTED);
  TF_OpKernelContext context;
  ask(trm_tf_end_compute, run, 0, &context);
  fake_context_clear(&context);
  finish_run(run, &code);
  assert_int_equal(code, TF_OUT_OF_RANGE);
  fake_context_clear(&abandoned_start);
  fake_context_clear(&started);
  reset_feed("ends"); /* else the run may meet the end of the data before it is cancelled */
  const int64_t last = start(site, &started);
  ask_once(trm_tf_push_compute, last, 1);
  fake_context_clear(&started);
  finish_run(last, &code);
  assert_int_equal(code, TF_CANCELLED);
  trm_tf_site_free(site);
  check_all_is_gone();
}

/* ---- Threads ---- */

typedef struct feeder {
  pthread_t thread;
  dataset data;
  int steps, failed;
} feeder;

static void *feed_on(void *argument) {
  feeder *f = argument;
  for (int i = 0; i < f->steps; ++i) f->failed += step(&f->data) < 0;
  return NULL;
}

static void *reset_on(void *argument) {
  const feeder *f = argument;
  for (int i = 0; i < f->steps; ++i) {
    reset_feed("threads");
    usleep(100);
  }
  return NULL;
}

/* One thread feeds while another begins the dataset anew, and a third one forgets all programs. */
static void test_threads(void **state) {
  (void)state;
  feeder one = {.data = {node_of(sum_text, "threads\n"), 0}, .steps = 100};
  step(&one.data); /* the feed is there now */
  pthread_t resets;
  assert_int_equal(pthread_create(&one.thread, NULL, feed_on, &one), 0);
  assert_int_equal(pthread_create(&resets, NULL, reset_on, &one), 0);
  for (int i = 0; i < 20; ++i) {
    trm_tf_forget_units();
    usleep(500);
  }
  pthread_join(one.thread, NULL);
  pthread_join(resets, NULL);
  assert_int_equal(one.failed, 0);
  reset_feed("threads");
  trm_tf_site_free(one.data.site);
  check_all_is_gone();
}

static int configure_all(void **state) {
  (void)state;
  configure();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_on_demand),
                                     cmocka_unit_test(test_ends), cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, configure_all, NULL);
}

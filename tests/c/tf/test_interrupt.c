/* Interrupts and the ends of sessions: who is cancelled, and what the process's handler gets. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "interrupt.h"
#include "runs.h"
#include "tf_case.h"

/* Goes round for hours. */
static const char endless[] =
    "HloModule endless\n"
    "cond { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(2000000000)  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)  j = s32[] add(i, one)  a = f32[2] get-tuple-element(s), index=1\n"
    "  b = f32[2] sine(a)  ROOT t = (s32[], f32[2]) tuple(j, b) }\n"
    "ENTRY e { z = s32[] constant(0)  f = f32[2] parameter(0)\n"
    "  t = (s32[], f32[2]) tuple(z, f)\n"
    "  w = (s32[], f32[2]) while(t), condition=cond, body=body\n"
    "  ROOT r = f32[2] get-tuple-element(w), index=1 }";

static atomic_int num_handled;
static void handle(int number) {
  (void)number;
  ++num_handled;
}

typedef struct worker {
  pthread_t thread;
  trm_tf_site *site;
  TF_Code code;
  atomic_bool is_over;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  run_node(w->site, &w->code);
  w->is_over = true;
  return NULL;
}

/* A thread that runs the endless program as a node of that session, on a device of its own. */
static void begin(worker *w, uint64_t session, const char *module) {
  assert_int_equal(trm_tf_session_enter(session), 0);
  *w = (worker){.site = node_of(module, NULL)};
  assert_int_equal(trm_tf_session_enter(0), session);
  assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
}

static TF_Code end(worker *w) {
  pthread_join(w->thread, NULL);
  trm_tf_site_free(w->site);
  return w->code;
}

static void test_sessions(void **state) {
  (void)state;
  char other[sizeof endless];
  strcpy(other, endless);
  memcpy(strstr(other, "sine"), "tanh", 4);
  worker one, two;
  begin(&one, 1, endless);
  begin(&two, 2, other);
  while (!one.is_over) {
    trm_tf_session_cancel(1);
    trm_tf_session_cancel(3);
    usleep(1000);
  }
  assert_int_equal(end(&one), TF_CANCELLED);
  assert_false(two.is_over);
  while (!two.is_over) {
    trm_tf_session_cancel(2);
    usleep(1000);
  }
  assert_int_equal(end(&two), TF_CANCELLED);
  char text[256];
  trm_tf_site *site = node_of(times(3, text), NULL); /* nothing of that is left */
  assert_true(run_node(site, NULL) == 3);
  trm_tf_site_free(site);
}

static void test_signals(void **state) {
  (void)state;
  struct sigaction own = {.sa_handler = handle}, before;
  sigaction(SIGINT, &own, &before);
  for (int defers = 0; defers < 2; ++defers) {
    num_handled = 0;
    worker w;
    if (defers) trm_tf_interrupt_defer();
    begin(&w, 0, endless);
    while (!trm_tf_interrupt_is_watched() && !w.is_over) usleep(1000);
    int sent = 0;
    for (; !w.is_over; ++sent) {
      raise(SIGINT);
      usleep(1000);
    }
    assert_int_equal(end(&w), TF_CANCELLED);
    char text[256];
    trm_tf_site *site = node_of(times(3, text), NULL);
    TF_Code code;
    run_node(site, &code); /* deferred: nothing begins before the release */
    assert_int_equal(code, defers ? TF_CANCELLED : TF_OK);
    assert_int_equal(trm_tf_interrupt_release(), defers);
    assert_true(run_node(site, NULL) == 3);
    trm_tf_site_free(site);
    if (defers) assert_int_equal(num_handled, 0);
    else assert_true(num_handled == sent);
  }
  assert_false(trm_tf_interrupt_is_watched());
  struct sigaction present;
  sigaction(SIGINT, &before, &present);
  assert_true(present.sa_handler == handle);
}

static void *send_signals(void *argument) {
  atomic_bool *is_over = argument;
  for (int i = 0; i < 20000; ++i) pthread_kill(pthread_self(), SIGINT);
  *is_over = true;
  return NULL;
}

/* A signal that another thread handles while the main one releases: it is deferred or passed on,
 * and nothing of it remains. */
static void test_signals_while_releasing(void **state) {
  (void)state;
  struct sigaction own = {.sa_handler = handle}, before;
  sigaction(SIGINT, &own, &before);
  trm_tf_interrupt_watch();
  atomic_bool is_over = false;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, send_signals, &is_over), 0);
  int num_pending = 0;
  while (!is_over) {
    trm_tf_interrupt_defer();
    trm_tf_interrupt_release();
    num_pending += trm_tf_interrupt_is_due();
  }
  pthread_join(thread, NULL);
  trm_tf_interrupt_unwatch();
  sigaction(SIGINT, &before, NULL);
  assert_int_equal(num_pending, 0);
  char text[256];
  trm_tf_site *site = node_of(times(3, text), NULL);
  assert_true(run_node(site, NULL) == 3);
  trm_tf_site_free(site);
}

/* In a forked process nothing is watched or runs, whatever its parent did. */
static void test_forked(void **state) {
  (void)state;
  struct sigaction own = {.sa_handler = handle}, before;
  sigaction(SIGINT, &own, &before);
  trm_tf_interrupt_watch();
  assert_true(trm_tf_interrupt_is_watched());
  trm_tf_forked();
  assert_false(trm_tf_interrupt_is_watched());
  assert_false(trm_tf_interrupted_feeds());
  struct sigaction present;
  sigaction(SIGINT, &before, &present);
  assert_true(present.sa_handler == handle);
}

static int configure_all(void **state) {
  (void)state;
  configure();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sessions), cmocka_unit_test(test_signals),
      cmocka_unit_test(test_signals_while_releasing), cmocka_unit_test(test_forked)};
  return cmocka_run_group_tests(tests, configure_all, NULL);
}

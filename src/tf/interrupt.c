/* Owns: Ctrl-C while the plugin waits or runs, with a handler of SIGINT that runs before the
 * process's own handler. */
#define _GNU_SOURCE
#include "interrupt.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watchers;
static bool is_installed;
static struct sigaction before; /* written only while the plugin's handler is not installed */
static atomic_uint count;
static atomic_bool has_own_handler; /* the process handles interrupts itself */
static bool is_watched_for_main;    /* under the lock */
static atomic_bool is_ending;       /* between trm_tf_interrupt_runs and _resume */

/* The state is one word, because the handler may run in any thread: a signal that arrives while the
 * main thread releases is either deferred or passed on, and never both or neither. */
enum {
  AT_ONCE,
  DEFERRED, /* the main thread is in TensorFlow */
  PENDING,  /* and a SIGINT has arrived since */
};
static atomic_int delivery;

/* The limit of runs that can be interrupted at once. */
enum { MAX_RUNS = 64 };
static _Atomic(trm_engine *) running[MAX_RUNS]; /* changed under the lock, read without it */
/* Whether the main thread runs a single op. The op ends soon; if it failed, TensorFlow would make a
 * RuntimeError of the exception that Python's handler raises. */
static atomic_bool is_own_op[MAX_RUNS];
static atomic_uint cancelling; /* signal handlers that are reading `running` */
static struct {
  uint64_t session;
  bool is_cancelled; /* by trm_tf_session_cancel */
} run_of[MAX_RUNS];  /* under the lock */
static _Thread_local uint64_t present_session;

/* Safe in signal handlers. */
static void cancel_running(bool own_ops_too) {
  atomic_fetch_add(&count, 1);
  atomic_fetch_add(&cancelling, 1);
  for (int i = 0; i < MAX_RUNS; ++i) {
    trm_engine *engine = atomic_load(&running[i]);
    if (engine && (own_ops_too || !atomic_load(&is_own_op[i]))) trm_engine_cancel(engine);
  }
  atomic_fetch_sub(&cancelling, 1);
}

static void on_interrupt(int number, siginfo_t *info, void *context) {
  atomic_fetch_add(&cancelling, 1);
  int expected = DEFERRED; /* set before anything is cancelled, because new runs check it */
  const bool is_deferred =
      atomic_compare_exchange_strong(&delivery, &expected, PENDING) || expected == PENDING;
  if (is_deferred || !atomic_load(&has_own_handler)) cancel_running(is_deferred);
  atomic_fetch_sub(&cancelling, 1);
  if (is_deferred) return;
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, context);
  else before.sa_handler(number);
}

static bool is_ours(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_interrupt;
}

static bool has_handler(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) ||
         (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

void trm_tf_interrupt_watch(void) {
  pthread_mutex_lock(&lock);
  struct sigaction present;
  if (watchers++ == 0 && sigaction(SIGINT, NULL, &present) == 0 && has_handler(&present) &&
      !is_ours(&present)) {
    before = present;
    struct sigaction own = {.sa_sigaction = on_interrupt,
                            .sa_mask = present.sa_mask,
                            .sa_flags = present.sa_flags | SA_SIGINFO};
    is_installed = sigaction(SIGINT, &own, NULL) == 0;
  }
  pthread_mutex_unlock(&lock);
}

void trm_tf_interrupt_unwatch(void) {
  pthread_mutex_lock(&lock);
  struct sigaction present;
  /* Another handler may have been installed since; it stays. */
  if (--watchers == 0 && is_installed && sigaction(SIGINT, NULL, &present) == 0 &&
      is_ours(&present)) {
    sigaction(SIGINT, &before, NULL);
  }
  if (watchers == 0) is_installed = false;
  pthread_mutex_unlock(&lock);
}

int32_t trm_tf_interrupt_is_watched(void) {
  pthread_mutex_lock(&lock);
  const bool is_watched = watchers > 0;
  pthread_mutex_unlock(&lock);
  return is_watched;
}

bool trm_tf_interrupt_is_due(void) {
  return atomic_load(&delivery) == PENDING || atomic_load(&is_ending);
}

static bool is_main_thread(void) { return syscall(SYS_gettid) == getpid(); }

trm_status trm_tf_interrupt_watch_run(trm_engine *engine, uint64_t session, bool is_one_op,
                                      trm_error *error) {
  trm_tf_interrupt_watch();
  pthread_mutex_lock(&lock);
  int place = 0;
  while (place < MAX_RUNS && atomic_load(&running[place])) ++place;
  if (place < MAX_RUNS) {
    run_of[place].session = session;
    run_of[place].is_cancelled = false;
    atomic_store(&is_own_op[place], is_one_op && is_main_thread());
    atomic_store(&running[place], engine);
  }
  pthread_mutex_unlock(&lock);
  /* Check after the engine is listed: an interrupt first sets the state and then reads the list. */
  if (!trm_tf_interrupt_is_due()) return TRM_OK;
  trm_tf_interrupt_unwatch_run(engine);
  trm_engine_forget_cancel(engine);
  FAIL(CANCELLED, "The run was interrupted before it began.");
}

void trm_tf_interrupt_unwatch_run(trm_engine *engine) {
  bool is_cancelled = false;
  pthread_mutex_lock(&lock);
  int place = 0;
  while (place < MAX_RUNS && atomic_load(&running[place]) != engine) ++place;
  if (place < MAX_RUNS) {
    is_cancelled = run_of[place].is_cancelled;
    atomic_store(&running[place], NULL);
  }
  pthread_mutex_unlock(&lock);
  /* A handler in another thread may still use the engine, which must outlive that. */
  while (place < MAX_RUNS && atomic_load(&cancelling) > 0) sched_yield();
  if (is_cancelled) trm_engine_forget_cancel(engine); /* the cancellation was for this run */
  trm_tf_interrupt_unwatch();
}

unsigned trm_tf_interrupt_count(void) { return atomic_load(&count); }

uint64_t trm_tf_interrupt_session(void) { return present_session; }

void trm_tf_interrupt_forked(void) {
  pthread_mutex_init(&lock, NULL); /* the thread that held it does not exist in the child */
  for (int i = 0; i < MAX_RUNS; ++i) atomic_store(&running[i], NULL);
  atomic_store(&cancelling, 0);
  atomic_store(&delivery, AT_ONCE);
  atomic_store(&is_ending, false);
  struct sigaction present;
  if (sigaction(SIGINT, NULL, &present) == 0 && is_ours(&present)) sigaction(SIGINT, &before, NULL);
  is_installed = is_watched_for_main = false;
  watchers = 0;
}

/* ---- For Python ---- */

uint64_t trm_tf_session_enter(uint64_t session) {
  const uint64_t last = present_session;
  present_session = session;
  return last;
}

void trm_tf_session_cancel(uint64_t session) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_RUNS; ++i) {
    trm_engine *engine = atomic_load(&running[i]);
    if (!engine || run_of[i].session != session) continue;
    run_of[i].is_cancelled = true;
    trm_engine_cancel(engine);
  }
  pthread_mutex_unlock(&lock);
}

void trm_tf_interrupt_cancels(int32_t wanted) { atomic_store(&has_own_handler, wanted == 0); }

/* Starts or ends the watch for the main thread; repeated calls do nothing. */
static void watch_for_main(bool wanted) {
  pthread_mutex_lock(&lock);
  const bool changes = is_watched_for_main != wanted;
  is_watched_for_main = wanted;
  pthread_mutex_unlock(&lock);
  if (changes && wanted) trm_tf_interrupt_watch();
  if (changes && !wanted) trm_tf_interrupt_unwatch();
}

void trm_tf_interrupt_defer(void) {
  watch_for_main(true);
  int expected = AT_ONCE;
  atomic_compare_exchange_strong(&delivery, &expected, DEFERRED);
}

int32_t trm_tf_interrupt_release(void) {
  const bool is_pending = atomic_exchange(&delivery, AT_ONCE) == PENDING;
  /* A handler in another thread must not cancel later runs. */
  while (atomic_load(&cancelling) > 0) sched_yield();
  watch_for_main(false);
  return is_pending;
}

void trm_tf_interrupt_runs(void) {
  atomic_store(&is_ending, true);
  cancel_running(true);
}

void trm_tf_interrupt_resume(void) { atomic_store(&is_ending, false); }

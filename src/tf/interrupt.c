/* Ctrl-C while the plugin waits or runs: a handler of SIGINT before the process's own. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watchers;
static bool is_installed;
static struct sigaction before; /* written only while our handler is not installed */
static atomic_uint count;
static atomic_bool is_left_alone; /* interrupts are the process's own affair */
static bool is_watched_for_main;  /* under the lock */
static atomic_bool holds;         /* the main thread is in a session's run */
static atomic_bool is_held;       /* a SIGINT came meanwhile */
static atomic_bool is_ending;     /* between trm_tf_interrupt_runs and _resume */

/* What runs: as many as this many at once can be interrupted. */
enum { MAX_RUNS = 64 };
static _Atomic(trm_engine *) running[MAX_RUNS];
static atomic_uint cancelling; /* signal handlers that look at them */

/* Also for signal handlers. */
static void cancel_running(void) {
  atomic_fetch_add(&count, 1);
  atomic_fetch_add(&cancelling, 1);
  for (int i = 0; i < MAX_RUNS; i++) {
    trm_engine *engine = atomic_load(&running[i]);
    if (engine) trm_engine_cancel(engine);
  }
  atomic_fetch_sub(&cancelling, 1);
}

static void on_interrupt(int number, siginfo_t *info, void *context) {
  const bool is_now_held = atomic_load(&holds);
  if (is_now_held) atomic_store(&is_held, true); /* before: what begins looks at it */
  if (is_now_held || !atomic_load(&is_left_alone)) cancel_running();
  if (is_now_held) return;
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else
    before.sa_handler(number);
}

static bool is_ours(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_interrupt;
}

static bool has_handler(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) ||
         (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

void interrupt_watch(void) {
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

void interrupt_unwatch(void) {
  pthread_mutex_lock(&lock);
  struct sigaction present;
  /* Somebody may have set another handler meanwhile: it stays. */
  if (--watchers == 0 && is_installed && sigaction(SIGINT, NULL, &present) == 0 &&
      is_ours(&present))
    sigaction(SIGINT, &before, NULL);
  if (watchers == 0) is_installed = false;
  pthread_mutex_unlock(&lock);
}

int32_t trm_tf_interrupt_is_watched(void) {
  pthread_mutex_lock(&lock);
  const bool is_watched = watchers > 0;
  pthread_mutex_unlock(&lock);
  return is_watched;
}

bool interrupt_is_due(void) { return atomic_load(&is_held) || atomic_load(&is_ending); }

bool interrupt_watch_run(trm_engine *engine, TF_Status *status) {
  interrupt_watch();
  for (int i = 0; i < MAX_RUNS; i++) {
    trm_engine *none = NULL;
    if (atomic_compare_exchange_strong(&running[i], &none, engine)) break;
  }
  /* After the engine can be found: who interrupts says so first and then looks for engines. */
  if (!interrupt_is_due()) return true;
  interrupt_unwatch_run(engine);
  trm_engine_forget_cancel(engine);
  return fail(status, TF_CANCELLED, "The run was interrupted before it began.");
}

void interrupt_unwatch_run(trm_engine *engine) {
  for (int i = 0; i < MAX_RUNS; i++) {
    trm_engine *own = engine;
    if (!atomic_compare_exchange_strong(&running[i], &own, NULL)) continue;
    /* A handler in another thread may have seen it still: the engine must not go before it. */
    while (atomic_load(&cancelling) > 0) sched_yield();
    break;
  }
  interrupt_unwatch();
}

unsigned interrupt_count(void) { return atomic_load(&count); }

/* ---- For Python ---- */

void trm_tf_interrupt_cancels(int32_t wanted) { atomic_store(&is_left_alone, wanted == 0); }

/* Watches for the main thread, or no longer; a second call of the same kind does nothing. */
static void watch_for_main(bool wanted) {
  pthread_mutex_lock(&lock);
  const bool changes = is_watched_for_main != wanted;
  is_watched_for_main = wanted;
  pthread_mutex_unlock(&lock);
  if (changes && wanted) interrupt_watch();
  if (changes && !wanted) interrupt_unwatch();
}

void trm_tf_interrupt_hold(void) {
  watch_for_main(true);
  atomic_store(&holds, true);
}

int32_t trm_tf_interrupt_release(void) {
  atomic_store(&holds, false);
  const bool was_held = atomic_exchange(&is_held, false);
  watch_for_main(false);
  return was_held;
}

void trm_tf_interrupt_runs(void) {
  atomic_store(&is_ending, true);
  cancel_running();
}

void trm_tf_interrupt_resume(void) { atomic_store(&is_ending, false); }

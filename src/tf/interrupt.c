/* Ctrl-C while the plugin waits or runs: a handler of SIGINT before Python's own. */
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

/* What runs: as many as this many at once can be interrupted. */
enum { MAX_RUNS = 64 };
static _Atomic(trm_engine *) running[MAX_RUNS];
static atomic_uint cancelling; /* signal handlers that look at them */

static void on_interrupt(int number, siginfo_t *info, void *context) {
  atomic_fetch_add(&count, 1);
  atomic_fetch_add(&cancelling, 1);
  for (int i = 0; i < MAX_RUNS; i++) {
    trm_engine *engine = atomic_load(&running[i]);
    if (engine) trm_engine_cancel(engine);
  }
  atomic_fetch_sub(&cancelling, 1);
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

void interrupt_watch_run(trm_engine *engine) {
  interrupt_watch();
  for (int i = 0; i < MAX_RUNS; i++) {
    trm_engine *none = NULL;
    if (atomic_compare_exchange_strong(&running[i], &none, engine)) return;
  }
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

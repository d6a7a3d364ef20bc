/* Ctrl-C while the plugin waits: a handler of SIGINT before Python's own, while somebody looks. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watchers;
static bool is_installed;
static struct sigaction before; /* written only while our handler is not installed */
static atomic_uint count;

static void on_interrupt(int number, siginfo_t *info, void *context) {
  atomic_fetch_add(&count, 1);
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

unsigned interrupt_count(void) { return atomic_load(&count); }

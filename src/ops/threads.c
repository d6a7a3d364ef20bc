/* Decides how many threads work is worth (threads.h). */
#include "ops/threads.h"

#include <stdatomic.h>

/* What waking a team costs, as bytes that one core touches meanwhile: two microseconds and a
 * twentieth of one a thread, at ten bytes a nanosecond. */
#define WAKE_BYTES ((size_t)20 * 1024)
#define WAKE_BYTES_PER_THREAD ((size_t)512)
/* What the others save must be so many times the cost of waking them: the machine may be busy, and
 * what a step touches is likely to lie in the caller's cache. */
#define GAIN 8
/* Less than that is never split: a larger team must not be woken for less than a smaller one. */
#define LEAST_BYTES ((size_t)256 * 1024)

int trm_threads_choose(size_t bytes, int available) {
  if (available <= 1 || bytes < LEAST_BYTES) return 1;
  const size_t threads = (size_t)available;
  const size_t saved = bytes - bytes / threads;
  const size_t waking = WAKE_BYTES + threads * WAKE_BYTES_PER_THREAD;
  return saved >= GAIN * waking ? available : 1;
}

static atomic_uint_fast64_t wakes;

uint64_t trm_threads_wakes(void) { return atomic_load_explicit(&wakes, memory_order_relaxed); }
void trm_threads_note_wake(void) { atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed); }

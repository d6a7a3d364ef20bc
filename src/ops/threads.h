/* Threads for kernels: libgomp's pool, all of it or none, and only where the work pays for waking
 * it. How the work is split never changes a result; a kernel that needs partial results cuts them
 * by itself. */
#ifndef TREMULA_OPS_THREADS_H_
#define TREMULA_OPS_THREADS_H_

#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRM_MAX_THREADS 256

/* Called with the part [begin, end) of the work; `thread` counts from 0. */
typedef void (*trm_range_fn)(const void *context, int64_t begin, int64_t end, int thread);

/* The most threads that a kernel made now can ever run on: for sizing scratch. */
static inline int trm_threads_limit(void) {
  const int threads = omp_get_num_procs();
  return threads < 1 ? 1 : threads > TRM_MAX_THREADS ? TRM_MAX_THREADS : threads;
}

/* How many of `available` threads work that touches `bytes` (or does as many cheap operations) is
 * worth: all or one. libgomp ends the threads that a smaller team leaves over and starts them again
 * for the next larger one, which costs more than any small piece of work. */
int trm_threads_choose(size_t bytes, int available);
/* The threads of the caller's team. */
static inline int trm_threads_available(void) {
  const int limit = trm_threads_limit(), threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  return threads < limit ? threads : limit;
}
/* How many threads to use for work that touches `bytes`. */
static inline int trm_threads_for(size_t bytes) {
  return trm_threads_choose(bytes, trm_threads_available());
}

/* How often a kernel has woken the other threads in this process. */
uint64_t trm_threads_wakes(void);
void trm_threads_note_wake(void);

/* The thread sanitizer does not see how libgomp's threads wait for each other and would take every
 * parallel region for a race. In its builds the ranges run on plain threads, which it sees, and
 * what uses OpenMP by itself, with if (TRM_OPENMP_THREADS && ...), on one. */
#if defined(__SANITIZE_THREAD__)
#define TRM_OPENMP_THREADS 0
#include <pthread.h>

typedef struct trm_range {
  trm_range_fn function;
  const void *context;
  int64_t begin, end;
  int thread;
} trm_range;

static inline void *trm_range_run(void *argument) {
  const trm_range *r = (const trm_range *)argument;
  r->function(r->context, r->begin, r->end, r->thread);
  return NULL;
}
#else
#define TRM_OPENMP_THREADS 1
#endif

/* The part of [0, count) of thread `me` of `all`. */
static inline int64_t trm_range_begin(int64_t count, int64_t me, int64_t all) {
  const int64_t share = count / all, rest = count % all;
  return me * share + (me < rest ? me : rest);
}

/* Cuts [0, count) in one contiguous part a thread: at most `threads`. The team is whole all the
 * same; who has no part only passes the barrier. */
static inline void trm_parallel_ranges(int threads, int64_t count, trm_range_fn function,
                                       const void *context) {
  if (count <= 0) return;
  if (threads > count) threads = (int)count;
  if (threads <= 1) {
    function(context, 0, count, 0);
    return;
  }
  trm_threads_note_wake();
#if defined(__SANITIZE_THREAD__)
  trm_range ranges[TRM_MAX_THREADS];
  pthread_t started[TRM_MAX_THREADS];
  bool is_started[TRM_MAX_THREADS];
  for (int i = 0; i < threads; ++i) {
    ranges[i] = (trm_range){function, context, trm_range_begin(count, i, threads),
                            trm_range_begin(count, i + 1, threads), i};
    is_started[i] = i > 0 && pthread_create(&started[i], NULL, trm_range_run, &ranges[i]) == 0;
    if (i > 0 && !is_started[i]) trm_range_run(&ranges[i]);
  }
  trm_range_run(&ranges[0]);
  for (int i = 1; i < threads; ++i) {
    if (is_started[i]) pthread_join(started[i], NULL);
  }
#else
#pragma omp parallel num_threads(trm_threads_available())
  {
    for (int part = omp_get_thread_num(); part < threads; part += omp_get_num_threads()) {
      function(context, trm_range_begin(count, part, threads),
               trm_range_begin(count, part + 1, threads), part);
    }
  }
#endif
}

#endif /* TREMULA_OPS_THREADS_H_ */

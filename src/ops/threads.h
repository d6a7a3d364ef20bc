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

/* The most threads that a kernel can ever run on: for sizing scratch. It is asked of the system
 * once. */
int trm_threads_limit(void);

/* How many of `available` threads work that touches `bytes` (or does as many cheap operations) is
 * worth: all or one. libgomp ends the threads that a smaller team leaves over and starts them again
 * for the next larger one, which costs more than any small piece of work. */
int trm_threads_choose(size_t bytes, int available);
/* The threads of the caller's team. */
int trm_threads_available(void);
/* How many threads to use for work that touches `bytes`. */
int trm_threads_for(size_t bytes);

/* Nanoseconds. */
uint64_t trm_threads_clock(void);
/* Says how long it took beside the caller's own part to have the others do theirs. */
void trm_threads_note_cost(uint64_t nanoseconds);
/* Whether waking the others costs less than `nanoseconds`, from what was said lately: on a machine
 * that others keep busy it may cost a thousand times what it costs on a quiet one. */
bool trm_threads_pay(uint64_t nanoseconds);

/* How often a kernel has woken the other threads in this process. */
uint64_t trm_threads_wakes(void);
void trm_threads_note_wake(void);

/* The thread sanitizer does not see how libgomp's threads wait for each other and would take every
 * parallel region for a race. In its builds the ranges run on plain threads, which it sees, and
 * what uses OpenMP by itself, with if (TRM_OPENMP_THREADS && ...), on one. */
#if defined(__SANITIZE_THREAD__)
#define TRM_OPENMP_THREADS 0
#else
#define TRM_OPENMP_THREADS 1
#endif

/* The part of [0, count) of thread `me` of `all`. */
static inline int64_t trm_range_begin(int64_t count, int64_t me, int64_t all) {
  const int64_t share = count / all, rest = count % all;
  return me * share + (me < rest ? me : rest);
}

/* Cuts [0, count) in one contiguous part a thread: at most `threads`, or one where waking the
 * others has not paid lately. The team is whole all the same; who has no part only passes the
 * barrier. */
void trm_parallel_ranges(int threads, int64_t count, trm_range_fn function, const void *context);

#endif /* TREMULA_OPS_THREADS_H_ */

/* Threads for kernels: libgomp's whole pool or one thread, and only if the work pays for waking the
 * others. The split never changes a result; a kernel that needs partial results chooses their
 * limits itself. */
#ifndef TREMULA_HOST_OPS_THREADS_H_
#define TREMULA_HOST_OPS_THREADS_H_

#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRM_MAX_THREADS 256

/* Does the chunk [begin, end) of the work; `thread` counts from 0. */
typedef void (*trm_range_fn)(const void *context, int64_t begin, int64_t end, int thread);

/* The largest number of threads that a kernel can run on, for sizing scratch. The system is asked
 * once. */
int trm_threads_limit(void);

/* The cores that this process may use: those that it is bound to, less the parts of instances that
 * are bound to the same. */
int trm_threads_cores(void);
/* Gives the caller's team no more threads than that, unless OMP_NUM_THREADS says how many. */
void trm_threads_share(void);

/* How many of `available` threads work on `bytes` bytes (or as many cheap operations) should use:
 * all or one. For a smaller team libgomp would end the other threads, and start them again for the
 * next larger one, which costs more than any small piece of work. */
int trm_threads_choose(size_t bytes, int available);
/* The number of threads of the caller's team. */
int trm_threads_available(void);
/* The number of threads for work on `bytes` bytes. */
int trm_threads_for(size_t bytes);

/* A monotonic clock, in nanoseconds. */
uint64_t trm_threads_clock(void);
/* Whether a step that begins now and would save so many nanoseconds wakes the others (waking.h). */
bool trm_threads_pay(uint64_t nanoseconds, uint64_t now);
/* Notes the end of a step that has asked: one that woke the others, with its time without the
 * caller's own chunk, and one that ran alone. */
void trm_threads_note_cost(uint64_t nanoseconds, uint64_t begin, uint64_t end);
void trm_threads_note_alone(uint64_t end);

/* How often kernels have woken the other threads in this process. */
uint64_t trm_threads_wakes(void);
void trm_threads_note_wake(void);

/* The thread sanitizer does not see how libgomp's threads wait for each other, and would report
 * every parallel region as a race. In its builds ranges run on plain threads, which it sees, and
 * code that uses OpenMP itself, with if (TRM_OPENMP_THREADS && ...), runs on one. */
#if defined(__SANITIZE_THREAD__)
#define TRM_OPENMP_THREADS 0
#else
#define TRM_OPENMP_THREADS 1
#endif

/* The begin of the chunk of thread `me` of `all`, in [0, count). */
static inline int64_t trm_range_begin(int64_t count, int64_t me, int64_t all) {
  const int64_t share = count / all, rest = count % all;
  return me * share + (me < rest ? me : rest);
}

/* Cuts [0, count) into one contiguous chunk for each of `threads` threads, or into one chunk if
 * waking the others has not paid lately. A thread of the team without a chunk only passes the
 * barrier. */
void trm_parallel_ranges(int threads, int64_t count, trm_range_fn function, const void *context);

#endif /* TREMULA_HOST_OPS_THREADS_H_ */

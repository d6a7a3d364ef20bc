/* Threads for kernels: libgomp's pool, and only where the work pays for waking it. How the work is
 * split never changes a result; a kernel that needs partial results cuts them by itself. */
#ifndef TREMULA_OPS_THREADS_H_
#define TREMULA_OPS_THREADS_H_

#include <omp.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes touched (or as many cheap operations) that are worth one more thread: about ten times what
 * waking it costs. */
#define TRM_BYTES_PER_THREAD ((size_t)192 * 1024)
#define TRM_MAX_THREADS 256

/* Called with the part [begin, end) of the work; `thread` counts from 0. */
typedef void (*trm_range_fn)(const void *context, int64_t begin, int64_t end, int thread);

/* The most threads that a kernel made now can ever run on: for sizing scratch. */
static inline int trm_threads_limit(void) {
  const int threads = omp_get_num_procs();
  return threads < 1 ? 1 : threads > TRM_MAX_THREADS ? TRM_MAX_THREADS : threads;
}

/* How many threads to use for work that touches `bytes`. */
static inline int trm_threads_for(size_t bytes) {
  if (bytes < 2 * TRM_BYTES_PER_THREAD) return 1;
  const size_t wanted = bytes / TRM_BYTES_PER_THREAD;
  const int limit = trm_threads_limit();
  int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  if (threads > limit) threads = limit;
  return wanted < (size_t)threads ? (int)wanted : threads;
}

/* Cuts [0, count) in one contiguous part a thread. */
static inline void trm_parallel_ranges(int threads, int64_t count, trm_range_fn function,
                                       const void *context) {
  if (count <= 0) return;
  if (threads > count) threads = (int)count;
  if (threads <= 1) {
    function(context, 0, count, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t share = count / all, rest = count % all;
    const int64_t begin = me * share + (me < rest ? me : rest);
    const int64_t end = begin + share + (me < rest);
    if (begin < end) function(context, begin, end, (int)me);
  }
}

#endif /* TREMULA_OPS_THREADS_H_ */

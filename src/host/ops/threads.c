/* Owns: the decision how many threads work is worth (threads.h). */
#define _POSIX_C_SOURCE 200809L
#include "host/ops/threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/limits.h"
#include "group/peers.h"
#include "host/ops/waking.h"

/* The cost of waking a team, as bytes that one core touches in that time: 2 microseconds and 0.05
 * for each thread, at ten bytes a nanosecond. */
#define WAKE_BYTES ((size_t)20 * 1024)
#define WAKE_BYTES_PER_THREAD ((size_t)512)
/* The other threads must save this many times the cost of waking them, because the data of a step
 * is likely in the caller's cache. */
#define GAIN 8

/* Measured times rise by this share of the difference. */
#define FORGOTTEN 2048

int trm_threads_choose(size_t bytes, int available) {
  if (available <= 1 || bytes < TRM_THREADS_LEAST_BYTES) return 1;
  const size_t threads = (size_t)available;
  const size_t saved = bytes - bytes / threads;
  const size_t waking = WAKE_BYTES + threads * WAKE_BYTES_PER_THREAD;
  return saved >= GAIN * waking ? available : 1;
}

int trm_threads_limit(void) {
  static atomic_int limit;
  int known = atomic_load_explicit(&limit, memory_order_relaxed);
  if (known == 0) {
    const int threads = omp_get_num_procs();
    known = threads < 1 ? 1 : threads > TRM_MAX_THREADS ? TRM_MAX_THREADS : threads;
    atomic_store_explicit(&limit, known, memory_order_relaxed);
  }
  return known;
}

int trm_threads_cores(void) {
  uint32_t before;
  const int64_t cores = omp_get_num_procs(), sharing = trm_peers_num_sharing_cores(&before);
  const int64_t next = (int64_t)before + 1;
  const int64_t part = next * cores / sharing - before * cores / sharing;
  return part < 1 ? 1 : (int)part;
}

void trm_threads_share(void) {
  uint32_t before;
  if (trm_peers_num_sharing_cores(&before) == 1 || getenv("OMP_NUM_THREADS") != NULL) return;
  if (omp_get_max_threads() > trm_threads_cores()) omp_set_num_threads(trm_threads_cores());
}

int trm_threads_available(void) {
  const int limit = trm_threads_limit(), threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  return threads < limit ? threads : limit;
}

/* ---- What waking costs here and now --------------------------------------------------------- */

static trm_waking history;

uint64_t trm_threads_clock(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

bool trm_threads_pay(uint64_t nanoseconds, uint64_t now) {
  return trm_waking_pays(&history, nanoseconds, now);
}

void trm_threads_note_cost(uint64_t nanoseconds, uint64_t begin, uint64_t end) {
  trm_waking_note(&history, nanoseconds, begin, end);
}

void trm_threads_note_alone(uint64_t end) { trm_waking_note_alone(&history, end); }

/* ---- Counting ------------------------------------------------------------------------------- */

static atomic_uint_fast64_t wakes;

uint64_t trm_threads_wakes(void) { return atomic_load_explicit(&wakes, memory_order_relaxed); }
void trm_threads_note_wake(void) { atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed); }

/* ---- Work, as measured ---------------------------------------------------------------------- */

/* The nanoseconds of a range function on one thread, by function and bytes. If two kinds of work
 * share an entry, it is that of the last one. */
typedef struct measured {
  atomic_uintptr_t key;
  atomic_int_fast64_t nanoseconds;
} measured;

enum { MEASURED = 256 };
static measured table[MEASURED];
static _Thread_local size_t asked_bytes; /* of the last trm_threads_for */

int trm_threads_for(size_t bytes) {
  if (bytes < TRM_THREADS_LEAST_BYTES) return 1; /* without asking libgomp */
  asked_bytes = bytes;
  return trm_threads_choose(bytes, trm_threads_available());
}

static measured *find_measured(trm_range_fn function) {
  const uintptr_t key = (uintptr_t)function ^ (uintptr_t)asked_bytes * UINT64_C(0x9e3779b97f4a7c15);
  measured *entry = &table[key >> 20 & (MEASURED - 1)];
  if (atomic_load_explicit(&entry->key, memory_order_relaxed) != key) {
    atomic_store_explicit(&entry->key, key, memory_order_relaxed);
    atomic_store_explicit(&entry->nanoseconds, 0, memory_order_relaxed);
  }
  return entry;
}

/* Keeps a value near the smallest one, because disturbances only make a run longer. */
static void note_measured(measured *entry, int64_t nanoseconds) {
  const int64_t known = atomic_load_explicit(&entry->nanoseconds, memory_order_relaxed);
  const int64_t now =
      known == 0 || nanoseconds < known ? nanoseconds : known + (nanoseconds - known) / FORGOTTEN;
  atomic_store_explicit(&entry->nanoseconds, now, memory_order_relaxed);
}

static bool pays(measured *entry, int threads, uint64_t now) {
  const int64_t alone = atomic_load_explicit(&entry->nanoseconds, memory_order_relaxed);
  return alone == 0 || trm_threads_pay((uint64_t)(alone - alone / threads), now);
}

/* ---- Running -------------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
#include <pthread.h>

typedef struct range {
  trm_range_fn function;
  const void *context;
  int64_t begin, end;
  int thread;
} range;

static void *run_range(void *argument) {
  const range *r = (const range *)argument;
  r->function(r->context, r->begin, r->end, r->thread);
  return NULL;
}

static uint64_t run_chunks(int threads, int64_t count, trm_range_fn function, const void *context) {
  range ranges[TRM_MAX_THREADS];
  pthread_t started[TRM_MAX_THREADS];
  bool is_started[TRM_MAX_THREADS];
  for (int i = 0; i < threads; ++i) {
    ranges[i] = (range){function, context, trm_range_begin(count, i, threads),
                        trm_range_begin(count, i + 1, threads), i};
    is_started[i] = i > 0 && pthread_create(&started[i], NULL, run_range, &ranges[i]) == 0;
    if (i > 0 && !is_started[i]) run_range(&ranges[i]);
  }
  run_range(&ranges[0]);
  for (int i = 1; i < threads; ++i) {
    if (is_started[i]) pthread_join(started[i], NULL);
  }
  return 0;
}
#else
/* Returns the nanoseconds of the caller's own chunk. */
static uint64_t run_chunks(int threads, int64_t count, trm_range_fn function, const void *context) {
  uint64_t own = 0;
#pragma omp parallel num_threads(trm_threads_available())
  {
    const bool is_caller = omp_get_thread_num() == 0;
    if (is_caller) own = trm_threads_clock();
    for (int chunk = omp_get_thread_num(); chunk < threads; chunk += omp_get_num_threads()) {
      function(context, trm_range_begin(count, chunk, threads),
               trm_range_begin(count, chunk + 1, threads), chunk);
    }
    if (is_caller) own = trm_threads_clock() - own;
  }
  return own;
}
#endif

void trm_parallel_ranges(int threads, int64_t count, trm_range_fn function, const void *context) {
  if (count <= 0) return;
  if (threads > count) threads = (int)count;
  if (threads <= 1) {
    function(context, 0, count, 0);
    return;
  }
  measured *entry = find_measured(function);
  const uint64_t begin = trm_threads_clock();
  uint64_t alone;
  if (pays(entry, threads, begin)) {
    trm_threads_note_wake();
    const uint64_t own = run_chunks(threads, count, function, context), end = trm_threads_clock();
    trm_threads_note_cost(end - begin - own, begin, end);
    alone = own * (uint64_t)threads;
  } else {
    function(context, 0, count, 0);
    const uint64_t end = trm_threads_clock();
    trm_threads_note_alone(end);
    alone = end - begin;
  }
  note_measured(entry, (int64_t)alone);
}

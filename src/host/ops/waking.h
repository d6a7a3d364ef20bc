/* Whether a step gains by waking the other threads. Waking costs from microseconds to a
 * millisecond: threads that waited a moment spin, others sleep, and on a busy machine a barrier
 * waits for a thread that does not run. So costs are measured, by how long the threads have waited.
 *
 * Threads that are woken for one step are awake for the steps that follow closely. So a step that
 * saves less than the waking itself wakes them if those steps save the rest.
 *
 * All times are nanoseconds of one monotonic clock. Threads may share a history: of concurrent
 * changes one may be lost, which does no harm. */
#ifndef TREMULA_HOST_OPS_WAKING_H_
#define TREMULA_HOST_OPS_WAKING_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How threads wait that were woken last some time ago. */
typedef enum trm_waiting {
  TRM_SPINNING,
  TRM_DOZING, /* they sleep, but their cores do not */
  TRM_ASLEEP,
  TRM_NUM_WAITING,
} trm_waiting;

/* What a process has seen of waking. All zeros at first: then waking costs nothing. */
typedef struct trm_waking {
  atomic_uint_fast64_t woken_at; /* the end of the last step on all threads */
  atomic_uint_fast64_t step_at;  /* the end of the last step that asked */
  /* The rest is in picoseconds. */
  atomic_int_fast64_t costs[TRM_NUM_WAITING]; /* averages of the recent ones */
  atomic_int_fast64_t saved; /* by the recent steps, if a step before them had woken the threads */
  atomic_int_fast64_t rests; /* how many of the recent steps came after a rest, in millionths */
} trm_waking;

/* Whether a step that begins now and would save so much wakes the others. */
bool trm_waking_pays(trm_waking *waking, uint64_t saved, uint64_t now);
/* Notes a step on all threads. The cost is its time without the caller's own chunk. */
void trm_waking_note(trm_waking *waking, uint64_t cost, uint64_t begin, uint64_t end);
/* Notes the end of a step that has asked and ran on one thread. */
void trm_waking_note_alone(trm_waking *waking, uint64_t end);

#endif /* TREMULA_HOST_OPS_WAKING_H_ */

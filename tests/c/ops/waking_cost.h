/* For tests of kernels that choose: what waking the other threads costs, as the process has seen.
 */
#ifndef TREMULA_TESTS_WAKING_COST_H_
#define TREMULA_TESTS_WAKING_COST_H_

#include "host/ops/threads.h"

/* Makes waking cost so many nanoseconds, however long the threads have waited. */
static inline void set_waking_cost(uint64_t nanoseconds) {
  static const uint64_t pauses[] = {0, 100000, 2000000}; /* spinning, dozing, asleep */
  uint64_t time = trm_threads_clock();
  time -= 300 * (pauses[1] + pauses[2]); /* the last time is now */
  for (int i = 0; i < 3 * 300; ++i) {
    time += pauses[i % 3];
    trm_threads_note_cost(nanoseconds, time, time);
  }
}

#endif /* TREMULA_TESTS_WAKING_COST_H_ */

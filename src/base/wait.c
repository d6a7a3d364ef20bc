/* Owns: waiting for a while. */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "base/wait.h"

#include <time.h>

void trm_cond_wait_briefly(pthread_cond_t *condition, pthread_mutex_t *mutex, int milliseconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const long nanoseconds = until.tv_nsec + milliseconds % 1000 * 1000000L;
  until.tv_sec += milliseconds / 1000 + nanoseconds / 1000000000L;
  until.tv_nsec = nanoseconds % 1000000000L;
  pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &until);
}

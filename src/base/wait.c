/* Owns: the clock, and waiting for a while. */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "base/wait.h"

#include <time.h>

double trm_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

void trm_sleep_ms(int milliseconds) {
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

void trm_cond_wait_briefly(pthread_cond_t *condition, pthread_mutex_t *mutex, int milliseconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const long nanoseconds = until.tv_nsec + milliseconds % 1000 * 1000000L;
  until.tv_sec += milliseconds / 1000 + nanoseconds / 1000000000L;
  until.tv_nsec = nanoseconds % 1000000000L;
  pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &until);
}

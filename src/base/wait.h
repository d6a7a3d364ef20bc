/* A clock that only goes forward, and waiting for a while. */
#ifndef TREMULA_BASE_WAIT_H_
#define TREMULA_BASE_WAIT_H_

#include <pthread.h>

/* Milliseconds since some moment in the past. */
double trm_now_ms(void);
/* Sleeps for this many milliseconds, or less when a signal arrives. */
void trm_sleep_ms(int milliseconds);
/* pthread_cond_wait for at most this many milliseconds, independent of changes of the time of day.
 */
void trm_cond_wait_briefly(pthread_cond_t *condition, pthread_mutex_t *mutex, int milliseconds);

#endif /* TREMULA_BASE_WAIT_H_ */

/* Time that does not go back. */
#ifndef TREMULA_TF_CLOCK_H_
#define TREMULA_TF_CLOCK_H_

/* Seconds since some moment in the past. */
double clock_seconds(void);

#endif /* TREMULA_TF_CLOCK_H_ */

/* Noticing that a device changes from program to program at every step. */
#ifndef TREMULA_TF_SWITCHES_H_
#define TREMULA_TF_SWITCHES_H_

#include <stdbool.h>
#include <stdint.h>

/* To be told of each run of a program: the device, the program's number, how
 * many runs of it there have been with this one, and the name of the node that runs it. Whether the
 * device ran another program before. Once a device has changed back and forth for a while, one line
 * on standard error says so. */
bool switches_note(int ordinal, uint64_t program, uint64_t num_runs, const char *name);
/* When the last run of a device ended, in seconds of a clock that does not go back: to be told
 * after each run, and asked; 0: never. */
void switches_set_free(int ordinal, double seconds);
double switches_free_since(int ordinal);

#endif /* TREMULA_TF_SWITCHES_H_ */

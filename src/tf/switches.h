/* Noticing that a device changes from program to program at every step. */
#ifndef TREMULA_TF_SWITCHES_H_
#define TREMULA_TF_SWITCHES_H_

#include <stdint.h>

/* To be told of each run of a program: the device, the program (any address that is its own), how
 * many runs of it there have been with this one, and the name of the node that runs it. Once a
 * device has changed back and forth for a while, one line on standard error says so. */
void switches_note(int ordinal, const void *program, uint64_t num_runs, const char *name);

#endif /* TREMULA_TF_SWITCHES_H_ */

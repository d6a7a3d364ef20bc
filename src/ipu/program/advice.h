/* Changes that would make a program need less memory (advice.c). */
#ifndef TREMULA_IPU_PROGRAM_ADVICE_H_
#define TREMULA_IPU_PROGRAM_ADVICE_H_

#include <stdio.h>
#include <stdlib.h>

#include "ipu/program/program.h"

typedef struct trm_advice {
  char text[160];
  int64_t worst_tile_bytes; /* of the changed program */
  int64_t saved;            /* bytes saved on the fullest tile */
  bool fits;
  uint32_t num_ipus;
  int64_t cycles; /* of a run; 0: not known */
} trm_advice;

typedef VECTOR(trm_advice) trm_advice_list;

/* Appends the changes that help, the most effective first. Free the list with VECTOR_FREE, also
 * after a failure. */
trm_status trm_program_find_advice(const trm_program *program, trm_advice_list *list,
                                   trm_error *error);

/* split.c: trm_program_create_split() for callers who only ask whether the program would fit. Takes
 * the first cuts that fit, or the best of a few. */
trm_status trm_program_create_split_briefly(const trm_program *program, uint32_t num_shards,
                                            trm_program **out_program, trm_error *error);

static inline double trm_least_double(double a, double b) { return a < b ? a : b; }

#endif /* TREMULA_IPU_PROGRAM_ADVICE_H_ */

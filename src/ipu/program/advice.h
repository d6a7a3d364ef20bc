/* Changes that would make a program need less memory: a brief answer for a program that is refused
 * (advice.c), and a search for whoever plans (search.c). */
#ifndef TREMULA_IPU_PROGRAM_ADVICE_H_
#define TREMULA_IPU_PROGRAM_ADVICE_H_

#include "base/memory.h"
#include "ipu/program/change.h"

typedef struct trm_advice {
  char text[TRM_CHANGE_TEXT];
  int64_t worst_tile_bytes; /* of the changed program */
  int64_t saved;            /* bytes saved on the fullest tile */
  bool fits;
  bool is_planned; /* else worked out from the plan of the program as it is */
  uint32_t num_ipus;
  int64_t cycles; /* of a run; 0: not known */
} trm_advice;

typedef VECTOR(trm_advice) trm_advice_list;

/* Appends the changes that help, the most effective first. Only the one that promises most is
 * planned, which may be over several IPUs; the rest is worked out. Free the list with VECTOR_FREE,
 * also after a failure. */
trm_status trm_program_find_advice(const trm_program *program, trm_advice_list *list,
                                   trm_error *error);

/* Appends what a planned change saves, if it saves anything. */
trm_status trm_advice_add_planned(const trm_program *program, const trm_change *change,
                                  const trm_program *changed, trm_advice_list *list,
                                  trm_error *error);
/* Appends half the batch, worked out from what is not always live, gradients apart. */
trm_status trm_advice_add_batch(const trm_program *program, trm_advice_list *list,
                                trm_error *error);
/* Sorts: what fits first, then by the bytes that are saved. */
void trm_advice_sort(trm_advice_list *list);

#endif /* TREMULA_IPU_PROGRAM_ADVICE_H_ */

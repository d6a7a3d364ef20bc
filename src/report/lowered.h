/* The bytes of variables on each tile, expanded from their mappings. Bytes are rounded up to 4 on
 * each tile, as in the liveness analysis, so that they add up to the program's memory. */
#ifndef TREMULA_REPORT_LOWERED_H_
#define TREMULA_REPORT_LOWERED_H_

#include "ipu/program/program.h"
#include "report/distributions.h"

typedef struct trm_lowered {
  trm_distributions distributions;            /* bytes */
  uint32_t *of_variable;                      /* the number of its distribution */
  int64_t *always[TRM_NUM_MEMORY_CATEGORIES]; /* always live bytes by tile; NULL: none */
  trm_arena arena;
} trm_lowered;

trm_status trm_lowered_create(const trm_program *program, trm_lowered *out_lowered,
                              trm_error *error);
void trm_lowered_free(trm_lowered *lowered);

#endif /* TREMULA_REPORT_LOWERED_H_ */

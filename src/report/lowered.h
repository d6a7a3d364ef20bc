/* Variables as they lie on the tiles, expanded from their mappings.
 *
 * Many variables lie alike, so bytes by tile are kept once for all that have them equal, as runs of
 * tiles with the same bytes. Bytes are rounded up to 4 on each tile, as liveness counts them, so
 * that they add up to the program's memory. */
#ifndef TREMULA_REPORT_LOWERED_H_
#define TREMULA_REPORT_LOWERED_H_

#include "program/program.h"

typedef struct trm_lowered_run {
  uint32_t first_tile, num_tiles; /* ipu * tiles_per_ipu + tile */
  int64_t bytes;                  /* on each */
} trm_lowered_run;

typedef struct trm_lowered_distribution {
  uint32_t first_run, num_runs;
  uint64_t hash;
  int64_t total_bytes;
} trm_lowered_distribution;

typedef struct trm_lowered {
  VECTOR(trm_lowered_run) runs;
  VECTOR(trm_lowered_distribution) distributions; /* the first has no runs */
  uint32_t *of_variable;                          /* index of a distribution */
  int64_t *always[TRM_NUM_MEMORY_CATEGORIES];     /* always live bytes by tile; NULL: none */
  trm_arena arena;
} trm_lowered;

trm_status trm_lowered_create(const trm_program *program, trm_lowered *out_lowered,
                              trm_error *error);
void trm_lowered_free(trm_lowered *lowered);

#endif /* TREMULA_REPORT_LOWERED_H_ */

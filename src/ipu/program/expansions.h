/* Bytes by tile of mappings, kept: a program has many variables and few kinds of places. */
#ifndef TREMULA_IPU_PROGRAM_EXPANSIONS_H_
#define TREMULA_IPU_PROGRAM_EXPANSIONS_H_

#include "ipu/tile/mapping.h"

enum { TRM_NUM_EXPANSIONS = 512 };

typedef struct trm_expansion {
  trm_mapping mapping;
  uint32_t alignment; /* 0: the slot is empty */
  int64_t *bytes;     /* by tile */
} trm_expansion;

/* All zeros: nothing is kept yet. Of one number of tiles. */
typedef struct trm_expansions {
  trm_expansion slots[TRM_NUM_EXPANSIONS];
  trm_arena arena;
} trm_expansions;

/* As trm_mapping_add_bytes. */
void trm_expansions_add(trm_expansions *expansions, const trm_mapping *mapping, int sign,
                        uint32_t alignment, int64_t *bytes_by_tile);
void trm_expansions_free(trm_expansions *expansions);

#endif /* TREMULA_IPU_PROGRAM_EXPANSIONS_H_ */

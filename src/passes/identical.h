/* Which values are the same on all replicas (identical.c). */
#ifndef TREMULA_PASSES_IDENTICAL_H_
#define TREMULA_PASSES_IDENTICAL_H_

#include "hlo/hlo.h"

typedef struct trm_identical {
  const uint32_t *const *first; /* by computation and instruction: its first leaf */
  bool *const *differs;         /* by computation and leaf */
} trm_identical;

/* Analyses the computations that `runs` marks: the entry and those of loops and branches. The
 * module has no calls. The result lives in the arena. With one replica all values are the same. */
trm_status trm_find_identical(const trm_module *module, const bool *runs, uint32_t replicas,
                              trm_arena *arena, trm_identical *out, trm_error *error);

/* Whether the array that an instruction gives is the same on all replicas. */
static inline bool trm_is_identical(const trm_identical *identical, uint32_t computation,
                                    trm_index instruction) {
  return !identical->differs[computation][identical->first[computation][instruction]];
}

#endif /* TREMULA_PASSES_IDENTICAL_H_ */

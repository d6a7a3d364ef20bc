/* What Build of a user's library made for an instruction: it is called once, and the result is
 * shared by the kernel and the estimate. */
#ifndef TREMULA_POPLAR_BUILD_H_
#define TREMULA_POPLAR_BUILD_H_

#include "hlo/hlo.h"
#include "poplar/plan.h"

typedef struct trm_poplar_built {
  uint32_t references;
  char *key;
  void *library;
  trm_poplar_plan *plan;
  struct trm_poplar_built *next;
} trm_poplar_built;

/* Whether a custom call tremula.user-op is a Poplar operator: "poplar" in its config is true. */
bool trm_poplar_is_operator(const trm_instruction *instruction);

/* Finds what was built for an instruction, or builds it. Release it. Several threads may call
 * both. */
trm_status trm_poplar_built_take(const trm_module *module, const trm_computation *computation,
                                 const trm_instruction *instruction, trm_poplar_built **out_built,
                                 trm_error *error);
void trm_poplar_built_release(trm_poplar_built *built);

#endif /* TREMULA_POPLAR_BUILD_H_ */

/* What a plan costs on an IPU: for the plan of a module (estimate.c), and as a text for a plain
 * program (profile.c). */
#ifndef TREMULA_POPLAR_PROFILE_H_
#define TREMULA_POPLAR_PROFILE_H_

#include "ipu/tile/cost.h"
#include "poplar/plan.h"

/* Adds the phases of a program of the plan, and the memory of the plan's variables. The note tells
 * what the estimate leaves out, or is NULL. */
trm_status trm_poplar_estimate(const trm_tile_request *request, const trm_poplar_plan *plan,
                               const trm_poplar_program *program, trm_tile_cost *cost,
                               trm_error *error);

/* Writes the summary of a plan whose program chooses one of `count` by its number, program i of
 * which ran runs[i] times. With `steps` and `variables` it lists those. */
trm_status trm_poplar_write_profile(const trm_poplar_plan *plan, const uint64_t *runs,
                                    uint32_t count, bool steps, bool variables, trm_text *text,
                                    trm_error *error);

#endif /* TREMULA_POPLAR_PROFILE_H_ */

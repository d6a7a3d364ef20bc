/* The planner's options, from JSON (api.c). */
#ifndef TREMULA_PROGRAM_PLAN_OPTIONS_H_
#define TREMULA_PROGRAM_PLAN_OPTIONS_H_

#include <jansson.h>

#include "ops/linear/plan.h"

/* Sets what an object of text to text says, in poplibs' words. `what` is what messages call its
 * owner; texts are copied into the arena. */
trm_status trm_program_add_plan_options(const json_t *object, const char *what, trm_arena *arena,
                                        trm_plan_options *options, trm_error *error);

#endif /* TREMULA_PROGRAM_PLAN_OPTIONS_H_ */

/* Options of linear plans, from JSON. */
#ifndef TREMULA_IPU_PROGRAM_PLAN_OPTIONS_H_
#define TREMULA_IPU_PROGRAM_PLAN_OPTIONS_H_

#include <jansson.h>

#include "ipu/plan/plan.h"

/* Sets options from a JSON object of texts, whose keys are PopLibs' option names. `what` names the
 * owner of the options in messages; the arena gets copies of the texts. */
trm_status trm_program_add_plan_options(const json_t *object, const char *what, trm_arena *arena,
                                        trm_plan_options *options, trm_error *error);

#endif /* TREMULA_IPU_PROGRAM_PLAN_OPTIONS_H_ */

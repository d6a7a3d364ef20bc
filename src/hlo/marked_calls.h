/* Instructions of one call of a function that the program has marked: they carry its name scope as
 * a frontend attribute, those of its gradient too, whose ops TensorFlow calls
 * "gradients/SCOPE/...". */
#ifndef TREMULA_HLO_MARKED_CALLS_H_
#define TREMULA_HLO_MARKED_CALLS_H_

#include "base/memory.h"
#include "hlo/hlo.h"

#define TRM_CALL_SCOPE "outlined_call" /* the key of calls of outlined functions */

typedef VECTOR(const char *) trm_scopes; /* texts of the module */

/* The values that the attribute `key` has in a module, each once. Free with VECTOR_FREE. */
trm_status trm_scopes_find(const trm_module *module, const char *key, trm_scopes *out_scopes,
                           trm_error *error);

/* Which of the scopes an instruction is of, and whether of its gradient; TRM_NO_INDEX: of none. */
uint32_t trm_scope_of(const trm_scopes *scopes, const char *key, const trm_instruction *instruction,
                      bool *out_is_gradient);

/* For each of the scopes the first one whose instructions are the same (itself, if it is the
 * first), or TRM_NO_INDEX where no other's are: the original makes such calls one computation. An
 * array of scopes->count items, to be freed with trm_free. */
trm_status trm_scopes_match(const trm_module *module, const trm_scopes *scopes, const char *key,
                            uint32_t **out_matches, trm_error *error);

#endif /* TREMULA_HLO_MARKED_CALLS_H_ */

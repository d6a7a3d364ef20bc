/* Declarations that the files of this folder share. */
#ifndef TREMULA_IPU_TARGET_PARSE_H_
#define TREMULA_IPU_TARGET_PARSE_H_

#include "ipu/target/target.h"

/* A description of zeros, with one reference. */
trm_status trm_target_new(trm_target **out_target, trm_error *error);
/* Everything but the reference count. */
void trm_target_copy(trm_target *to, const trm_target *from);
void trm_target_rehash(trm_target *target);
/* Takes ipuLinkDomainSize from the environment variable POPLAR_TARGET_OPTIONS, JSON. Its other keys
 * describe what estimates do not depend on. */
trm_status trm_target_take_environment(trm_target *target, trm_error *error);
/* A preset by its name or one of its other names; NULL when there is none. */
const trm_target_text *trm_target_find_text(const char *name);

#endif /* TREMULA_IPU_TARGET_PARSE_H_ */

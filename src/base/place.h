/* What the launcher's environment says of this process. */
#ifndef TREMULA_BASE_PLACE_H_
#define TREMULA_BASE_PLACE_H_

#include "tremula/group.h"

/* Rank 0 of 1 where no launcher is known. `*out_knows_local`: the local numbers are the launcher's,
 * and no guess. */
void trm_place_read(trm_group_place *out_place, bool *out_knows_local);

#endif /* TREMULA_BASE_PLACE_H_ */

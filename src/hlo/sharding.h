/* Shardings: the devices that their text names, "{maximal device=3}" or a tuple of such. */
#ifndef TREMULA_HLO_SHARDING_H_
#define TREMULA_HLO_SHARDING_H_

#include "hlo/hlo.h"

/* The first device of a sharding; -1: none (also for NULL), or one over 1023. */
int32_t trm_sharding_device(const char *sharding);
/* The highest device of a sharding, or -1. */
long trm_sharding_highest_device(const char *sharding);

/* The key of a module's side table under which the number of its shards stands: passes drop
 * shardings. */
#define TRM_SHARDS_KEY "shards"
#define TRM_MAX_SHARDS (1 << 16)
/* That number; 1 where none stands. */
uint32_t trm_module_num_shards(const trm_module *module);

#endif /* TREMULA_HLO_SHARDING_H_ */

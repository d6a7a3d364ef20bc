/* The devices that the text of a sharding names: "{maximal device=3}", or a tuple of such. */
#ifndef TREMULA_HLO_SHARDING_H_
#define TREMULA_HLO_SHARDING_H_

#include <stdint.h>

/* The first device of a sharding; -1: none (also for NULL), or one over 1023. */
int32_t trm_sharding_device(const char *sharding);
/* The highest device of a sharding, or -1. */
long trm_sharding_highest_device(const char *sharding);

#endif /* TREMULA_HLO_SHARDING_H_ */

/* The measured limits of the host (limits.def) as constants: TRM_PANEL_LEAST_SUM and so on. A
 * constant that an array's size follows from is no limit; its name begins with MAX_. */
#ifndef TREMULA_BASE_LIMITS_H_
#define TREMULA_BASE_LIMITS_H_

enum {
#define LIMIT(name, value, cpu, day, meaning) TRM_##name = (value),
#include "base/limits.def"
#undef LIMIT
};

#endif /* TREMULA_BASE_LIMITS_H_ */

/* Arithmetic of whole numbers that many files need. */
#ifndef TREMULA_BASE_INTEGERS_H_
#define TREMULA_BASE_INTEGERS_H_

#include <stdint.h>

static inline int64_t trm_least(int64_t a, int64_t b) { return a < b ? a : b; }
/* Of numbers that are not negative, `b` at least 1. */
static inline int64_t trm_divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif /* TREMULA_BASE_INTEGERS_H_ */

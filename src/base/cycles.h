/* Owns: sums and products of cycles (and of operations and bytes, counted over a run) that end at a
 * bound instead of overflowing: nested loops of many iterations exceed 64 bits. */
#ifndef TREMULA_BASE_CYCLES_H_
#define TREMULA_BASE_CYCLES_H_

#include <stdint.h>

/* Sums of a few of these are still far from overflowing. */
#define TRM_MOST_CYCLES (INT64_MAX / 4)

static inline int64_t trm_limit_cycles(double cycles) {
  return cycles >= (double)TRM_MOST_CYCLES ? TRM_MOST_CYCLES : (int64_t)cycles;
}

static inline int64_t trm_add_cycles(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? -TRM_MOST_CYCLES : TRM_MOST_CYCLES;
  return sum > TRM_MOST_CYCLES ? TRM_MOST_CYCLES : sum;
}

static inline int64_t trm_multiply_cycles(uint64_t times, int64_t cycles) {
  int64_t product;
  return __builtin_mul_overflow(times, cycles, &product) || product > TRM_MOST_CYCLES
             ? TRM_MOST_CYCLES
             : product;
}

#endif /* TREMULA_BASE_CYCLES_H_ */

/* Random values from random bits. */
#ifndef TREMULA_OPS_RANDOM_DISTRIBUTION_H_
#define TREMULA_OPS_RANDOM_DISTRIBUTION_H_

#include "ops/random/bits.h"
#include "ops/reference.h"

/* TRM_TRUNCATED_NORMAL keeps what is nearer than two deviations to the mean. */
typedef enum trm_distribution {
  TRM_UNIFORM,
  TRM_NORMAL,
  TRM_TRUNCATED_NORMAL,
  TRM_UNIFORM_INT
} trm_distribution;

/* Fills `result`, `count` elements of `dtype`. UNIFORM: low <= value < high; UNIFORM_INT too, and
 * all bits when they are equal; the normal ones, of floats: mean `low` and deviation `high`.
 * Element i follows from the stream and i alone, not from threads or instruction sets. */
void trm_distribution_fill(trm_distribution distribution, trm_dtype dtype, trm_value low,
                           trm_value high, const trm_random_stream *stream, void *result,
                           int64_t count);

#endif /* TREMULA_OPS_RANDOM_DISTRIBUTION_H_ */

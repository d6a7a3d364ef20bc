/* Random values from random bits. */
#ifndef TREMULA_HOST_OPS_RANDOM_DISTRIBUTION_H_
#define TREMULA_HOST_OPS_RANDOM_DISTRIBUTION_H_

#include "host/ops/random/bits.h"
#include "host/ops/reference.h"

/* TRM_TRUNCATED_NORMAL: values less than two deviations from the mean. */
typedef enum trm_distribution {
  TRM_UNIFORM,
  TRM_NORMAL,
  TRM_TRUNCATED_NORMAL,
  TRM_UNIFORM_INT
} trm_distribution;

/* The distribution that a tremula.random calls "uniform", "normal", "truncated_normal" or
 * "uniform_int". False for other names, and for NULL. */
bool trm_distribution_find(const char *name, trm_distribution *out_distribution);

/* Fills `result`, `count` elements of `dtype`. UNIFORM and UNIFORM_INT: low <= value < high;
 * UNIFORM_INT with equal bounds: all bits. The normal ones, for floats: mean `low` and deviation
 * `high`. Element i depends only on the stream and i, not on threads or instruction sets. */
void trm_distribution_fill(trm_distribution distribution, trm_dtype dtype, trm_value low,
                           trm_value high, const trm_random_stream *stream, void *result,
                           int64_t count);

#endif /* TREMULA_HOST_OPS_RANDOM_DISTRIBUTION_H_ */

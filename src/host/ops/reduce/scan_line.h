/* The running sum of one line of contiguous floats. */
#ifndef TREMULA_HOST_OPS_REDUCE_SCAN_LINE_H_
#define TREMULA_HOST_OPS_REDUCE_SCAN_LINE_H_

#include <stdbool.h>
#include <stdint.h>

#include "host/ops/elementwise/vector.h"

/* Adds x[0], x[1], ... (or x[0], x[-1], ..., to out[0], out[-1], ...) to `sum`, which it returns,
 * and writes every sum; without `out` only the last one. The same bits for
 * each `ops`. */
double trm_scan_line(const trm_vector_ops *ops, double sum, float *out, const float *x,
                     int64_t count, bool is_reverse);

#endif /* TREMULA_HOST_OPS_REDUCE_SCAN_LINE_H_ */

/* Sorting by any comparator that strips can compute: many merges at a time, with one call for a
 * comparison of each. */
#ifndef TREMULA_HOST_OPS_REDUCE_SORT_MERGE_H_
#define TREMULA_HOST_OPS_REDUCE_SORT_MERGE_H_

#include "host/ops/reduce/fast_reduce.h"

typedef struct sort_merge {
  trm_function less;
  uint32_t num_operands;
  uint8_t log2[REDUCE_MAX_OPERANDS];
  int64_t n, stride, block; /* lines that are sorted together */
} sort_merge;

/* Sets *out_supported to false for comparators that only the reference kernel can compute. */
trm_status trm_sort_merge_create(const trm_kernel_request *request, int64_t n, int64_t stride,
                                 sort_merge *out_merge, bool *out_supported, trm_error *error);
size_t trm_sort_merge_bytes(const sort_merge *merge);
/* Sorts lines [begin, end), stably. A comparator that is no order gives some permutation. */
void trm_sort_merge_lines(const sort_merge *merge, const trm_kernel_call *call, int64_t begin,
                          int64_t end, void *scratch);

#endif /* TREMULA_HOST_OPS_REDUCE_SORT_MERGE_H_ */

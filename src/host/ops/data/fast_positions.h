/* The places of the slices of gather and scatter, found from many index vectors at a time. */
#ifndef TREMULA_HOST_OPS_DATA_FAST_POSITIONS_H_
#define TREMULA_HOST_OPS_DATA_FAST_POSITIONS_H_

#include "host/ops/kernel.h"

enum { TRM_POSITIONS_AT_ONCE = 256 };

/* The batch positions of a gather or scatter. Strides are in elements. */
typedef struct trm_positions {
  int32_t batch_rank, num_indexed;
  trm_dtype index_dtype;
  int64_t count;
  int64_t batch_dims[TRM_MAX_RANK]; /* those of the indices, without the vector dimension */
  int64_t batch_index_strides[TRM_MAX_RANK];   /* in the indices */
  int64_t batch_other_strides[TRM_MAX_RANK];   /* in the result (gather) or the updates (scatter) */
  int64_t batch_operand_strides[TRM_MAX_RANK]; /* of batching dimensions; else 0 */
  int64_t vector_stride;
  int64_t indexed_strides[TRM_MAX_RANK]; /* of the operand, by component of the index vector */
  int64_t indexed_highest[TRM_MAX_RANK];
} trm_positions;

bool trm_positions_is_integer(trm_dtype dtype);
/* Loads an index of any integer type. A huge unsigned index stays out of bounds. */
int64_t trm_positions_load(trm_dtype dtype, const void *array, int64_t i);

/* Finds where slices [first, first + count), at most TRM_POSITIONS_AT_ONCE, start in the operand,
 * and in the result or the updates. `clamps`: moves slices into the operand; otherwise a slice that
 * does not fit has the place -1. */
void trm_positions_find(const trm_positions *positions, const void *indices, int64_t first,
                        int64_t count, bool clamps, int64_t *out_operand, int64_t *out_other);

/* Merges contiguous batch dimensions; at least one stays. Called once, before the others. */
void trm_positions_collapse(trm_positions *positions);

/* Gathers single elements for the positions [begin, end). False, with nothing done, for a type
 * without a loop. */
bool trm_positions_gather(const trm_positions *positions, uint8_t log2_size, const void *operand,
                          const void *indices, void *result, int64_t begin, int64_t end);

#endif /* TREMULA_HOST_OPS_DATA_FAST_POSITIONS_H_ */

/* Moves: copying a block of elements from one strided place to another, the core of every fast
 * kernel of the data family. A move is made once and run at different places. */
#ifndef TREMULA_HOST_OPS_DATA_FAST_MOVE_H_
#define TREMULA_HOST_OPS_DATA_FAST_MOVE_H_

#include "host/ops/elementwise/vector.h"

typedef enum trm_move_kind {
  MOVE_NOTHING,   /* no elements */
  MOVE_RUNS,      /* the innermost dimension is contiguous on both sides */
  MOVE_STRIDED,   /* contiguous in the target */
  MOVE_TRANSPOSE, /* contiguous in the target in one dimension, in the source in another */
  MOVE_SCATTERED  /* contiguous in neither, or only in the source */
} trm_move_kind;

/* Strides are in elements. The innermost dimension is the last. In a MOVE_TRANSPOSE the one before
 * it is contiguous in the source. */
typedef struct trm_move {
  trm_move_kind kind;
  uint8_t log2_size;
  int32_t rank; /* at least 1, unless there are no elements */
  int64_t dims[TRM_MAX_RANK], to[TRM_MAX_RANK], from[TRM_MAX_RANK];
  int64_t count, outer;      /* elements; the product of the outer dimensions */
  int64_t block, num_blocks; /* how threads split the inner part */
} trm_move;

/* Makes a move. element_bytes is 1, 2, 4 or 8. No two elements may have the same place in `to`. */
void trm_move_make(int32_t rank, const int64_t *dims, const int64_t *to, const int64_t *from,
                   size_t element_bytes, trm_move *out_move);
/* Moves; to and from point to the block's first elements. may_thread: large moves use threads. */
void trm_move_run(const trm_move *move, void *to, const void *from, bool may_thread);
/* n elements, one after the other; strides in elements. */
void trm_move_scatter(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n,
                      uint8_t log2_size);
/* Copies bytes. Many use threads. */
void trm_move_bytes(void *to, const void *from, size_t bytes);

#endif /* TREMULA_HOST_OPS_DATA_FAST_MOVE_H_ */

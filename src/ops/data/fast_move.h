/* Moving a block of elements from one strided place to another: what every fast kernel of the data
 * family comes down to. A move is made once and run with different bases. */
#ifndef TREMULA_OPS_DATA_FAST_MOVE_H_
#define TREMULA_OPS_DATA_FAST_MOVE_H_

#include "ops/elementwise/vector.h"

typedef enum trm_move_kind {
  MOVE_NOTHING,   /* no elements */
  MOVE_RUNS,      /* the innermost dimension is contiguous on both sides */
  MOVE_STRIDED,   /* contiguous where it is written */
  MOVE_TRANSPOSE, /* contiguous where it is written; another dimension where it is read */
  MOVE_SCATTERED  /* contiguous on neither side, or only where it is read */
} trm_move_kind;

/* Strides in elements. The innermost dimension is the last; for MOVE_TRANSPOSE the one before it
 * is that which is contiguous where it is read. */
typedef struct trm_move {
  trm_move_kind kind;
  uint8_t log2_size;
  int32_t rank; /* at least 1, unless there is nothing */
  int64_t dims[TRM_MAX_RANK], to[TRM_MAX_RANK], from[TRM_MAX_RANK];
  int64_t count, outer;      /* elements; product of the dims that are walked */
  int64_t block, num_blocks; /* how the inner part is cut for threads */
} trm_move;

/* element_bytes is 1, 2, 4 or 8. `to` must not overlap itself. */
void trm_move_make(int32_t rank, const int64_t *dims, const int64_t *to, const int64_t *from,
                   size_t element_bytes, trm_move *out_move);
/* to and from point to the block's first elements. With may_thread, large moves use threads. */
void trm_move_run(const trm_move *move, void *to, const void *from, bool may_thread);
/* Fills n elements with one; copies bytes: with threads when large. */
void trm_move_fill(void *to, const void *value, uint8_t log2_size, int64_t n);
void trm_move_bytes(void *to, const void *from, size_t bytes);

#endif /* TREMULA_OPS_DATA_FAST_MOVE_H_ */

/* Owns: making and running moves (fast_move.h). */
#include "host/ops/data/fast_move.h"

#include <string.h>

#include "host/ops/threads.h"

/* A transpose moves a cache line's width of columns at a time, from the first row to the last, and
 * so writes whole lines one after the other. Lines a multiple of a page apart push each other out
 * of the caches: with wider blocks 1024 x 1024 floats took nearly three times as long. */
enum { LINE_BYTES = 64, TRANSPOSE_ROWS = 64, RUN_BLOCK_BYTES = 64 * 1024 };

/* Drops dimensions of size 1, and merges neighbours that are contiguous on both sides. */
static void collapse(trm_move *move) {
  int32_t rank = 0;
  for (int32_t d = 0; d < move->rank; ++d) {
    if (move->dims[d] == 1) continue;
    if (rank > 0 && move->to[rank - 1] == move->to[d] * move->dims[d] &&
        move->from[rank - 1] == move->from[d] * move->dims[d]) {
      move->dims[rank - 1] *= move->dims[d];
      move->to[rank - 1] = move->to[d];
      move->from[rank - 1] = move->from[d];
      continue;
    }
    move->dims[rank] = move->dims[d];
    move->to[rank] = move->to[d];
    move->from[rank++] = move->from[d];
  }
  if (rank == 0) move->dims[0] = 1, move->to[0] = move->from[0] = 1, rank = 1;
  move->rank = rank;
}

/* Moves dimension d to the later place `where`. */
static void move_dimension(trm_move *move, int32_t d, int32_t where) {
  const int64_t dim = move->dims[d], to = move->to[d], from = move->from[d];
  for (; d < where; ++d) {
    move->dims[d] = move->dims[d + 1];
    move->to[d] = move->to[d + 1];
    move->from[d] = move->from[d + 1];
  }
  move->dims[where] = dim, move->to[where] = to, move->from[where] = from;
}

void trm_move_make(int32_t rank, const int64_t *dims, const int64_t *to, const int64_t *from,
                   size_t element_bytes, trm_move *out_move) {
  trm_move move = {.log2_size = (uint8_t)__builtin_ctzll(element_bytes), .rank = rank, .count = 1};
  for (int32_t d = 0; d < rank; ++d) {
    move.dims[d] = dims[d], move.to[d] = to[d], move.from[d] = from[d];
    move.count *= dims[d];
  }
  if (move.count == 0) {
    *out_move = move;
    return;
  }
  collapse(&move);
  const int32_t last = move.rank - 1;
  move.kind = move.to[last] != 1 ? MOVE_SCATTERED : move.from[last] == 1 ? MOVE_RUNS : MOVE_STRIDED;
  move.block = RUN_BLOCK_BYTES >> move.log2_size;
  move.num_blocks = (move.dims[last] + move.block - 1) / move.block;
  move.outer = move.count / move.dims[last];
  if (move.kind == MOVE_STRIDED && move.from[last] != 0 && last > 0) {
    for (int32_t d = 0; d < last; ++d) {
      if (move.from[d] != 1 || move.dims[d] < 4) continue;
      move_dimension(&move, d, last - 1);
      move.kind = MOVE_TRANSPOSE;
      move.block = LINE_BYTES >> move.log2_size;
      move.num_blocks = (move.dims[last - 1] + move.block - 1) / move.block;
      move.outer /= move.dims[last - 1];
      break;
    }
  }
  *out_move = move;
}

typedef struct move_run {
  const trm_move *move;
  const trm_vector_ops *ops;
  char *to;
  const char *from;
} move_run;

static void copy_run(char *to, const char *from, size_t bytes) {
  switch (bytes) { /* a call costs more than a short copy */
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    case 12: memcpy(to, from, 12); break;
    case 16: memcpy(to, from, 16); break;
    default: memcpy(to, from, bytes); break;
  }
}

#define SCATTERED(T)                                                                       \
  do {                                                                                     \
    for (int64_t i = 0; i < n; ++i)                                                        \
      ((T *)(void *)to)[i * to_stride] = ((const T *)(const void *)from)[i * from_stride]; \
  } while (0)

void trm_move_scatter(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n,
                      uint8_t log2_size) {
  switch (log2_size) {
    case 0: SCATTERED(uint8_t); break;
    case 1: SCATTERED(uint16_t); break;
    case 2: SCATTERED(uint32_t); break;
    default: SCATTERED(uint64_t); break;
  }
}

/* Moves one block of the inner part, at the offsets of the outer index. */
static void move_block(const move_run *run, int64_t to, int64_t from, int64_t block) {
  const trm_move *move = run->move;
  const int32_t last = move->rank - 1;
  const int64_t size = (int64_t)1 << move->log2_size;
  const int32_t cut = move->kind == MOVE_TRANSPOSE ? last - 1 : last;
  const int64_t start = block * move->block;
  const int64_t rest = move->dims[cut] - start, n = rest < move->block ? rest : move->block;
  char *out = run->to + (to + start * move->to[cut]) * size;
  const char *in = run->from + (from + start * move->from[cut]) * size;
  switch (move->kind) {
    case MOVE_RUNS: copy_run(out, in, (size_t)(n * size)); break;
    case MOVE_STRIDED:
      run->ops->strided[move->log2_size](out, in, move->from[last], (size_t)n);
      break;
    case MOVE_TRANSPOSE:
      for (int64_t i = 0; i < move->dims[last]; i += TRANSPOSE_ROWS) {
        const int64_t m =
            move->dims[last] - i < TRANSPOSE_ROWS ? move->dims[last] - i : TRANSPOSE_ROWS;
        run->ops->transpose[move->log2_size](out + i * size, move->to[cut],
                                             in + i * move->from[last] * size, move->from[last],
                                             (size_t)m, (size_t)n);
      }
      break;
    case MOVE_SCATTERED:
      trm_move_scatter(out, move->to[last], in, move->from[last], n, move->log2_size);
      break;
    default: break;
  }
}

static void move_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const move_run *run = context;
  const trm_move *move = run->move;
  const int32_t walked = move->rank - (move->kind == MOVE_TRANSPOSE ? 2 : 1);
  int64_t index[TRM_MAX_RANK] = {0}, to = 0, from = 0;
  int64_t rest = begin / move->num_blocks, block = begin % move->num_blocks;
  for (int32_t d = walked - 1; d >= 0; --d) {
    index[d] = rest % move->dims[d];
    rest /= move->dims[d];
    to += index[d] * move->to[d];
    from += index[d] * move->from[d];
  }
  for (int64_t i = begin; i < end; ++i) {
    move_block(run, to, from, block);
    if (++block < move->num_blocks) continue;
    block = 0;
    for (int32_t d = walked - 1; d >= 0; --d) {
      to += move->to[d], from += move->from[d];
      if (++index[d] < move->dims[d]) break;
      to -= move->dims[d] * move->to[d], from -= move->dims[d] * move->from[d];
      index[d] = 0;
    }
  }
}

void trm_move_run(const trm_move *move, void *to, const void *from, bool may_thread) {
  if (move->kind == MOVE_NOTHING) return;
  const move_run run = {move, trm_vector_ops_get(), to, from};
  const int threads =
      may_thread ? trm_threads_for((size_t)move->count << (move->log2_size + 1)) : 1;
  trm_parallel_ranges(threads, move->outer * move->num_blocks, move_range, &run);
}

typedef struct copy_bytes {
  char *to;
  const char *from;
} copy_bytes;

static void copy_range(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const copy_bytes *run = context;
  memcpy(run->to + begin, run->from + begin, (size_t)(end - begin));
}

void trm_move_bytes(void *to, const void *from, size_t bytes) {
  if (to == from || bytes == 0) return;
  const copy_bytes run = {to, from};
  trm_parallel_ranges(trm_threads_for(2 * bytes), (int64_t)bytes, copy_range, &run);
}

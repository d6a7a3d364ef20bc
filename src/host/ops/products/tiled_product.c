/* Owns: tiles of a matrix product, each an sgemm on one thread. */
#include "host/ops/products/tiled_product.h"

#include <oneapi/dnnl/dnnl.h>

#include "base/limits.h"
#include "host/ops/threads.h"

#define LANES 16 /* of sgemm's vectors */

typedef struct job {
  const trm_tiled_product *p;
  const float *lhs, *rhs;
  float *out;
} job;

static int64_t count_of(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

/* The side of a tile, which depends on the sizes only. */
static int64_t tile_of(const trm_tiled_product *p) {
  int64_t tile = TRM_SGEMM_MOST_TILE;
  while (tile > TRM_SGEMM_LEAST_TILE &&
         count_of(p->rows, tile) * count_of(p->columns, tile) < TRM_SGEMM_LEAST_TILES) {
    tile /= 2;
  }
  return tile;
}

static int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* The rows or columns of a tile where `size` are cut into as many equal tiles as `tile` makes. */
static int64_t even(int64_t size, int64_t tile) {
  const int64_t count = count_of(size, tile);
  return ((size + count - 1) / count + LANES - 1) / LANES * LANES;
}

/* The stride between rows or columns of an operand. sgemm wants at least the length of a line, also
 * for a single line. */
static int64_t leading(const trm_tiled_product *p, int side, bool is_transposed, int64_t line) {
  const int64_t stride = is_transposed ? p->column_stride[side] : p->row_stride[side];
  return stride > line ? stride : line;
}

static void run_tile(const job *own, int64_t tile) {
  const trm_tiled_product *p = own->p;
  const int64_t high = even(p->rows, tile_of(p)), wide = even(p->columns, tile_of(p));
  const int64_t across = count_of(p->columns, wide), down = count_of(p->rows, high);
  const int64_t column = tile % across * wide, row = tile / across % down * high;
  const int64_t batch = tile / across / down;
  const float *operands[2] = {own->lhs + row * p->row_stride[TRM_PRODUCT_LHS],
                              own->rhs + column * p->column_stride[TRM_PRODUCT_RHS]};
  int64_t rest = batch;
  for (int32_t d = p->batch_rank - 1; d >= 0; --d) {
    const int64_t index = rest % p->batch[d];
    rest /= p->batch[d];
    for (int i = 0; i < 2; ++i) operands[i] += index * p->batch_strides[i][d];
  }
  float *out = own->out + (batch * p->rows + row) * p->columns + column;
  const int64_t rows = smaller_of(p->rows - row, high),
                columns = smaller_of(p->columns - column, wide);
  const bool lhs_transposed = p->column_stride[TRM_PRODUCT_LHS] != 1;
  const bool rhs_transposed = p->column_stride[TRM_PRODUCT_RHS] != 1;
  (void)dnnl_sgemm(
      lhs_transposed ? 'T' : 'N', rhs_transposed ? 'T' : 'N', rows, columns, p->inner, 1,
      operands[0], leading(p, TRM_PRODUCT_LHS, lhs_transposed, lhs_transposed ? rows : p->inner),
      operands[1], leading(p, TRM_PRODUCT_RHS, rhs_transposed, rhs_transposed ? p->inner : columns),
      0, out, p->columns);
}

static void run_tiles(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  /* oneDNN takes one thread in a team, and else as many as there are. */
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  for (int64_t tile = begin; tile < end; ++tile) run_tile(context, tile);
  omp_set_num_threads(threads);
}

void trm_tiled_product_run(const void *data, const void *lhs, const void *rhs, void *out) {
  const trm_tiled_product *p = data;
  const job own = {p, lhs, rhs, out};
  int64_t tiles = count_of(p->rows, even(p->rows, tile_of(p))) *
                  count_of(p->columns, even(p->columns, tile_of(p)));
  /* Four operations cost as much as a byte. */
  double work = (double)p->rows * (double)p->columns * (double)p->inner / 2;
  for (int32_t d = 0; d < p->batch_rank; ++d) tiles *= p->batch[d], work *= (double)p->batch[d];
  trm_parallel_ranges(trm_threads_for(work < 0x1p60 ? (size_t)work : (size_t)1 << 60), tiles,
                      run_tiles, &own);
}

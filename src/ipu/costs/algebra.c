/* Owns: cholesky, QR and fft on an IPU; solving is in solve.c. All are blocked: small
 * factorisations on a tile between matrix multiplications over all tiles, whose cycles are those of
 * the convolution units at half their peak. Formulas: docs/cost_model.md, "Algebra". */
#include <math.h>
#include <string.h>

#include "ipu/costs/linear.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

/* A matmul of m x k by k x n, `batch` times side by side, repeated `times` times. */
static trm_status add_matmul(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                             int64_t batch, int64_t m, int64_t k, int64_t n, int64_t times,
                             trm_error *error) {
  /* A product that is too large for the planner is done in pieces, one after the other. */
  const int64_t most_rows = INT64_C(1) << 28;
  if (m > most_rows) {
    times *= trm_ceil_divide(m, most_rows);
    m = most_rows;
  }
  trm_linear_plan *plan;
  TRY(trm_tile_plan_matmul(request, cost, batch, m, k, n, &plan, error));
  return trm_tile_add_plan(request, cost, plan, name, times, error);
}

/* The work of one tile on a block in scalar code: block^3 / divisor multiply-adds of 5 cycles. */
static trm_status add_block(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                            const char *codelet, int64_t batch, int64_t block, double divisor,
                            int64_t times, trm_error *error) {
  const double work = (double)block * (double)block * (double)block / divisor;
  const int64_t tiles = trm_least(batch, request->target->tiles_per_ipu);
  const int64_t rounds = trm_ceil_divide(batch, tiles);
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", block * block * 4 * rounds,
                            block * block * 4 * batch, block * block * 4, block, error));
  cost->phases.items[cost->phases.count - 1].repeats = times;
  TRY(trm_tile_add_compute(request, cost, name, codelet, (uint32_t)tiles, 1,
                           (int64_t)((200 + 5 * work + 30 * (double)block) * (double)rounds), 1.0,
                           2, (int64_t)(2 * work) * batch, error));
  cost->phases.items[cost->phases.count - 1].repeats = times;
  return TRM_OK;
}

static int64_t batch_of(const trm_shape *shape, int32_t inner) {
  int64_t batch = 1;
  for (int32_t d = 0; d < shape->rank - inner; ++d) batch *= shape->dims[d];
  return batch;
}

enum { BLOCK = 64 }; /* near the default of poplibs' block sizes */

trm_status trm_tile_algebra(const trm_tile_request *request, trm_tile_cost *cost,
                            trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  if (request->num_operands == 0) return TRM_OK;
  const trm_shape *a = &request->operands[0].shape;
  if (trm_shape_count(a) == 0 || a->rank < 2) return TRM_OK;
  const int64_t n = a->dims[a->rank - 1], batch = batch_of(a, 2);
  const int64_t most = request->options->factor_block > 0 ? request->options->factor_block : BLOCK;
  const int64_t block = trm_least(n, most), blocks = trm_ceil_divide(n, block);
  if (trm_instruction_acts_as(instruction) == TRM_OP_TRIANGULAR_SOLVE) {
    return trm_tile_triangular_solve(request, cost, error);
  }
  if (trm_instruction_acts_as(instruction) == TRM_OP_CHOLESKY) {
    TRY(add_block(request, cost, "CholeskyBlock", "poplin::Cholesky<float>", batch, block, 3,
                  blocks, error));
    if (blocks == 1) return TRM_OK;
    TRY(add_block(request, cost, "InvertBlock", "poplin::TriangularSolve<float>", batch, block, 3,
                  blocks - 1, error));
    TRY(add_matmul(request, cost, "Cholesky/Panel", batch, trm_most(1, n / 2), block, block,
                   blocks - 1, error));
    return add_matmul(request, cost, "Cholesky/Update", batch, trm_most(1, n / 2), block,
                      trm_most(1, n / 2), blocks - 1, error);
  }
  /* QR: a Householder panel, its update of the rest, and Q. */
  const int64_t rows = a->dims[a->rank - 2];
  const int64_t panels = trm_ceil_divide(trm_least(rows, n), block);
  TRY(add_block(request, cost, "Householder", "poplin::Householder<float>", batch, block, 1.0 / 2,
                panels, error));
  return add_matmul(request, cost, "QR/Update", batch, rows, block, n, 3 * panels, error);
}

trm_status trm_tile_fft(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  if (request->num_operands == 0 || trm_shape_count(&request->operands[0].shape) == 0) {
    return TRM_OK;
  }
  const trm_shape *x = &request->operands[0].shape;
  /* popfft: radix-2 steps down to a matrix of at most 32 points, which multiplies. Real and
   * imaginary parts are two matmuls each. */
  for (int32_t d = 0; d < instruction->sizes.count; ++d) {
    const int64_t length = trm_most(1, instruction->sizes.items[d]);
    int64_t point = length, steps = 0;
    while (point > 32 && point % 2 == 0) point /= 2, ++steps;
    const int64_t rows = trm_most(1, trm_shape_count(x) / length) * (length / trm_most(1, point));
    TRY(add_matmul(request, cost, "FFT/MatMul", 1, rows * 2, point, point * 2, 1, error));
    if (steps == 0) continue;
    const trm_mapping place =
        trm_mapping_linear(request->target, x, request->ipu, request->next_tile);
    const int64_t workers = request->target->num_worker_contexts;
    TRY(trm_tile_add_exchange(request, cost, "ExchangePre", trm_mapping_worst_bytes(&place),
                              trm_mapping_total_bytes(&place), trm_mapping_worst_bytes(&place), 4,
                              error));
    cost->phases.items[cost->phases.count - 1].repeats = steps;
    TRY(trm_tile_add_compute(request, cost, "FFT/Butterfly", "popops::map_float_4", place.regions,
                             1, workers * (30 + trm_ceil_divide(place.worst, workers) * 10) + 11,
                             trm_mapping_evenness(&place), 4, 10 * place.count, error));
    cost->phases.items[cost->phases.count - 1].repeats = steps;
  }
  return TRM_OK;
}

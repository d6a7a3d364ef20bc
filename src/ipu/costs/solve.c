/* Owns: triangular-solve on an IPU, as poplin does it. The triangle is copied, divided by its
 * diagonal, and halved until blocks are left. A block is solved row by row: a product of the row
 * with the solved part, a subtraction, a copy; all blocks of a solve share that code. Matrix
 * multiplications connect the halves. Formulas: docs/cost_model.md, "Algebra". */
#include "ipu/costs/linear.h"
#include "ipu/tile/exchange.h"

enum { DEFAULT_BLOCK = 64, SUBTRACT = 3, DIVIDE = 10 }; /* cycles of two floats: tile_table.def */

/* The sizes of a solve: n x n by n x columns, `batch` times. */
typedef struct solve {
  int64_t batch, n, columns;
  int64_t block;  /* rows that are solved one after the other */
  int64_t width;  /* columns of the right sides */
  int64_t levels; /* halvings of n until a block is left */
  bool in_blocks;
} solve;

static solve sizes_of(const trm_tile_request *request) {
  const trm_shape *a = &request->operands[0].shape, *b = &request->operands[1].shape;
  solve s = {.batch = 1, .n = a->dims[a->rank - 1]};
  for (int32_t d = 0; d < a->rank - 2; ++d) s.batch *= a->dims[d];
  s.columns = trm_most(1, trm_shape_count(b) / trm_most(1, s.n * s.batch));
  s.block = request->options->solve_block > 0 ? request->options->solve_block : DEFAULT_BLOCK;
  s.width = s.columns;
  for (int64_t size = s.block; size < s.n; size *= 2) {
    s.width = (s.width + 1) / 2;
    ++s.levels;
  }
  s.in_blocks = s.levels > 0;
  if (!s.in_blocks) s.block = s.n;
  return s;
}

/* Messages of a tile where both mappings spread the floats evenly: one that it sends, one that it
 * receives. */
enum { PIECES = 2 };

/* An elementwise step of popops on `count` evenly spread floats, `times` times. A product that is
 * subtracted is first fetched from its plan's mapping. */
static trm_status add_elementwise(const trm_tile_request *request, trm_tile_cost *cost,
                                  const char *name, const char *codelet, int64_t count,
                                  int64_t cycles_of_two, int64_t times, trm_error *error) {
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t tiles = trm_least(request->target->tiles_per_ipu, trm_ceil_divide(count, 2));
  const int64_t worst = trm_ceil_divide(count, tiles), each = trm_ceil_divide(worst, workers);
  if (cycles_of_two == SUBTRACT) {
    TRY(trm_tile_add_exchange(request, cost, name, worst * 4, count * 4, worst * 4, PIECES, error));
    cost->phases.items[cost->phases.count - 1].repeats = times;
  }
  TRY(trm_tile_add_compute(request, cost, name, codelet, (uint32_t)tiles, 1,
                           workers * (29 + trm_ceil_divide(each, 2) * cycles_of_two) + 11, 1.0, 3,
                           count, error));
  cost->phases.items[cost->phases.count - 1].repeats = times;
  return TRM_OK;
}

/* Copies `count` floats to the place where a step needs them: between tiles, then in order. */
static trm_status add_move(const trm_tile_request *request, trm_tile_cost *cost, const char *name,
                           int64_t count, int64_t run, int64_t times, trm_error *error) {
  const int64_t tiles = trm_least(request->target->tiles_per_ipu, trm_ceil_divide(count, 2));
  const int64_t worst = trm_ceil_divide(count, tiles) * 4;
  const size_t first = cost->phases.count;
  TRY(trm_tile_add_exchange(request, cost, name, worst, count * 4, worst, PIECES, error));
  TRY(trm_tile_add_copy(request, cost, name, worst, count * 4, run * 4, (uint32_t)tiles, error));
  for (size_t p = first; p < cost->phases.count; ++p) cost->phases.items[p].repeats = times;
  return TRM_OK;
}

/* The rows of a block, for every block: calls of one function. */
static trm_status add_rows(const trm_tile_request *request, trm_tile_cost *cost, const solve *s,
                           int64_t calls, trm_error *error) {
  const int64_t square = s->batch * s->block * s->block, sides = s->batch * s->block * s->width;
  if (s->in_blocks) {
    TRY(add_move(request, cost, "solve/OnTileCopy", square + 2 * sides, 16, calls, error));
  }
  for (int64_t row = 1; row < s->block; ++row) {
    trm_linear_plan *plan;
    TRY(trm_tile_plan_matmul(request, cost, s->batch, 1, row, s->width, &plan, error));
    const char *product = trm_arena_format(cost->arena, "solve/substituteX%d", (int)row);
    const char *difference =
        trm_arena_format(cost->arena, "solve/substituteB%d/Op/Subtract", (int)row);
    CHECK_MEMORY(product, "a cost");
    CHECK_MEMORY(difference, "a cost");
    /* The row and the solved part are parts of arrays with other mappings; a rearrangement of the
     * plan's own brings its operand. */
    const int64_t moved =
        (plan->inputs_rearranged ? 0 : row) + (plan->weights_rearranged ? 0 : row * s->width);
    if (moved > 0) {
      TRY(add_move(request, cost, "solve/preRegroup", s->batch * moved, 1, calls, error));
    }
    TRY(trm_tile_add_plan(request, cost, plan, product, calls, error));
    TRY(add_elementwise(request, cost, difference, "popops::BinaryOp1D<SUBTRACT,float>",
                        s->batch * s->width, SUBTRACT, calls, error));
    TRY(add_move(request, cost, "solve/OnTileCopy", s->batch * s->width, 1, calls, error));
  }
  return TRM_OK;
}

trm_status trm_tile_triangular_solve(const trm_tile_request *request, trm_tile_cost *cost,
                                     trm_error *error) {
  const trm_triangular_solve *options = request->instruction->triangular_solve;
  const solve s = sizes_of(request);
  const int64_t matrix = s.batch * s.n * s.n, sides = s.batch * s.n * s.columns;
  TRY(add_move(request, cost, "triangularMask", matrix, s.n, 1, error));
  if (options == NULL || !options->unit_diagonal) {
    TRY(add_elementwise(request, cost, "scaleA/Op/Divide",
                        "popops::BinaryOp1DInPlace<DIVIDE,float>", matrix, DIVIDE, 1, error));
    TRY(add_elementwise(request, cost, "scaleB/Op/Divide", "popops::BinaryOp1D<DIVIDE,float>",
                        sides, DIVIDE, 1, error));
  }
  /* The triangle and the scaled right sides take the place of operands that are not needed
   * again. */
  const int64_t tiles = request->target->tiles_per_ipu;
  int64_t live = (request->operands[0].dies ? 0 : matrix) +
                 (request->operands[1].dies || s.columns == 0 ? 0 : sides);
  int64_t rows = s.n, columns = s.columns, calls = 1;
  for (int64_t level = 0; level < s.levels; ++level) {
    rows = (rows + 1) / 2;
    const int64_t parts = columns > 1 ? 2 : 1; /* of the columns, each with its product */
    columns = (columns + 1) / 2;
    calls *= parts;
    trm_linear_plan *plan;
    TRY(trm_tile_plan_matmul(request, cost, s.batch, rows, rows, columns, &plan, error));
    TRY(add_move(request, cost, "solve/matmulInput", s.batch * rows * (rows + columns), 16, calls,
                 error));
    TRY(trm_tile_add_plan(request, cost, plan, "solve/A21*X11", calls, error));
    TRY(add_elementwise(request, cost, "solve/B21-A21*X11/Op/Subtract",
                        "popops::BinaryOp1D<SUBTRACT,float>", s.batch * rows * columns, SUBTRACT,
                        calls, error));
    live += s.batch * rows * columns; /* the other half of the right sides */
    calls *= 2;
  }
  if (s.in_blocks) live += s.batch * s.block * (s.block + 2 * s.width);
  TRY(add_rows(request, cost, &s, calls, error));
  cost->temporary_total = live * 4;
  cost->temporary_worst = trm_ceil_divide(live, tiles) * 4;
  return TRM_OK;
}

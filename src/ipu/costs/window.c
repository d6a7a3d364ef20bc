/* Owns: reduce-window (pooling, cumulative sums) and select-and-scatter on an IPU. Formulas:
 * docs/cost_model.md, "Windows". */
#include <math.h>

#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

static int64_t window_size(const trm_window *window) {
  int64_t size = 1;
  for (int32_t d = 0; d < window->rank; ++d) size *= trm_most(1, window->dims[d].size);
  return size;
}

/* ---- Pooling --------------------------------------------------------------------------------- */

enum { POOL_CHANNELS = 8 }; /* of a group: popnn's number for halves and floats */

/* An array that windows slide over: rows of positions, groups of channels. */
typedef struct pooling {
  int64_t rows, columns, groups, vectors; /* vectors of a group's channels */
  int64_t window, height, width;          /* elements; positions in a column, and in a row, of it */
  double row_step, column_step;           /* strides; of the gradient: results for each element */
  bool gradient;
  int64_t image_rows, result_rows, result_columns; /* of the gradient, of one image */
} pooling;

/* A division of the work over tiles, and its cost. */
typedef struct pooling_plan {
  uint32_t tiles;
  int64_t read; /* elements of one operand that the tile reads */
  int64_t cycles;
} pooling_plan;

/* The dimensions with windows are rows; the last of them are columns. The last dimension without a
 * window after those is channels; all others are rows too. In the gradient positions are those of
 * the operand, and `results` is the shape of the windows' results; else NULL. */
static pooling pooling_of(const trm_window *window, const trm_shape *shape,
                          const trm_shape *results) {
  pooling p = {.rows = 1,
               .columns = 1,
               .groups = 1,
               .vectors = 1,
               .window = window_size(window),
               .height = 1,
               .width = 1,
               .row_step = 1,
               .column_step = 1,
               .gradient = results != NULL,
               .image_rows = 1,
               .result_rows = 1,
               .result_columns = 1};
  int32_t column = -1;
  for (int32_t d = 0; d < window->rank && d < shape->rank; ++d) {
    if (window->dims[d].size > 1) column = d;
  }
  const int32_t last = shape->rank - 1;
  const bool has_channels = last >= 0 && last != column;
  for (int32_t d = 0; d < shape->rank; ++d) {
    const int64_t size = shape->dims[d];
    const trm_window_dimension *w = d < window->rank ? &window->dims[d] : NULL;
    const double stride = w == NULL ? 1 : (double)trm_most(1, w->stride);
    if (d == column) {
      p.columns = size;
      p.width = w->size;
      p.column_step = stride;
      if (p.gradient && d < results->rank) p.result_columns = trm_most(1, results->dims[d]);
    } else if (has_channels && d == last) {
      const int64_t lanes = trm_tile_vector_width(shape->dtype);
      p.groups = trm_ceil_divide(size, POOL_CHANNELS);
      p.vectors = trm_ceil_divide(trm_least(size, POOL_CHANNELS), lanes);
    } else {
      p.rows *= size;
      if (w != NULL && w->size > 1) {
        p.height *= w->size;
        p.row_step *= stride;
        p.image_rows *= trm_most(1, size);
        if (p.gradient && d < results->rank) p.result_rows *= trm_most(1, results->dims[d]);
      }
    }
  }
  return p;
}

/* Cycles of a tile's vertices with this many rows, columns and groups: docs/cost_model.md,
 * "Windows". */
static int64_t pooling_cycles(const pooling *p, int64_t workers, int64_t rows, int64_t columns,
                              int64_t groups) {
  const int64_t share = trm_least(columns, trm_most(1, workers / rows)); /* workers for each row */
  const int64_t each = trm_ceil_divide(rows, workers);
  int64_t length = trm_ceil_divide(columns, share), items = p->window;
  int64_t vector = 3 + 4 + 3 * (length - 1), group = 13;
  if (p->gradient) { /* a window element meets every so many positions, and no more than results */
    const double reach = (double)length + (double)(p->result_columns - 1) * p->column_step;
    items = trm_least((int64_t)ceil((double)p->height / p->row_step), p->result_rows) *
            trm_least(p->width, (int64_t)ceil(reach));
    length = trm_least((int64_t)ceil((double)length / p->column_step), p->result_columns);
    vector = 3 + 7 + 5 * (length - 1);
    group = 23;
  }
  const int64_t filled = trm_ceil_divide(rows * columns * groups * p->vectors, workers);
  return workers *
             (25 + filled + each * (17 + items * (23 + groups * (group + p->vectors * vector)))) +
         13;
}

/* Finds the fastest division into groups, then rows, then columns. */
static pooling_plan plan_pooling(const trm_target *target, const pooling *p) {
  const int64_t all = target->tiles_per_ipu, workers = target->num_worker_contexts;
  pooling_plan best = {.cycles = INT64_MAX};
  for (int64_t groups = 1; groups <= p->groups && groups <= all; ++groups) {
    const int64_t g = trm_ceil_divide(p->groups, groups);
    if (trm_ceil_divide(p->groups, g) != groups) continue;
    const int64_t rows = trm_least(p->rows, all / groups);
    const int64_t columns = trm_least(p->columns, all / groups / rows);
    const int64_t r = trm_ceil_divide(p->rows, rows), c = trm_ceil_divide(p->columns, columns);
    /* Of the gradient: results and their gradients; else the windows' elements. */
    double high = (double)(r - 1) * p->row_step + (double)p->height;
    double wide = (double)(c - 1) * p->column_step + (double)p->width;
    if (p->gradient) {
      const int64_t results = trm_ceil_divide(r, p->image_rows) * p->result_rows;
      high = fmin((double)(r + p->height - 1) / p->row_step, (double)results);
      wide = fmin((double)(c + p->width - 1) / p->column_step, (double)p->result_columns);
    }
    const int64_t lanes = p->vectors * g;
    pooling_plan plan = {.tiles = (uint32_t)(groups * rows * columns),
                         .read = (int64_t)(ceil(high) * ceil(wide)) * lanes,
                         .cycles = pooling_cycles(p, workers, r, c, g)};
    /* A vector has eight bytes. */
    const int64_t with = plan.cycles + plan.read * 8 / target->exchange_bytes_per_cycle;
    const int64_t best_with = best.cycles == INT64_MAX
                                  ? INT64_MAX
                                  : best.cycles + best.read * 8 / target->exchange_bytes_per_cycle;
    if (with < best_with) best = plan;
  }
  best.read *= target->data_path_width / 8; /* bytes */
  return best;
}

/* Pooling has its own plan: a tile fetches the elements that it reads, of `operands` arrays. */
static trm_status add_pooling(const trm_tile_request *request, trm_tile_cost *cost,
                              const pooling *p, int64_t operands, int64_t arrays, const char *name,
                              const char *codelet, trm_error *error) {
  const pooling_plan plan = plan_pooling(request->target, p);
  const int64_t read = plan.read * operands * arrays;
  int64_t all = 0, out = 0;
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    if (trm_shape_count(&operand->shape) <= 1) continue;
    all += trm_tile_shape_bytes(&operand->shape);
    out += trm_mapping_worst_bytes(&operand->mapping);
  }
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", read,
                            trm_least(read * plan.tiles, trm_most(read, p->window * all)), out,
                            trm_ceil_divide(read, 32), error));
  const double evenness =
      (double)(p->rows * p->columns * p->groups) / (double)plan.tiles /
      (double)trm_most(1, trm_ceil_divide(p->rows * p->columns * p->groups, plan.tiles));
  TRY(trm_tile_add_compute(request, cost, name, codelet, plan.tiles, 1, plan.cycles * arrays,
                           evenness, p->gradient ? 4 : 2,
                           p->rows * p->columns * p->groups * POOL_CHANNELS * p->window * arrays,
                           error));
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  phase->temporary_worst = read;
  phase->temporary_total = read * plan.tiles;
  phase->temporary_is_message = true;
  return TRM_OK;
}

/* Windows with more elements are not pooling, but for example running sums. */
enum { POOL_WINDOW = 1024 };

/* One pass for each element of a window, over all results. */
static trm_status add_long_windows(const trm_tile_request *request, trm_tile_cost *cost,
                                   int64_t window, int64_t arrays, trm_error *error) {
  const trm_tile_operand *x = &request->operands[0];
  const trm_mapping place = cost->results[0].mapping;
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t bytes = trm_tile_dtype_bytes(x->shape.dtype);
  const int64_t read = trm_least(trm_shape_count(&x->shape), place.worst + window) * bytes * arrays;
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", read, read * place.regions,
                            x->mapping.worst * bytes * arrays, trm_ceil_divide(read, 32), error));
  const int64_t vectors =
      trm_ceil_divide(trm_ceil_divide(place.worst, trm_tile_vector_width(x->shape.dtype)), workers);
  TRY(trm_tile_add_compute(request, cost, "ReduceWindow", "popnn::SumPooling", place.regions, 1,
                           workers * (35 + vectors * (12 + window * 2) * arrays) + 11,
                           trm_mapping_evenness(&place), 2, place.count * window * arrays, error));
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  phase->temporary_worst = read;
  phase->temporary_total = read * place.regions;
  phase->temporary_is_message = true;
  return TRM_OK;
}

trm_status trm_tile_reduce_window(const trm_tile_request *request, trm_tile_cost *cost,
                                  trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  if (cost->num_results == 0 || request->num_operands < 2 ||
      cost->results[0].mapping.kind == TRM_MAPPING_NONE) {
    return TRM_OK;
  }
  const int64_t arrays = request->num_operands / 2;
  const int64_t window = window_size(instruction->window);
  if (window > POOL_WINDOW) {
    TRY(add_long_windows(request, cost, window, arrays, error));
  } else {
    const trm_computation *called = &request->module->computations[instruction->called[0]];
    const bool sums = called->instructions[called->root].opcode == TRM_OP_ADD;
    const pooling p = pooling_of(instruction->window, trm_shape_leaf(&instruction->shape, 0), NULL);
    TRY(add_pooling(request, cost, &p, 1, arrays, sums ? "SumPool" : "MaxPool",
                    sums ? "popnn::SumPooling" : "popnn::MaxPooling", error));
  }
  const trm_mapping place = cost->results[0].mapping;
  for (uint32_t l = 1; l < cost->num_results; ++l) {
    cost->results[l].mapping =
        trm_mapping_like(&place, trm_shape_leaf(&instruction->shape, (int32_t)l)->dtype);
  }
  return TRM_OK;
}

trm_status trm_tile_select_and_scatter(const trm_tile_request *request, trm_tile_cost *cost,
                                       trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  if (cost->results[0].mapping.kind == TRM_MAPPING_NONE || request->num_operands < 2) return TRM_OK;
  const trm_tile_operand *x = &request->operands[0];
  /* The gradient has the mapping of the operand; results and their gradients are fetched. */
  const trm_mapping place = x->is_view ? cost->results[0].mapping : x->mapping;
  cost->results[0].mapping = trm_mapping_like(&place, instruction->shape.dtype);
  const pooling p = pooling_of(instruction->window, &x->shape, &request->operands[1].shape);
  return add_pooling(request, cost, &p, 2, 1, "MaxPoolGrad", "popnn::MaxPoolingGrad", error);
}

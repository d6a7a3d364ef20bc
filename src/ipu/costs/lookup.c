/* Owns: lookups in tables and updates of their rows on an IPU: gather and scatter, which popops
 * plans together (slice_plan.h). Formulas: docs/cost_model.md, "Slices". */
#include "ipu/costs/data.h"
#include "ipu/costs/slice_plan.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

enum { ATOM_BYTES = 4, INDEX_BYTES = 4, SUM_BYTES = 4 };

static int64_t workers_of(const trm_tile_request *request) {
  return request->target->num_worker_contexts;
}

static bool is_addressed(const trm_dims *dimensions, int32_t d) {
  for (int32_t k = 0; k < dimensions->count; ++k) {
    if (dimensions->items[k] == d) return true;
  }
  return false;
}

/* The table of `operand`: rows that indices address, and columns. */
static trm_slice_problem gather_problem(const trm_instruction *instruction,
                                        const trm_shape *operand) {
  trm_slice_problem p = {.rows = 1, .columns = 1, .dtype = operand->dtype};
  int64_t row = 1; /* elements of one lookup */
  for (int32_t d = 0; d < operand->rank; ++d) {
    const int64_t size = d < instruction->gather->slice_sizes.count
                             ? instruction->gather->slice_sizes.items[d]
                             : operand->dims[d];
    row *= trm_most(1, size);
    if (size == operand->dims[d]) p.columns *= size;
    else p.rows *= operand->dims[d];
  }
  p.lookups = trm_most(1, trm_shape_count(&instruction->shape) / row);
  return p;
}

static trm_slice_problem scatter_problem(const trm_instruction *instruction,
                                         const trm_shape *operand, const trm_shape *updates) {
  trm_slice_problem p = {.rows = 1, .columns = 1, .dtype = operand->dtype, .is_update = true};
  for (int32_t d = 0; d < operand->rank; ++d) {
    const bool is_row = is_addressed(&instruction->scatter->scatter_dims_to_operand_dims, d);
    if (is_row) p.rows *= operand->dims[d];
    else p.columns *= operand->dims[d];
  }
  p.lookups = trm_most(1, trm_ceil_divide(trm_shape_count(updates), p.columns));
  return p;
}

/* The plan for all lookups in tables of this shape in the computation, and for their updates: their
 * gradients have the same rows. */
static trm_slice_plan plan_table(const trm_tile_request *request, trm_slice_problem problem) {
  const trm_computation *c = request->computation;
  for (trm_index i = 0; i < c->num_instructions; ++i) {
    const trm_instruction *other = &c->instructions[i];
    if (other->opcode != TRM_OP_GATHER && other->opcode != TRM_OP_SCATTER) continue;
    const trm_shape *table = &c->instructions[other->operands[0]].shape;
    if (table->dtype != problem.dtype) continue;
    const bool is_update = other->opcode == TRM_OP_SCATTER;
    const trm_slice_problem one =
        is_update ? scatter_problem(other, table, &c->instructions[other->operands[2]].shape)
                  : gather_problem(other, table);
    if (one.rows != problem.rows || one.columns != problem.columns) continue;
    problem.is_update |= is_update;
    problem.lookups = trm_most(problem.lookups, one.lookups);
  }
  return trm_slice_plan_make(request, &problem);
}

/* Asks for the table at its planned place. Returns whether it lies there. */
static bool prefer_table(const trm_tile_request *request, trm_tile_cost *cost, uint32_t k,
                         const trm_slice_plan *plan) {
  const trm_tile_operand *table = &request->operands[k];
  cost->preferences[cost->num_preferences++] =
      (trm_tile_preference){.operand = k, .mapping = plan->table, .kind = TRM_PREFERENCE_TABLE};
  return !table->is_view && trm_mapping_same_place(&table->mapping, &plan->table);
}

static uint32_t tiles_of(const trm_slice_plan *plan) {
  return plan->row_split * plan->column_split * plan->lookup_split;
}

/* MULTISLICE: the workers share a tile's indices: W (29 + indices x (19 + 2 vectors)); vectors have
 * 8 bytes, of halves 4. The indices are unknown, so each counts as being in the range of every tile
 * with a partition of the rows. */
static int64_t multi_slice_cycles(const trm_tile_request *request, trm_dtype dtype, int64_t lookups,
                                  int64_t columns) {
  const int64_t workers = workers_of(request);
  const int64_t vectors = trm_ceil_divide(columns, trm_tile_dtype_bytes(dtype) == 1 ? 4 : 2);
  return workers * (29 + trm_ceil_divide(lookups, workers) * (19 + 2 * vectors)) + 11;
}

/* Takes the right one of the results of the rows' partitions: the tiles share the lookups. */
static trm_status add_second_stage(const trm_tile_request *request, trm_tile_cost *cost,
                                   const trm_slice_plan *plan, int64_t row_bytes,
                                   trm_error *error) {
  const int64_t partial_bytes = plan->lookups * row_bytes;
  const int64_t share = trm_ceil_divide(plan->lookups, plan->row_split);
  const int64_t in = share * row_bytes * plan->row_split + share * INDEX_BYTES;
  const uint32_t tiles = tiles_of(plan);
  cost->temporary_worst += partial_bytes;
  cost->temporary_total += partial_bytes * tiles;
  TRY(trm_tile_add_exchange(request, cost, "ReduceFinalStage/ExchangePre", in, in * tiles,
                            partial_bytes, plan->row_split, error));
  TRY(trm_tile_add_compute(
      request, cost, "ReduceFinalStage", "popops::Reduce<ReduceOp::ADD>", tiles, 1,
      workers_of(request) *
              (33 + trm_ceil_divide(share * row_bytes / 4, workers_of(request)) * plan->row_split) +
          11,
      1.0, plan->row_split + 1, 0, error));
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  phase->temporary_worst = in;
  phase->temporary_total = in * tiles;
  phase->temporary_is_message = true;
  return TRM_OK;
}

trm_status trm_tile_gather(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_tile_operand *table = &request->operands[0];
  const int64_t results = trm_shape_count(&request->instruction->shape);
  if (trm_shape_count(&table->shape) == 0 || results == 0) return TRM_OK;
  const trm_slice_problem problem = gather_problem(request->instruction, &table->shape);
  trm_slice_plan plan = plan_table(request, problem);
  plan.lookups = trm_ceil_divide(problem.lookups, plan.lookup_split);
  if (!prefer_table(request, cost, 0, &plan)) {
    TRY(trm_tile_bring_to_read(request, cost, table, &plan.table, error));
  }
  const trm_dtype dtype = table->shape.dtype;
  const uint32_t tiles = tiles_of(&plan);
  const int64_t bytes = trm_tile_dtype_bytes(dtype);
  const int64_t copied = plan.lookup_split > 1 ? plan.rows * plan.columns * bytes : 0;
  const int64_t index_bytes = trm_ceil_divide(
      INDEX_BYTES * trm_shape_count(&request->operands[1].shape), plan.lookup_split);
  const int64_t received = index_bytes + copied;
  TRY(trm_tile_add_exchange(
      request, cost, "ExchangePre", received, received * tiles,
      request->operands[1].mapping.worst * INDEX_BYTES + trm_ceil_divide(copied, plan.lookup_split),
      plan.lookup_split + 1, error));
  const char *codelet =
      trm_arena_format(cost->arena, "popops::MultiSlice<%s>", trm_tile_type_word(dtype));
  CHECK_MEMORY(codelet, "a cost");
  /* A lookup may take several rows. */
  const int64_t in_row = trm_most(1, results / problem.lookups / problem.columns);
  const int64_t columns = plan.columns * in_row;
  TRY(trm_tile_add_compute(request, cost, "multiSlice", codelet, tiles, 1,
                           multi_slice_cycles(request, dtype, plan.lookups, columns), 1.0, 3, 0,
                           error));
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  phase->temporary_worst = received;
  phase->temporary_total = received * tiles;
  phase->temporary_is_message = true;
  if (plan.row_split > 1) {
    TRY(add_second_stage(request, cost, &plan, columns * bytes, error));
  }
  const int64_t dims[2] = {problem.lookups * in_row, problem.columns};
  const uint32_t cuts[2] = {plan.lookup_split * plan.row_split, plan.column_split};
  const int64_t grains[2] = {1, plan.columns};
  if (dims[0] * dims[1] == results) {
    cost->results[0].mapping =
        trm_mapping_grid(request->target, dtype, 2, dims, cuts, grains, request->ipu, 0);
  }
  return TRM_OK;
}

/* Each partition of the lookups was added to zeros of its own: each tile adds up its share of them,
 * and adds that to the table. */
static trm_status add_lookup_sums(const trm_tile_request *request, trm_tile_cost *cost,
                                  const trm_slice_plan *plan, trm_error *error) {
  const int64_t workers = workers_of(request), split = plan->lookup_split;
  const uint32_t tiles = tiles_of(plan);
  const int64_t sums = plan->rows * plan->columns * SUM_BYTES;
  const int64_t share = trm_ceil_divide(plan->rows * plan->columns, split);
  const int64_t in = share * split * SUM_BYTES;
  TRY(trm_tile_add_exchange(request, cost, "multiUpdateAdd/ReduceFinalStage/ExchangePre", in,
                            in * tiles, sums, split, error));
  TRY(trm_tile_add_compute(request, cost, "multiUpdateAdd/ReduceFinalStage",
                           "popops::Reduce<ReduceOp::ADD>", tiles, 1,
                           workers * (33 + trm_ceil_divide(share, workers) * split) + 11, 1.0,
                           (uint32_t)split + 1, share * split * tiles, error));
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  phase->temporary_worst = in + share * SUM_BYTES;
  phase->temporary_total = phase->temporary_worst * tiles;
  const int64_t vectors = trm_ceil_divide(share * SUM_BYTES, 8 * workers);
  return trm_tile_add_compute(request, cost, "multiUpdateAdd/AddTo", "popops::ScaledAddSupervisor",
                              tiles, 1, workers * (21 + 3 * vectors) + 36, 1.0, 3,
                              plan->table.count, error);
}

/* MULTIUPDATE: W (28 + indices (12 + 3 (atoms - 1))); for floats 11 in place of 12. The workers
 * share the rows. The indices are unknown, so each counts as being in the rows of one worker. */
static int64_t multi_update_cycles(const trm_tile_request *request, const trm_slice_plan *plan,
                                   int64_t bytes) {
  const int64_t atoms = trm_ceil_divide(plan->columns * bytes, ATOM_BYTES);
  const bool sub_word = plan->columns * bytes % ATOM_BYTES != 0;
  const int64_t served = (bytes == 2 ? 12 : 11) + (sub_word ? 20 * plan->columns : 3 * (atoms - 1));
  return workers_of(request) * (28 + plan->lookups * served) + 11;
}

/* Adds the values of operand `updates` to the rows of table k. */
static trm_status add_update(const trm_tile_request *request, trm_tile_cost *cost, uint32_t k,
                             const trm_tile_operand *indices, const trm_tile_operand *updates,
                             trm_error *error) {
  const trm_tile_operand *table = &request->operands[k];
  const trm_dtype dtype = table->shape.dtype;
  const int64_t bytes = trm_tile_dtype_bytes(dtype);
  const trm_slice_problem problem =
      scatter_problem(request->instruction, &table->shape, &updates->shape);
  trm_slice_plan plan = plan_table(request, problem);
  plan.lookups = trm_ceil_divide(problem.lookups, plan.lookup_split);
  const bool there = prefer_table(request, cost, k, &plan);
  if (!there) TRY(trm_tile_bring(request, cost, table, &plan.table, error));
  const uint32_t tiles = tiles_of(&plan);
  const int64_t index_bytes =
      trm_ceil_divide(INDEX_BYTES * trm_shape_count(&indices->shape), plan.lookup_split);
  /* Every partition of the rows needs all indices and all updates of its columns. */
  const int64_t in = index_bytes + plan.lookups * plan.columns * bytes;
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", in, in * tiles,
                            updates->mapping.worst * bytes, trm_ceil_divide(plan.lookups, 16),
                            error));
  const char *codelet =
      trm_arena_format(cost->arena, "popops::MultiUpdateAdd<%s>", trm_tile_type_word(dtype));
  CHECK_MEMORY(codelet, "a cost");
  TRY(trm_tile_add_compute(request, cost, "multiUpdateAdd", codelet, tiles, 1,
                           multi_update_cycles(request, &plan, bytes), 1.0, 4,
                           trm_shape_count(&updates->shape), error));
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  const int64_t sums = plan.lookup_split > 1 ? plan.rows * plan.columns * SUM_BYTES : 0;
  phase->temporary_worst = in + sums;
  phase->temporary_total = (in + sums) * tiles;
  phase->temporary_is_message = true;
  if (plan.lookup_split > 1) TRY(add_lookup_sums(request, cost, &plan, error));
  cost->results[k].mapping = plan.table;
  if (table->dies && there) cost->results[k].in_place = (int32_t)k;
  return TRM_OK;
}

trm_status trm_tile_scatter(const trm_tile_request *request, trm_tile_cost *cost,
                            trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const uint32_t arrays = request->num_operands / 2;
  if (request->num_operands < 3 || trm_shape_count(&request->operands[0].shape) == 0) {
    return TRM_OK;
  }
  for (uint32_t k = 0; k < arrays && k < cost->num_results; ++k) {
    TRY(add_update(request, cost, k, &request->operands[arrays], &request->operands[arrays + 1 + k],
                   error));
    if (cost->num_preferences + 1 >= sizeof cost->preferences / sizeof *cost->preferences) break;
  }
  return TRM_OK;
}

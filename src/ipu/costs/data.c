/* Owns: dynamic slices and updates, pad, reverse and copies on an IPU.
 *
 * A tensor that is sliced is cut along its other dimensions. Then each tile has all slices of its
 * elements, and a slice moves nothing between tiles. The plan asks for this layout, and rearranges
 * an operand that has another. Formulas: docs/cost_model.md, "Slices". */
#include <math.h>

#include "ipu/costs/data.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

static int64_t workers_of(const trm_tile_request *request) {
  return request->target->num_worker_contexts;
}

/* A table: indices choose rows; columns are the other dimensions. */
typedef struct table_shape {
  int64_t rows, columns;
} table_shape;

/* Cuts columns in grains of a vector; if there are fewer grains than tiles, also rows. */
static trm_mapping sliceable(const trm_tile_request *request, trm_dtype dtype, table_shape shape) {
  const int64_t tiles = request->target->tiles_per_ipu;
  const int64_t dims[2] = {shape.rows, shape.columns};
  const int64_t grain = trm_tile_vector_width(dtype);
  const int64_t grains[2] = {1, grain};
  const int64_t most_columns = trm_ceil_divide(shape.columns, grain);
  const int64_t columns = trm_least(tiles, most_columns);
  /* Uses as many tiles as give each 128 bytes. */
  const int64_t wanted = trm_least(
      tiles, trm_ceil_divide(shape.rows * shape.columns * trm_tile_dtype_bytes(dtype), 128));
  const uint32_t cuts[2] = {1, (uint32_t)trm_most(1, trm_least(columns, wanted))};
  return trm_mapping_grid(request->target, dtype, 2, dims, cuts, grains, request->ipu, 0);
}

const char *trm_tile_type_word(trm_dtype dtype) {
  switch (trm_tile_dtype_bytes(dtype)) {
    case 1: return "char";
    case 2: return "half";
    default: return dtype == TRM_F32 ? "float" : "int";
  }
}

static void add_preference(trm_tile_cost *cost, uint32_t operand, const trm_mapping *mapping) {
  cost->preferences[cost->num_preferences++] =
      (trm_tile_preference){.operand = operand, .mapping = *mapping, .kind = TRM_PREFERENCE_TABLE};
}

/* 25 + W (39 + (24 + 2 copies) slices): DynamicSlice1D in popopsCycleEstimators.cpp of poplibs. */
static int64_t dynamic_slice_cycles(const trm_tile_request *request, trm_dtype dtype,
                                    int64_t region, int64_t slices) {
  const int64_t workers = workers_of(request);
  const int64_t copies =
      trm_ceil_divide(trm_ceil_divide(region, workers), trm_tile_vector_width(dtype));
  return trm_tile_dtype_bytes(dtype) == 1 ? 25 + workers * (76 + (72 + 2 * copies) * slices)
                                          : 25 + workers * (39 + (24 + 2 * copies) * slices);
}

trm_status trm_tile_slice(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  const trm_tile_operand *table = &request->operands[0];
  const bool update = instruction->opcode == TRM_OP_DYNAMIC_UPDATE_SLICE;
  const trm_shape *slice = update ? &request->operands[1].shape : &instruction->shape;
  if (trm_shape_count(&table->shape) == 0) return TRM_OK;
  table_shape shape = {1, 1};
  int64_t slices = 1;
  for (int32_t d = 0; d < table->shape.rank && d < slice->rank; ++d) {
    if (slice->dims[d] == table->shape.dims[d]) {
      shape.columns *= table->shape.dims[d];
    } else {
      shape.rows *= table->shape.dims[d];
      slices *= trm_most(1, slice->dims[d]);
    }
  }
  const trm_mapping place = sliceable(request, table->shape.dtype, shape);
  add_preference(cost, 0, &place);
  const bool there = !table->is_view && trm_mapping_same_place(&table->mapping, &place);
  if (!there) TRY(trm_tile_bring(request, cost, table, &place, error));
  const int64_t slice_dims[2] = {slices, shape.columns};
  const uint32_t cuts[2] = {1, place.cuts[1]};
  const int64_t grains[2] = {1, place.block_size[1]};
  const trm_mapping slice_place =
      trm_mapping_grid(request->target, slice->dtype, 2, slice_dims, cuts, grains, request->ipu, 0);
  trm_tile_incoming incoming = {0};
  if (update) {
    trm_tile_incoming_add(&incoming, &request->operands[1], &slice_place);
    add_preference(cost, 1, &slice_place);
  }
  const int64_t index_bytes = 4 * (int64_t)trm_most(1, table->shape.rank);
  incoming.in_worst += index_bytes; /* the offsets, which every tile needs */
  incoming.in_total += index_bytes * place.regions;
  incoming.out_worst += 4;
  incoming.messages += 1;
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  const int64_t region = place.block_size[1];
  const char *codelet =
      trm_arena_format(cost->arena, "popops::Dynamic%sSlice1D<%s>", update ? "Update" : "",
                       trm_tile_type_word(table->shape.dtype));
  CHECK_MEMORY(codelet, "a cost");
  TRY(trm_tile_add_compute(request, cost, update ? "dynamicUpdate" : "dynamicSlice", codelet,
                           place.regions, 1,
                           dynamic_slice_cycles(request, table->shape.dtype, region, slices),
                           trm_mapping_evenness(&slice_place), 3, 0, error));
  if (!update) {
    cost->results[0].mapping = slice_place;
    return TRM_OK;
  }
  cost->results[0].mapping = place;
  if (table->dies && !table->is_view && there) cost->results[0].in_place = 0;
  return TRM_OK;
}

/* The padding is a constant; a concatenation writes the result as one array. */
trm_status trm_tile_pad(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  if (request->num_operands < 2 || cost->results[0].mapping.kind == TRM_MAPPING_NONE) return TRM_OK;
  const trm_mapping *place = &cost->results[0].mapping;
  const trm_tile_operand *x = &request->operands[0];
  const int64_t workers = workers_of(request);
  const int64_t width = trm_tile_vector_width(x->shape.dtype);
  TRY(trm_tile_add_compute(
      request, cost, "fill", "popops::Fill", place->regions, 1,
      workers * (26 + trm_ceil_divide(trm_ceil_divide(place->worst, width), workers)) + 11,
      trm_mapping_evenness(place), 1, 0, error));
  if (trm_shape_count(&x->shape) == 0) return TRM_OK;
  trm_mapping share = *place; /* the operand's, of the result */
  share.worst = trm_least(place->worst, trm_shape_count(&x->shape));
  share.layout = 0;
  return trm_tile_bring(request, cost, x, &share, error);
}

trm_status trm_tile_copy(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  for (uint32_t k = 0; k < request->num_operands && k < cost->num_results; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    const int64_t bytes = trm_tile_dtype_bytes(operand->shape.dtype);
    if (trm_shape_count(&operand->shape) == 0) continue;
    if (!operand->is_view && operand->mapping.kind != TRM_MAPPING_NONE) {
      /* A plain array is copied on its own tiles. */
      cost->results[k].mapping = operand->mapping;
      TRY(trm_tile_add_copy(request, cost, "OnTileCopy", trm_mapping_worst_bytes(&operand->mapping),
                            trm_mapping_total_bytes(&operand->mapping), 8 * bytes,
                            operand->mapping.regions, error));
      continue;
    }
    TRY(trm_tile_bring(request, cost, operand, &cost->results[k].mapping, error));
  }
  return TRM_OK;
}

trm_status trm_tile_concatenate(const trm_tile_request *request, trm_tile_cost *cost,
                                trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_mapping *place = &cost->results[0].mapping;
  if (place->kind == TRM_MAPPING_NONE) return TRM_OK;
  const trm_shape *shape = &request->instruction->shape;
  const int64_t bytes = trm_tile_dtype_bytes(shape->dtype);
  const int64_t worst = trm_mapping_worst_bytes(place);
  trm_tile_incoming incoming = {0};
  int64_t run = worst, out_worst = 0;
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    const int64_t count = trm_shape_count(&operand->shape);
    if (count == 0) continue;
    trm_mapping share = *place; /* the operand's, of the result */
    share.worst = trm_least(place->worst, count);
    share.layout = 0;
    incoming.out_worst = 0;
    trm_tile_incoming_add(&incoming, operand, &share);
    out_worst = trm_most(out_worst, incoming.out_worst); /* each source lies on other tiles */
    run = trm_least(run, trm_most(1, operand->contiguous) * bytes);
  }
  incoming.in_worst =
      trm_least(incoming.in_worst, worst); /* no tile receives more than its region */
  incoming.out_worst =
      trm_most(out_worst, trm_ceil_divide(incoming.in_total, request->target->tiles_per_ipu));
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  return trm_tile_add_copy(request, cost, "OnTileCopy", worst, trm_shape_count(shape) * bytes,
                           trm_most(bytes, run), place->regions, error);
}

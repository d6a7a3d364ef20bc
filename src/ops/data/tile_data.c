/* Owns: dynamic slices and updates, gather, scatter, pad, reverse and copies on an IPU.
 *
 * A tensor that is sliced is cut along its other dimensions. Then each tile has all slices of its
 * elements, and a slice moves nothing between tiles. The plan asks for this layout, and rearranges
 * an operand that has another. Formulas: docs/cost_model.md, "Slices". */
#include <math.h>

#include "target/target.h"
#include "tile/exchange.h"

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

/* The smallest write of a worker that touches no data of another. */
enum { ATOM_BYTES = 4 };

/* Like sliceable, also over rows, for embeddings: a lookup then has a second, reducing stage.
 * Columns are cut in grains of ATOM_BYTES. */
static trm_mapping sliceable_rows(const trm_tile_request *request, trm_dtype dtype,
                                  table_shape shape, int64_t lookups) {
  const int64_t tiles = request->target->tiles_per_ipu;
  const int64_t dims[2] = {shape.rows, shape.columns};
  const int64_t grain = trm_most(1, ATOM_BYTES / trm_most(1, trm_tile_dtype_bytes(dtype)));
  const int64_t grains[2] = {1, grain};
  const int64_t columns = trm_least(tiles, trm_ceil_divide(shape.columns, grain));
  int64_t rows = trm_least(tiles / trm_most(1, columns), trm_ceil_divide(shape.rows, 1));
  /* A second stage exchanges every lookup once for each row part, so small tables and single rows
   * have none. */
  const int64_t bytes = trm_tile_dtype_bytes(dtype);
  const int64_t column_bytes = shape.rows * trm_ceil_divide(shape.columns, columns) * bytes;
  const int64_t allowed =
      (int64_t)(request->options->slice_memory_proportion * request->target->bytes_per_tile);
  if (column_bytes <= trm_least(allowed, 4096) || lookups <= 1) rows = 1;
  /* Nor has a table that is smaller than its lookups, which are cut instead (lookup_parts). */
  if (column_bytes <= allowed && column_bytes <= lookups * grain * bytes) rows = 1;
  const uint32_t cuts[2] = {(uint32_t)trm_most(1, rows), (uint32_t)trm_most(1, columns)};
  return trm_mapping_grid(request->target, dtype, 2, dims, cuts, grains, request->ipu, 0);
}

/* If rows are not cut, the lookups are cut over the tiles that are left. Each part needs a copy of
 * the rows, and has at least a lookup for each worker. 1: copies would cost more than lookups. */
static int64_t lookup_parts(const trm_tile_request *request, const trm_mapping *place,
                            int64_t lookups) {
  const int64_t column = place->part_size[1] * place->element_bytes;
  if (place->cuts[0] > 1 || lookups * column < place->dims[0] * column) return 1;
  const int64_t parts = lookups / workers_of(request);
  return trm_most(1, trm_least(parts, request->target->tiles_per_ipu / place->parts));
}

static const char *type_word(trm_dtype dtype) {
  switch (trm_tile_dtype_bytes(dtype)) {
    case 1: return "char";
    case 2: return "half";
    default: return dtype == TRM_F32 ? "float" : "int";
  }
}

static void add_wish(trm_tile_cost *cost, uint32_t operand, const trm_mapping *mapping) {
  cost->wishes[cost->num_wishes++] =
      (trm_tile_wish){.operand = operand, .mapping = *mapping, .kind = TRM_WISH_TABLE};
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
  add_wish(cost, 0, &place);
  const bool there = !table->is_view && trm_mapping_same_place(&table->mapping, &place);
  if (!there) TRY(trm_tile_bring(request, cost, table, &place, error));
  const int64_t slice_dims[2] = {slices, shape.columns};
  const uint32_t cuts[2] = {1, place.cuts[1]};
  const int64_t grains[2] = {1, place.part_size[1]};
  const trm_mapping slice_place =
      trm_mapping_grid(request->target, slice->dtype, 2, slice_dims, cuts, grains, request->ipu, 0);
  trm_tile_incoming incoming = {0};
  if (update) {
    trm_tile_incoming_add(&incoming, &request->operands[1], &slice_place);
    add_wish(cost, 1, &slice_place);
  }
  const int64_t index_bytes = 4 * (int64_t)trm_most(1, table->shape.rank);
  incoming.in_worst += index_bytes; /* the offsets, which every tile needs */
  incoming.in_total += index_bytes * place.parts;
  incoming.out_worst += 4;
  incoming.messages += 1;
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  const int64_t region = place.part_size[1];
  const char *codelet = trm_arena_format(cost->arena, "popops::Dynamic%sSlice1D<%s>",
                                         update ? "Update" : "", type_word(table->shape.dtype));
  CHECK_MEMORY(codelet, "a cost");
  TRY(trm_tile_add_compute(request, cost, update ? "dynamicUpdate" : "dynamicSlice", codelet,
                           place.parts, 1,
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

/* The table of `operand`: rows that indices address, and columns. */
static table_shape gather_shape(const trm_instruction *instruction, const trm_shape *operand) {
  table_shape shape = {1, 1};
  for (int32_t d = 0; d < operand->rank; ++d) {
    const int64_t size = d < instruction->gather->slice_sizes.count
                             ? instruction->gather->slice_sizes.items[d]
                             : operand->dims[d];
    if (size == operand->dims[d]) shape.columns *= size;
    else shape.rows *= operand->dims[d];
  }
  return shape;
}

static table_shape scatter_shape(const trm_instruction *instruction, const trm_shape *operand) {
  table_shape shape = {1, 1};
  const trm_dims *indexed = &instruction->scatter->scatter_dims_to_operand_dims;
  for (int32_t d = 0; d < operand->rank; ++d) {
    bool is_indexed = false;
    for (int32_t k = 0; k < indexed->count; ++k) is_indexed |= indexed->items[k] == d;
    if (is_indexed) shape.rows *= operand->dims[d];
    else shape.columns *= operand->dims[d];
  }
  return shape;
}

/* MULTISLICE: the workers share a tile's indices: W (29 + indices x (19 + 2 vectors)); vectors have
 * 8 bytes, of halves 4. The indices are unknown, so each counts as being in the range of every tile
 * with a part of the rows. */
static int64_t multi_slice_cycles(const trm_tile_request *request, trm_dtype dtype, int64_t lookups,
                                  int64_t columns) {
  const int64_t workers = workers_of(request);
  const int64_t vectors = trm_ceil_divide(columns, trm_tile_dtype_bytes(dtype) == 1 ? 4 : 2);
  return workers * (29 + trm_ceil_divide(lookups, workers) * (19 + 2 * vectors)) + 11;
}

trm_status trm_tile_gather(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_tile_operand *table = &request->operands[0];
  const int64_t results = trm_shape_count(&request->instruction->shape);
  if (trm_shape_count(&table->shape) == 0 || results == 0) return TRM_OK;
  const table_shape shape = gather_shape(request->instruction, &table->shape);
  int64_t row = 1; /* elements of one lookup */
  for (int32_t d = 0; d < request->instruction->gather->slice_sizes.count; ++d) {
    row *= trm_most(1, request->instruction->gather->slice_sizes.items[d]);
  }
  const int64_t lookups = trm_most(1, results / row);
  const trm_dtype dtype = table->shape.dtype;
  const trm_mapping place = sliceable_rows(request, dtype, shape, lookups);
  add_wish(cost, 0, &place);
  if (table->is_view || !trm_mapping_same_place(&table->mapping, &place)) {
    TRY(trm_tile_bring(request, cost, table, &place, error));
  }
  const int64_t parts = lookup_parts(request, &place, lookups);
  const uint32_t tiles = (uint32_t)(place.parts * parts);
  const int64_t copied = parts > 1 ? trm_mapping_worst_bytes(&place) : 0; /* rows */
  const int64_t index_bytes =
      trm_ceil_divide(4 * trm_shape_count(&request->operands[1].shape), parts);
  const int64_t received = index_bytes + copied;
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", received, received * tiles,
                            request->operands[1].mapping.worst * 4 + copied, 2, error));
  const int64_t columns = place.part_size[1] * trm_most(1, row / shape.columns);
  const char *codelet = trm_arena_format(cost->arena, "popops::MultiSlice<%s>", type_word(dtype));
  CHECK_MEMORY(codelet, "a cost");
  TRY(trm_tile_add_compute(
      request, cost, "multiSlice", codelet, tiles, 1,
      multi_slice_cycles(request, dtype, trm_ceil_divide(lookups, parts), columns), 1.0, 3, 0,
      error));
  const int64_t bytes = trm_tile_dtype_bytes(dtype);
  trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
  phase->temporary_worst = received;
  phase->temporary_total = received * tiles;
  phase->temporary_is_message = true;
  if (place.cuts[0] > 1) {
    /* Second stage: tiles with a part of a row's lookups choose from all row parts. */
    const int64_t held = lookups * columns * bytes;
    cost->temporary_worst += held;
    cost->temporary_total += held * place.parts;
    const trm_mapping *final = &cost->results[0].mapping;
    TRY(trm_tile_add_exchange(
        request, cost, "ReduceFinalStage/ExchangePre", final->worst * bytes * place.cuts[0],
        trm_mapping_total_bytes(final) * place.cuts[0], held, place.cuts[0], error));
    return trm_tile_add_compute(
        request, cost, "ReduceFinalStage", "popops::Reduce<ReduceOp::ADD>", final->parts, 1,
        workers_of(request) *
                (33 + trm_ceil_divide(final->worst, workers_of(request)) * place.cuts[0]) +
            11,
        trm_mapping_evenness(final), place.cuts[0] + 1, 0, error);
  }
  const int64_t dims[2] = {lookups * trm_most(1, row / shape.columns), shape.columns};
  const uint32_t cuts[2] = {(uint32_t)parts, place.cuts[1]};
  const int64_t grains[2] = {1, place.part_size[1]};
  if (dims[0] * dims[1] == results) {
    cost->results[0].mapping =
        trm_mapping_grid(request->target, dtype, 2, dims, cuts, grains, request->ipu, 0);
  }
  return TRM_OK;
}

/* Each part of the lookups was added to its own zeros: adds up the parts, then the table. */
static trm_status add_lookup_sums(const trm_tile_request *request, trm_tile_cost *cost,
                                  const trm_mapping *place, int64_t parts, trm_error *error) {
  const int64_t workers = workers_of(request);
  const uint32_t tiles = (uint32_t)(place->parts * parts);
  const int64_t all = trm_mapping_worst_bytes(place);
  const int64_t share = trm_ceil_divide(place->worst, parts);
  TRY(trm_tile_add_exchange(request, cost, "multiUpdateAdd/ReduceFinalStage/ExchangePre", all,
                            all * tiles, all, parts, error));
  TRY(trm_tile_add_compute(request, cost, "multiUpdateAdd/ReduceFinalStage",
                           "popops::Reduce<ReduceOp::ADD>", tiles, 1,
                           workers * (33 + trm_ceil_divide(share, workers) * parts) + 11, 1.0,
                           (uint32_t)parts + 1, place->worst * tiles, error));
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", all, all * place->parts,
                            trm_ceil_divide(all, parts), parts, error));
  const int64_t vectors = trm_ceil_divide(all, 8 * workers);
  return trm_tile_add_compute(request, cost, "multiUpdateAdd/AddTo", "popops::ScaledAddSupervisor",
                              place->parts, 1, workers * (21 + 3 * vectors) + 36,
                              trm_mapping_evenness(place), 3, place->count, error);
}

/* MULTIUPDATE: W (28 + indices (12 + 3 (atoms - 1))); for floats 11 in place of 12. The workers
 * share the rows. The indices are unknown, so each counts as being in the rows of one worker. */
trm_status trm_tile_scatter(const trm_tile_request *request, trm_tile_cost *cost,
                            trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const uint32_t arrays = request->num_operands / 2;
  const trm_tile_operand *table = &request->operands[0];
  if (request->num_operands < 3 || trm_shape_count(&table->shape) == 0) return TRM_OK;
  const table_shape shape = scatter_shape(request->instruction, &table->shape);
  const trm_tile_operand *indices = &request->operands[arrays];
  const trm_dtype dtype = table->shape.dtype;
  const int64_t bytes = trm_tile_dtype_bytes(dtype);
  for (uint32_t k = 0; k < arrays && k < cost->num_results; ++k) {
    const trm_tile_operand *operand = &request->operands[k];
    const trm_tile_operand *updates = &request->operands[arrays + 1 + k];
    const int64_t count = trm_shape_count(&updates->shape);
    const int64_t lookups = trm_most(1, trm_ceil_divide(count, trm_most(1, shape.columns)));
    const trm_mapping place = sliceable_rows(request, dtype, shape, lookups);
    add_wish(cost, k, &place);
    const bool there = !operand->is_view && trm_mapping_same_place(&operand->mapping, &place);
    if (!there) TRY(trm_tile_bring(request, cost, operand, &place, error));
    const int64_t columns = place.part_size[1];
    const int64_t parts = lookup_parts(request, &place, lookups);
    const uint32_t tiles = (uint32_t)(place.parts * parts);
    const int64_t seen = trm_ceil_divide(lookups, parts); /* lookups that a tile sees */
    const int64_t index_bytes = trm_ceil_divide(4 * trm_shape_count(&indices->shape), parts);
    /* Every row part needs all indices and all updates of its columns. */
    const int64_t in = index_bytes + seen * columns * bytes;
    TRY(trm_tile_add_exchange(request, cost, "ExchangePre", in, in * tiles,
                              updates->mapping.worst * bytes, trm_ceil_divide(seen, 16), error));
    const int64_t atoms = trm_ceil_divide(columns * bytes, ATOM_BYTES);
    const bool sub_word = columns * bytes % ATOM_BYTES != 0;
    const int64_t served = (bytes == 2 ? 12 : 11) + (sub_word ? 20 * columns : 3 * (atoms - 1));
    const int64_t cycles = workers_of(request) * (28 + seen * served) + 11;
    const char *codelet =
        trm_arena_format(cost->arena, "popops::MultiUpdateAdd<%s>", type_word(dtype));
    CHECK_MEMORY(codelet, "a cost");
    TRY(trm_tile_add_compute(request, cost, "multiUpdateAdd", codelet, tiles, 1, cycles, 1.0, 4,
                             count, error));
    const int64_t copied = parts > 1 ? trm_mapping_worst_bytes(&place) : 0;
    trm_phase *phase = &cost->phases.items[cost->phases.count - 1];
    phase->temporary_worst = in + copied;
    phase->temporary_total = (in + copied) * tiles;
    phase->temporary_is_message = true;
    if (parts > 1) TRY(add_lookup_sums(request, cost, &place, parts, error));
    cost->results[k].mapping = place;
    if (operand->dies && there) cost->results[k].in_place = (int32_t)k;
    if (cost->num_wishes + 1 >= sizeof cost->wishes / sizeof *cost->wishes) break;
  }
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
      request, cost, "fill", "popops::Fill", place->parts, 1,
      workers * (26 + trm_ceil_divide(trm_ceil_divide(place->worst, width), workers)) + 11,
      trm_mapping_evenness(place), 1, 0, error));
  if (trm_shape_count(&x->shape) == 0) return TRM_OK;
  trm_mapping part = *place; /* the operand's share of the result */
  part.worst = trm_least(place->worst, trm_shape_count(&x->shape));
  part.layout = 0;
  return trm_tile_bring(request, cost, x, &part, error);
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
                            operand->mapping.parts, error));
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
    trm_mapping part = *place; /* the operand's share of the result */
    part.worst = trm_least(place->worst, count);
    part.layout = 0;
    incoming.out_worst = 0;
    trm_tile_incoming_add(&incoming, operand, &part);
    out_worst = trm_most(out_worst, incoming.out_worst); /* each source lies on other tiles */
    run = trm_least(run, trm_most(1, operand->contiguous) * bytes);
  }
  incoming.in_worst = trm_least(incoming.in_worst, worst); /* no tile receives more than its part */
  incoming.out_worst =
      trm_most(out_worst, trm_ceil_divide(incoming.in_total, request->target->tiles_per_ipu));
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  return trm_tile_add_copy(request, cost, "OnTileCopy", worst, trm_shape_count(shape) * bytes,
                           trm_most(bytes, run), place->parts, error);
}

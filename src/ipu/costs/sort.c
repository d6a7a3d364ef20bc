/* Owns: sort, topk and scan on an IPU. Formulas: docs/cost_model.md, "Sort". */
#include <math.h>

#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

/* A bitonic network over the tiles: log2 n (log2 n + 1) / 2 compare-and-swap steps. Steps over a
 * distance beyond a tile exchange first. `independent` sorts run side by side. */
static trm_status add_sort(const trm_tile_request *request, trm_tile_cost *cost,
                           const trm_tile_operand *keys, int64_t length, int64_t arrays,
                           int64_t kept, trm_error *error) {
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t count = trm_most(1, trm_shape_count(&keys->shape));
  const int64_t bytes = trm_tile_dtype_bytes(keys->shape.dtype) + 4 * (arrays - 1);
  const trm_mapping place =
      trm_mapping_linear(request->target, &keys->shape, request->ipu, request->next_tile);
  const int64_t here = trm_most(1, place.worst);
  TRY(trm_tile_bring(request, cost, keys, &place, error));
  const int64_t levels = (int64_t)ceil(log2((double)trm_most(2, length)));
  /* topk stops merging beyond k, so its levels above log2 k are single steps. */
  const int64_t full = kept >= length ? levels : (int64_t)ceil(log2((double)trm_most(2, kept)));
  const int64_t steps = full * (full + 1) / 2 + (levels - full) * (full + 1);
  const int64_t near = (int64_t)floor(log2((double)trm_most(2, here)));
  int64_t far = 0; /* steps over a distance of at least a tile */
  for (int64_t level = 1; level <= levels; ++level) {
    far += trm_most(0, trm_least(level, full + 1) - near);
  }
  far = trm_least(far, steps);
  const double with_values = keys->shape.dtype == TRM_F32 ? 11 + 3.0 * ((double)arrays - 2) : 27;
  const double per_pair = arrays == 1 ? 12.5 : with_values;
  const int64_t pairs = trm_ceil_divide(trm_ceil_divide(here, 2), workers);
  const int64_t cycles = workers * (30 + (int64_t)(per_pair * (double)pairs)) + 11;
  if (far > 0) {
    TRY(trm_tile_add_exchange(request, cost, "ExchangePre", here * bytes, count * bytes,
                              here * bytes, 2, error));
    cost->phases.items[cost->phases.count - 1].repeats = far;
  }
  TRY(trm_tile_add_compute(request, cost, "CompareSwap", "popops::CompareAndSwapAtDistance",
                           place.regions, 1, cycles, trm_mapping_evenness(&place),
                           (uint32_t)(2 * arrays), count / 2, error));
  cost->phases.items[cost->phases.count - 1].repeats = steps;
  cost->temporary_worst += here * bytes;
  cost->temporary_total += count * bytes;
  return TRM_OK;
}

trm_status trm_tile_sort(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  if (request->num_operands == 0 || trm_shape_count(&request->operands[0].shape) <= 0) {
    return TRM_OK;
  }
  const trm_tile_operand *keys = &request->operands[0];
  if (keys->shape.rank == 0) return TRM_OK;
  int64_t length = keys->shape.dims[keys->shape.rank - 1], kept = length;
  int64_t arrays = request->num_operands;
  if (instruction->opcode == TRM_OP_TOPK) {
    kept = instruction->number;
    arrays = 2; /* values and indices */
  } else if (instruction->dimensions.count > 0 &&
             instruction->dimensions.items[0] < keys->shape.rank) {
    kept = length = keys->shape.dims[instruction->dimensions.items[0]];
  }
  return add_sort(request, cost, keys, length, arrays, kept, error);
}

/* A scan runs its computation once for every element of its dimension, over all rows at a time. */
trm_status trm_tile_scan(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  if (cost->num_results == 0 || cost->results[0].mapping.kind == TRM_MAPPING_NONE) return TRM_OK;
  const trm_mapping place = cost->results[0].mapping;
  trm_tile_incoming incoming = {0};
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    trm_tile_incoming_add(&incoming, &request->operands[k], &place);
  }
  TRY(trm_tile_add_incoming(request, cost, &incoming, error));
  const trm_computation *called = &request->module->computations[request->instruction->called[0]];
  const int64_t workers = request->target->num_worker_contexts;
  const int64_t per_element = 10 + 4 * (int64_t)called->num_instructions;
  /* In a tile one after the other, then the tiles' sums: 2 log2(tiles) small steps. */
  TRY(trm_tile_add_compute(request, cost, "Scan", "popops::map_scan", place.regions, 1,
                           workers * (30 + trm_ceil_divide(place.worst, workers) * per_element),
                           trm_mapping_evenness(&place), request->num_operands + 1, place.count,
                           error));
  const int64_t levels = 2 * (int64_t)ceil(log2((double)trm_most(2, place.regions)));
  TRY(trm_tile_add_exchange(request, cost, "ExchangePre", 8, 8 * place.regions, 8, 2, error));
  cost->phases.items[cost->phases.count - 1].repeats = levels;
  TRY(trm_tile_add_compute(request, cost, "ScanTiles", "popops::map_scan", place.regions, 1,
                           workers * (30 + per_element), 1.0, 3, place.regions, error));
  cost->phases.items[cost->phases.count - 1].repeats = levels;
  return TRM_OK;
}

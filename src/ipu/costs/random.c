/* Owns: random numbers and dropout on an IPU, whose workers have a generator in hardware.
 * Formulas: docs/cost_model.md, "Random". */
#include "hlo/config.h"
#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

/* The name of the compute set in poprand. */
static const char *word_of(bool dropout, bool normal, const trm_instruction *instruction) {
  if (dropout) return "dropout";
  if (trm_config_is_text(instruction, "distribution", "truncated_normal")) return "truncatedNormal";
  return normal ? "normal" : "uniform";
}

trm_status trm_tile_random(const trm_tile_request *request, trm_tile_cost *cost, trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  const trm_instruction *instruction = request->instruction;
  const int64_t workers = request->target->num_worker_contexts;
  for (uint32_t l = 0; l < cost->num_results; ++l) {
    const trm_shape *shape = trm_shape_leaf(&instruction->shape, (int32_t)l);
    trm_mapping *place = &cost->results[l].mapping;
    if (place->kind == TRM_MAPPING_NONE) continue;
    if (instruction->opcode != TRM_OP_RNG && instruction->opcode != TRM_OP_CUSTOM_CALL &&
        trm_shape_count(shape) <= 4) {
      continue; /* the generator's state */
    }
    const bool dropout = instruction->call_id == TRM_CALL_DROPOUT;
    if (dropout && request->num_operands > 0 && !request->operands[0].is_view &&
        trm_shape_count(&request->operands[0].shape) == trm_shape_count(shape)) {
      *place = trm_mapping_like(&request->operands[0].mapping, shape->dtype);
      if (request->operands[0].dies) cost->results[l].in_place = 0;
    }
    const bool normal = instruction->distribution == 2 ||
                        trm_config_is_text(instruction, "distribution", "normal") ||
                        trm_config_is_text(instruction, "distribution", "truncated_normal");
    const int64_t width = trm_tile_vector_width(shape->dtype);
    /* For a vector: urand64, two or four conversions, a scaled add, a store. */
    const int64_t per_vector = dropout ? 4 : normal ? 8 : 5;
    const int64_t vectors = trm_ceil_divide(trm_ceil_divide(place->worst, width), workers);
    const char *codelet = dropout  ? "poprand::Dropout"
                          : normal ? "poprand::Normal"
                                   : "poprand::Uniform";
    if (dropout) {
      /* Every tile gets the seed, sets it, and restores its own afterwards. */
      TRY(trm_tile_add_exchange(request, cost, "ExchangePre", 8, 8 * (int64_t)place->regions, 8, 1,
                                error));
      TRY(trm_tile_add_compute(request, cost, "setSeed", "poprand::SetSeed", place->regions, 1, 120,
                               1.0, 1, 0, error));
    }
    TRY(trm_tile_add_compute(request, cost, word_of(dropout, normal, instruction), codelet,
                             place->regions, 1, workers * (40 + per_vector * vectors) + 11,
                             trm_mapping_evenness(place), dropout ? 3 : 1, place->count, error));
  }
  if (cost->phases.count > 0) return TRM_OK;
  /* The result is only the generator's state. */
  return trm_tile_add_compute(request, cost, "updateState", "poprand::SetSeed", 1, 1, 60, 1.0, 1, 0,
                              error);
}

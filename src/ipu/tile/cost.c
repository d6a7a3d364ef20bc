/* Owns: the lists of a cost (cost.h). */
#include "ipu/tile/cost.h"

void trm_tile_cost_free(trm_tile_cost *cost) {
  VECTOR_FREE(&cost->phases);
  trm_free(cost->results);
  cost->results = NULL;
}

trm_status trm_tile_cost_add(trm_tile_cost *cost, const trm_phase *phase, trm_error *error) {
  trm_phase added = *phase;
  if (added.repeats < 1) added.repeats = 1;
  if (!VECTOR_PUSH(&cost->phases, added)) FAIL_NO_MEMORY("a cost");
  return TRM_OK;
}

trm_status trm_tile_cost_begin(trm_tile_cost *cost, const trm_tile_request *request,
                               trm_error *error) {
  const trm_shape *shape = &request->instruction->shape;
  cost->num_results = (uint32_t)trm_shape_num_leaves(shape);
  trm_free(cost->results);
  cost->results = trm_allocate_zeroed(cost->num_results, sizeof *cost->results);
  CHECK_MEMORY(cost->results, "a cost");
  uint32_t tile = request->next_tile;
  for (uint32_t l = 0; l < cost->num_results; ++l) {
    cost->results[l].in_place = -1;
    cost->results[l].mapping =
        trm_mapping_linear(request->target, trm_shape_leaf(shape, (int32_t)l), request->ipu, tile);
    tile += cost->results[l].mapping.regions;
  }
  return TRM_OK;
}

static uint32_t first_tile_of(const trm_tile_cost *cost, const trm_tile_request *request,
                              uint32_t active_tiles) {
  for (uint32_t l = 0; l < cost->num_results; ++l) {
    const trm_mapping *m = &cost->results[l].mapping;
    if (m->regions == active_tiles) return m->first_tile;
  }
  for (uint32_t k = 0; k < request->num_operands; ++k) {
    const trm_mapping *m = &request->operands[k].mapping;
    if (m->regions == active_tiles) return m->first_tile;
  }
  return cost->num_results == 0 ? 0 : cost->results[0].mapping.first_tile;
}

void trm_tile_cost_place(trm_tile_cost *cost, const trm_tile_request *request) {
  const trm_phase *next = NULL;
  for (size_t p = cost->phases.count; p-- > 0;) {
    trm_phase *phase = &cost->phases.items[p];
    const bool follows = phase->kind == TRM_PHASE_EXCHANGE && next != NULL;
    phase->first_tile =
        follows ? next->first_tile : first_tile_of(cost, request, phase->active_tiles);
    next = phase;
  }
}

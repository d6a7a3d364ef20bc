/* Owns: a multi-convolution on an IPU: convolutions that run at the same time.
 *
 * Each has the plan that it has alone. Steps of one name are one exchange and one compute set, so
 * there is one sync for all of them; a tile that is in several plans computes one after the other.
 */
#include <string.h>

#include "ipu/tile/exchange.h"

/* Adds phase `more`, of another convolution, to a phase. */
static void join_phase(trm_phase *phase, const trm_phase *more) {
  phase->cycles += more->cycles;
  phase->sync_cycles = trm_most(phase->sync_cycles, more->sync_cycles);
  phase->cycles_mean += more->cycles_mean;
  if (more->active_tiles > phase->active_tiles) phase->active_tiles = more->active_tiles;
  phase->bytes_in_worst += more->bytes_in_worst;
  phase->bytes_in_total += more->bytes_in_total;
  phase->bytes_out_worst += more->bytes_out_worst;
  phase->bytes_out_total += more->bytes_out_total;
  phase->messages_worst += more->messages_worst;
  phase->edges += more->edges;
  phase->flops += more->flops;
  phase->temporary_worst += more->temporary_worst;
  phase->temporary_total += more->temporary_total;
  for (uint32_t g = 0; g < more->num_groups; ++g) {
    uint32_t same = 0;
    while (same < phase->num_groups &&
           strcmp(phase->groups[same].codelet, more->groups[g].codelet) != 0) {
      ++same;
    }
    if (same == TRM_MAX_VERTEX_GROUPS) same = 0;
    trm_vertex_group *group = &phase->groups[same];
    if (same == phase->num_groups) {
      *group = more->groups[g];
      ++phase->num_groups;
      continue;
    }
    group->count += more->groups[g].count;
    group->cycles += more->groups[g].cycles;
    if (more->groups[g].state_bytes > group->state_bytes) {
      group->state_bytes = more->groups[g].state_bytes;
      group->array_bytes = more->groups[g].array_bytes;
    }
  }
}

/* Merges the phases of a convolution into those of the ones before, in order. */
static trm_status merge_phases(trm_tile_cost *cost, const trm_tile_cost *one, trm_error *error) {
  size_t position = 0;
  for (size_t p = 0; p < one->phases.count; ++p) {
    trm_phase phase = one->phases.items[p];
    phase.frees = 0; /* the bits are leaves of this convolution alone */
    phase.name = trm_arena_format(cost->arena, "MultiConv/%s", phase.name);
    CHECK_MEMORY(phase.name, "a cost");
    size_t same = position;
    while (same < cost->phases.count && (cost->phases.items[same].kind != phase.kind ||
                                         cost->phases.items[same].repeats != phase.repeats ||
                                         strcmp(cost->phases.items[same].name, phase.name) != 0)) {
      ++same;
    }
    if (same < cost->phases.count) {
      join_phase(&cost->phases.items[same], &phase);
      position = same + 1;
      continue;
    }
    TRY(trm_tile_cost_add(cost, &phase, error));
    trm_phase *items = cost->phases.items;
    memmove(&items[position + 1], &items[position],
            (cost->phases.count - 1 - position) * sizeof *items);
    items[position++] = phase;
  }
  return TRM_OK;
}

/* Adds convolution number r, whose operands are 2 r and 2 r + 1. */
static trm_status add_convolution(const trm_tile_request *request, const trm_computation *body,
                                  uint32_t r, trm_tile_cost *cost, trm_error *error) {
  trm_tile_request own = *request;
  own.computation = body;
  own.instruction = &body->instructions[body->instructions[body->root].operands[r]];
  own.num_operands = 2;
  own.operands = &request->operands[2 * r];
  trm_tile_cost one = {.arena = cost->arena};
  trm_status status = trm_tile_convolution(&own, &one, error);
  if (status == TRM_OK) status = merge_phases(cost, &one, error);
  if (status == TRM_OK) {
    cost->results[r] = one.results[0];
    cost->temporary_worst += one.temporary_worst;
    cost->temporary_total += one.temporary_total;
    for (uint32_t w = 0; w < one.num_preferences && cost->num_preferences < TRM_MAX_PREFERENCES;
         ++w) {
      cost->preferences[cost->num_preferences] = one.preferences[w];
      cost->preferences[cost->num_preferences++].operand += 2 * r;
    }
    if (cost->note == NULL) cost->note = one.note;
    if (cost->plan == NULL || one.plan == NULL) {
      cost->plan = cost->plan == NULL ? one.plan : cost->plan;
    } else {
      cost->plan = trm_arena_format(cost->arena, "%s; %s", cost->plan, one.plan);
      if (cost->plan == NULL) status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
    }
  }
  trm_tile_cost_free(&one);
  return status;
}

/* Whether a pass has made the call (ipu/passes/multi_conv.c). */
static bool is_ours(const trm_tile_request *request, uint32_t num_results) {
  const trm_instruction *call = request->instruction;
  if (call->num_called != 1 || request->num_operands != 2 * num_results) return false;
  const trm_computation *body = &request->module->computations[call->called[0]];
  const trm_instruction *root = &body->instructions[body->root];
  if (root->opcode != TRM_OP_TUPLE || root->num_operands != num_results) return false;
  for (uint32_t r = 0; r < num_results; ++r) {
    const trm_instruction *one = &body->instructions[root->operands[r]];
    if (one->opcode != TRM_OP_CONVOLUTION || one->num_operands != 2) return false;
  }
  return true;
}

trm_status trm_tile_multi_convolution(const trm_tile_request *request, trm_tile_cost *cost,
                                      trm_error *error) {
  TRY(trm_tile_cost_begin(cost, request, error));
  if (!is_ours(request, cost->num_results)) return TRM_OK;
  const trm_computation *body = &request->module->computations[request->instruction->called[0]];
  for (uint32_t r = 0; r < cost->num_results; ++r) {
    TRY(add_convolution(request, body, r, cost, error));
  }
  return TRM_OK;
}

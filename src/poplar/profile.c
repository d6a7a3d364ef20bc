/* Owns: the summary of a plain program's estimate, which Engine::printProfileSummary() prints. */
#include "poplar/profile.h"

#include "ipu/target/target.h"

static void write_graph(const trm_poplar_core *core, bool variables, trm_text *text) {
  const trm_target *target = core->target;
  size_t edges = 0;
  VECTOR_EACH(const trm_poplar_vertex, vertex, core->vertices) {
    for (size_t b = 0; b < vertex->bindings.count; ++b) {
      edges += vertex->bindings.items[b].tensor != NULL;
    }
  }
  trm_text_format(text,
                  "Target:\n  Number of IPUs: %u\n  Tiles per IPU: %u\n  Memory per tile: %u B\n"
                  "  Clock: %.1f MHz\n",
                  core->num_ipus, core->tiles_per_ipu, target->bytes_per_tile,
                  target->clock_frequency / 1e6);
  trm_text_format(text,
                  "Graph:\n  Number of vertices: %zu\n  Number of edges: %zu\n"
                  "  Number of variables: %zu\n  Number of compute sets: %zu\n",
                  core->vertices.count, edges, core->variables.count, core->compute_sets.count);
  for (size_t v = 0; variables && v < core->variables.count; ++v) {
    const trm_poplar_variable *one = &core->variables.items[v];
    trm_text_format(text, "  Variable '%s': %zu B on %zu intervals of tiles\n", one->name,
                    (size_t)one->elements * trm_dtype_size(one->dtype), one->places.count);
  }
}

/* One run of a phase, with its synchronisation. */
static int64_t cycles_of(const trm_phase *phase, const trm_target *target) {
  const bool is_exchange = phase->kind == TRM_PHASE_EXCHANGE;
  return phase->cycles + (is_exchange ? (int64_t)target->max_sync_delay : 0);
}

static void write_program(const trm_tile_cost *cost, const trm_target *target, uint32_t number,
                          uint64_t runs, bool steps, trm_text *text) {
  double exchange = 0, compute = 0;
  VECTOR_EACH(const trm_phase, phase, cost->phases) {
    const double cycles = (double)cycles_of(phase, target) * (double)phase->repeats;
    *(phase->kind == TRM_PHASE_EXCHANGE ? &exchange : &compute) += cycles;
  }
  trm_text_format(text,
                  "  Program %u, run %llu times: %.0f cycles each (%.2f us)\n"
                  "    Computing: %.0f\n    Exchanging: %.0f\n",
                  number, (unsigned long long)runs, compute + exchange,
                  (compute + exchange) * 1e6 / target->clock_frequency, compute, exchange);
  if (cost->note != NULL) trm_text_format(text, "    Note:%s\n", cost->note);
  for (size_t p = 0; steps && p < cost->phases.count; ++p) {
    const trm_phase *phase = &cost->phases.items[p];
    int64_t vertices = 0;
    for (uint32_t g = 0; g < phase->num_groups; ++g) vertices += phase->groups[g].count;
    trm_text_format(text, "    %s: '%s', %lld times %lld cycles, %lld vertices on %u tiles\n",
                    phase->kind == TRM_PHASE_EXCHANGE ? "DoExchange" : "OnTileExecute", phase->name,
                    (long long)phase->repeats, (long long)cycles_of(phase, target),
                    (long long)vertices, phase->active_tiles);
  }
}

trm_status trm_poplar_write_profile(const trm_poplar_plan *plan, const uint64_t *runs,
                                    uint32_t count, bool steps, bool variables, trm_text *text,
                                    trm_error *error) {
  const trm_poplar_core *core = plan->graph->core;
  const trm_instruction unnamed = {.name = ""};
  const trm_tile_request request = {.target = core->target, .instruction = &unnamed};
  write_graph(core, variables, text);
  trm_status status = TRM_OK;
  for (uint32_t i = 0; i < count && status == TRM_OK; ++i) {
    trm_arena arena = {0};
    trm_tile_cost cost = {.arena = &arena};
    status = trm_poplar_estimate(&request, plan, plan->program->children.items[i], &cost, error);
    if (status == TRM_OK && i == 0) {
      trm_text_format(text,
                      "Memory of variables:\n  All tiles: %lld B\n  Fullest tile: %lld B\n"
                      "Execution, estimated:\n",
                      (long long)cost.temporary_total, (long long)cost.temporary_worst);
    }
    if (status == TRM_OK) write_program(&cost, core->target, i, runs[i], steps, text);
    trm_tile_cost_free(&cost);
    trm_arena_free(&arena);
  }
  return status;
}

/* Owns: graphs, and what they are made of at their beginning and end. */
#include "poplar/graph.h"

#include <stdio.h>
#include <string.h>

#include "poplar/step.h"

/* ---- Graphs --------------------------------------------------------------------------------- */

static void core_release(trm_poplar_core *core) {
  if (core == NULL || --core->references > 0) return;
  for (size_t v = 0; v < core->variables.count; ++v) {
    trm_free(core->variables.items[v].initial);
    VECTOR_FREE(&core->variables.items[v].places);
  }
  for (size_t c = 0; c < core->compute_sets.count; ++c) {
    VECTOR_FREE(&core->compute_sets.items[c].vertices);
  }
  for (size_t v = 0; v < core->vertices.count; ++v)
    trm_poplar_vertex_free(&core->vertices.items[v]);
  VECTOR_EACH(const trm_poplar_estimator, one, core->estimators) {
    if (one->release != NULL) one->release(one->user);
  }
  for (size_t s = 0; s < core->steps.count; ++s) trm_poplar_step_free(core->steps.items[s]);
  for (size_t c = 0; c < core->codelets.count; ++c) {
    trm_poplar_close_codelets(&core->codelets.items[c]);
  }
  for (size_t s = 0; s < core->streams.count; ++s) {
    trm_poplar_tensor_release(core->streams.items[s].elements);
    trm_poplar_program_release(core->streams.items[s].access);
  }
  VECTOR_FREE(&core->streams);
  VECTOR_FREE(&core->variables);
  VECTOR_FREE(&core->compute_sets);
  VECTOR_FREE(&core->vertices);
  VECTOR_FREE(&core->estimators);
  VECTOR_FREE(&core->codelets);
  VECTOR_FREE(&core->loaded);
  VECTOR_FREE(&core->steps);
  trm_target_release(core->target);
  trm_arena_free(&core->arena);
  trm_free(core);
}

/* Takes over the core. */
static trm_status graph_of(trm_poplar_core *core, uint32_t num_tiles, const uint32_t *tiles,
                           trm_poplar_graph **out_graph, trm_poplar_error *error) {
  trm_poplar_graph *graph = trm_allocate_zeroed(1, sizeof *graph);
  uint32_t *own = tiles == NULL ? NULL : trm_allocate_zeroed(num_tiles + 1u, sizeof *own);
  if (graph == NULL || (tiles != NULL && own == NULL)) {
    trm_free(graph);
    trm_free(own);
    core_release(core);
    THROW_NO_MEMORY("a graph");
  }
  if (own != NULL) memcpy(own, tiles, num_tiles * sizeof *own);
  *graph = (trm_poplar_graph){1, core, num_tiles, own};
  *out_graph = graph;
  return TRM_OK;
}

int32_t trm_poplar_graph_create(const char *target, uint32_t num_ipus, uint32_t tiles_per_ipu,
                                trm_poplar_graph **out_graph, trm_poplar_error *error) {
  trm_error inner;
  trm_target *machine, *resized;
  if (trm_target_load(target, &machine, &inner) != TRM_OK) return trm_poplar_pass(error, &inner);
  const trm_status status = trm_target_resize(machine, num_ipus, tiles_per_ipu, &resized, &inner);
  trm_target_release(machine);
  if (status != TRM_OK) return trm_poplar_pass(error, &inner);
  trm_poplar_core *core = trm_allocate_zeroed(1, sizeof *core);
  if (core == NULL) {
    trm_target_release(resized);
    THROW_NO_MEMORY("a graph");
  }
  double tiles = 0;
  (void)trm_target_number(resized, "tilesPerIPU", &tiles);
  core->references = 1;
  core->target = resized;
  core->target_name = trm_poplar_name(core, target);
  if (core->target_name == NULL) {
    core_release(core);
    THROW_NO_MEMORY("a graph");
  }
  core->num_ipus = num_ipus;
  core->tiles_per_ipu = (uint32_t)tiles;
  return graph_of(core, core->num_ipus * core->tiles_per_ipu, NULL, out_graph, error);
}

void trm_poplar_graph_retain(trm_poplar_graph *graph) {
  if (graph != NULL) ++graph->references;
}

void trm_poplar_graph_release(trm_poplar_graph *graph) {
  if (graph == NULL || --graph->references > 0) return;
  core_release(graph->core);
  trm_free(graph->tiles);
  trm_free(graph);
}

int32_t trm_poplar_graph_virtual(trm_poplar_graph *parent, const uint32_t *tiles,
                                 uint32_t num_tiles, trm_poplar_graph **out_graph,
                                 trm_poplar_error *error) {
  if (num_tiles == 0) THROW_POPLAR("a virtual graph has at least one tile");
  for (uint32_t t = 0; t < num_tiles; ++t) {
    if (tiles[t] >= parent->num_tiles) {
      THROW_POPLAR("a virtual graph with tile %u of a graph of %u tiles", tiles[t],
                   parent->num_tiles);
    }
  }
  trm_poplar_graph *graph;
  ++parent->core->references;
  TRY(graph_of(parent->core, num_tiles, tiles, &graph, error));
  for (uint32_t t = 0; t < num_tiles && parent->tiles != NULL; ++t) {
    graph->tiles[t] = parent->tiles[tiles[t]];
  }
  *out_graph = graph;
  return TRM_OK;
}

bool trm_poplar_graph_target(const trm_poplar_graph *graph, const char *key, double *out_number) {
  const trm_poplar_core *core = graph->core;
  if (strcmp(key, "numTiles") == 0) *out_number = graph->num_tiles;
  else if (strcmp(key, "tilesPerIPU") == 0) *out_number = core->tiles_per_ipu;
  else if (strcmp(key, "numIPUs") == 0) {
    const uint32_t ipus = graph->num_tiles / core->tiles_per_ipu;
    *out_number = ipus < 1 ? 1 : ipus;
  } else {
    return trm_target_number(core->target, key, out_number);
  }
  return true;
}

int32_t trm_poplar_add_compute_set(trm_poplar_graph *graph, const char *name,
                                   uint32_t *out_compute_set, trm_poplar_error *error) {
  trm_poplar_core *core = graph->core;
  const trm_poplar_compute_set set = {.name = trm_poplar_name(core, name)};
  if (set.name == NULL || !VECTOR_PUSH(&core->compute_sets, set)) THROW_NO_MEMORY("a compute set");
  *out_compute_set = (uint32_t)core->compute_sets.count - 1;
  return TRM_OK;
}

/* Owns: the graph report: target, compute sets, vertices and memory, with the keys and structure of
 * Poplar's JSON reports (docs/events.md). */
#include <stdlib.h>
#include <string.h>

#include "ipu/target/target.h"
#include "report/describe.h"

static void put_target(const trm_program *p, bool is_model, trm_stream *s) {
  const trm_target *target = p->target;
  const trm_program_totals *t = &p->totals;
  trm_stream_key(s, "target");
  trm_stream_object(s);
  trm_stream_put_string(s, "type", is_model ? "IPU_MODEL" : "IPU");
  trm_stream_put_string(s, "architecture", target->architecture);
  trm_stream_put_int(s, "numIPUs", t->num_ipus);
  trm_stream_put_int(s, "numReplicas", t->replicas);
  trm_stream_put_int(s, "tilesPerIPU", t->tiles_per_ipu);
  trm_stream_put_int(s, "numTiles", (int64_t)t->num_ipus * t->tiles_per_ipu);
  trm_stream_put_int(s, "bytesPerTile", (int64_t)target->bytes_per_tile);
  trm_stream_put_int(s, "bytesPerIPU", (int64_t)target->bytes_per_tile * t->tiles_per_ipu);
  trm_stream_put_int(s, "totalMemory",
                     (int64_t)target->bytes_per_tile * t->tiles_per_ipu * t->num_ipus);
  trm_stream_key(s, "clockFrequency");
  trm_stream_real(s, target->clock_frequency);
  trm_stream_end_object(s);
}

static void put_numbers(const trm_program *p, trm_stream *s) {
  trm_stream_key(s, "graph");
  trm_stream_object(s);
  trm_stream_put_int(s, "numComputeSets", p->totals.num_compute_sets);
  trm_stream_put_int(s, "numVars", p->totals.num_variables);
  trm_stream_put_int(s, "numVertices", p->totals.num_vertices);
  trm_stream_put_int(s, "numEdges", p->totals.num_edges);
  trm_stream_end_object(s);
}

static void put_compute_sets(const trm_program *p, trm_stream *s) {
  trm_stream_key(s, "computeSets");
  trm_stream_object(s);
  trm_stream_key(s, "names");
  trm_stream_array(s);
  for (uint32_t i = 0; i < p->num_compute_sets; ++i) {
    if (p->compute_sets[i].shared_with != TRM_NO_INDEX) continue; /* counted with that set */
    trm_stream_string(s, p->compute_sets[i].name);
  }
  trm_stream_end_array(s);
  trm_stream_key(s, "vertexCounts");
  trm_stream_array(s);
  for (uint32_t i = 0; i < p->num_compute_sets; ++i) {
    if (p->compute_sets[i].shared_with != TRM_NO_INDEX) continue;
    trm_stream_int(s, p->compute_sets[i].vertices);
  }
  trm_stream_end_array(s);
  trm_stream_end_object(s);
}

static int by_codelet(const void *a, const void *b) {
  const trm_vertex_group *const *l = a, *const *r = b;
  const int order = strcmp((*l)->codelet, (*r)->codelet);
  if (order != 0) return order;
  return ((*l)->code_bytes < (*r)->code_bytes) - ((*l)->code_bytes > (*r)->code_bytes);
}

static trm_status put_vertex_types(const trm_program *p, trm_stream *s, trm_error *error) {
  size_t count = 0;
  for (uint32_t i = 0; i < p->num_compute_sets; ++i) count += p->compute_sets[i].num_groups;
  const trm_vertex_group **groups = trm_allocate_zeroed(count + 1, sizeof *groups);
  CHECK_MEMORY(groups, "a report");
  count = 0;
  for (uint32_t i = 0; i < p->num_compute_sets; ++i) {
    for (uint32_t g = 0; g < p->compute_sets[i].num_groups; ++g) {
      groups[count++] = &p->compute_sets[i].groups[g];
    }
  }
  qsort(groups, count, sizeof *groups, by_codelet);
  trm_stream_key(s, "vertexTypes");
  trm_stream_object(s);
  for (int sizes = 0; sizes < 2; ++sizes) {
    trm_stream_key(s, sizes ? "codeBytes" : "names");
    trm_stream_array(s);
    for (size_t i = 0; i < count; ++i) {
      if (i > 0 && strcmp(groups[i]->codelet, groups[i - 1]->codelet) == 0) continue;
      if (sizes) trm_stream_int(s, groups[i]->code_bytes);
      else trm_stream_string(s, groups[i]->codelet);
    }
    trm_stream_end_array(s);
  }
  trm_stream_end_object(s);
  trm_free(groups);
  return TRM_OK;
}

static void put_bytes(trm_stream *s, const char *key, const int64_t *a, const int64_t *b,
                      const int64_t *c, uint32_t tiles) {
  trm_stream_key(s, key);
  trm_stream_array(s);
  for (uint32_t t = 0; t < tiles; ++t) {
    trm_stream_int(s, a[t] + (b != NULL ? b[t] : 0) + (c != NULL ? c[t] : 0));
  }
  trm_stream_end_array(s);
}

/* Writes the tree of steps, each with its live bytes that are not always live. */
static trm_status put_steps(const trm_program *p, trm_stream *s, trm_error *error) {
  uint32_t *open = trm_allocate_zeroed((size_t)p->num_steps + 1, sizeof *open);
  CHECK_MEMORY(open, "a report");
  size_t depth = 0;
  trm_stream_key(s, "byProgram");
  trm_stream_array(s);
  for (uint32_t i = 0; i <= p->num_steps; ++i) {
    while (depth > 0 && (i == p->num_steps || i >= open[depth - 1])) {
      trm_stream_end_array(s);
      trm_stream_end_object(s);
      --depth;
    }
    if (i == p->num_steps) break;
    const trm_program_step *step = &p->steps[i];
    const int64_t bytes = step->live_total - p->totals.always_live_bytes;
    trm_stream_object(s);
    trm_stream_put_string(s, "name", step->name);
    trm_stream_put_string(s, "type", trm_program_step_type_name(step->type));
    trm_stream_put_int(s, "bytes", bytes > 0 ? bytes : 0);
    trm_stream_key(s, "children");
    trm_stream_array(s);
    open[depth++] = step->end;
  }
  trm_stream_end_array(s);
  trm_free(open);
  return TRM_OK;
}

static trm_status put_memory(const trm_program *p, trm_stream *s, trm_error *error) {
  const trm_program_memory *m = &p->memory;
  trm_stream_key(s, "memory");
  trm_stream_object(s);
  trm_stream_key(s, "byTile");
  trm_stream_object(s);
  put_bytes(s, "total", m->always_live, m->not_always_live, NULL, m->num_tiles);
  put_bytes(s, "totalIncludingGaps", m->always_live, m->not_always_live, m->gaps, m->num_tiles);
  put_bytes(s, "overflowed", m->overflowed, NULL, NULL, m->num_tiles);
  trm_stream_end_object(s);
  trm_stream_key(s, "byCategory");
  trm_stream_object(s);
  for (int c = 0; c < TRM_NUM_MEMORY_CATEGORIES; ++c) {
    int64_t bytes = 0;
    for (uint32_t t = 0; t < m->num_tiles; ++t) bytes += m->by_category[c][t];
    if (bytes > 0) {
      trm_stream_put_int(s, trm_memory_category_name((trm_memory_category)c), bytes);
    }
  }
  trm_stream_end_object(s);
  trm_stream_key(s, "liveness");
  trm_stream_object(s);
  trm_stream_key(s, "alwaysLive");
  trm_stream_object(s);
  put_bytes(s, "bytesByTile", m->always_live, NULL, NULL, m->num_tiles);
  trm_stream_end_object(s);
  trm_stream_key(s, "notAlwaysLive");
  trm_stream_object(s);
  put_bytes(s, "bytesByTile", m->not_always_live, NULL, NULL, m->num_tiles);
  TRY(put_steps(p, s, error));
  trm_stream_end_object(s);
  trm_stream_end_object(s);
  trm_stream_end_object(s);
  return TRM_OK;
}

trm_status trm_describe_graph(const trm_program *p, bool is_model, trm_stream *s,
                              trm_error *error) {
  trm_stream_object(s);
  trm_stream_put_string(s, "module", p->module->name);
  trm_stream_key(s, "fits");
  trm_stream_bool(s, p->totals.fits);
  put_target(p, is_model, s);
  put_numbers(p, s);
  TRY(put_vertex_types(p, s, error));
  put_compute_sets(p, s);
  TRY(put_memory(p, s, error));
  trm_stream_key(s, "notes");
  trm_stream_array(s);
  for (uint32_t n = 0; n < p->num_notes; ++n) trm_stream_string(s, p->notes[n]);
  trm_stream_end_array(s);
  trm_stream_end_object(s);
  return TRM_OK;
}

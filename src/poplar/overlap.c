/* Owns: the check that no vertex of a compute set writes what another one reads or writes, so that
 * they run in any order. */
#include <string.h>

#include "poplar/plan.h"

typedef struct check {
  const trm_poplar_core *core;
  /* By variable: none yet, or by element the vertex that writes it, plus 1. */
  uint32_t **writers;
} check;

static trm_status refuse(const check *c, const trm_poplar_vertex *vertex, uint32_t variable,
                         uint64_t begin, uint64_t end, const char *how, trm_poplar_error *error) {
  THROW_POPLAR("Vertex '%s' in compute set '%s' writes to elements [%llu:%llu) of variable '%s' "
               "that are %s elsewhere in same compute set",
               vertex->codelet->name, c->core->compute_sets.items[vertex->compute_set].name,
               (unsigned long long)begin, (unsigned long long)end,
               c->core->variables.items[variable].name, how);
}

/* Elements of a run that others have written: refuses the first of them and those that follow. */
static trm_status check_run(check *c, uint32_t number, const trm_poplar_run *run, bool writes,
                            trm_poplar_error *error) {
  uint32_t *writers = c->writers[run->variable];
  if (writers == NULL) {
    if (!writes) return TRM_OK;
    const size_t elements = (size_t)c->core->variables.items[run->variable].elements;
    writers = c->writers[run->variable] = trm_allocate_zeroed(elements, sizeof *writers);
    if (writers == NULL) THROW_NO_MEMORY("the check of a compute set");
  }
  for (uint64_t i = 0; i < run->length; ++i) {
    const int64_t at = run->offset + (int64_t)i * run->stride;
    const uint32_t other = writers[at];
    if (other != 0 && other != number + 1) {
      uint64_t end = i + 1;
      while (end < run->length && run->stride == 1 && writers[at + (int64_t)(end - i)] == other) {
        ++end;
      }
      return refuse(c, &c->core->vertices.items[writes ? number : other - 1], run->variable,
                    (uint64_t)at, (uint64_t)at + (end - i), writes ? "written to" : "read", error);
    }
    if (writes) writers[at] = number + 1;
  }
  return TRM_OK;
}

static trm_status check_vertex(check *c, uint32_t number, bool writes, trm_poplar_error *error) {
  const trm_poplar_vertex *vertex = &c->core->vertices.items[number];
  VECTOR_EACH(const trm_poplar_binding, binding, vertex->bindings) {
    const uint8_t direction = vertex->codelet->fields[binding->field].direction;
    if (binding->tensor == NULL || ((direction & TRM_CODELET_OUTPUT) != 0) != writes) continue;
    for (uint64_t r = 0; r < binding->tensor->num_runs; ++r) {
      TRY(check_run(c, number, &binding->tensor->runs[r], writes, error));
    }
  }
  return TRM_OK;
}

trm_status trm_poplar_check_overlap(const trm_poplar_core *core, uint32_t set,
                                    trm_poplar_error *error) {
  const trm_poplar_compute_set *compute_set = &core->compute_sets.items[set];
  const size_t count = core->variables.count;
  check c = {core, trm_allocate_zeroed(count + 1, sizeof *c.writers)};
  if (c.writers == NULL) THROW_NO_MEMORY("the check of a compute set");
  trm_status status = TRM_OK;
  for (int reads = 0; reads < 2; ++reads) {
    for (size_t v = 0; v < compute_set->vertices.count && status == TRM_OK; ++v) {
      status = check_vertex(&c, compute_set->vertices.items[v], reads == 0, error);
    }
  }
  for (size_t v = 0; v < count; ++v) trm_free(c.writers[v]);
  trm_free(c.writers);
  return status;
}

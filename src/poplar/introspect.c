/* Owns: what estimators see of a vertex. */
#include "poplar/introspect.h"

#include <string.h>

static bool field_of(const trm_poplar_introspector *vertex, const char *name, uint32_t *out_field) {
  const trm_codelet_vertex *codelet = vertex->vertex->codelet;
  for (uint32_t f = 0; f < codelet->num_fields; ++f) {
    *out_field = f;
    if (strcmp(codelet->fields[f].name, name) == 0) return true;
  }
  return false;
}

uint32_t trm_poplar_introspect_tile(const trm_poplar_introspector *vertex) {
  return vertex->vertex->tile;
}

bool trm_poplar_introspect_size(const trm_poplar_introspector *vertex, const char *name,
                                int64_t index, uint64_t *out_elements) {
  uint32_t f;
  if (!field_of(vertex, name, &f)) return false;
  const trm_codelet_field *field = &vertex->vertex->codelet->fields[f];
  if (field->kind == TRM_CODELET_LISTS && index < 0) {
    *out_elements = trm_poplar_list_size(vertex->vertex, f);
    return true;
  }
  const trm_poplar_binding *one = trm_poplar_bound(vertex->vertex, f, index);
  if (one == NULL) return false;
  *out_elements = (one->tensor != NULL ? one->tensor->elements : one->count) / field->width;
  return true;
}

bool trm_poplar_introspect_value(const trm_poplar_introspector *vertex, const char *name,
                                 uint64_t element, double *out_value) {
  uint32_t f;
  if (!field_of(vertex, name, &f)) return false;
  const trm_poplar_binding *one = trm_poplar_bound(vertex->vertex, f, -1);
  if (one == NULL || one->data == NULL || element >= one->count) return false;
  *out_value = trm_poplar_number(vertex->vertex->codelet->fields[f].dtype, one->data, element);
  return true;
}

/* Owns: vertices, what their fields are connected to or set to, and what estimators see of them. */
#include <string.h>

#include "poplar/graph.h"

static trm_status vertex_of(const trm_poplar_graph *graph, uint32_t number,
                            trm_poplar_vertex **out_vertex, trm_poplar_error *error) {
  if (number >= graph->core->vertices.count) THROW_POPLAR("the graph has no vertex %u", number);
  *out_vertex = &graph->core->vertices.items[number];
  return TRM_OK;
}

static trm_status field_of(const trm_poplar_vertex *vertex, const char *name, uint32_t *out_field,
                           trm_poplar_error *error) {
  const trm_codelet_vertex *codelet = vertex->codelet;
  for (uint32_t f = 0; f < codelet->num_fields; ++f) {
    if (strcmp(codelet->fields[f].name, name) == 0) {
      *out_field = f;
      return TRM_OK;
    }
  }
  THROW(NO_SUCH_FIELD, "the vertex '%s' has no field '%s'", codelet->name, name);
}

static trm_status find(const trm_poplar_graph *graph, uint32_t number, const char *name,
                       trm_poplar_vertex **out_vertex, uint32_t *out_field,
                       trm_poplar_error *error) {
  TRY(vertex_of(graph, number, out_vertex, error));
  return field_of(*out_vertex, name, out_field, error);
}

int32_t trm_poplar_add_vertex(trm_poplar_graph *graph, uint32_t compute_set, const char *codelet,
                              uint32_t *out_vertex, trm_poplar_error *error) {
  trm_poplar_core *core = graph->core;
  if (compute_set >= core->compute_sets.count) {
    THROW_POPLAR("the graph has no compute set %u", compute_set);
  }
  const trm_poplar_vertex vertex = {.codelet = trm_poplar_find_codelet(core, codelet),
                                    .compute_set = compute_set,
                                    .tile = TRM_POPLAR_NO_TILE};
  if (vertex.codelet == NULL) {
    THROW(NO_SUCH_FIELD,
          "the graph has no codelet '%s': add the file that defines it by addCodelets, and "
          "instantiate a template for its types (template class ...;)",
          codelet);
  }
  const uint32_t number = (uint32_t)core->vertices.count;
  if (!VECTOR_PUSH(&core->vertices, vertex)) THROW_NO_MEMORY("a vertex");
  if (!VECTOR_PUSH(&core->compute_sets.items[compute_set].vertices, number)) {
    --core->vertices.count;
    THROW_NO_MEMORY("a vertex");
  }
  *out_vertex = number;
  return TRM_OK;
}

/* ---- Bindings ------------------------------------------------------------------------------- */

static void binding_free(trm_poplar_binding *binding) {
  trm_poplar_tensor_release(binding->tensor);
  trm_free(binding->data);
}

void trm_poplar_vertex_free(trm_poplar_vertex *vertex) {
  for (size_t b = 0; b < vertex->bindings.count; ++b) binding_free(&vertex->bindings.items[b]);
  VECTOR_FREE(&vertex->bindings);
}

const trm_poplar_binding *trm_poplar_bound(const trm_poplar_vertex *vertex, uint32_t field,
                                           int64_t index) {
  VECTOR_EACH(const trm_poplar_binding, one, vertex->bindings) {
    if (one->field == field && one->index == index) return one;
  }
  return NULL;
}

/* Takes over the binding, in place of one that was there. */
static trm_status bind(trm_poplar_vertex *vertex, trm_poplar_binding *binding,
                       trm_poplar_error *error) {
  VECTOR_EACH(trm_poplar_binding, one, vertex->bindings) {
    if (one->field == binding->field && one->index == binding->index) {
      binding_free(one);
      *one = *binding;
      return TRM_OK;
    }
  }
  if (VECTOR_PUSH(&vertex->bindings, *binding)) return TRM_OK;
  binding_free(binding);
  THROW_NO_MEMORY("a field of a vertex");
}

uint64_t trm_poplar_list_size(const trm_poplar_vertex *vertex, uint32_t field) {
  const trm_poplar_binding *whole = trm_poplar_bound(vertex, field, -1);
  uint64_t size = whole == NULL ? 0 : whole->count;
  VECTOR_EACH(const trm_poplar_binding, one, vertex->bindings) {
    if (one->field == field && one->index >= 0 && (uint64_t)one->index >= size) {
      size = (uint64_t)one->index + 1;
    }
  }
  return size;
}

/* THROW with a text that the field and its vertex stand before. */
#define THROW_FIELD(kind, field, vertex, text, ...)                                              \
  THROW(kind, "the field '%s' of the vertex '%s' " text, (field)->name, (vertex)->codelet->name, \
        __VA_ARGS__)

/* ---- Edges ---------------------------------------------------------------------------------- */

/* Binds a tensor to a field or an element of it, which is of a kind that takes it. */
static trm_status bind_tensor(trm_poplar_graph *graph, uint32_t number, uint32_t f, int64_t index,
                              const trm_poplar_tensor *tensor, trm_poplar_error *error) {
  trm_poplar_vertex *vertex = &graph->core->vertices.items[number];
  const trm_codelet_field *field = &vertex->codelet->fields[f];
  if (tensor == NULL) {
    THROW_FIELD(CONNECTION, field, vertex, "%s", "is connected to a null tensor");
  }
  if (tensor->dtype != field->dtype) {
    THROW_FIELD(CONNECTION, field, vertex,
                "has elements of type %s, but is connected to a tensor of %s",
                trm_dtype_name((trm_dtype)field->dtype), trm_dtype_name(tensor->dtype));
  }
  const bool is_number = field->kind == TRM_CODELET_EDGE;
  if ((is_number && tensor->elements != field->width) || tensor->elements % field->width != 0) {
    THROW_FIELD(CONNECTION, field, vertex, "cannot be connected to a tensor of shape %s",
                SHAPE_TEXT(tensor));
  }
  if ((field->direction & TRM_CODELET_OUTPUT) != 0) {
    TRY(trm_poplar_check_written(graph, tensor, vertex->codelet->name, error));
  }
  trm_poplar_tensor *own = (trm_poplar_tensor *)tensor;
  trm_poplar_tensor_retain(own);
  trm_poplar_binding binding = {.field = f, .index = index, .tensor = own};
  return bind(vertex, &binding, error);
}

static trm_status check_edge(const trm_poplar_vertex *vertex, uint32_t f, int64_t index,
                             trm_poplar_error *error) {
  const trm_codelet_field *field = &vertex->codelet->fields[f];
  if (field->kind < TRM_CODELET_EDGE || (index >= 0 && field->kind != TRM_CODELET_LISTS)) {
    THROW_FIELD(CONNECTION, field, vertex, "%s",
                field->kind < TRM_CODELET_EDGE
                    ? "is no Input, Output or InOut: it takes setInitialValue"
                    : "is one vector: its elements are connected together");
  }
  return TRM_OK;
}

/* Each index of the first dimension of a tensor is an element of a list. */
static trm_status connect_rows(trm_poplar_graph *graph, uint32_t number, uint32_t f,
                               const trm_poplar_tensor *tensor, trm_poplar_error *error) {
  for (uint64_t i = 0; tensor->rank > 0 && i < tensor->dims[0]; ++i) {
    trm_poplar_tensor *row;
    TRY(trm_poplar_tensor_index(tensor, i, &row, error));
    const trm_status status = bind_tensor(graph, number, f, (int64_t)i, row, error);
    trm_poplar_tensor_release(row);
    TRY(status);
  }
  return TRM_OK;
}

int32_t trm_poplar_connect(trm_poplar_graph *graph, uint32_t number, const char *name,
                           int64_t index, const trm_poplar_tensor *tensor,
                           trm_poplar_error *error) {
  trm_poplar_vertex *vertex = NULL;
  uint32_t f;
  TRY(find(graph, number, name, &vertex, &f, error));
  TRY(check_edge(vertex, f, index, error));
  if (tensor != NULL && vertex->codelet->fields[f].kind == TRM_CODELET_LISTS && index < 0) {
    return connect_rows(graph, number, f, tensor, error);
  }
  return bind_tensor(graph, number, f, index, tensor, error);
}

int32_t trm_poplar_connect_list(trm_poplar_graph *graph, uint32_t number, const char *name,
                                const trm_poplar_tensor *const *tensors, uint64_t count,
                                trm_poplar_error *error) {
  trm_poplar_vertex *vertex = NULL;
  uint32_t f;
  TRY(find(graph, number, name, &vertex, &f, error));
  TRY(check_edge(vertex, f, -1, error));
  if (vertex->codelet->fields[f].kind == TRM_CODELET_LISTS) {
    for (uint64_t i = 0; i < count; ++i) {
      TRY(bind_tensor(graph, number, f, (int64_t)i, tensors[i], error));
    }
    return trm_poplar_set_field_size(graph, number, name, -1, count, error);
  }
  trm_poplar_tensor **flat = trm_allocate_zeroed((size_t)count + 1, sizeof *flat);
  if (flat == NULL) THROW_NO_MEMORY("an edge");
  trm_poplar_tensor *joined = NULL;
  trm_status status = TRM_OK;
  for (uint64_t i = 0; i < count && status == TRM_OK; ++i) {
    status = trm_poplar_tensor_reshape(tensors[i], &tensors[i]->elements, 1, &flat[i], error);
  }
  if (status == TRM_OK) {
    status =
        trm_poplar_tensor_concat((const trm_poplar_tensor *const *)flat, count, 0, &joined, error);
  }
  if (status == TRM_OK) status = bind_tensor(graph, number, f, -1, joined, error);
  trm_poplar_tensor_release(joined);
  for (uint64_t i = 0; i < count; ++i) trm_poplar_tensor_release(flat[i]);
  trm_free(flat);
  return status;
}

trm_status trm_poplar_check_vertex(const trm_poplar_core *core, const trm_poplar_vertex *vertex,
                                   trm_poplar_error *error) {
  const trm_codelet_vertex *codelet = vertex->codelet;
  for (uint32_t f = 0; f < codelet->num_fields; ++f) {
    const trm_codelet_field *field = &codelet->fields[f];
    const bool is_list = field->kind == TRM_CODELET_LISTS;
    const uint64_t count = is_list ? trm_poplar_list_size(vertex, f) : 1;
    for (uint64_t i = 0; i < count && field->kind >= TRM_CODELET_EDGE; ++i) {
      const trm_poplar_binding *one = trm_poplar_bound(vertex, f, is_list ? (int64_t)i : -1);
      if (one == NULL || one->tensor == NULL) {
        THROW(CONNECTION,
              "the field '%s' of a vertex '%s' in the compute set '%s' is not connected",
              field->name, codelet->name, core->compute_sets.items[vertex->compute_set].name);
      }
    }
  }
  if (vertex->tile == TRM_POPLAR_NO_TILE) {
    THROW(TILE_MAPPING, "a vertex '%s' in the compute set '%s' is mapped to no tile", codelet->name,
          core->compute_sets.items[vertex->compute_set].name);
  }
  return TRM_OK;
}

/* ---- Values --------------------------------------------------------------------------------- */

int32_t trm_poplar_set_field_size(trm_poplar_graph *graph, uint32_t number, const char *name,
                                  int64_t index, uint64_t size, trm_poplar_error *error) {
  trm_poplar_vertex *vertex = NULL;
  uint32_t f;
  TRY(find(graph, number, name, &vertex, &f, error));
  const trm_codelet_field *field = &vertex->codelet->fields[f];
  if (field->kind == TRM_CODELET_VALUES && index < 0) {
    const trm_dtype dtype = (trm_dtype)field->dtype;
    void *data = trm_allocate_zeroed((size_t)size + 1, trm_dtype_size(dtype) * field->width);
    if (data == NULL) THROW_NO_MEMORY("a field of a vertex");
    trm_poplar_binding binding = {.field = f, .index = -1, .data = data, .count = size};
    return bind(vertex, &binding, error);
  }
  if (field->kind != TRM_CODELET_LISTS || index >= 0) {
    THROW_POPLAR("the size of the field '%s' of the vertex '%s' is that of the tensor that is "
                 "connected to it",
                 name, vertex->codelet->name);
  }
  trm_poplar_binding binding = {.field = f, .index = -1, .count = size};
  return bind(vertex, &binding, error);
}

int32_t trm_poplar_set_initial_value(trm_poplar_graph *graph, uint32_t number, const char *name,
                                     int64_t index, int32_t dtype, const void *data,
                                     uint64_t elements, trm_poplar_error *error) {
  trm_poplar_vertex *vertex = NULL;
  uint32_t f;
  TRY(find(graph, number, name, &vertex, &f, error));
  const trm_codelet_field *field = &vertex->codelet->fields[f];
  if (field->kind > TRM_CODELET_VALUES || index >= 0 ||
      (field->kind == TRM_CODELET_VALUE && elements != field->count)) {
    THROW_POPLAR("the field '%s' of the vertex '%s' does not take %llu values of setInitialValue",
                 name, vertex->codelet->name, (unsigned long long)elements);
  }
  void *own = trm_allocate_zeroed((size_t)elements + 1, trm_dtype_size((trm_dtype)field->dtype));
  if (own == NULL) THROW_NO_MEMORY("a field of a vertex");
  trm_poplar_binding binding = {.field = f, .index = -1, .data = own, .count = elements};
  const trm_status status =
      trm_poplar_convert(field->dtype, own, elements, dtype, data, elements, error);
  if (status == TRM_OK) return bind(vertex, &binding, error);
  trm_free(own);
  return status;
}

/* ---- Tiles and estimates -------------------------------------------------------------------- */

int32_t trm_poplar_set_vertex_tile(trm_poplar_graph *graph, uint32_t number, uint32_t tile,
                                   trm_poplar_error *error) {
  trm_poplar_vertex *vertex = NULL;
  TRY(vertex_of(graph, number, &vertex, error));
  if (tile >= graph->num_tiles) {
    THROW(TILE_MAPPING, "a vertex is mapped to tile %u of a graph of %u tiles", tile,
          graph->num_tiles);
  }
  vertex->tile = graph->tiles == NULL ? tile : graph->tiles[tile];
  return TRM_OK;
}

int32_t trm_poplar_set_perf_estimate(trm_poplar_graph *graph, uint32_t number, uint64_t cycles,
                                     uint64_t flops, trm_poplar_error *error) {
  trm_poplar_vertex *vertex = NULL;
  TRY(vertex_of(graph, number, &vertex, error));
  vertex->is_estimated = true;
  vertex->cycles = cycles;
  vertex->flops = flops;
  return TRM_OK;
}

int32_t trm_poplar_register_perf_estimator(trm_poplar_graph *graph, const char *codelet,
                                           trm_poplar_perf_estimator estimator, void *user,
                                           void (*release)(void *user), trm_poplar_error *error) {
  const trm_poplar_estimator one = {trm_poplar_name(graph->core, codelet), estimator, user,
                                    release};
  if (one.codelet == NULL || !VECTOR_PUSH(&graph->core->estimators, one)) {
    if (release != NULL) release(user);
    THROW_NO_MEMORY("an estimator");
  }
  return TRM_OK;
}

bool trm_poplar_estimate_vertex(const trm_poplar_core *core, const trm_poplar_vertex *vertex,
                                uint64_t *out_cycles, uint64_t *out_flops) {
  *out_cycles = vertex->cycles;
  *out_flops = vertex->flops;
  trm_poplar_introspector seen = {vertex};
  for (size_t i = 0; i < core->estimators.count && !vertex->is_estimated; ++i) {
    const trm_poplar_estimator *one = &core->estimators.items[i];
    uint64_t cycles = 0, flops = 0;
    if (strcmp(one->codelet, vertex->codelet->name) == 0 &&
        one->function(one->user, &seen, &cycles, &flops) == 0) {
      *out_cycles = cycles;
      *out_flops = flops;
      return true;
    }
  }
  return vertex->is_estimated;
}

/* ---- What estimators see -------------------------------------------------------------------- */

uint32_t trm_poplar_introspect_tile(const trm_poplar_introspector *vertex) {
  return vertex->vertex->tile;
}

bool trm_poplar_introspect_size(const trm_poplar_introspector *vertex, const char *name,
                                int64_t index, uint64_t *out_elements) {
  uint32_t f;
  trm_poplar_error ignored;
  if (field_of(vertex->vertex, name, &f, &ignored) != TRM_OK) return false;
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
  trm_poplar_error ignored;
  if (field_of(vertex->vertex, name, &f, &ignored) != TRM_OK) return false;
  const trm_poplar_binding *one = trm_poplar_bound(vertex->vertex, f, -1);
  if (one == NULL || one->data == NULL || element >= one->count) return false;
  *out_value = trm_poplar_number(vertex->vertex->codelet->fields[f].dtype, one->data, element);
  return true;
}

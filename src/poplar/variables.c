/* Owns: variables and constants of a graph. */
#include <string.h>

#include "poplar/graph.h"

static trm_status add(trm_poplar_graph *graph, int32_t dtype, const uint64_t *dims, uint32_t rank,
                      const char *name, trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  trm_poplar_core *core = graph->core;
  if (trm_dtype_size((trm_dtype)dtype) == 0) {
    THROW(TYPE, "a variable of type %d is not possible", dtype);
  }
  trm_poplar_variable variable = {.name = trm_poplar_name(core, name), .dtype = dtype};
  if (variable.name == NULL) THROW_NO_MEMORY("a variable");
  trm_poplar_tensor *tensor;
  TRY(trm_poplar_tensor_of((uint32_t)core->variables.count, dtype, dims, rank, &tensor, error));
  variable.elements = tensor->elements;
  if (!VECTOR_PUSH(&core->variables, variable)) {
    trm_poplar_tensor_release(tensor);
    THROW_NO_MEMORY("a variable");
  }
  *out_tensor = tensor;
  return TRM_OK;
}

/* Gives a tensor that was just made, unless `status` is a failure. */
static trm_status give(trm_status status, trm_poplar_tensor *tensor,
                       trm_poplar_tensor **out_tensor) {
  if (status == TRM_OK) *out_tensor = tensor;
  else trm_poplar_tensor_release(tensor);
  return status;
}

int32_t trm_poplar_add_variable(trm_poplar_graph *graph, int32_t dtype, const uint64_t *dims,
                                uint32_t rank, int32_t placing, const char *name,
                                trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  trm_poplar_tensor *tensor;
  TRY(add(graph, dtype, dims, rank, name, &tensor, error));
  const trm_status status = placing == TRM_POPLAR_PLACE_LINEAR
                                ? trm_poplar_map_linearly(graph, tensor, 0, 0, 0, error)
                                : TRM_OK;
  return give(status, tensor, out_tensor);
}

trm_poplar_variable *trm_poplar_whole_variable(const trm_poplar_core *core,
                                               const trm_poplar_tensor *tensor) {
  if (tensor->num_runs != 1 || !trm_poplar_tensor_is_contiguous(tensor)) return NULL;
  trm_poplar_variable *variable = &core->variables.items[tensor->runs->variable];
  return variable->elements == tensor->elements ? variable : NULL;
}

static trm_status set_initial(trm_poplar_variable *variable, int32_t data_dtype, const void *data,
                              uint64_t elements, trm_poplar_error *error) {
  const size_t size = trm_dtype_size(variable->dtype);
  if (variable->initial == NULL) {
    variable->initial = trm_allocate_zeroed((size_t)variable->elements + 1, size);
  }
  if (variable->initial == NULL) THROW_NO_MEMORY("the contents of a variable");
  return trm_poplar_convert(variable->dtype, variable->initial, variable->elements, data_dtype,
                            data, elements, error);
}

int32_t trm_poplar_add_constant(trm_poplar_graph *graph, int32_t dtype, const uint64_t *dims,
                                uint32_t rank, int32_t data_dtype, const void *data,
                                uint64_t elements, const char *name, trm_poplar_tensor **out_tensor,
                                trm_poplar_error *error) {
  trm_poplar_tensor *tensor;
  TRY(add(graph, dtype, dims, rank, name, &tensor, error));
  trm_poplar_core *core = graph->core;
  trm_poplar_variable *variable = &core->variables.items[core->variables.count - 1];
  variable->is_constant = true;
  return give(set_initial(variable, data_dtype, data, elements, error), tensor, out_tensor);
}

int32_t trm_poplar_clone(trm_poplar_graph *graph, int32_t dtype, const trm_poplar_tensor *tensor,
                         const char *name, trm_poplar_tensor **out_tensor,
                         trm_poplar_error *error) {
  trm_poplar_tensor *copy;
  trm_poplar_interval *places;
  uint64_t count;
  const trm_poplar_graph all = {1, graph->core, graph->core->num_ipus * graph->core->tiles_per_ipu,
                                NULL};
  TRY(add(graph, dtype, tensor->dims, tensor->rank, name, &copy, error));
  trm_status status = trm_poplar_get_tile_mapping(&all, tensor, false, &places, &count, error);
  if (status == TRM_OK) {
    trm_poplar_graph whole = all;
    status = trm_poplar_set_tile_mapping(&whole, copy, places, count, error);
    trm_free(places);
  }
  return give(status, copy, out_tensor);
}

int32_t trm_poplar_set_initial_tensor(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                      int32_t data_dtype, const void *data, uint64_t elements,
                                      trm_poplar_error *error) {
  trm_poplar_variable *variable = trm_poplar_whole_variable(graph->core, tensor);
  if (variable != NULL && variable->dtype == tensor->dtype) {
    return set_initial(variable, data_dtype, data, elements, error);
  }
  const size_t size = trm_poplar_size(tensor);
  char *values = trm_allocate_zeroed((size_t)tensor->elements + 1, size);
  if (values == NULL) THROW_NO_MEMORY("the contents of a variable");
  trm_status status = trm_poplar_convert(tensor->dtype, values, tensor->elements, data_dtype, data,
                                         elements, error);
  for (uint64_t r = 0; r < tensor->num_runs && status == TRM_OK; ++r) {
    const trm_poplar_run *run = &tensor->runs[r];
    variable = &graph->core->variables.items[run->variable];
    const uint8_t zero[16] = {0};
    if (variable->initial == NULL) {
      status = set_initial(variable, variable->dtype, zero, 1, error);
    }
    for (uint64_t i = 0; i < run->length && status == TRM_OK; ++i) {
      memcpy((char *)variable->initial + (size_t)(run->offset + (int64_t)i * run->stride) * size,
             values + (size_t)(run->begin + i) * size, size);
    }
  }
  trm_free(values);
  return status;
}

bool trm_poplar_tensor_contains_constant(const trm_poplar_graph *graph,
                                         const trm_poplar_tensor *tensor) {
  for (uint64_t r = 0; r < tensor->num_runs; ++r) {
    if (graph->core->variables.items[tensor->runs[r].variable].is_constant) return true;
  }
  return false;
}

trm_status trm_poplar_check_written(const trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                    const char *what, trm_poplar_error *error) {
  EACH_RUN(run, tensor) {
    const trm_poplar_variable *variable = &graph->core->variables.items[run->variable];
    if (variable->is_constant) {
      THROW_POPLAR("%s writes to the constant '%s'", what, variable->name);
    }
    if (run->stride == 0 && run->length > 1) {
      THROW_POPLAR("%s writes to an element of '%s' several times, because its tensor is a "
                   "broadcast",
                   what, variable->name);
    }
  }
  return TRM_OK;
}

int32_t trm_poplar_tensor_text(const trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                               char **out_text, trm_poplar_error *error) {
  trm_text text = {0};
  trm_text_format(&text, "Tensor{%s%s", trm_dtype_name(tensor->dtype), SHAPE_TEXT(tensor));
  for (uint64_t r = 0; r < tensor->num_runs && r < 16; ++r) {
    const trm_poplar_run *run = &tensor->runs[r];
    trm_text_format(&text, ", %s[%lld+%llu*%lld]", graph->core->variables.items[run->variable].name,
                    (long long)run->offset, (unsigned long long)run->length,
                    (long long)run->stride);
  }
  trm_text_format(&text, tensor->num_runs > 16 ? ", ...}" : "}");
  if (text.failed) {
    trm_text_free(&text);
    THROW_NO_MEMORY("a text");
  }
  *out_text = text.data;
  return TRM_OK;
}

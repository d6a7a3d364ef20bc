/* Fuzz target: the table of a .gp. What it says of a vertex's fields is refused, or the vertex is
 * filled in, planned and run within its state. */
#include <stdint.h>
#include <string.h>

#include "poplar/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS = 6, ELEMENTS = 24 };

static const char *run_nothing(void *state, uint32_t worker) {
  (void)state;
  return worker > 5 ? "a worker too many" : NULL;
}

/* Takes `bytes` of the input, as a number. */
static uint32_t take(const uint8_t **data, size_t *left, uint32_t bytes) {
  uint32_t number = 0;
  for (; bytes > 0 && *left > 0; --bytes, --*left) number = number << 8 | *(*data)++;
  return number;
}

static trm_codelet_field field_of(const uint8_t **data, size_t *left, const char *name) {
  return (trm_codelet_field){.name = name,
                             .offset = take(data, left, 2),
                             .count = take(data, left, 1),
                             .kind = (uint8_t)take(data, left, 1),
                             .direction = (uint8_t)take(data, left, 1),
                             .dtype = (uint8_t)take(data, left, 1),
                             .width = (uint8_t)take(data, left, 1),
                             .outer = (uint8_t)take(data, left, 1),
                             .inner = (uint8_t)take(data, left, 1)};
}

/* Gives a field what its kind takes: failures are fine. */
static void fill_in(trm_poplar_graph *graph, uint32_t vertex, const trm_codelet_field *field) {
  static const uint64_t zeros[ELEMENTS];
  trm_poplar_error error;
  trm_poplar_tensor *whole = NULL, *part = NULL;
  const uint64_t dims[] = {ELEMENTS};
  if (field->kind <= TRM_CODELET_VALUES) {
    (void)trm_poplar_set_initial_value(
        graph, vertex, field->name, -1, field->dtype, zeros,
        field->kind == TRM_CODELET_VALUE ? field->count % ELEMENTS : 3, &error);
    return;
  }
  if (trm_poplar_add_variable(graph, field->dtype, dims, 1, TRM_POPLAR_PLACE_LINEAR, field->name,
                              &whole, &error) != 0) {
    return;
  }
  if (field->kind == TRM_CODELET_EDGE) (void)trm_poplar_tensor_slice(whole, 0, 0, 1, &part, &error);
  else (void)trm_poplar_tensor_pick(whole, field->count % 3 + 1, 0, &part, &error);
  const trm_poplar_tensor *const list[] = {whole, part};
  if (field->kind == TRM_CODELET_LISTS) {
    (void)trm_poplar_connect_list(graph, vertex, field->name, list, 2, &error);
  } else {
    (void)trm_poplar_connect(graph, vertex, field->name, -1, part, &error);
  }
  trm_poplar_tensor_release(part);
  trm_poplar_tensor_release(whole);
}

static void run_set(trm_poplar_graph *graph, uint32_t set) {
  trm_poplar_error error;
  trm_error failure;
  trm_poplar_program *program = NULL;
  trm_poplar_plan *plan = NULL;
  const trm_poplar_program_parts parts = {.number = set, .text = "set"};
  if (trm_poplar_program_make(graph, TRM_POPLAR_EXECUTE, &parts, &program, &error) == 0 &&
      trm_poplar_plan_create(graph, program, NULL, 0, NULL, 0, &plan, &error) == TRM_OK) {
    void *block = trm_allocate_block(plan->bytes);
    const trm_kernel_call call = {.persistent = block};
    if (block != NULL) {
      (void)trm_poplar_run_plan(plan, &call, &failure);
      trm_free_block(block, plan->bytes);
    }
  }
  trm_poplar_plan_free(plan);
  trm_poplar_program_release(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[FIELDS] = {"a", "b", "c", "d", "e", "f"};
  trm_codelet_field fields[FIELDS];
  trm_codelet_vertex vertex = {.name = "V", .run = run_nothing, .fields = fields};
  trm_codelet_table table = {.size = sizeof table,
                             .version = TRM_CODELET_VERSION,
                             .vertex_bytes = sizeof vertex,
                             .field_bytes = sizeof *fields,
                             .num_vertices = 1,
                             .vertices = &vertex};
  vertex.state_bytes = take(&data, &size, 2);
  vertex.state_align = take(&data, &size, 1);
  vertex.workers = take(&data, &size, 1) % 7;
  vertex.num_fields = take(&data, &size, 1) % (FIELDS + 1);
  for (uint32_t f = 0; f < vertex.num_fields; ++f) fields[f] = field_of(&data, &size, names[f]);
  trm_poplar_error error;
  trm_poplar_graph *graph;
  uint32_t set, added;
  if (trm_poplar_graph_create("mk2", 1, 8, &graph, &error) != 0) return 0;
  if (trm_poplar_add_table(graph, &table, &error) == TRM_OK &&
      trm_poplar_add_compute_set(graph, "set", &set, &error) == 0 &&
      trm_poplar_add_vertex(graph, set, "V", &added, &error) == 0) {
    for (uint32_t f = 0; f < vertex.num_fields; ++f) fill_in(graph, added, &fields[f]);
    (void)trm_poplar_set_vertex_tile(graph, added, 0, &error);
    run_set(graph, set);
  }
  trm_poplar_graph_release(graph);
  return 0;
}

/* Vertices: their fields, edges that are not contiguous, overlaps, and what is refused. The
 * codelets are C functions in a table as popc writes it. */
#include "poplar_case.h"

/* ---- Codelets ------------------------------------------------------------------------------- */

/* y = x * scale + weights[0], and count += elements. */
typedef struct scale_state {
  trm_codelet_span x;
  float *y;
  float scale;
  float *weights;
  int32_t *count;
} scale_state;

static const char *run_scale(void *state, uint32_t worker) {
  scale_state *s = state;
  (void)worker;
  for (uint64_t i = 0; i < s->x.size; ++i) {
    s->y[i] = ((const float *)s->x.data)[i] * s->scale + (s->weights != NULL ? s->weights[0] : 0);
  }
  *s->count += (int32_t)s->x.size;
  return NULL;
}

#define FIELD(type, member, kind, direction, dtype, outer, inner) \
  {#member,                                                       \
   offsetof(type, member),                                        \
   (kind) == TRM_CODELET_VALUE,                                   \
   (kind),                                                        \
   (direction),                                                   \
   (dtype),                                                       \
   1,                                                             \
   (outer),                                                       \
   (inner),                                                       \
   8,                                                             \
   0}

static const trm_codelet_field scale_fields[] = {
    FIELD(scale_state, x, TRM_CODELET_EDGES, TRM_CODELET_INPUT, TRM_F32, TRM_CODELET_SPAN, 0),
    FIELD(scale_state, y, TRM_CODELET_EDGES, TRM_CODELET_OUTPUT, TRM_F32, TRM_CODELET_POINTER, 0),
    FIELD(scale_state, scale, TRM_CODELET_VALUE, TRM_CODELET_NONE, TRM_F32, 0, 0),
    FIELD(scale_state, weights, TRM_CODELET_VALUES, TRM_CODELET_NONE, TRM_F32, 0, 0),
    FIELD(scale_state, count, TRM_CODELET_EDGE, TRM_CODELET_INOUT, TRM_S32, 0, 0),
};

/* sums[i] = the sum of lists[i]; each of six workers has every sixth. */
typedef struct lists_state {
  trm_codelet_span lists;
  float **sums;
} lists_state;

static const char *run_lists(void *state, uint32_t worker) {
  const lists_state *s = state;
  const trm_codelet_span *lists = s->lists.data;
  for (uint64_t l = worker; l < s->lists.size; l += 6) {
    float sum = 0;
    for (uint64_t i = 0; i < lists[l].size; ++i) sum += ((const float *)lists[l].data)[i];
    *s->sums[l] = sum;
  }
  return NULL;
}

static const trm_codelet_field lists_fields[] = {
    FIELD(lists_state, lists, TRM_CODELET_LISTS, TRM_CODELET_INPUT, TRM_F32, TRM_CODELET_SPAN,
          TRM_CODELET_SPAN),
    FIELD(lists_state, sums, TRM_CODELET_LISTS, TRM_CODELET_OUTPUT, TRM_F32, TRM_CODELET_POINTER,
          TRM_CODELET_POINTER),
};

static const trm_codelet_vertex codelets[] = {
    {"Scale", run_scale, sizeof(scale_state), 8, 1, 0, 5, scale_fields},
    {"Lists<float>", run_lists, sizeof(lists_state), 8, 6, 0, 2, lists_fields},
};
static const trm_codelet_table table = {
    sizeof table, TRM_CODELET_VERSION, sizeof(trm_codelet_vertex), sizeof(trm_codelet_field), 2,
    codelets};

/* ---- Tests ---------------------------------------------------------------------------------- */

typedef struct scaled {
  trm_poplar_graph *graph;
  trm_poplar_program *sequence;
  trm_poplar_tensor *x, *y, *counts;
  uint32_t set;
} scaled;

enum { ROWS = 40, COLUMNS = 30 };

static scaled begin_scaled(void) {
  scaled s = {.graph = new_graph(), .sequence = new_sequence()};
  OK(trm_poplar_add_table(s.graph, &table, &failure));
  s.x = new_variable(s.graph, TRM_F32, ROWS, COLUMNS, "x");
  s.y = new_variable(s.graph, TRM_F32, ROWS, COLUMNS, "y");
  s.counts = new_variable(s.graph, TRM_S32, ROWS, 0, "counts");
  OK(api->add_compute_set(s.graph, "scale", &s.set, &failure));
  return s;
}

static void end_scaled(scaled *s) {
  release_tensors((trm_poplar_tensor *const[]){s->x, s->y, s->counts}, 3);
  api->program_release(s->sequence);
  api->graph_release(s->graph);
}

/* A vertex for index i of a dimension of x and y. */
static uint32_t add_scale(scaled *s, uint32_t dim, uint64_t i, double scale) {
  const uint32_t v = add_vertex(s->graph, s->set, "Scale", (uint32_t)i);
  trm_poplar_tensor *x, *y, *count;
  OK(api->tensor_slice(s->x, dim, i, i + 1, &x, &failure));
  OK(api->tensor_slice(s->y, dim, i, i + 1, &y, &failure));
  OK(api->tensor_index(s->counts, i, &count, &failure));
  OK(api->connect(s->graph, v, "x", -1, x, &failure));
  OK(api->connect(s->graph, v, "y", -1, y, &failure));
  OK(api->connect(s->graph, v, "count", -1, count, &failure));
  OK(api->set_initial_value(s->graph, v, "scale", -1, TRM_F64, &scale, 1, &failure));
  release_tensors((trm_poplar_tensor *const[]){x, y, count}, 3);
  return v;
}

/* Rows are contiguous, columns are gathered and scattered. Inputs move from run to run. */
static void test_edges(void **state) {
  (void)state;
  for (uint32_t dim = 0; dim < 2; ++dim) {
    scaled s = begin_scaled();
    const uint64_t vertices = dim == 0 ? ROWS : COLUMNS;
    for (uint64_t i = 0; i < vertices; ++i) {
      const uint32_t v = add_scale(&s, dim, i, (double)i);
      const int32_t weights[] = {7, 8, 9};
      if (i % 2 == 1) {
        OK(api->set_initial_value(s.graph, v, "weights", -1, TRM_S32, weights, 3, &failure));
      }
    }
    add_execute(s.graph, &s.sequence, s.set);
    trm_poplar_tensor *const outputs[] = {s.y, s.counts};
    machine m = new_machine(s.graph, s.sequence, &s.x, 1, outputs, 2);
    assert_int_equal(m.plan->moves.count == 1, dim == 0); /* of counts, which are kept */
    assert_true(m.plan->output_ports[0].is_direct);
    static float data[2][ROWS * COLUMNS], results[2][ROWS * COLUMNS];
    int32_t counts[ROWS] = {0};
    for (int i = 0; i < 2 * ROWS * COLUMNS; ++i) {
      data[i / (ROWS * COLUMNS)][i % (ROWS * COLUMNS)] = (float)(i % 101);
    }
    for (int run = 0; run < 2; ++run) {
      run_machine(&m, (const void *const[]){data[run]}, (void *const[]){results[run], counts});
      for (int i = 0; i < ROWS * COLUMNS; ++i) {
        const int v = dim == 0 ? i / COLUMNS : i % COLUMNS;
        const float expected = data[run][i] * (float)v + (v % 2 == 1 ? 7 : 0);
        assert_float_equal(results[run][i], expected, 0);
      }
      for (uint64_t i = 0; i < vertices; ++i) {
        assert_int_equal(counts[i], (run + 1) * (dim == 0 ? COLUMNS : ROWS));
      }
    }
    free_machine(&m);
    end_scaled(&s);
  }
}

static void test_lists(void **state) {
  (void)state;
  scaled s = begin_scaled();
  const uint32_t v = add_vertex(s.graph, s.set, "Lists<float>", 0);
  trm_poplar_tensor *turned = NULL, *sums = new_variable(s.graph, TRM_F32, COLUMNS, 0, "sums");
  const uint32_t swapped[] = {1, 0};
  OK(api->tensor_dim_shuffle(s.x, swapped, 2, &turned, &failure));
  OK(api->connect(s.graph, v, "lists", -1, turned, &failure));
  OK(api->connect(s.graph, v, "sums", -1, sums, &failure));
  add_execute(s.graph, &s.sequence, s.set);
  machine m = new_machine(s.graph, s.sequence, &s.x, 1, &sums, 1);
  static float data[ROWS * COLUMNS];
  float results[COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; ++i) data[i] = (float)(i % 7);
  run_machine(&m, (const void *const[]){data}, (void *const[]){results});
  for (int c = 0; c < COLUMNS; ++c) {
    float sum = 0;
    for (int r = 0; r < ROWS; ++r) sum += data[r * COLUMNS + c];
    assert_float_equal(results[c], sum, 0);
  }
  free_machine(&m);
  release_tensors((trm_poplar_tensor *const[]){turned, sums}, 2);
  end_scaled(&s);
}

static void expect_refusal(scaled *s, const char *message) {
  trm_poplar_plan *plan = NULL;
  add_execute(s->graph, &s->sequence, s->set);
  assert_int_not_equal(
      trm_poplar_plan_create(s->graph, s->sequence, &s->x, 1, &s->y, 1, &plan, &failure), TRM_OK);
  if (strstr(failure.what, message) == NULL) fail_msg("says: %s", failure.what);
}

static void test_overlaps(void **state) {
  (void)state;
  scaled s = begin_scaled();
  trm_poplar_tensor *part;
  OK(api->tensor_slice(s.y, 0, 2, 4, &part, &failure));
  const uint32_t first = add_scale(&s, 0, 2, 1);
  (void)add_scale(&s, 0, 3, 1);
  OK(api->connect(s.graph, first, "y", -1, part, &failure)); /* the other one's row too */
  expect_refusal(&s, "compute set 'scale' writes to elements [90:120) of variable 'y' that are "
                     "written to elsewhere in same compute set");
  api->tensor_release(part);
  end_scaled(&s);
  s = begin_scaled();
  const uint32_t writer = add_scale(&s, 0, 1, 1), reader = add_scale(&s, 0, 2, 1);
  (void)writer;
  OK(api->tensor_slice(s.y, 0, 1, 2, &part, &failure));
  OK(api->connect(s.graph, reader, "x", -1, part, &failure));
  expect_refusal(&s, "writes to elements [30:60) of variable 'y' that are read elsewhere in same "
                     "compute set");
  api->tensor_release(part);
  end_scaled(&s);
}

static void test_mistakes(void **state) {
  (void)state;
  scaled s = begin_scaled();
  uint32_t v = 0;
  const float value = 1;
  assert_int_not_equal(api->add_vertex(s.graph, s.set, "Scale<half>", &v, &failure), 0);
  assert_non_null(strstr(failure.what, "no codelet 'Scale<half>'"));
  assert_int_not_equal(api->add_vertex(s.graph, 9, "Scale", &v, &failure), 0);
  v = add_vertex(s.graph, s.set, "Scale", 0);
  assert_int_not_equal(api->connect(s.graph, v, "z", -1, s.x, &failure), 0);
  assert_string_equal(failure.what, "the vertex 'Scale' has no field 'z'");
  assert_int_not_equal(api->connect(s.graph, v, "x", -1, s.counts, &failure), 0);
  assert_int_equal(failure.kind, TRM_POPLAR_ERROR_CONNECTION);
  assert_int_not_equal(api->connect(s.graph, v, "count", -1, s.counts, &failure), 0);
  assert_int_not_equal(api->connect(s.graph, v, "scale", -1, s.x, &failure), 0);
  assert_int_not_equal(api->connect(s.graph, v, "x", -1, NULL, &failure), 0);
  assert_int_not_equal(api->set_initial_value(s.graph, v, "x", -1, TRM_F32, &value, 1, &failure),
                       0);
  assert_int_not_equal(
      api->set_initial_value(s.graph, v, "scale", -1, TRM_F32, &value, 2, &failure), 0);
  assert_int_not_equal(api->set_vertex_tile(s.graph, v, 1472, &failure), 0);
  assert_int_equal(failure.kind, TRM_POPLAR_ERROR_TILE_MAPPING);
  expect_refusal(&s, "the field 'x' of a vertex 'Scale' in the compute set 'scale' is not "
                     "connected");
  assert_int_not_equal(api->add_codelets(s.graph, "/nowhere.gp", NULL, NULL, &failure), 0);
  assert_int_equal(failure.kind, TRM_POPLAR_ERROR_FILE);
  end_scaled(&s);
}

/* A table that does not fit its vertices is refused. */
static void test_tables(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_codelet_field field = scale_fields[0];
  trm_codelet_vertex vertex = codelets[0];
  trm_codelet_table one = table;
  vertex.num_fields = 1;
  vertex.fields = &field;
  one.num_vertices = 1;
  one.vertices = &vertex;
  field.offset = sizeof(scale_state) - 8;
  assert_int_not_equal(trm_poplar_add_table(graph, &one, &failure), 0);
  field = scale_fields[2];
  field.count = 1000;
  assert_int_not_equal(trm_poplar_add_table(graph, &one, &failure), 0);
  field = scale_fields[0];
  field.kind = 9;
  assert_int_not_equal(trm_poplar_add_table(graph, &one, &failure), 0);
  one.version = 7;
  assert_int_not_equal(trm_poplar_add_table(graph, &one, &failure), 0);
  assert_non_null(strstr(failure.what, "popc of version 7"));
  api->graph_release(graph);
}

static void test_mappings(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph(), *part = NULL;
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 8, 8, "x"), *turned = NULL, *same = NULL;
  trm_poplar_interval *found = NULL;
  uint64_t count = 0;
  const trm_poplar_interval rows[] = {{0, 16, 5}, {16, 64, 3}, {8, 24, 7}};
  OK(api->set_tile_mapping(graph, x, rows, 3, &failure));
  OK(api->get_tile_mapping(graph, x, true, &found, &count, &failure));
  const trm_poplar_interval expected[] = {{24, 64, 3}, {0, 8, 5}, {8, 24, 7}};
  assert_int_equal(count, 3);
  for (uint64_t i = 0; i < count; ++i) {
    assert_int_equal(found[i].begin, expected[i].begin);
    assert_int_equal(found[i].end, expected[i].end);
    assert_int_equal(found[i].tile, expected[i].tile);
  }
  api->block_release(found);
  const uint32_t swapped[] = {1, 0}, tiles[] = {7, 3};
  OK(api->tensor_dim_shuffle(x, swapped, 2, &turned, &failure));
  OK(api->clone(graph, TRM_F16, turned, "same", &same, &failure));
  OK(api->get_tile_mapping(graph, same, true, &found, &count, &failure));
  assert_int_equal(count, 24); /* of each column a piece on each tile */
  assert_int_equal(found[0].tile, 3);
  assert_int_equal(found[0].end - found[0].begin, 5);
  api->block_release(found);
  OK(api->graph_virtual(graph, tiles, 2, &part, &failure));
  OK(api->get_tile_mapping(part, x, false, &found, &count, &failure));
  assert_int_equal(count, 2);
  assert_int_equal(found[1].tile, 1);
  assert_int_equal(found[1].begin, 24);
  api->block_release(found);
  assert_int_not_equal(api->get_tile_mapping(part, x, true, &found, &count, &failure), 0);
  double number = 0;
  assert_true(api->graph_target(part, "numTiles", &number));
  assert_float_equal(number, 2, 0);
  release_tensors((trm_poplar_tensor *const[]){x, turned, same}, 3);
  api->graph_release(part);
  api->graph_release(graph);
}

static void test_linear_mapping(void **state) {
  (void)state;
  trm_poplar_graph *graph = new_graph();
  trm_poplar_tensor *x = new_variable(graph, TRM_F32, 1472 * 40, 0, "x");
  trm_poplar_tensor *few = new_variable(graph, TRM_F32, 70, 0, "few");
  trm_poplar_interval *found = NULL;
  uint64_t count = 0;
  OK(api->get_tile_mapping(graph, x, true, &found, &count, &failure));
  assert_int_equal(count, 1472);
  for (uint64_t i = 0; i < count; ++i) assert_int_equal(found[i].begin, 40 * i);
  api->block_release(found);
  OK(api->get_tile_mapping(graph, few, true, &found, &count, &failure));
  assert_int_equal(count, 3); /* 32 floats at least */
  api->block_release(found);
  release_tensors((trm_poplar_tensor *const[]){x, few}, 2);
  api->graph_release(graph);
}

/* Running out of memory at any moment is a failure, and leaks nothing. */
static void test_no_memory(void **state) {
  (void)state;
  scaled s = begin_scaled();
  for (uint64_t i = 0; i < 4; ++i) (void)add_scale(&s, 1, i, 1);
  add_execute(s.graph, &s.sequence, s.set);
  trm_poplar_plan *plan = NULL;
  int failures = 0;
  while (plan == NULL && failures < 1000) {
    trm_allocation_fail_after(failures);
    const trm_status status =
        trm_poplar_plan_create(s.graph, s.sequence, &s.x, 1, &s.y, 1, &plan, &failure);
    trm_allocation_fail_after(-1);
    if (status == TRM_OK) break;
    assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
    ++failures;
  }
  assert_non_null(plan);
  assert_true(failures > 10);
  trm_poplar_plan_free(plan);
  end_scaled(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_edges),          cmocka_unit_test(test_lists),
      cmocka_unit_test(test_overlaps),       cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_tables),         cmocka_unit_test(test_mappings),
      cmocka_unit_test(test_linear_mapping), cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

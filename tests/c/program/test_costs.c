/* Cycles of the op families, worked out by hand from docs/cost_model.md for the machines of
 * docs/machine.md: each number is written down, with its working in the comment, and no test
 * computes it as the code does. */
#include "program_case.h"

/* The compute set of the first step whose name contains `text`. */
static const trm_program_compute_set *find_set(const trm_program *p, const char *text) {
  const trm_program_step *step = find_step(p, text);
  if (step == NULL || step->compute_set == TRM_NO_INDEX) fail_msg("no compute set '%s'", text);
  return &p->compute_sets[step->compute_set];
}

static void test_dynamic_slice(void **state) {
  (void)state;
  trm_program *p =
      make_program("HloModule m\nENTRY e { t = f32[100,5888] parameter(0)  i = s32[] parameter(1)\n"
                   "z = s32[] constant(0)\n"
                   "ROOT s = f32[1,5888] dynamic-slice(t, i, z), dynamic_slice_sizes={1,5888} }",
                   "mk2", NULL);
  const trm_program_compute_set *set = find_set(p, "dynamicSlice");
  /* 5888 columns over 1472 tiles: 4 each, 1 vector of 2 for each of two workers. A worker takes 39
   * cycles and 26 for its one row: 65; six workers take turns: 390; the supervisor 25 more. */
  assert_int_equal(set->active_tiles, 1472);
  assert_int_equal(set->groups[0].cycles, 415);
  /* The table was allocated for it: it is not moved, only the index is sent. */
  const trm_program_step *exchange = find_step(p, "ExchangePre");
  assert_non_null(exchange);
  assert_true(exchange->bytes_in_worst <= 16);
  assert_int_equal(p->totals.copy_cycles, 0);
  trm_program_free(p);
}

static void test_update_in_place(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
      "ENTRY e { t = f32[100,5888] parameter(0)  i = s32[] parameter(1)  z = s32[] constant(0)\n"
      "u = f32[1,5888] parameter(2)\n"
      "ROOT s = f32[100,5888] dynamic-update-slice(t, u, i, z) }",
      "mk2", NULL);
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    if (p->variables[v].count == 588800) assert_true(p->variables[v].is_input);
  }
  assert_int_equal(p->totals.copy_cycles, 0);
  trm_program_free(p);
}

/* The update of weights from one row sums one product an element: the row has no other order. That
 * from two rows regroups them. */
static void test_update_from_a_row(void **state) {
  (void)state;
  for (int rows = 1; rows <= 2; ++rows) {
    char text[600];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e { x = f16[%d,4096] parameter(0)  w = f16[4096,32] parameter(1)\n"
             "y = f16[%d,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
             "d = f16[4096,32] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
             "ROOT n = f16[4096,32] subtract(w, d) }",
             rows, rows);
    trm_program *p = make_program(text, "mk2", NULL);
    bool regroups = false;
    for (uint32_t s = 0; s < p->num_steps; ++s) {
      regroups |= strstr(p->steps[s].name, "d/preRegroup") != NULL;
      regroups |= strstr(p->steps[s].name, "d/Conv_1/actsRearranged") != NULL;
    }
    assert_int_equal(regroups, rows == 2);
    trm_program_free(p);
  }
}

static void test_gather(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nENTRY e { t = f32[50000,128] parameter(0)  i = s32[64] parameter(1)\n"
      "ROOT g = f32[64,128] gather(t, i), offset_dims={1}, collapsed_slice_dims={0},\n"
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,128} }",
      "mk2", NULL);
  const trm_program_compute_set *set = find_set(p, "multiSlice");
  /* 64 column parts of two elements and 23 row parts: 1472 tiles. Each counts every lookup: 64 over
   * six workers are 11 for the busiest, of 21 cycles each for one vector: 231. With 29 to begin a
   * worker takes 260, six in turn 1560, the supervisor 11 more. */
  assert_int_equal(set->active_tiles, 1472);
  assert_int_equal(set->groups[0].cycles, 1571);
  assert_non_null(find_step(p, "ReduceFinalStage"));
  trm_program_free(p);
}

/* All indices count as one worker's: an atom of two halves each. */
static void test_scatter(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nsum { x = f16[] parameter(0)  y = f16[] parameter(1)\n"
      "ROOT z = f16[] add(x, y) }\n"
      "ENTRY e { t = f16[100000,200] parameter(0)  i = s32[1440,1] parameter(1)\n"
      "d = f16[1440,200] parameter(2)\n"
      "ROOT s = f16[100000,200] scatter(t, i, d), update_window_dims={1},\n"
      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,\n"
      "to_apply=sum }",
      "mk1", NULL);
  const trm_program_compute_set *set = find_set(p, "multiUpdateAdd");
  /* 100 column parts of an atom, 12 row parts. 1440 indices of 12 cycles are 17280; with 28 to
   * begin 17308; six turns are 103848, the supervisor 11 more. */
  assert_int_equal(set->active_tiles, 1200);
  assert_int_equal(set->groups[0].cycles, 103859);
  trm_program_free(p);
}

/* The addition of values to rows of a table of 16 columns. */
static trm_program *plan_update(int rows, int updates, const trm_program_options *options) {
  char buffer[640];
  snprintf(buffer, sizeof buffer,
           "HloModule m\nsum { x = f32[] parameter(0)  y = f32[] parameter(1)\n"
           "ROOT z = f32[] add(x, y) }\n"
           "ENTRY e { a = f32[%d,16] parameter(0)  i = s32[%d,1] parameter(1)\n"
           "d = f32[%d,16] parameter(2)  t = f32[%d,16] tanh(a)\n"
           "ROOT s = f32[%d,16] scatter(t, i, d), update_window_dims={1},\n"
           "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,\n"
           "to_apply=sum }",
           rows, updates, updates, rows, rows);
  return make_program(buffer, "mk2", options);
}

/* As many updates as rows: tiles share rows, columns and updates. (A whole column, its updates and
 * their indices would be twelve bytes a row.) */
static void test_many_updates(void **state) {
  (void)state;
  const int rows[] = {1024, 3000, 8192};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
    trm_program *p = plan_update(rows[k], rows[k], NULL);
    assert_true(find_set(p, "multiUpdateAdd")->active_tiles > 1300);
    assert_true(p->totals.worst_tile_bytes < 2 * rows[k]);
    check_sums(p);
    trm_program_free(p);
  }
}

/* Fewer temporary bytes: fewer lookups of a tile, more parts of the table to add up. */
static void test_memory_of_updates(void **state) {
  (void)state;
  trm_program_options options = {.size = sizeof options};
  trm_program_options_init(&options);
  options.tiles_per_ipu = 512;
  trm_program *usual = plan_update(10, 40960, &options);
  options.slice_memory_proportion = 0.00234375;
  trm_program *less = plan_update(10, 40960, &options);
  assert_true(less->totals.worst_tile_bytes < usual->totals.worst_tile_bytes);
  trm_program_free(usual);
  trm_program_free(less);
}

/* Lookups and updates of one table have one plan: nothing moves it. */
static void test_lookup_and_update(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n"
      "sum { x = f16[] parameter(0)  y = f16[] parameter(1)  ROOT z = f16[] add(x, y) }\n"
      "ENTRY e { t = f16[1000,200] parameter(0)  i = s32[21600,1] parameter(1)\n"
      "d = f16[21600,200] parameter(2)\n"
      "g = f16[21600,200] gather(t, i), offset_dims={1}, collapsed_slice_dims={0},\n"
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,200}\n"
      "s = f16[1000,200] scatter(t, i, d), update_window_dims={1}, inserted_window_dims={0},\n"
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
      "ROOT all = (f16[21600,200], f16[1000,200]) tuple(g, s) }",
      "mk1", NULL);
  assert_int_equal(find_set(p, "multiSlice")->active_tiles,
                   find_set(p, "multiUpdateAdd")->active_tiles);
  assert_int_equal(p->totals.copy_cycles, 0);
  trm_program_free(p);
}

/* A table that lies as a product wants it is copied for lookups, and both exist until these are
 * done; the exchanged rows are a third copy. */
static void test_table_of_a_product(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nENTRY e { i = s32[50] parameter(0)  t = f16[20000,128] parameter(1)\n"
      "g = f16[50,128] gather(t, i), offset_dims={1}, collapsed_slice_dims={0},\n"
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,128}\n"
      "ROOT d = f16[50,20000] dot(g, t), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
      "mk2", NULL);
  const int64_t table = 20000 * 128 * 2;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *step = &p->steps[s];
    if (strstr(step->name, "multiSlice") == NULL) continue;
    assert_true(step->live_total > 2 * table);
    if (strstr(step->name, "OnTileCopy") != NULL) assert_true(step->live_total > 3 * table);
  }
  assert_non_null(find_set(p, "multiSlice"));
  trm_program_free(p);
}

/* A vector that a broadcast repeats is stored once, in products and convolutions. */
static void test_broadcast_inputs(void **state) {
  (void)state;
  static const char *const programs[] = {
      "HloModule m\nENTRY e { v = f32[768] parameter(0)  w = f32[768,512] parameter(1)\n"
      "b = f32[640,768] broadcast(v), dimensions={1}\n"
      "ROOT d = f32[640,512] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
      "HloModule m\nENTRY e { v = f32[768] parameter(0)  w = f32[640,512] parameter(1)\n"
      "b = f32[512,768] broadcast(v), dimensions={1}\n"
      "ROOT d = f32[640,768] dot(w, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
      "HloModule m\nENTRY e { v = f32[768] parameter(0)  w = f32[1,1,768,512] parameter(1)\n"
      "b = f32[1,32,20,768] broadcast(v), dimensions={3}\n"
      "ROOT c = f32[1,32,20,512] convolution(b, w), window={size=1x1},"
      " dim_labels=b01f_01io->b01f }"};
  for (size_t k = 0; k < sizeof programs / sizeof *programs; ++k) {
    trm_program *p = make_program(programs[k], "mk2", NULL);
    for (uint32_t v = 0; v < p->num_variables; ++v) {
      if (p->variables[v].is_input && p->variables[v].count == 768) {
        assert_int_equal(p->variables[v].total_bytes, 768 * 4);
      }
    }
    trm_program_free(p);
  }
}

/* Bytes of partial results: a tile has some of each output that its run of elements meets. */
static void test_partial_results(void **state) {
  (void)state;
  static const struct {
    const char *shape, *left, *dimensions;
    int64_t bytes;  /* that 512 tiles send, 4 a result */
    int64_t cycles; /* of the first exchange: 100, a quarter of its bytes, 6 a tile */
  } cases[] = {
      /* 32 elements: 4 rows of the same 8, so 8 results. 8 of each output are summed: 4 outputs of
       * a tile receive 128 bytes from 8 tiles. */
      {"64,32,8", "64,8", "1", 16384, 180},
      /* 4 rows of 8 that are summed: 4 results; 64 bytes from 4 tiles */
      {"16,4,32,8", "16,32", "1,3", 8192, 140},
      {"512,32", "512", "1", 0, 0}, /* a row each: all of it */
      /* 32 of a row of 512: 32 results. Two stages; in the first a tile receives 96 bytes from 6
       * tiles, and others send all their 128. */
      {"32,512", "512", "0", 65536, 168},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    char buffer[512];
    snprintf(buffer, sizeof buffer,
             "HloModule m\nsum { x = f32[] parameter(0)  y = f32[] parameter(1)\n"
             "ROOT z = f32[] add(x, y) }\n"
             "ENTRY e { x = f32[%s] parameter(0)  z = f32[] constant(0)\n"
             "ROOT r = f32[%s] reduce(x, z), dimensions={%s}, to_apply=sum }",
             cases[k].shape, cases[k].left, cases[k].dimensions);
    trm_program *p = make_program(buffer, "mk2", NULL);
    const trm_program_compute_set *set = find_set(p, "ReduceOnTile");
    assert_int_equal(set->active_tiles, 512);
    const trm_program_step *final = NULL;
    for (uint32_t s = 0; s < p->num_steps; ++s) {
      const trm_program_step *step = &p->steps[s];
      if (step->compute_set == TRM_NO_INDEX && strstr(step->name, "Stage") != NULL) {
        final = step;
        break;
      }
    }
    if (cases[k].bytes == 0) {
      assert_null(final); /* each tile has its outputs to itself */
    } else {
      assert_non_null(final);
      assert_int_equal(final->bytes_in_total, cases[k].bytes);
      assert_int_equal(final->cycles - final->sync_cycles, cases[k].cycles);
    }
    trm_program_free(p);
  }
}

static void test_reduce(void **state) {
  (void)state;
  const char *text = "HloModule m\nsum { x = f32[] parameter(0)  y = f32[] parameter(1)\n"
                     "ROOT z = f32[] add(x, y) }\n"
                     "ENTRY e { x = f32[%d,64] parameter(0)  z = f32[] constant(0)\n"
                     "ROOT r = f32[64] reduce(x, z), dimensions={0}, to_apply=sum }";
  /* Rows of 64: tiles hold 32 elements each, so 2 of them a row and `rows` partial results. */
  const int rows[3] = {8, 64, 736};
  const uint32_t stages[3] = {1, 2, 3};
  for (int r = 0; r < 3; ++r) {
    char buffer[512];
    snprintf(buffer, sizeof buffer, text, rows[r]);
    trm_program *p = make_program(buffer, "mk2", NULL);
    uint32_t found = 0;
    for (uint32_t c = 0; c < p->num_compute_sets; ++c) {
      found += strstr(p->compute_sets[c].name, "Stage") != NULL;
    }
    assert_int_equal(found, stages[r]);
    assert_non_null(find_step(p, "ReduceOnTile"));
    check_sums(p);
    trm_program_free(p);
  }
}

static void test_casts(void **state) {
  (void)state;
  trm_program *p = make_program("HloModule m\nENTRY e { x = f32[1472,60] parameter(0)\n"
                                "ROOT h = f16[1472,60] convert(x) }",
                                "mk2", NULL);
  const trm_program_compute_set *set = find_set(p, "Cast");
  assert_string_equal(set->groups[0].codelet, "popops::Cast1D<float,half>");
  /* 60 elements a tile, 10 a worker, of a cycle each; 17 to begin: 27, six turns: 162, and 11. */
  assert_int_equal(set->groups[0].cycles, 173);
  trm_program_free(p);
}

/* Each instruction of a fusion is a compute set, but x + a y, which is one of popops' own. */
static void test_fusions(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nENTRY e { x = f32[1472,120] parameter(0)  y = f32[1472,120] parameter(1)\n"
      "a = f32[1472,120] add(x, y)  b = f32[1472,120] multiply(a, x)\n"
      "ROOT c = f32[1472,120] subtract(b, y) }",
      "mk2", NULL);
  assert_int_equal(p->num_compute_sets, 3);
  assert_non_null(find_set(p, "Op/Add"));
  /* 20 elements a worker are 10 vectors of 3 cycles: 30; 29 to begin: 59, six turns: 354, and 11.
   */
  assert_int_equal(find_set(p, "Op/Multiply")->groups[0].cycles, 365);
  trm_program_free(p);
  p = make_program(
      "HloModule m\nENTRY e { x = f32[1472,120] parameter(0)  y = f32[1472,120] parameter(1)\n"
      "k = f32[] parameter(2)  b = f32[1472,120] broadcast(k), dimensions={}\n"
      "m = f32[1472,120] multiply(y, b)  ROOT c = f32[1472,120] add(x, m) }",
      "mk2", NULL);
  assert_int_equal(p->num_compute_sets, 1);
  assert_non_null(find_set(p, "AddTo"));
  /* A worker has 10 vectors: 21 with the first, 3 for each of the others: 48, six turns: 288, and
   * 57. */
  assert_int_equal(p->compute_sets[0].groups[0].cycles, 345);
  trm_program_free(p);
}

/* A layer of halves and the update of its weights, with the gradient z of its result. */
static const char half_layer[] =
    "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e {\n"
    "w = f16[512,1024] parameter(0)  x = f16[64,512] parameter(1)\n"
    "dy = f16[64,1024] parameter(2)  y = f16[64,1024] dot(x, w), lhs_contracting_dims={1},\n"
    "rhs_contracting_dims={0}  z = f16[64,1024] add(y, dy)\n"
    "dw = f16[512,1024] dot(x, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
    "k = f16[] constant(0.5)  b = f16[512,1024] broadcast(k), dimensions={}\n"
    "s = f16[512,1024] multiply(dw, b)  ROOT new = f16[512,1024] subtract(w, s) }";

/* The bytes that all tiles receive in the exchanges with this name; *out_count: how many. */
static int64_t bytes_of_exchanges(const trm_program *p, const char *text, uint32_t *out_count) {
  trm_program_step_info info = {.size = sizeof info};
  int64_t bytes = 0;
  *out_count = 0;
  for (size_t i = 0; trm_program_step_get(p, i, &info); ++i) {
    if (strstr(info.name, text) == NULL) continue;
    bytes += info.bytes_in_total;
    ++*out_count;
  }
  return bytes;
}

/* A product that sums the first dimension of its operands regroups both: exchange, copy, and the
 * vertices that transpose blocks of 16 x 16 halves, one for each worker here. */
static void test_turned_operands(void **state) {
  (void)state;
  trm_program *p = make_program(half_layer, "mk2", NULL);
  uint32_t exchanges, copies;
  assert_int_equal(bytes_of_exchanges(p, "dw/preRegroup/ExchangePre", &exchanges),
                   (64 * 512 + 64 * 1024) * 2);
  bytes_of_exchanges(p, "Copy_dw/preRegroup/OnTileCopy", &copies);
  assert_true(exchanges == 2 && copies == 2);
  assert_int_equal(find_set(p, "preRegroup/Transpose")->groups[0].cycles,
                   7 + 6 * (29 + 18 + 4 * (12 + 4 * 2)));
  trm_program_free(p);
}

/* The update of halves is computed in float32, but the vertex reads halves: its gradient is
 * exchanged as halves are, and four are a vector. */
static void test_update_of_halves(void **state) {
  (void)state;
  trm_program *p = make_program(half_layer, "mk2", NULL);
  uint32_t exchanges;
  assert_int_equal(bytes_of_exchanges(p, "subtract", &exchanges), 512 * 1024 * 2);
  /* 384 on the fullest tile: 64 a worker, 16 vectors. */
  assert_int_equal(find_set(p, "AddTo")->groups[0].cycles, 6 * (21 + 15 * 3) + 57);
  trm_program_free(p);
}

/* Small trees are called after their last instruction; sums of squares are one reduction. */
/* A small tree is one expression where its root has a scalar; other instructions stand alone. */
static void test_patterns(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nsum { x = f32[] parameter(0)  y = f32[] parameter(1)\n"
      "ROOT z = f32[] add(x, y) }\n"
      "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  k = f32[] parameter(2)\n"
      "a = f32[4] add(x, y), metadata={op_name=\"one\"}  d = f32[4] broadcast(k), dimensions={}\n"
      "b = f32[4] divide(d, a), metadata={op_name=\"two\"}\n"
      "c = f32[4] multiply(b, x), metadata={op_name=\"three\"}\n"
      "s = f32[4] multiply(x, x), metadata={op_name=\"four\"}  z = f32[] constant(0)\n"
      "r = f32[] reduce(s, z), dimensions={0}, to_apply=sum, metadata={op_name=\"five\"}\n"
      "ROOT t = (f32[4], f32[]) tuple(c, r) }",
      "mk2", NULL);
  assert_non_null(find_set(p, "/expression/Op/Add"));
  assert_int_equal(strncmp(find_set(p, "/expression/Op/Add")->name, "two/divide.", 11), 0);
  assert_non_null(find_set(p, "/expression/Op/Divide"));
  assert_non_null(find_set(p, "three/multiply."));
  assert_non_null(find_set(p, "five/fusion/ReduceOnTile/InToOutputNoExchange/Reduce"));
  assert_int_equal(p->num_compute_sets, 4);
  check_sums(p);
  trm_program_free(p);
}

static void test_sort(void **state) {
  (void)state;
  trm_program *p =
      make_program("HloModule m\nless { a = f32[] parameter(0)  b = f32[] parameter(1)\n"
                   "ROOT c = pred[] compare(a, b), direction=LT }\n"
                   "ENTRY e { x = f32[65536] parameter(0)\n"
                   "ROOT s = f32[65536] sort(x), dimensions={0}, to_apply=less }",
                   "mk2", NULL);
  uint64_t steps = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (strstr(p->steps[s].name, "CompareSwap") != NULL) steps += (uint64_t)p->steps[s].executions;
  }
  /* 2^16 numbers: merges of 2, 4, ... 65536 take 1, 2, ... 16 steps. */
  assert_int_equal(steps, 136);
  check_sums(p);
  trm_program_free(p);
}

/* What float16 normalisation computes in float32 for exactness counts as half. */
static void test_half_inside(void **state) {
  (void)state;
  trm_program *half =
      make_program("HloModule m\nENTRY e { x = f16[1472,240] parameter(0)  k = f32[] parameter(1)\n"
                   "w = f32[1472,240] convert(x)  b = f32[1472,240] broadcast(k), dimensions={}\n"
                   "m = f32[1472,240] multiply(w, b)  a = f32[1472,240] add(m, b)\n"
                   "ROOT c = f16[1472,240] convert(a) }",
                   "mk2", NULL);
  trm_program *wide =
      make_program("HloModule m\nENTRY e { w = f32[1472,240] parameter(0)  k = f32[] parameter(1)\n"
                   "b = f32[1472,240] broadcast(k), dimensions={}\n"
                   "m = f32[1472,240] multiply(w, b)  ROOT a = f32[1472,240] add(m, b) }",
                   "mk2", NULL);
  assert_true(half->totals.compute_cycles < wide->totals.compute_cycles);
  trm_program_free(half);
  trm_program_free(wide);
}

/* f32[count * 4,8] negate(concatenate(count arrays of 4 x 8)) */
static trm_program *concatenation(int count) {
  char text[16384];
  int used = snprintf(text, sizeof text, "HloModule m\nENTRY e {\n");
  for (int i = 0; i < count; ++i) {
    used +=
        snprintf(text + used, sizeof text - (size_t)used, "p%d = f32[4,8] parameter(%d)\n", i, i);
  }
  used +=
      snprintf(text + used, sizeof text - (size_t)used, "c = f32[%d,8] concatenate(", 4 * count);
  for (int i = 0; i < count; ++i) {
    used += snprintf(text + used, sizeof text - (size_t)used, "%sp%d", i == 0 ? "" : ", ", i);
  }
  snprintf(text + used, sizeof text - (size_t)used,
           "), dimensions={0}\nROOT n = f32[%d,8] negate(c) }", 4 * count);
  return make_program(text, "mk2", NULL);
}

/* A few sources are read where they are; very many are written into an array first. */
static void test_long_concatenation(void **state) {
  (void)state;
  trm_program *few = concatenation(64), *many = concatenation(65);
  check_sums(few);
  check_sums(many);
  uint32_t copied[2] = {0, 0};
  const trm_program *both[2] = {few, many};
  for (int b = 0; b < 2; ++b) {
    for (uint32_t s = 0; s < both[b]->num_steps; ++s) {
      const trm_program_step *step = &both[b]->steps[s];
      if (strstr(step->name, "OnTileCopy") == NULL || step->compute_set == TRM_NO_INDEX) continue;
      const trm_program_source *source = &both[b]->sources[step->source];
      if (strcmp(source->hlo_name, "c") == 0) ++copied[b];
    }
  }
  assert_int_equal(copied[0], 0);
  assert_int_equal(copied[1], 1);
  trm_program_free(few);
  trm_program_free(many);
}

/* Calling the vertices of a copy takes its cycles, also where a plan copies a few bytes. These are
 * one vertex on a tile; where each of the six workers has 128 bytes to copy, they are six. */
static void test_copies_of_a_plan(void **state) {
  (void)state;
  for (int64_t each = 1; each <= 6; each += 5) {
    char text[400];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  x = f16[16,%d] parameter(0)\n"
             "  dy = f16[16,5] parameter(1)\n"
             "  ROOT dw = f16[%d,5] dot(x, dy), lhs_contracting_dims={0}, "
             "rhs_contracting_dims={0}\n}",
             each == 1 ? 1000 : 200000, each == 1 ? 1000 : 200000);
    trm_program *p = make_program(text, "mk2", NULL);
    check_sums(p);
    bool found = false;
    for (uint32_t s = 0; s < p->num_steps; ++s) {
      const trm_program_step *step = &p->steps[s];
      if (step->compute_set == TRM_NO_INDEX || strstr(step->name, "OnTileCopy") == NULL) continue;
      const trm_program_compute_set *set = &p->compute_sets[step->compute_set];
      assert_true(step->cycles >= p->target->copy_call_cycles);
      assert_int_equal(set->groups[0].count, each * set->active_tiles);
      found |= strstr(step->name, "dw/") != NULL;
    }
    assert_true(found);
    trm_program_free(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dynamic_slice),
      cmocka_unit_test(test_update_in_place),
      cmocka_unit_test(test_update_from_a_row),
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_reduce),
      cmocka_unit_test(test_scatter),
      cmocka_unit_test(test_partial_results),
      cmocka_unit_test(test_table_of_a_product),
      cmocka_unit_test(test_broadcast_inputs),
      cmocka_unit_test(test_many_updates),
      cmocka_unit_test(test_memory_of_updates),
      cmocka_unit_test(test_lookup_and_update),
      cmocka_unit_test(test_casts),
      cmocka_unit_test(test_fusions),
      cmocka_unit_test(test_turned_operands),
      cmocka_unit_test(test_update_of_halves),
      cmocka_unit_test(test_patterns),
      cmocka_unit_test(test_sort),
      cmocka_unit_test(test_half_inside),
      cmocka_unit_test(test_long_concatenation),
      cmocka_unit_test(test_copies_of_a_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

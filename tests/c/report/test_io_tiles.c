/* I/O tiles: streams of a loop beside its compute, as the formula says and the trace shows. */
#include "trace_case.h"

/* A loop that reads f32[n,n], computes something of it and sends it back. */
static trm_program *plan_loop(int n, int turns, const char *compute, uint32_t io_tiles, bool place,
                              double proportion) {
  trm_text text = {0};
  trm_text_format(
      &text,
      "HloModule m\ncond { s = (s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(%d)  ROOT l = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "  in = (f32[%d,%d]) custom-call(), custom_call_target=\"tremula.infeed\", "
      "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"in\\\"}\"\n"
      "  x = f32[%d,%d] get-tuple-element(in), index=0  y = f32[%d,%d] %s\n"
      "  out = () custom-call(y), custom_call_target=\"tremula.outfeed\", "
      "custom_call_has_side_effect=true, backend_config=\"{\\\"feed\\\":\\\"out\\\"}\"\n"
      "  ROOT t = (s32[]) tuple(j) }\n"
      "ENTRY e { z = s32[] constant(0)  t = (s32[]) tuple(z)\n"
      "  ROOT w = (s32[]) while(t), condition=cond, body=body }\n",
      turns, n, n, n, n, n, n, compute);
  trm_program_options options = trm_program_default_options();
  options.io_tiles = io_tiles;
  options.place_ops_on_io_tiles = place;
  options.io_tile_memory_proportion = proportion;
  trm_program *p = make_program(text.data, "mk2", &options);
  trm_text_free(&text);
  check_sums(p);
  return p;
}

static const trm_program_step *loop_of(const trm_program *p, uint32_t *out_index) {
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].type != TRM_STEP_TYPE_REPEAT || p->steps[s].end - s < 5) continue;
    *out_index = s;
    return &p->steps[s];
  }
  fail_msg("there is no loop");
  return NULL;
}

static bool says(const trm_program *p, const char *words) {
  for (uint32_t n = 0; n < p->num_notes; ++n) {
    if (strstr(p->notes[n], words) != NULL) return true;
  }
  return false;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Compute longer than the streams, and the other way round; many turns, and few. */
static void test_formula(void **unused) {
  (void)unused;
  static const char light[] = "tanh(x)";
  static const char heavy[] = "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  const struct {
    int n, turns;
    const char *compute;
    bool is_heavy;
  } cases[] = {{64, 1000, heavy, true},
               {1024, 1000, light, false},
               {64, 3, heavy, true},
               {1024, 2, light, false},
               {1024, 1, light, false}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    trm_program *p = plan_loop(cases[c].n, cases[c].turns, cases[c].compute, 32, true, 0.9);
    uint32_t l;
    const trm_program_step *loop = loop_of(p, &l);
    int64_t in = 0, out = 0, compute = p->target->loop_iteration_cycles;
    for (uint32_t s = l + 1; s < loop->end; ++s) {
      *(p->steps[s].feed == TRM_FEED_IN    ? &in
        : p->steps[s].feed == TRM_FEED_OUT ? &out
                                           : &compute) += p->steps[s].cycles;
    }
    assert_true(in > 0 && out > 0);
    assert_non_null(find_step(p, "CopyFromIoTiles"));
    assert_non_null(find_step(p, "CopyToIoTiles"));
    if (cases[c].is_heavy) assert_true(compute > 0);
    else assert_true(compute < in + out);
    const int64_t n = cases[c].turns;
    const int64_t cycles = n == 1 ? in + compute + out
                                  : in + most(compute, in) + (n - 2) * most(compute, in + out) +
                                        most(compute, out) + out;
    assert_int_equal(loop->cycles, cycles);
    assert_int_equal(p->totals.overlapped_cycles, n * (in + compute + out) - cycles);
    sqlite3 *database = trace_of(p);
    check_trace(p, database);
    assert_int_equal(number(database, "SELECT sum(cycles_overlapped) > 0 FROM trace", 0), n > 1);
    /* The second element comes while the first is computed with. */
    if (n > 1) {
      assert_int_equal(number(database,
                              "SELECT (SELECT cycles_base FROM trace"
                              " WHERE type = 'StreamCopyBegin' AND program > 0 ORDER BY id LIMIT 1"
                              " OFFSET 1) = (SELECT cycles_base FROM trace WHERE program = ?"
                              " ORDER BY id LIMIT 1)",
                              l),
                       1);
    }
    sqlite3_close(database);
    trm_program_free(p);
  }
}

/* What is loaded ahead lies on the I/O tiles, and nothing else does. */
static void test_memory(void **unused) {
  (void)unused;
  trm_program *p = plan_loop(512, 10, "tanh(x)", 32, true, 0.9);
  const trm_program_memory *m = &p->memory;
  for (uint32_t t = 1472 - 32; t < 1472; ++t) {
    assert_int_equal(m->by_category[TRM_CATEGORY_HOST_MESSAGE][t], 2 * 512 * 512 * 4 / 32);
    assert_int_equal(m->by_category[TRM_CATEGORY_VARIABLE][t], 0);
  }
  assert_int_equal(m->by_category[TRM_CATEGORY_HOST_MESSAGE][700], 0);
  trm_program_free(p);
}

/* Without place_ops_on_io_tiles, or room, or on several IPUs nothing overlaps: that is said. */
static void test_not_placed(void **unused) {
  (void)unused;
  trm_program *p = plan_loop(512, 10, "tanh(x)", 32, false, 0.9);
  assert_int_equal(p->totals.overlapped_cycles, 0);
  trm_program_free(p);
  p = plan_loop(512, 10, "tanh(x)", 32, true, 0.01);
  assert_int_equal(p->totals.overlapped_cycles, 0);
  assert_true(says(p, "io_tiles.available_memory_proportion 0.01"));
  trm_program_free(p);
  p = plan_loop(512, 10, "tanh(x), sharding={maximal device=1}", 32, true, 0.9);
  assert_int_equal(p->totals.overlapped_cycles, 0);
  assert_true(says(p, "on one IPU"));
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formula),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_not_placed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

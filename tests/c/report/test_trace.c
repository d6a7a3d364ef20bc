/* The execution trace: of pipelines in every schedule, of loops, and of what a run comes after. */
#include "../program/pipeline_case.h"
#include "base/cycles.h"
#include "trace_case.h"

/* A mini-batch's first cycle in a stage: rows of it in order of time. */
static int64_t begin_of(sqlite3 *database, const trm_program *p, uint32_t entry, int64_t m) {
  char query[256];
  const uint32_t loop = p->pipeline.loop_step;
  uint32_t first = loop + 1; /* the first step of the entry */
  while (trm_pipeline_entry_of(p, first) != entry) first = p->steps[first].end;
  snprintf(query, sizeof query,
           "SELECT cycles_base FROM trace WHERE program = %u"
           " ORDER BY id LIMIT 1 OFFSET ?",
           first);
  return number(database, query, m);
}

/* Four IPUs at once when stages overlap, one when they do not. */
static int64_t most_at_once(sqlite3 *database) {
  return number(database,
                "SELECT max(n) FROM (SELECT count(DISTINCT b.ipu) AS n FROM trace a JOIN trace b"
                " ON b.stage >= 0 AND b.cycles_base <= a.cycles_base"
                " AND a.cycles_base < b.cycles_base + b.cycles WHERE a.stage >= 0"
                " GROUP BY a.id)",
                0);
}

static void check_stages(const trm_program *p, sqlite3 *database) {
  for (uint32_t e = 0; e < p->pipeline.num_entries; ++e) {
    if (p->pipeline.recomputation) break; /* forward steps run in backward stages too */
    assert_int_equal(number(database, "SELECT sum(cycles) FROM trace WHERE stage = ?", e),
                     BATCHES * p->pipeline.stages[e].cycles);
  }
}

static void test_schedules(void **unused) {
  (void)unused;
  static const char *const names[] = {"Grouped", "Interleaved", "Sequential"};
  int64_t delay[3], at_once[3];
  for (int n = 0; n < 6; ++n) {
    trm_program *p = make_pipeline(names[n % 3], n >= 3, "");
    sqlite3 *database = trace_of(p);
    check_trace(p, database);
    check_turns(database);
    check_stages(p, database);
    if (n < 3) {
      /* When the second mini-batch comes after the first. */
      delay[n] = begin_of(database, p, 0, 1) - begin_of(database, p, 0, 0);
      at_once[n] = most_at_once(database);
    }
    if (n == 0) {
      assert_int_equal(delay[0], p->pipeline.forward_cycles);
    } else if (n == 1) {
      assert_int_equal(delay[1], p->pipeline.round_cycles);
    } else if (n == 2) {
      assert_int_equal(delay[2], p->pipeline.work_cycles / BATCHES);
    }
    sqlite3_close(database);
    trm_program_free(p);
  }
  assert_int_equal(at_once[0], STAGES);
  assert_int_equal(at_once[1], STAGES);
  assert_int_equal(at_once[2], 1);
  assert_true(delay[0] < delay[1] && delay[1] < delay[2]);
}

/* More mini-batches than are written one by one: the rest are a row for each stage. */
static void test_many_mini_batches(void **unused) {
  (void)unused;
  trm_program *p = make_batches("Grouped", false, "", 5000);
  sqlite3 *database = trace_of(p);
  check_trace(p, database);
  assert_int_equal(number(database, "SELECT max(iterations) > 4000 FROM trace", 0), 1);
  assert_true(number(database, "SELECT count(*) FROM trace", 0) < 5000);
  sqlite3_close(database);
  trm_program_free(p);
}

static void test_waiting_and_loading(void **unused) {
  (void)unused;
  trm_program *p = make_program("HloModule m\nENTRY e { x = f32[512,512] parameter(0)\n"
                                "ROOT t = f32[512,512] tanh(x) }",
                                "mk2", NULL);
  /* Code and what is always live over the host's link. */
  const trm_program_totals *t = &p->totals;
  assert_true(t->code_bytes > 0);
  assert_int_equal(t->load_bytes, t->always_live_bytes + t->code_bytes);
  const double late =
      (double)(t->load_cycles - p->target->global_sync_cycles) -
      (double)t->load_bytes / p->target->host_load_bytes_per_second * p->target->clock_frequency;
  assert_true(late >= 0 && late < 1);
  sqlite3 *database = trace_of(p);
  check_trace(p, database);
  trm_error error;
  assert_int_equal(trm_database_run(database,
                                    "INSERT INTO ipus VALUES(0,0,1472);"
                                    "INSERT INTO runs VALUES(0,'a',0,0,0,50,0,0,0,0,0,99);"
                                    "INSERT INTO runs VALUES(1,'b',50,7,9,66,0,0,0,0,0,99)",
                                    &error),
                   TRM_OK);
  assert_int_equal(number(database, "SELECT count(*) FROM steps WHERE run = 0 AND program < 0", 0),
                   0);
  assert_int_equal(number(database,
                          "SELECT cycles FROM steps_by_ipu JOIN steps ON step_id = id"
                          " WHERE program = -1",
                          0),
                   7);
  assert_int_equal(number(database,
                          "SELECT cycles_base FROM steps_by_ipu JOIN steps"
                          " ON step_id = id WHERE program = -2 AND cycles = 9",
                          0),
                   57);
  assert_int_equal(number(database,
                          "SELECT min(cycles_base) FROM steps_by_ipu JOIN steps"
                          " ON step_id = id WHERE steps.run = 1 AND program >= 0",
                          0),
                   66);
  sqlite3_close(database);
  trm_program_free(p);
}

/* Of loops whose cycles are more than can be counted: rows with numbers that make sense. */
static void test_endless_loops(void **unused) {
  (void)unused;
  trm_program_options options = trm_program_default_options();
  options.assumed_trip_count = (uint64_t)1 << 53;
  trm_program *p = make_program(
      "HloModule m\n"
      "cond { s = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  z = s32[] constant(0)  ROOT l = pred[] compare(i, z), direction=NE }\n"
      "body { s = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "  x = f32[64] get-tuple-element(s), index=1  y = f32[64] tanh(x)  j = s32[] multiply(i, i)\n"
      "  ROOT r = (s32[], f32[64]) tuple(j, y) }\n"
      "ENTRY e { t = (s32[], f32[64]) parameter(0)\n"
      "  u = (s32[], f32[64]) while(t), condition=cond, body=body\n"
      "  v = (s32[], f32[64]) while(u), condition=cond, body=body\n"
      "  ROOT w = (s32[], f32[64]) while(v), condition=cond, body=body }",
      "mk2", &options);
  assert_int_equal(p->totals.cycles, TRM_MOST_CYCLES);
  sqlite3 *database = trace_of(p);
  assert_true(number(database, "SELECT count(*) FROM trace", 0) > 6);
  assert_int_equal(number(database,
                          "SELECT count(*) FROM trace WHERE cycles < 0 OR"
                          " cycles_base < 0 OR cycles_base > ?",
                          TRM_MOST_CYCLES),
                   0);
  sqlite3_close(database);
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_schedules),
      cmocka_unit_test(test_many_mini_batches),
      cmocka_unit_test(test_waiting_and_loading),
      cmocka_unit_test(test_endless_loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

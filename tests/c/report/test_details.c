/* What a profile says beside totals: streams, roles, cycles and bytes by tile, regions, advice. */
#include "../program/pipeline_case.h"
#include "trace_case.h"

static sqlite3 *database;

static trm_program *plan(const char *text) {
  trm_error error;
  trm_module *module;
  trm_executable *executable;
  trm_program *program;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, NULL, 0, &executable, &error) != TRM_OK ||
      trm_program_create_for_executable(executable, NULL, NULL, &program, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_module_free(module);
  trm_executable_free(executable); /* the program keeps it alive */
  return program;
}

/* As one of so many processes that share a program. */
static uint32_t num_processes, process;

static void write_profile(const trm_program *program, bool advice) {
  trm_engine_options options;
  trm_engine_options_default(&options);
  options.advice = advice;
  trm_report_source source = {.program = program,
                              .options = &options,
                              .framework = "",
                              .framework_version = "",
                              .num_processes = num_processes,
                              .process = process};
  trm_error error;
  assert_int_equal(trm_lowered_create(program, &source.lowered, &error), TRM_OK);
  if (trm_report_write_profile(&source, ":memory:", true, &database, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_lowered_free(&source.lowered);
}

#define COUNT(query) number(database, "SELECT count(*) FROM " query, 0)

static const char training[] =
    "HloModule m\n"
    "ENTRY e { t = token[] after-all()\n"
    "in = (f32[64,512], token[]) infeed(t), infeed_config=\"images\"\n"
    "x = f32[64,512] get-tuple-element(in), index=0\n"
    "w = f32[512,1000] parameter(0)\n"
    "d = f32[64,1000] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},"
    " metadata={op_type=\"MatMul\" op_name=\"dense/MatMul\"}\n"
    "g = f32[512,1000] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0},"
    " metadata={op_type=\"MatMul\" op_name=\"gradients/dense/MatMul_grad/MatMul_1\"}\n"
    "ROOT n = f32[512,1000] subtract(w, g),"
    " metadata={op_type=\"ResourceApplyGradientDescent\" op_name=\"sgd/update\"} }";

static void test_streams_and_roles(void **unused) {
  (void)unused;
  trm_program *program = plan(training);
  write_profile(program, false);
  assert_int_equal(COUNT("streams WHERE kind = 'infeed' AND name = 'images' AND direction = 'in'"
                         " AND bytes = 64 * 512 * 4"),
                   1);
  assert_int_equal(COUNT("programs WHERE (type = 'StreamCopyMid') != (stream >= 0)"), 0);
  assert_int_equal(COUNT("programs JOIN streams ON streams.id = programs.stream"
                         " WHERE streams.name = 'images'"),
                   1);
  for (int r = 0; r < 3; ++r) {
    static const char *const queries[] = {
        "SELECT role = 'forward' FROM sources WHERE op_name = 'dense/MatMul'",
        "SELECT role = 'backward' FROM sources WHERE op_name LIKE 'gradients/%'",
        "SELECT role = 'update' FROM sources WHERE op_name = 'sgd/update'"};
    assert_int_equal(number(database, queries[r], 0), 1);
  }
  assert_int_equal(COUNT("advice"), 0); /* it fits, and nobody asks */
  sqlite3_close(database);
  trm_program_free(program);
}

/* The worst tile, the active tiles and the mean are those of the estimate. */
static void test_cycles_and_bytes_by_tile(void **unused) {
  (void)unused;
  trm_program *program = plan(training);
  write_profile(program, false);
  static const char by_set[] =
      "(SELECT s.*, max(t.cycles) AS worst, sum(t.cycles * t.num_tiles) AS sum,"
      " sum(t.num_tiles) AS tiles FROM compute_sets s JOIN tile_cycles t"
      " ON t.distribution = s.tile_cycles GROUP BY s.compute_set) WHERE ";
  char query[1024];
  snprintf(query, sizeof query, "SELECT count(*) FROM %s cycles > 0", by_set);
  assert_true(number(database, query, 0) > 2);
  snprintf(query, sizeof query,
           "SELECT count(*) FROM %s worst != cycles OR tiles != active_tiles"
           " OR abs(sum - cycles_mean * %u) > %u",
           by_set, program->tiles_per_ipu, program->tiles_per_ipu);
  assert_int_equal(number(database, query, 0), 0);
  assert_int_equal(COUNT("programs p WHERE compute_set >= 0 AND tile_cycles != (SELECT tile_cycles"
                         " FROM compute_sets s WHERE s.compute_set = p.compute_set)"),
                   0);
  assert_int_equal(COUNT("(SELECT p.code_bytes, sum(t.bytes * t.num_tiles) AS sum FROM programs p"
                         " JOIN tile_bytes t ON t.distribution = p.code_by_tile GROUP BY p.id)"
                         " WHERE sum != code_bytes"),
                   0);
  /* Uneven shares: the subtraction's tiles hold whole grains of the result, the cycles follow. */
  assert_true(COUNT("(SELECT distribution FROM tile_cycles GROUP BY distribution"
                    " HAVING count(DISTINCT cycles) > 1)") > 0);
  sqlite3_close(database);
  trm_program_free(program);
}

static void test_regions(void **unused) {
  (void)unused;
  trm_program *program = plan(training);
  write_profile(program, false);
  assert_int_equal(number(database,
                          "SELECT sum(size_bytes) - (SELECT sum(size_bytes) FROM vars_info)"
                          " FROM vars_by_region",
                          0),
                   0);
  assert_int_equal(COUNT("(SELECT m.tile, m.interleaved, sum(r.size_bytes) AS sum"
                         " FROM memory_by_tile m JOIN vars_by_region r ON r.tile = m.tile"
                         " WHERE region = 'interleaved' GROUP BY m.tile) WHERE sum != interleaved"),
                   0);
  assert_true(COUNT("vars_by_region WHERE region = 'interleaved'") > 0);
  sqlite3_close(database);
  trm_program_free(program);
}

static const char too_large[] =
    "HloModule m\nENTRY e { x = f32[16,16384] parameter(0)  w = f32[16384,20000] parameter(1)\n"
    "ROOT d = f32[16,20000] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";

static void test_advice(void **unused) {
  (void)unused;
  trm_program *program = plan(too_large);
  write_profile(program, false); /* it does not fit: nobody need ask */
  assert_true(COUNT("advice WHERE text LIKE '%float16%' AND saved > 0 AND worst_tile_bytes + saved"
                    " = (SELECT value FROM totals WHERE key = 'worst_tile_bytes')") == 1);
  sqlite3_close(database);
  trm_program_free(program);
  program = plan(training);
  write_profile(program, true);
  assert_true(COUNT("advice WHERE fits AND saved > 0") > 0);
  sqlite3_close(database);
  trm_program_free(program);
}

static void test_mini_batches_of_a_pipeline(void **unused) {
  (void)unused;
  trm_program *program = make_batches("Grouped", false, "", BATCHES);
  write_profile(program, false);
  assert_int_equal(COUNT("trace WHERE (stage >= 0 AND phase IS NOT NULL) != (micro_batch >= 0)"),
                   0);
  assert_int_equal(number(database, "SELECT max(micro_batch) FROM trace", 0), BATCHES - 1);
  assert_true(COUNT("trace WHERE phase = 'backward'") > 0);
  sqlite3_close(database);
  trm_program_free(program);
}

static void check_instance(int instance, int count, int replica_offset) {
  assert_int_equal(number(database, "SELECT value FROM meta WHERE key = 'instance'", 0), instance);
  assert_int_equal(number(database, "SELECT value FROM meta WHERE key = 'num_instances'", 0),
                   count);
  assert_int_equal(number(database, "SELECT value FROM meta WHERE key = 'replica_offset'", 0),
                   replica_offset);
}

static void test_instances_of_a_launcher(void **unused) {
  (void)unused;
  trm_program *program = plan(training);
  program->totals.replicas = 4;
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  write_profile(program, false); /* a program of its own with four replicas */
  check_instance(1, 2, 4);
  sqlite3_close(database);
  num_processes = 2, process = 1;
  write_profile(program, false); /* both have two of the four */
  num_processes = process = 0;
  check_instance(1, 2, 2);
  sqlite3_close(database);
  unsetenv("OMPI_COMM_WORLD_RANK");
  unsetenv("OMPI_COMM_WORLD_SIZE");
  trm_program_free(program);
}

static void test_instances(void **unused) {
  (void)unused;
  trm_program *program = plan(training);
  setenv("TF_CONFIG",
         "{\"cluster\":{\"worker\":[\"a:1\",\"b:1\",\"c:1\"]},"
         "\"task\":{\"type\":\"worker\",\"index\":2}}",
         1);
  write_profile(program, false);
  unsetenv("TF_CONFIG");
  check_instance(2, 3, 2);
  assert_int_equal(COUNT("meta WHERE key = 'program_hash' AND length(value) = 16"), 1);
  assert_int_equal(number(database, "SELECT value FROM target WHERE key = 'floor_plan_columns'", 0),
                   16);
  sqlite3_close(database);
  trm_program_free(program);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_streams_and_roles),
                                     cmocka_unit_test(test_cycles_and_bytes_by_tile),
                                     cmocka_unit_test(test_regions),
                                     cmocka_unit_test(test_advice),
                                     cmocka_unit_test(test_instances),
                                     cmocka_unit_test(test_instances_of_a_launcher),
                                     cmocka_unit_test(test_mini_batches_of_a_pipeline)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

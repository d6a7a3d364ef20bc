/* The estimate that an executable keeps. */
#include <pthread.h>

#include "../run.h"
#include "program/program.h"

static const char text[] =
    "HloModule m\nENTRY e { x = f32[64,32] parameter(0)  w = f32[32,16] parameter(1)\n"
    "  ROOT d = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n";

static trm_program *estimate_of(trm_executable *executable, const trm_program_options *options) {
  trm_error error;
  trm_program *program = NULL;
  if (trm_program_create_for_executable(executable, NULL, options, &program, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  return program;
}

/* Whoever asks gets the same program; other options are planned for themselves. */
static void test_made_once(void **state) {
  (void)state;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  trm_program_options options = trm_program_options_of(executable);
  options.instrument = true;
  trm_program *first = estimate_of(executable, NULL), *second = estimate_of(executable, NULL);
  trm_program *other = estimate_of(executable, &options);
  assert_ptr_equal(first, second);
  assert_ptr_not_equal(first, other);
  trm_program_free(other);
  trm_program_free(first);
  assert_ptr_equal(second, estimate_of(executable, NULL));
  trm_program_free(second);
  trm_program_free(second);
  trm_executable_free(executable);
}

/* A program that somebody holds outlives the executable's other owners. */
static void test_outlives_its_owner(void **state) {
  (void)state;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  trm_program *program = estimate_of(executable, NULL);
  trm_executable_free(executable);
  assert_true(trm_program_get_totals(program).fits);
  assert_string_equal(program->module->name, "m");
  trm_program_free(program);
}

static void *ask(void *executable) { return estimate_of(executable, NULL); }

static void test_asked_at_once(void **state) {
  (void)state;
  enum { THREADS = 4 };
  trm_executable *executable = test_compile(text, &test_modes[0]);
  pthread_t threads[THREADS];
  void *programs[THREADS];
  for (int t = 0; t < THREADS; ++t) {
    assert_int_equal(pthread_create(&threads[t], NULL, ask, executable), 0);
  }
  for (int t = 0; t < THREADS; ++t) assert_int_equal(pthread_join(threads[t], &programs[t]), 0);
  for (int t = 0; t < THREADS; ++t) {
    assert_ptr_equal(programs[t], programs[0]);
    trm_program_free(programs[t]);
  }
  trm_executable_free(executable);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_made_once),
                                     cmocka_unit_test(test_outlives_its_owner),
                                     cmocka_unit_test(test_asked_at_once)};
  return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}

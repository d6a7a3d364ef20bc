/* For tests of whole programs: compiles HLO text, runs it, compares the numbers. */
#ifndef TREMULA_TESTS_RUN_H_
#define TREMULA_TESTS_RUN_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tremula/tremula.h"

/* The three ways to compile; every program must give the same numbers in each. */
static const trm_option test_modes[3] = {
    {"optimise", "true"}, {"optimise", "false"}, {"reference", "true"}};

static inline trm_executable *test_compile(const char *text, const trm_option *option) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  if (trm_compile(module, option, 1, &executable, &error) != TRM_OK) {
    fail_msg("does not compile: %s", error.message);
  }
  trm_module_free(module);
  return executable;
}

/* Compiles and runs in one mode. Any failure is the test's. */
static inline void test_run_mode(const char *text, const trm_option *mode,
                                 const void *const *inputs, void *const *outputs) {
  trm_error error;
  trm_executable *executable = test_compile(text, mode);
  trm_engine *engine = NULL;
  if (trm_engine_create(executable, &engine, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  for (int repeat = 0; repeat < 2; ++repeat) {
    if (trm_engine_run(engine, inputs, NULL, outputs, &error) != TRM_OK) {
      fail_msg("does not run (%s): %s", mode->key, error.message);
    }
  }
  trm_engine_free(engine);
}

/* Runs the optimised program once. *out_times is the table of the steps' times, for trm_free. */
static inline void test_times(const char *text, const void *const *inputs, void *const *outputs,
                              char **out_times) {
  trm_error error;
  trm_engine *engine = NULL;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  assert_int_equal(trm_engine_create(executable, &engine, &error), TRM_OK);
  trm_executable_free(executable);
  trm_engine_time_steps(engine, true);
  assert_int_equal(trm_engine_run(engine, inputs, NULL, outputs, &error), TRM_OK);
  assert_int_equal(trm_engine_print_times(engine, out_times, &error), TRM_OK);
  trm_engine_free(engine);
}

/* One f32 input, one f32 output of `count` elements, in every mode. */
static inline void test_expect_f32(const char *text, const void *const *inputs,
                                   const float *expected, size_t count) {
  for (int m = 0; m < 3; ++m) {
    float output[256] = {0};
    void *outputs[1] = {output};
    assert_true(count <= 256);
    test_run_mode(text, &test_modes[m], inputs, outputs);
    for (size_t i = 0; i < count; ++i) {
      if (!(output[i] == expected[i])) {
        fail_msg("mode %s=%s, element %zu: %g instead of %g", test_modes[m].key,
                 test_modes[m].value, i, (double)output[i], (double)expected[i]);
      }
    }
  }
}

/* The outputs, of bytes[i] each, are the same bits in every mode. */
static inline void test_expect_same_bits(const char *text, const void *const *inputs,
                                         size_t num_outputs, const size_t *bytes) {
  void *expected[4], *found[4];
  assert_true(num_outputs <= 4);
  for (size_t i = 0; i < num_outputs; ++i) {
    expected[i] = calloc(1, bytes[i]);
    found[i] = calloc(1, bytes[i]);
  }
  test_run_mode(text, &test_modes[2], inputs, expected);
  for (int m = 0; m < 2; ++m) {
    for (size_t i = 0; i < num_outputs; ++i) memset(found[i], 0, bytes[i]);
    test_run_mode(text, &test_modes[m], inputs, found);
    for (size_t i = 0; i < num_outputs; ++i) assert_memory_equal(found[i], expected[i], bytes[i]);
  }
  for (size_t i = 0; i < num_outputs; ++i) free(expected[i]), free(found[i]);
}

static inline int test_occurrences(const char *text, const char *word) {
  int count = 0;
  for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) ++count;
  return count;
}

#endif /* TREMULA_TESTS_RUN_H_ */

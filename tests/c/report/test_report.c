/* Profiles: engine options, what is written, out of memory, reading back, damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/options.h"
#include "report/read.h"
#include "report/write.h"

static const char text[] =
    "HloModule m\nENTRY e { x = f32[256,512] parameter(0)  w = f32[512,1024] parameter(1)\n"
    "d = f32[256,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "ROOT t = f32[256,1024] tanh(d) }";

static char folder[64];

static trm_executable *compile(const char *module_text, const trm_option *options, size_t count) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(module_text, strlen(module_text), "test", &module, &error) != TRM_OK ||
      trm_compile(module, options, count, &executable, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  trm_module_free(module);
  return executable;
}

static int in_a_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/tremula-report-XXXXXX");
  assert_non_null(mkdtemp(folder));
  unsetenv("POPLAR_ENGINE_OPTIONS");
  return chdir(folder);
}

static int clean(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return chdir("/") != 0 || system(command) != 0;
}

static void test_options(void **state) {
  (void)state;
  trm_arena arena = {0};
  trm_engine_options options;
  trm_error error;
  trm_engine_options_default(&options);
  assert_false(trm_engine_options_want_report(&options));
  assert_int_equal(trm_engine_options_add(&options, &arena,
                                          "{\"autoReport.all\":\"true\","
                                          "\"autoReport.outputArchive\":\"false\","
                                          "\"autoReport.executionProfileProgramRunCount\":\"10\","
                                          "\"device.clearAtomicFlagAfterExchange\":\"false\","
                                          "\"target.hostSyncTimeout\":\"3000\"}",
                                          "test", &error),
                   TRM_OK);
  assert_true(trm_engine_options_want_report(&options));
  assert_true(options.output_vars);
  assert_false(options.output_archive);
  assert_false(options.output_serialized);
  assert_int_equal(options.run_count, 10);
  const struct {
    const char *json, *part;
  } bad[] = {{"{autoReport", "not JSON"},
             {"[1]", "object"},
             {"{\"autoReport.all\":\"yes\"}", "autoReport.all must be"},
             {"{\"autoReport.all\":[]}", "must be text"},
             {"{\"autoReport.executionProfileProgramRunCount\":\"-1\"}", "RunCount"}};
  for (size_t b = 0; b < sizeof bad / sizeof *bad; ++b) {
    assert_int_equal(trm_engine_options_add(&options, &arena, bad[b].json, "test", &error),
                     TRM_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, bad[b].part));
    assert_non_null(strstr(error.message, "test"));
  }
  assert_int_equal(
      trm_engine_options_add(&options, &arena, "{\"autoReport.al\":\"x\"}", "test", &error),
      TRM_INTERNAL);
  assert_string_equal(error.message, "[Poplar][Compile engine] invalid_option: Unrecognised option "
                                     "'autoReport.al' in test; did you mean 'autoReport.all'?");
  trm_arena_free(&arena);
}

static void test_nothing_is_written_without_being_asked(void **state) {
  (void)state;
  trm_executable *executable = compile(text, NULL, 0);
  trm_report *report = NULL;
  trm_error error;
  assert_int_equal(trm_report_create(executable, NULL, &report, &error), TRM_OK);
  assert_null(report);
  assert_int_equal(rmdir(folder), 0); /* it is empty */
  assert_int_equal(mkdir(folder, 0700), 0);
  assert_int_equal(chdir(folder), 0);
  trm_executable_free(executable);
}

static void test_written_and_read(void **state) {
  (void)state;
  const trm_option options[] = {
      {"engine_options", "{\"autoReport.all\":\"true\",\"autoReport.directory\":\"a/b\"}"}};
  trm_executable *executable = compile(text, options, 1);
  trm_report *report = NULL;
  trm_error error;
  const trm_report_framework framework = {
      .size = sizeof framework, .name = "Test", .version = "1.2"};
  if (trm_report_create(executable, &framework, &report, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  assert_non_null(report);
  assert_int_equal(strncmp(trm_report_directory(report), "a/b/tf_report__", 15), 0);
  for (int run = 0; run < 4; ++run) {
    const trm_report_times times = {.size = sizeof times, .began = run, .ended = run + 0.5};
    trm_report_run(report, &times);
  }
  trm_profile profile;
  if (trm_profile_read(trm_report_directory(report), &profile, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  assert_int_equal(profile.runs.count, 2); /* executionProfileProgramRunCount */
  assert_int_equal(profile.runs.items[0].cycles, profile.cycles);
  assert_int_equal(profile.runs.items[1].wait_cycles, (int64_t)(0.5 * profile.clock_frequency));
  assert_int_equal(profile.runs.items[1].cycles - profile.runs.items[1].wait_cycles,
                   profile.cycles);
  assert_true(profile.fits);
  assert_true(profile.items_per_run == 256);
  assert_string_equal(profile.framework_version, "1.2");
  int64_t cycles = 0;
  bool planned = false;
  for (size_t o = 0; o < profile.ops.count; ++o) {
    cycles += profile.ops.items[o].cycles;
    planned |= profile.ops.items[o].plan != NULL;
  }
  assert_int_equal(cycles, profile.cycles);
  assert_true(planned);
  char *once, *again, *json;
  assert_int_equal(trm_report_print(trm_report_directory(report), NULL, false, &once, &error),
                   TRM_OK);
  assert_int_equal(trm_report_print(trm_report_directory(report), NULL, false, &again, &error),
                   TRM_OK);
  assert_string_equal(once, again);
  assert_non_null(strstr(once, "\non one MK2: "));
  assert_non_null(strstr(once, "MB of 918, worst tile"));
  assert_non_null(strstr(once, "; this CPU: 512 samples/s\n"));
  assert_int_equal(trm_report_print(trm_report_directory(report), trm_report_directory(report),
                                    true, &json, &error),
                   TRM_OK);
  assert_non_null(strstr(json, "\"ops\": []"));
  trm_free(once);
  trm_free(again);
  trm_free(json);
  trm_profile_free(&profile);
  trm_report_free(report);
  trm_executable_free(executable);
}

/* 1.2 GB of weights on one IPU. */
static const char too_large[] =
    "HloModule m\nENTRY e { x = f32[16,16384] parameter(0)  w = f32[16384,20000] parameter(1)\n"
    "ROOT d = f32[16,20000] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";

static void test_out_of_memory(void **state) {
  (void)state;
  setenv("POPLAR_ENGINE_OPTIONS", "{\"autoReport.all\":\"true\"}", 1);
  trm_executable *executable = compile(too_large, NULL, 0);
  trm_report *report = NULL;
  trm_error error;
  assert_int_equal(trm_report_create(executable, NULL, &report, &error), TRM_INTERNAL);
  assert_null(report);
  static const char start[] = "[Poplar][Compile engine] graph_memory_allocation_error: ";
  assert_int_equal(strncmp(error.message, start, sizeof start - 1), 0);
  char *path = strstr(error.message, "Profile saved to: ");
  assert_non_null(path);
  path += strlen("Profile saved to: ");
  path[strcspn(path, ")")] = '\0';
  trm_profile profile;
  assert_int_equal(trm_profile_read(path, &profile, &error), TRM_OK);
  assert_false(profile.fits);
  assert_true(profile.bytes_over > 0 && profile.tiles_over > 0);
  trm_profile_free(&profile);
  trm_executable_free(executable);
  /* debug.allowOutOfMemory: without it nothing is written. */
  setenv("POPLAR_ENGINE_OPTIONS",
         "{\"autoReport.all\":\"true\",\"debug.allowOutOfMemory\":\"false\"}", 1);
  executable = compile(too_large, NULL, 0);
  assert_int_equal(trm_report_create(executable, NULL, &report, &error), TRM_INTERNAL);
  assert_null(strstr(error.message, "Profile saved to: "));
  trm_executable_free(executable);
  /* The IPU Model says so and goes on. */
  const trm_option model[] = {{"ipu_model", "true"}};
  executable = compile(too_large, model, 1);
  assert_int_equal(trm_report_create(executable, NULL, &report, &error), TRM_OK);
  assert_non_null(report);
  trm_report_free(report);
  trm_executable_free(executable);
  unsetenv("POPLAR_ENGINE_OPTIONS");
}

static void test_bad_options_are_errors(void **state) {
  (void)state;
  const trm_option cases[][1] = {{{"matmul_options", "{\"availableMemoryProportion\":\"2\"}"}},
                                 {{"convolution_options", "[]"}},
                                 {{"io_tiles", "1472"}},
                                 {{"target", "mk3"}},
                                 {{"engine_options", "{"}}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    trm_executable *executable = compile(text, cases[c], 1);
    trm_report *report = NULL;
    trm_error error = {0};
    assert_int_not_equal(trm_report_create(executable, NULL, &report, &error), TRM_OK);
    assert_true(error.message[0] != '\0');
    trm_executable_free(executable);
  }
}

static void test_damaged_profiles(void **state) {
  (void)state;
  trm_profile profile;
  trm_error error;
  assert_int_equal(trm_profile_read("nowhere", &profile, &error), TRM_NOT_FOUND);
  assert_int_equal(trm_profile_read(".", &profile, &error), TRM_NOT_FOUND);
  FILE *file = fopen("profile.pop", "wb");
  assert_non_null(file);
  assert_true(fputs("SQLite format 3", file) >= 0 && fclose(file) == 0);
  assert_int_equal(trm_profile_read(".", &profile, &error), TRM_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options),
      cmocka_unit_test_setup_teardown(test_nothing_is_written_without_being_asked, in_a_folder,
                                      clean),
      cmocka_unit_test_setup_teardown(test_written_and_read, in_a_folder, clean),
      cmocka_unit_test_setup_teardown(test_out_of_memory, in_a_folder, clean),
      cmocka_unit_test_setup_teardown(test_bad_options_are_errors, in_a_folder, clean),
      cmocka_unit_test_setup_teardown(test_damaged_profiles, in_a_folder, clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

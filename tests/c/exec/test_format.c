/* Executables as files: round trip, cut short, altered, of another version. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../run.h"
#include "tremula/report.h"

static const char *text =
    "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n"
    "ENTRY e { w = f32[3] parameter(0)  x = f32[3] parameter(1)  y = f32[3] multiply(w, x)\n"
    "  d = f32[3] tanh(y)  n = f32[3] subtract(w, d)\n"
    "  ROOT t = (f32[3], f32[3]) tuple(d, n) }\n";

static void run(trm_executable *executable, float out[2][3]) {
  const float w[3] = {1, 2, 3}, x[3] = {0.5f, -1, 2};
  const void *inputs[2] = {w, x};
  void *outputs[2] = {out[0], out[1]};
  trm_engine *engine;
  trm_error error;
  assert_int_equal(trm_engine_create(executable, &engine, &error), TRM_OK);
  assert_int_equal(trm_engine_run(engine, inputs, NULL, outputs, &error), TRM_OK);
  trm_engine_free(engine);
}

static void test_round_trip(void **state) {
  (void)state;
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]), *loaded;
  char path[] = "/tmp/tremula-test-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  if (trm_executable_save(executable, path, &error) != TRM_OK) fail_msg("%s", error.message);
  if (trm_executable_load(path, &loaded, &error) != TRM_OK) fail_msg("%s", error.message);
  unlink(path);
  assert_int_equal(trm_executable_num_inputs(loaded), 2);
  assert_string_equal(trm_executable_input(loaded, 0)->name,
                      trm_executable_input(executable, 0)->name);
  assert_int_equal(trm_executable_output_alias(loaded, 0), -1);
  assert_int_equal(trm_executable_output_alias(loaded, 1), 0);
  float a[2][3], b[2][3];
  run(executable, a);
  run(loaded, b);
  assert_memory_equal(a, b, sizeof a);
  trm_executable_free(executable);
  trm_executable_free(loaded);
  assert_int_equal(trm_executable_load(path, &loaded, &error), TRM_NOT_FOUND);
  assert_non_null(strstr(error.message, "there is no file /tmp/tremula-test-"));
  assert_int_equal(trm_executable_load("/tmp", &loaded, &error), TRM_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "is not a regular file"));
}

/* Frees an executable and loads it again; its bytes must be freed. */
static trm_executable *reload(trm_executable *executable, void **out_data, size_t *out_size) {
  trm_error error;
  trm_executable *loaded;
  assert_int_equal(trm_executable_serialize(executable, out_data, out_size, &error), TRM_OK);
  trm_executable_free(executable);
  assert_int_equal(trm_executable_deserialize(*out_data, *out_size, &loaded, &error), TRM_OK);
  assert_true(trm_executable_is_judged(loaded));
  return loaded;
}

/* Whether a program fits is found out once and kept with it. */
static void test_judged_to_fit(void **state) {
  (void)state;
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  assert_false(trm_executable_is_judged(executable));
  trm_report *report;
  if (trm_report_create(executable, NULL, &report, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_report_free(report);
  assert_true(trm_executable_is_judged(executable));
  void *data;
  size_t size;
  trm_executable *loaded = reload(executable, &data, &size);
  trm_executable_free(loaded);
  ((unsigned char *)data)[12] = 0;
  assert_int_equal(trm_executable_deserialize(data, size, &loaded, &error), TRM_OK);
  assert_false(trm_executable_is_judged(loaded));
  trm_executable_free(loaded);
  ((unsigned char *)data)[12] = 3; /* it cannot both fit and not fit */
  assert_int_equal(trm_executable_deserialize(data, size, &loaded, &error), TRM_DATA_LOSS);
  ((unsigned char *)data)[12] = 4;
  assert_int_equal(trm_executable_deserialize(data, size, &loaded, &error), TRM_DATA_LOSS);
  trm_free(data);
}

static void test_judged_not_to_fit(void **state) {
  (void)state;
  static const char large[] = "HloModule large\nENTRY main {\n  a = f32[300000000] parameter(0)\n"
                              "  ROOT r = f32[300000000] sine(a)\n}\n";
  trm_error first = {0}, error = {0};
  trm_executable *executable = test_compile(large, &test_modes[0]);
  trm_report *report;
  assert_int_equal(trm_report_create(executable, NULL, &report, &first), TRM_INTERNAL);
  assert_non_null(strstr(first.message, "graph_memory_allocation_error"));
  assert_true(trm_executable_is_judged(executable));
  void *data;
  size_t size;
  trm_executable *loaded = reload(executable, &data, &size);
  assert_int_equal(trm_report_create(loaded, NULL, &report, &error), TRM_INTERNAL);
  assert_string_equal(error.message, first.message);
  trm_executable_free(loaded);
  ((unsigned char *)data)[12] = 0; /* then the text is read as the length of the module */
  assert_int_not_equal(trm_executable_deserialize(data, size, &loaded, &error), TRM_OK);
  trm_free(data);
}

/* ---- Saving --------------------------------------------------------------------------------- */

static char folder[] = "/tmp/tremula-format-XXXXXX";
static char saved[sizeof folder + 8], nowhere[sizeof folder + 8];

static int make_folder(void **state) {
  (void)state;
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(saved, sizeof saved, "%s/x", folder);
  snprintf(nowhere, sizeof nowhere, "%s/no/x", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder); /* fails when a test has left something there */
}

static int count_files(void) {
  int count = 0;
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count - 2; /* . and .. */
}

static void *save_often(void *argument) {
  for (int i = 0; i < 50; ++i) {
    if (trm_executable_save(argument, saved, NULL) != TRM_OK) return argument;
  }
  return NULL;
}

/* Whenever it is read, the file is a whole one of either writer. */
static void test_two_writers(void **state) {
  (void)state;
  trm_error error;
  trm_executable *executables[2] = {test_compile(text, &test_modes[0]),
                                    test_compile(text, &test_modes[0])};
  assert_int_equal(trm_executable_save(executables[0], saved, &error), TRM_OK);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(pthread_create(&threads[i], NULL, save_often, executables[i]), 0);
  }
  for (int i = 0; i < 50; ++i) {
    trm_executable *loaded;
    if (trm_executable_load(saved, &loaded, &error) != TRM_OK) fail_msg("%s", error.message);
    trm_executable_free(loaded);
  }
  for (int i = 0; i < 2; ++i) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
    trm_executable_free(executables[i]);
  }
  assert_int_equal(count_files(), 1);
  unlink(saved);
}

static void test_mode_of_saved(void **state) {
  (void)state;
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  struct stat info;
  const mode_t before = umask(027);
  assert_int_equal(trm_executable_save(executable, saved, &error), TRM_OK);
  umask(before);
  assert_int_equal(stat(saved, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0640);
  trm_executable_free(executable);
  unlink(saved);
}

/* A failure says why, keeps what was there and leaves nothing beside it. */
static void test_failed_save(void **state) {
  (void)state;
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]), *loaded;
  assert_int_equal(trm_executable_save(executable, saved, &error), TRM_OK);
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit small = {.rlim_cur = 100, .rlim_max = limit.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0); /* as a disk that is full */
  const trm_status status = trm_executable_save(executable, saved, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(error.message, "cannot write /tmp/tremula-format-"));
  assert_int_equal(count_files(), 1);
  assert_int_equal(trm_executable_load(saved, &loaded, &error), TRM_OK);
  trm_executable_free(loaded);
  unlink(saved);
  assert_int_equal(trm_executable_save(executable, nowhere, &error), TRM_NOT_FOUND);
  assert_non_null(strstr(error.message, "there is no such directory"));
  assert_int_equal(trm_executable_save(executable, folder, &error), TRM_INVALID_ARGUMENT);
  assert_int_equal(count_files(), 0);
  trm_executable_free(executable);
}

static void test_damage(void **state) {
  (void)state;
  trm_error error;
  trm_executable *executable = test_compile(text, &test_modes[0]), *loaded = NULL;
  void *data;
  size_t size;
  assert_int_equal(trm_executable_serialize(executable, &data, &size, &error), TRM_OK);
  trm_executable_free(executable);
  for (size_t cut = 0; cut < size; ++cut) {
    assert_int_equal(trm_executable_deserialize(data, cut, &loaded, &error), TRM_DATA_LOSS);
  }
  unsigned char *bytes = data;
  for (size_t i = 0; i < size; ++i) {
    bytes[i] ^= 0x10;
    const trm_status status = trm_executable_deserialize(data, size, &loaded, &error);
    assert_true(status == TRM_DATA_LOSS || (status == TRM_FAILED_PRECONDITION && i >= 8 && i < 12));
    bytes[i] ^= 0x10;
  }
  assert_int_equal(trm_executable_deserialize(data, size, &loaded, &error), TRM_OK);
  trm_executable_free(loaded);
  trm_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_two_writers),
      cmocka_unit_test(test_judged_to_fit), cmocka_unit_test(test_judged_not_to_fit),
      cmocka_unit_test(test_mode_of_saved), cmocka_unit_test(test_failed_save),
      cmocka_unit_test(test_damage),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

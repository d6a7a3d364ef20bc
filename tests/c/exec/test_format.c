/* Executables as files: round trip, cut short, altered, of another version. */
#include <stdlib.h>
#include <unistd.h>

#include "../run.h"

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
  assert_int_equal(trm_executable_load("/nonexistent/x", &loaded, &error), TRM_NOT_FOUND);
  assert_int_equal(trm_executable_load("/tmp", &loaded, &error), TRM_INVALID_ARGUMENT);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                     cmocka_unit_test(test_damage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

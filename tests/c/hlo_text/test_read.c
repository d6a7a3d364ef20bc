/* Reading files: telling text from proto, and what is said of files that are neither. */
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static char folder[] = "/tmp/tremula_test_read_XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);
}

static const char *write_file(const char *data, size_t size) {
  static char path[300];
  snprintf(path, sizeof path, "%s/file", folder);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
  return path;
}

static void expect(const char *path, trm_status status, const char *message) {
  trm_module *module = NULL;
  trm_error error = {0};
  assert_int_equal(trm_module_read_file(path, &module, &error), status);
  assert_null(module);
  if (strstr(error.message, message) == NULL) {
    fail_msg("wanted: %s\n   got: %s", message, error.message);
  }
}

static void test_text(void **state) {
  (void)state;
  static const char text[] = "\xef\xbb\xbf // a byte-order mark\n/* and comments */ HloModule m\n"
                             "ENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n";
  trm_module *module = NULL;
  trm_error error;
  const char *path = write_file(text, sizeof text - 1);
  if (trm_module_read_file(path, &module, &error) != TRM_OK) fail_msg("%s", error.message);
  assert_string_equal(module->name, "m");
  trm_module_free(module);
  unlink(path);
}

static void test_errors(void **state) {
  (void)state;
  char missing[300];
  snprintf(missing, sizeof missing, "%s/nothing", folder);
  expect(missing, TRM_NOT_FOUND, "there is no file /tmp/tremula_test_read_");
  expect(folder, TRM_INVALID_ARGUMENT, "is a directory");
  expect(write_file("", 0), TRM_INVALID_ARGUMENT, "the input is empty");
  expect(write_file("import tensorflow\n", 18), TRM_INVALID_ARGUMENT,
         "text that does not begin with 'HloModule'");
  expect(write_file("  /* only a comment", 19), TRM_INVALID_ARGUMENT,
         "text that does not begin with 'HloModule'");
  expect(write_file("HloModule m\nENTRY e {\n  x = f32[2] magic()\n}\n", 45), TRM_INVALID_ARGUMENT,
         "line 3, column 14: unknown opcode 'magic' (while reading /tmp/tremula_test_read_");
  const char *path = write_file("", 0);
  assert_int_equal(truncate(path, ((off_t)2 << 30) + 1), 0); /* sparse: takes no room */
  expect(path, TRM_INVALID_ARGUMENT, "modules are at most 2 GiB");
  assert_int_equal(truncate(path, 0), 0);
  assert_int_equal(chmod(path, 0), 0);
  if (geteuid() != 0) /* root may read anything */
    expect(path, TRM_UNAVAILABLE, "Permission denied");
  unlink(path);
}

/* What is read is verified, too. */
static void test_verified(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT n = f32[3] negate(p)\n}\n";
  const char *path = write_file(text, sizeof text - 1);
  expect(path, TRM_INVALID_ARGUMENT, "%n = f32[3] negate(...)");
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_errors),
                                     cmocka_unit_test(test_verified)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

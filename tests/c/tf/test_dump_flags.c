/* XLA_FLAGS: the last flag counts, folders of any length, and nothing is ignored in silence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dumps.h"
#include "tremula/tremula.h"

#include <cmocka.h>

static trm_tf_dump_flags read_flags(const char *text) {
  trm_tf_dump_flags flags;
  if (text) setenv("XLA_FLAGS", text, 1);
  else unsetenv("XLA_FLAGS");
  trm_tf_dump_flags_read(&flags);
  return flags;
}

static bool matches(const regex_t *expression, const char *text) {
  return regexec(expression, text, 0, NULL, 0) == 0;
}

static void test_folder(void **state) {
  (void)state;
  trm_tf_dump_flags flags = read_flags(NULL);
  assert_null(flags.folder);
  trm_tf_dump_flags_free(&flags);
  flags = read_flags("--xla_dump_to=/first --xla_dump_to='/a b' --xla_cpu_x=1");
  assert_string_equal(flags.folder, "/a b");
  assert_true(flags.text && !flags.dot && !flags.proto);
  trm_tf_dump_flags_free(&flags);
  flags = read_flags("--xla_dump_to=/first --xla_dump_to=");
  assert_null(flags.folder);
  trm_tf_dump_flags_free(&flags);
  flags = read_flags("--xla_dump_hlo_as_dot --xla_dump_hlo_as_proto=false");
  assert_string_equal(flags.folder, "-");
  assert_true(flags.dot && !flags.text);
  trm_tf_dump_flags_free(&flags);
}

static void test_expressions(void **state) {
  (void)state;
  trm_tf_dump_flags flags = read_flags("--xla_dump_to=/d --xla_dump_hlo_pass_re=cse "
                                       "--xla_dump_hlo_module_re=a --xla_dump_hlo_pass_re=fu.e "
                                       "--xla_dump_hlo_module_re=");
  assert_true(flags.has_passes && !flags.has_modules);
  assert_true(matches(&flags.passes, "fuse") && !matches(&flags.passes, "cse"));
  trm_tf_dump_flags_free(&flags);
  flags = read_flags("--xla_dump_to=/d --xla_dump_hlo_pass_re=cse --xla_dump_hlo_pass_re=(");
  assert_false(flags.has_passes); /* it is told */
  trm_tf_dump_flags_free(&flags);
}

/* Standard error while `text` is read. */
static void read_and_listen(const char *text, char *said, size_t size) {
  char path[] = "/tmp/tremula-test-XXXXXX";
  const int file = mkstemp(path), before = dup(STDERR_FILENO);
  assert_true(file >= 0 && before >= 0);
  fflush(stderr);
  dup2(file, STDERR_FILENO);
  trm_tf_dump_flags flags = read_flags(text);
  fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  const ssize_t length = pread(file, said, size - 1, 0);
  said[length > 0 ? length : 0] = '\0';
  close(file);
  unlink(path);
  trm_tf_dump_flags_free(&flags);
}

static void test_others_are_told_once(void **state) {
  (void)state;
  char said[4096];
  read_and_listen("--xla_dump_to=/d --xla_dump_hlo_as_html --xla_dump_hlo_as_url=false", said,
                  sizeof said);
  assert_non_null(strstr(said, "--xla_dump_hlo_as_html in XLA_FLAGS is ignored"));
  assert_null(strstr(said, "as_url"));
  read_and_listen("--xla_dump_to=/d --xla_dump_hlo_as_html --xla_dump_hlo_as_url", said,
                  sizeof said);
  assert_null(strstr(said, "as_html"));
  assert_non_null(strstr(said, "--xla_dump_hlo_as_url in XLA_FLAGS is ignored"));
  read_and_listen("--xla_dump_hlo_as_text --xla_force_host_platform_device_count=2", said,
                  sizeof said);
  assert_string_equal(said, "");
}

/* A folder with a path of 2000 characters. */
static void test_long_folder(void **state) {
  (void)state;
  char top[] = "/tmp/tremula-test-XXXXXX";
  assert_non_null(mkdtemp(top));
  char folder[2100], flags[2200], path[2300], part[] = "/0123456789012345678901234567890123456789";
  strcpy(folder, top);
  while (strlen(folder) < 2000) strcat(folder, part);
  snprintf(flags, sizeof flags, "--xla_dump_to=%s", folder);
  setenv("XLA_FLAGS", flags, 1);
  static const char text[] = "HloModule m\nENTRY e { ROOT a = f32[2] parameter(0) }";
  trm_module *module;
  trm_error error;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK)
    fail_msg("%s", error.message);
  trm_tf_dumps d;
  trm_tf_dumps_begin(&d, "name", module);
  trm_tf_dumps_end(&d);
  trm_module_free(module);
  snprintf(path, sizeof path, "%s/module_0000.name.before_optimizations.txt", folder);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  unlink(path);
  while (strlen(folder) >= strlen(top)) { /* all that was made, from below */
    assert_int_equal(rmdir(folder), 0);
    *strrchr(folder, '/') = '\0';
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_folder), cmocka_unit_test(test_expressions),
      cmocka_unit_test(test_others_are_told_once), cmocka_unit_test(test_long_folder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

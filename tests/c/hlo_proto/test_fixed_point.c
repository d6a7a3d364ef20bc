/* What is printed after a proto or a text stays the same, whatever it is written as and read from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "hlo/hlo.h"

static trm_module *read_ok(const void *data, size_t size, const char *name) {
  trm_module *module = NULL;
  trm_error error;
  if (trm_module_read(data, size, name, &module, &error) != TRM_OK) fail_msg("%s", error.message);
  return module;
}

static char *print_ok(const trm_module *module) {
  char *text = NULL;
  trm_error error;
  if (trm_module_print(module, &text, &error) != TRM_OK) fail_msg("%s", error.message);
  return text;
}

/* The text of the module by way of a text or a proto; frees the module. */
static char *print_by_way_of(trm_module *module, bool proto, trm_module **out_again) {
  void *data = NULL;
  size_t size = 0;
  trm_error error;
  if (!proto) {
    data = print_ok(module);
    size = strlen(data);
  } else if (trm_module_serialize(module, &data, &size, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  *out_again = read_ok(data, size, "again");
  trm_free(data);
  trm_module_free(module);
  return print_ok(*out_again);
}

static void check_file(const char *folder, const char *name, const char *ending) {
  char path[512];
  trm_module *module = NULL;
  trm_error error;
  snprintf(path, sizeof path, "%s/%s/%s.%s", TREMULA_TEST_DATA, folder, name, ending);
  if (trm_module_read_file(path, &module, &error) != TRM_OK) fail_msg("%s", error.message);
  char *first = print_ok(module);
  static const bool ways[] = {false, true, true, false}; /* each after each */
  for (int i = 0; i < 4; ++i) {
    char *text = print_by_way_of(module, ways[i], &module);
    if (strcmp(text, first) != 0)
      fail_msg("%s, step %d: another text\n%s\n%s", path, i, first, text);
    trm_free(text);
  }
  trm_free(first);
  trm_module_free(module);
}

static void test_protos(void **state) {
  (void)state;
  static const char *const names[] = {
      "conv_bn_215",     "conv_bn_221",     "effects_215", "effects_221",  "indexing_215",
      "indexing_221",    "lstm_215",        "lstm_221",    "sharding_215", "sharding_221",
      "transformer_215", "transformer_221", "conv_jax010", "conv_jax011",  "conv_jax012",
      "solve_jax011",    "solve_jax012",    "sort_jax010", "sort_jax012",  "topk_jax011"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) check_file("proto", names[i], "pb");
}

static void test_texts(void **state) {
  (void)state;
  static const char *const names[] = {"async_sugar", "communication", "constants",   "control",
                                      "data",        "elementwise",   "linear",      "newer",
                                      "random",      "short_form",    "small_types", "tf215_index",
                                      "tf215_train", "tf221_lstm"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) check_file("hlo", names[i], "hlo");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_protos), cmocka_unit_test(test_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Text to module to text: the printed form is the golden one, and a fixed point. */
#include "files.h"

#include "hlo/attributes.h"

static void update_golden(const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/hlo/canonical/%s.hlo", TREMULA_TEST_DATA, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void test_golden(void **state) {
  (void)state;
  for (int i = 0; i < NUM_VERIFIED + NUM_PARSED; ++i) {
    size_t size, golden_size;
    char *data = load(file_name(i), &size);
    trm_module *module = parse_ok(data, size);
    char *text = print_ok(module);
    if (getenv("TREMULA_UPDATE_GOLDEN") != NULL) update_golden(file_name(i), text);
    char *golden = try_load("canonical/", file_name(i), &golden_size);
    assert_non_null(golden);
    assert_string_equal(text, golden);
    check_fixed_point(text);
    trm_free(text);
    trm_module_free(module);
    free(golden);
    free(data);
  }
}

static void test_verified(void **state) {
  (void)state;
  for (int i = 0; i < NUM_VERIFIED; ++i) {
    size_t size;
    trm_error error;
    trm_module *module = NULL;
    char *data = load(verified_files[i], &size);
    if (trm_module_read(data, size, verified_files[i], &module, &error) != TRM_OK) {
      fail_msg("%s", error.message);
    }
    trm_module_free(module);
    free(data);
  }
}

/* Every instruction of TensorFlow's own text is printed as TensorFlow printed it. */
static void test_like_xla(void **state) {
  (void)state;
  static const char *const names[] = {"tf215_train", "tf215_index", "tf221_lstm"};
  for (int i = 0; i < 3; ++i) {
    size_t size;
    int missing = 0, lines = 0;
    char *data = load(names[i], &size);
    trm_module *module = parse_ok(data, size);
    char *text = print_ok(module);
    for (char *line = strtok(data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
      /* Known differences: notes that we drop, and a float with a digit more than it needs. */
      if (strstr(line, " = ") == NULL || strstr(line, "/*index=") != NULL ||
          strstr(line, "parameter_replication") != NULL || strstr(line, "constant(") != NULL) {
        continue;
      }
      ++lines;
      if (strstr(text, line) == NULL && ++missing < 5) print_message("missing: %s\n", line);
    }
    assert_true(lines > 50);
    assert_int_equal(missing, 0);
    trm_free(text);
    trm_module_free(module);
    free(data);
  }
}

/* Every opcode and every attribute that it takes occurs in the texts of this test. */
static void test_coverage(void **state) {
  (void)state;
  char *all[NUM_VERIFIED + NUM_PARSED];
  for (int i = 0; i < NUM_VERIFIED + NUM_PARSED; ++i) {
    size_t size;
    all[i] = load(file_name(i), &size);
  }
  for (int op = 0; op < TRM_NUM_OPCODES; ++op) {
    /* Their attributes have no place in the IR yet: the parser names them in an error. */
    if (op == TRM_OP_SCAN) continue;
    char wanted[80];
    bool found = false;
    snprintf(wanted, sizeof wanted, " %s(", trm_opcode_name((trm_opcode)op));
    for (int i = 0; i < NUM_VERIFIED + NUM_PARSED && !found; ++i) {
      found = strstr(all[i], wanted) != NULL;
    }
    if (!found) fail_msg("no text has the opcode %s", trm_opcode_name((trm_opcode)op));
    const trm_attribute *attribute;
    bool required;
    for (int k = 0; (attribute = trm_attribute_of((trm_opcode)op, k, &required)) != NULL; ++k) {
      found = false;
      snprintf(wanted, sizeof wanted, ", %s=", attribute->name);
      for (int i = 0; i < NUM_VERIFIED + NUM_PARSED && !found; ++i) {
        found = strstr(all[i], wanted) != NULL;
      }
      if (!found) fail_msg("no text has the attribute %s", attribute->name);
    }
  }
  for (int i = 0; i < NUM_VERIFIED + NUM_PARSED; ++i) free(all[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_verified),
                                     cmocka_unit_test(test_like_xla),
                                     cmocka_unit_test(test_coverage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

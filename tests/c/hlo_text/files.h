/* The texts in tests/data/hlo, and small helpers for the tests of the text format. */
#ifndef TREMULA_TESTS_HLO_TEXT_FILES_H_
#define TREMULA_TESTS_HLO_TEXT_FILES_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hlo/hlo.h"

static const char *const verified_files[] = {
    "elementwise",   "short_form", "data",        "linear",      "control",
    "communication", "random",     "constants",   "small_types", "tf215_train",
    "tf215_index",   "tf221_lstm", "async_sugar", "newer",       "shuffle"};
/* Parsed and printed, but the verifier refuses what is in them. */
static const char *const parsed_files[] = {"async"};
enum {
  NUM_VERIFIED = sizeof verified_files / sizeof *verified_files,
  NUM_PARSED = sizeof parsed_files / sizeof *parsed_files
};

static inline const char *file_name(int i) {
  return i < NUM_VERIFIED ? verified_files[i] : parsed_files[i - NUM_VERIFIED];
}

/* The whole file with a NUL behind it; free() it. NULL when there is none. */
static inline char *try_load(const char *folder, const char *name, size_t *out_size) {
  char path[512];
  snprintf(path, sizeof path, "%s/hlo/%s%s.hlo", TREMULA_TEST_DATA, folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return NULL;
  char *data = malloc(1 << 20);
  assert_non_null(data);
  *out_size = fread(data, 1, (1 << 20) - 1, file);
  data[*out_size] = '\0';
  fclose(file);
  return data;
}

static inline char *load(const char *name, size_t *out_size) {
  *out_size = 0; /* gcc does not see that cmocka's assertions do not return */
  char *data = try_load("", name, out_size);
  assert_non_null(data);
  return data;
}

static inline trm_module *parse_ok(const char *text, size_t size) {
  trm_module *module = NULL;
  trm_error error;
  if (trm_hlo_parse_text(text, size, &module, &error) != TRM_OK) fail_msg("%s", error.message);
  return module;
}

static inline char *print_ok(const trm_module *module) {
  char *text = NULL;
  trm_error error;
  if (trm_module_print(module, &text, &error) != TRM_OK) fail_msg("%s", error.message);
  return text;
}

/* What was printed is taken, and prints to the same again. */
static inline void check_fixed_point(const char *text) {
  trm_error error;
  trm_module *again = NULL;
  if (trm_hlo_parse_text(text, strlen(text), &again, &error) != TRM_OK) {
    fail_msg("printed, but not taken back: %s\n%s", error.message, text);
  }
  char *second = print_ok(again);
  assert_string_equal(text, second);
  trm_free(second);
  trm_module_free(again);
}

static inline const trm_instruction *find_instruction(const trm_module *module, const char *name) {
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    for (trm_index i = 0; i < module->computations[c].num_instructions; ++i) {
      if (strcmp(module->computations[c].instructions[i].name, name) == 0) {
        return &module->computations[c].instructions[i];
      }
    }
  }
  fail_msg("there is no instruction %s", name);
  return NULL;
}

#endif /* TREMULA_TESTS_HLO_TEXT_FILES_H_ */

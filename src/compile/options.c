/* Owns: parsing and checking of compile options. */
#include "compile/options.h"

#include <string.h>

#include "ipu/program/program.h"

static const trm_option_row rows[TRM_NUM_OPTIONS] = {
#define COMPILER(key, kind, value, use, help) \
  {#key, #value, OPTION_KIND_##kind, offsetof(trm_options, key), help},
#define ESTIMATE(key, kind, value, use, help, member) \
  {#key, #value, OPTION_KIND_##kind, offsetof(trm_options, estimate.member), help},
#include "base/options.def"
};

static const trm_option_word words[] = {
#define WORD(key, value, word) {#key, word, value},
#include "base/options.def"
};

static const trm_option_table table = {rows, words, TRM_NUM_OPTIONS,
                                       (int)(sizeof words / sizeof *words)};

const trm_option_row *trm_options_row(size_t i, bool *out_plans) {
  enum { RUNS, PLANS };
  static const bool plans[TRM_NUM_OPTIONS] = {
#define COMPILER(key, kind, value, use, help) use,
#define ESTIMATE(key, kind, value, use, help, member) use,
#include "base/options.def"
  };
  if (i >= TRM_NUM_OPTIONS) return NULL;
  *out_plans = plans[i];
  return &rows[i];
}

static trm_status add_one(trm_arena *arena, const trm_option *option, trm_options *options,
                          trm_error *error) {
  const char *nearest;
  const int found = trm_option_find(&table, option->key, &nearest);
  if (found < 0) {
    FAIL(INVALID_ARGUMENT, "'%s' is not an option of the compiler%s%s%s", option->key,
         nearest != NULL ? ". Did you mean '" : "", nearest != NULL ? nearest : "",
         nearest != NULL ? "'?" : "");
  }
  const char *copy = trm_arena_string(arena, option->value, strlen(option->value));
  CHECK_MEMORY(copy, "an option");
  if (!trm_option_set(&table, found, copy, options)) {
    char expected[OPTION_EXPECTED_SIZE];
    FAIL(INVALID_ARGUMENT, "option %s must be %s, not '%s'", option->key,
         trm_option_expected(&table, found, expected), copy);
  }
  options->texts[found] = copy;
  return TRM_OK;
}

trm_status trm_options_parse(trm_arena *arena, const trm_option *options, size_t num_options,
                             trm_options *out_options, trm_error *error) {
  out_options->estimate = trm_program_default_options();
  trm_option_set_defaults(&table, out_options);
  for (int i = 0; i < TRM_NUM_OPTIONS; ++i) out_options->texts[i] = rows[i].value;
  for (size_t o = 0; o < num_options; ++o) TRY(add_one(arena, &options[o], out_options, error));
  /* One option sets both; the options in PopLibs' own terms distinguish them. */
  out_options->estimate.matmul_memory_proportion = out_options->estimate.conv_memory_proportion;
  return TRM_OK;
}

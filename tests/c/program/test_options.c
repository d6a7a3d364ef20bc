/* Compile options: from text to typed values, once, and the estimate's own defaults. */
#include <string.h>

#include "../run.h"
#include "exec/options.h"

static trm_status parse(trm_arena *arena, const char *key, const char *value,
                        trm_options *out_options, trm_error *error) {
  const trm_option option = {key, value};
  return trm_options_parse(arena, &option, 1, out_options, error);
}

static void test_defaults(void **state) {
  (void)state;
  trm_arena arena = {0};
  trm_options options = {0};
  assert_int_equal(trm_options_parse(&arena, NULL, 0, &options, NULL), TRM_OK);
  assert_true(options.optimise);
  assert_false(options.reference);
  assert_string_equal(options.target, "mk2");
  assert_int_equal(options.ipus, 1);
  assert_int_equal(options.half_overflow, TRM_HALF_INFINITY);
  assert_int_equal(options.stochastic_rounding, TRM_STOCHASTIC_NONE);
  const trm_program_options own = trm_program_default_options(), *estimate = &options.estimate;
  assert_true(own.conv_memory_proportion == 0.6 && own.matmul_memory_proportion == 0.6);
  assert_true(own.io_tile_memory_proportion == 0.9);
  assert_int_equal(own.minimum_remote_bytes, 128);
  assert_true(estimate->conv_memory_proportion == own.conv_memory_proportion);
  assert_true(estimate->matmul_memory_proportion == own.matmul_memory_proportion);
  assert_true(estimate->slice_memory_proportion == own.slice_memory_proportion);
  assert_true(estimate->io_tile_memory_proportion == own.io_tile_memory_proportion);
  assert_int_equal(estimate->minimum_remote_bytes, own.minimum_remote_bytes);
  assert_int_equal(estimate->selection_order, own.selection_order);
  assert_int_equal(estimate->replicas, own.replicas);
  assert_true(estimate->outlining && own.outlining);
  trm_arena_free(&arena);
}

static void test_values_of_every_kind(void **state) {
  (void)state;
  const trm_option given[] = {{"optimise", "false"},
                              {"ipus", "16"},
                              {"tiles_per_ipu", "4"},
                              {"minimum_remote_bytes", "5000000000"},
                              {"available_memory_proportion", "0.25"},
                              {"slice_memory_proportion", "1"},
                              {"io_tile_memory_proportion", "1.5"},
                              {"stochastic_rounding", "replica-identical"},
                              {"selection_order", "hoof"},
                              {"half_overflow", "nan"},
                              {"synthetic_data", "parameters,seed"},
                              {"matmul_options", "{}"}};
  trm_arena arena = {0};
  trm_options options = {0};
  assert_int_equal(trm_options_parse(&arena, given, sizeof given / sizeof *given, &options, NULL),
                   TRM_OK);
  assert_false(options.optimise);
  assert_int_equal(options.ipus, 16);
  assert_int_equal(options.stochastic_rounding, TRM_STOCHASTIC_IDENTICAL);
  assert_int_equal(options.half_overflow, TRM_HALF_NAN);
  const trm_program_options *estimate = &options.estimate;
  assert_int_equal(estimate->tiles_per_ipu, 4);
  assert_int_equal(estimate->minimum_remote_bytes, 5000000000);
  assert_true(estimate->conv_memory_proportion == 0.25);
  assert_true(estimate->matmul_memory_proportion == 0.25);
  assert_true(estimate->slice_memory_proportion == 1);
  assert_true(estimate->io_tile_memory_proportion == 1.5);
  assert_int_equal(estimate->selection_order, TRM_SELECTION_HOOF);
  assert_int_equal(estimate->synthetic, TRM_SYNTHETIC_PARAMETERS | TRM_SYNTHETIC_SEED);
  assert_string_equal(estimate->matmul_options, "{}");
  bool plans;
  for (size_t i = 0; i < TRM_NUM_OPTIONS; ++i) {
    const trm_option_row *row = trm_options_row(i, &plans);
    if (strcmp(row->key, "ipus") == 0) assert_string_equal(options.texts[i], "16");
    if (strcmp(row->key, "target") == 0) assert_string_equal(options.texts[i], "mk2");
  }
  assert_null(trm_options_row(TRM_NUM_OPTIONS, &plans));
  trm_arena_free(&arena);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *key, *value, *message;
  } bad[] = {
      {"optimise", "yes", "option optimise must be true or false, not 'yes'"},
      {"ipus", "0", "option ipus must be a number from 1 to 65536, not '0'"},
      {"ipus", "2x", "option ipus must be a number from 1 to 65536, not '2x'"},
      {"tiles_per_ipu", "-1", "option tiles_per_ipu must be a number from 0 to 65536, not '-1'"},
      {"minimum_remote_bytes", "", "a number from 0 to 9223372036854775807, not ''"},
      {"slice_memory_proportion", "1.1", "must be a number from 0 to 1, not '1.1'"},
      {"slice_memory_proportion", "nan", "must be a number from 0 to 1, not 'nan'"},
      {"io_tile_memory_proportion", "-0.1", "must be a number from 0 on, not '-0.1'"},
      {"stochastic_rounding", "true", "must be off, on or replica-identical, not 'true'"},
      {"selection_order", "AUTO", "must be auto, zigzag, snake or hoof, not 'AUTO'"},
      {"synthetic_data", "seed,feeds",
       "must be a list of infeed, outfeed, seed, hostembedding and parameters, not 'seed,feeds'"},
      {"io_tile", "4", "'io_tile' is not an option of the compiler. Did you mean 'io_tiles'?"}};
  for (size_t b = 0; b < sizeof bad / sizeof *bad; ++b) {
    trm_arena arena = {0};
    trm_options options = {0};
    trm_error error = {0};
    assert_int_equal(parse(&arena, bad[b].key, bad[b].value, &options, &error),
                     TRM_INVALID_ARGUMENT);
    if (strstr(error.message, bad[b].message) == NULL) fail_msg("%s", error.message);
    trm_arena_free(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults),
                                     cmocka_unit_test(test_values_of_every_kind),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

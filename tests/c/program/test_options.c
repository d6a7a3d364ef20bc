/* Compile options: from text to typed values, once, and the estimate's own defaults. */
#include <string.h>

#include "../run.h"
#include "compile/options.h"
#include "ipu/program/program.h"
#include "program_case.h"

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

static trm_program *plan(const trm_program_options *options, trm_status wanted, trm_error *error) {
  static const char text[] =
      "HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT y = f32[4] add(x, x) }";
  trm_module *module = NULL;
  trm_target *target = NULL;
  trm_program *program = NULL;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, NULL), TRM_OK);
  assert_int_equal(trm_target_load("mk2", &target, NULL), TRM_OK);
  assert_int_equal(trm_program_create(module, false, target, options, &program, error), wanted);
  trm_target_release(target);
  trm_module_free(module);
  return program;
}

/* A caller with an older header has shorter structs, one that forgets the size is told. */
static void test_structs_grow(void **state) {
  (void)state;
  trm_error error = {0};
  trm_program_options options = {.size = offsetof(trm_program_options, io_tiles)};
  trm_program_options_init(&options);
  assert_int_equal(options.replicas, 1);
  assert_int_equal(options.size, offsetof(trm_program_options, io_tiles));
  assert_true(options.io_tile_memory_proportion == 0); /* beyond what the caller has */
  options.tiles_per_ipu = 8;
  trm_program *program = plan(&options, TRM_OK, &error);
  assert_true(program->options.io_tile_memory_proportion == 0.9);
  assert_int_equal(program->tiles_per_ipu, 8);

  trm_program_totals totals = {.size = offsetof(trm_program_totals, bytes_per_tile)};
  totals.bytes_per_tile = -1;
  assert_true(trm_program_get_totals(program, &totals));
  assert_true(totals.fits);
  assert_int_equal(totals.tiles_per_ipu, 8);
  assert_int_equal(totals.bytes_per_tile, -1);
  totals.size = 0;
  assert_false(trm_program_get_totals(program, &totals));

  struct {
    trm_program_step_info known;
    uint64_t of_a_later_header[2];
  } step = {.known = {.size = sizeof step}, .of_a_later_header = {1, 1}};
  assert_true(trm_program_step_get(program, 0, &step.known));
  assert_int_equal(step.known.end, program->num_steps);
  assert_int_equal(step.of_a_later_header[0] | step.of_a_later_header[1], 0);
  trm_program_step_info unsized = {0};
  assert_false(trm_program_step_get(program, 0, &unsized));

  trm_program_layer *layers = NULL;
  size_t count = 0;
  const size_t size = offsetof(trm_program_layer, weights_bytes);
  assert_int_equal(trm_program_list_layers(program, size, &layers, &count, NULL), TRM_OK);
  assert_int_equal(layers->size, size);
  assert_true(count > 0);
  trm_free(layers);
  assert_int_equal(trm_program_list_layers(program, 0, &layers, &count, &error),
                   TRM_INVALID_ARGUMENT);
  trm_program_free(program);

  options.size = 0;
  assert_null(plan(&options, TRM_INVALID_ARGUMENT, &error));
  assert_non_null(strstr(error.message, "the size of trm_program_options is 0"));
  options.size = sizeof options + 8;
  assert_null(plan(&options, TRM_INVALID_ARGUMENT, &error));
}

/* Counted where an op of TensorFlow is named, or where the option says so; a note tells. */
static void test_framework_steps(void **state) {
  (void)state;
  static const char *const texts[2] = {
      "HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT y = f32[4] add(x, x) }",
      "HloModule m\nENTRY e { x = f32[4] parameter(0)\n"
      "ROOT y = f32[4] add(x, x), metadata={op_type=\"AddV2\" op_name=\"a\"} }"};
  static const struct {
    int text;
    trm_framework_steps option;
    bool counted;
  } cases[] = {{0, TRM_FRAMEWORK_STEPS_AUTO, false}, {1, TRM_FRAMEWORK_STEPS_AUTO, true},
               {0, TRM_FRAMEWORK_STEPS_ON, true},    {1, TRM_FRAMEWORK_STEPS_ON, true},
               {0, TRM_FRAMEWORK_STEPS_OFF, false},  {1, TRM_FRAMEWORK_STEPS_OFF, false}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    trm_program_options options = {.size = sizeof options};
    trm_program_options_init(&options);
    options.framework_steps = cases[c].option;
    trm_program *program = make_program(texts[cases[c].text], "mk2", &options);
    bool seeds = false, copies = false, noted = false;
    for (uint32_t s = 0; s < program->num_steps; ++s) {
      seeds = seeds || strstr(program->steps[s].name, "__seed/set") != NULL;
      copies = copies || strstr(program->steps[s].name, "host-exchange-local-copy") != NULL;
    }
    for (size_t n = 0; trm_program_note(program, n) != NULL; ++n) {
      noted = noted || strstr(trm_program_note(program, n), "(framework_steps)") != NULL;
    }
    assert_int_equal(seeds, cases[c].counted);
    assert_int_equal(copies, cases[c].counted);
    assert_int_equal(noted, cases[c].counted);
    trm_program_free(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults), cmocka_unit_test(test_values_of_every_kind),
      cmocka_unit_test(test_refusals), cmocka_unit_test(test_structs_grow),
      cmocka_unit_test(test_framework_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

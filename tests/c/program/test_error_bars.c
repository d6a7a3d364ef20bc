/* Error bars: the bar of a figure is the mean of its parts' bars, by their shares; what that says
 * of a program that is near to the limit. */
#include <math.h>

#include "program_case.h"

/* A convolution, a product and a function of each element. */
static const char text[] = "HloModule mixed\n\nENTRY e {\n"
                           "  x = f16[4,28,28,64] parameter(0)\n"
                           "  k = f16[3,3,64,128] parameter(1)\n"
                           "  w = f16[100352,16] parameter(2)\n"
                           "  c = f16[4,28,28,128] convolution(x, k), window={size=3x3 "
                           "pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
                           "  t = f16[4,28,28,128] tanh(c)\n"
                           "  r = f16[4,100352] reshape(t)\n"
                           "  ROOT d = f16[4,16] dot(r, w), lhs_contracting_dims={1}, "
                           "rhs_contracting_dims={0}\n}\n";

static trm_program_kind kind_named(const trm_program *program, const char *name) {
  trm_program_kind kind = {.size = sizeof kind};
  for (size_t i = 0; trm_program_kind_get(program, i, &kind); ++i) {
    if (strcmp(kind.name, name) == 0) return kind;
  }
  fail_msg("there is no kind %s", name);
  return kind;
}

static void test_bar_is_that_of_its_parts(void **state) {
  (void)state;
  trm_program *program = make_program(text, "mk2", NULL);
  trm_program_totals t = {.size = sizeof t};
  assert_true(trm_program_get_totals(program, &t));
  double cycles = 0, low = 0, high = 0, bytes = 0, bytes_low = 0, bytes_high = 0;
  trm_program_kind kind = {.size = sizeof kind}, most = {.bytes = -1};
  size_t count = 0;
  for (; trm_program_kind_get(program, count, &kind); ++count) {
    assert_true(kind.cycles_low <= kind.cycles_high && kind.bytes_low <= kind.bytes_high);
    cycles += (double)kind.cycles;
    low += (double)kind.cycles * (1 + kind.cycles_low);
    high += (double)kind.cycles * (1 + kind.cycles_high);
    bytes += (double)kind.bytes;
    const bool is_known = strcmp(kind.name, "inputs and constants") == 0;
    if (!is_known && kind.bytes > most.bytes) most = kind;
    bytes_low += (double)kind.bytes * (1 + kind.bytes_low);
    bytes_high += (double)kind.bytes * (1 + kind.bytes_high);
  }
  assert_int_equal(count, TRM_NUM_ERROR_KINDS + 1);
  assert_true(fabs(cycles - (double)t.cycles) < (double)count);
  assert_true(fabs(low - (double)t.cycles_low) < (double)count);
  assert_true(fabs(high - (double)t.cycles_high) < (double)count);
  const double worst = (double)t.worst_tile_bytes;
  assert_true(fabs(worst * bytes_low / bytes - (double)t.worst_tile_bytes_low) < 2);
  assert_true(fabs(worst * bytes_high / bytes - (double)t.worst_tile_bytes_high) < 2);
  assert_true(kind_named(program, "convolutions with kernels").cycles > 0);
  assert_true(kind_named(program, "small matmuls").cycles > 0);
  assert_int_equal(kind_named(program, "matmuls").cycles, 0);
  assert_true(kind_named(program, "inputs and constants").bytes >= 2 * 100352 * 16);
  assert_true(strncmp(t.bytes_like, most.name, strlen(most.name)) == 0);
  trm_program_layer *layers;
  trm_error error;
  assert_int_equal(trm_program_list_layers(program, sizeof *layers, &layers, &count, &error),
                   TRM_OK);
  for (size_t l = 0; l < count; ++l) low -= (double)layers[l].cycles_low;
  assert_true(fabs(low) < (double)program->num_steps + 12);
  trm_free(layers);
  kind.size = 0;
  assert_false(trm_program_kind_get(program, 0, &kind));
  trm_program_free(program);
}

/* With an error of the caller's own, and with that of the kinds. */
static void test_close_to_the_limit(void **state) {
  (void)state;
  trm_program *program = make_program(text, "mk2", NULL);
  const trm_program_totals t = program->totals;
  trm_program_free(program);
  assert_true(t.fits && !t.is_close);
  const double full = (double)t.worst_tile_bytes / (double)t.bytes_per_tile;
  const double enough = 1 / full - 1; /* the error with which it reaches the limit */
  for (int above = 0; above < 2; ++above) {
    trm_program_options options = {.size = sizeof options};
    trm_program_options_init(&options);
    options.model_error = fmin(1, enough * (above ? 1.01 : 0.99));
    program = make_program(text, "mk2", &options);
    assert_int_equal(program->totals.is_close, above && enough < 0.99);
    assert_true(fabs((double)program->totals.worst_tile_bytes_high -
                     (double)t.worst_tile_bytes * (1 + options.model_error)) < 2);
    trm_program_free(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bar_is_that_of_its_parts),
      cmocka_unit_test(test_close_to_the_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sums of columns with the fusion that they are of: which programs have them, and their numbers. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "../run.h"

static const trm_option without = {"disabled_passes", "fuse-sums"};

enum { NUM_OUTPUTS = 4 };

static int count_calls(const char *text) {
  trm_error error;
  char *printed = NULL;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  assert_int_equal(trm_executable_print(executable, &printed, &error), TRM_OK);
  const int calls = test_occurrences(printed, "tremula.sums");
  trm_free(printed);
  trm_executable_free(executable);
  return calls;
}

/* Integers, so that every order of additions gives the same; or any floats. */
static float *make_floats(size_t count, unsigned seed, bool are_integers) {
  float *values = malloc(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = are_integers ? (float)(int32_t)(seed >> 29) - 3 : (float)(int32_t)seed * 0x1p-31f;
  }
  return values;
}

/* y is relu's gradient: it is a result and summed; its product with x is only summed, twice. */
static void make_text(char *text, size_t size, const char *dims, const char *summed, int columns,
                      const char *more) {
  const int last = (int)strlen(summed) / 2 + 1;
  snprintf(text, size,
           "HloModule m\n"
           "sum { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }\n"
           "most { p = f32[] parameter(0)  q = f32[] parameter(1)\n"
           "  ROOT r = f32[] maximum(p, q) }\n"
           "ENTRY e { x = f32%s parameter(0)  g = f32%s parameter(1)  c = f32[%d] parameter(2)\n"
           "  z = f32[] constant(0)  one = f32[] constant(1)\n"
           "  zeros = f32%s broadcast(z), dimensions={}\n"
           "  w = f32%s broadcast(c), dimensions={%d}  off = f32%s subtract(x, w)\n"
           "  above = pred%s compare(off, zeros), direction=GT\n"
           "  y = f32%s select(above, g, zeros)  xy = f32%s multiply(y, off)\n"
           "  a = f32[%d] reduce(y, z), dimensions={%s}, to_apply=sum\n"
           "  b = f32[%d] reduce(xy, z), dimensions={%s}, to_apply=sum\n"
           "  d = f32[%d] reduce(xy, %s\n"
           "  ROOT t = (f32%s, f32[%d], f32[%d], f32[%d]) tuple(y, a, b, d) }\n",
           dims, dims, columns, dims, dims, last, dims, dims, dims, dims, columns, summed, columns,
           summed, columns, more, dims, columns, columns, columns);
}

/* The numbers are those without the pass, and the same for any number of threads. */
static void expect(const char *text, int calls, size_t rows, size_t columns, bool are_integers) {
  if (count_calls(text) != calls) fail_msg("%d calls, not %d:\n%s", count_calls(text), calls, text);
  const size_t sizes[NUM_OUTPUTS] = {rows * columns, columns, columns, columns};
  void *inputs[3], *results[3][NUM_OUTPUTS];
  for (int i = 0; i < 3; ++i) {
    inputs[i] = make_floats(i == 2 ? columns : rows * columns, 5 + (unsigned)i, are_integers);
  }
  ((float *)inputs[1])[7] = NAN, ((float *)inputs[1])[columns - 1] = INFINITY;
  ((float *)inputs[0])[columns - 1] = 9;
  const int threads = omp_get_max_threads();
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < NUM_OUTPUTS; ++i) results[run][i] = calloc(sizes[i], sizeof(float));
    omp_set_num_threads(run == 2 ? 3 : 1);
    test_run_mode(text, run == 0 ? &without : &test_modes[0], (const void *const *)inputs,
                  results[run]);
  }
  omp_set_num_threads(threads);
  for (int i = 0; i < NUM_OUTPUTS; ++i) {
    assert_memory_equal(results[1][i], results[2][i], sizes[i] * sizeof(float));
    for (size_t k = 0; k < sizes[i]; ++k) {
      const float old = ((float *)results[0][i])[k], new = ((float *)results[1][i])[k];
      const float allowed = are_integers ? 0 : 1e-6f * (float)rows;
      if (old == new || (isnan(old) && isnan(new)) || fabsf(old - new) <= allowed) continue;
      fail_msg("result %d, element %zu: %g instead of %g", i, k, (double)new, (double)old);
    }
    for (int run = 0; run < 3; ++run) free(results[run][i]);
  }
  for (int i = 0; i < 3; ++i) free(inputs[i]);
}

static void sums_of_all_sizes(void **state) {
  (void)state;
  static const struct {
    const char *dims, *summed;
    size_t rows, columns;
    int calls;
  } sizes[] = {
      {"[4,14,14,96]", "0,1,2", 784, 96, 1}, {"[2048,64]", "0", 2048, 64, 1},
      {"[4096,16]", "0", 4096, 16, 1},       {"[49,2048]", "0", 49, 2048, 1},
      {"[9,8192]", "0", 9, 8192, 1},         {"[3,7,9,1000]", "0,1,2", 189, 1000, 1},
      {"[1009,96]", "0", 1009, 96, 0}, /* a prime number of rows */
      {"[8192,8]", "0", 8192, 8, 0},         {"[512,64]", "0", 512, 64, 0},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    for (int are_integers = 0; are_integers < 2; ++are_integers) {
      char text[4096], more[64];
      snprintf(more, sizeof more, "z), dimensions={%s}, to_apply=sum", sizes[i].summed);
      make_text(text, sizeof text, sizes[i].dims, sizes[i].summed, (int)sizes[i].columns, more);
      expect(text, sizes[i].calls, sizes[i].rows, sizes[i].columns, are_integers != 0);
    }
  }
}

/* Other reductions of the same array stay, beside the sums: then it is written. */
static void other_reductions_stay(void **state) {
  (void)state;
  static const char *const more[] = {"z), dimensions={0}, to_apply=most",
                                     "one), dimensions={0}, to_apply=sum"};
  for (int i = 0; i < 2; ++i) {
    char text[4096];
    make_text(text, sizeof text, "[2048,64]", "0", 64, more[i]);
    expect(text, 1, 2048, 64, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_all_sizes),
                                     cmocka_unit_test(other_reductions_stay)};
  return cmocka_run_group_tests_name("fused_sums", tests, NULL, NULL);
}

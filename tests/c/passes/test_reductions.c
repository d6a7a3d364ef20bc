/* Groups of reductions (the pass group-reductions): which programs have them, and that the numbers
 * are those without, bit for bit, with inputs that are not numbers too. */
#include <math.h>

#include "../run.h"

enum { MOST = 320 * 4096 };

static const trm_option without = {"disabled_passes", "group-reductions"};

#define COMBINERS                                                                          \
  "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"     \
  "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }\n" \
  "min { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] minimum(a, b) }\n" \
  "mul { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] multiply(a, b) }\n"

/* A program of two arrays of `shape`, "m,n": `lines` make the results a and b, of shapes A and B.
 */
static char *program(const char *shape, const char *lines, const char *a, const char *b) {
  static char text[4096];
  const int length = snprintf(text, sizeof text,
                              "HloModule m\n" COMBINERS
                              "ENTRY e { x = f32[%1$s] parameter(0)  y = f32[%1$s] parameter(1)\n"
                              "  zero = f32[] constant(0.5)  low = f32[] constant(-inf)\n"
                              "  top = f32[] constant(inf)\n%2$s"
                              "  ROOT t = (f32[%3$s], f32[%4$s]) tuple(a, b) }\n",
                              shape, lines, a, b);
  assert_true(length > 0 && (size_t)length < sizeof text);
  return text;
}

static void fill(float *values, size_t count, unsigned seed, bool has_specials) {
  static const float specials[] = {-0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -3e38f};
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)seed * 0x1p-29f;
    if (has_specials && seed % 10007 == 0) values[i] = specials[i % 6];
  }
}

static void expect_calls(const char *text, int calls) {
  trm_error error;
  char *printed = NULL;
  trm_executable *executable = test_compile(text, &test_modes[0]);
  assert_int_equal(trm_executable_print(executable, &printed, &error), TRM_OK);
  if (test_occurrences(printed, "tremula.reductions") != calls) {
    fail_msg("not %d groups of reductions:\n%s", calls, printed);
  }
  trm_free(printed);
  trm_executable_free(executable);
}

/* With `calls` groups the two results, of so many floats, are those without, within `relative`. */
static void expect(const char *text, int calls, size_t a, size_t b, float relative) {
  static float x[MOST], y[MOST], results[2][2][MOST / 64];
  const void *inputs[2] = {x, y};
  const size_t counts[2] = {a, b};
  assert_true(a <= MOST / 64 && b <= MOST / 64);
  expect_calls(text, calls);
  for (int has_specials = 0; has_specials < 2; ++has_specials) {
    fill(x, MOST, 7, has_specials);
    fill(y, MOST, 11, has_specials);
    for (int k = 0; k < 2; ++k) {
      void *outputs[2] = {results[k][0], results[k][1]};
      test_run_mode(text, k == 0 ? &test_modes[0] : &without, inputs, outputs);
    }
    for (int r = 0; r < 2; ++r) {
      for (size_t i = 0; i < counts[r]; ++i) {
        const float found = results[0][r][i], right = results[1][r][i];
        if (isnan(found) && isnan(right)) continue;
        if (found != right && !(fabsf(found - right) <= relative * fabsf(right))) {
          fail_msg("result %d, element %zu: %g instead of %g", r, i, (double)found, (double)right);
        }
      }
    }
  }
}

/* `lines` reduce arrays of 299 x 1028 to a, [1028], and b. */
#define SUMS "  a = f32[1028] reduce(x, zero), dimensions={0}, to_apply=sum\n"

static void test_rows_and_columns(void **state) {
  (void)state;
  expect(program("299,1028", SUMS "  b = f32[299] reduce(x, low), dimensions={1}, to_apply=max\n",
                 "1028", "299"),
         1, 1028, 299, 0);
  expect(program("13,23,1028",
                 "  a = f32[1028] reduce(x, top), dimensions={0,1}, to_apply=min\n"
                 "  b = f32[13,23] reduce(x, zero), dimensions={2}, to_apply=sum\n",
                 "1028", "13,23"),
         1, 1028, 299, 0);
  expect(program("128,9,300",
                 "  a = f32[9,300] reduce(x, low), dimensions={0}, to_apply=max\n"
                 "  b = f32[128] reduce(x, top), dimensions={2,1}, to_apply=min\n",
                 "9,300", "128"),
         1, 2700, 128, 0);
}

/* Squares, and products that only one reduction reads. */
static void test_products(void **state) {
  (void)state;
  expect(program("299,1028",
                 SUMS "  v = f32[299,1028] multiply(x, x)\n"
                      "  b = f32[1028] reduce(v, zero), dimensions={0}, to_apply=sum\n",
                 "1028", "1028"),
         1, 1028, 1028, 0);
  expect(program("299,1028",
                 "  v = f32[299,1028] multiply(x, y)\n"
                 "  a = f32[1028] reduce(v, zero), dimensions={0}, to_apply=sum\n"
                 "  b = f32[1028] reduce(y, low), dimensions={0}, to_apply=max\n",
                 "1028", "1028"),
         1, 1028, 1028, 0);
}

/* Over all elements the kernels of single sums cut the array otherwise. */
static void test_all_elements(void **state) {
  (void)state;
  expect(program("320,4096",
                 "  a = f32[] reduce(x, zero), dimensions={0,1}, to_apply=sum\n"
                 "  b = f32[] reduce(x, low), dimensions={1,0}, to_apply=max\n",
                 "", ""),
         1, 1, 1, 1e-5f);
  expect(program("320,4096",
                 "  a = f32[] reduce(x, top), dimensions={0,1}, to_apply=min\n"
                 "  b = f32[4096] reduce(x, zero), dimensions={0}, to_apply=sum\n",
                 "", "4096"),
         1, 1, 4096, 0);
}

/* Reductions that stay as they are: of another array, one by what the other gives, by a product,
 * of small arrays, of narrow and of wide ones, over a dimension between. */
static void test_other_reductions(void **state) {
  (void)state;
  expect_calls(
      program("299,1028", SUMS "  b = f32[299] reduce(y, low), dimensions={1}, to_apply=max\n",
              "1028", "299"),
      0);
  expect_calls(program("300,1028",
                       "  a = f32[1028] reduce(x, zero), dimensions={0}, to_apply=sum\n"
                       "  s = f32[] reduce(a, zero), dimensions={0}, to_apply=sum\n"
                       "  b = f32[300] reduce(x, s), dimensions={1}, to_apply=max\n",
                       "1028", "300"),
               0);
  expect_calls(
      program("299,1028", SUMS "  b = f32[299] reduce(x, top), dimensions={1}, to_apply=mul\n",
              "1028", "299"),
      0);
  static const char *const shapes[][2] = {
      {"160,1028", "1028"}, {"20000,64", "64"}, {"64,20000", "20000"}, {"8,16384", "16384"}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    char lines[400];
    snprintf(lines, sizeof lines,
             "  a = f32[%1$s] reduce(x, zero), dimensions={0}, to_apply=sum\n"
             "  b = f32[%1$s] reduce(x, low), dimensions={0}, to_apply=max\n",
             shapes[i][1]);
    expect_calls(program(shapes[i][0], lines, shapes[i][1], shapes[i][1]), 0);
  }
  expect_calls(program("20,16,1028",
                       "  a = f32[20,1028] reduce(x, zero), dimensions={1}, to_apply=sum\n"
                       "  b = f32[20,1028] reduce(x, low), dimensions={1}, to_apply=max\n",
                       "20,1028", "20,1028"),
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_and_columns),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_all_elements),
      cmocka_unit_test(test_other_reductions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

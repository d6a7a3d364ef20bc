/* Results of another kind than the operands, and complex functions that XLA expands elsewhere. */
#include <math.h>

#include "../run.h"

#define ENTRY(body) "HloModule m\nENTRY e {\n" body "}\n"

static void test_integers_summed_as_floats(void **state) {
  (void)state;
  const int8_t a[6] = {1, -2, 3, 4, 100, -6}, b[6] = {7, 8, 9, 100, -11, 12};
  const void *const inputs[2] = {a, b};
  const float product[4] = {-44, -156, 994, 9960}; /* past what s8 holds */
  test_expect_f32(ENTRY("  a = s8[2,3] parameter(0)\n  b = s8[3,2] parameter(1)\n"
                        "  ROOT d = f32[2,2] dot(a, b), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n"),
                  inputs, product, 4);
  const float sums[2] = {1 * 7 - 2 * 8 + 3 * 9, 4 * 7 + 100 * 8 - 6 * 9};
  test_expect_f32(ENTRY("  a = s8[2,3,1] parameter(0)\n  b = s8[6] parameter(1)\n"
                        "  s = s8[3] slice(b), slice={[0:3]}\n  k = s8[3,1,1] reshape(s)\n"
                        "  ROOT c = f32[2,1,1] convolution(a, k), window={size=3}, "
                        "dim_labels=b0f_0io->b0f\n"),
                  inputs, sums, 2);
}

/* atan2 of complex numbers: with real ones as of floats; tan of the result is y / x. */
static void test_complex_angle(void **state) {
  (void)state;
  const float y[4] = {1, 0, 0.5f, -0.25f}, x[4] = {-1, 0, 0.75f, 2};
  const void *const inputs[2] = {y, x};
  for (int m = 0; m < 3; ++m) {
    float z[4], t[4];
    void *outputs[2] = {z, t};
    test_run_mode(ENTRY("  y = c64[2] parameter(0)\n  x = c64[2] parameter(1)\n"
                        "  z = c64[2] atan2(y, x)\n  t = c64[2] tan(z)\n"
                        "  ROOT r = (c64[2], c64[2]) tuple(z, t)\n"),
                  &test_modes[m], inputs, outputs);
    assert_true(fabsf(z[0] - atan2f(1, -1)) < 1e-6f && fabsf(z[1]) < 1e-6f);
    const float norm = x[2] * x[2] + x[3] * x[3];
    assert_true(fabsf(t[2] - (y[2] * x[2] + y[3] * x[3]) / norm) < 1e-5f);
    assert_true(fabsf(t[3] - (y[3] * x[2] - y[2] * x[3]) / norm) < 1e-5f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_integers_summed_as_floats),
                                     cmocka_unit_test(test_complex_angle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The blocked factorisations, products and Fourier transforms beside the reference kernels, on
 * sizes around their blocks: whole programs, compiled with and without the option `reference`. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"

enum { MOST = 1 << 16 };

static uint64_t random_state;

static double random_number(void) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(random_state >> 33) / (double)(1u << 30) - 1.0;
}

static double *new_numbers(size_t count) {
  double *numbers = malloc(count * sizeof *numbers);
  assert_non_null(numbers);
  for (size_t i = 0; i < count; ++i) numbers[i] = random_number();
  return numbers;
}

/* Runs the program, of float64 inputs and `count` float64 results, in both ways. */
static void compare(const char *text, const double *a, const double *b, size_t count) {
  double *results[2];
  const void *inputs[2] = {a, b};
  for (int k = 0; k < 2; ++k) {
    results[k] = new_numbers(count);
    void *outputs[1] = {results[k]};
    test_run_mode(text, &test_modes[k == 0 ? 0 : 2], inputs, outputs);
  }
  double most = 1e-300;
  for (size_t i = 0; i < count; ++i) most = fmax(most, fabs(results[1][i]));
  for (size_t i = 0; i < count; ++i) {
    if (isnan(results[0][i]) && isnan(results[1][i])) continue;
    if (fabs(results[0][i] - results[1][i]) <= 1e-11 * most) continue;
    fail_msg("%s: element %zu: %.17g, not %.17g", text, i, results[0][i], results[1][i]);
  }
  free(results[0]);
  free(results[1]);
}

static const int sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 70};
#define EACH_SIZE(n) \
  for (size_t at = 0, n = 1; at < sizeof sizes / sizeof *sizes && (n = (size_t)sizes[at], 1); ++at)

static void test_cholesky(void **state) {
  (void)state;
  EACH_SIZE(n) {
    double *a = new_numbers(2 * n * n);
    for (size_t i = 0; i < 2 * n; ++i) a[i * n + i % n] += 2.0 * (double)n;
    a[(2 * n - 1) * n + n - 1] = -1; /* the second one has no factor */
    for (int lower = 0; lower < 2; ++lower) {
      char text[300];
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e {\n  a = f64[2,%zu,%zu] parameter(0)\n  ROOT r = "
               "f64[2,%zu,%zu] cholesky(a), lower=%s\n}\n",
               n, n, n, n, lower ? "true" : "false");
      compare(text, a, NULL, 2 * n * n);
    }
    free(a);
  }
}

static void test_triangular_solve(void **state) {
  (void)state;
  EACH_SIZE(n) {
    double *a = new_numbers(n * n), *b = new_numbers(n * 20);
    for (size_t i = 0; i < n; ++i) a[i * n + i] += 2.0 * (double)n;
    for (int form = 0; form < 16; ++form) {
      const bool left = form & 1;
      char text[500];
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e {\n  a = f64[%zu,%zu] parameter(0)\n  b = f64[%zu,%zu] "
               "parameter(1)\n  ROOT r = f64[%zu,%zu] triangular-solve(a, b), left_side=%s, "
               "lower=%s, unit_diagonal=%s, transpose_a=%s\n}\n",
               n, n, left ? n : 20, left ? 20 : n, left ? n : 20, left ? 20 : n,
               left ? "true" : "false", form & 2 ? "true" : "false",
               form & 4 && n < 20 ? "true" : "false", form & 8 ? "TRANSPOSE" : "NO_TRANSPOSE");
      compare(text, a, b, n * 20);
    }
    free(a);
    free(b);
  }
}

/* The product of the reflectors and R give the matrix back; that both agree says that R does. */
static void test_qr(void **state) {
  (void)state;
  static const int shapes[][2] = {{1, 1}, {5, 3}, {3, 5}, {33, 32}, {40, 70}, {70, 40}, {66, 66}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int m = shapes[i][0], n = shapes[i][1], k = m < n ? m : n;
    double *a = new_numbers((size_t)(m * n));
    char text[600];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  a = f64[%d,%d] parameter(0)\n  q = (f64[%d,%d], f64[%d]) "
             "custom-call(a), custom_call_target=\"Qr\"\n  v = f64[%d,%d] get-tuple-element(q), "
             "index=0\n  t = f64[%d] get-tuple-element(q), index=1\n  ROOT r = f64[%d,%d] "
             "custom-call(v, t), "
             "custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n}\n",
             m, n, m, n, k, m, n, k, m, n);
    compare(text, a, NULL, (size_t)(m * n));
    free(a);
  }
}

static void test_dot(void **state) {
  (void)state;
  static const int shapes[][3] = {{1, 1, 1}, {7, 9, 5}, {6, 128, 8}, {13, 129, 65}, {50, 300, 3}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
    double *a = new_numbers((size_t)(6 * m * k)), *b = new_numbers((size_t)(6 * k * n));
    char text[500];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  a = f64[3,%d,%d] parameter(0)\n  b = f64[%d,3,%d] "
             "parameter(1)\n  ROOT r = f64[3,%d,%d] dot(a, b), lhs_batch_dims={0}, "
             "rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}\n}\n",
             m, k, n, k, m, n);
    compare(text, a, b, (size_t)(3 * m * n));
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  a = c128[3,%d,%d] parameter(0)\n  b = c128[3,%d,%d] "
             "parameter(1)\n  ROOT r = c128[3,%d,%d] dot(a, b), lhs_batch_dims={0}, "
             "rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n",
             k, m, k, n, m, n);
    compare(text, a, b, (size_t)(6 * m * n));
    free(a);
    free(b);
  }
}

/* Products of bytes are exact. Sizes around the blocks of each instruction set; a third of the
 * bytes are the least or the largest of their type. */
static void test_dot_of_bytes(void **state) {
  (void)state;
  static const char *const types[] = {"s8", "u8"};
  static const char *const results[] = {"s32", "u8", "s64"};
  static const size_t result_bytes[] = {4, 1, 8};
  static const int shapes[][3] = {{1, 1, 1},     {7, 5, 9},     {6, 127, 8},    {13, 129, 65},
                                  {50, 300, 31}, {64, 513, 33}, {10, 270, 300}, {60, 260, 50}};
  unsigned char *const a = malloc(2 * MOST), *const b = malloc(2 * MOST);
  assert_true(a != NULL && b != NULL);
  for (size_t i = 0; i < 2 * MOST; ++i) {
    const double x = random_number(), y = random_number();
    a[i] = (unsigned char)(x > 0.7 ? 255 : x < -0.7 ? 128 : x > 0.6 ? 127 : 128 * (x + 1));
    b[i] = (unsigned char)(y > 0.7 ? 255 : y < -0.7 ? 128 : y > 0.6 ? 127 : 128 * (y + 1));
  }
  const void *const inputs[2] = {a, b};
  for (int form = 0; form < 96; ++form) {
    const int *const shape = shapes[form / 12], m = shape[0], k = shape[1], n = shape[2];
    const bool turned = form & 1; /* contracted dimensions the other way round, on both sides */
    const int r = form % 3;
    const char *const left = types[form / 2 & 1], *const right = types[form / 4 & 1];
    char text[500];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  a = %s[%d,%d] parameter(0)\n  b = %s[%d,%d] "
             "parameter(1)\n  ROOT r = %s[%d,%d] dot(a, b), lhs_contracting_dims={%d}, "
             "rhs_contracting_dims={%d}\n}\n",
             left, turned ? k : m, turned ? m : k, right, turned ? n : k, turned ? k : n,
             results[r], m, n, !turned, turned);
    const size_t bytes = (size_t)(m * n) * result_bytes[r];
    test_expect_same_bits(text, inputs, 1, &bytes);
  }
  free(a);
  free(b);
}

static void test_fft(void **state) {
  (void)state;
  static const int lengths[] = {1, 2, 3, 8, 30, 31, 37, 64, 74, 128, 210, 4096, 4100};
  double *a = new_numbers(MOST);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    const int n = lengths[i], half = n / 2 + 1;
    static const struct {
      const char *type, *from, *to;
      bool halves_in, halves_out, is_real_out;
    } forms[] = {{"FFT", "c128", "c128", false, false, false},
                 {"IFFT", "c128", "c128", false, false, false},
                 {"RFFT", "f64", "c128", false, true, false},
                 {"IRFFT", "c128", "f64", true, false, true}};
    for (size_t f = 0; f < 4; ++f) {
      const int in = forms[f].halves_in ? half : n, out = forms[f].halves_out ? half : n;
      char text[300];
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e {\n  a = %s[3,2,%d] parameter(0)\n  ROOT r = %s[3,2,%d] "
               "fft(a), fft_type=%s, fft_length={2,%d}\n}\n",
               forms[f].from, in, forms[f].to, out, forms[f].type, n);
      compare(text, a, NULL, (size_t)(6 * out * (forms[f].is_real_out ? 1 : 2)));
    }
  }
  free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cholesky),     cmocka_unit_test(test_triangular_solve),
      cmocka_unit_test(test_qr),           cmocka_unit_test(test_dot),
      cmocka_unit_test(test_dot_of_bytes), cmocka_unit_test(test_fft)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

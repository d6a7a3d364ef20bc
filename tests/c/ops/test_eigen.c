/* The custom call "Eigh": eigenvalues and eigenvectors of symmetric and Hermitian matrices; and the
 * annotations of partitioned programs, which are the identity. */
#include <math.h>

#include "../run.h"

enum { N = 5 };

static uint64_t random_state;

static double random_number(void) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(random_state >> 33) / (double)(1u << 30) - 1.0;
}

/* ||A V - V diag(w)|| and ||V'V - I||, largest elements, of real matrices. */
static void check_real(const double *a, const double *v, const double *w, double bound) {
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j < N; ++j) {
      double product = -v[i * N + j] * w[j], square = i == j ? -1.0 : 0.0;
      for (int k = 0; k < N; ++k) {
        product += a[i * N + k] * v[k * N + j];
        square += v[k * N + i] * v[k * N + j];
      }
      if (!(fabs(product) < bound) || !(fabs(square) < bound)) {
        fail_msg("(%d, %d): %g, %g", i, j, product, square);
      }
    }
    if (i > 0) assert_true(w[i - 1] <= w[i]);
  }
}

#define EIGH(type, values, batch, config)                                                          \
  "HloModule m\nENTRY e {\n  x = " type "[" batch "5,5] parameter(0)\n  ROOT r = (" type "[" batch \
  "5,5], " values "[" batch "5]) custom-call(x), custom_call_target=\"Eigh\", "                    \
  "backend_config=\"" config "\"\n}\n"

static void test_real(void **state) {
  (void)state;
  random_state = 1;
  double a[2 * N * N], v[2 * N * N], w[2 * N];
  for (int m = 0; m < 2; ++m) {
    for (int i = 0; i < N; ++i) {
      for (int j = 0; j <= i; ++j) {
        a[(m * N + i) * N + j] = a[(m * N + j) * N + i] = random_number();
      }
    }
  }
  const void *inputs[1] = {a};
  void *outputs[2] = {v, w};
  for (int mode = 0; mode < 3; ++mode) {
    test_run_mode(EIGH("f64", "f64", "2,", "1,1,100,1e-6"), &test_modes[mode], inputs, outputs);
    for (int m = 0; m < 2; ++m) check_real(a + m * N * N, v + m * N * N, w + m * N, 1e-13);
  }
}

/* Only the triangle that is named is read. */
static void test_triangles(void **state) {
  (void)state;
  random_state = 2;
  double full[N * N], a[N * N], v[N * N], w[N];
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j <= i; ++j) full[i * N + j] = full[j * N + i] = random_number();
  }
  const void *inputs[1] = {a};
  void *outputs[2] = {v, w};
  for (int upper = 0; upper < 2; ++upper) {
    for (int i = 0; i < N; ++i) {
      for (int j = 0; j < N; ++j) {
        const bool read = upper != 0 ? j >= i : j <= i;
        a[i * N + j] = read ? full[i * N + j] : 1e9;
      }
    }
    test_run_mode(upper != 0 ? EIGH("f64", "f64", "", "0,1,100,1e-6")
                             : EIGH("f64", "f64", "", "1,1,100,1e-6"),
                  &test_modes[0], inputs, outputs);
    check_real(full, v, w, 1e-13);
  }
}

static void test_float(void **state) {
  (void)state;
  float a[N * N] = {0}, v[N * N], w[N];
  double wide[3][N * N] = {{0}};
  for (int i = 0; i < N; ++i) a[i * N + i] = i == 4 ? -2.0f : 3.0f; /* equal ones; diagonal */
  a[1] = a[5] = 0.5f;
  const void *inputs[1] = {a};
  void *outputs[2] = {v, w};
  test_run_mode(EIGH("f32", "f32", "", "1,1,100,1e-6"), &test_modes[0], inputs, outputs);
  for (int i = 0; i < N * N; ++i) wide[0][i] = (double)a[i], wide[1][i] = (double)v[i];
  for (int i = 0; i < N; ++i) wide[2][i] = (double)w[i];
  check_real(wide[0], wide[1], wide[2], 1e-5);
  const float expected[N] = {-2, 2.5f, 3, 3, 3.5f};
  for (int i = 0; i < N; ++i) assert_true(w[i] == expected[i]);
}

/* A Hermitian matrix with known values: [[2, i], [-i, 2]] has 1 and 3. */
static void test_complex(void **state) {
  (void)state;
  const float a[8] = {2, 0, 0, 1, 0, -1, 2, 0};
  float v[8], w[2];
  const void *inputs[1] = {a};
  void *outputs[2] = {v, w};
  test_run_mode("HloModule m\nENTRY e {\n  x = c64[2,2] parameter(0)\n"
                "  ROOT r = (c64[2,2], f32[2]) custom-call(x), custom_call_target=\"Eigh\", "
                "backend_config=\"1,1,100,1e-6\"\n}\n",
                &test_modes[0], inputs, outputs);
  assert_true(fabsf(w[0] - 1) < 1e-6f && fabsf(w[1] - 3) < 1e-6f);
  for (int column = 0; column < 2; ++column) { /* A v - w v, row by row */
    const float *x = &v[2 * column], *y = &v[4 + 2 * column];
    const float above[2] = {2 * x[0] - y[1] - w[column] * x[0], 2 * x[1] + y[0] - w[column] * x[1]};
    const float below[2] = {2 * y[0] + x[1] - w[column] * y[0], 2 * y[1] - x[0] - w[column] * y[1]};
    for (int i = 0; i < 2; ++i) assert_true(fabsf(above[i]) < 1e-5f && fabsf(below[i]) < 1e-5f);
  }
}

static void expect_refused(const char *text, const char *message) {
  trm_error error;
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  if (trm_compile(module, NULL, 0, &executable, &error) == TRM_OK) fail_msg("taken: %s", text);
  if (strstr(error.message, message) == NULL) fail_msg("got: %s", error.message);
  trm_module_free(module);
}

static void test_refused(void **state) {
  (void)state;
  expect_refused(EIGH("s32", "s32", "", "1,1,100,1e-6"), "square matrices of floats");
  expect_refused(EIGH("f32", "f64", "", "1,1,100,1e-6"), "the vectors and the values");
  expect_refused(EIGH("f32", "f32", "", "lower"), "which triangle to read");
  /* A shard that is not the whole needs more than one device. */
  expect_refused("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[2] "
                 "custom-call(x), custom_call_target=\"SPMDFullToShardShape\"\n}\n",
                 "no kernel for the custom call target 'SPMDFullToShardShape'");
}

static void test_annotations(void **state) {
  (void)state;
  const float x[2] = {1, 2}, expected[2] = {2, 4};
  const void *const inputs[1] = {x};
  test_expect_f32("HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"
                  "  a = f32[2] custom-call(x), custom_call_target=\"Sharding\", "
                  "sharding={devices=[2]0,1}\n"
                  "  b = f32[2] custom-call(a), custom_call_target=\"SPMDFullToShardShape\"\n"
                  "  c = f32[2] custom-call(b), custom_call_target=\"SPMDShardToFullShape\"\n"
                  "  ROOT r = f32[2] add(c, x)\n}\n",
                  inputs, expected, 2);
  test_expect_f32("HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"
                  "  n = s32[] constant(2)\n"
                  "  m = s32[] custom-call(n), custom_call_target=\"SetBound\"\n"
                  "  f = f32[] convert(m)\n  b = f32[2] broadcast(f), dimensions={}\n"
                  "  ROOT r = f32[2] multiply(b, x)\n}\n",
                  inputs, expected, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_real),    cmocka_unit_test(test_triangles),
      cmocka_unit_test(test_float),   cmocka_unit_test(test_complex),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_annotations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Distributions: each element follows from the stream and its place alone. */
#include "reference_case.h"

#include "host/ops/random/distribution.h"

enum { COUNT = 100003 };

static const trm_value low = {{.f = -1.5}, 0}, high = {{.f = 2.5}, 0};

static void fill(trm_distribution distribution, trm_dtype dtype, void *result, int64_t count) {
  const uint64_t numbers[] = {7, 11};
  const trm_random_stream stream = trm_random_stream_make(numbers, 2);
  trm_distribution_fill(distribution, dtype, low, high, &stream, result, count);
}

/* The fast loop of float32 against the definition. */
static void test_uniform_floats(void **state) {
  (void)state;
  static float values[COUNT];
  fill(TRM_UNIFORM, TRM_F32, values, COUNT);
  const uint64_t numbers[] = {7, 11};
  const trm_random_stream stream = trm_random_stream_make(numbers, 2);
  for (uint64_t i = 0; i < COUNT; ++i) {
    uint32_t words[4];
    trm_random_block(&stream, i / 2, 0, words);
    const double unit = (double)(words[2 * (i % 2)] >> 9) * 0x1p-23;
    assert_true(values[i] == (float)(low.f + (high.f - low.f) * unit));
  }
}

/* Between two neighbouring floats rounding reaches the bound, which is excluded. */
static void test_bound_is_not_reached(void **state) {
  (void)state;
  float values[1000];
  const uint64_t number = 3;
  const trm_random_stream stream = trm_random_stream_make(&number, 1);
  const trm_value from = {{.f = 16777216.0}, 0}, to = {{.f = 16777218.0}, 0};
  trm_distribution_fill(TRM_UNIFORM, TRM_F32, from, to, &stream, values, 1000);
  for (int i = 0; i < 1000; ++i) assert_true(values[i] == 16777216.0f);
}

/* A prefix is the same in an array of any length, whoever computes which part. */
static void test_prefixes(void **state) {
  (void)state;
  static const trm_dtype dtypes[] = {TRM_F32, TRM_F16, TRM_F64};
  static unsigned char all[COUNT * 8], some[COUNT * 8];
  for (int distribution = TRM_UNIFORM; distribution <= TRM_TRUNCATED_NORMAL; ++distribution) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
      const size_t size = (size_t)trm_dtype_size(dtypes[d]);
      fill((trm_distribution)distribution, dtypes[d], all, COUNT);
      for (int64_t count = 1; count < 5000; count = count * 3 + 1) {
        fill((trm_distribution)distribution, dtypes[d], some, count);
        assert_memory_equal(all, some, (size_t)count * size);
      }
    }
  }
}

static void test_moments(void **state) {
  (void)state;
  static float values[COUNT];
  /* Mean -1.5, deviation 2.5; cut at two deviations that is 0.8796 of it (the variance of the
   * truncated normal, 1 - 4 phi(2) / (2 Phi(2) - 1)). */
  static const double deviations[] = {2.5, 2.5 * 0.87962566};
  for (int i = 0; i < 2; ++i) {
    fill(i == 0 ? TRM_NORMAL : TRM_TRUNCATED_NORMAL, TRM_F32, values, COUNT);
    double sum = 0, squares = 0, cubes = 0, largest = 0;
    for (int k = 0; k < COUNT; ++k) {
      const double centred = (double)values[k] + 1.5;
      sum += centred;
      squares += centred * centred;
      cubes += centred * centred * centred;
      if (fabs(centred) > largest) largest = fabs(centred);
    }
    const double deviation = deviations[i], error = 5 / sqrt((double)COUNT);
    assert_true(fabs(sum / COUNT) < deviation * error);
    assert_true(fabs(squares / COUNT / (deviation * deviation) - 1) < 1.5 * error);
    assert_true(fabs(cubes / COUNT) < 4 * error * deviation * deviation * deviation);
    assert_true(i == 0 ? largest > 3.5 * 2.5 : largest < 2 * 2.5);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_uniform_floats), cmocka_unit_test(test_bound_is_not_reached),
      cmocka_unit_test(test_prefixes), cmocka_unit_test(test_moments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The custom call "tremula.dropout": against the words of Philox one by one, in place, with noise
 * that is shared along dimensions; what it refuses. */
#include "reference_case.h"

#include "host/ops/random/bits.h"

typedef struct dropout_case {
  int32_t rank;
  int64_t dims[4], noise[4];
  const char *config;
} dropout_case;

/* Whether the element of x at row-major place i is kept. */
static bool kept(const dropout_case *row, int64_t i, uint64_t key, double rate) {
  int64_t noise = 0, stride = 1;
  for (int32_t d = row->rank - 1; d >= 0; --d) {
    if (row->noise[d] != 1) noise += i % row->dims[d] * stride;
    stride *= row->noise[d];
    i /= row->dims[d];
  }
  uint32_t words[4];
  const uint32_t counter[4] = {(uint32_t)(noise / 4), 0, 0, 0};
  trm_philox(counter, key, words);
  return (double)words[noise % 4] >= rate * 0x1p32;
}

static const int64_t PAIR = 2;
static const int32_t SEED[2] = {77, -5};

static trm_instruction call_of(const char *config, trm_custom_call *custom) {
  *custom = (trm_custom_call){.target = "tremula.dropout"};
  return (trm_instruction){.opcode = TRM_OP_CUSTOM_CALL,
                           .custom_call = custom,
                           .backend_config = config,
                           .backend_config_size = strlen(config)};
}

static void test_masks(void **unused) {
  (void)unused;
  static const dropout_case rows[] = {
      {2, {3, 5}, {3, 5}, "{\"rate\":0.25,\"scale\":2}"},
      {1, {9001}, {9001}, "{\"rate\":0.25,\"scale\":2}"},
      {0, {0}, {0}, "{\"rate\":0.25,\"scale\":2}"},
      {3, {2, 7, 3}, {2, 1, 3}, "{\"rate\":0.25,\"scale\":2,\"noise_shape\":[2,1,3]}"},
      {3, {2, 7, 130}, {2, 7, 1}, "{\"rate\":0.25,\"scale\":2,\"noise_shape\":[2,7,1]}"},
      {4, {3, 2, 5, 6}, {1, 2, 1, 6}, "{\"rate\":0.25,\"scale\":2,\"noise_shape\":[1,2,1,6]}"},
      {2, {4, 9}, {1, 1}, "{\"rate\":0.25,\"scale\":2,\"noise_shape\":[1,1]}"},
      {1, {0}, {0}, "{\"rate\":0.25,\"scale\":2}"},
  };
  const uint64_t key = (uint64_t)(uint32_t)SEED[1] << 32 | (uint32_t)SEED[0];
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    const dropout_case *row = &rows[r];
    int64_t count = 1;
    for (int32_t d = 0; d < row->rank; ++d) count *= row->dims[d];
    double *numbers = malloc(((size_t)count + 1) * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < count; ++i) numbers[i] = (double)(i % 1000 + 1);
    for (int half = 0; half < 2; ++half) {
      test_case c;
      case_begin(&c);
      print_message("row %zu, half %d\n", r, half);
      const trm_dtype dtype = half ? TRM_F16 : TRM_F32;
      case_input(&c, dtype, row->rank, row->dims, numbers);
      case_input_bytes(&c, TRM_S32, 1, &PAIR, SEED);
      trm_custom_call custom;
      case_run(&c, call_of(row->config, &custom), case_shape(&c, dtype, row->rank, row->dims));
      for (int64_t i = 0; i < count; ++i) {
        const double want = kept(row, i, key, 0.25) ? 2.0 * numbers[i] : 0.0;
        assert_true(case_unpack(dtype, c.results[0], i) == want);
      }
      case_end(&c);
    }
    free(numbers);
  }
}

static void test_refusals(void **unused) {
  (void)unused;
  static const char *const configs[] = {
      "",
      "{}",
      "{\"rate\":1.5,\"scale\":1}",
      "{\"rate\":0.5}",
      "{\"rate\":0.5,\"scale\":1,\"noise_shape\":[3]}",
      "{\"rate\":0.5,\"scale\":1,\"noise_shape\":[3,4]}",
  };
  static const int64_t dims[2] = {3, 5};
  const double numbers[15] = {0};
  for (size_t i = 0; i < sizeof configs / sizeof *configs; ++i) {
    test_case c;
    case_begin(&c);
    case_input(&c, TRM_F32, 2, dims, numbers);
    case_input_bytes(&c, TRM_S32, 1, &PAIR, SEED);
    trm_custom_call custom;
    assert_int_equal(case_try(&c, call_of(configs[i], &custom), case_shape(&c, TRM_F32, 2, dims)),
                     TRM_INVALID_ARGUMENT);
    assert_non_null(strstr(c.error.message, "tremula.dropout"));
    case_end(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_masks),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

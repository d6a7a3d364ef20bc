/* Windows that are running sums (fast.scan) against the reference kernels. */
#include <math.h>
#include <omp.h>

#include "fast_case.h"
#include "host/ops/reduce/scan_line.h"

/* log(exp(a) + exp(b)), which no single loop computes. */
static uint32_t log_add_exp(fast_case *c, trm_dtype dtype) {
  trm_error error = {0};
  uint32_t body;
  case_check(trm_module_add_computation(c->module, NULL, &body, &error), &error);
  const trm_shape scalar = case_shape(c, dtype, 0, NULL);
  trm_index p[2] = {case_parameter(c, body, scalar), case_parameter(c, body, scalar)};
  trm_index sum[2] = {case_add(c, body, case_op(TRM_OP_MAXIMUM, scalar, 2, p))};
  trm_index value = case_add(c, body, case_op(TRM_OP_SUBTRACT, scalar, 2, p));
  static const trm_opcode chain[] = {TRM_OP_ABS, TRM_OP_NEGATE, TRM_OP_EXPONENTIAL,
                                     TRM_OP_LOG_PLUS_ONE};
  for (int i = 0; i < 4; ++i) value = case_add(c, body, case_op(chain[i], scalar, 1, &value));
  sum[1] = value;
  case_add(c, body, case_op(TRM_OP_ADD, scalar, 2, sum));
  return body;
}

/* opcode TRM_NUM_OPCODES: log_add_exp. */
static trm_index window_of(fast_case *c, trm_opcode opcode, trm_dtype dtype, int32_t rank,
                           const int64_t *dims, trm_window_dimension *w, trm_window *window,
                           uint32_t *body) {
  int64_t out[6];
  for (int32_t d = 0; d < rank; ++d)
    out[d] = dims[d] + w[d].padding_low + w[d].padding_high - w[d].size + 1;
  trm_index p[2] = {case_parameter(c, c->computation, case_shape(c, dtype, rank, dims)),
                    case_parameter(c, c->computation, case_shape(c, dtype, 0, NULL))};
  *body = opcode == TRM_NUM_OPCODES ? log_add_exp(c, dtype) : case_reducer(c, opcode, dtype);
  *window = (trm_window){rank, w};
  trm_instruction i = case_op(TRM_OP_REDUCE_WINDOW, case_shape(c, dtype, rank, out), 2, p);
  i.window = window;
  i.num_called = 1;
  i.called = body;
  return case_add(c, c->computation, i);
}

static void assert_kernel(fast_case *c, trm_index index, const char *name) {
  trm_error error = {0};
  trm_arena arena = {0};
  const trm_computation *computation = &c->module->computations[c->computation];
  const trm_kernel_request request = {.module = c->module,
                                      .computation = computation,
                                      .instruction = &computation->instructions[index],
                                      .arena = &arena};
  trm_kernel kernel;
  case_check(trm_kernel_create(&request, false, &kernel, &error), &error);
  assert_string_equal(kernel.name, name);
  trm_kernel_destroy(&kernel);
  trm_arena_free(&arena);
}

typedef struct combination {
  trm_opcode opcode;
  trm_dtype dtype;
  double ulps;
} combination;

static void check(uint64_t seed, const combination *by, int32_t rank, const int64_t *dims,
                  int32_t along, bool reverse) {
  fast_case c = case_create();
  trm_window_dimension w[6];
  for (int32_t d = 0; d < rank; ++d)
    w[d] = (trm_window_dimension){.size = 1, .stride = 1, .window_dilation = 1, .base_dilation = 1};
  /* All of the elements before, or fewer, or more; exclusive where results lag behind. */
  const int64_t dim = dims[along], lag = case_random_below(4) - 2;
  const int64_t size = dim + (case_random_below(3) == 0 ? case_random_below(5) : 0);
  const int64_t cut = case_random_below(3) == 0 ? case_random_below(6) : 0;
  int64_t before = size - 1 + lag, behind = -lag - cut;
  if (reverse) before = -lag - cut, behind = size - 1 + lag;
  w[along].size = size, w[along].padding_low = before, w[along].padding_high = behind;
  trm_window window;
  uint32_t body;
  const trm_index index = window_of(&c, by->opcode, by->dtype, rank, dims, w, &window, &body);
  char what[96];
  snprintf(what, sizeof what, "running %s of %s, seed %llu, along %d of %d%s",
           by->opcode == TRM_NUM_OPCODES ? "log-add-exp" : trm_opcode_name(by->opcode),
           trm_dtype_name(by->dtype), (unsigned long long)seed, along, rank,
           reverse ? ", from the end" : "");
  const trm_shape *out = &c.module->computations[c.computation].instructions[index].shape;
  const int64_t last = before - (out->dims[along] - 1); /* of the last window: its padding */
  if (reverse ? size - before >= dim : last >= 0) assert_kernel(&c, index, "fast.scan");
  case_both(&c, index, VALUES_TAME, by->ulps, 0, false, what);
  case_free(&c);
}

static const combination combinations[] = {
    {TRM_OP_ADD, TRM_F32, 0.51},     {TRM_OP_ADD, TRM_F16, 0.51},  {TRM_OP_ADD, TRM_S32, 0},
    {TRM_OP_MULTIPLY, TRM_S32, 0},   {TRM_OP_MULTIPLY, TRM_U8, 0}, {TRM_OP_MAXIMUM, TRM_F32, 0},
    {TRM_OP_MINIMUM, TRM_F16, 0},    {TRM_OP_OR, TRM_PRED, 0},     {TRM_OP_MAXIMUM, TRM_S64, 0},
    {TRM_NUM_OPCODES, TRM_F32, 300},
};
enum { NUM_COMBINATIONS = sizeof combinations / sizeof *combinations };

static void test_lines_and_columns(void **state) {
  (void)state;
  static const int64_t choices[] = {1, 2, 3, 20, 70};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    case_random_state = seed * 179424673;
    const int32_t rank = 1 + (int32_t)case_random_below(3);
    const int32_t along = (int32_t)case_random_below(rank);
    int64_t dims[6];
    for (int32_t d = 0; d < rank; ++d) dims[d] = choices[case_random_below(rank < 3 ? 5 : 4)];
    dims[along] = 9 + case_random_below(150);
    check(seed, &combinations[case_random_below(NUM_COMBINATIONS)], rank, dims, along,
          case_random_below(2) == 0);
  }
}

/* The reference kernel takes the square of the length, so there are few. */
static void test_chunks(void **state) {
  (void)state;
  static const int chosen[] = {0, 3, NUM_COMBINATIONS - 1};
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    case_random_state = seed * 32452843;
    const int64_t dims[1] = {4230 + case_random_below(100)};
    check(seed, &combinations[chosen[seed - 1]], 1, dims, 0, seed == 2);
  }
}

/* The same bits on one thread and on all; and the sums of a long line are right. */
static void test_long_line(void **state) {
  (void)state;
  enum { LONG = 300001 };
  fast_case c = case_create();
  const int64_t dims[1] = {LONG};
  trm_window_dimension w = {
      .size = LONG, .stride = 1, .window_dilation = 1, .base_dilation = 1, .padding_low = LONG - 1};
  trm_window window;
  uint32_t body;
  const trm_index index = window_of(&c, TRM_OP_ADD, TRM_F32, 1, dims, &w, &window, &body);
  assert_kernel(&c, index, "fast.scan");
  float *x = case_allocate(LONG * sizeof *x), initial = 3.0f;
  case_fill(TRM_F32, x, LONG, VALUES_WHOLE);
  const void *operands[2] = {x, &initial};
  const int threads = omp_get_max_threads();
  case_results one, all;
  omp_set_num_threads(1);
  assert_true(case_run(&c, index, true, -1, operands, &one, NULL));
  omp_set_num_threads(threads > 2 ? threads : 2);
  assert_true(case_run(&c, index, true, -1, operands, &all, NULL));
  omp_set_num_threads(threads);
  assert_memory_equal(one.data[0], all.data[0], LONG * sizeof(float));
  double sum = (double)initial;
  for (int64_t i = 0; i < LONG; ++i) {
    sum += (double)x[i];
    if (((float *)one.data[0])[i] != (float)sum) fail_msg("element %lld", (long long)i);
  }
  case_results_free(&one), case_results_free(&all);
  trm_free(x);
  case_free(&c);
}

/* Each instruction set adds in the same order, and what it adds is right. */
static void test_line_on_each_isa(void **state) {
  (void)state;
  enum { MOST = 100 };
  float x[MOST], baseline[MOST], other[MOST];
  case_random_state = 86028121;
  case_fill(TRM_F32, x, MOST, VALUES_TAME);
  static const char *const names[] = {"avx2", "avx512"};
  for (int64_t count = 0; count <= MOST; ++count) {
    for (int reverse = 0; reverse < 2; ++reverse) {
      const int64_t first = reverse && count > 0 ? count - 1 : 0;
      const trm_vector_ops *ops = trm_vector_ops_find("baseline");
      const double total = trm_scan_line(ops, 0.1, baseline + first, x + first, count, reverse);
      double sum = 0.1;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = reverse ? first - i : i;
        sum += (double)x[at];
        assert_true(fabs((double)baseline[at] - sum) <= 1e-6 * fabs(sum) + 1e-12);
      }
      assert_true(fabs(total - sum) <= 1e-12 * (1 + fabs(sum)));
      for (size_t k = 0; k < 2 && (ops = trm_vector_ops_find(names[k])) != NULL; ++k) {
        assert_true(total == trm_scan_line(ops, 0.1, other + first, x + first, count, reverse));
        assert_true(total == trm_scan_line(ops, 0.1, NULL, x + first, count, reverse));
        assert_memory_equal(baseline, other, (size_t)count * sizeof *other);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines_and_columns),
      cmocka_unit_test(test_chunks),
      cmocka_unit_test(test_long_line),
      cmocka_unit_test(test_line_on_each_isa),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

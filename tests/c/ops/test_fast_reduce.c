/* Fast reductions against the reference kernels, on generated shapes. */
#include "fast_case.h"

static trm_instruction reduce_of(fast_case *c, trm_shape shape, uint32_t n, trm_index *operands,
                                 uint32_t *body, int32_t num_reduced, const int64_t *reduced) {
  trm_instruction i = case_op(TRM_OP_REDUCE, shape, 2 * n, operands);
  i.dimensions = case_dims(c, num_reduced, reduced);
  i.num_called = 1;
  i.called = body;
  return i;
}

static int32_t random_dims(int64_t *dims) {
  static const int64_t choices[] = {1, 2, 3, 5, 8, 17, 40, 130, 600, 2100};
  const int32_t rank = 1 + (int32_t)case_random_below(4);
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) {
    dims[d] = choices[case_random_below(10)];
    if (count * dims[d] > 90000) dims[d] = 2;
    count *= dims[d];
  }
  if (case_random_below(30) == 0) dims[case_random_below(rank)] = 0;
  return rank;
}

/* Splits dims in kept and reduced ones. */
static int32_t random_reduced(int32_t rank, const int64_t *dims, int64_t *reduced, int64_t *kept,
                              int32_t *out_num_kept) {
  int32_t n = 0, k = 0;
  for (int32_t d = 0; d < rank; ++d) {
    if (case_random_below(2) == 0) reduced[n++] = d;
    else kept[k++] = dims[d];
  }
  *out_num_kept = k;
  return n;
}

static void test_single_opcodes(void **state) {
  (void)state;
  static const trm_opcode opcodes[] = {TRM_OP_ADD,      TRM_OP_ADD, TRM_OP_MAXIMUM, TRM_OP_MINIMUM,
                                       TRM_OP_MULTIPLY, TRM_OP_AND, TRM_OP_OR};
  static const trm_dtype types[] = {TRM_F32, TRM_F16, TRM_S32, TRM_U8, TRM_F64, TRM_PRED, TRM_S64};
  for (int64_t seed = 1; seed <= 600; ++seed) {
    case_random_state = (uint64_t)seed * 7919;
    const trm_opcode opcode = opcodes[case_random_below(7)];
    trm_dtype dtype = types[case_random_below(7)];
    const bool is_float = dtype == TRM_F32 || dtype == TRM_F16 || dtype == TRM_F64;
    if (is_float && (opcode == TRM_OP_AND || opcode == TRM_OP_OR)) dtype = TRM_PRED;
    fast_case c = case_create();
    int64_t dims[8], reduced[8], kept[8];
    int32_t num_kept;
    const int32_t rank = random_dims(dims);
    const int32_t num_reduced = random_reduced(rank, dims, reduced, kept, &num_kept);
    trm_index p[2] = {case_parameter(&c, c.computation, case_shape(&c, dtype, rank, dims)),
                      case_parameter(&c, c.computation, case_shape(&c, dtype, 0, NULL))};
    uint32_t body = case_reducer(&c, opcode, dtype);
    const trm_index index = case_add(
        &c, c.computation,
        reduce_of(&c, case_shape(&c, dtype, num_kept, kept), 1, p, &body, num_reduced, reduced));
    char what[96];
    snprintf(what, sizeof what, "reduce by %s of %s, seed %lld", trm_opcode_name(opcode),
             trm_dtype_name(dtype), (long long)seed);
    const bool is_sum = opcode == TRM_OP_ADD && is_float;
    const bool is_product = opcode == TRM_OP_MULTIPLY && is_float;
    /* Products of floats depend on the order: with whole numbers only by overflow. */
    if (!is_product)
      case_both(&c, index, is_sum ? VALUES_TAME : VALUES_WILD, is_sum ? 0.51 : 0.001,
                !is_sum            ? 0
                : dtype == TRM_F32 ? 2e-4
                : dtype == TRM_F64 ? 1e-11
                                   : 0,
                false, what);
    case_free(&c);
  }
}

/* The comparator of arg-max: (value, index), the lower index of equal ones. */
static uint32_t argmax_body(fast_case *c, trm_dtype dtype) {
  trm_error error = {0};
  uint32_t body;
  case_check(trm_module_add_computation(c->module, NULL, &body, &error), &error);
  const trm_shape value = case_shape(c, dtype, 0, NULL), place = case_shape(c, TRM_S32, 0, NULL);
  const trm_shape pred = case_shape(c, TRM_PRED, 0, NULL);
  const trm_index a = case_parameter(c, body, value), i = case_parameter(c, body, place);
  const trm_index b = case_parameter(c, body, value), k = case_parameter(c, body, place);
  trm_index two[2] = {a, b};
  trm_instruction compare = case_op(TRM_OP_COMPARE, pred, 2, two);
  compare.comparison = TRM_CMP_GE;
  const trm_index ge = case_add(c, body, compare);
  compare.comparison = TRM_CMP_EQ;
  const trm_index eq = case_add(c, body, compare);
  trm_index three[3] = {ge, a, b};
  const trm_index best = case_add(c, body, case_op(TRM_OP_SELECT, value, 3, three));
  trm_index places[2] = {i, k};
  const trm_index least = case_add(c, body, case_op(TRM_OP_MINIMUM, place, 2, places));
  three[0] = ge, three[1] = i, three[2] = k;
  const trm_index of_best = case_add(c, body, case_op(TRM_OP_SELECT, place, 3, three));
  three[0] = eq, three[1] = least, three[2] = of_best;
  const trm_index where = case_add(c, body, case_op(TRM_OP_SELECT, place, 3, three));
  trm_index pair[2] = {best, where};
  const trm_shape shapes[2] = {value, place};
  trm_shape tuple;
  assert_true(trm_shape_make_tuple(&c->module->arena, 2, shapes, &tuple));
  case_add(c, body, case_op(TRM_OP_TUPLE, tuple, 2, pair));
  return body;
}

static void test_argmax(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 200; ++seed) {
    case_random_state = (uint64_t)seed * 104729;
    const trm_dtype dtype = case_random_below(2) ? TRM_F32 : TRM_F16;
    fast_case c = case_create();
    int64_t dims[8], reduced[8], kept[8];
    int32_t num_kept;
    const int32_t rank = random_dims(dims);
    const int32_t num_reduced = random_reduced(rank, dims, reduced, kept, &num_kept);
    trm_index p[4] = {case_parameter(&c, c.computation, case_shape(&c, dtype, rank, dims)),
                      case_parameter(&c, c.computation, case_shape(&c, TRM_S32, rank, dims)),
                      case_parameter(&c, c.computation, case_shape(&c, dtype, 0, NULL)),
                      case_parameter(&c, c.computation, case_shape(&c, TRM_S32, 0, NULL))};
    uint32_t body = argmax_body(&c, dtype);
    const trm_shape shapes[2] = {case_shape(&c, dtype, num_kept, kept),
                                 case_shape(&c, TRM_S32, num_kept, kept)};
    trm_shape tuple;
    assert_true(trm_shape_make_tuple(&c.module->arena, 2, shapes, &tuple));
    const trm_index index =
        case_add(&c, c.computation, reduce_of(&c, tuple, 2, p, &body, num_reduced, reduced));
    char what[64];
    snprintf(what, sizeof what, "arg-max, seed %lld", (long long)seed);
    case_both(&c, index, VALUES_WHOLE, 0.001, 0, false, what);
    case_free(&c);
  }
}

/* Order is kept: "the last one" and "the first one" are associative but not commutative. */
static void test_order(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 100; ++seed) {
    case_random_state = (uint64_t)seed * 3571;
    fast_case c = case_create();
    int64_t dims[8], reduced[8], kept[8];
    int32_t num_kept;
    const int32_t rank = random_dims(dims);
    const int32_t num_reduced = random_reduced(rank, dims, reduced, kept, &num_kept);
    trm_index p[2] = {case_parameter(&c, c.computation, case_shape(&c, TRM_S32, rank, dims)),
                      case_parameter(&c, c.computation, case_shape(&c, TRM_S32, 0, NULL))};
    uint32_t body = case_reducer(&c, TRM_OP_ADD, TRM_S32);
    trm_computation *computation = &c.module->computations[body];
    computation->root = computation->parameters[seed % 2];
    const trm_index index = case_add(
        &c, c.computation,
        reduce_of(&c, case_shape(&c, TRM_S32, num_kept, kept), 1, p, &body, num_reduced, reduced));
    char what[64];
    snprintf(what, sizeof what, "the first or last, seed %lld", (long long)seed);
    case_both(&c, index, VALUES_WILD, 0, 0, false, what);
    case_free(&c);
  }
}

/* Large ones: threads, chunks; adding one after the other would lose most digits here. */
static void test_large_sums(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 3000000}, {3000000, 1}, {60000, 50}, {50, 60000},
                                      {200000, 3},  {7, 400000},  {700, 5000}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
    for (int64_t which = 0; which < 2; ++which) {
      fast_case c = case_create();
      int64_t kept = shapes[s][1 - which];
      trm_index p[2] = {case_parameter(&c, c.computation, case_shape(&c, TRM_F32, 2, shapes[s])),
                        case_parameter(&c, c.computation, case_shape(&c, TRM_F32, 0, NULL))};
      uint32_t body = case_reducer(&c, TRM_OP_ADD, TRM_F32);
      const trm_index index =
          case_add(&c, c.computation,
                   reduce_of(&c, case_shape(&c, TRM_F32, 1, &kept), 1, p, &body, 1, &which));
      const int64_t n = shapes[s][0] * shapes[s][1];
      float *data = case_allocate((size_t)n * 4);
      for (int64_t i = 0; i < n; ++i) data[i] = 1.0f + (float)case_random_below(1000) * 1e-6f;
      const float initial = 3.0f;
      const void *operands[2] = {data, &initial};
      case_results got, want;
      assert_true(case_run(&c, index, true, -1, operands, &got, NULL));
      assert_true(case_run(&c, index, false, -1, operands, &want, NULL));
      case_compare(&got, &want, 2.0, 0, "a large sum");
      case_results_free(&got);
      case_results_free(&want);
      trm_free(data);
      case_free(&c);
    }
  }
}

static void test_large_maxima(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {
      {1, 1000003}, {3, 300007}, {40000, 50}, {50, 40000}, {100001, 3}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
    for (int64_t which = 0; which < 2; ++which) {
      fast_case c = case_create();
      int64_t kept = shapes[s][1 - which];
      trm_index p[2] = {case_parameter(&c, c.computation, case_shape(&c, TRM_F32, 2, shapes[s])),
                        case_parameter(&c, c.computation, case_shape(&c, TRM_F32, 0, NULL))};
      uint32_t body = case_reducer(&c, TRM_OP_MAXIMUM, TRM_F32);
      const trm_index index =
          case_add(&c, c.computation,
                   reduce_of(&c, case_shape(&c, TRM_F32, 1, &kept), 1, p, &body, 1, &which));
      case_both(&c, index, VALUES_TAME, 0, 0, false, "a large maximum");
      case_free(&c);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_single_opcodes), cmocka_unit_test(test_argmax),
      cmocka_unit_test(test_order),          cmocka_unit_test(test_large_sums),
      cmocka_unit_test(test_large_maxima),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

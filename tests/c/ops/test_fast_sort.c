/* Fast sort against the reference kernel. */
#include "fast_case.h"

static void test_sort(void **state) {
  (void)state;
  static const trm_dtype types[] = {TRM_F32, TRM_F16, TRM_S32, TRM_U8, TRM_S64, TRM_U64, TRM_PRED};
  static const int64_t lengths[] = {1, 2, 15, 16, 17, 100, 1000, 3001};
  for (int64_t seed = 1; seed <= 200; seed++) {
    case_random_state = (uint64_t)seed * 86028121;
    fast_case c = case_create();
    trm_error error = {0};
    int64_t dims[3] = {case_random_below(4) + 1, 1, case_random_below(3) + 1};
    const int64_t dimension = case_random_below(3);
    dims[dimension] = lengths[case_random_below(8)];
    const uint32_t n = (uint32_t)case_random_below(3) + 1;
    uint32_t body;
    case_check(trm_module_add_computation(c.module, NULL, &body, &error), &error);
    trm_index p[3], q[6];
    trm_shape shapes[3], tuple;
    for (uint32_t k = 0; k < n; k++) {
      const trm_dtype dtype = types[case_random_below(7)];
      shapes[k] = case_shape(&c, dtype, 3, dims);
      p[k] = case_parameter(&c, c.computation, shapes[k]);
      q[2 * k] = case_parameter(&c, body, case_shape(&c, dtype, 0, NULL));
      q[2 * k + 1] = case_parameter(&c, body, case_shape(&c, dtype, 0, NULL));
    }
    assert_true(trm_shape_make_tuple(&c.module->arena, (int32_t)n, shapes, &tuple));
    const uint32_t key = (uint32_t)case_random_below(n);
    trm_index two[2] = {q[2 * key], q[2 * key + 1]};
    if (case_random_below(4) == 0) two[0] = q[2 * key + 1], two[1] = q[2 * key];
    trm_instruction compare = case_op(TRM_OP_COMPARE, case_shape(&c, TRM_PRED, 0, NULL), 2, two);
    compare.comparison = case_random_below(2) ? TRM_CMP_LT : TRM_CMP_GT;
    compare.comparison_type = case_random_below(2) ? TRM_CMPTYPE_DEFAULT : TRM_CMPTYPE_TOTALORDER;
    case_add(&c, body, compare);
    trm_instruction i = case_op(TRM_OP_SORT, n == 1 ? shapes[0] : tuple, n, p);
    i.dimensions = case_dims(&c, 1, &dimension);
    i.num_called = 1;
    i.called = &body;
    const trm_index index = case_add(&c, c.computation, i);
    char what[64];
    snprintf(what, sizeof what, "sort, seed %lld", (long long)seed);
    case_both(&c, index, seed % 2 ? VALUES_WILD : VALUES_WHOLE, 0, 0, false, what);
    case_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sort),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

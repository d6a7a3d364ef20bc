/* Complex elementwise kernels beside the reference ones: every opcode, special values, scalars,
 * more elements than one thread does. */
#include "fast_case.h"

enum { COUNT = 20000 };

static void fill_numbers(trm_dtype dtype, void *data, int64_t count) {
  const bool is_wide = dtype == TRM_C128 || dtype == TRM_F64;
  const int64_t numbers = dtype == TRM_C64 || dtype == TRM_C128 ? 2 * count : count;
  for (int64_t i = 0; i < numbers; ++i) {
    double v = (double)case_random_below(1 << 20) / (1 << 17) - 4.0;
    if (case_random_below(5) == 0) v = case_special();
    if (is_wide) ((double *)data)[i] = v;
    else ((float *)data)[i] = (float)v;
  }
}

/* Within `relative` of the larger part; NaNs equal NaNs. */
static void compare_numbers(const char *what, trm_dtype dtype, const void *got, const void *want,
                            double relative) {
  const int parts = dtype == TRM_C64 || dtype == TRM_C128 ? 2 : 1;
  const bool is_wide = dtype == TRM_C128 || dtype == TRM_F64;
  for (int64_t i = 0; i < COUNT; ++i) {
    double g[2], w[2], size = 0;
    for (int p = 0; p < parts; ++p) {
      const int64_t at = i * parts + p;
      g[p] = is_wide ? ((const double *)got)[at] : (double)((const float *)got)[at];
      w[p] = is_wide ? ((const double *)want)[at] : (double)((const float *)want)[at];
      if (isfinite(w[p]) && fabs(w[p]) > size) size = fabs(w[p]);
    }
    for (int p = 0; p < parts; ++p) {
      if (g[p] == w[p] || (isnan(g[p]) && isnan(w[p]))) continue;
      if (fabs(g[p] - w[p]) <= relative * size) continue;
      fail_msg("%s: element %lld, part %d: %a, not %a", what, (long long)i, p, g[p], w[p]);
    }
  }
}

static void check(trm_opcode opcode, uint32_t num_operands, trm_dtype operand, trm_dtype result,
                  bool has_scalar) {
  fast_case c = case_create();
  const int64_t dims[1] = {COUNT};
  trm_index p[3];
  void *data[3];
  for (uint32_t k = 0; k < num_operands; ++k) {
    const bool is_choice = opcode == TRM_OP_SELECT && k == 0;
    const bool is_scalar = has_scalar && k == num_operands - 1;
    const trm_shape shape = case_shape(&c, is_choice ? TRM_PRED : operand, is_scalar ? 0 : 1, dims);
    p[k] = case_parameter(&c, c.computation, shape);
    data[k] = case_allocate(trm_shape_bytes(&shape));
    if (is_choice) case_fill(TRM_PRED, data[k], COUNT, VALUES_WILD);
    else fill_numbers(operand, data[k], trm_shape_count(&shape));
  }
  trm_instruction op = case_op(opcode, case_shape(&c, result, 1, dims), num_operands, p);
  if (opcode == TRM_OP_COMPARE) op.comparison = TRM_CMP_NE;
  const trm_index index = case_add(&c, c.computation, op);
  case_results got, want;
  uint32_t in_place = 0;
  const void *const *const operands = (const void *const *)data;
  assert_true(case_run(&c, index, true, -1, operands, &got, &in_place));
  assert_true(case_run(&c, index, false, -1, operands, &want, NULL));
  char what[100];
  snprintf(what, sizeof what, "%s of type %d", trm_opcode_name(opcode), (int)operand);
  for (int k = -1; k < (int)num_operands; ++k) {
    if (k >= 0) {
      if (!(in_place >> k & 1)) continue;
      case_results_free(&got);
      assert_true(case_run(&c, index, true, k, operands, &got, NULL));
    }
    if (result == TRM_PRED) assert_memory_equal(got.data[0], want.data[0], COUNT);
    else compare_numbers(what, result, got.data[0], want.data[0], 1e-15);
  }
  case_results_free(&got);
  case_results_free(&want);
  for (uint32_t k = 0; k < num_operands; ++k) trm_free(data[k]);
  case_free(&c);
}

static void test_opcodes(void **state) {
  (void)state;
  static const struct {
    trm_opcode opcode;
    uint32_t num_operands;
    bool from_real, to_real;
  } cases[] = {
      {TRM_OP_ADD, 2, false, false},      {TRM_OP_SUBTRACT, 2, false, false},
      {TRM_OP_MULTIPLY, 2, false, false}, {TRM_OP_DIVIDE, 2, false, false},
      {TRM_OP_NEGATE, 1, false, false},   {TRM_OP_EXPONENTIAL, 1, false, false},
      {TRM_OP_ABS, 1, false, true},       {TRM_OP_REAL, 1, false, true},
      {TRM_OP_IMAG, 1, false, true},      {TRM_OP_COMPLEX, 2, true, false},
      {TRM_OP_CONVERT, 1, true, false},   {TRM_OP_LOG, 1, false, false},
      {TRM_OP_POWER, 2, false, false},    {TRM_OP_TANH, 1, false, false},
      {TRM_OP_SQRT, 1, false, false},     {TRM_OP_SELECT, 3, false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    for (int is_wide = 0; is_wide < 2; ++is_wide) {
      const trm_dtype real = is_wide ? TRM_F64 : TRM_F32, whole = is_wide ? TRM_C128 : TRM_C64;
      for (int has_scalar = 0; has_scalar < 2; ++has_scalar) {
        check(cases[i].opcode, cases[i].num_operands, cases[i].from_real ? real : whole,
              cases[i].to_real ? real : whole, has_scalar);
      }
    }
  }
}

static void test_of_other_types(void **state) {
  (void)state;
  check(TRM_OP_CONVERT, 1, TRM_C64, TRM_C128, false);
  check(TRM_OP_CONVERT, 1, TRM_C128, TRM_C64, false);
  check(TRM_OP_CONVERT, 1, TRM_F32, TRM_C128, false);
  check(TRM_OP_COMPARE, 2, TRM_C64, TRM_PRED, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_opcodes),
                                     cmocka_unit_test(test_of_other_types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

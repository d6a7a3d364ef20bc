/* Fast reduce-window and select-and-scatter against the reference kernels. */
#include "fast_case.h"

/* A random window over dims; writes the dimensions of the result. Returns false when empty. */
static bool random_window(int32_t rank, const int64_t *dims, bool dilates, trm_window_dimension *w,
                          int64_t *out) {
  const bool nhwc = case_random_below(2) == 0;
  for (int32_t d = 0; d < rank; ++d) {
    w[d] = (trm_window_dimension){.size = 1, .stride = 1, .window_dilation = 1, .base_dilation = 1};
    if (!(nhwc && (d == 0 || d == rank - 1)) && case_random_below(4) > 0) {
      w[d].size = case_random_below(4) + 1;
      w[d].stride = case_random_below(3) + 1;
      w[d].padding_low = case_random_below(3);
      w[d].padding_high = case_random_below(3);
      if (dilates && case_random_below(4) == 0) w[d].window_dilation = 2;
      if (dilates && case_random_below(6) == 0) w[d].base_dilation = 2;
    }
    const int64_t base =
        (dims[d] - 1) * w[d].base_dilation + 1 + w[d].padding_low + w[d].padding_high;
    const int64_t extent = (w[d].size - 1) * w[d].window_dilation + 1;
    if (base < extent) return false;
    out[d] = (base - extent) / w[d].stride + 1;
  }
  return true;
}

static int32_t random_dims(int64_t *dims) {
  static const int64_t choices[] = {1, 2, 3, 7, 12, 20, 70};
  const int32_t rank = 1 + (int32_t)case_random_below(4);
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) {
    dims[d] = choices[case_random_below(7)];
    if (count * dims[d] > 12000) dims[d] = 2;
    count *= dims[d];
  }
  return rank;
}

static void test_reduce_window(void **state) {
  (void)state;
  static const trm_opcode opcodes[] = {TRM_OP_ADD, TRM_OP_MAXIMUM, TRM_OP_MINIMUM, TRM_OP_MULTIPLY};
  static const trm_dtype types[] = {TRM_F32, TRM_F16, TRM_S32, TRM_U8};
  int served = 0;
  for (int64_t seed = 1; seed <= 500; ++seed) {
    case_random_state = (uint64_t)seed * 179424673;
    int64_t dims[6], out[6];
    trm_window_dimension w[6];
    const int32_t rank = random_dims(dims);
    if (!random_window(rank, dims, true, w, out)) continue;
    fast_case c = case_create();
    const trm_opcode opcode = opcodes[case_random_below(4)];
    const trm_dtype dtype = types[case_random_below(4)];
    trm_index p[2] = {case_parameter(&c, c.computation, case_shape(&c, dtype, rank, dims)),
                      case_parameter(&c, c.computation, case_shape(&c, dtype, 0, NULL))};
    uint32_t body = case_reducer(&c, opcode, dtype);
    trm_window window = {rank, w};
    trm_instruction i = case_op(TRM_OP_REDUCE_WINDOW, case_shape(&c, dtype, rank, out), 2, p);
    i.window = &window;
    i.num_called = 1;
    i.called = &body;
    const trm_index index = case_add(&c, c.computation, i);
    char what[96];
    snprintf(what, sizeof what, "reduce-window by %s of %s, seed %lld", trm_opcode_name(opcode),
             trm_dtype_name(dtype), (long long)seed);
    case_both(&c, index, VALUES_TAME, 0.51, 0, false, what);
    ++served;
    case_free(&c);
  }
  assert_true(served > 200);
}

static void test_select_and_scatter(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 400; ++seed) {
    case_random_state = (uint64_t)seed * 32452843;
    int64_t dims[6], out[6];
    trm_window_dimension w[6];
    const int32_t rank = random_dims(dims);
    if (!random_window(rank, dims, false, w, out)) continue;
    fast_case c = case_create();
    const trm_dtype dtype = case_random_below(2) ? TRM_F32 : TRM_F16;
    trm_index p[3] = {case_parameter(&c, c.computation, case_shape(&c, dtype, rank, dims)),
                      case_parameter(&c, c.computation, case_shape(&c, dtype, rank, out)),
                      case_parameter(&c, c.computation, case_shape(&c, dtype, 0, NULL))};
    uint32_t bodies[2] = {0, case_reducer(&c, TRM_OP_ADD, dtype)};
    trm_error error = {0};
    case_check(trm_module_add_computation(c.module, NULL, &bodies[0], &error), &error);
    const trm_shape scalar = case_shape(&c, dtype, 0, NULL);
    trm_index q[2] = {case_parameter(&c, bodies[0], scalar), case_parameter(&c, bodies[0], scalar)};
    if (case_random_below(3) == 0) {
      const trm_index t = q[0];
      q[0] = q[1], q[1] = t;
    }
    trm_instruction compare = case_op(TRM_OP_COMPARE, case_shape(&c, TRM_PRED, 0, NULL), 2, q);
    const bool forwards = q[0] < q[1];
    const bool equal = case_random_below(3) > 0;
    compare.comparison =
        forwards ? (equal ? TRM_CMP_GE : TRM_CMP_GT) : (equal ? TRM_CMP_LE : TRM_CMP_LT);
    case_add(&c, bodies[0], compare);
    trm_window window = {rank, w};
    trm_instruction i = case_op(TRM_OP_SELECT_AND_SCATTER, case_shape(&c, dtype, rank, dims), 3, p);
    i.window = &window;
    i.num_called = 2;
    i.called = bodies;
    const trm_index index = case_add(&c, c.computation, i);
    char what[64];
    snprintf(what, sizeof what, "select-and-scatter, seed %lld", (long long)seed);
    case_both(&c, index, VALUES_WHOLE, 0.51, 0, false, what);
    case_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reduce_window),
      cmocka_unit_test(test_select_and_scatter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

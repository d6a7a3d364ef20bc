/* Fast batch norm against the reference kernels. */
#include "fast_case.h"

static void run_case(int64_t seed, trm_opcode opcode, trm_dtype dtype, int32_t rank,
                     const int64_t *dims, int64_t feature) {
  fast_case c = case_create();
  const trm_shape array = case_shape(&c, dtype, rank, dims);
  const trm_shape one = case_shape(&c, dtype, 1, &dims[feature]);
  trm_index p[5];
  const bool is_grad = opcode == TRM_OP_BATCH_NORM_GRAD;
  const uint32_t n = opcode == TRM_OP_BATCH_NORM_TRAINING ? 3 : 5;
  for (uint32_t i = 0; i < n; ++i)
    p[i] = case_parameter(&c, c.computation, i == 0 || (is_grad && i == 4) ? array : one);
  const trm_shape shapes[3] = {array, one, one};
  trm_shape tuple;
  assert_true(trm_shape_make_tuple(&c.module->arena, 3, shapes, &tuple));
  trm_instruction instruction =
      case_op(opcode, opcode == TRM_OP_BATCH_NORM_INFERENCE ? array : tuple, n, p);
  instruction.number = feature;
  instruction.epsilon = 0.001f;
  const trm_index index = case_add(&c, c.computation, instruction);
  void *operands[5];
  for (uint32_t i = 0; i < n; ++i) {
    const trm_shape *shape = &c.module->computations[c.computation].instructions[p[i]].shape;
    const int64_t count = trm_shape_count(shape);
    operands[i] = case_allocate(trm_shape_bytes(shape));
    case_fill(dtype, operands[i], count, VALUES_TAME);
    if (i == 0 && dtype == TRM_F32) /* far from zero: squares minus square of the mean fails here */
      for (int64_t k = 0; k < count; ++k) ((float *)operands[0])[k] += 300.0f;
    if (i == 3) /* a variance */
      for (int64_t k = 0; k < count; ++k) {
        if (dtype == TRM_F32) ((float *)operands[3])[k] = fabsf(((float *)operands[3])[k]) + 0.5f;
        else
          ((uint16_t *)operands[3])[k] =
              (uint16_t)((((uint16_t *)operands[3])[k] & 0x7fff) | 0x3800);
      }
    if (i == 2 && is_grad && dtype == TRM_F32)
      for (int64_t k = 0; k < count; ++k) ((float *)operands[2])[k] += 300.0f;
  }
  case_results got, want;
  char what[96];
  snprintf(what, sizeof what, "%s of %s, seed %lld", trm_opcode_name(opcode), trm_dtype_name(dtype),
           (long long)seed);
  assert_true(case_run(&c, index, true, -1, (const void *const *)operands, &got, NULL));
  assert_true(case_run(&c, index, false, -1, (const void *const *)operands, &want, NULL));
  const double sums = is_grad ? 1e-5 * (double)(trm_shape_count(&array) + 1) : 0;
  case_compare(&got, &want, dtype == TRM_F16 ? 1.01 : 4,
               dtype == TRM_F32 ? 2e-4 + sums * 1e-2 : 2e-3, what);
  case_results_free(&got);
  case_results_free(&want);
  for (uint32_t i = 0; i < n; ++i) trm_free(operands[i]);
  case_free(&c);
}

static void test_generated(void **state) {
  (void)state;
  static const trm_opcode opcodes[] = {TRM_OP_BATCH_NORM_TRAINING, TRM_OP_BATCH_NORM_INFERENCE,
                                       TRM_OP_BATCH_NORM_GRAD};
  static const int64_t choices[] = {1, 2, 3, 7, 16, 33, 64, 600};
  for (int64_t seed = 1; seed <= 240; ++seed) {
    case_random_state = (uint64_t)seed * 6700417;
    int64_t dims[4], count = 1;
    const int32_t rank = 1 + (int32_t)case_random_below(4);
    for (int32_t d = 0; d < rank; ++d) {
      dims[d] = choices[case_random_below(8)];
      if (count * dims[d] > 100000) dims[d] = 1;
      count *= dims[d];
    }
    const int64_t feature = case_random_below(2) ? rank - 1 : case_random_below(rank);
    run_case(seed, opcodes[seed % 3], case_random_below(2) ? TRM_F32 : TRM_F16, rank, dims,
             feature);
  }
}

static void test_large(void **state) {
  (void)state;
  static const trm_opcode opcodes[] = {TRM_OP_BATCH_NORM_TRAINING, TRM_OP_BATCH_NORM_INFERENCE,
                                       TRM_OP_BATCH_NORM_GRAD};
  for (int i = 0; i < 3; ++i) {
    const int64_t last[4] = {4, 60, 61, 48}, first[4] = {5, 24, 50, 52};
    run_case(1000 + i, opcodes[i], TRM_F32, 4, last, 3);
    run_case(2000 + i, opcodes[i], TRM_F32, 4, first, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_generated),
      cmocka_unit_test(test_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

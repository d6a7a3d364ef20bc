/* The reference kernels of data movement. */
#include "reference_case.h"

static void test_broadcast(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_input(&c, TRM_S16, 1, DIMS(2), NUMBERS(7, -8));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BROADCAST, .dimensions = LIST(0)},
           case_shape(&c, TRM_S16, 2, DIMS(2, 3)));
  case_expect(&c, 0, NUMBERS(7, 7, 7, -8, -8, -8), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(1, 2, 3, 4));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BROADCAST, .dimensions = LIST(0, 2)},
           case_shape(&c, TRM_F32, 3, DIMS(2, 2, 2)));
  case_expect(&c, 0, NUMBERS(1, 2, 1, 2, 3, 4, 3, 4), 0);
  case_end(&c);
  case_begin(&c); /* a scalar; rank 16 */
  const int64_t dims[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2};
  case_input(&c, TRM_F64, 0, NULL, NUMBERS(3));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BROADCAST}, case_shape(&c, TRM_F64, 16, dims));
  case_expect(&c, 0, NUMBERS(3, 3, 3, 3), 0);
  case_end(&c);
  case_begin(&c); /* to nothing */
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(3));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BROADCAST},
           case_shape(&c, TRM_F32, 2, DIMS(0, 4)));
  case_end(&c);
}

static void test_transpose_reshape_reverse_slice(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_input(&c, TRM_U8, 3, DIMS(2, 3, 2), NUMBERS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_TRANSPOSE, .dimensions = LIST(1, 2, 0)},
           case_shape(&c, TRM_U8, 3, DIMS(3, 2, 2)));
  case_expect(&c, 0, NUMBERS(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 2, DIMS(2, 3), NUMBERS(0, 1, 2, 3, 4, 5));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_RESHAPE}, case_shape(&c, TRM_F32, 1, DIMS(6)));
  case_expect(&c, 0, NUMBERS(0, 1, 2, 3, 4, 5), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 2, DIMS(2, 3), NUMBERS(0, 1, 2, 3, 4, 5));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_REVERSE, .dimensions = LIST(1)},
           case_shape(&c, TRM_F32, 2, DIMS(2, 3)));
  case_expect(&c, 0, NUMBERS(2, 1, 0, 5, 4, 3), 0);
  case_end(&c);
  case_begin(&c);
  trm_slice_dimension slice[2] = {{1, 3, 1}, {0, 4, 3}};
  case_input(&c, TRM_S32, 2, DIMS(3, 4), NUMBERS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_SLICE, .slice = slice},
           case_shape(&c, TRM_S32, 2, DIMS(2, 2)));
  case_expect(&c, 0, NUMBERS(4, 7, 8, 11), 0);
  case_end(&c);
}

static void test_concatenate_and_pad(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_input(&c, TRM_F16, 2, DIMS(2, 1), NUMBERS(1, 2));
  case_input(&c, TRM_F16, 2, DIMS(2, 0), NULL);
  case_input(&c, TRM_F16, 2, DIMS(2, 2), NUMBERS(3, 4, 5, 6));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_CONCATENATE, .dimensions = LIST(1)},
           case_shape(&c, TRM_F16, 2, DIMS(2, 3)));
  case_expect(&c, 0, NUMBERS(1, 3, 4, 2, 5, 6), 0);
  case_end(&c);
  case_begin(&c); /* low cuts, interior spreads, high pads */
  trm_padding_dimension padding[1] = {{-1, 2, 1}};
  case_input(&c, TRM_F32, 1, DIMS(3), NUMBERS(1, 2, 3));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(9));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_PAD, .padding = padding},
           case_shape(&c, TRM_F32, 1, DIMS(6)));
  case_expect(&c, 0, NUMBERS(9, 2, 9, 3, 9, 9), 0);
  case_end(&c);
  case_begin(&c);
  trm_padding_dimension both[2] = {{1, -1, 0}, {0, 1, 2}};
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(1, 2, 3, 4));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(0));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_PAD, .padding = both},
           case_shape(&c, TRM_F32, 2, DIMS(2, 5)));
  case_expect(&c, 0, NUMBERS(0, 0, 0, 0, 0, 1, 0, 0, 2, 0), 0);
  case_end(&c);
}

static void test_iota_and_sizes(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_IOTA, .dimensions = LIST(1)},
           case_shape(&c, TRM_BF16, 2, DIMS(2, 3)));
  case_expect(&c, 0, NUMBERS(0, 1, 2, 0, 1, 2), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 2, DIMS(2, 5), NUMBERS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_GET_DIMENSION_SIZE, .number = 1},
           case_shape(&c, TRM_S32, 0, NULL));
  case_expect(&c, 0, NUMBERS(5), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(4, 5));
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(2));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_SET_DIMENSION_SIZE},
           case_shape(&c, TRM_F32, 1, DIMS(2)));
  case_expect(&c, 0, NUMBERS(4, 5), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(4, 5));
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(1));
  assert_int_equal(case_try(&c, (trm_instruction){.opcode = TRM_OP_SET_DIMENSION_SIZE},
                            case_shape(&c, TRM_F32, 1, DIMS(2))),
                   TRM_UNIMPLEMENTED);
  assert_non_null(strstr(c.error.message, "dynamic shapes"));
  case_end(&c);
  case_begin(&c);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_REPLICA_ID}, case_shape(&c, TRM_U32, 0, NULL));
  case_expect(&c, 0, NUMBERS(0), 0);
  case_end(&c);
}

static void test_dynamic_slices(void **unused) {
  (void)unused;
  /* The start moves so that the slice lies inside. */
  const double starts[3][2] = {{0, 1}, {-5, 7}, {2, 2}};
  const double want[3][4] = {{1, 2, 5, 6}, {2, 3, 6, 7}, {6, 7, 10, 11}};
  for (int i = 0; i < 3; ++i) {
    test_case c;
    case_begin(&c);
    case_input(&c, TRM_S32, 2, DIMS(3, 4), NUMBERS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    case_input(&c, TRM_S32, 0, NULL, &starts[i][0]);
    case_input(&c, TRM_S32, 0, NULL, &starts[i][1]);
    case_run(&c, (trm_instruction){.opcode = TRM_OP_DYNAMIC_SLICE, .sizes = LIST(2, 2)},
             case_shape(&c, TRM_S32, 2, DIMS(2, 2)));
    case_expect(&c, 0, want[i], 0);
    case_end(&c);
  }
  test_case c;
  case_begin(&c); /* a huge unsigned index */
  case_input(&c, TRM_F32, 1, DIMS(4), NUMBERS(1, 2, 3, 4));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(8, 9));
  const uint64_t huge = UINT64_MAX;
  case_input_bytes(&c, TRM_U64, 0, NULL, &huge);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DYNAMIC_UPDATE_SLICE},
           case_shape(&c, TRM_F32, 1, DIMS(4)));
  case_expect(&c, 0, NUMBERS(1, 2, 8, 9), 0);
  case_end(&c);
}

static void test_gather(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c); /* from XLA: starts are clamped */
  trm_gather rows = {.offset_dims = LIST(1),
                     .collapsed_slice_dims = LIST(0),
                     .start_index_map = LIST(0, 1),
                     .index_vector_dim = 1,
                     .slice_sizes = LIST(1, 2)};
  case_input_pattern(&c, TRM_F32, 2, DIMS(3, 4), 3);
  case_input(&c, TRM_S32, 2, DIMS(4, 2), NUMBERS(0, 1, 2, 3, -4, 0, 7, 2));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_GATHER, .gather = &rows},
           case_shape(&c, TRM_F32, 2, DIMS(4, 2)));
  case_expect(&c, 0, NUMBERS(5, 1, 2, -2, -2, 5, 2, -2), 0);
  case_end(&c);
  case_begin(&c); /* an index vector of one, without a dimension of its own; offset first */
  trm_gather columns = {.offset_dims = LIST(0),
                        .collapsed_slice_dims = LIST(1),
                        .start_index_map = LIST(1),
                        .index_vector_dim = 1,
                        .slice_sizes = LIST(2, 1)};
  case_input(&c, TRM_S32, 2, DIMS(2, 3), NUMBERS(1, 2, 3, 4, 5, 6));
  case_input(&c, TRM_U8, 1, DIMS(2), NUMBERS(2, 0));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_GATHER, .gather = &columns},
           case_shape(&c, TRM_S32, 2, DIMS(2, 2)));
  case_expect(&c, 0, NUMBERS(3, 1, 6, 4), 0);
  case_end(&c);
  case_begin(&c); /* batching dimensions */
  trm_gather batched = {.start_index_map = LIST(1),
                        .operand_batching_dims = LIST(0),
                        .start_indices_batching_dims = LIST(0),
                        .collapsed_slice_dims = LIST(1),
                        .index_vector_dim = 2,
                        .slice_sizes = LIST(1, 1)};
  case_input(&c, TRM_S32, 2, DIMS(2, 3), NUMBERS(1, 2, 3, 4, 5, 6));
  case_input(&c, TRM_S32, 3, DIMS(2, 2, 1), NUMBERS(2, 1, 0, 2));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_GATHER, .gather = &batched},
           case_shape(&c, TRM_S32, 2, DIMS(2, 2)));
  case_expect(&c, 0, NUMBERS(3, 2, 4, 6), 0);
  case_end(&c);
}

static void test_scatter(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c); /* from XLA: windows out of bounds are skipped */
  uint32_t add = case_binary_computation(&c, TRM_OP_ADD, TRM_F32);
  trm_scatter rows = {.update_window_dims = LIST(1),
                      .inserted_window_dims = LIST(0),
                      .scatter_dims_to_operand_dims = LIST(0, 1),
                      .index_vector_dim = 1};
  case_input_pattern(&c, TRM_F32, 2, DIMS(3, 4), 3);
  case_input(&c, TRM_S32, 2, DIMS(5, 2), NUMBERS(0, 1, 2, 3, -1, 0, 0, 1, 2, 2));
  case_input_pattern(&c, TRM_F32, 2, DIMS(5, 2), 5);
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_SCATTER, .scatter = &rows, .called = &add, .num_called = 1},
           case_shape(&c, TRM_F32, 2, DIMS(3, 4)));
  case_expect(&c, 0, NUMBERS(-2, 3, 2, -3, 4, 0, -4, 3, -1, -5, 3, -5), 0);
  case_end(&c);

  case_begin(&c); /* two operands: new minimum, and where it came from */
  const trm_dtype types[4] = {TRM_S32, TRM_S8, TRM_S32, TRM_S8};
  trm_index p[4];
  uint32_t keep_less = case_computation(&c, 4, types, p);
  trm_index compared[2] = {p[2], p[0]};
  const trm_index less = case_add(&c, keep_less,
                                  (trm_instruction){.opcode = TRM_OP_COMPARE,
                                                    .comparison = TRM_CMP_LT,
                                                    .operands = compared,
                                                    .num_operands = 2,
                                                    .shape = case_shape(&c, TRM_PRED, 0, NULL)});
  trm_index values[3] = {less, p[2], p[0]}, places[3] = {less, p[3], p[1]}, both[2];
  both[0] = case_add(&c, keep_less,
                     (trm_instruction){.opcode = TRM_OP_SELECT,
                                       .operands = values,
                                       .num_operands = 3,
                                       .shape = case_shape(&c, TRM_S32, 0, NULL)});
  both[1] = case_add(&c, keep_less,
                     (trm_instruction){.opcode = TRM_OP_SELECT,
                                       .operands = places,
                                       .num_operands = 3,
                                       .shape = case_shape(&c, TRM_S8, 0, NULL)});
  const trm_shape scalars[2] = {case_shape(&c, TRM_S32, 0, NULL), case_shape(&c, TRM_S8, 0, NULL)};
  const trm_shape arrays[2] = {case_shape(&c, TRM_S32, 1, DIMS(3)),
                               case_shape(&c, TRM_S8, 1, DIMS(3))};
  trm_shape scalar_pair, array_pair;
  assert_true(trm_shape_make_tuple(&c.module->arena, 2, scalars, &scalar_pair));
  assert_true(trm_shape_make_tuple(&c.module->arena, 2, arrays, &array_pair));
  case_set_root(
      &c, keep_less,
      case_add(
          &c, keep_less,
          (trm_instruction){
              .opcode = TRM_OP_TUPLE, .operands = both, .num_operands = 2, .shape = scalar_pair}));
  trm_scatter points = {.inserted_window_dims = LIST(0),
                        .scatter_dims_to_operand_dims = LIST(0),
                        .index_vector_dim = 1};
  case_input(&c, TRM_S32, 1, DIMS(3), NUMBERS(10, 20, 30));
  case_input(&c, TRM_S8, 1, DIMS(3), NUMBERS(0, 0, 0));
  case_input(&c, TRM_S32, 2, DIMS(4, 1), NUMBERS(1, 2, 1, 3));
  case_input(&c, TRM_S32, 1, DIMS(4), NUMBERS(15, 40, 12, 1));
  case_input(&c, TRM_S8, 1, DIMS(4), NUMBERS(1, 2, 3, 4));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_SCATTER, .scatter = &points, .called = &keep_less, .num_called = 1},
           array_pair);
  case_expect(&c, 0, NUMBERS(10, 12, 30), 0);
  case_expect(&c, 1, NUMBERS(0, 3, 0), 0);
  case_end(&c);

  case_begin(&c); /* batching dimensions; half sums are rounded one by one */
  uint32_t half_add = case_binary_computation(&c, TRM_OP_ADD, TRM_F16);
  trm_scatter batched = {.inserted_window_dims = LIST(1),
                         .input_batching_dims = LIST(0),
                         .scatter_indices_batching_dims = LIST(0),
                         .scatter_dims_to_operand_dims = LIST(1),
                         .index_vector_dim = 2};
  case_input(&c, TRM_F16, 2, DIMS(2, 2), NUMBERS(2048, 0, 0, 0));
  case_input(&c, TRM_S32, 3, DIMS(2, 2, 1), NUMBERS(0, 0, 1, 0));
  case_input(&c, TRM_F16, 2, DIMS(2, 2), NUMBERS(1, 1, 3, 4));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_SCATTER, .scatter = &batched, .called = &half_add, .num_called = 1},
           case_shape(&c, TRM_F16, 2, DIMS(2, 2)));
  case_expect(&c, 0, NUMBERS(2048, 0, 4, 3), 0);
  case_end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broadcast),
      cmocka_unit_test(test_transpose_reshape_reverse_slice),
      cmocka_unit_test(test_concatenate_and_pad),
      cmocka_unit_test(test_iota_and_sizes),
      cmocka_unit_test(test_dynamic_slices),
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_scatter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

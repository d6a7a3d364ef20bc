/* The reference kernels of reduce, windows, sort, topk and batch norm. */
#include "reference_case.h"

static void test_reduce(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c); /* sum over the first and last dimension, with an initial value */
  uint32_t add = case_binary_computation(&c, TRM_OP_ADD, TRM_F32);
  case_input(&c, TRM_F32, 3, DIMS(2, 2, 3), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(0.5));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE, .dimensions = LIST(0, 2), .called = &add, .num_called = 1},
           case_shape(&c, TRM_F32, 1, DIMS(2)));
  case_expect(&c, 0, NUMBERS(30.5, 48.5), 0);
  case_end(&c);

  case_begin(&c); /* halves: summed wide, rounded once */
  uint32_t half_add = case_binary_computation(&c, TRM_OP_ADD, TRM_F16);
  double ones[100];
  for (int i = 0; i < 100; ++i) ones[i] = i == 0 ? 2048 : 1;
  case_input(&c, TRM_F16, 1, DIMS(100), ones);
  case_input(&c, TRM_F16, 0, NULL, NUMBERS(0));
  case_run(
      &c,
      (trm_instruction){
          .opcode = TRM_OP_REDUCE, .dimensions = LIST(0), .called = &half_add, .num_called = 1},
      case_shape(&c, TRM_F16, 0, NULL));
  case_expect(&c, 0, NUMBERS(2148), 0);
  case_end(&c);

  case_begin(&c); /* maximum passes NaN on; of nothing it is the initial value */
  uint32_t max = case_binary_computation(&c, TRM_OP_MAXIMUM, TRM_F32);
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(3, NAN, -4, -5));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(-INFINITY));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE, .dimensions = LIST(1), .called = &max, .num_called = 1},
           case_shape(&c, TRM_F32, 1, DIMS(2)));
  case_expect(&c, 0, NUMBERS(NAN, -4), 0);
  case_end(&c);
  case_begin(&c);
  max = case_binary_computation(&c, TRM_OP_MAXIMUM, TRM_F32);
  case_input(&c, TRM_F32, 2, DIMS(2, 0), NULL);
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(-7));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE, .dimensions = LIST(1), .called = &max, .num_called = 1},
           case_shape(&c, TRM_F32, 1, DIMS(2)));
  case_expect(&c, 0, NUMBERS(-7, -7), 0);
  case_end(&c);

  case_begin(&c); /* in order of places: a - b is not associative */
  uint32_t subtract = case_binary_computation(&c, TRM_OP_SUBTRACT, TRM_S32);
  case_input(&c, TRM_S32, 2, DIMS(2, 2), NUMBERS(1, 2, 4, 8));
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(100));
  case_run(
      &c,
      (trm_instruction){
          .opcode = TRM_OP_REDUCE, .dimensions = LIST(1, 0), .called = &subtract, .num_called = 1},
      case_shape(&c, TRM_S32, 0, NULL));
  case_expect(&c, 0, NUMBERS(85), 0);
  case_end(&c);
}

/* ((value, index), (value, index)) -> the greater; the results of one may be parameters of it. */
static uint32_t arg_max_computation(test_case *c, trm_dtype dtype) {
  const trm_dtype types[4] = {dtype, TRM_S32, dtype, TRM_S32};
  trm_index p[4], roots[2];
  const uint32_t computation = case_computation(c, 4, types, p);
  trm_index compared[2] = {p[0], p[2]};
  const trm_index keep = case_add(c, computation,
                                  (trm_instruction){.opcode = TRM_OP_COMPARE,
                                                    .comparison = TRM_CMP_GE,
                                                    .operands = compared,
                                                    .num_operands = 2,
                                                    .shape = case_shape(c, TRM_PRED, 0, NULL)});
  for (uint32_t i = 0; i < 2; ++i) {
    trm_index operands[3] = {keep, p[i], p[2 + i]};
    roots[i] = case_add(c, computation,
                        (trm_instruction){.opcode = TRM_OP_SELECT,
                                          .operands = operands,
                                          .num_operands = 3,
                                          .shape = case_shape(c, types[i], 0, NULL)});
  }
  const trm_shape scalars[2] = {case_shape(c, dtype, 0, NULL), case_shape(c, TRM_S32, 0, NULL)};
  trm_shape pair;
  assert_true(trm_shape_make_tuple(&c->module->arena, 2, scalars, &pair));
  case_set_root(
      c, computation,
      case_add(c, computation,
               (trm_instruction){
                   .opcode = TRM_OP_TUPLE, .operands = roots, .num_operands = 2, .shape = pair}));
  return computation;
}

static void test_reduce_pairs(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  uint32_t arg_max = arg_max_computation(&c, TRM_F16);
  const trm_shape arrays[2] = {case_shape(&c, TRM_F16, 1, DIMS(2)),
                               case_shape(&c, TRM_S32, 1, DIMS(2))};
  trm_shape pair;
  assert_true(trm_shape_make_tuple(&c.module->arena, 2, arrays, &pair));
  case_input(&c, TRM_F16, 2, DIMS(2, 3), NUMBERS(1, 5, 5, -3, -2, -9));
  case_input(&c, TRM_S32, 2, DIMS(2, 3), NUMBERS(0, 1, 2, 0, 1, 2));
  case_input(&c, TRM_F16, 0, NULL, NUMBERS(-INFINITY));
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(-1));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE, .dimensions = LIST(1), .called = &arg_max, .num_called = 1},
           pair);
  case_expect(&c, 0, NUMBERS(5, -2), 0);
  case_expect(&c, 1, NUMBERS(1, 1), 0);
  case_exhaust(
      &c,
      (trm_instruction){
          .opcode = TRM_OP_REDUCE, .dimensions = LIST(1), .called = &arg_max, .num_called = 1},
      pair);
  case_end(&c);

  /* (a, b), (x, y) -> (b, a): what is written must not be read back. */
  case_begin(&c);
  const trm_dtype types[4] = {TRM_S32, TRM_S32, TRM_S32, TRM_S32};
  trm_index p[4];
  uint32_t swap = case_computation(&c, 4, types, p);
  trm_index roots[2] = {p[1], p[0]};
  const trm_shape scalars[2] = {case_shape(&c, TRM_S32, 0, NULL), case_shape(&c, TRM_S32, 0, NULL)};
  assert_true(trm_shape_make_tuple(&c.module->arena, 2, scalars, &pair));
  case_set_root(
      &c, swap,
      case_add(&c, swap,
               (trm_instruction){
                   .opcode = TRM_OP_TUPLE, .operands = roots, .num_operands = 2, .shape = pair}));
  case_input(&c, TRM_S32, 1, DIMS(3), NUMBERS(0, 0, 0));
  case_input(&c, TRM_S32, 1, DIMS(3), NUMBERS(0, 0, 0));
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(7));
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(8));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE, .dimensions = LIST(0), .called = &swap, .num_called = 1},
           pair);
  case_expect(&c, 0, NUMBERS(8), 0);
  case_expect(&c, 1, NUMBERS(7), 0);
  case_end(&c);
}

static void test_reduce_window(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c); /* from XLA: both dilations and padding */
  uint32_t add = case_binary_computation(&c, TRM_OP_ADD, TRM_F32);
  trm_window_dimension dims[2] = {{2, 1, 1, 0, 1, 2, false}, {3, 2, 2, 1, 2, 1, false}};
  trm_window window = {2, dims};
  case_input_pattern(&c, TRM_F32, 2, DIMS(3, 5), 3);
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(0));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE_WINDOW, .window = &window, .called = &add, .num_called = 1},
           case_shape(&c, TRM_F32, 2, DIMS(5, 2)));
  case_expect(&c, 0, NUMBERS(-1, 3, -1, 3, 3, -2, 3, -2, 7, 4), 0);
  case_end(&c);
  case_begin(&c); /* maximum pooling; a window all in the padding is the initial value */
  uint32_t max = case_binary_computation(&c, TRM_OP_MAXIMUM, TRM_BF16);
  trm_window_dimension pool[1] = {{2, 2, 2, 1, 1, 1, false}};
  window = (trm_window){1, pool};
  case_input(&c, TRM_BF16, 1, DIMS(3), NUMBERS(1, 5, 3));
  case_input(&c, TRM_BF16, 0, NULL, NUMBERS(-INFINITY));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE_WINDOW, .window = &window, .called = &max, .num_called = 1},
           case_shape(&c, TRM_BF16, 1, DIMS(3)));
  case_expect(&c, 0, NUMBERS(-INFINITY, 5, 3), 0);
  case_end(&c);
  case_begin(&c); /* a cumulative sum of halves */
  uint32_t half_add = case_binary_computation(&c, TRM_OP_ADD, TRM_F16);
  trm_window_dimension cumulative[1] = {{3, 1, 2, 0, 1, 1, false}};
  window = (trm_window){1, cumulative};
  case_input(&c, TRM_F16, 1, DIMS(3), NUMBERS(2048, 1, 1));
  case_input(&c, TRM_F16, 0, NULL, NUMBERS(0));
  case_run(
      &c,
      (trm_instruction){
          .opcode = TRM_OP_REDUCE_WINDOW, .window = &window, .called = &half_add, .num_called = 1},
      case_shape(&c, TRM_F16, 1, DIMS(3)));
  case_expect(&c, 0, NUMBERS(2048, 2048, 2050), 0);
  case_end(&c);
}

static void test_select_and_scatter(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  uint32_t called[2] = {case_compare_computation(&c, TRM_CMP_GE, TRM_F32),
                        case_binary_computation(&c, TRM_OP_ADD, TRM_F32)};
  trm_window_dimension dims[2] = {{2, 1, 0, 0, 1, 1, false}, {2, 2, 0, 1, 1, 1, false}};
  trm_window window = {2, dims};
  /* Windows of rows 0-1 and 1-2, columns 0-1 and 2; ties go to the first. */
  case_input(&c, TRM_F32, 2, DIMS(3, 3), NUMBERS(1, 5, 2, 5, 0, 2, 7, 7, 1));
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(10, 20, 30, 40));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(0.5));
  case_run(&c,
           (trm_instruction){.opcode = TRM_OP_SELECT_AND_SCATTER,
                             .window = &window,
                             .called = called,
                             .num_called = 2},
           case_shape(&c, TRM_F32, 2, DIMS(3, 3)));
  case_expect(&c, 0, NUMBERS(0.5, 10.5, 20.5, 0.5, 0.5, 40.5, 30.5, 0.5, 0.5), 0);
  case_end(&c);
}

static void test_sort(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c); /* along the first dimension */
  uint32_t less = case_compare_computation(&c, TRM_CMP_LT, TRM_S32);
  case_input(&c, TRM_S32, 2, DIMS(3, 2), NUMBERS(3, 1, 2, 9, -1, 4));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_SORT, .dimensions = LIST(0), .called = &less, .num_called = 1},
           case_shape(&c, TRM_S32, 2, DIMS(3, 2)));
  case_expect(&c, 0, NUMBERS(-1, 1, 2, 4, 3, 9), 0);
  case_end(&c);

  case_begin(&c); /* keys and values, stable, descending */
  const trm_dtype types[4] = {TRM_F32, TRM_F32, TRM_S8, TRM_S8};
  trm_index p[4];
  uint32_t greater = case_computation(&c, 4, types, p);
  case_set_root(&c, greater,
                case_add(&c, greater,
                         (trm_instruction){.opcode = TRM_OP_COMPARE,
                                           .comparison = TRM_CMP_GT,
                                           .operands = p,
                                           .num_operands = 2,
                                           .shape = case_shape(&c, TRM_PRED, 0, NULL)}));
  const trm_shape arrays[2] = {case_shape(&c, TRM_F32, 1, DIMS(7)),
                               case_shape(&c, TRM_S8, 1, DIMS(7))};
  trm_shape pair;
  assert_true(trm_shape_make_tuple(&c.module->arena, 2, arrays, &pair));
  case_input(&c, TRM_F32, 1, DIMS(7), NUMBERS(1, 3, 2, 3, 1, 2, 3));
  case_input(&c, TRM_S8, 1, DIMS(7), NUMBERS(0, 1, 2, 3, 4, 5, 6));
  case_run(&c,
           (trm_instruction){.opcode = TRM_OP_SORT,
                             .dimensions = LIST(0),
                             .is_stable = true,
                             .called = &greater,
                             .num_called = 1},
           pair);
  case_expect(&c, 0, NUMBERS(3, 3, 3, 2, 2, 1, 1), 0);
  case_expect(&c, 1, NUMBERS(1, 3, 6, 2, 5, 0, 4), 0);
  case_end(&c);
}

static void test_topk(void **unused) {
  (void)unused;
  /* From XLA: NaN is the greatest, -NaN the least, +0 above -0, ties by place. */
  for (int largest = 0; largest < 2; ++largest) {
    test_case c;
    case_begin(&c);
    const trm_shape arrays[2] = {case_shape(&c, TRM_F32, 2, DIMS(2, 4)),
                                 case_shape(&c, TRM_S32, 2, DIMS(2, 4))};
    trm_shape pair;
    assert_true(trm_shape_make_tuple(&c.module->arena, 2, arrays, &pair));
    case_input(&c, TRM_F32, 2, DIMS(2, 6),
               NUMBERS(1, NAN, -INFINITY, 5, 5, -1, -0.0, 0.0, -0.0, -2, 0.0, -3));
    case_run(&c, (trm_instruction){.opcode = TRM_OP_TOPK, .number = 4, .largest = largest != 0},
             pair);
    case_expect(&c, 0,
                largest ? NUMBERS(NAN, 5, 5, 1, 0.0, 0.0, -0.0, -0.0)
                        : NUMBERS(-INFINITY, -1, 1, 5, -3, -2, -0.0, -0.0),
                0);
    case_expect(&c, 1, largest ? NUMBERS(1, 3, 4, 0, 1, 4, 0, 2) : NUMBERS(2, 5, 0, 3, 5, 3, 0, 2),
                0);
    case_end(&c);
  }
}

static void test_batch_norm(void **unused) {
  (void)unused;
  test_case c;
  trm_shape tuple;
  case_begin(&c); /* from XLA */
  const trm_shape training[3] = {case_shape(&c, TRM_F32, 3, DIMS(2, 3, 2)),
                                 case_shape(&c, TRM_F32, 1, DIMS(2)),
                                 case_shape(&c, TRM_F32, 1, DIMS(2))};
  assert_true(trm_shape_make_tuple(&c.module->arena, 3, training, &tuple));
  case_input_pattern(&c, TRM_F32, 3, DIMS(2, 3, 2), 3);
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(2, -1));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(0.5, 1));
  case_run(&c,
           (trm_instruction){.opcode = TRM_OP_BATCH_NORM_TRAINING, .number = 2, .epsilon = 0.5f},
           tuple);
  case_expect(&c, 0,
              NUMBERS(-0.960593, -0.515244, 1.2303, 1.75762, 3.42119, 0.905297, -2.42119, 0.0529726,
                      -0.230297, 2.32584, 1.96059, 1.47351),
              4e-6);
  case_expect(&c, 1, NUMBERS(0, -1.0 / 3), 1e-7);
  case_expect(&c, 2, NUMBERS(7, 107.0 / 9), 1e-7);
  case_end(&c);

  case_begin(&c); /* the feature in the middle; statistics of another type than the data */
  case_input(&c, TRM_F16, 3, DIMS(1, 2, 2), NUMBERS(1, 3, 5, 7));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(2, 10));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(0, 1));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(1, 6));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(3, 0.0));
  case_run(&c,
           (trm_instruction){.opcode = TRM_OP_BATCH_NORM_INFERENCE, .number = 1, .epsilon = 1.0f},
           case_shape(&c, TRM_F16, 3, DIMS(1, 2, 2)));
  case_expect(&c, 0, NUMBERS(0, 2, -9, 11), 0);
  case_end(&c);
}

/* The gradient agrees with differences of the training kernel's formula. */
static void test_batch_norm_grad(void **unused) {
  (void)unused;
  const double x[6] = {1, -2, 3, 0.5, -1, 2}, dy[6] = {0.3, -0.7, 1.1, 0.2, -0.4, 0.9};
  const double scale = 1.5, epsilon = 0.25;
  double mean = 0, variance = 0, loss[2], want[6];
  for (int i = 0; i < 6; ++i) mean += x[i] / 6;
  for (int i = 0; i < 6; ++i) variance += (x[i] - mean) * (x[i] - mean) / 6;
  for (int k = 0; k < 6; ++k) {
    for (int sign = 0; sign < 2; ++sign) {
      double moved[6], m = 0, v = 0;
      memcpy(moved, x, sizeof x);
      moved[k] += sign ? -1e-5 : 1e-5;
      for (int i = 0; i < 6; ++i) m += moved[i] / 6;
      for (int i = 0; i < 6; ++i) v += (moved[i] - m) * (moved[i] - m) / 6;
      loss[sign] = 0;
      for (int i = 0; i < 6; ++i) loss[sign] += dy[i] * scale * (moved[i] - m) / sqrt(v + epsilon);
    }
    want[k] = (loss[0] - loss[1]) / 2e-5;
  }
  double dscale = 0, doffset = 0;
  for (int i = 0; i < 6; ++i) {
    dscale += dy[i] * (x[i] - mean) / sqrt(variance + epsilon);
    doffset += dy[i];
  }
  test_case c;
  case_begin(&c);
  const trm_shape parts[3] = {case_shape(&c, TRM_F64, 2, DIMS(6, 1)),
                              case_shape(&c, TRM_F64, 1, DIMS(1)),
                              case_shape(&c, TRM_F64, 1, DIMS(1))};
  trm_shape tuple;
  assert_true(trm_shape_make_tuple(&c.module->arena, 3, parts, &tuple));
  case_input(&c, TRM_F64, 2, DIMS(6, 1), x);
  case_input(&c, TRM_F64, 1, DIMS(1), &scale);
  case_input(&c, TRM_F64, 1, DIMS(1), &mean);
  case_input(&c, TRM_F64, 1, DIMS(1), &variance);
  case_input(&c, TRM_F64, 2, DIMS(6, 1), dy);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BATCH_NORM_GRAD, .number = 1, .epsilon = 0.25f},
           tuple);
  case_expect(&c, 0, want, 1e-8);
  case_expect(&c, 1, &dscale, 1e-12);
  case_expect(&c, 2, &doffset, 1e-12);
  case_end(&c);
}

/* What cannot be applied element by element is refused with its name. */
static void test_refusals(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  const trm_dtype types[2] = {TRM_F32, TRM_F32};
  trm_index p[2];
  uint32_t computation = case_computation(&c, 2, types, p);
  case_set_root(&c, computation,
                case_add(&c, computation,
                         (trm_instruction){.opcode = TRM_OP_BROADCAST,
                                           .operands = p,
                                           .num_operands = 1,
                                           .name = "wide",
                                           .shape = case_shape(&c, TRM_F32, 1, DIMS(2))}));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(1, 2));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(0));
  assert_int_equal(case_try(&c,
                            (trm_instruction){.opcode = TRM_OP_REDUCE,
                                              .dimensions = LIST(0),
                                              .called = &computation,
                                              .num_called = 1},
                            case_shape(&c, TRM_F32, 0, NULL)),
                   TRM_UNIMPLEMENTED);
  assert_non_null(strstr(c.error.message, "wide"));
  assert_non_null(strstr(c.error.message, "must be a scalar"));
  case_end(&c);
  /* Calls that double at each level are cut off. */
  case_begin(&c);
  uint32_t level = case_binary_computation(&c, TRM_OP_ADD, TRM_F32);
  for (int i = 0; i < 30; ++i) {
    uint32_t called = level;
    level = case_computation(&c, 2, types, p);
    const trm_shape scalar = case_shape(&c, TRM_F32, 0, NULL);
    trm_index operands[2] = {p[0], p[1]};
    operands[0] = case_add(&c, level,
                           (trm_instruction){.opcode = TRM_OP_CALL,
                                             .operands = operands,
                                             .num_operands = 2,
                                             .called = &called,
                                             .num_called = 1,
                                             .shape = scalar});
    case_set_root(&c, level,
                  case_add(&c, level,
                           (trm_instruction){.opcode = TRM_OP_CALL,
                                             .operands = operands,
                                             .num_operands = 2,
                                             .called = &called,
                                             .num_called = 1,
                                             .shape = scalar}));
  }
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(1, 2));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(0));
  assert_int_equal(
      case_try(
          &c,
          (trm_instruction){
              .opcode = TRM_OP_REDUCE, .dimensions = LIST(0), .called = &level, .num_called = 1},
          case_shape(&c, TRM_F32, 0, NULL)),
      TRM_RESOURCE_EXHAUSTED);
  case_end(&c);
}

/* Calls ten thousand deep: x + 1 at the bottom. */
static void test_deep_calls(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  const trm_dtype types[2] = {TRM_S32, TRM_S32};
  trm_index p[2];
  uint32_t level = case_binary_computation(&c, TRM_OP_ADD, TRM_S32);
  for (int i = 0; i < 10000; ++i) {
    uint32_t called = level;
    level = case_computation(&c, 2, types, p);
    case_set_root(&c, level,
                  case_add(&c, level,
                           (trm_instruction){.opcode = TRM_OP_CALL,
                                             .operands = p,
                                             .num_operands = 2,
                                             .called = &called,
                                             .num_called = 1,
                                             .shape = case_shape(&c, TRM_S32, 0, NULL)}));
  }
  case_input(&c, TRM_S32, 1, DIMS(3), NUMBERS(1, 2, 3));
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(0));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_REDUCE, .dimensions = LIST(0), .called = &level, .num_called = 1},
           case_shape(&c, TRM_S32, 0, NULL));
  case_expect(&c, 0, NUMBERS(6), 0);
  case_end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reduce),        cmocka_unit_test(test_reduce_pairs),
      cmocka_unit_test(test_reduce_window), cmocka_unit_test(test_select_and_scatter),
      cmocka_unit_test(test_sort),          cmocka_unit_test(test_topk),
      cmocka_unit_test(test_batch_norm),    cmocka_unit_test(test_batch_norm_grad),
      cmocka_unit_test(test_refusals),      cmocka_unit_test(test_deep_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

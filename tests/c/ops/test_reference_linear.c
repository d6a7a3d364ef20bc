/* The reference kernels of dot, convolution, linear algebra and fft. Inputs are the pattern of
 * reference_case.h; expected values come from XLA on a CPU (TensorFlow 2.15.1). */
#include "reference_case.h"

static trm_window_dimension window(int64_t size, int64_t stride, int64_t low, int64_t high,
                                   int64_t window_dilation, int64_t base_dilation) {
  return (trm_window_dimension){size, stride, low, high, window_dilation, base_dilation, false};
}

typedef struct convolution_case {
  const char *name;
  int32_t spatial_rank;
  int64_t input[4], weights[4], output[4];
  trm_window_dimension window[2];
  trm_convolution numbers;
  double want[72];
} convolution_case;

static void check_convolution(const convolution_case *row, trm_dtype dtype) {
  test_case c;
  case_begin(&c);
  trm_convolution numbers = row->numbers;
  numbers.spatial_rank = row->spatial_rank;
  trm_window_dimension dims[2] = {row->window[0], row->window[1]};
  trm_window w = {row->spatial_rank, dims};
  const int32_t rank = row->spatial_rank + 2;
  print_message("%s\n", row->name);
  case_input_pattern(&c, dtype, rank, row->input, 3);
  case_input_pattern(&c, dtype, rank, row->weights, 5);
  case_run(&c,
           (trm_instruction){.opcode = TRM_OP_CONVOLUTION, .window = &w, .convolution = &numbers},
           case_shape(&c, dtype, rank, row->output));
  case_expect(&c, 0, row->want, 0);
  case_end(&c);
}

#define NHWC(groups, batches)                                                                  \
  {0,        3,        2, 3, 0, 3, 2, (int64_t[]){1, 2}, (int64_t[]){0, 1}, (int64_t[]){1, 2}, \
   (groups), (batches)}

static void test_convolution(void **unused) {
  (void)unused;
  const convolution_case rows[] = {
      {"plain",
       2,
       {1, 4, 5, 2},
       {3, 2, 2, 3},
       {1, 3, 3, 3},
       {window(3, 1, 1, 0, 1, 1), window(2, 2, 0, 1, 1, 1)},
       NHWC(1, 1),
       {-17, -12, 4,  -25, 19, 19, 36,  -14, -9,  20,  -30, 30, -24, -32,
        15,  -8,  34, 21,  -2, 31, -24, 53,  -37, -28, -6,  -5, -15}},
      {"dilated",
       2,
       {2, 4, 4, 2},
       {2, 3, 2, 2},
       {2, 8, 2, 2},
       {window(2, 1, 1, 1, 1, 2), window(3, 1, 2, 0, 2, 1)},
       NHWC(1, 1),
       {9, 25, -1, -33, 4,  9, 9, -1, -42, 13, 3, -34, 24, -42, 7, 3,  -5,  -32, 7, -35, 11, -5,
        5, 7,  -1, -33, 11, 8, 9, -1, -41, 11, 3, -34, 15, 7,   7, 3,  -43, 15,  7, -35, -3, 28,
        5, 7,  10, -3,  11, 8, 1, 27, -41, 11, 8, 1,   15, 7,   5, 26, -43, 15,  6, 5}},
      {"negative padding",
       2,
       {1, 5, 6, 1},
       {2, 2, 1, 2},
       {1, 3, 3, 2},
       {window(2, 1, -1, 0, 1, 1), window(2, 1, 0, -2, 1, 1)},
       NHWC(1, 1),
       {-18, 28, -2, -24, -8, 23, -10, -20, 6, -28, 33, 8, -2, -24, -8, 23, -14, 26}},
      {"feature groups",
       2,
       {1, 3, 3, 4},
       {2, 2, 2, 6},
       {1, 2, 2, 6},
       {window(2, 1, 0, 0, 1, 1), window(2, 1, 0, 0, 1, 1)},
       NHWC(2, 1),
       {2,   21, -26, 32, -23, -1, -26, 21,  2,  -33, 39, 1,
        -27, 21, 3,   2,  9,   16, 33,  -56, 31, 14,  27, -26}},
      {"nchw",
       2,
       {2, 2, 3, 3},
       {3, 2, 2, 2},
       {2, 3, 2, 3},
       {window(2, 1, 0, 0, 1, 1), window(2, 1, 1, 0, 1, 1)},
       {0, 1, 1, 0, 0, 1, 2, (int64_t[]){2, 3}, (int64_t[]){2, 3}, (int64_t[]){2, 3}, 1, 1},
       {26,  -9,  -23, 46,  -62, -21, -34, -13, 18, 4, -52, 23,  -39, -6, 26, 6, -42, 23,
        -19, -19, 55,  -21, 38,  -9,  -4,  28,  26, 1, -22, -13, 0,   20, 19, 1, -27, -6}},
      {"batch groups",
       2,
       {4, 3, 3, 2},
       {2, 2, 2, 4},
       {2, 2, 2, 4},
       {window(2, 1, 0, 0, 1, 1), window(2, 1, 0, 0, 1, 1)},
       NHWC(1, 2),
       {-22, 2,   -23, 11, 42,  -52, 3,  -26, -6, 27,  11, -23, 25, -16, -29, 39,
        15,  -11, 13,  8,  -42, 56,  39, -29, 42, -52, 3,  -26, 7,  -7,  -26, 3}},
      {"as many batch groups as batches",
       2,
       {4, 3, 3, 1},
       {2, 2, 1, 8},
       {1, 2, 2, 8},
       {window(2, 1, 0, 0, 1, 1), window(2, 1, 0, 0, 1, 1)},
       NHWC(1, 4),
       {11, -5, 13, 12, -13, 1,   -1, 39, 9, -31, 18, -7, 21, 0,  7, -21,
        5,  5,  39, -1, 1,   -13, 12, 13, 3, -21, 11, -9, -9, 19, 9, -58}},
      {"odd dimension order",
       1,
       {2, 5, 3},
       {2, 2, 2},
       {3, 3, 2},
       {window(2, 2, 1, 1, 1, 1)},
       {2, 0, 1, 2, 1, 2, 1, (int64_t[]){1}, (int64_t[]){0}, (int64_t[]){0}, 1, 1},
       {2, 16, -25, 10, 3, -18, 25, 11, -14, -19, -20, 28, -22, 29, -6, -23, 21, 13}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    check_convolution(&rows[i], TRM_F32);
    check_convolution(&rows[i], TRM_F16);
    check_convolution(&rows[i], TRM_S32);
  }
}

static void test_convolution_reversal(void **unused) {
  (void)unused;
  for (int reversal = 0; reversal < 2; ++reversal) {
    test_case c;
    case_begin(&c);
    trm_window_dimension dims[1] = {window(3, 1, 0, 0, 1, 1)};
    dims[0].reversal = reversal != 0;
    trm_window w = {1, dims};
    trm_convolution numbers = {0, 2, 1, 2, 0, 2, 1, (int64_t[]){1}, (int64_t[]){0}, (int64_t[]){1},
                               1, 1};
    case_input(&c, TRM_F32, 3, DIMS(1, 4, 1), NUMBERS(1, 2, 3, 4));
    case_input(&c, TRM_F32, 3, DIMS(3, 1, 1), NUMBERS(1, 10, 100));
    case_run(&c,
             (trm_instruction){.opcode = TRM_OP_CONVOLUTION, .window = &w, .convolution = &numbers},
             case_shape(&c, TRM_F32, 3, DIMS(1, 2, 1)));
    case_expect(&c, 0, reversal ? NUMBERS(123, 234) : NUMBERS(321, 432), 0);
    case_end(&c);
  }
}

/* Many small halves: summed wide, rounded once. */
static void test_wide_sums(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  double a[100], b[100];
  for (int i = 0; i < 100; ++i) a[i] = i == 0 ? 2048 : 1, b[i] = 1;
  trm_dot dot = {.lhs_contracting = LIST(0), .rhs_contracting = LIST(0)};
  case_input(&c, TRM_F16, 1, DIMS(100), a);
  case_input(&c, TRM_F16, 1, DIMS(100), b);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &dot},
           case_shape(&c, TRM_F16, 0, NULL));
  case_expect(&c, 0, NUMBERS(2148), 0); /* 2147 rounded to even; one by one it stays 2048 */
  case_end(&c);
}

static void test_dot(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  trm_dot batched = {.lhs_batch = LIST(2),
                     .rhs_batch = LIST(0),
                     .lhs_contracting = LIST(0),
                     .rhs_contracting = LIST(2)};
  case_input_pattern(&c, TRM_F32, 3, DIMS(3, 2, 2), 3);
  case_input_pattern(&c, TRM_F32, 3, DIMS(2, 4, 3), 5);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &batched},
           case_shape(&c, TRM_F32, 3, DIMS(2, 2, 4)));
  case_expect(&c, 0, NUMBERS(-19, -20, 23, 22, 22, 23, -20, -19, -15, -15, 40, 40, 23, 25, -6, -4),
              0);
  case_end(&c);
  case_begin(&c);
  trm_dot two = {.lhs_contracting = LIST(2, 0), .rhs_contracting = LIST(0, 1)};
  case_input_pattern(&c, TRM_BF16, 3, DIMS(2, 3, 4), 3);
  case_input_pattern(&c, TRM_BF16, 3, DIMS(4, 2, 3), 5);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &two},
           case_shape(&c, TRM_BF16, 2, DIMS(3, 3)));
  case_expect(&c, 0, NUMBERS(-6, 6, 7, 24, -35, 5, 21, 12, -30), 0);
  case_end(&c);
  case_begin(&c); /* bytes into words; nothing to sum */
  trm_dot inner = {.lhs_contracting = LIST(1), .rhs_contracting = LIST(0)};
  case_input(&c, TRM_S8, 2, DIMS(1, 2), NUMBERS(-128, 127));
  case_input(&c, TRM_S8, 2, DIMS(2, 1), NUMBERS(-128, 127));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &inner},
           case_shape(&c, TRM_S32, 2, DIMS(1, 1)));
  case_expect(&c, 0, NUMBERS(32513), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 2, DIMS(2, 0), NULL);
  case_input(&c, TRM_F32, 2, DIMS(0, 1), NULL);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &inner},
           case_shape(&c, TRM_F32, 2, DIMS(2, 1)));
  case_expect(&c, 0, NUMBERS(0, 0), 0);
  case_end(&c);
  case_begin(&c); /* 32-bit products wrap */
  case_input(&c, TRM_S32, 2, DIMS(1, 2), NUMBERS(2147483647, 65536));
  case_input(&c, TRM_S32, 2, DIMS(2, 1), NUMBERS(2, 65536));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &inner},
           case_shape(&c, TRM_S32, 2, DIMS(1, 1)));
  case_expect(&c, 0, NUMBERS(-2), 0);
  case_end(&c);
  case_begin(&c); /* truth values; complex */
  case_input(&c, TRM_PRED, 2, DIMS(2, 2), NUMBERS(1, 0, 0, 0));
  case_input(&c, TRM_PRED, 2, DIMS(2, 1), NUMBERS(1, 1));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &inner},
           case_shape(&c, TRM_PRED, 2, DIMS(2, 1)));
  case_expect(&c, 0, NUMBERS(1, 0), 0);
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_C64, 2, DIMS(1, 2), NUMBERS(1, 2, 0, 1));
  case_input(&c, TRM_C64, 2, DIMS(2, 1), NUMBERS(3, -1, 0, 1));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_DOT, .dot = &inner},
           case_shape(&c, TRM_C64, 2, DIMS(1, 1)));
  case_expect(&c, 0, NUMBERS(4, 5), 0);
  case_end(&c);
}

static void test_cholesky(void **unused) {
  (void)unused;
  for (int lower = 0; lower < 2; ++lower) {
    test_case c;
    case_begin(&c); /* two matrices; the second is not positive definite */
    const double a[2][9] = {{4, 9, 9, 2, 10, 9, 6, 5, 29}, {4, 2, 6, 9, 10, 5, 9, 9, 29}};
    const double other[9] = {4, 9, 9, 9, 10, 9, 9, 9, -50};
    double both[18];
    memcpy(both, a[lower ? 0 : 1], sizeof a[0]);
    memcpy(both + 9, other, sizeof other);
    case_input(&c, TRM_F32, 3, DIMS(2, 3, 3), both);
    case_run(&c, (trm_instruction){.opcode = TRM_OP_CHOLESKY, .lower = lower != 0},
             case_shape(&c, TRM_F32, 3, DIMS(2, 3, 3)));
    case_expect(&c, 0,
                lower ? NUMBERS(2, 0, 0, 1, 3, 0, 3, 0.666667, 4.42217, NAN, 0, 0, NAN, NAN, 0, NAN,
                                NAN, NAN)
                      : NUMBERS(2, 1, 3, 0, 3, 0.666667, 0, 0, 4.42217, NAN, NAN, NAN, 0, NAN, NAN,
                                0, 0, NAN),
                1e-6);
    case_end(&c);
  }
}

static void test_triangular_solve(void **unused) {
  (void)unused;
  static const double want[2][2][6] = {
      {{1.7, 5.2, -1.6, -0.6, 1, 0}, {-1, 2.5, 2, -5.1, -1.25, 5.85}},
      {{-1, 2.5, 1, -2.6, 3.25, -5.7}, {-5.6, 3.7, 0.8, -0.6, 1, 0}}};
  for (int lower = 0; lower < 2; ++lower) {
    for (int transpose = 0; transpose < 2; ++transpose) {
      test_case c;
      case_begin(&c);
      trm_triangular_solve solve = {true, lower != 0, false, transpose ? 3 : 1};
      case_input(&c, TRM_F32, 2, DIMS(3, 3), NUMBERS(2, 9, 9, 4, 5, 9, 6, -3, 4));
      case_input_pattern(&c, TRM_F32, 2, DIMS(3, 2), 3);
      case_run(&c, (trm_instruction){.opcode = TRM_OP_TRIANGULAR_SOLVE, .triangular_solve = &solve},
               case_shape(&c, TRM_F32, 2, DIMS(3, 2)));
      case_expect(&c, 0, want[lower][transpose], 1e-6);
      case_end(&c);
      /* From the right: X op(A) = B, checked by multiplying back; unit diagonal. */
      case_begin(&c);
      trm_triangular_solve right = {false, lower != 0, true, transpose ? 2 : 1};
      const double a[2][2] = {{7, 3}, {-2, 7}};
      case_input(&c, TRM_F64, 2, DIMS(2, 2), &a[0][0]);
      case_input(&c, TRM_F64, 2, DIMS(1, 2), NUMBERS(5, 11));
      case_run(&c, (trm_instruction){.opcode = TRM_OP_TRIANGULAR_SOLVE, .triangular_solve = &right},
               case_shape(&c, TRM_F64, 2, DIMS(1, 2)));
      const double *x = (const double *)c.results[0];
      const double off = lower ? a[1][0] : a[0][1];
      const bool acts_lower = (lower != 0) != (transpose != 0); /* op(A) = [1 0; off 1] */
      assert_true(fabs(x[0] + (acts_lower ? off * x[1] : 0.0) - 5) < 1e-12);
      assert_true(fabs(x[1] + (acts_lower ? 0.0 : off * x[0]) - 11) < 1e-12);
      case_end(&c);
    }
  }
}

static void test_fft(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_input_pattern(&c, TRM_F32, 2, DIMS(2, 6), 3);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_FFT, .fft_type = 2, .sizes = LIST(6)},
           case_shape(&c, TRM_C64, 2, DIMS(2, 4)));
  case_expect(&c, 0,
              NUMBERS(5, 0, 1, -1.7320508, -10, -6.9282032, 1, 0, -7, 0, 1, -1.7320508, -10,
                      -6.9282032, 1, 0),
              1e-6);
  case_end(&c);
  case_begin(&c);
  double complex_pattern[16];
  for (int i = 0; i < 8; ++i) {
    complex_pattern[2 * i] = (i * 7 + 3) % 11 - 5;
    complex_pattern[2 * i + 1] = (i * 7 + 5) % 11 - 5;
  }
  case_input(&c, TRM_C64, 2, DIMS(2, 4), complex_pattern);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_FFT, .fft_type = 1, .sizes = LIST(2, 4)},
           case_shape(&c, TRM_C64, 2, DIMS(2, 4)));
  case_expect(&c, 0,
              NUMBERS(0.5, -0.25, 1.375, -0.125, -0.75, -0.75, -0.125, -1.375, -0.25, -0.25, -1.375,
                      1.375, 0, 2.75, -1.375, -1.375),
              1e-6);
  case_end(&c);
  static const double rows4[8] = {2.25, 1.25, -2.75, -2.75, 1.25, 1.75, -2.75, -3.25};
  static const double rows5[10] = {2, 0.71077514, 0.18729679,  -3.9761513, -0.92192078,
                                   1, 1.3263119,  0.041988302, -3.8308423, -1.5374573};
  for (int n = 4; n <= 5; ++n) {
    case_begin(&c);
    case_input(&c, TRM_C64, 2, DIMS(2, 3), complex_pattern);
    trm_dims length = {1, (int64_t[]){n}};
    case_run(&c, (trm_instruction){.opcode = TRM_OP_FFT, .fft_type = 3, .sizes = length},
             case_shape(&c, TRM_F32, 2, DIMS(2, n)));
    case_expect(&c, 0, n == 4 ? rows4 : rows5, 1e-6);
    case_end(&c);
  }
  case_begin(&c);
  case_input(&c, TRM_C64, 2, DIMS(2, 3), complex_pattern);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_FFT, .fft_type = 3, .sizes = LIST(2, 4)},
           case_shape(&c, TRM_F32, 2, DIMS(2, 4)));
  case_expect(&c, 0, NUMBERS(1.75, 1.5, -2.75, -3, 0.5, -0.25, 0, 0.25), 1e-6);
  case_end(&c);
}

static void test_qr(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c); /* by hand */
  trm_custom_call qr = {"Qr", false, 0};
  const trm_shape parts[2] = {case_shape(&c, TRM_F32, 2, DIMS(2, 2)),
                              case_shape(&c, TRM_F32, 1, DIMS(2))};
  trm_shape pair;
  assert_true(trm_shape_make_tuple(&c.module->arena, 2, parts, &pair));
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(3, 1, 4, 2));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_CUSTOM_CALL, .custom_call = &qr}, pair);
  case_expect(&c, 0, NUMBERS(-5, -2.2, 0.5, 0.4), 1e-6);
  case_expect(&c, 1, NUMBERS(1.6, 0), 1e-6);
  case_end(&c);
  case_begin(&c);
  trm_custom_call product = {"ProductOfElementaryHouseholderReflectors", false, 0};
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(-5, -2.2, 0.5, 0.4));
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(1.6, 0));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_CUSTOM_CALL, .custom_call = &product},
           case_shape(&c, TRM_F32, 2, DIMS(2, 2)));
  case_expect(&c, 0, NUMBERS(-0.6, -0.8, -0.8, 0.6), 1e-6);
  case_end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_convolution), cmocka_unit_test(test_convolution_reversal),
      cmocka_unit_test(test_wide_sums),   cmocka_unit_test(test_dot),
      cmocka_unit_test(test_cholesky),    cmocka_unit_test(test_triangular_solve),
      cmocka_unit_test(test_fft),         cmocka_unit_test(test_qr),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

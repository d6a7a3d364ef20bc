/* The reference kernels of elementwise opcodes: edge cases of every opcode and type. Expected
 * values are worked out by hand or come from XLA on a CPU (TensorFlow 2.15.1). */
#include "reference_case.h"

#define INF INFINITY
#define MAX_N 12

typedef struct row {
  trm_opcode opcode;
  trm_dtype from, to;
  int n;
  double a[MAX_N], b[MAX_N], want[MAX_N];
  double tolerance; /* 0: exact */
} row;

static const double min32 = -2147483648.0, max32 = 2147483647.0;

static bool casts_wrap; /* in the modules of rows */

static void check_row(const row *r, size_t number) {
  test_case c;
  case_begin(&c);
  c.module->casts_wrap = casts_wrap;
  const int64_t n = r->n;
  case_input(&c, r->from, 1, &n, r->a);
  if (trm_opcode_class_of(r->opcode) == TRM_CLASS_BINARY) case_input(&c, r->from, 1, &n, r->b);
  print_message("row %zu: %s %s -> %s\n", number, trm_opcode_name(r->opcode),
                trm_dtype_name(r->from), trm_dtype_name(r->to));
  case_run(&c, (trm_instruction){.opcode = r->opcode}, case_shape(&c, r->to, 1, &n));
  case_expect(&c, 0, r->want, r->tolerance);
  case_end(&c);
}

#define CHECK_ROWS(rows) \
  for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); ++i) check_row(&(rows)[i], i)

static void test_float_unary(void **unused) {
  (void)unused;
  const row rows[] = {
      {TRM_OP_ABS, TRM_F32, TRM_F32, 4, {-1.5, -0.0, -INF, NAN}, {0}, {1.5, 0.0, INF, NAN}, 0},
      {TRM_OP_NEGATE, TRM_F32, TRM_F32, 3, {1, 0.0, -INF}, {0}, {-1, -0.0, INF}, 0},
      {TRM_OP_SIGN,
       TRM_F32,
       TRM_F32,
       6,
       {0.0, -0.0, NAN, INF, -INF, -1e-30},
       {0},
       {0.0, -0.0, NAN, 1, -1, -1},
       0},
      {TRM_OP_ROUND_NEAREST_EVEN,
       TRM_F32,
       TRM_F32,
       7,
       {0.5, 1.5, 2.5, -0.5, -2.5, NAN, 0.49999997},
       {0},
       {0, 2, 2, -0.0, -2, NAN, 0},
       0},
      {TRM_OP_ROUND_NEAREST_AFZ,
       TRM_F32,
       TRM_F32,
       7,
       {0.5, 1.5, 2.5, -0.5, -2.5, NAN, 0.49999997},
       {0},
       {1, 2, 3, -1, -3, NAN, 0},
       0},
      {TRM_OP_FLOOR,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, 1.5, -0.5, INF, NAN},
       {0},
       {-0.0, 1, -1, INF, NAN},
       0},
      {TRM_OP_CEIL,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, 1.5, -0.5, -INF, 1e-30},
       {0},
       {-0.0, 2, -0.0, -INF, 1},
       0},
      {TRM_OP_SQRT,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, 4, -1, INF, 2},
       {0},
       {-0.0, 2, NAN, INF, (double)1.41421356f},
       0},
      {TRM_OP_RSQRT,
       TRM_F32,
       TRM_F32,
       5,
       {0.0, -0.0, INF, -1, 16},
       {0},
       {INF, -INF, 0, NAN, 0.25},
       0},
      {TRM_OP_CBRT, TRM_F32, TRM_F32, 5, {27, -8, -0.0, INF, NAN}, {0}, {3, -2, -0.0, INF, NAN}, 0},
      {TRM_OP_EXPONENTIAL,
       TRM_F32,
       TRM_F32,
       6,
       {0, -INF, INF, NAN, 88.8, 1},
       {0},
       {1, 0, INF, NAN, INF, (double)2.71828183f},
       0},
      {TRM_OP_EXPONENTIAL_MINUS_ONE,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, -INF, INF, 1e-30, 0.5},
       {0},
       {-0.0, -1, INF, (double)1e-30f, (double)0.64872127f},
       0},
      {TRM_OP_LOG,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, -1, INF, NAN, 2.5},
       {0},
       {-INF, NAN, INF, NAN, (double)0.916290732f},
       0},
      {TRM_OP_LOG_PLUS_ONE,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, -1, -2, INF, 1e-30},
       {0},
       {-0.0, -INF, NAN, INF, (double)1e-30f},
       0},
      {TRM_OP_LOGISTIC,
       TRM_F32,
       TRM_F32,
       6,
       {0, INF, -INF, NAN, -100, 0.5},
       {0},
       {0.5, 1, 0, NAN, (double)3.7835059e-44f, (double)0.62245935f},
       0},
      {TRM_OP_TANH,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, INF, -INF, NAN, 1.5},
       {0},
       {-0.0, 1, -1, NAN, (double)0.905148254f},
       0},
      {TRM_OP_ERF,
       TRM_F32,
       TRM_F32,
       5,
       {-0.0, INF, -INF, NAN, 0.5},
       {0},
       {-0.0, 1, -1, NAN, (double)0.52049988f},
       0},
      {TRM_OP_SINE,
       TRM_F32,
       TRM_F32,
       4,
       {-0.0, INF, NAN, 2.5},
       {0},
       {-0.0, NAN, NAN, (double)0.59847214f},
       0},
      {TRM_OP_COSINE,
       TRM_F32,
       TRM_F32,
       4,
       {0, -INF, NAN, 2.5},
       {0},
       {1, NAN, NAN, (double)-0.8011436f},
       0},
      {TRM_OP_TAN, TRM_F32, TRM_F32, 3, {-0.0, INF, 1}, {0}, {-0.0, NAN, (double)1.5574077f}, 0},
      {TRM_OP_ACOS,
       TRM_F32,
       TRM_F32,
       4,
       {1, -1, 1.5, 0.5},
       {0},
       {0, (double)3.14159274f, NAN, (double)1.04719755f},
       0},
      {TRM_OP_ASIN,
       TRM_F32,
       TRM_F32,
       4,
       {-0.0, 1, -2, 0.5},
       {0},
       {-0.0, (double)1.57079633f, NAN, (double)0.52359878f},
       0},
      {TRM_OP_ACOSH,
       TRM_F32,
       TRM_F32,
       4,
       {1, INF, 0.5, 2},
       {0},
       {0, INF, NAN, (double)1.3169579f},
       0},
      {TRM_OP_ASINH,
       TRM_F32,
       TRM_F32,
       4,
       {-0.0, -INF, NAN, 2},
       {0},
       {-0.0, -INF, NAN, (double)1.44363548f},
       0},
      {TRM_OP_ATAN,
       TRM_F32,
       TRM_F32,
       4,
       {-0.0, INF, NAN, 1},
       {0},
       {-0.0, (double)1.57079637f, NAN, (double)0.785398185f},
       0},
      {TRM_OP_MULHI, TRM_S32, TRM_S32, 3, {-1, 65536, 1 << 30}, {1, 65537, 12}, {-1, 1, 3}, 0},
      {TRM_OP_ATANH,
       TRM_F32,
       TRM_F32,
       4,
       {-0.0, -1, 2, 0.5},
       {0},
       {-0.0, -INF, NAN, (double)0.54930614f},
       0},
      {TRM_OP_COSH,
       TRM_F32,
       TRM_F32,
       4,
       {-0.0, -INF, NAN, 1},
       {0},
       {1, INF, NAN, (double)1.54308063f},
       0},
      {TRM_OP_SINH,
       TRM_F32,
       TRM_F32,
       4,
       {-0.0, -INF, NAN, 1},
       {0},
       {-0.0, -INF, NAN, (double)1.17520119f},
       0},
      {TRM_OP_IS_FINITE, TRM_F32, TRM_PRED, 5, {0, INF, -INF, NAN, 1e38}, {0}, {1, 0, 0, 0, 1}, 0},
      {TRM_OP_REAL, TRM_F32, TRM_F32, 1, {-3}, {0}, {-3}, 0},
      {TRM_OP_IMAG, TRM_F32, TRM_F32, 1, {-3}, {0}, {0}, 0},
      /* Rounded once to the type, by way of f32. */
      {TRM_OP_EXPONENTIAL,
       TRM_F16,
       TRM_F16,
       3,
       {1, 11.0859375, 11.1},
       {0},
       {2.71875, 65248, INF},
       0},
      {TRM_OP_RSQRT, TRM_BF16, TRM_BF16, 2, {3, 16}, {0}, {0.578125, 0.25}, 0},
      {TRM_OP_LOG, TRM_F64, TRM_F64, 1, {2}, {0}, {0.69314718055994530942}, 0},
  };
  CHECK_ROWS(rows);
}

static void test_float_binary(void **unused) {
  (void)unused;
  const row rows[] = {
      {TRM_OP_ADD,
       TRM_F16,
       TRM_F16,
       4,
       {65504, 65504, 2048, 2048},
       {16, 15.9921875, 1, 3},
       {INF, 65504, 2048, 2052},
       0},
      {TRM_OP_ADD, TRM_BF16, TRM_BF16, 2, {256, 256}, {1, 3}, {256, 260}, 0},
      {TRM_OP_SUBTRACT, TRM_F32, TRM_F32, 3, {INF, 1, -0.0}, {INF, 1, 0.0}, {NAN, 0, -0.0}, 0},
      {TRM_OP_MULTIPLY, TRM_F32, TRM_F32, 3, {INF, 1e30, -0.0}, {0, 1e30, 2}, {NAN, INF, -0.0}, 0},
      {TRM_OP_MULTIPLY,
       TRM_F16,
       TRM_F16,
       2,
       {0.00006103515625, 3},
       {0.5, 1.0009765625},
       {0.000030517578125, 3.00390625},
       0},
      {TRM_OP_DIVIDE,
       TRM_F32,
       TRM_F32,
       4,
       {1, -1, 0, 1},
       {0.0, 0.0, 0, 3},
       {INF, -INF, NAN, (double)0.33333334f},
       0},
      {TRM_OP_REMAINDER,
       TRM_F32,
       TRM_F32,
       7,
       {5.5, -5.5, 5.5, 0, -0.0, INF, 1},
       {2, 2, -2, 0, 3, 2, INF},
       {1.5, -1.5, 1.5, NAN, -0.0, NAN, 1},
       0},
      {TRM_OP_POWER,
       TRM_F32,
       TRM_F32,
       12,
       {0, 0, -0.0, -0.0, 1, -1, -8, 2, INF, -INF, NAN, 0},
       {0, -1, -1, -2, NAN, INF, 0.33333334, INF, 0, 3, 0, NAN},
       {1, INF, -INF, INF, 1, 1, NAN, INF, 1, -INF, 1, NAN},
       0},
      {TRM_OP_ATAN2,
       TRM_F32,
       TRM_F32,
       5,
       {0.0, -0.0, -0.0, 1, NAN},
       {-0.0, 0.0, -1, 1, 1},
       {(double)3.1415927f, -0.0, (double)-3.1415927f, (double)0.78539816f, NAN},
       0},
      /* NaN when either is; of +0 and -0 the first. */
      {TRM_OP_MAXIMUM,
       TRM_F32,
       TRM_F32,
       6,
       {0.0, -0.0, NAN, 1, -INF, 2},
       {-0.0, 0.0, 1, NAN, -1, 3},
       {0.0, -0.0, NAN, NAN, -1, 3},
       0},
      {TRM_OP_MINIMUM,
       TRM_F32,
       TRM_F32,
       6,
       {0.0, -0.0, NAN, 1, -INF, 2},
       {-0.0, 0.0, 1, NAN, -1, 3},
       {0.0, -0.0, NAN, NAN, -INF, 2},
       0},
  };
  CHECK_ROWS(rows);
}

static void test_integers(void **unused) {
  (void)unused;
  const row rows[] = {
      {TRM_OP_ADD, TRM_S32, TRM_S32, 2, {max32, min32}, {1, -1}, {min32, max32}, 0},
      {TRM_OP_ADD, TRM_S8, TRM_S8, 2, {127, -128}, {1, -1}, {-128, 127}, 0},
      {TRM_OP_ADD, TRM_U8, TRM_U8, 1, {255}, {2}, {1}, 0},
      {TRM_OP_SUBTRACT, TRM_U32, TRM_U32, 1, {0}, {1}, {4294967295.0}, 0},
      {TRM_OP_MULTIPLY,
       TRM_S32,
       TRM_S32,
       3,
       {65536, min32, -3},
       {65536, -1, 5},
       {0, min32, -15},
       0},
      {TRM_OP_MULTIPLY, TRM_S16, TRM_S16, 1, {300}, {300}, {24464}, 0},
      {TRM_OP_DIVIDE,
       TRM_S32,
       TRM_S32,
       7,
       {7, -7, 7, -7, min32, 5, 0},
       {0, 0, -2, 2, -1, max32, 0},
       {-1, -1, -3, -3, min32, 0, -1},
       0},
      {TRM_OP_REMAINDER,
       TRM_S32,
       TRM_S32,
       7,
       {7, -7, 7, -7, min32, 5, 0},
       {0, 0, -2, 2, -1, max32, 0},
       {7, -7, 1, -1, 0, 5, 0},
       0},
      {TRM_OP_DIVIDE, TRM_S8, TRM_S8, 2, {-128, 5}, {-1, 0}, {-128, -1}, 0},
      {TRM_OP_DIVIDE,
       TRM_U32,
       TRM_U32,
       3,
       {7, 0, 4294967289.0},
       {0, 0, 2},
       {4294967295.0, 4294967295.0, 2147483644},
       0},
      {TRM_OP_REMAINDER, TRM_U8, TRM_U8, 2, {7, 250}, {0, 7}, {7, 5}, 0},
      {TRM_OP_POWER,
       TRM_S32,
       TRM_S32,
       11,
       {0, 0, 0, 1, 1, -1, -1, 2, 2, -2, 3},
       {-1, 0, 3, -1, -5, -1, -2, -1, 33, 31, 2},
       {0, 1, 0, 1, 1, -1, 1, 0, 0, min32, 9},
       0},
      {TRM_OP_MAXIMUM, TRM_S8, TRM_S8, 2, {-1, 5}, {1, -128}, {1, 5}, 0},
      {TRM_OP_MINIMUM, TRM_U8, TRM_U8, 2, {255, 5}, {1, 128}, {1, 5}, 0},
      {TRM_OP_AND, TRM_S32, TRM_S32, 2, {-1, 12}, {5, 10}, {5, 8}, 0},
      {TRM_OP_OR, TRM_U8, TRM_U8, 1, {12}, {10}, {14}, 0},
      {TRM_OP_XOR, TRM_S16, TRM_S16, 1, {-1}, {10}, {-11}, 0},
      {TRM_OP_NOT, TRM_S32, TRM_S32, 2, {0, 7}, {0}, {-1, -8}, 0},
      {TRM_OP_NOT, TRM_U8, TRM_U8, 1, {1}, {0}, {254}, 0},
      {TRM_OP_SHIFT_LEFT,
       TRM_S32,
       TRM_S32,
       7,
       {-5, -5, -5, -5, -5, -5, -5},
       {0, 1, 31, 32, 33, -1, 100},
       {-5, -10, min32, 0, 0, 0, 0},
       0},
      {TRM_OP_SHIFT_RIGHT_ARITHMETIC,
       TRM_S32,
       TRM_S32,
       7,
       {-5, -5, -5, -5, 5, -5, -5},
       {0, 1, 31, 32, 33, -1, 100},
       {-5, -3, -1, -1, 0, -1, -1},
       0},
      {TRM_OP_SHIFT_RIGHT_LOGICAL,
       TRM_S32,
       TRM_S32,
       7,
       {-5, -5, -5, -5, -5, -5, -5},
       {0, 1, 31, 32, 33, -1, 100},
       {-5, 2147483645, 1, 0, 0, 0, 0},
       0},
      {TRM_OP_SHIFT_RIGHT_LOGICAL, TRM_S8, TRM_S8, 3, {-1, -1, -1}, {1, 7, 8}, {127, 1, 0}, 0},
      {TRM_OP_SHIFT_RIGHT_ARITHMETIC, TRM_U8, TRM_U8, 2, {128, 128}, {1, 9}, {192, 255}, 0},
      {TRM_OP_ABS, TRM_S32, TRM_S32, 2, {min32, -7}, {0}, {min32, 7}, 0},
      {TRM_OP_NEGATE, TRM_S8, TRM_S8, 2, {-128, 1}, {0}, {-128, -1}, 0},
      {TRM_OP_SIGN, TRM_S32, TRM_S32, 3, {min32, 0, 5}, {0}, {-1, 0, 1}, 0},
      {TRM_OP_SIGN, TRM_U8, TRM_U8, 2, {200, 0}, {0}, {1, 0}, 0},
      {TRM_OP_POPULATION_COUNT, TRM_S8, TRM_S8, 3, {-1, 0, 5}, {0}, {8, 0, 2}, 0},
      {TRM_OP_COUNT_LEADING_ZEROS, TRM_S16, TRM_S16, 3, {0, -1, 1}, {0}, {16, 0, 15}, 0},
      {TRM_OP_COUNT_LEADING_ZEROS, TRM_U64, TRM_U64, 2, {0, 1}, {0}, {64, 63}, 0},
      {TRM_OP_ADD, TRM_PRED, TRM_PRED, 4, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 1}, 0},
      {TRM_OP_MULTIPLY, TRM_PRED, TRM_PRED, 4, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, 0},
      {TRM_OP_XOR, TRM_PRED, TRM_PRED, 4, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 0}, 0},
      {TRM_OP_MAXIMUM, TRM_PRED, TRM_PRED, 2, {0, 1}, {1, 0}, {1, 1}, 0},
      {TRM_OP_NOT, TRM_PRED, TRM_PRED, 2, {0, 1}, {0}, {1, 0}, 0},
  };
  CHECK_ROWS(rows);
}

static void test_convert(void **unused) {
  (void)unused;
  const double edge[MAX_N] = {NAN, INF, -INF, -1.9, -0.5, 1.9, 128, -129, 256, 3e9, -3e9, 1e20};
#define EDGE                                                                                  \
  {                                                                                           \
    edge[0], edge[1], edge[2], edge[3], edge[4], edge[5], edge[6], edge[7], edge[8], edge[9], \
        edge[10], edge[11]                                                                    \
  }
  const double s64max = 9223372036854775808.0; /* the nearest double */
  const row rows[] = {
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_S8,
       12,
       EDGE,
       {0},
       {0, 0, 0, -1, 0, 1, -128, 127, 0, 0, 0, 0},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_U8,
       12,
       EDGE,
       {0},
       {0, 0, 0, 255, 0, 1, 128, 127, 0, 0, 0, 0},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_S16,
       12,
       EDGE,
       {0},
       {0, 0, 0, -1, 0, 1, 128, -129, 256, 0, 0, 0},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_U16,
       12,
       EDGE,
       {0},
       {0, 0, 0, 65535, 0, 1, 128, 65407, 256, 0, 0, 0},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_S32,
       12,
       EDGE,
       {0},
       {min32, min32, min32, -1, 0, 1, 128, -129, 256, min32, min32, min32},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_U32,
       12,
       EDGE,
       {0},
       {0, 0, 0, 4294967295.0, 0, 1, 128, 4294967167.0, 256, 3e9, 1294967296, 0},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_S64,
       12,
       EDGE,
       {0},
       {-s64max, -s64max, -s64max, -1, 0, 1, 128, -129, 256, 3e9, -3e9, -s64max},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_U64,
       12,
       EDGE,
       {0},
       {s64max, s64max, s64max, 2 * s64max, 0, 1, 128, 2 * s64max, 256, 3e9, 2 * s64max - 3e9,
        s64max},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_U64,
       3,
       {1e19, 2e19, -1e19},
       {0},
       {9999999980506447872.0, s64max, s64max},
       0},
      {TRM_OP_CONVERT, TRM_F32, TRM_PRED, 5, {NAN, 0, -0.0, 1e-30, -3}, {0}, {1, 0, 0, 1, 1}, 0},
      {TRM_OP_CONVERT, TRM_F16, TRM_S8, 4, {200, NAN, -65504, -1.5}, {0}, {-56, 0, 32, -1}, 0},
      {TRM_OP_CONVERT, TRM_S32, TRM_PRED, 3, {0, 256, -1}, {0}, {0, 1, 1}, 0},
      {TRM_OP_CONVERT, TRM_PRED, TRM_F16, 2, {0, 1}, {0}, {0, 1}, 0},
      {TRM_OP_CONVERT, TRM_PRED, TRM_S32, 2, {0, 1}, {0}, {0, 1}, 0},
      {TRM_OP_CONVERT, TRM_S32, TRM_S8, 3, {128, -129, 257}, {0}, {-128, 127, 1}, 0},
      {TRM_OP_CONVERT, TRM_S8, TRM_U32, 1, {-1}, {0}, {4294967295.0}, 0},
      {TRM_OP_CONVERT, TRM_U8, TRM_S32, 1, {255}, {0}, {255}, 0},
      {TRM_OP_CONVERT, TRM_S8, TRM_U64, 1, {-1}, {0}, {2 * s64max}, 0},
      {TRM_OP_CONVERT,
       TRM_S32,
       TRM_F32,
       4,
       {16777217, 16777219, -16777217, max32},
       {0},
       {16777216, 16777220, -16777216, 2147483648.0},
       0},
      {TRM_OP_CONVERT,
       TRM_S32,
       TRM_F16,
       5,
       {65520, 65519, -65520, 2049, 2051},
       {0},
       {INF, 65504, -INF, 2048, 2052},
       0},
      {TRM_OP_CONVERT, TRM_S32, TRM_BF16, 3, {65520, 2049, 2056}, {0}, {65536, 2048, 2048}, 0},
      {TRM_OP_CONVERT,
       TRM_F64,
       TRM_F16,
       8,
       {2049.0000001, 1.00048828218, 65519.999999, 65520, 6e-8, 2.98023224e-8, 2.9802325e-8,
        1e-300},
       {0},
       {2048, 1, INF, INF, 5.9604644775390625e-8, 0, 5.9604644775390625e-8, 0},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_F16,
       4,
       {65519.996, 65520, -1e-9, NAN},
       {0},
       {65504, INF, -0.0, NAN},
       0},
      {TRM_OP_CONVERT,
       TRM_F32,
       TRM_BF16,
       3,
       {1.00390625, 1.01171875, 3.4e38},
       {0},
       {1, 1.015625, INF},
       0},
      {TRM_OP_CONVERT, TRM_BF16, TRM_F32, 2, {1.0078125, -INF}, {0}, {1.0078125, -INF}, 0},
  };
  casts_wrap = true;
  CHECK_ROWS(rows);
  casts_wrap = false;
}

/* 64-bit integers that a double cannot hold. */
static void test_wide_integers(void **unused) {
  (void)unused;
  const int64_t n = 4;
  const int64_t a[4] = {INT64_MAX, INT64_MIN, 9007199254740993, -7};
  const int64_t b[4] = {2, -1, 3, 0};
  static const struct {
    trm_opcode opcode;
    int64_t want[4];
  } rows[] = {
      {TRM_OP_ADD, {INT64_MIN + 1, INT64_MAX, 9007199254740996, -7}},
      {TRM_OP_MULTIPLY, {-2, INT64_MIN, 27021597764222979, 0}},
      {TRM_OP_DIVIDE, {INT64_MAX / 2, INT64_MIN, 3002399751580331, -1}},
      {TRM_OP_REMAINDER, {1, 0, 0, -7}},
      {TRM_OP_MAXIMUM, {INT64_MAX, -1, 9007199254740993, 0}},
      {TRM_OP_SHIFT_LEFT, {-4, 0, 72057594037927944, -7}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    test_case c;
    case_begin(&c);
    case_input_bytes(&c, TRM_S64, 1, &n, a);
    case_input_bytes(&c, TRM_S64, 1, &n, b);
    case_run(&c, (trm_instruction){.opcode = rows[i].opcode}, case_shape(&c, TRM_S64, 1, &n));
    assert_memory_equal(c.results[0], rows[i].want, sizeof rows[i].want);
    case_end(&c);
  }
  /* Straight to f32, not by way of a double. */
  test_case c;
  const int64_t odd[2] = {(INT64_C(1) << 54) + (INT64_C(1) << 30) + 1, INT64_MIN};
  const int64_t two = 2;
  case_begin(&c);
  case_input_bytes(&c, TRM_S64, 1, &two, odd);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_CONVERT}, case_shape(&c, TRM_F32, 1, &two));
  case_expect(&c, 0, NUMBERS(18014400656965632.0, -9223372036854775808.0), 0);
  case_end(&c);
}

static void test_compare(void **unused) {
  (void)unused;
  /* EQ NE GE GT LE LT, as bits 0 to 5 */
  static const struct {
    trm_dtype dtype;
    trm_comparison_type type;
    double a, b;
    unsigned want;
  } rows[] = {
      {TRM_F32, TRM_CMPTYPE_DEFAULT, 1, 2, 0x32},
      {TRM_F32, TRM_CMPTYPE_FLOAT, 0.0, -0.0, 0x15},
      {TRM_F32, TRM_CMPTYPE_DEFAULT, NAN, 1, 0x02},
      {TRM_F32, TRM_CMPTYPE_DEFAULT, NAN, NAN, 0x02},
      {TRM_F32, TRM_CMPTYPE_TOTALORDER, -0.0, 0.0, 0x32},
      {TRM_F32, TRM_CMPTYPE_TOTALORDER, NAN, INF, 0x0e},
      {TRM_F32, TRM_CMPTYPE_TOTALORDER, NAN, NAN, 0x15},
      {TRM_F32, TRM_CMPTYPE_TOTALORDER, -3, -2, 0x32},
      {TRM_F16, TRM_CMPTYPE_TOTALORDER, -0.0, 0.0, 0x32},
      {TRM_F8E8M0FNU, TRM_CMPTYPE_TOTALORDER, 0.5, 256, 0x32},
      {TRM_F8E8M0FNU, TRM_CMPTYPE_TOTALORDER, NAN, 256, 0x0e},
      {TRM_F16, TRM_CMPTYPE_DEFAULT, 2, -2, 0x0e},
      {TRM_BF16, TRM_CMPTYPE_DEFAULT, 2, 2, 0x15},
      {TRM_S32, TRM_CMPTYPE_SIGNED, -1, 1, 0x32},
      {TRM_S8, TRM_CMPTYPE_DEFAULT, -1, -1, 0x15},
      {TRM_U32, TRM_CMPTYPE_UNSIGNED, 4294967295.0, 1, 0x0e},
      {TRM_PRED, TRM_CMPTYPE_DEFAULT, 1, 0, 0x0e},
      {TRM_U8, TRM_CMPTYPE_DEFAULT, 255, 1, 0x0e},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    for (int direction = TRM_CMP_EQ; direction <= TRM_CMP_LT; ++direction) {
      test_case c;
      case_begin(&c);
      case_input(&c, rows[i].dtype, 0, NULL, &rows[i].a);
      case_input(&c, rows[i].dtype, 0, NULL, &rows[i].b);
      case_run(&c,
               (trm_instruction){.opcode = TRM_OP_COMPARE,
                                 .comparison = (trm_comparison)direction,
                                 .comparison_type = rows[i].type},
               case_shape(&c, TRM_PRED, 0, NULL));
      print_message("row %zu direction %d\n", i, direction);
      assert_int_equal(*(uint8_t *)c.results[0], rows[i].want >> direction & 1);
      case_end(&c);
    }
  }
}

static void test_select_and_clamp(void **unused) {
  (void)unused;
  const int64_t n = 3;
  test_case c;
  case_begin(&c);
  /* A NaN keeps its bits. */
  const uint32_t on_true[3] = {0x7fa00001u, 0x3f800000u, 0x40000000u};
  case_input(&c, TRM_PRED, 1, &n, NUMBERS(1, 0, 1));
  case_input_bytes(&c, TRM_F32, 1, &n, on_true);
  case_input(&c, TRM_F32, 1, &n, NUMBERS(10, 20, 30));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_SELECT}, case_shape(&c, TRM_F32, 1, &n));
  const uint32_t want[3] = {0x7fa00001u, 0x41a00000u, 0x40000000u};
  assert_memory_equal(c.results[0], want, sizeof want);
  case_end(&c);

  case_begin(&c); /* a scalar predicate */
  case_input(&c, TRM_PRED, 0, NULL, NUMBERS(0));
  case_input(&c, TRM_S16, 1, &n, NUMBERS(1, 2, 3));
  case_input(&c, TRM_S16, 1, &n, NUMBERS(4, 5, 6));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_SELECT}, case_shape(&c, TRM_S16, 1, &n));
  case_expect(&c, 0, NUMBERS(4, 5, 6), 0);
  case_end(&c);

  case_begin(&c); /* scalar bounds; the upper one wins */
  const int64_t four = 4;
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(-1));
  case_input(&c, TRM_F32, 1, &four, NUMBERS(-2, 0.5, 3, NAN));
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(1));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_CLAMP}, case_shape(&c, TRM_F32, 1, &four));
  case_expect(&c, 0, NUMBERS(-1, 0.5, 1, NAN), 0);
  case_end(&c);

  case_begin(&c);
  case_input(&c, TRM_S32, 1, &n, NUMBERS(2, -5, -5));
  case_input(&c, TRM_S32, 1, &n, NUMBERS(0, -9, 9));
  case_input(&c, TRM_S32, 1, &n, NUMBERS(1, 5, 5));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_CLAMP}, case_shape(&c, TRM_S32, 1, &n));
  case_expect(&c, 0, NUMBERS(1, -5, 5), 0);
  case_end(&c);

  case_begin(&c);
  case_input(&c, TRM_U8, 1, &n, NUMBERS(10, 10, 10));
  case_input(&c, TRM_U8, 1, &n, NUMBERS(200, 5, 50));
  case_input(&c, TRM_U8, 1, &n, NUMBERS(100, 100, 100));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_CLAMP}, case_shape(&c, TRM_U8, 1, &n));
  case_expect(&c, 0, NUMBERS(100, 10, 50), 0);
  case_end(&c);
}

static void test_reduce_precision(void **unused) {
  (void)unused;
  const int64_t n = 9;
  const double in[9] = {1.0009766, 65536, 1e-8, -6e-5, 65519, 65520, NAN, INF, 1.00048828125};
  const double f16[9] = {1.0009765625, INF, 0, -0.0, 65504, INF, NAN, INF, 1};
  const double bf16[9] = {
      1, 65536, 1.0011717677116394e-08, -6.008148193359375e-05, 65536, 65536, NAN, INF, 1};
  const double f8[9] = {1, INF, 0, -0.0, INF, INF, NAN, INF, 1};
  static const int bits[3][2] = {{5, 10}, {8, 7}, {4, 3}};
  const double *const want[3] = {f16, bf16, f8};
  for (int i = 0; i < 3; ++i) {
    test_case c;
    case_begin(&c);
    case_input(&c, TRM_F32, 1, &n, in);
    case_run(&c,
             (trm_instruction){.opcode = TRM_OP_REDUCE_PRECISION,
                               .exponent_bits = bits[i][0],
                               .mantissa_bits = bits[i][1]},
             case_shape(&c, TRM_F32, 1, &n));
    case_expect(&c, 0, want[i], 0);
    case_end(&c);
  }
}

static void test_bitcast_convert(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_input(&c, TRM_F32, 1, DIMS(2), NUMBERS(1, -0.0));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BITCAST_CONVERT},
           case_shape(&c, TRM_U32, 1, DIMS(2)));
  case_expect(&c, 0, NUMBERS(0x3f800000, 0x80000000), 0);
  case_end(&c);
  case_begin(&c); /* narrower: a new minor dimension */
  case_input(&c, TRM_U32, 1, DIMS(2), NUMBERS(0x04030201, 0x08070605));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BITCAST_CONVERT},
           case_shape(&c, TRM_U8, 2, DIMS(2, 4)));
  case_expect(&c, 0, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8), 0);
  case_end(&c);
  case_begin(&c); /* wider */
  case_input(&c, TRM_U8, 2, DIMS(1, 2), NUMBERS(0x00, 0x3c));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_BITCAST_CONVERT},
           case_shape(&c, TRM_F16, 1, DIMS(1)));
  case_expect(&c, 0, NUMBERS(1), 0);
  case_end(&c);
}

static void test_complex(void **unused) {
  (void)unused;
  static const struct {
    trm_opcode opcode;
    double want[2];
  } rows[] = {
      {TRM_OP_ADD, {4, 1}},
      {TRM_OP_SUBTRACT, {-2, 3}},
      {TRM_OP_MULTIPLY, {5, 5}},
      {TRM_OP_DIVIDE, {0.1, 0.7}},
      {TRM_OP_NEGATE, {-1, -2}},
      {TRM_OP_EXPONENTIAL, {-1.1312044, 2.4717267}},
      {TRM_OP_LOG, {0.804719, 1.1071487}},
      {TRM_OP_SQRT, {1.2720196, 0.78615138}},
      {TRM_OP_TANH, {1.1667363, -0.24345820}},
      {TRM_OP_EXPONENTIAL_MINUS_ONE, {-2.1312044, 2.4717267}},
      {TRM_OP_SIGN, {0.4472136, 0.8944272}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    test_case c;
    case_begin(&c);
    case_input(&c, TRM_C64, 0, NULL, NUMBERS(1, 2));
    if (trm_opcode_class_of(rows[i].opcode) == TRM_CLASS_BINARY) {
      case_input(&c, TRM_C64, 0, NULL, NUMBERS(3, -1));
    }
    case_run(&c, (trm_instruction){.opcode = rows[i].opcode}, case_shape(&c, TRM_C64, 0, NULL));
    case_expect(&c, 0, rows[i].want, 1e-6);
    case_end(&c);
  }
  test_case c;
  case_begin(&c);
  case_input(&c, TRM_C64, 0, NULL, NUMBERS(3, -4));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_ABS}, case_shape(&c, TRM_F32, 0, NULL));
  case_expect(&c, 0, NUMBERS(5), 0);
  case_end(&c);
}

/* Infinities, zeros, a logarithm near its pole, and one of a number whose square overflows. */
static void test_complex_edges(void **unused) {
  (void)unused;
  static const struct {
    trm_opcode opcode;
    double a[2], b[2], want[2];
  } rows[] = {
      {TRM_OP_EXPONENTIAL_MINUS_ONE, {INF, 0}, {0, 0}, {INF, 0}},
      {TRM_OP_EXPONENTIAL_MINUS_ONE, {NAN, -0.0}, {0, 0}, {NAN, -0.0}},
      {TRM_OP_EXPONENTIAL_MINUS_ONE, {1e-30, 1e-30}, {0, 0}, {1e-30, 1e-30}},
      {TRM_OP_LOG_PLUS_ONE, {-1, 1e-30}, {0, 0}, {-69.07755278982137, 1.5707963267948966}},
      {TRM_OP_LOG_PLUS_ONE, {1e-30, 1e-30}, {0, 0}, {1e-30, 1e-30}},
      {TRM_OP_LOG_PLUS_ONE, {1e200, 0}, {0, 0}, {460.51701859880916, 0}},
      {TRM_OP_LOG_PLUS_ONE, {-1, 0}, {0, 0}, {-INF, 0}},
      {TRM_OP_POWER, {NAN, INF}, {0, 0}, {1, 0}},
      {TRM_OP_POWER, {1, 0}, {NAN, 3}, {1, 0}},
      {TRM_OP_POWER, {0, 0}, {0, 0}, {1, 0}},
      {TRM_OP_POWER, {0, 0}, {0.5, -7}, {0, 0}},
      {TRM_OP_POWER, {0, 0}, {-2, 0}, {NAN, NAN}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    test_case c;
    case_begin(&c);
    case_input(&c, TRM_C128, 0, NULL, rows[i].a);
    if (rows[i].opcode == TRM_OP_POWER) case_input(&c, TRM_C128, 0, NULL, rows[i].b);
    case_run(&c, (trm_instruction){.opcode = rows[i].opcode}, case_shape(&c, TRM_C128, 0, NULL));
    print_message("row %zu\n", i);
    case_expect(&c, 0, rows[i].want, 1e-14);
    case_end(&c);
  }
}

static void test_refusals(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_input(&c, TRM_S32, 0, NULL, NUMBERS(3));
  assert_int_equal(
      case_try(&c, (trm_instruction){.opcode = TRM_OP_TANH}, case_shape(&c, TRM_S32, 0, NULL)),
      TRM_UNIMPLEMENTED);
  assert_non_null(strstr(c.error.message, "tanh"));
  case_end(&c);
  case_begin(&c);
  case_input(&c, TRM_F32, 0, NULL, NUMBERS(3));
  assert_int_equal(case_try(&c, (trm_instruction){.opcode = TRM_OP_DYNAMIC_RESHAPE},
                            case_shape(&c, TRM_F32, 0, NULL)),
                   TRM_UNIMPLEMENTED);
  assert_non_null(strstr(c.error.message, "dynamic-reshape"));
  case_end(&c);
}

static void test_empty_and_map(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  case_input(&c, TRM_F32, 2, DIMS(3, 0), NULL);
  case_run(&c, (trm_instruction){.opcode = TRM_OP_TANH}, case_shape(&c, TRM_F32, 2, DIMS(3, 0)));
  case_end(&c);
  /* map((a, b) -> a * b - a), the computation calling another */
  case_begin(&c);
  const trm_dtype types[2] = {TRM_F32, TRM_F32};
  uint32_t product = case_binary_computation(&c, TRM_OP_MULTIPLY, TRM_F32);
  trm_index p[2];
  uint32_t mapped = case_computation(&c, 2, types, p);
  const trm_index call = case_add(&c, mapped,
                                  (trm_instruction){.opcode = TRM_OP_CALL,
                                                    .operands = p,
                                                    .num_operands = 2,
                                                    .called = &product,
                                                    .num_called = 1,
                                                    .shape = case_shape(&c, TRM_F32, 0, NULL)});
  case_set_root(&c, mapped, case_add_binary(&c, mapped, TRM_OP_SUBTRACT, TRM_F32, call, p[0]));
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(1, 2, 3, 4));
  case_input(&c, TRM_F32, 2, DIMS(2, 2), NUMBERS(5, 6, 7, 8));
  case_run(&c, (trm_instruction){.opcode = TRM_OP_MAP, .called = &mapped, .num_called = 1},
           case_shape(&c, TRM_F32, 2, DIMS(2, 2)));
  case_expect(&c, 0, NUMBERS(4, 10, 18, 28), 0);
  case_end(&c);
}

/* fusion: tanh(p0) in f16 rounds after every step; a tuple root; a constant. */
static void test_fusion(void **unused) {
  (void)unused;
  test_case c;
  case_begin(&c);
  uint32_t fused;
  assert_int_equal(trm_module_add_computation(c.module, NULL, &fused, &c.error), TRM_OK);
  const trm_shape half = case_shape(&c, TRM_F16, 1, DIMS(2)),
                  scalar = case_shape(&c, TRM_F16, 0, NULL);
  const trm_index p =
      case_add(&c, fused, (trm_instruction){.opcode = TRM_OP_PARAMETER, .shape = half});
  const uint16_t one = 0x3c00;
  const void *leaves[1] = {&one};
  const trm_literal literal = {.shape = scalar, .num_leaves = 1, .leaves = leaves};
  trm_index constant =
      case_add(&c, fused,
               (trm_instruction){.opcode = TRM_OP_CONSTANT, .shape = scalar, .literal = &literal});
  const trm_index ones = case_add(
      &c, fused,
      (trm_instruction){
          .opcode = TRM_OP_BROADCAST, .shape = half, .operands = &constant, .num_operands = 1});
  trm_index pair[2] = {p, ones};
  const trm_index sum = case_add(
      &c, fused,
      (trm_instruction){.opcode = TRM_OP_ADD, .shape = half, .operands = pair, .num_operands = 2});
  trm_index back[2] = {sum, ones};
  const trm_index difference =
      case_add(&c, fused,
               (trm_instruction){
                   .opcode = TRM_OP_SUBTRACT, .shape = half, .operands = back, .num_operands = 2});
  trm_index roots[3] = {difference, sum, p};
  const trm_shape elements[3] = {half, half, half};
  trm_shape tuple;
  assert_true(trm_shape_make_tuple(&c.module->arena, 3, elements, &tuple));
  case_set_root(
      &c, fused,
      case_add(&c, fused,
               (trm_instruction){
                   .opcode = TRM_OP_TUPLE, .shape = tuple, .operands = roots, .num_operands = 3}));
  case_input(&c, TRM_F16, 1, DIMS(2), NUMBERS(0.000244140625, 2048));
  case_run(&c,
           (trm_instruction){
               .opcode = TRM_OP_FUSION, .called = &fused, .num_called = 1, .fusion_kind = "kLoop"},
           tuple);
  /* 1 + 2^-12 rounds to 1; 2048 + 1 to 2048. */
  case_expect(&c, 0, NUMBERS(0, 2047), 0);
  case_expect(&c, 1, NUMBERS(1, 2048), 0);
  case_expect(&c, 2, NUMBERS(0.000244140625, 2048), 0);
  case_exhaust(&c, (trm_instruction){.opcode = TRM_OP_FUSION, .called = &fused, .num_called = 1},
               tuple);
  case_end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_float_unary),      cmocka_unit_test(test_float_binary),
      cmocka_unit_test(test_integers),         cmocka_unit_test(test_convert),
      cmocka_unit_test(test_wide_integers),    cmocka_unit_test(test_compare),
      cmocka_unit_test(test_select_and_clamp), cmocka_unit_test(test_reduce_precision),
      cmocka_unit_test(test_bitcast_convert),  cmocka_unit_test(test_complex),
      cmocka_unit_test(test_complex_edges),    cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_empty_and_map),    cmocka_unit_test(test_fusion),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

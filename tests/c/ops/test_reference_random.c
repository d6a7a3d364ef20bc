/* The random kernels: rng-bit-generator bit for bit as XLA on a CPU (TensorFlow 2.15.1 and 2.21),
 * and the distributions of rng and tremula.random by their moments, bounds and independence. */
#include "reference_case.h"

typedef struct bits_case {
  int32_t algorithm;
  int64_t state_size;
  uint64_t state[3];
  trm_dtype dtype;
  int32_t rank;
  int64_t dims[2];
  uint64_t want_state[3];
  uint64_t want[15];
} bits_case;

#define KEY UINT64_C(1234567890123)

static void test_bit_generator(void **unused) {
  (void)unused;
  static const bits_case rows[] = {
      {2,
       2,
       {KEY, 42},
       TRM_U32,
       1,
       {7},
       {KEY, 44},
       {3899548996, 1374120210, 490484442, 3835682072, 2834231205, 2264407214, 1062190945}},
      {2, 2, {KEY, 42}, TRM_U32, 0, {0}, {KEY, 43}, {3899548996}},
      {2,
       2,
       {KEY, 42},
       TRM_U64,
       1,
       {3},
       {KEY, 44},
       {UINT64_C(5901801366622201156), UINT64_C(16474129057584001754),
        UINT64_C(9725554931790704549)}},
      /* The counter carries into the state's last word. */
      {2,
       3,
       {KEY, UINT64_MAX, 7},
       TRM_U32,
       1,
       {7},
       {KEY, 1, 8},
       {369429180, 4196440953, 2783647647, 3564047354, 4126854547, 2198349731, 1181424340}},
      {2,
       3,
       {KEY, UINT64_MAX, 7},
       TRM_U64,
       1,
       {3},
       {KEY, 1, 8},
       {UINT64_C(18023576653099502268), UINT64_C(15307466829608982431),
        UINT64_C(9441840203942251923)}},
      {2, 2, {KEY, 42}, TRM_U8, 1, {5}, {KEY, 44}, {68, 18, 218, 24, 165}},
      {0,
       3,
       {KEY, 42, UINT64_MAX},
       TRM_U32,
       1,
       {7},
       {KEY, 44, UINT64_MAX},
       {2311428048, 241090042, 2923387704, 1208468937, 2429347321, 432678697, 1568735065}},
      {0,
       3,
       {KEY, 42, UINT64_MAX},
       TRM_U64,
       0,
       {0},
       {KEY, 43, UINT64_MAX},
       {UINT64_C(1035473848092694480)}},
      {1,
       2,
       {KEY, 42},
       TRM_U32,
       1,
       {7},
       {KEY, 46},
       {313673157, 1520752991, 2287345145, 4104057134, 3858432140, 3699296086, 2790725465}},
      {1, 2, {KEY, 42}, TRM_U32, 0, {0}, {KEY, 43}, {313673157}},
      {1,
       2,
       {KEY, 42},
       TRM_U64,
       1,
       {3},
       {KEY, 45},
       {UINT64_C(6531584361952855493), UINT64_C(17626791173732834809),
        UINT64_C(15888355711449235596)}},
      {1,
       2,
       {KEY, 42},
       TRM_U32,
       2,
       {2, 3},
       {KEY, 45},
       {313673157, 2287345145, 3858432140, 1520752991, 4104057134, 3699296086}},
      {1,
       2,
       {KEY, 42},
       TRM_U32,
       2,
       {3, 5},
       {KEY, 51},
       {313673157, 1520752991, 2287345145, 4104057134, 3858432140, 2790725465, 483978585,
        3812432065, 2250273114, 3234240752, 4109166021, 4277566861, 2244476316, 1775515313,
        549187268}},
      {1, 2, {KEY, 42}, TRM_U8, 1, {5}, {KEY, 45}, {197, 95, 249, 46, 140}},
      {1, 2, {KEY, 42}, TRM_U32, 1, {0}, {KEY, 42}, {0}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const bits_case *row = &rows[i];
    test_case c;
    case_begin(&c);
    print_message("row %zu\n", i);
    const trm_shape parts[2] = {case_shape(&c, TRM_U64, 1, &row->state_size),
                                case_shape(&c, row->dtype, row->rank, row->dims)};
    trm_shape pair;
    assert_true(trm_shape_make_tuple(&c.module->arena, 2, parts, &pair));
    case_input_bytes(&c, TRM_U64, 1, &row->state_size, row->state);
    case_run(&c, (trm_instruction){.opcode = TRM_OP_RNG_BIT_GENERATOR, .algorithm = row->algorithm},
             pair);
    assert_memory_equal(c.results[0], row->want_state, (size_t)row->state_size * 8);
    const int64_t count = trm_shape_count(&parts[1]);
    for (int64_t k = 0; k < count; ++k) {
      const uint64_t got = row->dtype == TRM_U64   ? ((uint64_t *)c.results[1])[k]
                           : row->dtype == TRM_U32 ? ((uint32_t *)c.results[1])[k]
                                                   : ((uint8_t *)c.results[1])[k];
      assert_true(got == row->want[k]);
    }
    case_end(&c);
  }
}

typedef struct moments {
  double mean, deviation, least, greatest;
} moments;

static moments measure(trm_dtype dtype, const void *values, int64_t count) {
  moments m = {0, 0, INFINITY, -INFINITY};
  for (int64_t i = 0; i < count; ++i) {
    const double x = case_unpack(dtype, values, i);
    m.mean += x / (double)count;
    m.least = fmin(m.least, x);
    m.greatest = fmax(m.greatest, x);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double x = case_unpack(dtype, values, i) - m.mean;
    m.deviation += x * x / (double)count;
  }
  m.deviation = sqrt(m.deviation);
  return m;
}

static void draw(test_case *c, const char *config, trm_dtype dtype, int64_t count, uint64_t seed) {
  case_begin(c);
  c->seed = seed;
  trm_custom_call call = {"tremula.random", true, 0};
  case_run(c,
           (trm_instruction){.opcode = TRM_OP_CUSTOM_CALL,
                             .custom_call = &call,
                             .backend_config = config,
                             .backend_config_size = strlen(config)},
           case_shape(c, dtype, 1, &count));
}

static void test_distributions(void **unused) {
  (void)unused;
  enum { COUNT = 20000 };
  static const struct {
    const char *config;
    trm_dtype dtype;
    double mean, deviation, least, greatest; /* bounds: values lie in [least, greatest] */
  } rows[] = {
      {"{\"distribution\":\"uniform\",\"seed\":1,\"seed2\":2,\"id\":3}", TRM_F32, 0.5, 0.288675, 0,
       0.99999994},
      {"{\"distribution\":\"uniform\",\"minval\":-3,\"maxval\":5.0}", TRM_F64, 1, 2.3094, -3,
       4.99999999},
      {"{\"distribution\":\"uniform\",\"id\":9}", TRM_F16, 0.5, 0.288675, 0, 0.99951172},
      {"{\"distribution\":\"uniform\",\"minval\":0,\"maxval\":1}", TRM_BF16, 0.496, 0.288675, 0,
       0.99609375},
      /* few values between the bounds: rounding up must not reach the upper one */
      {"{\"distribution\":\"uniform\",\"minval\":1000,\"maxval\":1001}", TRM_F16, 1000.25, 0.25,
       1000, 1000.5},
      {"{\"distribution\":\"normal\",\"seed\":7}", TRM_F32, 0, 1, -6, 6},
      {"{\"distribution\":\"normal\",\"seed\":7}", TRM_F16, 0, 1, -6, 6},
      {"{\"distribution\":\"truncated_normal\",\"seed\":7}", TRM_F32, 0, 0.87962566, -2, 2},
      {"{\"distribution\":\"uniform_int\",\"minval\":-5,\"maxval\":5}", TRM_S32, -0.5, 2.8722813,
       -5, 4},
      {"{\"distribution\":\"uniform_int\",\"minval\":10,\"maxval\":11}", TRM_U8, 10, 0, 10, 10},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    test_case c;
    draw(&c, rows[i].config, rows[i].dtype, COUNT, 11);
    const moments m = measure(rows[i].dtype, c.results[0], COUNT);
    print_message("row %zu: mean %g deviation %g in [%g, %g]\n", i, m.mean, m.deviation, m.least,
                  m.greatest);
    assert_true(m.least >= rows[i].least && m.greatest <= rows[i].greatest);
    if (i != 4) { /* of a handful of values the moments depend on the rounding */
      assert_true(fabs(m.mean - rows[i].mean) < 0.02 * fmax(1, rows[i].deviation));
      assert_true(fabs(m.deviation - rows[i].deviation) < 0.02 * fmax(1, rows[i].deviation));
    } else {
      assert_true(m.least == 1000 && m.greatest > 1000);
    }
    case_end(&c);
  }
}

/* Bounds that come as operands, and such that leave nothing between them. */
static void test_bounds_as_operands(void **unused) {
  (void)unused;
  enum { COUNT = 20000 };
  static const char config[] = "{\"distribution\":\"uniform_int\",\"seed\":3}";
  for (int row = 0; row < 2; ++row) {
    test_case c;
    case_begin(&c);
    trm_custom_call call = {"tremula.random", true, 0};
    case_input(&c, TRM_S32, 0, NULL, NUMBERS(-7));
    case_input(&c, TRM_S32, 0, NULL, NUMBERS(row == 0 ? 4 : -7));
    const trm_instruction draw_it = {.opcode = TRM_OP_CUSTOM_CALL,
                                     .custom_call = &call,
                                     .backend_config = config,
                                     .backend_config_size = sizeof config - 1};
    if (row == 0) {
      case_run(&c, draw_it, case_shape(&c, TRM_S32, 1, DIMS(COUNT)));
      const moments m = measure(TRM_S32, c.results[0], COUNT);
      assert_true(m.least == -7 && m.greatest == 3);
      assert_true(fabs(m.mean + 2) < 0.1 && fabs(m.deviation - sqrt(10)) < 0.1);
    } else {
      assert_int_equal(case_try(&c, draw_it, case_shape(&c, TRM_S32, 1, DIMS(2))),
                       TRM_INVALID_ARGUMENT);
      assert_non_null(strstr(c.error.message, "minval < maxval"));
    }
    case_end(&c);
  }
}

/* Equal keys give equal values; every part of the key changes them; a shorter draw is a prefix. */
static void test_keys(void **unused) {
  (void)unused;
  static const struct {
    const char *config;
    uint64_t seed;
  } rows[] = {
      {"{\"distribution\":\"uniform\",\"seed\":1,\"seed2\":2,\"id\":3}", 4},
      {"{\"distribution\":\"uniform\",\"seed\":1,\"seed2\":2,\"id\":3}", 5},
      {"{\"distribution\":\"uniform\",\"seed\":2,\"seed2\":1,\"id\":3}", 4},
      {"{\"distribution\":\"uniform\",\"seed\":1,\"seed2\":2,\"id\":4}", 4},
      {"{\"distribution\":\"uniform\",\"seed\":1,\"seed2\":3,\"id\":3}", 4},
      {"{\"distribution\":\"uniform\",\"seed\":-1,\"seed2\":2,\"id\":3}", 4},
  };
  enum { ROWS = sizeof rows / sizeof *rows, COUNT = 64 };
  float values[ROWS][COUNT];
  for (int i = 0; i < ROWS; ++i) {
    test_case c;
    draw(&c, rows[i].config, TRM_F32, COUNT, rows[i].seed);
    memcpy(values[i], c.results[0], sizeof values[i]);
    case_end(&c);
    draw(&c, rows[i].config, TRM_F32, COUNT / 2 + 1, rows[i].seed);
    assert_memory_equal(c.results[0], values[i], sizeof(float) * (COUNT / 2 + 1));
    case_end(&c);
    for (int k = 0; k < i; ++k) {
      int equal = 0;
      for (int j = 0; j < COUNT; ++j) equal += values[i][j] == values[k][j];
      assert_true(equal < 4);
    }
  }
}

static void test_rng(void **unused) {
  (void)unused;
  enum { COUNT = 20000 };
  for (int distribution = 1; distribution <= 2; ++distribution) {
    test_case c;
    case_begin(&c);
    c.seed = 3;
    case_input(&c, TRM_F32, 0, NULL, NUMBERS(-2));
    case_input(&c, TRM_F32, 0, NULL, NUMBERS(4));
    case_run(&c, (trm_instruction){.opcode = TRM_OP_RNG, .distribution = distribution},
             case_shape(&c, TRM_F32, 1, DIMS(COUNT)));
    const moments m = measure(TRM_F32, c.results[0], COUNT);
    assert_true(fabs(m.mean - (distribution == 1 ? 1 : -2)) < 0.1);
    assert_true(fabs(m.deviation - (distribution == 1 ? 6 * 0.288675 : 4)) < 0.1);
    if (distribution == 1) assert_true(m.least >= -2 && m.greatest < 4);
    case_end(&c);
  }
}

static void test_bad_configs(void **unused) {
  (void)unused;
  static const struct {
    const char *config, *says;
    trm_dtype dtype;
  } rows[] = {
      {"", "not a JSON object", TRM_F32},
      {"[1]", "not a JSON object", TRM_F32},
      {"{\"seed\":1}", "no 'distribution'", TRM_F32},
      {"{\"distribution\":\"poisson\"}", "truncated_normal", TRM_F32},
      {"{\"distribution\":\"normal\",\"sed\":1}", "unknown key 'sed'", TRM_F32},
      {"{\"distribution\":\"normal\",\"seed\":1.5}", "no integer for 'seed'", TRM_F32},
      {"{\"distribution\":\"normal\"}", "uniform_int", TRM_S32},
      {"{\"distribution\":\"uniform_int\",\"minval\":0.5}", "an integer", TRM_S32},
      {"{\"distribution\":\"uniform_int\",\"minval\":3,\"maxval\":3}", "minval < maxval", TRM_S32},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    test_case c;
    case_begin(&c);
    trm_custom_call call = {"tremula.random", true, 0};
    const trm_status status =
        case_try(&c,
                 (trm_instruction){.opcode = TRM_OP_CUSTOM_CALL,
                                   .custom_call = &call,
                                   .backend_config = rows[i].config,
                                   .backend_config_size = strlen(rows[i].config)},
                 case_shape(&c, rows[i].dtype, 1, DIMS(2)));
    assert_int_equal(status, TRM_INVALID_ARGUMENT);
    if (strstr(c.error.message, rows[i].says) == NULL) fail_msg("%s", c.error.message);
    case_end(&c);
  }
  test_case c;
  case_begin(&c);
  trm_custom_call call = {"somebody.else", false, 0};
  assert_int_equal(
      case_try(&c, (trm_instruction){.opcode = TRM_OP_CUSTOM_CALL, .custom_call = &call},
               case_shape(&c, TRM_F32, 0, NULL)),
      TRM_UNIMPLEMENTED);
  assert_non_null(strstr(c.error.message, "somebody.else"));
  case_end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bit_generator), cmocka_unit_test(test_distributions),
      cmocka_unit_test(test_keys),          cmocka_unit_test(test_rng),
      cmocka_unit_test(test_bad_configs),   cmocka_unit_test(test_bounds_as_operands),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

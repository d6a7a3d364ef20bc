/* The vectorised functions: error bounds against libm in double, and the same bits from every
 * instruction set. */
#include "fast_case.h"

#include "host/ops/elementwise/vector.h"

static double logistic(double x) { return 1.0 / (1.0 + exp(-x)); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }

typedef struct unary_bound {
  trm_opcode opcode;
  double (*exact)(double);
  double ulps;
} unary_bound;

static const unary_bound unary_bounds[] = {{TRM_OP_EXPONENTIAL, exp, 1},
                                           {TRM_OP_EXPONENTIAL_MINUS_ONE, expm1, 1.6},
                                           {TRM_OP_LOG, log, 1},
                                           {TRM_OP_LOG_PLUS_ONE, log1p, 1.6},
                                           {TRM_OP_TANH, tanh, 2.6},
                                           {TRM_OP_LOGISTIC, logistic, 2.6},
                                           {TRM_OP_SINE, sin, 0.51},
                                           {TRM_OP_COSINE, cos, 0.51},
                                           {TRM_OP_TAN, tan, 0.51},
                                           {TRM_OP_ERF, erf, 1.6},
                                           {TRM_OP_ACOS, acos, 0.51},
                                           {TRM_OP_ASIN, asin, 0.51},
                                           {TRM_OP_ACOSH, acosh, 0.51},
                                           {TRM_OP_ASINH, asinh, 0.51},
                                           {TRM_OP_ATANH, atanh, 0.51},
                                           {TRM_OP_COSH, cosh, 0.51},
                                           {TRM_OP_SINH, sinh, 0.51},
                                           {TRM_OP_CBRT, cbrt, 0.51},
                                           {TRM_OP_SQRT, sqrt, 0.5},
                                           {TRM_OP_RSQRT, rsqrt, 1.5},
                                           {TRM_OP_FLOOR, floor, 0},
                                           {TRM_OP_CEIL, ceil, 0},
                                           {TRM_OP_ROUND_NEAREST_AFZ, round, 0},
                                           {TRM_OP_ROUND_NEAREST_EVEN, nearbyint, 0}};

/* Distance in units of the last place; 0 for two NaNs or equal values. */
static double distance(float got, double want) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (isinf(got) && fabs(want) >= 0x1.ffffffp127)
    return !signbit(got) == !signbit(want) ? 0 : INFINITY;
  if (isinf(got) || isinf(want)) return (double)got == want ? 0 : INFINITY;
  if (want == 0.0) return got == 0.0f && !signbit(got) == !signbit(want) ? 0 : INFINITY;
  int exponent = ilogb(want) - 23;
  if (exponent < -149) exponent = -149;
  return fabs((double)got - want) / ldexp(1.0, exponent);
}

enum { CHUNK = 4096 };

static void check_unary(const unary_bound *bound) {
  const trm_vector_ops *ops = trm_vector_ops_get();
  static float in[CHUNK], out[CHUNK];
  double worst = 0;
  /* Every 1021st float, of both signs, specials among them. */
  uint64_t bits = 0;
  while (bits <= UINT32_MAX) {
    size_t n = 0;
    for (; n < CHUNK && bits <= UINT32_MAX; ++n, bits += 1021) {
      const uint32_t b =
          n < 8 ? (const uint32_t[]){0,           0x80000000u, 0x7f800000u, 0xff800000u,
                                     0x7fc00000u, 1,           0x80000001u, 0x3f800000u}[n]
                : (uint32_t)bits;
      memcpy(&in[n], &b, 4);
    }
    ops->op[bound->opcode][TRM_V_F32](out, in, in, in, n);
    for (size_t i = 0; i < n; ++i) {
      const double d = distance(out[i], bound->exact((double)in[i]));
      if (d > bound->ulps)
        fail_msg("%s(%a) = %a, not %a: %g ulps", trm_opcode_name(bound->opcode), in[i], out[i],
                 bound->exact((double)in[i]), d);
      if (d > worst) worst = d;
    }
  }
  print_message("  %-24s %.4f ulps\n", trm_opcode_name(bound->opcode), worst);
}

static void test_unary_bounds(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof unary_bounds / sizeof *unary_bounds; ++i)
    check_unary(&unary_bounds[i]);
}

static float random_float(void) {
  const int64_t kind = case_random_below(6);
  if (kind == 0) return (float)case_special();
  if (kind == 1) return (float)(case_random_below(41) - 20);
  if (kind == 2) {
    const uint32_t bits = (uint32_t)(case_random() >> 32);
    float f;
    memcpy(&f, &bits, 4);
    return f;
  }
  return (float)ldexp((double)(case_random() >> 40) * 0x1p-23 - 1.0,
                      (int)case_random_below(12) - 4);
}

static void check_binary(trm_opcode opcode, double (*exact)(double, double), double ulps) {
  const trm_vector_ops *ops = trm_vector_ops_get();
  static float x[CHUNK], y[CHUNK], out[CHUNK];
  double worst = 0;
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < CHUNK; ++i) x[i] = random_float(), y[i] = random_float();
    ops->op[opcode][TRM_V_F32](out, x, y, y, CHUNK);
    for (int i = 0; i < CHUNK; ++i) {
      const double d = distance(out[i], exact((double)x[i], (double)y[i]));
      if (d > ulps)
        fail_msg("%s(%a, %a) = %a, not %a: %g ulps", trm_opcode_name(opcode), x[i], y[i], out[i],
                 exact((double)x[i], (double)y[i]), d);
      if (d > worst) worst = d;
    }
  }
  print_message("  %-24s %.4f ulps\n", trm_opcode_name(opcode), worst);
}

static void test_binary_bounds(void **state) {
  (void)state;
  check_binary(TRM_OP_POWER, pow, 0.51);
  check_binary(TRM_OP_ATAN2, atan2, 0.51);
  check_binary(TRM_OP_REMAINDER, fmod, 0);
}

static void compare_tables(const trm_vector_ops *a, const trm_vector_ops *b) {
  static uint64_t in[3][CHUNK], got[CHUNK], want[CHUNK];
  for (int o = 0; o < TRM_NUM_OPCODES; ++o) {
    for (int t = 0; t < TRM_NUM_VECTOR_TYPES; ++t) {
      assert_int_equal(a->op[o][t] == NULL, b->op[o][t] == NULL);
      if (a->op[o][t] == NULL) continue;
      for (int round = 0; round < 8; ++round) {
        for (int i = 0; i < CHUNK; ++i) {
          for (int k = 0; k < 3; ++k) {
            in[k][i] = t == TRM_V_PRED ? case_random() & 0x0101010101010101u : case_random();
            if (t != TRM_V_F32) continue;
            const float two[2] = {random_float(), random_float()};
            memcpy(&in[k][i], two, 8);
          }
        }
        const size_t n = 1013;
        memset(got, 0, sizeof got);
        memset(want, 0, sizeof want);
        a->op[o][t](got, in[0], in[1], in[2], n);
        b->op[o][t](want, in[0], in[1], in[2], n);
        for (size_t i = 0; i < sizeof got / 8 && t == TRM_V_F64; ++i) {
          double x, y;
          memcpy(&x, &got[i], 8);
          memcpy(&y, &want[i], 8);
          if (isnan(x) && isnan(y)) want[i] = got[i];
        }
        for (size_t i = 0; i < sizeof got / 4; ++i) {
          float x, y;
          memcpy(&x, (char *)got + 4 * i, 4);
          memcpy(&y, (char *)want + 4 * i, 4);
          if (t == TRM_V_F32 && isnan(x) && isnan(y)) continue;
          if (memcmp(&x, &y, 4) != 0)
            fail_msg("%s: %s and %s differ at %zu: %a, %a", trm_opcode_name((trm_opcode)o), a->name,
                     b->name, i, x, y);
        }
      }
    }
  }
  static float f[CHUNK];
  static uint16_t h[CHUNK];
  for (int i = 0; i < CHUNK; ++i) f[i] = random_float(), h[i] = (uint16_t)(case_random() >> 48);
  a->round_half(got, f, f, f, CHUNK);
  b->round_half(want, f, f, f, CHUNK);
  assert_memory_equal(got, want, CHUNK * 4);
  a->float_to_half(got, f, f, f, CHUNK);
  b->float_to_half(want, f, f, f, CHUNK);
  assert_memory_equal(got, want, CHUNK * 2);
  a->half_to_float(got, h, h, h, CHUNK);
  b->half_to_float(want, h, h, h, CHUNK);
  assert_memory_equal(got, want, CHUNK * 4);
  for (int i = 0; i < CHUNK; ++i) f[i] = (float)case_random_below(1 << 24) * 0x1p-20f;
  for (size_t n = 0; n < CHUNK; n += 37) {
    const double x = a->sum_f32(f, n), y = b->sum_f32(f, n);
    assert_memory_equal(&x, &y, sizeof x);
    const double s = a->sum_squares_f32(f, 3.5f, n), r = b->sum_squares_f32(f, 3.5f, n);
    assert_memory_equal(&s, &r, sizeof s);
  }
}

static void test_instruction_sets_agree(void **state) {
  (void)state;
  const trm_vector_ops *baseline = trm_vector_ops_find("baseline");
  assert_non_null(baseline);
  assert_null(trm_vector_ops_find("none"));
  const char *const names[] = {"avx2", "avx512"};
  for (int i = 0; i < 2; ++i) {
    const trm_vector_ops *ops = trm_vector_ops_find(names[i]);
    if (ops != NULL) compare_tables(ops, baseline);
  }
}

static void test_all_halves(void **state) {
  (void)state;
  const trm_vector_ops *ops = trm_vector_ops_get();
  static uint16_t in[65536], back[65536];
  static float out[65536];
  for (int i = 0; i < 65536; ++i) in[i] = (uint16_t)i;
  ops->half_to_float(out, in, in, in, 65536);
  ops->float_to_half(back, out, out, out, 65536);
  for (int i = 0; i < 65536; ++i) {
    const float want = trm_half_to_float((uint16_t)i);
    assert_memory_equal(&out[i], &want, 4);
    assert_int_equal(back[i], trm_float_to_half(want));
  }
}

/* The largest and the least, with NaNs in any place, by every instruction set. */
static void test_extremes(void **state) {
  (void)state;
  static const char *const names[] = {"baseline", "avx2", "avx512"};
  for (size_t set = 0; set < sizeof names / sizeof *names; ++set) {
    const trm_vector_ops *ops = trm_vector_ops_find(names[set]);
    if (ops == NULL) continue;
    for (size_t n = 1; n <= 200; ++n) {
      for (int round = 0; round < 8; ++round) {
        float a[200], most, least;
        for (size_t i = 0; i < n; ++i) a[i] = (float)(case_random_below(2001) - 1000) / 7.0f;
        if (round >= 6) a[case_random_below((int64_t)n)] = NAN;
        if (round == 5) a[case_random_below((int64_t)n)] = -INFINITY;
        most = least = a[0];
        for (size_t i = 1; i < n; ++i) {
          most = a[i] > most || isnan(a[i]) ? a[i] : most;
          least = a[i] < least || isnan(a[i]) ? a[i] : least;
        }
        const float got_most = ops->max_f32(a, n), got_least = ops->min_f32(a, n);
        if (distance(got_most, (double)most) > 0 || distance(got_least, (double)least) > 0)
          fail_msg("%s, %zu elements: %g and %g, not %g and %g", names[set], n, (double)got_most,
                   (double)got_least, (double)most, (double)least);
      }
    }
  }
}

/* The number of `bits` bits at index i. */
static int64_t integer_at(const uint8_t *from, int i, int bits, bool is_signed) {
  uint64_t value = 0;
  memcpy(&value, from + i * bits / 8, (size_t)bits / 8);
  return is_signed ? (int64_t)(value << (64 - bits)) >> (64 - bits) : (int64_t)value;
}

/* Quotients and remainders of the integers around limits and of divisors' multiples. */
static void check_quotients(const trm_vector_ops *ops, trm_vector_type type, int bits,
                            bool is_signed) {
  enum { SOME = 41 };
  int64_t some[SOME];
  int count = 0;
  for (int shift = 0; shift < 32; shift += 5) {
    for (int64_t near = -2; near <= 2; ++near) some[count++] = (INT64_C(1) << shift) + near;
  }
  some[count++] = INT32_MAX, some[count++] = INT32_MIN, some[count++] = INT32_MIN + 1;
  some[count++] = INT16_MIN, some[count++] = INT8_MIN, some[count++] = -3;
  const int bytes = bits / 8;
  const uint64_t mask = (UINT64_C(1) << bits) - 1;
  uint8_t x[SOME * 4], y[SOME * 4], quotients[SOME * 4], remainders[SOME * 4];
  for (int d = 0; d < count; ++d) {
    for (int i = 0; i < count; ++i) {
      memcpy(x + i * bytes, &some[i], (size_t)bytes);
      memcpy(y + i * bytes, &some[d], (size_t)bytes);
    }
    ops->op[TRM_OP_DIVIDE][type](quotients, x, y, NULL, (size_t)count);
    ops->op[TRM_OP_REMAINDER][type](remainders, x, y, NULL, (size_t)count);
    for (int i = 0; i < count; ++i) {
      const int64_t a = integer_at(x, i, bits, is_signed), b = integer_at(y, i, bits, is_signed);
      assert_int_equal(integer_at(quotients, i, bits, false),
                       (uint64_t)(b == 0 ? -1 : a / b) & mask);
      assert_int_equal(integer_at(remainders, i, bits, false),
                       (uint64_t)(b == 0 ? a : a % b) & mask);
    }
  }
}
static void test_quotients_of_integers(void **state) {
  (void)state;
  static const char *const names[] = {"baseline", "avx2", "avx512"};
  for (size_t i = 0; i < 3; ++i) {
    const trm_vector_ops *ops = trm_vector_ops_find(names[i]);
    if (ops == NULL) continue;
    check_quotients(ops, TRM_V_S32, 32, true), check_quotients(ops, TRM_V_U32, 32, false);
    check_quotients(ops, TRM_V_S16, 16, true), check_quotients(ops, TRM_V_U16, 16, false);
    check_quotients(ops, TRM_V_S8, 8, true), check_quotients(ops, TRM_V_U8, 8, false);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_extremes),      cmocka_unit_test(test_unary_bounds),
      cmocka_unit_test(test_binary_bounds), cmocka_unit_test(test_instruction_sets_agree),
      cmocka_unit_test(test_all_halves),    cmocka_unit_test(test_quotients_of_integers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which arithmetic multiplies halves, over the features of CPUs that need not be here; and that a
 * half is exactly the sum of its pieces. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/half.h"
#include "host/ops/products/half_products.h"

#define AUTO TRM_HALF_PRODUCTS_AUTO
#define FLOAT TRM_HALF_PRODUCTS_FLOAT
#define PIECES3 TRM_HALF_PRODUCTS_PIECES3
#define PIECES4 TRM_HALF_PRODUCTS_PIECES4
#define BFLOAT16 TRM_HALF_PRODUCTS_BFLOAT16

static const trm_half_units avx2 = {false, false, false}, avx512 = {false, false, true};
static const trm_half_units zen4 = {false, true, true}, amx = {true, true, true};

static void the_choice_follows_the_cpu_and_the_option(void **state) {
  (void)state;
  const struct {
    const trm_half_units *units;
    trm_half_products wanted;
    trm_half_problem problem;
    trm_half_products chosen;
  } rows[] = {
      {&amx, AUTO, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, true}, PIECES3},
      {&amx, AUTO, {TRM_F16, TRM_F16, TRM_F32, 1024, 768, 768, true}, PIECES4},
      {&amx, AUTO, {TRM_BF16, TRM_BF16, TRM_BF16, 1024, 768, 768, false}, BFLOAT16},
      {&zen4, AUTO, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, false}, FLOAT},
      {&zen4, AUTO, {TRM_BF16, TRM_BF16, TRM_BF16, 1024, 768, 768, false}, BFLOAT16},
      {&avx512, AUTO, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, false}, FLOAT},
      {&avx512, AUTO, {TRM_BF16, TRM_BF16, TRM_BF16, 1024, 768, 768, false}, FLOAT},
      {&avx2, AUTO, {TRM_BF16, TRM_BF16, TRM_BF16, 1024, 768, 768, false}, FLOAT},
      /* Too thin for a tile. */
      {&amx, AUTO, {TRM_F16, TRM_F16, TRM_F16, 1, 768, 768, true}, FLOAT},
      {&amx, AUTO, {TRM_F16, TRM_F16, TRM_F16, 1024, 8, 768, true}, FLOAT},
      {&amx, AUTO, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 16, true}, FLOAT},
      {&amx, AUTO, {TRM_F16, TRM_F16, TRM_F16, 16, 16, 32, true}, PIECES3},
      /* What oneDNN would have to do. */
      {&amx, AUTO, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, false}, FLOAT},
      {&amx, PIECES3, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, false}, PIECES3},
      /* What is not two halves. */
      {&amx, AUTO, {TRM_F32, TRM_F32, TRM_F32, 1024, 768, 768, false}, FLOAT},
      {&amx, PIECES3, {TRM_F16, TRM_F32, TRM_F32, 1024, 768, 768, false}, FLOAT},
      /* The option, wherever oneDNN multiplies bfloat16s. */
      {&amx, FLOAT, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, true}, FLOAT},
      {&amx, FLOAT, {TRM_BF16, TRM_BF16, TRM_BF16, 1024, 768, 768, false}, FLOAT},
      {&amx, PIECES4, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, true}, PIECES4},
      {&avx512, PIECES3, {TRM_F16, TRM_F16, TRM_F16, 2, 2, 2, false}, PIECES3},
      {&avx512, BFLOAT16, {TRM_F16, TRM_F16, TRM_F16, 2, 2, 2, false}, BFLOAT16},
      {&avx512, PIECES3, {TRM_BF16, TRM_BF16, TRM_BF16, 2, 2, 2, false}, BFLOAT16},
      {&avx2, PIECES3, {TRM_F16, TRM_F16, TRM_F16, 1024, 768, 768, false}, FLOAT},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const trm_half_products chosen =
        trm_half_products_choose(*rows[i].units, rows[i].wanted, &rows[i].problem);
    if (chosen != rows[i].chosen) fail_msg("row %d: %d", (int)i, (int)chosen);
  }
}

enum { ALL = 1 << 16 };

/* All halves, from every `stride`-th element: contiguous ones go through vectors. */
static void split_all(int64_t stride, int32_t pieces, bool is_right, uint16_t *to) {
  static uint16_t halves[2 * ALL];
  for (int64_t i = 0; i < ALL; ++i) halves[i * stride] = (uint16_t)i;
  trm_half_split split = {
      .dtype = TRM_F16, .pieces = pieces, .is_right = is_right, .piece_stride = ALL};
  trm_half_split_push(&split, 1000, 65 * stride, 65); /* rows that are no whole vectors */
  trm_half_split_push(&split, 65, stride, 1);
  assert_int_equal(trm_half_split_count(&split), 65000 * pieces);
  trm_half_split_run(&split, halves, NULL, to);
  split = (trm_half_split){.dtype = TRM_F16,
                           .pieces = pieces,
                           .is_right = is_right,
                           .from_start = 65000 * stride,
                           .piece_stride = ALL};
  trm_half_split_push(&split, ALL - 65000, stride, 1);
  trm_half_split_run(&split, halves, NULL, to + 65000);
}

static void check_half(uint16_t half, uint16_t first, uint16_t second, uint16_t third,
                       uint16_t fourth) {
  const float value = trm_half_to_float(half), high = trm_bfloat16_to_float(first);
  if (!isfinite(value)) { /* 0x7c01 must not become an infinity */
    assert_true(isnan(value) ? isnan(high) : high == value);
    assert_true(second == 0 && third == 0 && fourth == 0);
    return;
  }
  const float low = trm_bfloat16_to_float(second);
  assert_int_equal(third, first);
  assert_int_equal(fourth, second);
  if (high + low != value) fail_msg("%04x is not %g + %g", half, (double)high, (double)low);
  assert_true((double)high + (double)low == (double)value);
  assert_true(value == 0 ? low == 0 : fabsf(low) < 0x1p-8f * fabsf(value));
  assert_true(signbit(high) == signbit(value));
  assert_true(low == 0 || fabsf(low) >= 0x1p-24f); /* nothing that a CPU flushes to zero */
}

static void a_half_is_the_sum_of_its_pieces(void **state) {
  (void)state;
  static uint16_t left[2][4 * ALL], right[2][4 * ALL];
  for (int64_t stride = 1; stride <= 2; ++stride) {
    split_all(stride, 4, false, left[stride - 1]);
    split_all(stride, 4, true, right[stride - 1]);
  }
  assert_memory_equal(left[0], left[1], sizeof left[0]);
  assert_memory_equal(right[0], right[1], sizeof right[0]);
  for (int i = 0; i < ALL; ++i) {
    const uint16_t *l = left[0] + i, *r = right[0] + i;
    check_half((uint16_t)i, l[0], l[ALL], l[2 * ALL], l[3 * ALL]);
    check_half((uint16_t)i, r[0], r[2 * ALL], r[ALL], r[3 * ALL]);
  }
}

/* Three products leave less than 2^-16 of the true one out; the worst pair comes near to it. */
static void three_products_are_near_the_true_one(void **state) {
  (void)state;
  double worst = 0;
  for (uint32_t a = 0x3c00; a < 0x4000; ++a) { /* all mantissas */
    for (uint32_t b = 0x3c00; b < 0x4000; ++b) {
      const double x = trm_half_to_float((uint16_t)a), y = trm_half_to_float((uint16_t)b);
      const double low = x - trm_bfloat16_to_float(trm_float_to_bfloat16((float)x));
      const double other = y - trm_bfloat16_to_float(trm_float_to_bfloat16((float)y));
      const double left_out = fabs(low * other) / (x * y);
      if (left_out > worst) worst = left_out;
    }
  }
  assert_true(worst < 0x1p-16 && worst > 0x1p-17);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_choice_follows_the_cpu_and_the_option),
      cmocka_unit_test(a_half_is_the_sum_of_its_pieces),
      cmocka_unit_test(three_products_are_near_the_true_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

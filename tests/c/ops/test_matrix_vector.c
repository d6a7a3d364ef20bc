/* Products of a matrix and a vector have the same bits with each instruction set and however their
 * outputs are divided. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/products/matrix_vector.h"

enum { OUTPUTS = 77, INNER = 83, LINE = 90 };

static uint16_t halves[OUTPUTS * LINE];
static float floats[OUTPUTS * LINE], vector[LINE];

static void fill(trm_dtype dtype) {
  for (int i = 0; i < OUTPUTS * LINE; ++i) {
    floats[i] = sinf((float)i) * (i % 7 == 0 ? 1e-6f : 1.0f); /* some halves are subnormal */
    halves[i] = dtype == TRM_F16 ? trm_float_to_half(floats[i]) : trm_float_to_bfloat16(floats[i]);
  }
  for (int i = 0; i < LINE; ++i) vector[i] = cosf((float)i);
}

static double element(trm_dtype dtype, int64_t at) {
  if (dtype == TRM_F32) return (double)floats[at];
  return (double)(dtype == TRM_F16 ? trm_half_to_float(halves[at])
                                   : trm_bfloat16_to_float(halves[at]));
}

static void check(trm_dtype dtype, bool along_inner) {
  const trm_matrix_vector p = {.outputs = OUTPUTS,
                               .inner = INNER,
                               .output_stride = along_inner ? LINE : 1,
                               .inner_stride = along_inner ? 1 : OUTPUTS,
                               .dtype = dtype};
  const void *matrix = dtype == TRM_F32 ? (const void *)floats : halves;
  fill(dtype);
  float first[OUTPUTS], out[OUTPUTS];
  int found = 0;
  static const char *const names[] = {"baseline", "avx2", "avx512"};
  for (size_t n = 0; n < sizeof names / sizeof *names; ++n) {
    const trm_matrix_vector_loops *loops = trm_matrix_vector_find(names[n]);
    if (loops == NULL || trm_vector_ops_find(names[n]) == NULL) continue;
    const trm_matrix_vector_loop run = along_inner ? loops->along_inner : loops->along_outputs;
    for (int64_t cut = 0; cut < OUTPUTS; cut += TRM_MATRIX_VECTOR_UNIT) {
      memset(out, 0xff, sizeof out);
      if (cut > 0) run(&p, matrix, vector, out, 0, cut);
      run(&p, matrix, vector, out, cut, OUTPUTS);
      if (found++ == 0) memcpy(first, out, sizeof out);
      assert_memory_equal(out, first, sizeof out);
    }
  }
  for (int64_t i = 0; i < OUTPUTS; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < INNER; ++k) {
      sum += element(dtype, i * p.output_stride + k * p.inner_stride) * (double)vector[k];
    }
    assert_true(fabs((double)out[i] - sum) <= 1e-5);
  }
}

static void bits_are_the_same(void **state) {
  (void)state;
  static const trm_dtype dtypes[] = {TRM_F32, TRM_F16, TRM_BF16};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
    check(dtypes[i], false);
    check(dtypes[i], true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_the_same)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

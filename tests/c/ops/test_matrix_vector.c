/* Products of a matrix and a vector have the same bits with each instruction set, however their
 * outputs are divided and however their matrix is read. */
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
#include "host/ops/threads.h"

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

static void check(trm_dtype dtype, bool along_inner, int64_t ahead, bool is_ahead_l2) {
  const trm_matrix_vector p = {.outputs = OUTPUTS,
                               .inner = INNER,
                               .output_stride = along_inner ? LINE : 1,
                               .inner_stride = along_inner ? 1 : OUTPUTS,
                               .dtype = dtype,
                               .ahead = ahead,
                               .is_ahead_l2 = is_ahead_l2};
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
    for (int along_inner = 0; along_inner < 2; ++along_inner) {
      check(dtypes[i], along_inner != 0, 0, false);
      check(dtypes[i], along_inner != 0, 8 * LINE, false);
      check(dtypes[i], along_inner != 0, 8 * LINE, true);
    }
  }
}

/* ---- A matrix that is in no near cache ------------------------------------------------------- */

enum { WIDE = 600, LONG = 715, CHUNK = 64, CHUNKS = (LONG + CHUNK - 1) / CHUNK };

/* Of a column, from chunk `first` on. The lines of a chunk are added one after the other, the sums
 * of chunks in halves, the first of which is not the smaller one. */
static float add_halves(const float *column, const float *factors, int first, int last) {
  float sum = 0;
  if (last - first == 1) {
    for (int k = first * CHUNK; k < last * CHUNK && k < LONG; ++k) {
      sum += column[k * WIDE] * factors[k];
    }
    return sum;
  }
  const int middle = first + (last - first + 1) / 2;
  sum = add_halves(column, factors, first, middle);
  return sum + add_halves(column, factors, middle, last);
}

static void far_matrix_has_the_same_bits(void **state) {
  (void)state;
  static float matrix[LONG * WIDE], factors[LONG], wanted[WIDE], out[WIDE];
  for (int i = 0; i < LONG * WIDE; ++i) matrix[i] = sinf((float)i);
  for (int i = 0; i < LONG; ++i) factors[i] = cosf((float)i);
  for (int c = 0; c < WIDE; ++c) wanted[c] = add_halves(matrix + c, factors, 0, CHUNKS);
  trm_matrix_vector p = {
      .outputs = WIDE, .inner = LONG, .output_stride = 1, .inner_stride = WIDE, .dtype = TRM_F32};
  assert_true(trm_matrix_vector_plan(&p));
  assert_int_equal(p.chunks, CHUNKS);
  assert_true(p.ahead > 0);
  void *scratch = malloc(trm_matrix_vector_scratch_bytes(&p));
  assert_non_null(scratch);
  const uint64_t wakes = trm_threads_wakes();
  for (int threads = 1; threads <= 5; ++threads) {
    omp_set_num_threads(threads);
    for (int way = 0; way < 4; ++way) {
      p.is_by_line = way % 2 != 0;
      p.is_ahead_l2 = way / 2 != 0;
      memset(out, 0xff, sizeof out);
      trm_matrix_vector_run(&p, matrix, factors, out, scratch);
      assert_memory_equal(out, wanted, sizeof out);
    }
  }
  if (trm_threads_limit() > 1) assert_true(trm_threads_wakes() > wakes);
  free(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_the_same),
                                     cmocka_unit_test(far_matrix_has_the_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Attention without its square matrix: which programs have it, and that their numbers are those
 * without, within what two orders of sums differ by. */
#include <math.h>
#include <stdlib.h>

#include "../run.h"

static const trm_option without = {"disabled_passes", "join-attention"};

/* How many products stand outside of calls: a joined attention has none. */
static int count_products(const char *text, const trm_option *option) {
  trm_error error;
  char *printed = NULL;
  trm_executable *executable = test_compile(text, option);
  assert_int_equal(trm_executable_print(executable, &printed, &error), TRM_OK);
  const char *entry = strstr(printed, "\nENTRY ");
  assert_non_null(entry);
  const int count = test_occurrences(entry, " dot(");
  trm_free(printed);
  trm_executable_free(executable);
  return count;
}

static float *make_floats(size_t count, unsigned seed) {
  float *values = malloc(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)seed * 0x1p-31f;
  }
  return values;
}

/* The program has two products, of which `left` are left, and the same numbers as without. */
static void expect(const char *text, int left, size_t num_inputs, const size_t *in, size_t out) {
  void *inputs[4], *results[2];
  assert_int_equal(count_products(text, &without), 2);
  assert_int_equal(count_products(text, &test_modes[0]), left);
  for (size_t i = 0; i < num_inputs; ++i) inputs[i] = make_floats(in[i], 3 + (unsigned)i);
  for (size_t i = 0; i < 2; ++i) {
    results[i] = malloc(out * sizeof(float));
    memset(results[i], 0xff, out * sizeof(float));
    test_run_mode(text, i == 0 ? &without : &test_modes[0], (const void *const *)inputs,
                  &results[i]);
  }
  const float *a = results[0], *b = results[1];
  for (size_t k = 0; k < out; ++k) {
    if (!(fabsf(a[k] - b[k]) <= 2e-6f)) {
      fail_msg("element %zu: %g instead of %g", k, (double)b[k], (double)a[k]);
    }
  }
  for (size_t i = 0; i < num_inputs; ++i) free(inputs[i]);
  free(results[0]);
  free(results[1]);
}

#define FUNCTIONS                                                                      \
  "HloModule m\n"                                                                      \
  "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n" \
  "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }\n"
/* The softmax of `s`, whose shape is [leading, k]. */
#define SOFTMAX(leading, k, dimensions, last)                                                 \
  "  low = f32[] constant(-inf)  zero = f32[] constant(0)\n"                                  \
  "  m = f32[" leading "] reduce(s, low), dimensions={" last "}, to_apply=max\n"              \
  "  mm = f32[" leading "," k "] broadcast(m), dimensions={" dimensions "}\n"                 \
  "  d = f32[" leading "," k "] subtract(s, mm)  e = f32[" leading "," k "] exponential(d)\n" \
  "  t = f32[" leading "] reduce(e, zero), dimensions={" last "}, to_apply=sum\n"             \
  "  tt = f32[" leading "," k "] broadcast(t), dimensions={" dimensions "}\n"                 \
  "  p = f32[" leading "," k "] divide(e, tt)\n"

/* [b, h, q, d] as TensorFlow has it; rows of a batch that are no power of two. */
static void heads_lead(void **state) {
  (void)state;
  const size_t in[] = {2 * 3 * 150 * 40, 2 * 3 * 320 * 40, 2 * 3 * 320 * 24};
  expect(
      FUNCTIONS
      "ENTRY e { q = f32[2,3,150,40] parameter(0)  k = f32[2,3,320,40] parameter(1)\n"
      "  v = f32[2,3,320,24] parameter(2)\n"
      "  s = f32[2,3,150,320] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
      " lhs_contracting_dims={3}, rhs_contracting_dims={3}\n" SOFTMAX(
          "2,3,150", "320", "0,1,2",
          "3") "  ROOT o = f32[2,3,150,24] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
               " lhs_contracting_dims={3}, rhs_contracting_dims={2} }\n",
      0, 3, in, 2 * 3 * 150 * 24);
}

/* [b, q, h, d] as JAX has it: the second product has the weights on the right. */
static void heads_are_inside(void **state) {
  (void)state;
  const size_t in[] = {2 * 128 * 3 * 40, 2 * 384 * 3 * 40, 2 * 384 * 3 * 24};
  expect(FUNCTIONS
         "ENTRY e { q = f32[2,128,3,40] parameter(0)  k = f32[2,384,3,40] parameter(1)\n"
         "  v = f32[2,384,3,24] parameter(2)\n"
         "  s = f32[2,3,128,384] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},"
         " lhs_contracting_dims={3}, rhs_contracting_dims={3}\n" SOFTMAX(
             "2,3,128", "384", "0,1,2",
             "3") "  o = f32[2,3,24,128] dot(v, p), lhs_batch_dims={0,2}, rhs_batch_dims={0,1},"
                  " lhs_contracting_dims={1}, rhs_contracting_dims={3}\n"
                  "  ROOT t2 = f32[2,128,3,24] transpose(o), dimensions={0,3,1,2} }\n",
         0, 3, in, 2 * 128 * 3 * 24);
}

/* Dimensions of size 1, as jax.nn.dot_product_attention has them. */
static void ones_do_not_count(void **state) {
  (void)state;
  const size_t in[] = {2 * 128 * 3 * 40, 2 * 384 * 3 * 40, 2 * 384 * 3 * 24};
  expect(FUNCTIONS
         "ENTRY e { q = f32[2,128,3,1,40] parameter(0)  k = f32[2,384,3,40] parameter(1)\n"
         "  v = f32[2,384,3,24] parameter(2)\n"
         "  x = f32[2,3,128,1,384] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},"
         " lhs_contracting_dims={4}, rhs_contracting_dims={3}\n"
         "  s = f32[1,2,3,128,384] reshape(x)\n" SOFTMAX(
             "1,2,3,128", "384", "0,1,2,3",
             "4") "  o = f32[2,3,24,1,128] dot(v, p), lhs_batch_dims={0,2}, rhs_batch_dims={1,2},"
                  " lhs_contracting_dims={1}, rhs_contracting_dims={4}\n"
                  "  ROOT t2 = f32[2,128,3,1,24] transpose(o), dimensions={0,4,1,3,2} }\n",
         0, 3, in, 2 * 128 * 3 * 24);
}

/* Batch dimensions in another order, a scale, and a mask with a row for each row. */
static void scaled_and_masked(void **state) {
  (void)state;
  const size_t in[] = {3 * 2 * 256 * 16, 2 * 3 * 16 * 256, 3 * 2 * 256 * 16, 3 * 2 * 256 * 256};
  expect(
      FUNCTIONS
      "ENTRY e { q = f32[3,2,256,16] parameter(0)  k = f32[2,3,16,256] parameter(1)\n"
      "  v = f32[3,2,256,16] parameter(2)  mask = f32[2,3,256,256] parameter(3)\n"
      "  x = f32[2,3,256,256] dot(q, k), lhs_batch_dims={1,0}, rhs_batch_dims={0,1},"
      " lhs_contracting_dims={3}, rhs_contracting_dims={2}\n"
      "  scale = f32[] constant(0.25)  y = f32[2,3,256,256] broadcast(scale), dimensions={}\n"
      "  z = f32[2,3,256,256] multiply(x, y)  s = f32[2,3,256,256] add(z, mask)\n" SOFTMAX(
          "2,3,256", "256", "0,1,2",
          "3") "  ROOT o = f32[3,2,256,16] dot(p, v), lhs_batch_dims={1,0}, rhs_batch_dims={0,1},"
               " lhs_contracting_dims={3}, rhs_contracting_dims={2} }\n",
      0, 4, in, 3 * 2 * 256 * 16);
}

/* Halves, whose weights are kept between runs elsewhere. */
static void halves(void **state) {
  (void)state;
  const char *const text =
      FUNCTIONS "ENTRY e { qf = f32[4,256,32] parameter(0)  kf = f32[4,512,32] parameter(1)\n"
                "  vf = f32[4,512,32] parameter(2)  q = f16[4,256,32] convert(qf)\n"
                "  k = f16[4,512,32] convert(kf)  v = f16[4,512,32] convert(vf)\n"
                "  x = f16[4,256,512] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},"
                " lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
                "  s = f32[4,256,512] convert(x)\n" SOFTMAX(
                    "4,256", "512", "0,1",
                    "2") "  w = f16[4,256,512] convert(p)\n"
                         "  o = f32[4,256,32] dot(w, v), lhs_batch_dims={0}, rhs_batch_dims={0},"
                         " lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
                         "  ROOT r = f32[4,256,32] copy(o) }\n";
  const size_t in[] = {4 * 256 * 32, 4 * 512 * 32, 4 * 512 * 32};
  /* A score that is rounded the other way changes a weight by up to 2^-10 of it. */
  expect(text, 0, 3, in, 4 * 256 * 32);
}

/* Weights that another instruction reads stay in memory; so do few scores. */
static void others_stay(void **state) {
  (void)state;
  const size_t in[] = {4 * 256 * 16, 4 * 512 * 16, 4 * 512 * 16};
  expect(FUNCTIONS "ENTRY e { q = f32[4,256,16] parameter(0)  k = f32[4,512,16] parameter(1)\n"
                   "  v = f32[4,512,16] parameter(2)\n"
                   "  s = f32[4,256,512] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},"
                   " lhs_contracting_dims={2}, rhs_contracting_dims={2}\n" SOFTMAX(
                       "4,256", "512", "0,1",
                       "2") "  o = f32[4,256,16] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0},"
                            " lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
                            "  c = f32[4,256,16] slice(p), slice={[0:4], [0:256], [0:16]}\n"
                            "  ROOT r = f32[4,256,16] add(o, c) }\n",
         2, 3, in, 4 * 256 * 16);
  const size_t many[] = {80 * 32 * 16, 80 * 128 * 16, 80 * 128 * 16};
  expect(FUNCTIONS /* a softmax of all scores of a batch */
         "ENTRY e { q = f32[80,32,16] parameter(0)  k = f32[80,128,16] parameter(1)\n"
         "  v = f32[80,128,16] parameter(2)\n"
         "  s = f32[80,32,128] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},"
         " lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
         "  zero = f32[] constant(0)  e = f32[80,32,128] exponential(s)\n"
         "  t = f32[80] reduce(e, zero), dimensions={1,2}, to_apply=sum\n"
         "  tt = f32[80,32,128] broadcast(t), dimensions={0}\n"
         "  p = f32[80,32,128] divide(e, tt)\n"
         "  ROOT o = f32[80,32,16] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0},"
         " lhs_contracting_dims={2}, rhs_contracting_dims={1} }\n",
         2, 3, many, 80 * 32 * 16);
  const size_t few[] = {4 * 64 * 16, 4 * 64 * 16, 4 * 64 * 16};
  expect(FUNCTIONS
         "ENTRY e { q = f32[4,64,16] parameter(0)  k = f32[4,64,16] parameter(1)\n"
         "  v = f32[4,64,16] parameter(2)\n"
         "  s = f32[4,64,64] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},"
         " lhs_contracting_dims={2}, rhs_contracting_dims={2}\n" SOFTMAX(
             "4,64", "64", "0,1",
             "2") "  ROOT o = f32[4,64,16] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0},"
                  " lhs_contracting_dims={2}, rhs_contracting_dims={1} }\n",
         2, 3, few, 4 * 64 * 16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heads_lead),
      cmocka_unit_test(heads_are_inside),
      cmocka_unit_test(ones_do_not_count),
      cmocka_unit_test(scaled_and_masked),
      cmocka_unit_test(halves),
      cmocka_unit_test(others_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

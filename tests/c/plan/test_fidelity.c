/* Plans against published measurements: dense matmuls on a Bow within 5 % in the mean and 20 %
 * each, halves with the better partial sums; the plans of the IPU Model's program. bench/fidelity
 * prints the points; blurs on a GC2 within 25 %. */
#include <math.h>
#include <stdio.h>

#include "plan_case.h"

#include "../../../bench/fidelity/published.h"

static trm_linear_plan make(const trm_target *target, trm_dtype type, int64_t m, int64_t k,
                            int64_t n, bool half_partials) {
  const trm_conv_params params = trm_conv_params_matmul(type, type, 1, m, k, n);
  trm_plan_options options = trm_plan_options_default();
  if (half_partials) options.partials_type = TRM_F16;
  return make_plan(target, &params, &options);
}

static void test_matmuls(void **state) {
  (void)state;
  trm_target *bow = load("bow");
  double sum = 0;
  for (size_t i = 0; i < NUM_PUBLISHED_MATMULS; ++i) {
    const published_matmul *p = &published_matmuls[i];
    uint64_t cycles = make(bow, p->type, p->m, p->m, p->n, false).cycles;
    if (p->type == TRM_F16) {
      const uint64_t narrow = make(bow, p->type, p->m, p->m, p->n, true).cycles;
      if (narrow < cycles) cycles = narrow;
    }
    const double error = (double)cycles / published_cycles(p) - 1;
    if (fabs(error) > 0.20) {
      fail_msg("%s m = k = %d, n = %d: %llu cycles, published %.0f", trm_dtype_name(p->type), p->m,
               p->n, (unsigned long long)cycles, published_cycles(p));
    }
    sum += fabs(error);
  }
  if (sum / NUM_PUBLISHED_MATMULS > 0.05) {
    fail_msg("mean absolute error %.3f", sum / NUM_PUBLISHED_MATMULS);
  }
  trm_target_release(bow);
}

/* The two matmuls of row A: the tiles that were used, most of the cycles. */
static void test_model(void **state) {
  (void)state;
  trm_target *mk2 = load("mk2");
  const trm_linear_plan m4 = make(mk2, TRM_F32, 800, 500, 400, false);
  const trm_linear_plan m5 = make(mk2, TRM_F32, 800, 400, 200, false);
  assert_int_equal(m4.tiles_used, 1400);
  const double error = (double)(m4.cycles + m5.cycles) / published_model.cycles - 1;
  assert_true(error < 0 && error > -0.15); /* copies between the two come on top */
  uint64_t convolve = 0;
  for (uint32_t i = 0; i < m4.num_phases; ++i) {
    if (m4.phases[i].step == TRM_STEP_PARTIALS) convolve += m4.phases[i].compute_cycles;
  }
  for (uint32_t i = 0; i < m5.num_phases; ++i) {
    if (m5.phases[i].step == TRM_STEP_PARTIALS) convolve += m5.phases[i].compute_cycles;
  }
  assert_true(fabs((double)convolve / published_model.convolve - 1) < 0.2);
  trm_target_release(mk2);
}

/* Blurs of one channel on a GC2: few tiles send the kernel, and the image is rearranged. */
static void test_blurs(void **state) {
  (void)state;
  trm_target *mk1 = load("mk1");
  for (size_t i = 0; i < NUM_PUBLISHED_BLURS; ++i) {
    const published_blur *p = &published_blurs[i];
    if (p->is_short) continue;
    const trm_conv_params params = published_blur_params(p);
    trm_plan_options options = trm_plan_options_default();
    options.available_memory_proportion = p->proportion;
    const trm_linear_plan plan = make_plan(mk1, &params, &options);
    assert_true(fabs((double)plan.cycles / p->cycles - 1) < 0.25);
    assert_int_equal(plan.phases[0].step, TRM_STEP_REARRANGE);
    assert_true(plan.phases[1].exchange_cycles < 2000);
  }
  trm_target_release(mk1);
}

/* What no plan may break, whatever the machine: the peak; a faster clock is the same cycles; the
 * rate grows with the size until memory ends it. */
static void test_shape_of_the_model(void **state) {
  (void)state;
  static const char *const names[] = {"mk1", "mk2", "bow"};
  for (int t = 0; t < 3; ++t) {
    trm_target *target = load(names[t]);
    for (int half = 0; half < 2; ++half) {
      const trm_dtype type = half ? TRM_F16 : TRM_F32;
      const double peak =
          (half ? 4.0 : 1.0) * target->fp32_in_fp32_out_conv_units * target->tiles_per_ipu;
      double before = 0;
      for (int64_t n = 128; n <= 2048; n *= 2) {
        const trm_linear_plan plan = make(target, type, n, n, n, false);
        const double rate = plan.flops / 2 / (double)plan.cycles / peak;
        assert_true(rate < 0.9);
        assert_true(rate > before);
        before = rate;
      }
      assert_true(before > 0.45);
    }
    trm_target_release(target);
  }
}

/* Partial sums of a tile: the last addresses of its interleaved memory in poplibs' tests of the
 * IPU Model of a GC2 (bench/fidelity/layers.csv), less the region's begin and 24 bytes. Without
 * buses that two tiles share the planner cuts all but the first otherwise. */
static void test_partial_sums(void **state) {
  (void)state;
  static const struct {
    int64_t m, k, n, last_address;
  } points[] = {{200, 256, 30000, 150936},
                {600, 64, 10000, 151128},
                {600, 64, 30000, 194584},
                {200, 512, 30000, 193080}};
  trm_target *mk1 = load("mk1");
  for (size_t i = 0; i < sizeof points / sizeof *points; ++i) {
    const trm_linear_plan plan = make(mk1, TRM_F16, points[i].m, points[i].k, points[i].n, false);
    int64_t bytes = 4;
    for (uint32_t d = 0; d < plan.outputs.num_cuts; ++d) bytes *= plan.outputs.cuts[d].block_size;
    assert_int_equal(131072 + 24 + bytes, points[i].last_address);
  }
  trm_target_release(mk1);
}

/* Edges of the IPU Model's program, without those of copies between the two products: a vertex that
 * reduces reads the partial sums of other tiles as one block, where they are whole loops. */
static void test_edges(void **state) {
  (void)state;
  trm_target *mk2 = load("mk2");
  const trm_linear_plan plans[] = {make(mk2, TRM_F32, 800, 500, 400, false),
                                   make(mk2, TRM_F32, 800, 400, 200, false)};
  uint64_t edges = 0;
  bool found = false;
  for (int k = 0; k < 2; ++k) {
    edges += plans[k].edges;
    for (uint32_t i = 0; i < plans[k].num_phases; ++i) {
      const trm_plan_phase *phase = &plans[k].phases[i];
      found |= phase->step == TRM_STEP_REDUCE && phase->edges == 3 * phase->vertices;
    }
  }
  assert_true(found);
  assert_true((double)edges < published_model.edges);
  trm_target_release(mk2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matmuls),      cmocka_unit_test(test_model),
      cmocka_unit_test(test_partial_sums), cmocka_unit_test(test_blurs),
      cmocka_unit_test(test_edges),        cmocka_unit_test(test_shape_of_the_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

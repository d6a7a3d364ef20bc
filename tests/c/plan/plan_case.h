/* A machine, a convolution and its plan, for tests: what does not work fails the test. */
#ifndef TREMULA_TESTS_PLAN_PLAN_CASE_H_
#define TREMULA_TESTS_PLAN_PLAN_CASE_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ipu/plan/plan.h"
#include "ipu/target/target.h"

static inline trm_target *load(const char *name) {
  trm_target *target = NULL;
  trm_error error;
  if (trm_target_load(name, &target, &error) != TRM_OK) fail_msg("%s", error.message);
  return target;
}

/* Without constraints. */
static inline trm_linear_plan make_plan(const trm_target *target, const trm_conv_params *params,
                                        const trm_plan_options *options) {
  trm_linear_plan plan;
  trm_error error;
  if (trm_linear_plan_make(target, params, options, NULL, &plan, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  return plan;
}

/* Of two equal dimensions, padded so that stride 1 keeps their size. */
static inline trm_conv_params convolution(trm_dtype type, int64_t groups, int64_t batch, int64_t in,
                                          int64_t out, int64_t field, int64_t kernel,
                                          int64_t stride) {
  trm_conv_params p = {.input_type = type,
                       .output_type = type,
                       .groups = groups,
                       .batch = batch,
                       .in_channels = in,
                       .out_channels = out,
                       .num_dims = 2};
  const int64_t pad = (kernel - 1) / 2;
  for (int d = 0; d < 2; ++d) {
    p.dims[d] = (trm_conv_dim){field, kernel, stride, pad, kernel - 1 - pad, 1, 1, d == 0};
  }
  return p;
}

/* The mapping holds every element once, on tiles that there are. */
static inline void check_mapping(const trm_plan_mapping *m, uint32_t tiles, uint32_t used) {
  uint32_t last = 0, parts = 1;
  for (uint32_t i = 0; i < m->num_cuts; ++i) {
    const trm_plan_cut *cut = &m->cuts[i];
    assert_true(cut->block_size > 0 && cut->parallel > 0 && cut->serial > 0);
    assert_true(cut->block_size * cut->parallel * cut->serial >= cut->size);
    last += (cut->parallel - 1) * cut->tile_stride;
    parts *= cut->parallel;
  }
  last += (m->share - 1) * m->share_stride;
  assert_true(last < tiles);
  assert_true(last < used);
  assert_int_equal(m->tiles, parts * m->share);
  assert_true(m->tiles <= used);
}

/* What holds for every plan. */
static inline void check_plan(const trm_target *target, const trm_linear_plan *plan) {
  uint64_t cycles = 0, vertices = 0, edges = 0, turns = 1, fullest = 0;
  bool rearranges = false;
  for (uint32_t i = 0; i < plan->num_phases; ++i) {
    const trm_plan_phase *phase = &plan->phases[i];
    if (phase->times > turns) turns = phase->times;
    cycles += phase->times * (phase->sync_cycles + phase->exchange_cycles + phase->compute_cycles);
    vertices += phase->vertices;
    edges += phase->edges;
    fullest = phase->temp_bytes > fullest ? phase->temp_bytes : fullest;
    rearranges |= phase->step == TRM_STEP_REARRANGE || phase->step == TRM_STEP_REARRANGE_OUTPUT;
    if (phase->temp_bytes > plan->temp_bytes) {
      fail_msg("%s holds %llu bytes, the plan %llu", trm_plan_step_name(phase->step),
               (unsigned long long)phase->temp_bytes, (unsigned long long)plan->temp_bytes);
    }
    assert_true(phase->tiles > 0 && phase->tiles <= target->tiles_per_ipu);
    assert_true((phase->bytes_in > 0) == (phase->exchange_cycles > 0));
    assert_true(phase->bytes_exchanged <= phase->bytes_in * target->tiles_per_ipu);
  }
  assert_int_equal(cycles, plan->cycles);
  /* What lives over a loop lies beside its fullest step. (The plan takes the last sums of a
   * reduction for as wide as the others.) */
  if (turns > 1 && !rearranges) assert_true(10 * fullest >= 9 * plan->temp_bytes);
  assert_int_equal(vertices, plan->vertices);
  assert_int_equal(edges, plan->edges);
  const trm_plan_partition *p = &plan->partition;
  uint32_t used = p->batch * p->groups * p->in_channels * p->out_channels;
  for (int d = 0; d < TRM_PLAN_MAX_DIMS; ++d) used *= p->field[d] * p->kernel[d];
  assert_int_equal(used, plan->tiles_used);
  assert_int_equal(turns, p->in_channels_serial * p->out_channels_serial);
  check_mapping(&plan->inputs, target->tiles_per_ipu, used);
  check_mapping(&plan->weights, target->tiles_per_ipu, used);
  check_mapping(&plan->outputs, target->tiles_per_ipu, used);
  /* No method does more than its rate. */
  const double rate = 2.0 * 16 * 4 * target->tiles_per_ipu;
  assert_true(plan->flops <= rate * (double)plan->cycles);
}

#endif /* TREMULA_TESTS_PLAN_PLAN_CASE_H_ */

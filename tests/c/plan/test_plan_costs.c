/* What a plan costs: the formulas on numbers that were worked out by hand, and shapes of which one
 * costs a known part of another. */
#include <math.h>
#include <string.h>

#include "ipu/plan/internal.h"
#include "plan_case.h"

static plan_problem amp_problem(const trm_target *target, trm_dtype type, bool wide) {
  const trm_conv_params p = trm_conv_params_matmul(type, type, 1, 16, 32, 64);
  trm_plan_options options = trm_plan_options_default();
  options.use_128bit_conv_unit_load = wide;
  const trm_plan_transform transform = {false, 0, 0, 1};
  plan_problem problem;
  assert_true(plan_problem_init(target, &p, &options, &transform, TRM_METHOD_AMP, 16, 1,
                                type == TRM_F16 ? 16 : 8, 16, &problem));
  return problem;
}

/* 3 x 3 over 12 x 12 inputs, 16 channels in and out: one block of each. */
static void test_formulas_with_kernel(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  trm_conv_params shape = {.input_type = TRM_F16, .output_type = TRM_F16, .groups = 1, .batch = 1};
  shape.in_channels = shape.out_channels = 16;
  shape.num_dims = 2;
  shape.dims[0] = shape.dims[1] = (trm_conv_dim){12, 3, 1, 0, 0, 1, 1, true};
  shape.dims[1].outer = false;
  const trm_plan_options options = trm_plan_options_default();
  const trm_plan_transform transform = {false, 0, 0, 1};
  plan_problem p;
  assert_true(
      plan_problem_init(target, &shape, &options, &transform, TRM_METHOD_AMP, 16, 1, 16, 16, &p));
  /* Ten rows of ten on six workers: two items of a list, one of ten positions (34 + 4 x 7) and one
   * of seven (34 + 4 x 4). Each has 3 more; the call has 9 less by the registers that the worker
   * keeps. */
  plan_positions at = {.batch = 1, .field = {1, 1}, .split = 1, .tile_batch = 1, .count = 100};
  at.tile_field[0] = at.tile_field[1] = 10;
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * (17 - 9 + (62 + 3) + (50 + 3)) + 9);
  /* Registers are set up once for the convolution (9) and once for the zeros (9); a worker sets
   * 267 of 1600 sums to zero, 134 vectors. */
  const plan_channels c = {.tile_groups = 1, .tile_in = 16, .tile_out = 16, .tile_kernel = {3, 3}};
  const uint64_t block = 3 * (14 + 3 * (12 + 64 + 15 + 3)) + 9 * 400;
  assert_int_equal(plan_partial_cycles(&p, &c, 100, 400, 400),
                   109 + 6 * 9 + 16 + 14 + 14 + block + 6 * 9 + 6 * (134 + 5) + 23);
  trm_target_release(target);
}

static void test_formulas(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  plan_problem p = amp_problem(target, TRM_F16, false);
  /* 60 positions: 10 for each of six workers, 38 + 4 * 7 = 66 without zeroing, 65 with; 7 are saved
   * by the registers that a worker keeps. */
  plan_positions at = {.tile_batch = 60, .count = 60};
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * 59 + 14);
  assert_int_equal(at.inner_zero, 6 * 58 + 14);
  /* 16 positions: three or two; two cost more (35 against 31). */
  at.count = at.tile_batch = 16;
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * 35);
  /* One position: one worker. */
  at.count = at.tile_batch = 1;
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * 26);
  /* Two groups in, three out: 16 units x 32 bytes at 8 a cycle are 64 cycles. The registers are set
   * up once, and partly for the second group in. */
  plan_channels c = {.tile_groups = 1, .tile_in = 32, .tile_out = 48};
  assert_int_equal(
      plan_partial_cycles(&p, &c, 60, 400, 390),
      50 + 6 * (7 + 3) + 12 + 16 + 3 * (19 + 6 + 64 + 400) + 11 + 3 * (19 + 7 + 64 + 390));
  p = amp_problem(target, TRM_F16, true);
  assert_int_equal(
      plan_partial_cycles(&p, &c, 60, 400, 390),
      50 + 6 * (7 + 3) + 12 + 16 + 3 * (19 + 6 + 32 + 400) + 11 + 3 * (19 + 7 + 32 + 390));
  p = amp_problem(target, TRM_F32, false);
  at.count = at.tile_batch = 60;
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * (38 + 8 * 10) + 14);

  /* Reductions: 240 floats of 7: 60 loops, ten for each worker. Six others of 960 bytes are 5 760,
   * one memory element, less than a sixteenth of the tile: a single input. */
  assert_int_equal(plan_reduce_cycles(&p, 240, 7, true), 33 + 6 * (20 + 10 * (2 * 6 + 8)));
  assert_int_equal(plan_reduce_cycles(&p, 24000, 7, true), 6 * (32 + 1000 * (3 * 7 + 7)));
  assert_int_equal(plan_reduce_cycles(&p, 241, 7, true),
                   6 * (32 + (2 * 7 + 13) + 10 * (3 * 7 + 7)));
  assert_true(plan_reduces_one_block(&p, 240, 7));
  assert_false(plan_reduces_one_block(&p, 24000, 7));
  assert_false(plan_reduces_one_block(&p, 241, 7));
  int64_t left[3];
  assert_int_equal(plan_reduce_stages(1, true, left), 0);
  assert_int_equal(plan_reduce_stages(15, true, left), 1);
  assert_int_equal(plan_reduce_stages(16, true, left), 2);
  assert_int_equal(left[0], 4);
  assert_int_equal(left[1], 1);
  assert_int_equal(plan_reduce_stages(125, true, left), 3);
  assert_int_equal(left[0], 25);
  assert_int_equal(left[1], 5);
  assert_int_equal(plan_reduce_stages(1000, false, left), 1);
  for (int64_t depth = 2; depth < 1472; ++depth) {
    const uint32_t n = plan_reduce_stages(depth, true, left);
    assert_int_equal(left[n - 1], 1);
    for (uint32_t s = 0; s + 1 < n; ++s) assert_true(left[s] > left[s + 1] && left[s] < depth);
  }

  /* Moving: 4 bytes a cycle, 8 over a shared bus, 6 a message. */
  const uint64_t message = target->exchange_message_cycles;
  assert_int_equal(plan_exchange_cycles(target, 0, 0, 9), 0);
  assert_int_equal(plan_exchange_cycles(target, 401, 0, 0), 101);
  assert_int_equal(plan_exchange_cycles(target, 400, 800, 3), 100 + 100 + 3 * message);
  assert_int_equal(plan_rearrange_cycles(target, 1000, 2, true), 625);
  assert_int_equal(plan_rearrange_cycles(target, 900, 2, false), 750);
  assert_int_equal(plan_cast_cycles(target, 600, 4, 2), 6 * (50 + 26));
  assert_int_equal(plan_slice_cycles(target, 4800), 25 + 6 * (63 + 2 * 100));
  trm_target_release(target);
}

static void test_canonical(void **state) {
  (void)state;
  trm_conv_params p = convolution(TRM_F16, 1, 4, 64, 128, 56, 1, 2);
  p = plan_canonical(&p);
  assert_int_equal(p.num_dims, 0);
  assert_int_equal(p.batch, 4 * 28 * 28);
  p = convolution(TRM_F16, 1, 2, 8, 8, 10, 3, 1);
  p.dims[0].kernel = 1;
  p.dims[0].pad_low = p.dims[0].pad_high = 0;
  p = plan_canonical(&p);
  assert_int_equal(p.num_dims, 1);
  assert_int_equal(p.batch, 20);
  assert_int_equal(p.dims[0].kernel, 3);
  const trm_plan_transform transform = {false, 1, 0, 1};
  p = plan_transformed(&p, &transform);
  assert_int_equal(p.num_dims, 0);
  assert_int_equal(p.batch, 200);
  assert_int_equal(p.in_channels, 24);
  const trm_conv_dim dim = {.input = 20,
                            .kernel = 3,
                            .stride = 2,
                            .pad_low = 1,
                            .pad_high = 1,
                            .input_dilation = 1,
                            .kernel_dilation = 2};
  assert_int_equal(trm_conv_output_size(&dim), 9);
  assert_int_equal(plan_input_extent(&dim, 3, 3), 9);
  assert_int_equal(plan_input_extent(&dim, 100, 3), 20);
}

/* Positions that meet only padding cost nothing: of 7 x 7 outputs with a border of 1, (19 / 21)^2
 * of the work is left. */
static void test_padding(void **state) {
  (void)state;
  trm_target *target = load("mk1");
  const trm_plan_options options = trm_plan_options_default();
  trm_conv_params padded = convolution(TRM_F16, 1, 4, 512, 512, 7, 3, 1), whole = padded;
  for (int d = 0; d < 2; ++d) {
    padded.dims[d].pad_low = padded.dims[d].pad_high = 1;
    padded.dims[d].input = 7;
    whole.dims[d].pad_low = whole.dims[d].pad_high = 0;
    whole.dims[d].input = 9;
    assert_int_equal(trm_conv_output_size(&padded.dims[d]), 7);
    assert_int_equal(trm_conv_output_size(&whole.dims[d]), 7);
    assert_true(fabs(plan_busy_share(&padded.dims[d]) - 19.0 / 21) < 1e-9);
    assert_true(fabs(plan_busy_share(&whole.dims[d]) - 1) < 1e-9);
  }
  const trm_linear_plan a = make_plan(target, &padded, &options);
  const trm_linear_plan b = make_plan(target, &whole, &options);
  check_plan(target, &a);
  assert_true(fabs(a.flops / b.flops - 19.0 * 19 / (21 * 21)) < 1e-6);
  assert_true(a.cycles < b.cycles);
  /* A kernel that is nearly all padding: each output meets one input. */
  const trm_conv_dim wide = {.input = 1,
                             .kernel = 200,
                             .stride = 1,
                             .pad_low = 199,
                             .pad_high = 199,
                             .input_dilation = 1,
                             .kernel_dilation = 1};
  assert_int_equal(trm_conv_output_size(&wide), 200);
  for (int64_t k = 0; k < 200; k += 33) assert_int_equal(plan_busy_outputs(&wide, 0, 200, k), 1);
  assert_int_equal(plan_busy_outputs(&wide, 0, 100, 0), 0);
  assert_int_equal(plan_busy_outputs(&wide, 100, 100, 0), 1);
  trm_target_release(target);
}

/* The gradient of a pointwise convolution with stride 2: the outputs between are zeros. */
static void test_strided_gradient(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  const trm_plan_options options = trm_plan_options_default();
  trm_conv_params strided = convolution(TRM_F16, 1, 4, 2048, 1024, 14, 1, 1), dense = strided;
  for (int d = 0; d < 2; ++d) {
    strided.dims[d].input = 7;
    strided.dims[d].input_dilation = 2;
    strided.dims[d].pad_low = 0;
    strided.dims[d].pad_high = 1;
    assert_int_equal(trm_conv_output_size(&strided.dims[d]), 14);
    dense.dims[d].input = 7;
  }
  const trm_linear_plan a = make_plan(target, &strided, &options);
  const trm_linear_plan b = make_plan(target, &dense, &options);
  check_plan(target, &a);
  assert_int_equal(a.shape.batch, 4 * 49);
  assert_int_equal(a.cycles, b.cycles);
  trm_target_release(target);
}

/* The update of a 7 x 1 kernel lays out the columns alone: without a window they are rows with the
 * batch, and the rows of the kernel can be split. That of a 1 x 7 kernel lays out both. */
static void test_update_of_bar(void **state) {
  (void)state;
  trm_target *target = load("mk1");
  trm_plan_options options = trm_plan_options_default();
  options.pass = TRM_PASS_TRAINING_WU;
  uint64_t bytes[2];
  for (int d = 0; d < 2; ++d) {
    trm_conv_params p = convolution(TRM_F16, 1, 160, 4, 192, 17, 17, 1);
    for (int e = 0; e < 2; ++e) p.dims[e].pad_low = p.dims[e].pad_high = d == e ? 3 : 0;
    const trm_linear_plan plan = make_plan(target, &p, &options);
    check_plan(target, &plan);
    assert_int_equal(plan_laid_out(&plan.transform), d == 0 ? 2 : 3);
    bytes[d] = plan.temp_bytes;
  }
  assert_true(2 * bytes[0] < bytes[1]);
  trm_target_release(target);
}

/* Lists of work for rows: without a window in the innermost dimension the batch is a row, so that
 * its size does not count. */
static void test_lists_of_bar(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  trm_plan_options options = trm_plan_options_default();
  options.constraints =
      "{\"0\": {\"transform\": {\"expandDims\": []}}, \"method\": {\"type\": \"AMP\"}, "
      "\"inChansPerGroup\": 16}";
  for (int64_t batch = 16; batch <= 256; batch *= 4) {
    trm_conv_params p = convolution(TRM_F16, 1, batch, 64, 64, 70, 7, 1);
    p.dims[0].pad_low = p.dims[0].pad_high = 0;
    p.dims[1] = (trm_conv_dim){5, 1, 1, 0, 0, 1, 1, false};
    const trm_linear_plan plan = make_plan(target, &p, &options);
    check_plan(target, &plan);
    const uint64_t lists = (7 + plan.partition.kernel[0] - 1) / plan.partition.kernel[0] * 6;
    const uint64_t rows = (64 + plan.partition.field[0] - 1) / plan.partition.field[0];
    for (uint32_t i = 0; i < plan.num_phases; ++i) {
      if (plan.phases[i].step != TRM_STEP_PARTIALS) continue;
      assert_int_equal(plan.phases[i].list_bytes, lists * (4 + (rows + 5) / 6 * 6));
    }
  }
  trm_target_release(target);
}

/* The gradient of a kernel that is as wide as its input: each of 200 columns of the result is an
 * output channel. As positions they would meet one column of the input each. */
static void test_flattened(void **state) {
  (void)state;
  trm_target *target = load("mk1");
  trm_plan_options options = trm_plan_options_default();
  options.pass = TRM_PASS_TRAINING_BWD;
  trm_conv_params p = convolution(TRM_F16, 1, 1440, 100, 1, 11, 5, 1);
  p.dims[0].pad_low = p.dims[0].pad_high = 4;
  p.dims[1] = (trm_conv_dim){1, 200, 1, 199, 199, 1, 1, false};
  const trm_linear_plan plan = make_plan(target, &p, &options);
  check_plan(target, &plan);
  assert_int_equal(plan.transform.flatten_dims, 2);
  assert_int_equal(plan.method, TRM_METHOD_AMP);
  options.constraints = "{\"0\": {\"transform\": {\"outChanFlattenDims\": []}}}";
  assert_true(4 * plan.cycles < make_plan(target, &p, &options).cycles);
  trm_target_release(target);
}

/* The gradient of weights with little memory: what a turn reads is rearranged in that turn. */
static void test_rearranged_in_turns(void **state) {
  (void)state;
  trm_target *target = load("mk1");
  trm_plan_options options = trm_plan_options_default();
  options.pass = TRM_PASS_TRAINING_WU;
  trm_conv_params p = convolution(TRM_F16, 1, 64, 4, 64, 226, 224, 1);
  for (int d = 0; d < 2; ++d) p.dims[d].pad_low = p.dims[d].pad_high = 0, p.dims[d].input = 226;
  const trm_linear_plan plan = make_plan(target, &p, &options);
  check_plan(target, &plan);
  assert_int_equal(plan.fit, TRM_FIT_TARGET);
  assert_true(plan.partition.in_channels_serial > 1);
  assert_true(plan.inputs_rearranged && plan.weights_rearranged);
  bool found = false;
  for (uint32_t i = 0; i < plan.num_phases; ++i) {
    if (plan.phases[i].step != TRM_STEP_REARRANGE) continue;
    assert_int_equal(plan.phases[i].times, plan.partition.in_channels_serial);
    found = true;
  }
  assert_true(found);
  trm_target_release(target);
}

/* Input dilation puts zeros between inputs, which nothing is computed for: the data gradient of a
 * strided convolution. */
static void test_input_dilation(void **state) {
  (void)state;
  static const int64_t dilations[][3] = {{1, 1, 1}, {2, 1, 2}, {2, 2, 1}, {6, 4, 3}, {4, 6, 2}};
  for (size_t i = 0; i < sizeof dilations / sizeof *dilations; ++i) {
    const trm_conv_dim dim = {.input_dilation = dilations[i][0], .stride = dilations[i][1]};
    assert_int_equal(plan_every(&dim), dilations[i][2]);
  }
  trm_target *target = load("mk2");
  const trm_plan_options options = trm_plan_options_default();
  trm_conv_params plain = convolution(TRM_F16, 1, 4, 128, 128, 55, 3, 1), dilated = plain;
  for (int d = 0; d < 2; ++d) {
    dilated.dims[d].input = 28;
    dilated.dims[d].input_dilation = 2;
    assert_int_equal(trm_conv_output_size(&dilated.dims[d]), 55);
  }
  const trm_linear_plan a = make_plan(target, &plain, &options);
  const trm_linear_plan b = make_plan(target, &dilated, &options);
  check_plan(target, &b);
  /* Every second input in both dimensions, and less padding in proportion. */
  assert_true(fabs(b.flops / a.flops - 0.25) < 0.01);
  assert_true(b.cycles < a.cycles * 2 / 3);
  trm_target_release(target);
}

/* Weights lie in blocks of channels: 64 x 64 halves are 16 blocks of 16 x 16, so that 16 tiles
 * send them, also where hundreds need them. */
static void test_senders(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  const plan_problem p = amp_problem(target, TRM_F16, false);
  const plan_positions many = {.split = 367}, few = {.split = 5};
  assert_int_equal(plan_weight_senders(&p, 2 * 64 * 64, &many), 16);
  assert_int_equal(plan_weight_senders(&p, 2 * 64 * 64, &few), 5);
  assert_int_equal(plan_weight_senders(&p, 2, &many), 1);
  /* A pointwise convolution whose positions are cut for more than 300 tiles. */
  const trm_conv_params params = convolution(TRM_F16, 1, 20, 256, 64, 56, 1, 1);
  const trm_plan_options options = trm_plan_options_default();
  const trm_linear_plan plan = make_plan(target, &params, &options);
  const trm_plan_partition *cut = &plan.partition;
  assert_true(cut->batch > 300);
  for (uint32_t i = 0; i < plan.num_phases; ++i) {
    const trm_plan_phase *phase = &plan.phases[i];
    const int64_t blocks =
        plan_ceil_div(16, cut->in_channels) * plan_ceil_div(4, cut->out_channels);
    if (phase->step != TRM_STEP_PARTIALS) continue;
    assert_true(phase->messages <= cut->out_channels + (uint64_t)blocks + 2);
  }
  trm_target_release(target);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formulas),         cmocka_unit_test(test_formulas_with_kernel),
      cmocka_unit_test(test_canonical),        cmocka_unit_test(test_padding),
      cmocka_unit_test(test_strided_gradient), cmocka_unit_test(test_rearranged_in_turns),
      cmocka_unit_test(test_update_of_bar),    cmocka_unit_test(test_flattened),
      cmocka_unit_test(test_input_dilation),   cmocka_unit_test(test_senders),
      cmocka_unit_test(test_lists_of_bar),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Plans: what they contain, options and constraints, refusals, the cache, and the formulas on
 * numbers that were worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/linear/plan_internal.h"

static trm_target *load(const char *name) {
  trm_target *target = NULL;
  trm_error error;
  if (trm_target_load(name, &target, &error) != TRM_OK) fail_msg("%s", error.message);
  return target;
}

static trm_linear_plan make(const trm_target *target, const trm_conv_params *params,
                            const trm_plan_options *options) {
  trm_linear_plan plan;
  trm_error error;
  if (trm_linear_plan_make(target, params, options, NULL, &plan, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  return plan;
}

static trm_conv_params convolution(trm_dtype type, int64_t groups, int64_t batch, int64_t in,
                                   int64_t out, int64_t field, int64_t kernel, int64_t stride) {
  trm_conv_params p = {.input_type = type,
                       .output_type = type,
                       .groups = groups,
                       .batch = batch,
                       .in_channels = in,
                       .out_channels = out,
                       .num_dims = 2};
  const int64_t pad = (kernel - 1) / 2;
  for (int d = 0; d < 2; d++) {
    p.dims[d] = (trm_conv_dim){field, kernel, stride, pad, kernel - 1 - pad, 1, 1};
  }
  return p;
}

/* ---- What a plan contains -------------------------------------------------------------------- */

/* The mapping holds every element once, on tiles that there are. */
static void check_mapping(const trm_plan_mapping *m, uint32_t tiles, uint32_t used) {
  uint32_t last = 0, parts = 1;
  for (uint32_t i = 0; i < m->num_cuts; i++) {
    const trm_plan_cut *cut = &m->cuts[i];
    assert_true(cut->part_size > 0 && cut->parallel > 0 && cut->serial > 0);
    assert_true(cut->part_size * cut->parallel * cut->serial >= cut->size);
    last += (cut->parallel - 1) * cut->tile_stride;
    parts *= cut->parallel;
  }
  last += (m->share - 1) * m->share_stride;
  assert_true(last < tiles);
  assert_true(last < used);
  assert_int_equal(m->tiles, parts * m->share);
  assert_true(m->tiles <= used);
}

static void check_plan(const trm_target *target, const trm_linear_plan *plan) {
  uint64_t cycles = 0, vertices = 0, edges = 0, turns = 1;
  for (uint32_t i = 0; i < plan->num_phases; i++) {
    const trm_plan_phase *phase = &plan->phases[i];
    if (phase->times > turns) turns = phase->times;
    cycles += phase->times * (phase->sync_cycles + phase->exchange_cycles + phase->compute_cycles);
    vertices += phase->vertices;
    edges += phase->edges;
    if (phase->temp_bytes > plan->temp_bytes) {
      trm_text text = {0};
      trm_linear_plan_print(plan, &text);
      fail_msg("%s holds %llu bytes\n%s", trm_plan_step_name(phase->step),
               (unsigned long long)phase->temp_bytes, text.data);
    }
    assert_true(phase->tiles > 0 && phase->tiles <= target->tiles_per_ipu);
    assert_true((phase->bytes_in > 0) == (phase->exchange_cycles > 0));
    assert_true(phase->bytes_exchanged <= phase->bytes_in * target->tiles_per_ipu);
  }
  assert_int_equal(cycles, plan->cycles);
  assert_int_equal(vertices, plan->vertices);
  assert_int_equal(edges, plan->edges);
  const trm_plan_partition *p = &plan->partition;
  uint32_t used = p->batch * p->groups * p->in_channels * p->out_channels;
  for (int d = 0; d < TRM_PLAN_MAX_DIMS; d++) used *= p->field[d] * p->kernel[d];
  assert_int_equal(used, plan->tiles_used);
  assert_int_equal(turns, p->in_channels_serial * p->out_channels_serial);
  check_mapping(&plan->inputs, target->tiles_per_ipu, used);
  check_mapping(&plan->weights, target->tiles_per_ipu, used);
  check_mapping(&plan->outputs, target->tiles_per_ipu, used);
  /* No method does more than its rate. */
  const double rate = 2.0 * 16 * 4 * target->tiles_per_ipu;
  assert_true(plan->flops <= rate * (double)plan->cycles);
}

/* The layers of ResNet-50 and ResNeXt-101: forward, data gradient, weight gradient. */
static void test_networks(void **state) {
  (void)state;
  trm_target *targets[] = {load("mk1"), load("mk2"), load("bow")};
  uint64_t candidates = 0;
  for (size_t t = 0; t < 3; t++) {
    for (int stage = 0; stage < 4; stage++) {
      for (int half = 0; half < 2; half++) {
        const trm_dtype type = half ? TRM_F16 : TRM_F32;
        const int64_t field = 56 >> stage, width = 64 << stage;
        trm_conv_params layers[] = {
            convolution(type, 1, 4, 3, 64, 224, 7, 2),
            convolution(type, 1, 4, width, width, field, 3, 1),
            convolution(type, 1, 4, width, 4 * width, field, 1, 1),
            convolution(type, 1, 4, 4 * width, width, field, 1, 2),
            convolution(type, 32, 4, width / 16, width / 16, field, 3, 2),
            convolution(type, 1, width, 4, width, field + 2, field, 1), /* of weights */
            trm_conv_params_matmul(type, type, 1, 4, 2048, 1000),
        };
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
          const trm_plan_options options = trm_plan_options_default();
          const trm_linear_plan plan = make(targets[t], &layers[i], &options);
          check_plan(targets[t], &plan);
          assert_int_equal(plan.fit, TRM_FIT_TARGET);
          assert_true(plan.temp_bytes <= plan.bytes_allowed);
          assert_true(plan.exact);
          assert_int_equal(plan.lower_bound, plan.cycles);
          candidates += plan.candidates;
        }
      }
    }
  }
  /* Bounds leave most of the space out: it has some millions for each of these. */
  assert_true(candidates < 168 * 20000);
  for (size_t t = 0; t < 3; t++) trm_target_release(targets[t]);
}

/* A shape that no search can finish: a plan all the same, with the bound that was proved. */
static void test_extreme(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  trm_conv_params p = {.input_type = TRM_F16, .output_type = TRM_F16, .groups = 61, .batch = 64,
                       .in_channels = 2, .out_channels = 4, .num_dims = 3};
  static const int64_t sizes[3][3] = {{153, 18, 2}, {132, 22, 1}, {224, 7, 2}};
  for (int d = 0; d < 3; d++) {
    p.dims[d] = (trm_conv_dim){sizes[d][0], sizes[d][1], sizes[d][2], 0, 0, 1, 1};
  }
  trm_plan_options options = trm_plan_options_default();
  options.available_memory_proportion = 0.05;
  const trm_linear_plan plan = make(target, &p, &options);
  check_plan(target, &plan);
  assert_false(plan.exact);
  assert_true(plan.lower_bound <= (plan.fit == TRM_FIT_LEAST ? plan.temp_bytes : plan.cycles));
  trm_target_release(target);
}

/* Less memory never makes a plan faster, and it is kept or the plan says so. */
static void test_proportion(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  const trm_conv_params shapes[] = {trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 2048, 2048, 2048),
                                    convolution(TRM_F16, 1, 16, 256, 256, 56, 3, 1)};
  for (size_t s = 0; s < 2; s++) {
    uint64_t before = 0;
    for (int tenth = 10; tenth >= 0; tenth--) {
      trm_plan_options options = trm_plan_options_default();
      options.available_memory_proportion = tenth / 10.0;
      const trm_linear_plan plan = make(target, &shapes[s], &options);
      check_plan(target, &plan);
      if (plan.fit == TRM_FIT_TARGET) {
        assert_true((double)plan.temp_bytes <= tenth / 10.0 * 638976);
        assert_true(plan.cycles >= before);
        before = plan.cycles;
      } else {
        assert_true((double)plan.temp_bytes > tenth / 10.0 * 638976);
      }
      if (tenth == 0) assert_int_equal(plan.fit, TRM_FIT_LEAST);
    }
  }
  trm_target_release(target);
}

/* Options do what they say. */
static void test_options_matter(void **state) {
  (void)state;
  trm_target *target = load("bow");
  const trm_conv_params matmul = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 1024, 1024, 1024);
  trm_plan_options options = trm_plan_options_default();
  const uint64_t standard = make(target, &matmul, &options).cycles;
  options.use_128bit_conv_unit_load = true;
  assert_true(make(target, &matmul, &options).cycles < standard);
  options = trm_plan_options_default();
  options.partials_type = TRM_F16;
  const trm_linear_plan half = make(target, &matmul, &options);
  assert_int_equal(half.partials_type, TRM_F16);
  assert_true(half.cycles < standard);
  options = trm_plan_options_default();
  options.inter_tile_partials_type = TRM_F16;
  const trm_linear_plan narrowed = make(target, &matmul, &options);
  assert_true(narrowed.cycles <= standard);
  options = trm_plan_options_default();
  options.enable_fast_reduce = true;
  assert_true(make(target, &matmul, &options).cycles < standard);
  options = trm_plan_options_default();
  options.pass = TRM_PASS_FC_TRAINING_WU;
  assert_true(make(target, &matmul, &options).cycles > standard);
  const trm_conv_params deep = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 4, 65536, 4);
  options = trm_plan_options_default();
  const trm_linear_plan stages = make(target, &deep, &options);
  options.enable_multi_stage_reduce = false;
  const trm_linear_plan one_stage = make(target, &deep, &options);
  assert_true(stages.num_phases > one_stage.num_phases);
  /* Floats have float partial sums whatever is asked. */
  const trm_conv_params single = trm_conv_params_matmul(TRM_F32, TRM_F32, 1, 64, 64, 64);
  options = trm_plan_options_default();
  options.partials_type = TRM_F16;
  assert_int_equal(make(target, &single, &options).partials_type, TRM_F32);
  trm_target_release(target);
}

/* ---- Options and constraints as text --------------------------------------------------------- */

static void refuse_option(const char *key, const char *value, trm_status status,
                          const char *word) {
  trm_plan_options options = trm_plan_options_default();
  trm_error error;
  assert_int_equal(trm_plan_option_set(&options, key, value, &error), status);
  if (strstr(error.message, word) == NULL) fail_msg("\"%s\" lacks %s", error.message, word);
}

static void test_option_text(void **state) {
  (void)state;
  trm_plan_options options = trm_plan_options_default();
  trm_error error;
  static const char *const good[][2] = {
      {"availableMemoryProportion", "0.25"}, {"partialsType", "half"},
      {"partialsType.interTile", "half"},    {"use128BitConvUnitLoad", "true"},
      {"enableMultiStageReduce", "false"},   {"enableFastReduce", "true"},
      {"pass", "TRAINING_BWD"},              {"planConstraints", "{}"},
      {"remapOutputTensor", "true"},         {"partialsType.interIPU", "float"},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_int_equal(trm_plan_option_set(&options, good[i][0], good[i][1], &error), TRM_OK);
  }
  assert_true(options.available_memory_proportion == 0.25);
  assert_int_equal(options.partials_type, TRM_F16);
  assert_int_equal(options.inter_tile_partials_type, TRM_F16);
  assert_true(options.use_128bit_conv_unit_load);
  assert_false(options.enable_multi_stage_reduce);
  assert_true(options.enable_fast_reduce);
  assert_int_equal(options.pass, TRM_PASS_TRAINING_BWD);
  assert_string_equal(options.constraints, "{}");
  assert_int_equal(trm_plan_option_set(&options, "fullyConnectedPass", "TRAINING_WU", &error),
                   TRM_OK);
  assert_int_equal(options.pass, TRM_PASS_FC_TRAINING_WU);
  static const char *const proportions[] = {"-0.1", "1.01", "nan", "", "0.5x", "half"};
  for (size_t i = 0; i < sizeof proportions / sizeof *proportions; i++) {
    refuse_option("availableMemoryProportion", proportions[i], TRM_INVALID_ARGUMENT, "0 to 1");
  }
  refuse_option("partialType", "half", TRM_INVALID_ARGUMENT, "partialsType");
  refuse_option("partialsType", "double", TRM_INVALID_ARGUMENT, "half or float");
  refuse_option("enableFastReduce", "yes", TRM_INVALID_ARGUMENT, "true or false");
  refuse_option("pass", "TRAINING", TRM_INVALID_ARGUMENT, "TRAINING_");
  refuse_option("enableConvDithering", "true", TRM_UNIMPLEMENTED, "enableConvDithering");
}

static trm_linear_plan constrained(const trm_target *target, const trm_conv_params *params,
                                   const char *text) {
  trm_plan_options options = trm_plan_options_default();
  options.constraints = text;
  return make(target, params, &options);
}

static void refuse_constraints(const trm_target *target, const trm_conv_params *params,
                               const char *text, const char *word) {
  trm_plan_options options = trm_plan_options_default();
  options.constraints = text;
  trm_linear_plan plan;
  trm_error error;
  assert_int_equal(trm_linear_plan_make(target, params, &options, NULL, &plan, &error),
                   TRM_INVALID_ARGUMENT);
  if (strstr(error.message, word) == NULL) fail_msg("\"%s\" lacks %s", error.message, word);
}

static void test_constraints(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  const trm_conv_params matmul = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 512, 512, 512);
  const trm_conv_params window = convolution(TRM_F16, 8, 2, 4, 4, 28, 3, 1);
  trm_linear_plan plan = constrained(
      target, &matmul, "{\"0\": {\"transform\": {\"swapOperands\": true}, \"partition\":"
      " {\"fieldSplit\": {\"1\": 4}, \"inChanSplit\": 4, \"outChanSplit\": {\"parallel\": 4}}}}");
  check_plan(target, &plan);
  assert_true(plan.transform.swap_operands);
  assert_int_equal(plan.partition.batch, 4);
  assert_int_equal(plan.partition.in_channels, 4);
  assert_int_equal(plan.partition.out_channels, 4);
  /* A split that is no canonical one is kept too: 32 grains in 7. */
  plan = constrained(target, &matmul, "{\"0\": {\"partition\": {\"outChanSplit\":"
                     " {\"parallel\": 7, \"serial\": 2}, \"inChanSplit\": {\"serial\": 1}}}}");
  assert_int_equal(plan.partition.out_channels, 7);
  assert_int_equal(plan.partition.out_channels_serial, 2);
  plan = constrained(target, &matmul,
                     "{\"0\": {\"partition\": {\"inChanSplit\": {\"serial\": 8}}}}");
  assert_int_equal(plan.partition.in_channels_serial, 8);
  check_plan(target, &plan);
  static const char *const methods[] = {"AMP", "SLIC", "HMAC"};
  for (int m = 0; m < 3; m++) {
    char text[64];
    snprintf(text, sizeof text, "{\"method\": {\"type\": \"%s\"}}", methods[m]);
    plan = constrained(target, &window, text);
    assert_string_equal(trm_plan_method_name(plan.method), methods[m]);
    check_plan(target, &plan);
  }
  plan = constrained(target, &window, "{\"method\": {\"type\": \"AMP\", \"convUnits\": 8},"
                     " \"inChansPerGroup\": 4, \"partialChansPerGroup\": 8, \"0\": {\"partition\":"
                     " {\"fieldSplit\": {\"0\": 7, \"1\": 2}, \"batchSplit\": 2, \"kernelSplit\":"
                     " {\"0\": 3}, \"convGroupSplit\": 4}}}");
  assert_int_equal(plan.conv_units, 8);
  assert_int_equal(plan.in_channels_per_group, 4);
  assert_int_equal(plan.partition.field[0], 7);
  assert_int_equal(plan.partition.field[1], 2);
  assert_int_equal(plan.partition.batch, 2);
  assert_int_equal(plan.partition.kernel[0], 3);
  assert_int_equal(plan.partition.groups, 4);
  plan = constrained(target, &window, "{\"0\": {\"transform\": {\"expandDims\": [0],"
                     " \"combineConvGroups\": 2}}}");
  assert_int_equal(plan.transform.expand_dims, 1);
  assert_int_equal(plan.transform.combine_groups, 2);
  check_plan(target, &plan);

  refuse_constraints(target, &matmul, "{\"method\": {\"type\": \"VMAC\"}}", "no plan keeps");
  refuse_constraints(target, &matmul, "{\"0\": {\"partition\": {\"batchSplit\": 9999}}}",
                     "no plan keeps");
  refuse_constraints(target, &matmul, "{\"0\": {\"partition\": {\"outChanSplit\": {\"serial\": 2},"
                     " \"inChanSplit\": {\"serial\": 2}}}}", "no plan keeps");
  refuse_constraints(target, &matmul, "{\"0\": {\"partition\": {\"batchSplit\": 65536,"
                     " \"fieldSplit\": {\"0\": 65536}}}}", "no plan keeps");
  refuse_constraints(target, &matmul, "{\"method\": {\"type\": \"AMPX\"}}", "AMP, SLIC");
  refuse_constraints(target, &matmul, "{\"0\": {\"partitions\": {}}}", "partition");
  refuse_constraints(target, &matmul, "{\"0\": {\"partition\": {\"batchSplit\": 0}}}",
                     "batchSplit");
  refuse_constraints(target, &matmul, "{\"0\": {\"partition\": {\"fieldSplit\": {\"3\": 2}}}}",
                     "dimension");
  refuse_constraints(target, &matmul, "{\"1\": {}}", "no key");
  refuse_constraints(target, &matmul, "{", "JSON");
  trm_target_release(target);
}

/* ---- Refusals, the cache --------------------------------------------------------------------- */

static void refuse_params(const trm_target *target, trm_conv_params params, const char *word) {
  const trm_plan_options options = trm_plan_options_default();
  trm_linear_plan plan;
  trm_error error;
  assert_int_equal(trm_linear_plan_make(target, &params, &options, NULL, &plan, &error),
                   TRM_INVALID_ARGUMENT);
  if (strstr(error.message, word) == NULL) fail_msg("\"%s\" lacks %s", error.message, word);
}

static void test_refused(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  refuse_params(target, trm_conv_params_matmul(TRM_S32, TRM_S32, 1, 1, 1, 1), "s32");
  refuse_params(target, trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 0, 1, 1), "output channels");
  refuse_params(target, trm_conv_params_matmul(TRM_F16, TRM_F16, -1, 1, 1, 1), "groups");
  refuse_params(target, trm_conv_params_matmul(TRM_F16, TRM_F16, 1, (int64_t)1 << 31,
                                               (int64_t)1 << 31, 1), "elements");
  trm_conv_params params = convolution(TRM_F16, 1, 1, 1, 1, 8, 3, 1);
  params.dims[1].stride = 0;
  refuse_params(target, params, "stride");
  params.dims[1].stride = 1;
  params.dims[0].pad_low = -20;
  refuse_params(target, params, "output size");
  params.num_dims = 4;
  refuse_params(target, params, "dimensions");
  static const double proportions[] = {-0.01, 1.01, 1e300, -1e300};
  for (size_t i = 0; i < 4; i++) {
    const trm_conv_params matmul = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 1, 1, 1);
    trm_plan_options options = trm_plan_options_default();
    options.available_memory_proportion = proportions[i];
    trm_linear_plan plan;
    trm_error error;
    assert_int_equal(trm_linear_plan_make(target, &matmul, &options, NULL, &plan, &error),
                     TRM_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "0 to 1"));
  }
  trm_target_release(target);
}

static void test_cache(void **state) {
  (void)state;
  trm_target *mk2 = load("mk2"), *bow = load("bow");
  trm_plan_cache *cache = trm_plan_cache_create();
  uint64_t hits, misses;
  trm_error error;
  trm_linear_plan first, again;
  for (int round = 0; round < 2; round++) {
    for (int64_t n = 1; n <= 80; n++) {
      const trm_conv_params p = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, n, 16, 16);
      const trm_plan_options options = trm_plan_options_default();
      assert_int_equal(trm_linear_plan_make(n % 2 ? mk2 : bow, &p, &options, cache, &again, &error),
                       TRM_OK);
    }
  }
  trm_plan_cache_counts(cache, &hits, &misses);
  assert_int_equal(misses, 80);
  assert_int_equal(hits, 80);
  /* The same operation after canonicalisation: a 1x1 convolution's field is batch. */
  trm_conv_params a = convolution(TRM_F16, 1, 2, 64, 64, 14, 1, 1);
  trm_conv_params b = convolution(TRM_F16, 1, 8, 64, 64, 14, 1, 2); /* 7 x 7 outputs */
  trm_plan_options options = trm_plan_options_default();
  assert_int_equal(trm_linear_plan_make(mk2, &a, &options, cache, &first, &error), TRM_OK);
  assert_int_equal(trm_linear_plan_make(mk2, &b, &options, cache, &again, &error), TRM_OK);
  assert_memory_equal(&first, &again, sizeof first);
  trm_plan_cache_counts(cache, &hits, &misses);
  assert_int_equal(misses, 81);
  /* An option is another plan. */
  options.use_128bit_conv_unit_load = true;
  assert_int_equal(trm_linear_plan_make(mk2, &a, &options, cache, &again, &error), TRM_OK);
  options.constraints = "{\"0\": {\"partition\": {\"batchSplit\": 2}}}";
  assert_int_equal(trm_linear_plan_make(mk2, &a, &options, cache, &again, &error), TRM_OK);
  trm_plan_cache_counts(cache, &hits, &misses);
  assert_int_equal(misses, 83);
  assert_int_equal(again.partition.batch, 2);
  trm_plan_cache_free(cache);
  trm_plan_cache_free(NULL);
  trm_target_release(mk2);
  trm_target_release(bow);
}

static void test_out_of_memory(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  const trm_conv_params p = trm_conv_params_matmul(TRM_F32, TRM_F32, 1, 9, 3, 5);
  const trm_plan_options options = trm_plan_options_default();
  for (int64_t n = 0;; n++) {
    trm_plan_cache *cache = trm_plan_cache_create();
    trm_linear_plan plan;
    trm_error error;
    trm_allocation_fail_after(n);
    const trm_status status = trm_linear_plan_make(target, &p, &options, cache, &plan, &error);
    trm_allocation_fail_after(-1);
    trm_plan_cache_free(cache);
    if (status == TRM_OK) {
      assert_true(n > 3);
      break;
    }
    assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
  }
  trm_target_release(target);
}

static void test_print(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  const trm_conv_params p = convolution(TRM_F16, 32, 4, 4, 4, 56, 3, 1);
  const trm_plan_options options = trm_plan_options_default();
  const trm_linear_plan plan = make(target, &p, &options);
  trm_text one = {0}, two = {0};
  trm_linear_plan_print(&plan, &one);
  trm_linear_plan_print(&plan, &two);
  assert_string_equal(one.data, two.data);
  assert_non_null(strstr(one.data, trm_plan_method_name(plan.method)));
  assert_non_null(strstr(one.data, "Convolve"));
  trm_text_free(&one);
  trm_text_free(&two);
  trm_target_release(target);
}

/* ---- Formulas by hand ------------------------------------------------------------------------ */

static plan_problem amp_problem(const trm_target *target, trm_dtype type, bool wide) {
  const trm_conv_params p = trm_conv_params_matmul(type, type, 1, 16, 32, 64);
  trm_plan_options options = trm_plan_options_default();
  options.use_128bit_conv_unit_load = wide;
  const trm_plan_transform transform = {false, 0, 1};
  plan_problem problem;
  assert_true(plan_problem_init(target, &p, &options, &transform, TRM_METHOD_AMP, 16, 1,
                                type == TRM_F16 ? 16 : 8, 16, &problem));
  return problem;
}

static void test_formulas(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  plan_problem p = amp_problem(target, TRM_F16, false);
  /* 60 positions: 10 for each of six workers, 38 + 4 * 7 = 66 without zeroing, 65 with. */
  plan_positions at = {.tile_batch = 60, .count = 60};
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * 66 + 14);
  assert_int_equal(at.inner_zero, 6 * 65 + 14);
  /* 16 positions: three or two; two cost more (42 against 38). */
  at.count = at.tile_batch = 16;
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * 42);
  /* One position: one worker. */
  at.count = at.tile_batch = 1;
  plan_inner_cycles(&p, NULL, &at);
  assert_int_equal(at.inner, 6 * 33);
  /* Two groups in, three out: 16 units x 32 bytes at 8 a cycle are 64 cycles. */
  plan_channels c = {.tile_groups = 1, .tile_in = 32, .tile_out = 48};
  assert_int_equal(plan_partial_cycles(&p, &c, 60, 400, 390),
                   50 + 12 + 16 + 3 * (19 + 6 + 64 + 400) + 11 + 3 * (19 + 7 + 64 + 390));
  p = amp_problem(target, TRM_F16, true);
  assert_int_equal(plan_partial_cycles(&p, &c, 60, 400, 390),
                   50 + 12 + 16 + 3 * (19 + 6 + 32 + 400) + 11 + 3 * (19 + 7 + 32 + 390));
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
  for (int64_t depth = 2; depth < 1472; depth++) {
    const uint32_t n = plan_reduce_stages(depth, true, left);
    assert_int_equal(left[n - 1], 1);
    for (uint32_t s = 0; s + 1 < n; s++) assert_true(left[s] > left[s + 1] && left[s] < depth);
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
  const trm_plan_transform transform = {false, 1, 1};
  p = plan_transformed(&p, &transform);
  assert_int_equal(p.num_dims, 0);
  assert_int_equal(p.batch, 200);
  assert_int_equal(p.in_channels, 24);
  const trm_conv_dim dim = {.input = 20, .kernel = 3, .stride = 2, .pad_low = 1, .pad_high = 1,
                            .input_dilation = 1, .kernel_dilation = 2};
  assert_int_equal(trm_conv_output_size(&dim), 9);
  assert_int_equal(plan_input_extent(&dim, 3, 3), 9);
  assert_int_equal(plan_input_extent(&dim, 100, 3), 20);
}

/* Positions that meet only padding cost nothing: of 7 x 7 outputs with a border of 1, (19 / 21)^2 of the
 * work is left. */
static void test_padding(void **state) {
  (void)state;
  trm_target *target = load("mk1");
  const trm_plan_options options = trm_plan_options_default();
  trm_conv_params padded = convolution(TRM_F16, 1, 4, 512, 512, 7, 3, 1), whole = padded;
  for (int d = 0; d < 2; d++) {
    padded.dims[d].pad_low = padded.dims[d].pad_high = 1;
    padded.dims[d].input = 7;
    whole.dims[d].pad_low = whole.dims[d].pad_high = 0;
    whole.dims[d].input = 9;
    assert_int_equal(trm_conv_output_size(&padded.dims[d]), 7);
    assert_int_equal(trm_conv_output_size(&whole.dims[d]), 7);
    assert_true(fabs(plan_busy_share(&padded.dims[d]) - 19.0 / 21) < 1e-9);
    assert_true(fabs(plan_busy_share(&whole.dims[d]) - 1) < 1e-9);
  }
  const trm_linear_plan a = make(target, &padded, &options), b = make(target, &whole, &options);
  check_plan(target, &a);
  assert_true(fabs(a.flops / b.flops - 19.0 * 19 / (21 * 21)) < 1e-6);
  assert_true(a.cycles < b.cycles);
  /* A kernel that is nearly all padding: each output meets one input. */
  const trm_conv_dim wide = {.input = 1, .kernel = 200, .stride = 1, .pad_low = 199, .pad_high = 199,
                             .input_dilation = 1, .kernel_dilation = 1};
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
  for (int d = 0; d < 2; d++) {
    strided.dims[d].input = 7;
    strided.dims[d].input_dilation = 2;
    strided.dims[d].pad_low = 0;
    strided.dims[d].pad_high = 1;
    assert_int_equal(trm_conv_output_size(&strided.dims[d]), 14);
    dense.dims[d].input = 7;
  }
  const trm_linear_plan a = make(target, &strided, &options), b = make(target, &dense, &options);
  check_plan(target, &a);
  assert_int_equal(a.shape.batch, 4 * 49);
  assert_int_equal(a.cycles, b.cycles);
  trm_target_release(target);
}

/* The gradient of weights with little memory: what a turn reads is rearranged in that turn. */
static void test_rearranged_in_turns(void **state) {
  (void)state;
  trm_target *target = load("mk1");
  trm_plan_options options = trm_plan_options_default();
  options.pass = TRM_PASS_TRAINING_WU;
  trm_conv_params p = convolution(TRM_F16, 1, 64, 4, 64, 226, 224, 1);
  for (int d = 0; d < 2; d++) p.dims[d].pad_low = p.dims[d].pad_high = 0, p.dims[d].input = 226;
  const trm_linear_plan plan = make(target, &p, &options);
  check_plan(target, &plan);
  assert_int_equal(plan.fit, TRM_FIT_TARGET);
  assert_true(plan.partition.in_channels_serial > 1);
  assert_true(plan.inputs_rearranged && plan.weights_rearranged);
  bool found = false;
  for (uint32_t i = 0; i < plan.num_phases; i++) {
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
  for (size_t i = 0; i < sizeof dilations / sizeof *dilations; i++) {
    const trm_conv_dim dim = {.input_dilation = dilations[i][0], .stride = dilations[i][1]};
    assert_int_equal(plan_every(&dim), dilations[i][2]);
  }
  trm_target *target = load("mk2");
  const trm_plan_options options = trm_plan_options_default();
  trm_conv_params plain = convolution(TRM_F16, 1, 4, 128, 128, 55, 3, 1), dilated = plain;
  for (int d = 0; d < 2; d++) {
    dilated.dims[d].input = 28;
    dilated.dims[d].input_dilation = 2;
    assert_int_equal(trm_conv_output_size(&dilated.dims[d]), 55);
  }
  const trm_linear_plan a = make(target, &plain, &options), b = make(target, &dilated, &options);
  check_plan(target, &b);
  /* Every second input in both dimensions, and less padding in proportion. */
  assert_true(fabs(b.flops / a.flops - 0.25) < 0.01);
  assert_true(b.cycles < a.cycles * 2 / 3);
  trm_target_release(target);
}

/* ---- Of HLO ---------------------------------------------------------------------------------- */

static trm_conv_params params_of(const char *text, trm_module **out_module) {
  trm_error error;
  trm_conv_params params;
  if (trm_module_read(text, strlen(text), "test", out_module, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  const trm_module *module = *out_module;
  const trm_computation *entry = &module->computations[module->entry];
  if (trm_conv_params_from_instruction(entry, &entry->instructions[entry->root], &params,
                                       &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  return params;
}

static void test_instructions(void **state) {
  (void)state;
  trm_module *module = NULL;
  trm_conv_params p = params_of(
      "HloModule m\n\nENTRY e {\n  a = f16[7,5,32] parameter(0)\n  b = f16[32,7,11] parameter(1)\n"
      "  ROOT d = f16[7,5,11] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={1},"
      " lhs_contracting_dims={2}, rhs_contracting_dims={0}\n}\n", &module);
  assert_int_equal(p.groups, 7);
  assert_int_equal(p.out_channels, 5);
  assert_int_equal(p.in_channels, 32);
  assert_int_equal(p.batch, 11);
  assert_int_equal(p.input_type, TRM_F16);
  assert_true(p.first_is_weights);
  trm_module_free(module);
  p = params_of(
      "HloModule m\n\nENTRY e {\n  a = f32[4,56,40,64] parameter(0)\n"
      "  b = f32[3,1,4,96] parameter(1)\n"
      "  ROOT c = f32[4,28,40,96] convolution(a, b), window={size=3x1 stride=2x1 pad=0_1x0_0},"
      " dim_labels=b01f_01io->b01f, feature_group_count=16\n}\n", &module);
  assert_int_equal(p.groups, 16);
  assert_int_equal(p.batch, 160);
  assert_int_equal(p.in_channels, 4);
  assert_int_equal(p.out_channels, 6);
  assert_int_equal(p.num_dims, 1);
  assert_int_equal(p.dims[0].kernel, 3);
  assert_int_equal(p.dims[0].stride, 2);
  assert_int_equal(trm_conv_output_size(&p.dims[0]), 28);
  trm_module_free(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_networks),     cmocka_unit_test(test_proportion),
      cmocka_unit_test(test_extreme),
      cmocka_unit_test(test_options_matter), cmocka_unit_test(test_option_text),
      cmocka_unit_test(test_constraints),  cmocka_unit_test(test_refused),
      cmocka_unit_test(test_cache),        cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_print),        cmocka_unit_test(test_formulas),
      cmocka_unit_test(test_canonical),
      cmocka_unit_test(test_padding),
      cmocka_unit_test(test_strided_gradient),
      cmocka_unit_test(test_rearranged_in_turns),
      cmocka_unit_test(test_input_dilation),    cmocka_unit_test(test_instructions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Plans: what they contain, options and constraints, refusals, the cache, what is printed, and the
 * convolution that an instruction is. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ipu/plan/internal.h"
#include "plan_case.h"

/* ---- What a plan contains -------------------------------------------------------------------- */

/* The layers of ResNet-50 and ResNeXt-101: forward, data gradient, weight gradient. */
static void test_networks(void **state) {
  (void)state;
  trm_target *targets[] = {load("mk1"), load("mk2"), load("bow")};
  uint64_t candidates = 0;
  for (size_t t = 0; t < 3; ++t) {
    for (int stage = 0; stage < 4; ++stage) {
      for (int half = 0; half < 2; ++half) {
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
        for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i) {
          const trm_plan_options options = trm_plan_options_default();
          const trm_linear_plan plan = make_plan(targets[t], &layers[i], &options);
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
  for (size_t t = 0; t < 3; ++t) trm_target_release(targets[t]);
}

/* A shape that no search can finish: a plan all the same, with the bound that was proved. */
static void test_extreme(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  trm_conv_params p = {.input_type = TRM_F16,
                       .output_type = TRM_F16,
                       .groups = 61,
                       .batch = 64,
                       .in_channels = 2,
                       .out_channels = 4,
                       .num_dims = 3};
  static const int64_t sizes[3][3] = {{153, 18, 2}, {132, 22, 1}, {224, 7, 2}};
  for (int d = 0; d < 3; ++d) {
    p.dims[d] = (trm_conv_dim){sizes[d][0], sizes[d][1], sizes[d][2], 0, 0, 1, 1, d < 2};
  }
  trm_plan_options options = trm_plan_options_default();
  options.available_memory_proportion = 0.05;
  const trm_linear_plan plan = make_plan(target, &p, &options);
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
  for (size_t s = 0; s < 2; ++s) {
    uint64_t before = 0;
    for (int tenth = 10; tenth >= 0; --tenth) {
      trm_plan_options options = trm_plan_options_default();
      options.available_memory_proportion = tenth / 10.0;
      const trm_linear_plan plan = make_plan(target, &shapes[s], &options);
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
  const uint64_t standard = make_plan(target, &matmul, &options).cycles;
  options.use_128bit_conv_unit_load = true;
  assert_true(make_plan(target, &matmul, &options).cycles < standard);
  options = trm_plan_options_default();
  options.partials_type = TRM_F16;
  const trm_linear_plan half = make_plan(target, &matmul, &options);
  assert_int_equal(half.partials_type, TRM_F16);
  assert_true(half.cycles < standard);
  options = trm_plan_options_default();
  options.inter_tile_partials_type = TRM_F16;
  const trm_linear_plan narrowed = make_plan(target, &matmul, &options);
  assert_true(narrowed.cycles <= standard);
  options = trm_plan_options_default();
  options.enable_fast_reduce = true;
  assert_true(make_plan(target, &matmul, &options).cycles < standard);
  options = trm_plan_options_default();
  options.pass = TRM_PASS_FC_TRAINING_WU;
  assert_true(make_plan(target, &matmul, &options).cycles > standard);
  const trm_conv_params deep = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 4, 65536, 4);
  options = trm_plan_options_default();
  const trm_linear_plan stages = make_plan(target, &deep, &options);
  options.enable_multi_stage_reduce = false;
  const trm_linear_plan one_stage = make_plan(target, &deep, &options);
  assert_true(stages.num_phases > one_stage.num_phases);
  /* Floats have float partial sums whatever is asked. */
  const trm_conv_params single = trm_conv_params_matmul(TRM_F32, TRM_F32, 1, 64, 64, 64);
  options = trm_plan_options_default();
  options.partials_type = TRM_F16;
  assert_int_equal(make_plan(target, &single, &options).partials_type, TRM_F32);
  trm_target_release(target);
}

/* ---- Options and constraints as text --------------------------------------------------------- */

static void refuse_option(const char *key, const char *value, trm_status status, const char *word) {
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
      {"availableMemoryProportion", "0.25"},
      {"partialsType", "half"},
      {"partialsType.interTile", "half"},
      {"use128BitConvUnitLoad", "true"},
      {"enableMultiStageReduce", "false"},
      {"enableFastReduce", "true"},
      {"pass", "TRAINING_BWD"},
      {"planConstraints", "{}"},
      {"remapOutputTensor", "true"},
      {"partialsType.interIPU", "float"},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; ++i) {
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
  for (size_t i = 0; i < sizeof proportions / sizeof *proportions; ++i) {
    const bool is_negative = proportions[i][0] == '-';
    refuse_option("availableMemoryProportion", proportions[i],
                  is_negative ? TRM_INTERNAL : TRM_INVALID_ARGUMENT,
                  is_negative ? "[Poplar][Build graph] invalid_option: " : "0 to 1");
  }
  refuse_option("partialType", "half", TRM_INTERNAL,
                "invalid_option: Unrecognised option 'partialType'");
  refuse_option("partialType", "half", TRM_INTERNAL, "did you mean partialsType?");
  refuse_option("partialsType", "double", TRM_INVALID_ARGUMENT, "half or float");
  refuse_option("enableFastReduce", "yes", TRM_INVALID_ARGUMENT, "true or false");
  refuse_option("pass", "TRAINING", TRM_INVALID_ARGUMENT, "TRAINING_");
  refuse_option("enableConvDithering", "true", TRM_UNIMPLEMENTED, "enableConvDithering");
}

static trm_linear_plan constrained(const trm_target *target, const trm_conv_params *params,
                                   const char *text) {
  trm_plan_options options = trm_plan_options_default();
  options.constraints = text;
  return make_plan(target, params, &options);
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
      target, &matmul,
      "{\"0\": {\"transform\": {\"swapOperands\": true}, \"partition\":"
      " {\"fieldSplit\": {\"1\": 4}, \"inChanSplit\": 4, \"outChanSplit\": {\"parallel\": 4}}}}");
  check_plan(target, &plan);
  assert_true(plan.transform.swap_operands);
  assert_int_equal(plan.partition.batch, 4);
  assert_int_equal(plan.partition.in_channels, 4);
  assert_int_equal(plan.partition.out_channels, 4);
  /* A split that is no canonical one is kept too: 32 grains in 7. */
  plan = constrained(target, &matmul,
                     "{\"0\": {\"partition\": {\"outChanSplit\":"
                     " {\"parallel\": 7, \"serial\": 2}, \"inChanSplit\": {\"serial\": 1}}}}");
  assert_int_equal(plan.partition.out_channels, 7);
  assert_int_equal(plan.partition.out_channels_serial, 2);
  plan =
      constrained(target, &matmul, "{\"0\": {\"partition\": {\"inChanSplit\": {\"serial\": 8}}}}");
  assert_int_equal(plan.partition.in_channels_serial, 8);
  check_plan(target, &plan);
  static const char *const methods[] = {"AMP", "SLIC", "HMAC"};
  for (int m = 0; m < 3; ++m) {
    char text[64];
    snprintf(text, sizeof text, "{\"method\": {\"type\": \"%s\"}}", methods[m]);
    plan = constrained(target, &window, text);
    assert_string_equal(trm_plan_method_name(plan.method), methods[m]);
    check_plan(target, &plan);
  }
  plan = constrained(target, &window,
                     "{\"method\": {\"type\": \"AMP\", \"convUnits\": 8},"
                     " \"inChansPerGroup\": 4, \"partialChansPerGroup\": 8, \"0\":"
                     " {\"transform\": {\"expandDims\": []}, \"partition\":"
                     " {\"fieldSplit\": {\"0\": 7, \"1\": 2}, \"batchSplit\": 2, \"kernelSplit\":"
                     " {\"0\": 3}, \"convGroupSplit\": 4}}}");
  assert_int_equal(plan.conv_units, 8);
  assert_int_equal(plan.in_channels_per_group, 4);
  assert_int_equal(plan.partition.field[0], 7);
  assert_int_equal(plan.partition.field[1], 2);
  assert_int_equal(plan.partition.batch, 2);
  assert_int_equal(plan.partition.kernel[0], 3);
  assert_int_equal(plan.partition.groups, 4);
  plan = constrained(target, &window,
                     "{\"0\": {\"transform\": {\"expandDims\": [0],"
                     " \"combineConvGroups\": 2}}}");
  assert_int_equal(plan.transform.expand_dims, 1);
  assert_int_equal(plan.transform.combine_groups, 2);
  check_plan(target, &plan);
  plan = constrained(target, &window, "{\"0\": {\"transform\": {\"outChanFlattenDims\": [1]}}}");
  assert_int_equal(plan.transform.flatten_dims, 2);
  check_plan(target, &plan);

  refuse_constraints(target, &matmul, "{\"method\": {\"type\": \"VMAC\"}}", "no plan keeps");
  refuse_constraints(target, &matmul, "{\"0\": {\"partition\": {\"batchSplit\": 9999}}}",
                     "no plan keeps");
  refuse_constraints(target, &matmul,
                     "{\"0\": {\"partition\": {\"outChanSplit\": {\"serial\": 2},"
                     " \"inChanSplit\": {\"serial\": 2}}}}",
                     "no plan keeps");
  refuse_constraints(target, &matmul,
                     "{\"0\": {\"partition\": {\"batchSplit\": 65536,"
                     " \"fieldSplit\": {\"0\": 65536}}}}",
                     "no plan keeps");
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
  refuse_params(target,
                trm_conv_params_matmul(TRM_F16, TRM_F16, 1, (int64_t)1 << 31, (int64_t)1 << 31, 1),
                "elements");
  trm_conv_params params = convolution(TRM_F16, 1, 1, 1, 1, 8, 3, 1);
  params.dims[1].stride = 0;
  refuse_params(target, params, "stride");
  params.dims[1].stride = 1;
  params.dims[0].pad_low = -20;
  refuse_params(target, params, "output size");
  params.num_dims = 4;
  refuse_params(target, params, "dimensions");
  static const double proportions[] = {-0.01, 1.01, 1e300, -1e300};
  for (size_t i = 0; i < 4; ++i) {
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
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= 80; ++n) {
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
  trm_plan_cache_release(cache);
  trm_plan_cache_release(NULL);
  trm_target_release(mk2);
  trm_target_release(bow);
}

static void test_out_of_memory(void **state) {
  (void)state;
  trm_target *target = load("mk2");
  const trm_conv_params p = trm_conv_params_matmul(TRM_F32, TRM_F32, 1, 9, 3, 5);
  const trm_plan_options options = trm_plan_options_default();
  for (int64_t n = 0;; ++n) {
    trm_plan_cache *cache = trm_plan_cache_create();
    trm_linear_plan plan;
    trm_error error;
    trm_allocation_fail_after(n);
    const trm_status status = trm_linear_plan_make(target, &p, &options, cache, &plan, &error);
    trm_allocation_fail_after(-1);
    trm_plan_cache_release(cache);
    if (status == TRM_OK) {
      assert_true(n > 3);
      break;
    }
    assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
  }
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
  if (trm_conv_params_from_instruction(entry, &entry->instructions[entry->root], &params, &error) !=
      TRM_OK) {
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
      " lhs_contracting_dims={2}, rhs_contracting_dims={0}\n}\n",
      &module);
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
      " dim_labels=b01f_01io->b01f, feature_group_count=16\n}\n",
      &module);
  assert_int_equal(p.groups, 16);
  assert_int_equal(p.batch, 160);
  assert_int_equal(p.in_channels, 4);
  assert_int_equal(p.out_channels, 6);
  assert_int_equal(p.num_dims, 1);
  assert_int_equal(p.dims[0].kernel, 3);
  assert_int_equal(p.dims[0].stride, 2);
  assert_true(p.dims[0].outer); /* rows of the kernel can be split, columns cannot */
  assert_int_equal(trm_conv_output_size(&p.dims[0]), 28);
  trm_module_free(module);
}

/* A kept plan whose temporary bytes are within a smaller proportion is the plan for that too. */
static void test_smaller_proportion(void **state) {
  (void)state;
  trm_target *mk2 = load("mk2");
  const double tile = (double)mk2->bytes_per_tile;
  const trm_conv_params some[] = {convolution(TRM_F16, 1, 4, 64, 64, 56, 3, 1),
                                  convolution(TRM_F32, 1, 8, 256, 512, 14, 1, 1),
                                  trm_conv_params_matmul(TRM_F32, TRM_F32, 1, 64, 512, 512),
                                  trm_conv_params_matmul(TRM_F16, TRM_F16, 12, 128, 64, 128)};
  for (size_t i = 0; i < sizeof some / sizeof *some; ++i) {
    trm_plan_options options = trm_plan_options_default();
    trm_plan_cache *cache = trm_plan_cache_create();
    trm_error error;
    trm_linear_plan plan;
    assert_int_equal(trm_linear_plan_make(mk2, &some[i], &options, cache, &plan, &error), TRM_OK);
    const double enough = ((double)plan.temp_bytes + .5) / tile;
    assert_true(plan.fit == TRM_FIT_TARGET && enough < options.available_memory_proportion);
    assert_false(trm_plan_cache_exceeds(cache, mk2, enough));
    assert_true(trm_plan_cache_exceeds(cache, mk2, enough - 1 / tile));
    options.available_memory_proportion = enough;
    trm_linear_plan within = make_plan(mk2, &some[i], &options);
    assert_int_equal(within.cycles, plan.cycles);
    assert_int_equal(within.temp_bytes, plan.temp_bytes);
    assert_memory_equal(&within.partition, &plan.partition, sizeof plan.partition);
    assert_memory_equal(within.phases, plan.phases, sizeof plan.phases);
    trm_plan_cache_release(cache);
  }
  trm_target_release(mk2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_networks),
      cmocka_unit_test(test_proportion),
      cmocka_unit_test(test_extreme),
      cmocka_unit_test(test_options_matter),
      cmocka_unit_test(test_option_text),
      cmocka_unit_test(test_constraints),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_cache),
      cmocka_unit_test(test_smaller_proportion),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_instructions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Owns: the options of the convolution and matmul planner, by Poplar's names. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "ops/linear/plan.h"

trm_plan_options trm_plan_options_default(void) {
  return (trm_plan_options){.available_memory_proportion = 0.6,
                            .partials_type = TRM_F32,
                            .inter_tile_partials_type = TRM_F32,
                            .pass = TRM_PASS_NONE,
                            .enable_multi_stage_reduce = true};
}

static const struct {
  const char *name;
  trm_plan_pass pass;
} passes[] = {
    {"NONE", TRM_PASS_NONE},
    {"NONE_MATMUL", TRM_PASS_NONE},
    {"INFERENCE_FWD", TRM_PASS_INFERENCE_FWD},
    {"TRAINING_FWD", TRM_PASS_TRAINING_FWD},
    {"TRAINING_BWD", TRM_PASS_TRAINING_BWD},
    {"TRAINING_WU", TRM_PASS_TRAINING_WU},
    {"FC_INFERENCE_FWD", TRM_PASS_FC_INFERENCE_FWD},
    {"FC_TRAINING_FWD", TRM_PASS_FC_TRAINING_FWD},
    {"FC_TRAINING_BWD", TRM_PASS_FC_TRAINING_BWD},
    {"FC_TRAINING_WU", TRM_PASS_FC_TRAINING_WU},
};
enum { NUM_PASSES = sizeof passes / sizeof *passes };

static trm_status set_type(const char *key, const char *value, trm_dtype *out, trm_error *error) {
  if (strcmp(value, "half") == 0) {
    *out = TRM_F16;
  } else if (strcmp(value, "float") == 0) {
    *out = TRM_F32;
  } else {
    FAIL(INVALID_ARGUMENT, "the option %s is \"%.60s\"; it must be half or float", key, value);
  }
  return TRM_OK;
}

static trm_status set_flag(const char *key, const char *value, bool *out, trm_error *error) {
  if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0) {
    *out = true;
  } else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0) {
    *out = false;
  } else {
    FAIL(INVALID_ARGUMENT, "the option %s is \"%.60s\"; it must be true or false", key, value);
  }
  return TRM_OK;
}

/* Options of poplin that change nothing in a plan's cost here; only this value is accepted. */
static const struct {
  const char *key, *value;
} fixed[] = {
    {"remapOutputTensor", "true"},         {"enableConvDithering", "false"},
    {"disableTransformations", "false"},   {"gatherConvOutput", "false"},
    {"disableSRForAMPVertices", "false"},  {"enableTileLevelExpandDims", "false"},
    {"planConstraintsOutputFilename", ""},
};
enum { NUM_FIXED = sizeof fixed / sizeof *fixed };

trm_status trm_plan_option_set(trm_plan_options *options, const char *key, const char *value,
                               trm_error *error) {
  if (strcmp(key, "availableMemoryProportion") == 0) {
    char *end = NULL;
    const double number = strtod(value, &end);
    if (end != value && *end == '\0' && number < 0) { /* Poplar's words */
      FAIL(INVALID_ARGUMENT,
           "the option availableMemoryProportion is \"%.60s\": Value must be "
           "greater than or equal to 0",
           value);
    }
    if (end == value || *end != '\0' || !(number <= 1)) {
      FAIL(INVALID_ARGUMENT,
           "the option availableMemoryProportion is \"%.60s\"; it must be a "
           "number from 0 to 1",
           value);
    }
    options->available_memory_proportion = number;
    return TRM_OK;
  }
  if (strcmp(key, "partialsType") == 0) {
    return set_type(key, value, &options->partials_type, error);
  }
  /* One IPU computes a convolution, so nothing is reduced between IPUs. */
  if (strcmp(key, "partialsType.interTile") == 0) {
    return set_type(key, value, &options->inter_tile_partials_type, error);
  }
  if (strcmp(key, "partialsType.interIPU") == 0) {
    trm_dtype ignored;
    return set_type(key, value, &ignored, error);
  }
  if (strcmp(key, "use128BitConvUnitLoad") == 0) {
    return set_flag(key, value, &options->use_128bit_conv_unit_load, error);
  }
  if (strcmp(key, "enableMultiStageReduce") == 0) {
    return set_flag(key, value, &options->enable_multi_stage_reduce, error);
  }
  if (strcmp(key, "enableFastReduce") == 0) {
    return set_flag(key, value, &options->enable_fast_reduce, error);
  }
  if (strcmp(key, "pass") == 0 || strcmp(key, "fullyConnectedPass") == 0) {
    const char *names[NUM_PASSES];
    for (size_t i = 0; i < NUM_PASSES; ++i) {
      names[i] = passes[i].name;
      if (strcmp(value, names[i]) != 0) continue;
      options->pass = passes[i].pass;
      /* The option of matmuls names the FC_ passes without their prefix. */
      if (strcmp(key, "fullyConnectedPass") == 0 && options->pass != TRM_PASS_NONE &&
          options->pass < TRM_PASS_FC_INFERENCE_FWD) {
        options->pass += TRM_PASS_FC_INFERENCE_FWD - TRM_PASS_INFERENCE_FWD;
      }
      return TRM_OK;
    }
    const char *nearest = trm_nearest_name(value, names, NUM_PASSES);
    FAIL(INVALID_ARGUMENT, "the option %s is \"%.60s\", which is no pass; did you mean %s?", key,
         value, nearest == NULL ? "INFERENCE_FWD" : nearest);
  }
  if (strcmp(key, "planConstraints") == 0) {
    options->constraints = value;
    return TRM_OK;
  }
  for (size_t i = 0; i < NUM_FIXED; ++i) {
    if (strcmp(key, fixed[i].key) != 0) continue;
    if (strcmp(value, fixed[i].value) == 0) return TRM_OK;
    FAIL(UNIMPLEMENTED, "the option %s is \"%.60s\"; plans are made for \"%s\" only", key, value,
         fixed[i].value);
  }
  static const char *const known[] = {"availableMemoryProportion",
                                      "partialsType",
                                      "partialsType.interTile",
                                      "partialsType.interIPU",
                                      "use128BitConvUnitLoad",
                                      "enableMultiStageReduce",
                                      "enableFastReduce",
                                      "pass",
                                      "fullyConnectedPass",
                                      "planConstraints",
                                      "remapOutputTensor",
                                      "enableConvDithering",
                                      "disableTransformations",
                                      "gatherConvOutput",
                                      "disableSRForAMPVertices",
                                      "enableTileLevelExpandDims",
                                      "planConstraintsOutputFilename"};
  const char *nearest = trm_nearest_name(key, known, sizeof known / sizeof *known);
  if (nearest == NULL) nearest = known[0];
  FAIL(INTERNAL,
       "[Poplar][Build graph] invalid_option: Unrecognised option '%.80s'. It is no "
       "option of convolutions or matmuls; did you mean %s?",
       key, nearest);
}

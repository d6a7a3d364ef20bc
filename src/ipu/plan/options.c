/* Owns: the options of the convolution and matmul planner, by Poplar's names. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "ipu/plan/plan.h"

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

static trm_status set_proportion(const char *key, const char *value, double *out,
                                 trm_error *error) {
  char *end = NULL;
  const double number = strtod(value, &end);
  if (end != value && *end == '\0' && number < 0) { /* Poplar's words */
    FAIL(INTERNAL,
         "[Poplar][Build graph] invalid_option: the option %s is \"%.60s\": Value must be greater "
         "than or equal to 0",
         key, value);
  }
  if (end == value || *end != '\0' || !(number <= 1)) {
    FAIL(INVALID_ARGUMENT, "the option %s is \"%.60s\"; it must be a number from 0 to 1", key,
         value);
  }
  *out = number;
  return TRM_OK;
}

static trm_status set_pass(const char *key, const char *value, trm_plan_pass *out,
                           trm_error *error) {
  const char *names[NUM_PASSES];
  for (size_t i = 0; i < NUM_PASSES; ++i) {
    names[i] = passes[i].name;
    if (strcmp(value, names[i]) != 0) continue;
    *out = passes[i].pass;
    return TRM_OK;
  }
  const char *nearest = trm_nearest_name(value, names, NUM_PASSES);
  FAIL(INVALID_ARGUMENT, "the option %s is \"%.60s\", which is no pass; did you mean %s?", key,
       value, nearest == NULL ? "INFERENCE_FWD" : nearest);
}

/* The option of matmuls names the FC_ passes without their prefix. */
static trm_status set_matmul_pass(const char *key, const char *value, trm_plan_pass *out,
                                  trm_error *error) {
  TRY(set_pass(key, value, out, error));
  if (*out != TRM_PASS_NONE && *out < TRM_PASS_FC_INFERENCE_FWD) {
    *out += TRM_PASS_FC_INFERENCE_FWD - TRM_PASS_INFERENCE_FWD;
  }
  return TRM_OK;
}

/* The options. `only`: the value that is accepted of an option of poplin that changes nothing in a
 * plan's cost here. */
static const struct option_row {
  const char *key;
  enum { PROPORTION, TYPE, UNUSED_TYPE, FLAG, PASS, MATMUL_PASS, TEXT, FIXED } kind;
  size_t member; /* its offset */
  const char *only;
} rows[] = {
#define MEMBER(name) offsetof(trm_plan_options, name), NULL
    {"availableMemoryProportion", PROPORTION, MEMBER(available_memory_proportion)},
    {"partialsType", TYPE, MEMBER(partials_type)},
    {"partialsType.interTile", TYPE, MEMBER(inter_tile_partials_type)},
    /* One IPU computes a convolution, so nothing is reduced between IPUs. */
    {"partialsType.interIPU", UNUSED_TYPE, 0, NULL},
    {"use128BitConvUnitLoad", FLAG, MEMBER(use_128bit_conv_unit_load)},
    {"enableMultiStageReduce", FLAG, MEMBER(enable_multi_stage_reduce)},
    {"enableFastReduce", FLAG, MEMBER(enable_fast_reduce)},
    {"pass", PASS, MEMBER(pass)},
    {"fullyConnectedPass", MATMUL_PASS, MEMBER(pass)},
    {"planConstraints", TEXT, MEMBER(constraints)},
    {"remapOutputTensor", FIXED, 0, "true"},
    {"enableConvDithering", FIXED, 0, "false"},
    {"disableTransformations", FIXED, 0, "false"},
    {"gatherConvOutput", FIXED, 0, "false"},
    {"disableSRForAMPVertices", FIXED, 0, "false"},
    {"enableTileLevelExpandDims", FIXED, 0, "false"},
    {"planConstraintsOutputFilename", FIXED, 0, ""},
#undef MEMBER
};
enum { NUM_ROWS = sizeof rows / sizeof *rows };

static trm_status set_option(const struct option_row *row, const char *value, void *member,
                             trm_error *error) {
  trm_dtype unused;
  switch (row->kind) {
    case PROPORTION: return set_proportion(row->key, value, member, error);
    case TYPE: return set_type(row->key, value, member, error);
    case UNUSED_TYPE: return set_type(row->key, value, &unused, error);
    case FLAG: return set_flag(row->key, value, member, error);
    case PASS: return set_pass(row->key, value, member, error);
    case MATMUL_PASS: return set_matmul_pass(row->key, value, member, error);
    case TEXT: *(const char **)member = value; return TRM_OK;
    case FIXED: break;
  }
  if (strcmp(value, row->only) == 0) return TRM_OK;
  FAIL(UNIMPLEMENTED, "the option %s is \"%.60s\"; plans are made for \"%s\" only", row->key, value,
       row->only);
}

trm_status trm_plan_option_set(trm_plan_options *options, const char *key, const char *value,
                               trm_error *error) {
  const char *keys[NUM_ROWS];
  for (size_t i = 0; i < NUM_ROWS; ++i) {
    keys[i] = rows[i].key;
    if (strcmp(key, keys[i]) == 0) {
      return set_option(&rows[i], value, (char *)options + rows[i].member, error);
    }
  }
  const char *nearest = trm_nearest_name(key, keys, NUM_ROWS);
  if (nearest == NULL) nearest = keys[0];
  FAIL(INTERNAL,
       "[Poplar][Build graph] invalid_option: Unrecognised option '%.80s'. It is no "
       "option of convolutions or matmuls; did you mean %s?",
       key, nearest);
}

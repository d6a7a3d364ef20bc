/* Owns: reading planConstraints, the JSON with which a user fixes parts of a plan. The form is
 * Poplar's:
 *
 *   {"method": {"type": "AMP", "convUnits": 16}, "convGroupsPerGroup": 1, "inChansPerGroup": 16,
 *    "partialChansPerGroup": 16,
 *    "0": {"transform": {"swapOperands": true, "expandDims": [0], "outChanFlattenDims": [1],
 *                        "combineConvGroups": 4},
 *          "partition": {"fieldSplit": {"1": 4}, "batchSplit": 2, "kernelSplit": {"0": 3},
 *                        "outChanSplit": {"parallel": 4, "serial": 2}, "inChanSplit": 4,
 *                        "convGroupSplit": 1}}}
 *
 * A dimension's number counts only dimensions with a window. The text is untrusted. */
#include <jansson.h>
#include <string.h>

#include "base/nearest.h"
#include "ipu/plan/internal.h"

enum { MAX_SPLIT = 1 << 20 };

static trm_status take_count(const json_t *value, const char *key, uint32_t *out,
                             trm_error *error) {
  if (!json_is_integer(value) || json_integer_value(value) < 1 ||
      json_integer_value(value) > MAX_SPLIT) {
    FAIL(INVALID_ARGUMENT, "planConstraints: \"%s\" must be an integer from 1 to %d", key,
         MAX_SPLIT);
  }
  *out = (uint32_t)json_integer_value(value);
  return TRM_OK;
}

static trm_status unknown_key(const char *where, const char *key, const char *const *known,
                              size_t count, trm_error *error) {
  const char *nearest = trm_nearest_name(key, known, count);
  FAIL(INVALID_ARGUMENT, "planConstraints: %s has no key \"%.80s\"; did you mean \"%s\"?", where,
       key, nearest == NULL ? known[0] : nearest);
}

static trm_status need_object(const json_t *value, const char *what, trm_error *error) {
  if (!json_is_object(value)) {
    FAIL(INVALID_ARGUMENT, "planConstraints: %s must be an object", what);
  }
  return TRM_OK;
}

/* Reads {"0": n, "1": n}. */
static trm_status take_dims(const json_t *value, const char *key, uint32_t out[TRM_PLAN_MAX_DIMS],
                            trm_error *error) {
  TRY(need_object(value, key, error));
  const char *name;
  json_t *item;
  json_object_foreach((json_t *)value, name, item) {
    if (name[0] < '0' || name[0] >= '0' + TRM_PLAN_MAX_DIMS || name[1] != '\0') {
      FAIL(INVALID_ARGUMENT,
           "planConstraints: \"%s\" has no dimension \"%.20s\"; from 0 to %d are "
           "planned",
           key, name, TRM_PLAN_MAX_DIMS - 1);
    }
    TRY(take_count(item, key, &out[name[0] - '0'], error));
  }
  return TRM_OK;
}

/* Reads n, or {"parallel": n, "serial": n}. */
static trm_status take_channels(const json_t *value, const char *key, uint32_t *parallel,
                                uint32_t *serial, trm_error *error) {
  if (json_is_integer(value)) return take_count(value, key, parallel, error);
  TRY(need_object(value, key, error));
  const char *name;
  json_t *item;
  json_object_foreach((json_t *)value, name, item) {
    if (strcmp(name, "parallel") == 0) {
      TRY(take_count(item, key, parallel, error));
    } else if (strcmp(name, "serial") == 0) {
      TRY(take_count(item, key, serial, error));
    } else {
      static const char *const known[] = {"parallel", "serial"};
      return unknown_key(key, name, known, 2, error);
    }
  }
  return TRM_OK;
}

static trm_status take_partition(const json_t *value, trm_plan_partition *p, trm_error *error) {
  TRY(need_object(value, "\"partition\"", error));
  static const char *const known[] = {"fieldSplit",  "batchSplit",  "outChanSplit",
                                      "kernelSplit", "inChanSplit", "convGroupSplit"};
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)value, key, item) {
    if (strcmp(key, known[0]) == 0) {
      TRY(take_dims(item, key, p->field, error));
    } else if (strcmp(key, known[1]) == 0) {
      TRY(take_count(item, key, &p->batch, error));
    } else if (strcmp(key, known[2]) == 0) {
      TRY(take_channels(item, key, &p->out_channels, &p->out_channels_serial, error));
    } else if (strcmp(key, known[3]) == 0) {
      TRY(take_dims(item, key, p->kernel, error));
    } else if (strcmp(key, known[4]) == 0) {
      TRY(take_channels(item, key, &p->in_channels, &p->in_channels_serial, error));
    } else if (strcmp(key, known[5]) == 0) {
      TRY(take_count(item, key, &p->groups, error));
    } else {
      return unknown_key("\"partition\"", key, known, sizeof known / sizeof *known, error);
    }
  }
  return TRM_OK;
}

/* Reads [0, 2] into bits. */
static trm_status take_dim_set(const json_t *value, const char *key, uint32_t *out,
                               trm_error *error) {
  if (!json_is_array(value)) {
    FAIL(INVALID_ARGUMENT, "planConstraints: \"%s\" must be an array of dimensions", key);
  }
  for (size_t i = 0; i < json_array_size(value); ++i) {
    const json_int_t d = json_integer_value(json_array_get(value, i));
    if (!json_is_integer(json_array_get(value, i)) || d < 0 || d >= TRM_PLAN_MAX_DIMS) {
      FAIL(INVALID_ARGUMENT, "planConstraints: \"%s\" names dimensions from 0 to %d", key,
           TRM_PLAN_MAX_DIMS - 1);
    }
    *out |= 1u << d;
  }
  return TRM_OK;
}

static trm_status take_transform(const json_t *value, plan_constraints *out, trm_error *error) {
  TRY(need_object(value, "\"transform\"", error));
  static const char *const known[] = {"swapOperands", "expandDims", "combineConvGroups",
                                      "outChanFlattenDims"};
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)value, key, item) {
    if (strcmp(key, known[0]) == 0) {
      if (!json_is_boolean(item)) {
        FAIL(INVALID_ARGUMENT, "planConstraints: \"swapOperands\" must be true or false");
      }
      out->swap_operands = json_is_true(item);
    } else if (strcmp(key, known[1]) == 0) {
      out->has_expand_dims = true;
      TRY(take_dim_set(item, key, &out->expand_dims, error));
    } else if (strcmp(key, known[2]) == 0) {
      TRY(take_count(item, key, &out->combine_groups, error));
    } else if (strcmp(key, known[3]) == 0) {
      out->has_flatten_dims = true;
      TRY(take_dim_set(item, key, &out->flatten_dims, error));
    } else {
      return unknown_key("\"transform\"", key, known, sizeof known / sizeof *known, error);
    }
  }
  return TRM_OK;
}

static trm_status take_method(const json_t *value, plan_constraints *out, trm_error *error) {
  TRY(need_object(value, "\"method\"", error));
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)value, key, item) {
    if (strcmp(key, "convUnits") == 0) {
      TRY(take_count(item, key, &out->conv_units, error));
    } else if (strcmp(key, "type") == 0) {
      const char *name = json_string_value(item);
      for (int m = TRM_METHOD_AMP; name != NULL && m <= TRM_METHOD_OUTER_PRODUCT; ++m) {
        if (strcmp(name, trm_plan_method_name((trm_plan_method)m)) == 0) out->method = m;
      }
      if (out->method < 0) {
        FAIL(INVALID_ARGUMENT, "planConstraints: \"type\" must be AMP, SLIC, HMAC, VMAC or "
                               "OUTER_PRODUCT");
      }
    } else {
      static const char *const known[] = {"type", "convUnits"};
      return unknown_key("\"method\"", key, known, 2, error);
    }
  }
  return TRM_OK;
}

static trm_status take_level(const json_t *value, plan_constraints *out, trm_error *error) {
  TRY(need_object(value, "\"0\"", error));
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)value, key, item) {
    if (strcmp(key, "transform") == 0) {
      TRY(take_transform(item, out, error));
    } else if (strcmp(key, "partition") == 0) {
      TRY(take_partition(item, &out->partition, error));
    } else {
      static const char *const known[] = {"transform", "partition"};
      return unknown_key("\"0\"", key, known, 2, error);
    }
  }
  return TRM_OK;
}

static trm_status take_root(const json_t *root, plan_constraints *out, trm_error *error) {
  TRY(need_object(root, "the text", error));
  static const char *const known[] = {"method", "0", "convGroupsPerGroup", "inChansPerGroup",
                                      "partialChansPerGroup"};
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)root, key, item) {
    if (strcmp(key, known[0]) == 0) {
      TRY(take_method(item, out, error));
    } else if (strcmp(key, known[1]) == 0) {
      TRY(take_level(item, out, error));
    } else if (strcmp(key, known[2]) == 0) {
      TRY(take_count(item, key, &out->conv_groups_per_group, error));
    } else if (strcmp(key, known[3]) == 0) {
      TRY(take_count(item, key, &out->in_channels_per_group, error));
    } else if (strcmp(key, known[4]) == 0) {
      TRY(take_count(item, key, &out->out_channels_per_group, error));
    } else {
      return unknown_key("the top level", key, known, sizeof known / sizeof *known, error);
    }
  }
  return TRM_OK;
}

trm_status plan_constraints_parse(const char *text, plan_constraints *out, trm_error *error) {
  *out = (plan_constraints){.swap_operands = -1, .method = -1};
  if (text == NULL || *text == '\0') return TRM_OK;
  json_error_t json_error;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &json_error);
  if (root == NULL) {
    FAIL(INVALID_ARGUMENT, "planConstraints is not valid JSON (line %d, column %d): %s",
         json_error.line, json_error.column, json_error.text);
  }
  const trm_status status = take_root(root, out, error);
  json_decref(root);
  return status;
}

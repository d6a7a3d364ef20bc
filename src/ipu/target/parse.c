/* Owns: the keys of a machine description: reading them from JSON, and their values
 * (docs/targets.md). The text is untrusted: unknown keys, wrong kinds and values out of bounds are
 * errors that name their place. A description may start from a preset ("base") and state only what
 * differs. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/nearest.h"
#include "ipu/target/parse.h"

typedef enum field_kind { KIND_COUNT, KIND_REAL, KIND_FLAG, KIND_OPTIONAL, KIND_RATE } field_kind;

typedef struct field {
  const char *key;
  size_t offset;
  field_kind kind;
  double least, most;
} field;

static const field fields[] = {
#define TRM_FIELD(member, kind, key, least, most) \
  {key, offsetof(trm_target, member), KIND_##kind, least, most},
#include "ipu/target/fields.def"
#undef TRM_FIELD
};
enum { NUM_FIELDS = sizeof fields / sizeof *fields };

typedef struct reader {
  const char *source;
  trm_target *target;
  bool seen[NUM_FIELDS], seen_architecture, seen_system, seen_offsets;
} reader;

static trm_status take_field(reader *r, const field *f, const json_t *value, trm_error *error) {
  char *at = (char *)r->target + f->offset;
  if (f->kind == KIND_FLAG) {
    if (!json_is_boolean(value)) {
      FAIL(INVALID_ARGUMENT, "%s: \"%s\" must be true or false", r->source, f->key);
    }
    const bool flag = json_is_true(value);
    memcpy(at, &flag, sizeof flag);
    return TRM_OK;
  }
  const double number = json_number_value(value);
  const bool is_count = f->kind == KIND_COUNT || f->kind == KIND_OPTIONAL;
  const bool fits = is_count ? json_is_integer(value) : json_is_number(value);
  if (!fits || !(number >= f->least && number <= f->most)) {
    FAIL(INVALID_ARGUMENT, "%s: \"%s\" must be %s from %.15g to %.15g", r->source, f->key,
         is_count ? "an integer" : "a number", f->least, f->most);
  }
  if (is_count) {
    const uint32_t count = (uint32_t)number;
    memcpy(at, &count, sizeof count);
  } else {
    memcpy(at, &number, sizeof number);
  }
  return TRM_OK;
}

static trm_status take_string(const reader *r, const char *key, const json_t *value, char *out,
                              size_t size, trm_error *error) {
  const char *text = json_string_value(value);
  bool good = text != NULL && json_string_length(value) < size && *text != '\0';
  for (const char *c = text; good && *c != '\0'; ++c) good = *c >= ' ' && *c <= '~';
  if (!good) {
    FAIL(INVALID_ARGUMENT, "%s: \"%s\" must be a string of 1 to %zu printable characters",
         r->source, key, size - 1);
  }
  memcpy(out, text, json_string_length(value) + 1);
  return TRM_OK;
}

static trm_status take_offsets(reader *r, const json_t *value, trm_error *error) {
  const size_t count = json_array_size(value);
  if (!json_is_array(value) || count == 0 || count > TRM_TARGET_MAX_ELEMENTS) {
    FAIL(INVALID_ARGUMENT, "%s: \"memoryElementOffsets\" must be an array of 1 to %d offsets",
         r->source, TRM_TARGET_MAX_ELEMENTS);
  }
  for (size_t i = 0; i < count; ++i) {
    const json_t *item = json_array_get(value, i);
    const json_int_t offset = json_integer_value(item);
    const bool ascends = i == 0 ? offset == 0 : offset > r->target->element_offsets[i - 1];
    if (!json_is_integer(item) || offset < 0 || offset > INT32_MAX || !ascends) {
      FAIL(INVALID_ARGUMENT,
           "%s: \"memoryElementOffsets\" must be ascending byte offsets from 0; "
           "entry %zu is not",
           r->source, i);
    }
    r->target->element_offsets[i] = (uint32_t)offset;
  }
  r->target->num_elements = (uint32_t)count;
  r->seen_offsets = true;
  return TRM_OK;
}

static trm_status take_base(reader *r, const json_t *value, trm_error *error) {
  const char *name = json_string_value(value);
  const trm_target_text *text = name == NULL ? NULL : trm_target_find_text(name);
  if (text == NULL) {
    FAIL(INVALID_ARGUMENT, "%s: \"base\" must be one of the presets " TRM_TARGET_PRESETS,
         r->source);
  }
  trm_target *base = NULL;
  TRY(trm_target_parse(text->text, text->size, text->name, &base, error));
  trm_target_copy(r->target, base);
  trm_target_release(base);
  memset(r->seen, true, sizeof r->seen);
  r->seen_architecture = r->seen_system = r->seen_offsets = true;
  return TRM_OK;
}

static trm_status take_key(reader *r, const char *key, const json_t *value, trm_error *error) {
  trm_target *target = r->target;
  if (strcmp(key, "base") == 0) return TRM_OK; /* was taken first */
  if (strcmp(key, "name") == 0) {
    return take_string(r, key, value, target->name, sizeof target->name, error);
  }
  if (strcmp(key, "architecture") == 0) {
    r->seen_architecture = true;
    return take_string(r, key, value, target->architecture, sizeof target->architecture, error);
  }
  if (strcmp(key, "system") == 0) {
    r->seen_system = true;
    return take_string(r, key, value, target->system, sizeof target->system, error);
  }
  if (strcmp(key, "memoryElementOffsets") == 0) return take_offsets(r, value, error);
  const char *names[NUM_FIELDS + 5] = {"base", "name", "architecture", "system",
                                       "memoryElementOffsets"};
  for (size_t i = 0; i < NUM_FIELDS; ++i) {
    if (strcmp(key, fields[i].key) == 0) {
      r->seen[i] = true;
      return take_field(r, &fields[i], value, error);
    }
    names[i + 5] = fields[i].key;
  }
  const char *nearest = trm_nearest_name(key, names, NUM_FIELDS + 5);
  if (nearest != NULL) {
    FAIL(INVALID_ARGUMENT, "%s: unknown key \"%.80s\"; did you mean \"%s\"?", r->source, key,
         nearest);
  }
  FAIL(INVALID_ARGUMENT, "%s: unknown key \"%.80s\"; docs/targets.md lists the keys", r->source,
       key);
}

static trm_status check_target(const reader *r, trm_error *error) {
  const trm_target *t = r->target;
  if (t->element_offsets[t->num_elements - 1] >= t->bytes_per_tile) {
    FAIL(INVALID_ARGUMENT,
         "%s: \"memoryElementOffsets\" ends at %u, beyond \"memoryBytesPerTile\" "
         "%u",
         r->source, t->element_offsets[t->num_elements - 1], t->bytes_per_tile);
  }
  if (t->min_sync_delay > t->max_sync_delay) {
    FAIL(INVALID_ARGUMENT, "%s: \"minIPUSyncDelay\" %u is above \"maxIPUSyncDelay\" %u", r->source,
         t->min_sync_delay, t->max_sync_delay);
  }
  if (t->data_path_width % 32 != 0) {
    FAIL(INVALID_ARGUMENT, "%s: \"dataPathWidth\" %u is no multiple of 32 bits", r->source,
         t->data_path_width);
  }
  return TRM_OK;
}

static trm_status take_root(reader *r, const json_t *root, trm_error *error) {
  if (!json_is_object(root)) FAIL(INVALID_ARGUMENT, "%s: must be a JSON object", r->source);
  const json_t *base = json_object_get(root, "base");
  if (base != NULL) TRY(take_base(r, base, error));
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)root, key, value) TRY(take_key(r, key, value, error));
  if (json_object_get(root, "name") == NULL) {
    FAIL(INVALID_ARGUMENT, "%s: \"name\" is missing", r->source);
  }
  const char *missing = NULL;
  if (!r->seen_architecture) missing = "architecture";
  if (!r->seen_system) missing = "system";
  if (!r->seen_offsets) missing = "memoryElementOffsets";
  for (size_t i = 0; i < NUM_FIELDS; ++i) {
    const bool can_miss = fields[i].kind == KIND_OPTIONAL || fields[i].kind == KIND_RATE;
    if (!r->seen[i] && !can_miss) missing = fields[i].key;
  }
  if (missing != NULL) {
    FAIL(INVALID_ARGUMENT,
         "%s: \"%s\" is missing; state it, or start from a preset with "
         "\"base\": \"mk2\"",
         r->source, missing);
  }
  TRY(check_target(r, error));
  trm_target_rehash(r->target);
  return TRM_OK;
}

trm_status trm_target_parse(const void *data, size_t size, const char *source,
                            trm_target **out_target, trm_error *error) {
  reader r = {.source = source == NULL ? "machine description" : source};
  json_error_t json_error;
  json_t *root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &json_error);
  if (root == NULL) {
    FAIL(INVALID_ARGUMENT, "%s:%d:%d: not valid JSON: %s", r.source, json_error.line,
         json_error.column, json_error.text);
  }
  trm_status status = trm_target_new(&r.target, error);
  if (status == TRM_OK) status = take_root(&r, root, error);
  json_decref(root);
  if (status != TRM_OK) {
    trm_target_release(r.target);
    return status;
  }
  *out_target = r.target;
  return TRM_OK;
}

trm_status trm_target_take_environment(trm_target *target, trm_error *error) {
  static const char variable[] = "POPLAR_TARGET_OPTIONS", key[] = "ipuLinkDomainSize";
  const char *text = getenv(variable);
  if (text == NULL || *text == '\0') return TRM_OK;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  const json_t *size = json_object_get(root, key);
  const char *digits = json_string_value(size); /* as Poplar's options are */
  char *end = NULL;
  long long count = 0;
  if (digits != NULL) count = strtoll(digits, &end, 10);
  else count = json_integer_value(size);
  const bool is_object = json_is_object(root), is_given = size != NULL;
  const bool is_number = digits == NULL || *end == '\0';
  json_decref(root);
  if (!is_object) FAIL(INVALID_ARGUMENT, "%s is no JSON object", variable);
  if (!is_given) return TRM_OK;
  if (count < 1 || count > 65536 || !is_number) {
    FAIL(INVALID_ARGUMENT, "%s: %s must be a number from 1 to 65536", variable, key);
  }
  target->ipu_link_domain_size = (uint32_t)count;
  trm_target_rehash(target);
  return TRM_OK;
}

void trm_target_rehash(trm_target *target) {
  unsigned char bytes[NUM_FIELDS * sizeof(double) + sizeof target->architecture +
                      sizeof target->element_offsets] = {0};
  size_t used = 0;
  for (size_t i = 0; i < NUM_FIELDS; ++i) {
    const bool is_real = fields[i].kind == KIND_REAL || fields[i].kind == KIND_RATE;
    const size_t size = is_real                       ? sizeof(double)
                        : fields[i].kind == KIND_FLAG ? sizeof(bool)
                                                      : sizeof(uint32_t);
    memcpy(bytes + used, (const char *)target + fields[i].offset, size);
    used += size;
  }
  memcpy(bytes + used, target->architecture, strlen(target->architecture));
  used += sizeof target->architecture;
  memcpy(bytes + used, target->element_offsets,
         target->num_elements * sizeof *target->element_offsets);
  used += sizeof target->element_offsets;
  target->hash = XXH3_64bits(bytes, used);
}

bool trm_target_number(const trm_target *target, const char *key, double *out_number) {
  for (size_t i = 0; i < NUM_FIELDS; ++i) {
    if (strcmp(fields[i].key, key) != 0) continue;
    const void *place = (const char *)target + fields[i].offset;
    switch (fields[i].kind) {
      case KIND_REAL:
      case KIND_RATE: *out_number = *(const double *)place; break;
      case KIND_FLAG: *out_number = *(const bool *)place ? 1 : 0; break;
      case KIND_COUNT:
      case KIND_OPTIONAL: *out_number = *(const uint32_t *)place; break;
    }
    return true;
  }
  return false;
}

const char *trm_target_string(const trm_target *target, const char *key) {
  if (strcmp(key, "name") == 0) return target->name;
  if (strcmp(key, "architecture") == 0) return target->architecture;
  return strcmp(key, "system") == 0 ? target->system : NULL;
}

/* Owns: parsing and checking of engine options. */
#include "report/options.h"

#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "tremula/log.h"
#include "tremula/report.h"

typedef enum option_kind { KIND_FLAG, KIND_COUNT, KIND_TEXT } option_kind;

static const struct {
  const char *key, *value;
  option_kind kind;
  bool acts;
  const char *help;
} table[TRM_NUM_ENGINE_OPTIONS] = {
#define ENGINE_OPTION(id, key, value, kind, acts, help) {key, value, KIND_##kind, acts, help},
#include "report/options.def"
#undef ENGINE_OPTION
};

/* Options whose having no effect has been told: once in a process. */
static atomic_bool told[TRM_NUM_ENGINE_OPTIONS];

const char *trm_engine_option_key(trm_engine_option_id id) { return table[id].key; }
bool trm_engine_option_acts(trm_engine_option_id id) { return table[id].acts; }

bool trm_report_option(size_t i, trm_report_option_row *out_row) {
  if (i >= TRM_NUM_ENGINE_OPTIONS) return false;
  *out_row = (trm_report_option_row){table[i].key, table[i].value, table[i].help, table[i].acts};
  return true;
}

void trm_engine_options_default(trm_engine_options *options) {
  *options = (trm_engine_options){0};
  for (int i = 0; i < TRM_NUM_ENGINE_OPTIONS; ++i) options->values[i] = table[i].value;
}

static trm_status check_value(int id, const char *value, const char *source, trm_error *error) {
  char *end;
  switch (table[id].kind) {
    case KIND_FLAG:
      if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) return TRM_OK;
      FAIL(INVALID_ARGUMENT, "%s: %s must be \"true\" or \"false\", not \"%s\"", source,
           table[id].key, value);
    case KIND_COUNT: {
      errno = 0;
      const long count = strtol(value, &end, 10);
      if (errno == 0 && end != value && *end == '\0' && count >= 0 && count <= 1000000000) {
        return TRM_OK;
      }
      FAIL(INVALID_ARGUMENT, "%s: %s must be a number from 0 on, not \"%s\"", source, table[id].key,
           value);
    }
    case KIND_TEXT: return TRM_OK;
  }
  return TRM_OK;
}

static trm_status refuse_unknown(const char *key, const char *source, trm_error *error) {
  const char *names[TRM_NUM_ENGINE_OPTIONS];
  for (int i = 0; i < TRM_NUM_ENGINE_OPTIONS; ++i) names[i] = table[i].key;
  const char *nearest = trm_nearest_name(key, names, TRM_NUM_ENGINE_OPTIONS);
  FAIL(INTERNAL, "[Poplar][Compile engine] invalid_option: Unrecognised option '%.80s' in %s%s%s%s",
       key, source, nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
       nearest != NULL ? "'?" : "");
}

static trm_status add_one(trm_engine_options *options, trm_arena *arena, const char *key,
                          const json_t *value, const char *source, trm_error *error) {
  int found = -1;
  for (int i = 0; i < TRM_NUM_ENGINE_OPTIONS; ++i) {
    if (strcmp(key, table[i].key) == 0) found = i;
  }
  if (found < 0) return refuse_unknown(key, source, error);
  const char *text = json_string_value(value);
  char number[32];
  if (json_is_boolean(value)) text = json_is_true(value) ? "true" : "false";
  if (json_is_integer(value)) {
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    text = number;
  }
  if (text == NULL) {
    FAIL(INVALID_ARGUMENT, "%s: the value of %s must be text, such as \"%s\"", source, key,
         table[found].value[0] != '\0' ? table[found].value : "true");
  }
  TRY(check_value(found, text, source, error));
  options->values[found] = trm_arena_string(arena, text, strlen(text));
  CHECK_MEMORY(options->values[found], "an engine option");
  options->given[found] = true;
  if (!table[found].acts && !atomic_exchange(&told[found], true)) {
    trm_log(TRM_LOG_INFO, "ENGINE", "%s: %s is accepted and has no effect%s%s", source, key,
            table[found].help[0] != '\0' ? ": " : "", table[found].help);
  }
  return TRM_OK;
}

trm_status trm_engine_options_add(trm_engine_options *options, trm_arena *arena, const char *json,
                                  const char *source, trm_error *error) {
  if (json == NULL || json[strspn(json, " \t\r\n")] == '\0') return TRM_OK;
  json_error_t parse_error;
  json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &parse_error);
  if (object == NULL) {
    FAIL(INVALID_ARGUMENT,
         "%s is not JSON: %s at line %d, column %d. It must be an object of text to text, such as "
         "{\"autoReport.all\":\"true\"}",
         source, parse_error.text, parse_error.line, parse_error.column);
  }
  trm_status status = TRM_OK;
  if (!json_is_object(object)) {
    status = trm_fail(error, TRM_INVALID_ARGUMENT,
                      "%s must be a JSON object of text to text, such as "
                      "{\"autoReport.all\":\"true\"}",
                      source);
  }
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    if (status == TRM_OK) status = add_one(options, arena, key, value, source, error);
  }
  json_decref(object);
  return status;
}

bool trm_engine_option_is_on(const trm_engine_options *options, trm_engine_option_id id) {
  const char *value = options->values[id];
  if (value[0] == '\0') value = options->values[TRM_ENGINE_REPORT_ALL];
  return strcmp(value, "true") == 0;
}

int64_t trm_engine_option_count(const trm_engine_options *options, trm_engine_option_id id) {
  return strtoll(options->values[id], NULL, 10);
}

bool trm_engine_options_want_report(const trm_engine_options *options) {
  static const trm_engine_option_id files[] = {
      TRM_ENGINE_OUTPUT_GRAPH, TRM_ENGINE_OUTPUT_EXECUTION, TRM_ENGINE_OUTPUT_DEBUG,
      TRM_ENGINE_OUTPUT_VARS,  TRM_ENGINE_OUTPUT_ARCHIVE,   TRM_ENGINE_OUTPUT_SERIALIZED};
  for (size_t f = 0; f < sizeof files / sizeof *files; ++f) {
    if (trm_engine_option_is_on(options, files[f])) return true;
  }
  return false;
}

/* Owns: parsing and checking engine options (options.h). */
#include "report/options.h"

#include <jansson.h>
#include <stdatomic.h>
#include <string.h>

#include "base/sized.h"
#include "tremula/log.h"
#include "tremula/report.h"

static const trm_option_row rows[TRM_NUM_ENGINE_OPTIONS] = {
#define ENGINE_OPTION(member, key, value, kind, acts, help) \
  {key, value, OPTION_KIND_##kind, offsetof(trm_engine_options, member), help},
#include "report/options.def"
#undef ENGINE_OPTION
};
static const bool acts[TRM_NUM_ENGINE_OPTIONS] = {
#define ENGINE_OPTION(member, key, value, kind, acts, help) acts,
#include "report/options.def"
#undef ENGINE_OPTION
};
static const trm_option_table table = {rows, NULL, TRM_NUM_ENGINE_OPTIONS, 0};

/* Options whose log line "has no effect" this process has written. */
static atomic_bool told[TRM_NUM_ENGINE_OPTIONS];

bool trm_report_option(size_t i, trm_report_option_row *out_row) {
  if (i >= TRM_NUM_ENGINE_OPTIONS) return false;
  const trm_report_option_row row = {
      .key = rows[i].key, .default_value = rows[i].value, .help = rows[i].help, .acts = acts[i]};
  return TRM_GIVE(out_row, row);
}

/* A flag that was not given and has no default takes the value of autoReport.all. */
static void follow_report_all(trm_engine_options *options) {
  for (int i = 0; i < TRM_NUM_ENGINE_OPTIONS; ++i) {
    if (rows[i].kind != OPTION_KIND_FLAG || options->texts[i][0] != '\0') continue;
    *(bool *)((char *)options + rows[i].place) = options->report_all;
  }
}

void trm_engine_options_default(trm_engine_options *options) {
  *options = (trm_engine_options){0};
  trm_option_set_defaults(&table, options);
  for (int i = 0; i < TRM_NUM_ENGINE_OPTIONS; ++i) options->texts[i] = rows[i].value;
  follow_report_all(options);
}

static trm_status add_one(trm_engine_options *options, trm_arena *arena, const char *key,
                          const json_t *value, const char *source, trm_error *error) {
  const char *nearest;
  const int found = trm_option_find(&table, key, &nearest);
  if (found < 0) {
    FAIL(INTERNAL,
         "[Poplar][Compile engine] invalid_option: Unrecognised option '%.80s' in %s%s%s%s", key,
         source, nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
         nearest != NULL ? "'?" : "");
  }
  const char *text = json_string_value(value);
  char number[32];
  if (json_is_boolean(value)) text = json_is_true(value) ? "true" : "false";
  if (json_is_integer(value)) {
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    text = number;
  }
  if (text == NULL) {
    FAIL(INVALID_ARGUMENT, "%s: the value of %s must be text, such as \"%s\"", source, key,
         rows[found].value[0] != '\0' ? rows[found].value : "true");
  }
  const char *copy = trm_arena_string(arena, text, strlen(text));
  CHECK_MEMORY(copy, "an engine option");
  if (!trm_option_set(&table, found, copy, options)) {
    char expected[OPTION_EXPECTED_SIZE];
    FAIL(INVALID_ARGUMENT, "%s: %s must be %s, not \"%s\"", source, key,
         trm_option_expected(&table, found, expected), copy);
  }
  options->texts[found] = copy;
  options->given[found] = true;
  if (!acts[found] && !atomic_exchange(&told[found], true)) {
    trm_log(TRM_LOG_INFO, "ENGINE", "%s: %s is accepted and has no effect%s%s", source, key,
            rows[found].help[0] != '\0' ? ": " : "", rows[found].help);
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
  if (status == TRM_OK) follow_report_all(options);
  return status;
}

bool trm_engine_options_want_report(const trm_engine_options *options) {
  return options->output_graph || options->output_execution || options->output_debug ||
         options->output_vars || options->output_archive || options->output_serialized;
}

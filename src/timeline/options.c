/* Owns: reading PVTI_OPTIONS. */
#include "timeline/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "true", true, "1" and 1; what is absent is `otherwise`. */
static bool flag_of(const json_t *value, bool otherwise) {
  if (value == NULL) return otherwise;
  if (json_is_boolean(value)) return json_is_true(value);
  if (json_is_integer(value)) return json_integer_value(value) != 0;
  const char *text = json_string_value(value);
  return text == NULL || (strcasecmp(text, "false") != 0 && strcmp(text, "0") != 0);
}

static double number_of(const json_t *value) {
  const char *text = json_string_value(value);
  const double number = text != NULL ? strtod(text, NULL) : json_number_value(value);
  return number > 0 ? number : 0;
}

void trm_timeline_options_read(const char *text, trm_timeline_options *out) {
  *out = (trm_timeline_options){.enable = text != NULL && *text != '\0'};
  if (!out->enable) return;
  json_t *root = json_loads(text, 0, NULL);
  if (!json_is_object(root)) {
    json_decref(root);
    return;
  }
  out->enable = flag_of(json_object_get(root, "enable"), true);
  const char *directory = json_string_value(json_object_get(root, "directory"));
  if (directory != NULL) snprintf(out->directory, sizeof out->directory, "%s", directory);
  json_t *channels = json_object_get(root, "channels");
  if (json_array_size(channels) > 0) out->channels = json_incref(channels);
  out->seconds = number_of(json_object_get(root, "duration"));
  json_decref(root);
}

bool trm_timeline_options_want(const trm_timeline_options *options, const char *channel) {
  if (!options->enable) return false;
  if (options->channels == NULL) return true;
  size_t i;
  json_t *name;
  json_array_foreach(options->channels, i, name) {
    const char *text = json_string_value(name);
    if (text != NULL && strcmp(text, channel) == 0) return true;
  }
  return false;
}

/* Owns: the reading of a backend_config (config.h). */
#include "hlo/config.h"

#include <string.h>

json_t *trm_instruction_config(const trm_instruction *instruction, size_t flags,
                               json_error_t *out_problem) {
  const bool given = instruction->backend_config != NULL;
  return json_loadb(given ? instruction->backend_config : "",
                    given ? instruction->backend_config_size : 0, flags, out_problem);
}

bool trm_config_is(const trm_instruction *instruction, const char *key, json_type type) {
  json_t *config = trm_instruction_config(instruction, JSON_ALLOW_NUL, NULL);
  const json_t *value = json_object_get(config, key);
  const bool is = value != NULL && json_typeof(value) == type;
  json_decref(config);
  return is;
}

bool trm_config_is_text(const trm_instruction *instruction, const char *key, const char *text) {
  json_t *config = trm_instruction_config(instruction, JSON_ALLOW_NUL, NULL);
  const char *value = json_string_value(json_object_get(config, key));
  const bool is_text = value != NULL && strcmp(value, text) == 0;
  json_decref(config);
  return is_text;
}

int64_t trm_config_integer(const trm_instruction *instruction, const char *key, int64_t otherwise) {
  json_t *config = trm_instruction_config(instruction, JSON_ALLOW_NUL, NULL);
  const json_t *value = json_object_get(config, key);
  const int64_t number = json_is_integer(value) ? json_integer_value(value) : otherwise;
  json_decref(config);
  return number;
}

/* Owns: options of linear plans, from JSON. */
#include "ipu/program/plan_options.h"

trm_status trm_program_add_plan_options(const json_t *object, const char *what, trm_arena *arena,
                                        trm_plan_options *options, trm_error *error) {
  if (!json_is_object(object)) {
    FAIL(INVALID_ARGUMENT, "the options of %s must be a JSON object of text to text", what);
  }
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)object, key, value) {
    if (!json_is_string(value)) {
      FAIL(INVALID_ARGUMENT, "the option '%s' of %s must be text", key, what);
    }
    const char *text = trm_arena_string(arena, json_string_value(value), json_string_length(value));
    CHECK_MEMORY(text, "options");
    TRY_NOTE(trm_plan_option_set(options, key, text, error), "in the options of %s", what);
  }
  return TRM_OK;
}

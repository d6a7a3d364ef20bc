/* Engine options: POPLAR_ENGINE_OPTIONS and compilation_poplar_options (options.def). */
#ifndef TREMULA_REPORT_OPTIONS_H_
#define TREMULA_REPORT_OPTIONS_H_

#include "base/memory.h"

typedef enum trm_engine_option_id {
#define ENGINE_OPTION(id, key, value, kind, acts, help) TRM_ENGINE_##id,
#include "report/options.def"
#undef ENGINE_OPTION
  TRM_NUM_ENGINE_OPTIONS
} trm_engine_option_id;

/* Every option's value as text, in the arena; checked. */
typedef struct trm_engine_options {
  const char *values[TRM_NUM_ENGINE_OPTIONS];
  bool given[TRM_NUM_ENGINE_OPTIONS];
} trm_engine_options;

void trm_engine_options_default(trm_engine_options *options);
/* Adds what a JSON object says, over what was there. `source` is what messages call it. An unknown
 * option is a warning in the log, with the nearest one; text that is no such object, or a value
 * that does not fit, is an error. */
trm_status trm_engine_options_add(trm_engine_options *options, trm_arena *arena, const char *json,
                                  const char *source, trm_error *error);
bool trm_engine_option_is_on(const trm_engine_options *options, trm_engine_option_id id);
int64_t trm_engine_option_count(const trm_engine_options *options, trm_engine_option_id id);
const char *trm_engine_option_key(trm_engine_option_id id);
bool trm_engine_option_acts(trm_engine_option_id id);
/* Whether any file of the profile is asked for. */
bool trm_engine_options_want_report(const trm_engine_options *options);

#endif /* TREMULA_REPORT_OPTIONS_H_ */

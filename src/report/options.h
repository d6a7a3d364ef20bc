/* Engine options: POPLAR_ENGINE_OPTIONS and compilation_poplar_options (options.def). */
#ifndef TREMULA_REPORT_OPTIONS_H_
#define TREMULA_REPORT_OPTIONS_H_

#include "base/memory.h"
#include "base/option.h"

enum {
#define ENGINE_OPTION(member, ...) TRM_ENGINE_OPTION_##member,
#include "report/options.def"
#undef ENGINE_OPTION
  TRM_NUM_ENGINE_OPTIONS
};

typedef struct trm_engine_options {
#define ENGINE_OPTION(member, key, value, kind, acts, help) OPTION_TYPE_##kind member;
#include "report/options.def"
#undef ENGINE_OPTION
  /* In the order of the table, in the arena: the text of each value, which profiles contain, and
   * whether it was given. */
  const char *texts[TRM_NUM_ENGINE_OPTIONS];
  bool given[TRM_NUM_ENGINE_OPTIONS];
} trm_engine_options;

void trm_engine_options_default(trm_engine_options *options);
/* Parses a JSON object, and overrides the options that it names. `source` names the object in
 * messages. Fails for an unknown option (the message names the nearest one), for text that is no
 * such object, and for a value that does not fit. */
trm_status trm_engine_options_add(trm_engine_options *options, trm_arena *arena, const char *json,
                                  const char *source, trm_error *error);
/* Whether the options ask for any file of a profile. */
bool trm_engine_options_want_report(const trm_engine_options *options);

#endif /* TREMULA_REPORT_OPTIONS_H_ */

/* Compile options: the table base/options.def as a struct, which is parsed when a module is
 * compiled or an executable is read. */
#ifndef TREMULA_COMPILE_OPTIONS_H_
#define TREMULA_COMPILE_OPTIONS_H_

#include "base/memory.h"
#include "base/option.h"
#include "passes/pass.h"
#include "tremula/program.h"

enum {
#define COMPILER(key, ...) TRM_OPTION_##key,
#define ESTIMATE(key, ...) TRM_OPTION_##key,
#include "base/options.def"
  TRM_NUM_OPTIONS
};

typedef struct trm_options {
#define COMPILER(key, kind, value, use, help) OPTION_TYPE_##kind key;
#include "base/options.def"
  trm_program_options estimate;
  /* The texts of the values, in the order of the table, for files and profiles. The arena owns
   * them, like all texts. */
  const char *texts[TRM_NUM_OPTIONS];
} trm_options;

trm_status trm_options_parse(trm_arena *arena, const trm_option *options, size_t num_options,
                             trm_options *out_options, trm_error *error);
/* Key, default and help of option i; NULL after the last. *out_plans: whether `tremula plan` takes
 * it too. */
const trm_option_row *trm_options_row(size_t i, bool *out_plans);

#endif /* TREMULA_COMPILE_OPTIONS_H_ */

/* Compile options: options.def, parsed and checked. */
#ifndef TREMULA_EXEC_OPTIONS_H_
#define TREMULA_EXEC_OPTIONS_H_

#include "base/memory.h"
#include "tremula/program.h"

typedef enum trm_option_id {
#define OPTION(key, value, kind, acts, help) TRM_OPTION_##key,
#include "exec/options.def"
#undef OPTION
  TRM_NUM_OPTIONS
} trm_option_id;

/* Every option's value as text, owned by the arena; checked. */
typedef struct trm_options {
  const char *values[TRM_NUM_OPTIONS];
} trm_options;

trm_status trm_options_parse(trm_arena *arena, const trm_option *options, size_t num_options,
                             trm_options *out_options, trm_error *error);
/* Whether `text` names an order, which *out_order (may be NULL) then is. */
bool trm_selection_order_parse(const char *text, trm_selection_order *out_order);
/* The bits of trm_synthetic that a comma-separated list names. */
trm_status trm_synthetic_parse(const char *list, uint32_t *out_bits, trm_error *error);
bool trm_options_bool(const trm_options *options, trm_option_id id);
const char *trm_option_key(trm_option_id id);
const char *trm_option_help(trm_option_id id);
const char *trm_option_default(trm_option_id id);
bool trm_option_acts(trm_option_id id);

#endif /* TREMULA_EXEC_OPTIONS_H_ */

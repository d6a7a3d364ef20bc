/* The configuration of a custom call: its backend_config, as JSON. */
#ifndef TREMULA_HLO_CONFIG_H_
#define TREMULA_HLO_CONFIG_H_

#include <jansson.h>

#include "hlo/hlo.h"

/* The backend_config; the caller releases it with json_decref. `flags` are those of jansson's
 * decoder. NULL where there is none, or what is there is not JSON: *out_problem (NULL: left out)
 * says why. jansson finds nothing in NULL, so who wants one member need not ask. */
json_t *trm_instruction_config(const trm_instruction *instruction, size_t flags,
                               json_error_t *out_problem);

/* One member of the backend_config. Of the wrong type, or of a config that is no JSON object, it
 * counts as absent: who must complain of that reads the whole config. */
bool trm_config_is(const trm_instruction *instruction, const char *key, json_type type);
bool trm_config_is_text(const trm_instruction *instruction, const char *key, const char *text);
int64_t trm_config_integer(const trm_instruction *instruction, const char *key, int64_t otherwise);

#endif /* TREMULA_HLO_CONFIG_H_ */

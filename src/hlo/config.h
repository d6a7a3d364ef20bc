/* What a custom call is told: its backend_config, as JSON. */
#ifndef TREMULA_HLO_CONFIG_H_
#define TREMULA_HLO_CONFIG_H_

#include <jansson.h>

#include "hlo/hlo.h"

/* The backend_config; the caller releases it with json_decref. `flags` are those of jansson's
 * decoder. NULL where there is none, or what is there is not JSON: *out_problem (NULL: left out)
 * says why. jansson finds nothing in NULL, so who wants one member need not ask. */
json_t *trm_instruction_config(const trm_instruction *instruction, size_t flags,
                               json_error_t *out_problem);

#endif /* TREMULA_HLO_CONFIG_H_ */

/* Owns: the reading of a backend_config (config.h). */
#include "hlo/config.h"

json_t *trm_instruction_config(const trm_instruction *instruction, size_t flags,
                               json_error_t *out_problem) {
  const bool given = instruction->backend_config != NULL;
  return json_loadb(given ? instruction->backend_config : "",
                    given ? instruction->backend_config_size : 0, flags, out_problem);
}

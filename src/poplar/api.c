/* Owns: the table of functions that Poplar's headers call. */
#include "poplar/api.h"

#include "base/memory.h"

static const trm_poplar_api table = {
    .size = sizeof table,
    .version = TRM_POPLAR_VERSION,
    .block_release = trm_free,
#define POPLAR_FUNCTION(member, function) .member = (function),
#include "poplar/api.def"
};

const trm_poplar_api *trm_poplar_api_table(void) { return &table; }

/* Owns: the table of functions that Poplar's headers call. */
#include "poplar/api.h"

#include "base/memory.h"

void trm_poplar_block_release(void *block) { trm_free(block); }

static const trm_poplar_api table = {
    .size = sizeof table,
    .version = TRM_POPLAR_VERSION,
#define POPLAR_CALL(member, ...) .member = trm_poplar_##member,
#define POPLAR_PLAIN(result, member, ...) .member = trm_poplar_##member,
#include "tremula/poplar_api.def"
};

const trm_poplar_api *trm_poplar_api_table(void) { return &table; }

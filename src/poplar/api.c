/* Owns: the table of functions that Poplar's headers call, and their failures. */
#include "poplar/api.h"

#include <stdarg.h>
#include <stdio.h>

trm_status trm_poplar_fail(trm_poplar_error *error, trm_status status, trm_poplar_error_kind kind,
                           const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error->kind = kind;
  vsnprintf(error->what, sizeof error->what, format, arguments);
  va_end(arguments);
  return status;
}

trm_status trm_poplar_pass(trm_poplar_error *error, const trm_error *inner) {
  return trm_poplar_fail(error, inner->status, TRM_POPLAR_ERROR, "%s", inner->message);
}

void trm_poplar_block_release(void *block) { trm_free(block); }

static const trm_poplar_api table = {
    .size = sizeof table,
    .version = TRM_POPLAR_VERSION,
#define POPLAR_CALL(member, ...) .member = trm_poplar_##member,
#define POPLAR_PLAIN(result, member, ...) .member = trm_poplar_##member,
#include "tremula/poplar_api.def"
};

const trm_poplar_api *trm_poplar_api_table(void) { return &table; }

/* Owns: error messages, status names. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *trm_version(void) { return TRM_VERSION_STRING; }

const char *trm_status_name(trm_status status) {
  switch (status) {
#define TRM_STATUS(name, code, whose) \
  case TRM_##name: return #name;
#include "tremula/status.def"
#undef TRM_STATUS
  }
  return "UNKNOWN";
}

trm_status trm_fail(trm_error *error, trm_status status, const char *format, ...) {
  if (error != NULL) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    error->status = status;
  }
  return status;
}

trm_status trm_note(trm_error *error, trm_status status, const char *format, ...) {
  if (error != NULL) {
    const size_t used = strlen(error->message);
    if (used + 4 < sizeof error->message) {
      char *tail = error->message + used;
      const size_t room = sizeof error->message - used;
      const int start = snprintf(tail, room, " (");
      va_list args;
      va_start(args, format);
      vsnprintf(tail + start, room - (size_t)start, format, args);
      va_end(args);
      const size_t end = strlen(error->message);
      if (end + 1 < sizeof error->message) memcpy(error->message + end, ")", 2);
    }
  }
  return status;
}

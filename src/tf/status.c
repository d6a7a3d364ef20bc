/* Failures: from a trm_error or a format to a TF_Status. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

bool fail(TF_Status *status, TF_Code code, const char *format, ...) {
  char message[TRM_ERROR_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  TF_SetStatus(status, code, message);
  return false;
}

bool fail_with(TF_Status *status, const trm_error *error) {
  TF_SetStatus(status, (TF_Code)error->status, error->message);
  return false;
}

bool is_ok(const TF_Status *status) { return TF_GetCode(status) == TF_OK; }

bool fail_memory(TF_Status *status) {
  return fail(status, TF_RESOURCE_EXHAUSTED, "The host has no memory left.");
}

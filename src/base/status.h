/* Failing: the macros with which every internal function reports and passes on an error.
 *
 * FAIL writes the message and returns the code. TRY passes a failure on; TRY_NOTE passes it on
 * with a note of where it happened ("while reading %conv.3"). All three use the local name
 * `error`, which every fallible function takes last. */
#ifndef TREMULA_BASE_STATUS_H_
#define TREMULA_BASE_STATUS_H_

#include "tremula/tremula.h"

/* Writes a failure; returns `status` so that it can be returned on. */
trm_status trm_fail(trm_error *error, trm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* Adds " (<note>)" to a message that is already there; returns `status`. */
trm_status trm_note(trm_error *error, trm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The constant is returned, not the call, so that the compiler knows that it is a failure. */
#define FAIL(code, ...) return ((void)trm_fail(error, TRM_##code, __VA_ARGS__), TRM_##code)

#define TRY(expression)                            \
  do {                                             \
    const trm_status try_status_ = (expression);   \
    if (try_status_ != TRM_OK) return try_status_; \
  } while (0)

#define TRY_NOTE(expression, ...)                                                \
  do {                                                                           \
    const trm_status try_status_ = (expression);                                 \
    if (try_status_ != TRM_OK) return trm_note(error, try_status_, __VA_ARGS__); \
  } while (0)

/* For functions that must release something: sets `status` and jumps to `done`. */
#define TRY_OR_GOTO(expression, label) \
  do {                                 \
    status = (expression);             \
    if (status != TRM_OK) goto label;  \
  } while (0)

#define FAIL_OR_GOTO(label, code, ...)        \
  do {                                        \
    trm_fail(error, TRM_##code, __VA_ARGS__); \
    status = TRM_##code;                      \
    goto label;                               \
  } while (0)

#endif /* TREMULA_BASE_STATUS_H_ */

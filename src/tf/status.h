/* Failures: from a trm_error or a format to a TF_Status. Nothing in the plugin aborts. */
#ifndef TREMULA_TF_STATUS_H_
#define TREMULA_TF_STATUS_H_

#include "tensorflow.h"
#include "tremula/tremula.h"

/* Sets `status` to `code` with a formatted message (cut at TRM_ERROR_SIZE); returns false, so that
 * a failing function can end with `return fail(...)`. */
__attribute__((format(printf, 3, 4))) bool fail(TF_Status *status, TF_Code code, const char *format,
                                                ...);
/* The same from what libtremula reported. The codes of both are the same numbers. */
bool fail_with(TF_Status *status, const trm_error *error);
/* True while nothing has failed. */
bool is_ok(const TF_Status *status);
/* For malloc's and friends' NULL. */
bool fail_memory(TF_Status *status);

#endif /* TREMULA_TF_STATUS_H_ */

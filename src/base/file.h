/* Reading and writing whole files. */
#ifndef TREMULA_BASE_FILE_H_
#define TREMULA_BASE_FILE_H_

#include <stddef.h>

#include "base/status.h"

enum { TRM_MAX_FILE_GIB = 2 };

/* Reads a file, a pipe or a device to its end, at most TRM_MAX_FILE_GIB. `contents` says in the
 * plural what is read ("modules"), for messages. NOT_FOUND when there is no such file,
 * INVALID_ARGUMENT for a directory or when it is too large, UNAVAILABLE when it cannot be read.
 * Free *out_data with trm_free; it is never NULL. */
trm_status trm_read_file(const char *path, const char *contents, char **out_data, size_t *out_size,
                         trm_error *error);

/* Replaces the file at once: the bytes are written to a new file in the same directory, which then
 * gets the name, so that nobody ever sees half a file; of several writers one wins. On failure
 * `path` is as it was and nothing is left beside it. The mode is as the umask allows. */
trm_status trm_write_file(const char *path, const void *data, size_t size, trm_error *error);

#endif /* TREMULA_BASE_FILE_H_ */

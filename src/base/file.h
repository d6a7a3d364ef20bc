/* Reading whole files. */
#ifndef TREMULA_BASE_FILE_H_
#define TREMULA_BASE_FILE_H_

#include "base/status.h"

/* Reads a regular file of at most 2 GiB; one NUL follows the contents. Free with trm_free. */
trm_status trm_read_file(const char *path, void **out_data, size_t *out_size, trm_error *error);

#endif /* TREMULA_BASE_FILE_H_ */

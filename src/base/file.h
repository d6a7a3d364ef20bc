/* Reading and writing whole files. */
#ifndef TREMULA_BASE_FILE_H_
#define TREMULA_BASE_FILE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

enum { TRM_MAX_FILE_GIB = 2 };

/* Makes a folder and those above it that are not there. UNAVAILABLE where one cannot be made. */
trm_status trm_make_folders(const char *path, trm_error *error);

/* Reads a file that may lie where others can write: a FIFO, a device or a socket in its place
 * neither hangs the process nor is read. `what` is what messages call it ("inventory"). NOT_FOUND
 * when there is none, INVALID_ARGUMENT when it is something else or has more than most_bytes,
 * UNAVAILABLE when it cannot be read. Free *out_data with trm_free; it is never NULL. */
trm_status trm_read_regular(const char *path, const char *what, size_t most_bytes, char **out_data,
                            size_t *out_size, trm_error *error);

/* Reads a file, a pipe or a device to its end, at most TRM_MAX_FILE_GIB. `contents` says in the
 * plural what is read ("modules"), for messages. NOT_FOUND when there is no such file,
 * INVALID_ARGUMENT for a directory or when it is too large, UNAVAILABLE when it cannot be read.
 * Free *out_data with trm_free; it is never NULL. */
trm_status trm_read_file(const char *path, const char *contents, char **out_data, size_t *out_size,
                         trm_error *error);

/* A file that is written beside `path`, and gets that name when it is whole. */
typedef struct trm_new_file {
  FILE *stream;
  char *name;  /* while it is written */
  int problem; /* 0; set it to errno when a write fails */
} trm_new_file;
trm_status trm_new_file_open(const char *path, trm_new_file *out_file, trm_error *error);
/* Gives the file its name if `keep` and all could be written; otherwise removes it. What lay there,
 * a link included, is replaced, never written through. */
trm_status trm_new_file_close(trm_new_file *file, const char *path, bool keep, trm_error *error);

/* Replaces the file at once: the bytes are written to a new file in the same directory, which then
 * gets the name, so that nobody ever sees half a file; of several writers one wins. On failure
 * `path` is as it was and nothing is left beside it. The mode is as the umask allows. A device or a
 * FIFO that lies there is not replaced: it gets the bytes. */
trm_status trm_write_file(const char *path, const void *data, size_t size, trm_error *error);

/* A file of a cache: `magic`, a text that may be empty, the XXH3 hash of 128 bits of the data in
 * its canonical form, and the data. Reading is as trm_read_regular does; DATA_LOSS where the magic
 * or the hash is wrong. */
trm_status trm_read_hashed(const char *path, const char *what, const char *magic, size_t most_bytes,
                           char **out_data, size_t *out_size, trm_error *error);
trm_status trm_write_hashed(const char *path, const char *magic, const void *data, size_t size,
                            trm_error *error);

#endif /* TREMULA_BASE_FILE_H_ */

/* Owns: reading whole files. */
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"

static const long long max_bytes = 2LL << 30;

trm_status trm_read_file(const char *path, void **out_data, size_t *out_size, trm_error *error) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) FAIL(NOT_FOUND, "cannot open %s: %s", path, strerror(errno));
  trm_status status = TRM_OK;
  char *data = NULL;
  size_t size = 0;
  struct stat info;
  if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
    FAIL_OR_GOTO(done, INVALID_ARGUMENT, "%s is not a file", path);
  }
  if (info.st_size > max_bytes) {
    FAIL_OR_GOTO(done, INVALID_ARGUMENT, "%s has %lld bytes; at most 2 GiB are read", path,
                 (long long)info.st_size);
  }
  data = trm_allocate((size_t)info.st_size + 1);
  if (data == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while reading %s", path);
  size = fread(data, 1, (size_t)info.st_size, file);
  if (ferror(file)) FAIL_OR_GOTO(done, DATA_LOSS, "cannot read %s: %s", path, strerror(errno));
  data[size] = '\0';
done:
  fclose(file);
  if (status != TRM_OK) {
    trm_free(data);
    return status;
  }
  *out_data = data;
  *out_size = size;
  return TRM_OK;
}

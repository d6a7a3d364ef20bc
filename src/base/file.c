/* Owns: reading and writing whole files. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/memory.h"

static const size_t max_bytes = (size_t)TRM_MAX_FILE_GIB << 30;

static trm_status read_open_file(FILE *file, const char *path, const char *contents,
                                 char **out_data, size_t *out_size, trm_error *error) {
  trm_status status = TRM_OK;
  VECTOR(char) bytes = {0};
  struct stat info;
  if (fstat(fileno(file), &info) != 0) {
    FAIL(UNAVAILABLE, "cannot open %s: %s", path, strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) {
    FAIL(INVALID_ARGUMENT, "%s is a directory; expected a file", path);
  }
  /* The size that a pipe or a special file states means nothing: grown while reading. */
  size_t first_capacity = 64 * 1024;
  if (S_ISREG(info.st_mode)) {
    if ((uint64_t)info.st_size > max_bytes) {
      FAIL(INVALID_ARGUMENT, "%s has %lld bytes; %s are at most %d GiB", path,
           (long long)info.st_size, contents, TRM_MAX_FILE_GIB);
    }
    first_capacity = (size_t)info.st_size + 1; /* one more: sees the end without growing */
  }
  bytes.items = trm_allocate(first_capacity);
  if (bytes.items != NULL) bytes.capacity = first_capacity;
  for (;;) {
    if (bytes.count > max_bytes) {
      FAIL_OR_GOTO(failed, INVALID_ARGUMENT, "%s does not end within %d GiB, the most %s may have",
                   path, TRM_MAX_FILE_GIB, contents);
    }
    if (bytes.items == NULL || !VECTOR_GROW(&bytes)) {
      FAIL_OR_GOTO(failed, RESOURCE_EXHAUSTED, "out of memory while reading %s", path);
    }
    const size_t got = fread(bytes.items + bytes.count, 1, bytes.capacity - bytes.count, file);
    bytes.count += got;
    if (got > 0) continue;
    if (ferror(file)) {
      FAIL_OR_GOTO(failed, UNAVAILABLE, "cannot read %s: %s", path, strerror(errno));
    }
    *out_data = bytes.items;
    *out_size = bytes.count;
    return TRM_OK;
  }
failed:
  VECTOR_FREE(&bytes);
  return status;
}

trm_status trm_read_file(const char *path, const char *contents, char **out_data, size_t *out_size,
                         trm_error *error) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    if (errno == ENOENT || errno == ENOTDIR) FAIL(NOT_FOUND, "there is no file %s", path);
    FAIL(UNAVAILABLE, "cannot open %s: %s", path, strerror(errno));
  }
  const trm_status status = read_open_file(file, path, contents, out_data, out_size, error);
  fclose(file);
  return status;
}

/* ---- Folders --------------------------------------------------------------------------------- */

trm_status trm_make_folders(const char *path, trm_error *error) {
  trm_text part = {0};
  if (path[0] == '\0') path = ".";
  trm_text_append(&part, path, strlen(path));
  if (part.failed) FAIL_NO_MEMORY("the name of a folder");
  int problem = 0;
  for (char *end = part.data + strspn(path, "/"); problem == 0; ++end) {
    end += strcspn(end, "/");
    const char before = *end;
    *end = '\0';
    if (mkdir(part.data, 0777) != 0 && errno != EEXIST) problem = errno;
    if (before == '\0') break;
    *end = before;
  }
  struct stat info;
  if (problem == 0 && stat(path, &info) != 0) problem = errno;
  if (problem == 0 && !S_ISDIR(info.st_mode)) problem = ENOTDIR;
  if (problem != 0) {
    trm_fail(error, TRM_UNAVAILABLE, "cannot make the folder %s: %s", part.data, strerror(problem));
  }
  trm_text_free(&part);
  return problem == 0 ? TRM_OK : TRM_UNAVAILABLE;
}

/* ---- Regular files --------------------------------------------------------------------------- */

static trm_status open_regular(const char *path, const char *what, int *out_file, size_t *out_size,
                               trm_error *error) {
  /* O_NONBLOCK: opening a FIFO does not wait for its writer. */
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    if (errno == ENOENT || errno == ENOTDIR) FAIL(NOT_FOUND, "there is no file %s", path);
    if (errno == ENXIO) FAIL(INVALID_ARGUMENT, "the %s %s is not a regular file", what, path);
    FAIL(UNAVAILABLE, "cannot open the %s %s: %s", what, path, strerror(errno));
  }
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file);
    FAIL(INVALID_ARGUMENT, "the %s %s is not a regular file", what, path);
  }
  *out_file = file;
  *out_size = (size_t)info.st_size;
  return TRM_OK;
}

/* errno, or 0; fewer bytes where the file has become shorter. */
static int read_all(int file, char *data, size_t size, size_t *out_read) {
  size_t used = 0;
  while (used < size) {
    const ssize_t got = read(file, data + used, size - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    used += (size_t)got;
  }
  *out_read = used;
  return 0;
}

trm_status trm_read_regular(const char *path, const char *what, size_t most_bytes, char **out_data,
                            size_t *out_size, trm_error *error) {
  int file;
  size_t size;
  TRY(open_regular(path, what, &file, &size, error));
  if (size > most_bytes) {
    close(file);
    FAIL(INVALID_ARGUMENT, "the %s %s has %zu bytes; at most %zu are read", what, path, size,
         most_bytes);
  }
  char *data = trm_allocate(size + 1);
  const int problem = data == NULL ? 0 : read_all(file, data, size, out_size);
  close(file);
  if (data == NULL) FAIL(RESOURCE_EXHAUSTED, "out of memory while reading %s", path);
  if (problem != 0) {
    trm_free(data);
    FAIL(UNAVAILABLE, "cannot read the %s %s: %s", what, path, strerror(problem));
  }
  *out_data = data;
  return TRM_OK;
}

/* ---- Writing -------------------------------------------------------------------------------- */

static trm_status fail_to_write(const char *path, int problem, trm_error *error) {
  switch (problem) {
    case ENOENT:
    case ENOTDIR: FAIL(NOT_FOUND, "cannot write %s: there is no such directory", path);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE: FAIL(RESOURCE_EXHAUSTED, "cannot write %s: %s", path, strerror(problem));
    case EISDIR:
    case ENAMETOOLONG: FAIL(INVALID_ARGUMENT, "cannot write %s: %s", path, strerror(problem));
    default: FAIL(UNAVAILABLE, "cannot write %s: %s", path, strerror(problem));
  }
}

/* A new file in the directory of `path`, whose name goes to `name`; -1 with errno set. The name
 * need not be unguessable, only new: O_EXCL sees to that. mkstemp would not obey the umask. */
static int create_beside(const char *path, trm_text *name) {
  const char *slash = strrchr(path, '/');
  const size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    name->length = 0;
    trm_text_append(name, path, folder);
    trm_text_format(name, ".tremula-%ld-%llx.tmp", (long)getpid(),
                    (unsigned long long)now.tv_sec << 32 | (unsigned long long)now.tv_nsec);
    if (name->failed) {
      errno = ENOMEM;
      return -1;
    }
    const int file = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/* errno, or 0. */
static int write_all(int file, const char *data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    size -= (size_t)written;
  }
  return 0;
}

trm_status trm_new_file_open(const char *path, trm_new_file *out_file, trm_error *error) {
  trm_text name = {0};
  const int file = create_beside(path, &name);
  int problem = file < 0 ? errno : 0;
  FILE *stream = file < 0 ? NULL : fdopen(file, "wb");
  if (stream == NULL && file >= 0) {
    problem = errno;
    close(file);
    unlink(name.data);
  }
  if (stream == NULL) {
    trm_text_free(&name);
    return fail_to_write(path, problem, error);
  }
  *out_file = (trm_new_file){.stream = stream, .name = name.data};
  return TRM_OK;
}

trm_status trm_new_file_close(trm_new_file *file, const char *path, bool keep, trm_error *error) {
  int problem = file->problem;
  if (fflush(file->stream) != 0 && problem == 0) problem = errno;
  if (fclose(file->stream) != 0 && problem == 0) problem = errno;
  if (keep && problem == 0 && rename(file->name, path) != 0) problem = errno;
  if (!keep || problem != 0) unlink(file->name);
  trm_free(file->name);
  *file = (trm_new_file){0};
  return keep && problem != 0 ? fail_to_write(path, problem, error) : TRM_OK;
}

/* A device, a FIFO or a socket, such as /dev/stdout. */
static bool is_special(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Returns errno, or 0. A FIFO without reader is an error, not a wait. */
static int write_special(const char *path, const char *data, size_t size) {
  const int file = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return errno;
  (void)fcntl(file, F_SETFL, 0); /* its reader may be slow */
  int problem = write_all(file, data, size);
  if (close(file) != 0 && problem == 0) problem = errno;
  return problem;
}

/* errno, or 0. */
static int replace_file(const char *path, const char *data, size_t size) {
  trm_text name = {0};
  const int file = create_beside(path, &name);
  int problem = file < 0 ? errno : write_all(file, data, size);
  if (file >= 0) {
    if (close(file) != 0 && problem == 0) problem = errno;
    if (problem == 0 && rename(name.data, path) != 0) problem = errno;
    if (problem != 0) unlink(name.data);
  }
  trm_text_free(&name);
  return problem;
}

trm_status trm_write_file(const char *path, const void *data, size_t size, trm_error *error) {
  const int problem =
      is_special(path) ? write_special(path, data, size) : replace_file(path, data, size);
  return problem == 0 ? TRM_OK : fail_to_write(path, problem, error);
}

/* ---- Files with a hash ---------------------------------------------------------------------- */

static XXH128_canonical_t hash_of(const void *data, size_t size) {
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(data, size));
  return hash;
}

trm_status trm_read_hashed(const char *path, const char *what, const char *magic, size_t most_bytes,
                           char **out_data, size_t *out_size, trm_error *error) {
  const size_t begin = strlen(magic), head = begin + sizeof(XXH128_canonical_t);
  char *data;
  size_t size;
  TRY(trm_read_regular(path, what, most_bytes, &data, &size, error));
  bool is_whole = size >= head && memcmp(data, magic, begin) == 0;
  if (is_whole) {
    const XXH128_canonical_t hash = hash_of(data + head, size - head);
    is_whole = memcmp(data + begin, &hash, sizeof hash) == 0;
  }
  if (!is_whole) {
    trm_free(data);
    FAIL(DATA_LOSS, "it is damaged, or not Tremula's.");
  }
  *out_data = memmove(data, data + head, size - head);
  *out_size = size - head;
  return TRM_OK;
}

trm_status trm_write_hashed(const char *path, const char *magic, const void *data, size_t size,
                            trm_error *error) {
  const XXH128_canonical_t hash = hash_of(data, size);
  trm_new_file file;
  TRY(trm_new_file_open(path, &file, error));
  if (fwrite(magic, 1, strlen(magic), file.stream) != strlen(magic) ||
      fwrite(&hash, 1, sizeof hash, file.stream) != sizeof hash ||
      fwrite(data, 1, size, file.stream) != size) {
    file.problem = errno;
  }
  return trm_new_file_close(&file, path, true, error);
}

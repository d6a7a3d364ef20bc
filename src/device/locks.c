/* Owns: the runtime folder and the lock files in it. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "device/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PATH = 4096, MAX_RECORD = 2048, SELECTION_TIMEOUT_MS = 10000, OPEN_ATTEMPTS = 100 };

/* ---- The folder ---------------------------------------------------------------------------- */

#define USE_ANOTHER \
  "set the environment variable TREMULA_RUNTIME_DIR to a folder that you can write"

/* Makes a folder and its parents, like `mkdir -p`; existing ones are fine. */
static trm_status make_folders(const char *path, trm_error *error) {
  char prefix[MAX_PATH];
  const size_t length = strlen(path);
  for (size_t i = 1; i <= length; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    memcpy(prefix, path, i);
    prefix[i] = '\0';
    if (mkdir(prefix, 0700) == 0 || errno == EEXIST) continue;
    const int reason = errno;
    struct stat info; /* a read-only parent that exists says EROFS or EACCES */
    if (stat(prefix, &info) == 0 && S_ISDIR(info.st_mode)) continue;
    FAIL(FAILED_PRECONDITION,
         "cannot make the folder %s for the locks of the virtual IPUs: %s; " USE_ANOTHER, prefix,
         strerror(reason));
  }
  return TRM_OK;
}

/* A folder in a shared place could have been put there by somebody else, who could then take the
 * locks away, or lay something else in their places. */
static trm_status check_owner(int fd, const char *path, trm_error *error) {
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    FAIL(FAILED_PRECONDITION,
         "the folder %s is not this user's alone (owner and mode must be the "
         "user's and 0700), so the locks of the virtual IPUs cannot be kept in it; " USE_ANOTHER,
         path);
  }
  return TRM_OK;
}

trm_status trm_lock_folder_open(const trm_inventory *inventory, bool create, int *out_fd,
                                trm_error *error) {
  char base[MAX_PATH / 2], path[MAX_PATH];
  const char *chosen = getenv("TREMULA_RUNTIME_DIR");
  const bool is_default = chosen == NULL || *chosen == '\0';
  if (is_default) {
    snprintf(base, sizeof base, "/tmp/tremula-%lu", (unsigned long)geteuid());
  } else if (chosen[0] != '/' || strlen(chosen) >= sizeof base) {
    FAIL(INVALID_ARGUMENT,
         "TREMULA_RUNTIME_DIR must be an absolute path of less than %zu bytes, "
         "not \"%.200s\"",
         sizeof base, chosen);
  } else {
    snprintf(base, sizeof base, "%s", chosen);
  }
  snprintf(path, sizeof path, "%s/%s", base, inventory->lock_folder);
  if (create) TRY(make_folders(base, error));
  const int parent = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_default ? O_NOFOLLOW : 0));
  if (parent < 0) {
    if (!create && errno == ENOENT) {
      *out_fd = -1;
      return TRM_OK;
    }
    FAIL(FAILED_PRECONDITION,
         "cannot use the folder %s for the locks of the virtual IPUs: %s; " USE_ANOTHER, base,
         strerror(errno));
  }
  trm_status status = is_default ? check_owner(parent, base, error) : TRM_OK;
  int folder = -1;
  if (status == TRM_OK) {
    int made = 0;
    if (create && mkdirat(parent, inventory->lock_folder, 0700) != 0) made = errno;
    folder =
        openat(parent, inventory->lock_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0 && (create || errno != ENOENT)) {
      status =
          trm_fail(error, TRM_FAILED_PRECONDITION,
                   "cannot use the folder %s for the locks of the virtual IPUs: %s; " USE_ANOTHER,
                   path, strerror(made != 0 && made != EEXIST ? made : errno));
    }
  }
  close(parent);
  if (status == TRM_OK && folder >= 0) status = check_owner(folder, path, error);
  if (status != TRM_OK && folder >= 0) close(folder);
  if (status == TRM_OK) *out_fd = folder;
  return status;
}

/* ---- Locks --------------------------------------------------------------------------------- */

/* A range of a file; the whole file ends nowhere, which is the length 0. */
static struct flock lock_of(short type, trm_lock_range range) {
  struct flock lock;
  memset(&lock, 0, sizeof lock); /* l_pid must be 0 */
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = range == TRM_LOCK_RESERVATION ? MAX_RECORD : 0;
  lock.l_len = range == TRM_LOCK_ALL ? 0 : MAX_RECORD;
  return lock;
}

/* 1: locked, 0: another has it, -1: failed (errno). */
static int try_lock(int fd, trm_lock_range range) {
  struct flock lock = lock_of(F_WRLCK, range);
  int result;
  do {
    result = fcntl(fd, F_OFD_SETLK, &lock);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return 1;
  return errno == EAGAIN || errno == EACCES ? 0 : -1;
}

void trm_lock_release(int fd) {
  if (fd < 0) return;
  struct flock lock = lock_of(F_UNLCK, TRM_LOCK_ALL);
  fcntl(fd, F_OFD_SETLK, &lock);
  close(fd);
}

/* Opens a lock file: a regular one of this user, and nothing else that may lie in its place. Fails
 * with NOT_FOUND, and *out_fd -1, where there is none and `flags` do not make it. */
static trm_status open_lock(int folder, const char *name, int flags, int *out_fd,
                            trm_error *error) {
  /* O_NONBLOCK: opening a FIFO does not wait for its other end. */
  const int fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
  struct stat info;
  *out_fd = -1;
  if (fd < 0 && errno == ENOENT && (flags & O_CREAT) == 0) return TRM_NOT_FOUND;
  if (fd < 0) {
    FAIL(FAILED_PRECONDITION,
         "cannot open the lock file %s of the virtual IPUs: %s; remove it, or " USE_ANOTHER, name,
         strerror(errno));
  }
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    close(fd);
    FAIL(FAILED_PRECONDITION,
         "the lock file %s of the virtual IPUs is not a regular file of this "
         "user; remove it, or " USE_ANOTHER,
         name);
  }
  *out_fd = fd;
  return TRM_OK;
}

/* Opens and locks a file of the folder. A cleaner of /tmp may remove it between the two: then the
 * lock would be on a file that nobody else can find, and the file is made again. */
static trm_status open_and_lock(int folder, const char *name, trm_lock_range range, int *out_fd,
                                trm_error *error) {
  for (int attempt = 0; attempt < OPEN_ATTEMPTS; ++attempt) {
    int fd;
    TRY(open_lock(folder, name, O_RDWR | O_CREAT, &fd, error));
    const int locked = try_lock(fd, range);
    if (locked <= 0) {
      const int reason = errno;
      close(fd);
      if (locked == 0) {
        *out_fd = -1;
        return TRM_OK;
      }
      FAIL(FAILED_PRECONDITION, "cannot lock the file %s of the virtual IPUs: %s; " USE_ANOTHER,
           name, strerror(reason));
    }
    struct stat info;
    if (fstat(fd, &info) == 0 && info.st_nlink > 0) {
      *out_fd = fd;
      return TRM_OK;
    }
    trm_lock_release(fd);
  }
  FAIL(FAILED_PRECONDITION, "the lock file %s of the virtual IPUs keeps being removed", name);
}

static void ipu_file_name(uint32_t ipu, char name[32]) { snprintf(name, 32, "ipu-%u.lock", ipu); }

trm_status trm_lock_selection(int folder, int *out_fd, trm_error *error) {
  int fd = -1;
  for (int waited = 0; waited <= SELECTION_TIMEOUT_MS; ++waited) {
    TRY(open_and_lock(folder, "selection.lock", TRM_LOCK_ALL, &fd, error));
    if (fd >= 0) {
      *out_fd = fd;
      return TRM_OK;
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  FAIL(UNAVAILABLE, "another process has been selecting virtual IPUs for %d seconds (stopped?)",
       SELECTION_TIMEOUT_MS / 1000);
}

trm_status trm_lock_ipu(int folder, uint32_t ipu, trm_lock_range range, int *out_fd,
                        trm_error *error) {
  char name[32];
  ipu_file_name(ipu, name);
  return open_and_lock(folder, name, range, out_fd, error);
}

/* ---- Records ------------------------------------------------------------------------------- */

/* Copies printable ASCII, which is safe in tables and in JSON. */
static void copy_clean(char *to, size_t size, const char *from) {
  size_t i = 0;
  for (; i + 1 < size && from[i] != '\0'; ++i) {
    to[i] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
  }
  to[i] = '\0';
}

static void read_command(char *out, size_t size) {
  char text[64] = "?";
  const int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got > 0) text[got - (text[got - 1] == '\n' ? 1 : 0)] = '\0';
  }
  copy_clean(out, size, text);
}

static void read_user(char *out, size_t size) {
  char buffer[4096];
  struct passwd entry, *found = NULL;
  if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != NULL) {
    copy_clean(out, size, found->pw_name);
  } else {
    snprintf(out, size, "%lu", (unsigned long)geteuid());
  }
}

/* Writes a record at its place. The file of a reserved IPU keeps its other record: the rest of this
 * one becomes blanks, not the end of the file. */
static bool write_text(int fd, trm_lock_range range, const char *text, size_t length) {
  char record[MAX_RECORD];
  if (length > sizeof record) return false;
  memset(record, ' ', sizeof record);
  memcpy(record, text, length);
  const off_t start = lock_of(F_WRLCK, range).l_start;
  const size_t size = range == TRM_LOCK_USE ? sizeof record : length;
  if (range != TRM_LOCK_USE && ftruncate(fd, start) != 0) return false;
  ssize_t written;
  do {
    errno = ENOSPC;
    written = pwrite(fd, record, size, start);
  } while (written < 0 && errno == EINTR);
  return written == (ssize_t)size;
}

trm_status trm_lock_write_record(int fd, trm_lock_range range, const trm_attachment *who,
                                 trm_error *error) {
  trm_attachment record;
  read_command(record.command, sizeof record.command);
  read_user(record.user, sizeof record.user);
  copy_clean(record.device, sizeof record.device, who->device);
  copy_clean(record.ids, sizeof record.ids, who->ids);
  copy_clean(record.reserved_for, sizeof record.reserved_for, who->reserved_for);
  json_t *object =
      json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:s}", "pid", (json_int_t)getpid(), "started",
                (json_int_t)time(NULL), "command", record.command, "user", record.user, "device",
                record.device, "ids", record.ids, "reserved_for", record.reserved_for);
  char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
  json_decref(object);
  CHECK_MEMORY(text, "the record of an attached IPU");
  const bool is_written = write_text(fd, range, text, strlen(text));
  const int reason = errno;
  free(text);
  if (!is_written) {
    FAIL(FAILED_PRECONDITION, "cannot write the lock file of a virtual IPU: %s; " USE_ANOTHER,
         strerror(reason));
  }
  return TRM_OK;
}

static void take_text(const json_t *object, const char *key, char *out, size_t size) {
  const char *text = json_string_value(json_object_get(object, key));
  copy_clean(out, size, text == NULL ? "" : text);
}

/* A record that is not (yet) whole leaves pid 0. */
static void read_record(int fd, off_t start, trm_attachment *attachment) {
  char text[MAX_RECORD];
  const ssize_t got = pread(fd, text, sizeof text, start);
  if (got <= 0) return;
  json_t *object = json_loadb(text, (size_t)got, 0, NULL);
  if (object == NULL) return;
  attachment->pid = json_integer_value(json_object_get(object, "pid"));
  attachment->started = json_integer_value(json_object_get(object, "started"));
  take_text(object, "command", attachment->command, sizeof attachment->command);
  take_text(object, "user", attachment->user, sizeof attachment->user);
  take_text(object, "device", attachment->device, sizeof attachment->device);
  take_text(object, "ids", attachment->ids, sizeof attachment->ids);
  take_text(object, "reserved_for", attachment->reserved_for, sizeof attachment->reserved_for);
  json_decref(object);
}

trm_status trm_lock_query(int folder, uint32_t ipu, trm_attachment *out_attachment,
                          trm_error *error) {
  trm_attachment attachment = {0};
  char name[32];
  ipu_file_name(ipu, name);
  int fd;
  const trm_status opened = open_lock(folder, name, O_RDONLY, &fd, error);
  if (opened != TRM_OK && opened != TRM_NOT_FOUND) return opened;
  /* Who uses the IPU counts before who has reserved it. */
  for (trm_lock_range range = TRM_LOCK_USE;
       fd >= 0 && !attachment.attached && range <= TRM_LOCK_RESERVATION; ++range) {
    struct flock lock = lock_of(F_WRLCK, range);
    const off_t start = lock.l_start;
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0) {
      const int reason = errno;
      close(fd);
      FAIL(FAILED_PRECONDITION, "cannot ask for the lock of the file %s of the virtual IPUs: %s",
           name, strerror(reason));
    }
    attachment.attached = lock.l_type != F_UNLCK;
    if (attachment.attached) read_record(fd, start, &attachment);
  }
  if (fd >= 0) close(fd);
  *out_attachment = attachment;
  return TRM_OK;
}

static trm_status query_range(const trm_inventory *inventory, uint32_t first, uint32_t count,
                              trm_attachment *out_attachments, trm_error *error) {
  int folder = -1;
  TRY(trm_lock_folder_open(inventory, false, &folder, error));
  trm_status status = TRM_OK;
  for (uint32_t i = 0; i < count && status == TRM_OK; ++i) {
    if (folder < 0) {
      out_attachments[i] = (trm_attachment){0};
    } else {
      status = trm_lock_query(folder, first + i, &out_attachments[i], error);
    }
  }
  if (folder >= 0) close(folder);
  return status;
}

trm_status trm_inventory_attachment(const trm_inventory *inventory, uint32_t ipu,
                                    trm_attachment *out_attachment, trm_error *error) {
  if (ipu >= inventory->num_ipus) {
    FAIL(INVALID_ARGUMENT, "IPU %u is not one of the %u IPUs of %s", ipu, inventory->num_ipus,
         inventory->name);
  }
  return query_range(inventory, ipu, 1, out_attachment, error);
}

trm_status trm_inventory_attachments(const trm_inventory *inventory,
                                     trm_attachment *out_attachments, trm_error *error) {
  return query_range(inventory, 0, inventory->num_ipus, out_attachments, error);
}

/* Owns: the files of the executable cache: their locks, how they are read and written. */
#define _GNU_SOURCE
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/wait.h"
#include "interrupt.h"
#include "log.h"

enum { POLL_MS = 50, MOST_WAIT_MS = 600000 };

/* ---- Entries -------------------------------------------------------------------------------- */

bool trm_tf_cache_find(const char *folder, const char *name, const char *suffix,
                       const char *lock_suffix, trm_tf_cache_entry *out) {
  out->lock = -1;
  const int path = snprintf(out->path, sizeof out->path, "%s/%s%s", folder, name, suffix);
  const int lock =
      snprintf(out->lock_path, sizeof out->lock_path, "%s/%s%s", folder, name, lock_suffix);
  if (path < 0 || lock < 0 || path >= TRM_TF_CACHE_PATH_SIZE || lock >= TRM_TF_CACHE_PATH_SIZE) {
    TRM_TF_WARN("The path of the executable cache is too long; nothing is cached.");
    return false;
  }
  trm_error unused; /* writing the file reports a failure */
  (void)trm_make_folders(folder, &unused);
  return true;
}

bool trm_tf_cache_has(const trm_tf_cache_entry *entry) { return access(entry->path, F_OK) == 0; }

void trm_tf_cache_tell_unusable(const trm_tf_cache_entry *entry, const char *reason) {
  TRM_TF_WARN("The file %s of the executable cache cannot be used and is made again: %s",
              entry->path, reason);
}

/* ---- Locks ---------------------------------------------------------------------------------- */

/* Whether the locked file still has this name; its last owner may have removed it. */
static bool is_current(int fd, const char *path) {
  struct stat by_fd;
  struct stat by_name;
  return fstat(fd, &by_fd) == 0 && stat(path, &by_name) == 0 && by_fd.st_ino == by_name.st_ino &&
         by_fd.st_dev == by_name.st_dev;
}

/* Other users may write to the folder, so a link or a FIFO at the lock's place is neither followed
 * nor waited for. -1: no lock is possible. */
static int open_lock(const char *path) {
  struct stat info;
  const int fd =
      open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (fd >= 0 || errno == ELOOP || errno == EISDIR || errno == ENXIO) {
    TRM_TF_WARN("The executable cache compiles without a lock: %s is not a regular file; "
                "remove it.",
                path);
  }
  if (fd >= 0) close(fd);
  return -1;
}

static bool wait_for_lock(trm_tf_cache_entry *entry) {
  const unsigned interrupts = trm_tf_interrupt_count();
  for (long waited = 0; waited <= MOST_WAIT_MS; waited += POLL_MS) {
    if (trm_tf_interrupt_is_due() || trm_tf_interrupt_count() != interrupts) return false;
    const int fd = open_lock(entry->lock_path);
    if (fd < 0) return true;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      if (is_current(fd, entry->lock_path)) {
        entry->lock = fd;
        return true;
      }
      close(fd);
      continue;
    }
    const int reason = errno;
    close(fd);
    if (reason != EWOULDBLOCK && reason != EINTR) return true; /* a file system without locks */
    if (waited == 0) {
      TRM_TF_INFO("Another process compiles this program: waiting for %s", entry->path);
    }
    trm_sleep_ms(POLL_MS);
  }
  TRM_TF_WARN("Another process has been compiling for %d s (stopped?): compiling here too: %s",
              MOST_WAIT_MS / 1000, entry->lock_path);
  return true;
}

bool trm_tf_cache_lock(trm_tf_cache_entry *entry) {
  trm_tf_interrupt_watch();
  const bool goes_on = wait_for_lock(entry);
  trm_tf_interrupt_unwatch();
  return goes_on;
}

void trm_tf_cache_unlock(trm_tf_cache_entry *entry) {
  if (entry->lock < 0) return;
  unlink(entry->lock_path); /* a process that waits for the lock sees this, and looks again */
  close(entry->lock);
  entry->lock = -1;
}

/* ---- Writing -------------------------------------------------------------------------------- */

/* Removes a folder and its files, or a file. A link is removed, but not its target. */
static void remove_folder(const char *path) {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  if (!folder) {
    if (fd >= 0) close(fd);
    unlink(path);
    return;
  }
  const struct dirent *entry;
  while ((entry = readdir(folder))) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      unlinkat(dirfd(folder), entry->d_name, 0);
    }
  }
  closedir(folder);
  rmdir(path);
}

bool trm_tf_cache_store(const trm_tf_cache_entry *entry, trm_tf_cache_writer *write,
                        const void *contents) {
  char folder[TRM_TF_CACHE_PATH_SIZE + 40];
  char unfinished[sizeof folder + 20];
  trm_error error = {0};
  /* The lock reserves the name, so a leftover of a killed process can be removed. */
  if (entry->lock >= 0) snprintf(folder, sizeof folder, "%s.part", entry->path);
  else snprintf(folder, sizeof folder, "%s.part.%ld", entry->path, (long)getpid());
  snprintf(unfinished, sizeof unfinished, "%s/contents", folder);
  remove_folder(folder);
  const char *problem = NULL;
  if (mkdir(folder, 0777) != 0) problem = strerror(errno);
  else if (write(contents, unfinished, &error) != TRM_OK) problem = error.message;
  else if (rename(unfinished, entry->path) != 0) problem = strerror(errno);
  if (problem) TRM_TF_WARN("The executable cache could not write %s: %s", entry->path, problem);
  remove_folder(folder);
  return !problem;
}

/* ---- For Python ----------------------------------------------------------------------------- */

static const char MAGIC[] = "TRMLOWR2";

trm_tf_cache_entry *trm_tf_cache_open(const char *folder, const char *name) {
  trm_tf_cache_entry *entry = trm_allocate(sizeof *entry);
  if (entry == NULL || trm_tf_cache_find(folder, name, ".hlo", ".hlo.lock", entry)) return entry;
  trm_free(entry);
  return NULL;
}

void trm_tf_cache_close(trm_tf_cache_entry *entry) {
  trm_tf_cache_unlock(entry);
  trm_free(entry);
}

void *trm_tf_cache_read(const trm_tf_cache_entry *entry, int32_t warns, uint64_t *out_size) {
  char *data;
  size_t size;
  trm_error error = {0};
  const trm_status status = trm_read_hashed(entry->path, "lowered graph", MAGIC,
                                            (size_t)TRM_MAX_FILE_GIB << 30, &data, &size, &error);
  if (status == TRM_NOT_FOUND) return NULL;
  if (status != TRM_OK) {
    if (warns) trm_tf_cache_tell_unusable(entry, error.message);
    return NULL;
  }
  *out_size = size;
  return data;
}

void trm_tf_cache_free_data(void *data) { trm_free(data); }

int32_t trm_tf_cache_enter(trm_tf_cache_entry *entry) { return trm_tf_cache_lock(entry); }

typedef struct bytes {
  const void *data;
  size_t size;
} bytes;

static trm_status write_bytes(const void *contents, const char *path, trm_error *error) {
  const bytes *all = contents;
  return trm_write_hashed(path, MAGIC, all->data, all->size, error);
}

void trm_tf_cache_write(const trm_tf_cache_entry *entry, const void *data, uint64_t size) {
  trm_tf_cache_store(entry, write_bytes, &(bytes){data, size});
}

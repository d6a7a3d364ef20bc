/* The executable cache: a folder with one file a program, <hash>.poplar_exec. */
#define _GNU_SOURCE
#include "cache.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "interrupt.h"
#include "log.h"
#include "names.h"
#include "tremula/log.h"

static const char source[] = "poplar_compiler.cc:1973";
enum { POLL_MS = 50, MOST_WAIT_MS = 600000 };

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The build id of the library that an address is in: other code may compile otherwise. */
typedef struct library_search {
  uintptr_t address;
  unsigned char id[64];
  size_t size;
} library_search;

static void read_notes(const char *notes, size_t size, library_search *search) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    memcpy(&header, notes, sizeof header);
    const size_t name = ((size_t)header.n_namesz + 3) & ~(size_t)3;
    const size_t length = ((size_t)header.n_descsz + 3) & ~(size_t)3;
    if (name > size - sizeof header || length > size - sizeof header - name) return;
    const char *value = notes + sizeof header + name;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_descsz <= sizeof search->id) {
      memcpy(search->id, value, header.n_descsz);
      search->size = header.n_descsz;
      return;
    }
    notes = value + length;
    size -= sizeof header + name + length;
  }
}

static int visit_library(struct dl_phdr_info *info, size_t info_size, void *context) {
  library_search *search = context;
  (void)info_size;
  bool has_address = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && search->address >= start &&
        search->address < start + part->p_memsz)
      has_address = true;
  }
  for (int i = 0; has_address && i < info->dlpi_phnum && !search->size; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type == PT_NOTE)
      read_notes((const char *)(info->dlpi_addr + part->p_vaddr), part->p_memsz, search);
  }
  return has_address;
}

static XXH128_hash_t key_of(const tf_snapshot *settings, const void *module, size_t size) {
  library_search library = {.address = (uintptr_t)&trm_compile};
  dl_iterate_phdr(visit_library, &library);
  XXH3_state_t *state = XXH3_createState();
  if (!state) return (XXH128_hash_t){0, 0};
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, trm_version(), strlen(trm_version()) + 1);
  XXH3_128bits_update(state, library.id, library.size);
  XXH3_128bits_update(state, settings->options, strlen(settings->options) + 1);
  XXH3_128bits_update(state, module, size);
  const XXH128_hash_t key = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return key;
}

/* ---- Files ----------------------------------------------------------------------------------- */

bool cache_find(const tf_snapshot *settings, const void *module, size_t size, cache_entry *entry) {
  if (!settings->cache_path[0]) return false;
  entry->lock = -1;
  const XXH128_hash_t key = key_of(settings, module, size);
  char name[40];
  snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)key.high64,
           (unsigned long long)key.low64);
  const int length =
      snprintf(entry->path, sizeof entry->path, "%s/%s.poplar_exec", settings->cache_path, name);
  if (length < 0 || (size_t)length >= sizeof entry->path - 16) {
    log_warning(source, "The path of the executable cache is too long; nothing is cached.");
    return false;
  }
  snprintf(entry->lock_path, sizeof entry->lock_path, "%.*s/%s.compile_lock",
           (int)strlen(settings->cache_path), settings->cache_path, name);
  (void)names_make_folder(settings->cache_path); /* what fails is seen when a file is written */
  return true;
}

bool cache_load(const cache_entry *entry, bool warns, trm_executable **out) {
  if (access(entry->path, F_OK) != 0) return false;
  trm_error error = {0};
  if (trm_executable_load(entry->path, out, &error) == TRM_OK) {
    trm_log(TRM_LOG_INFO, "CACHE", "loaded the executable %s", entry->path);
    return true;
  }
  if (warns)
    log_warning(source, "The file %s of the executable cache cannot be used and is made again: %s",
                entry->path, error.message);
  return false;
}

static void sleep_ms(long ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Whether the file that was locked is still the one of that name: its last owner removed it. */
static bool is_current(int fd, const char *path) {
  struct stat by_fd;
  struct stat by_name;
  return fstat(fd, &by_fd) == 0 && stat(path, &by_name) == 0 && by_fd.st_ino == by_name.st_ino &&
         by_fd.st_dev == by_name.st_dev;
}

/* The folder may be others' too: a link or a FIFO that lies in the lock's place is neither followed
 * nor waited for. -1: there is no lock to be had. */
static int open_lock(const char *path) {
  struct stat info;
  const int fd =
      open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (fd >= 0 || errno == ELOOP || errno == EISDIR || errno == ENXIO)
    log_warning(source,
                "The executable cache compiles without a lock: %s is not a regular file; "
                "remove it.",
                path);
  if (fd >= 0) close(fd);
  return -1;
}

bool cache_lock(cache_entry *entry) {
  const unsigned interrupts = interrupt_count();
  for (long waited = 0; waited <= MOST_WAIT_MS; waited += POLL_MS) {
    if (interrupt_is_due() || interrupt_count() != interrupts) return false;
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
    if (waited == 0)
      log_info(source, "Another process compiles this program: waiting for %s", entry->path);
    sleep_ms(POLL_MS);
  }
  log_warning(source,
              "Another process has been compiling for %d s (stopped?): compiling here too: "
              "%s",
              MOST_WAIT_MS / 1000, entry->lock_path);
  return true;
}

/* Removes a folder and the files in it, or a file. Of a link that lies there, only the link. */
static void remove_folder(const char *path) {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  if (!folder) {
    if (fd >= 0) close(fd);
    unlink(path);
    return;
  }
  const struct dirent *entry;
  while ((entry = readdir(folder)))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      unlinkat(dirfd(folder), entry->d_name, 0);
  closedir(folder);
  rmdir(path);
}

bool cache_store(const cache_entry *entry, const trm_executable *executable) {
  char folder[4200];
  char unfinished[4220];
  trm_error error = {0};
  /* With the lock the name is ours, so what a killed process has left is removed. */
  if (entry->lock >= 0) snprintf(folder, sizeof folder, "%s.part", entry->path);
  else snprintf(folder, sizeof folder, "%s.part.%ld", entry->path, (long)getpid());
  snprintf(unfinished, sizeof unfinished, "%s/executable", folder);
  remove_folder(folder);
  bool ok = false;
  if (mkdir(folder, 0777) != 0)
    log_warning(source, "The executable cache could not write %s: %s", entry->path,
                strerror(errno));
  else if (trm_executable_save(executable, unfinished, &error) != TRM_OK)
    log_warning(source, "The executable cache could not write %s: %s", entry->path, error.message);
  else if (rename(unfinished, entry->path) != 0)
    log_warning(source, "The executable cache could not write %s: %s", entry->path,
                strerror(errno));
  else ok = true;
  if (ok) trm_log(TRM_LOG_INFO, "CACHE", "saved the executable %s", entry->path);
  remove_folder(folder);
  return ok;
}

void cache_unlock(cache_entry *entry) {
  if (entry->lock < 0) return;
  unlink(entry->lock_path); /* whoever waits for it sees that, and looks again */
  close(entry->lock);
  entry->lock = -1;
}

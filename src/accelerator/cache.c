/* Owns: files of compiled regions (files.h). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "accelerator/files.h"
#include "base/file.h"
#include "base/memory.h"
#include "tremula/tremula.h"

enum { MAX_FILE_BYTES = 1 << 30 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[TRM_PLUGIN_PATH];

void trm_set_region_cache(const char *path) {
  pthread_mutex_lock(&lock);
  snprintf(folder, sizeof folder, "%s", path != NULL ? path : "");
  pthread_mutex_unlock(&lock);
}

bool trm_region_file_find(const char *key, char out_path[TRM_PLUGIN_PATH]) {
  const char *own = getenv("TREMULA_ACCELERATOR_CACHE");
  pthread_mutex_lock(&lock);
  const char *place = own != NULL && *own != '\0' ? own : folder;
  const int size = snprintf(out_path, TRM_PLUGIN_PATH, "%s/accelerated/%s.pjrt", place, key);
  const bool has_folder = *place != '\0' && size > 0 && size < TRM_PLUGIN_PATH;
  pthread_mutex_unlock(&lock);
  return has_folder;
}

trm_status trm_region_file_read(const char *path, char **out_data, size_t *out_size,
                                trm_error *error) {
  XXH128_canonical_t hash;
  TRY(trm_read_regular(path, "accelerator's code", MAX_FILE_BYTES, out_data, out_size, error));
  const bool has_hash = *out_size >= sizeof hash;
  if (has_hash) {
    *out_size -= sizeof hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(*out_data + sizeof hash, *out_size));
  }
  if (!has_hash || memcmp(*out_data, &hash, sizeof hash) != 0) {
    trm_free(*out_data);
    FAIL(DATA_LOSS, "it is damaged");
  }
  memmove(*out_data, *out_data + sizeof hash, *out_size);
  return TRM_OK;
}

trm_status trm_region_file_write(const char *path, const void *data, size_t size,
                                 trm_error *error) {
  char above[TRM_PLUGIN_PATH];
  snprintf(above, sizeof above, "%s", path);
  *strrchr(above, '/') = '\0';
  TRY(trm_make_folders(above, error));
  XXH128_canonical_t hash;
  char *file = trm_allocate(sizeof hash + size);
  CHECK_MEMORY(file, "the accelerator's code");
  XXH128_canonicalFromHash(&hash, XXH3_128bits(data, size));
  memcpy(file, &hash, sizeof hash);
  memcpy(file + sizeof hash, data, size);
  const trm_status status = trm_write_file(path, file, sizeof hash + size, error);
  trm_free(file);
  return status;
}

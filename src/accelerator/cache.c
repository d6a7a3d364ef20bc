/* Owns: files of compiled regions (files.h). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accelerator/files.h"
#include "base/file.h"
#include "tremula/tremula.h"

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

trm_status trm_region_file_write(const char *path, const void *data, size_t size,
                                 trm_error *error) {
  char above[TRM_PLUGIN_PATH];
  snprintf(above, sizeof above, "%s", path);
  *strrchr(above, '/') = '\0';
  TRY(trm_make_folders(above, error));
  return trm_write_hashed(path, "", data, size, error);
}

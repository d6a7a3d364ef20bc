/* Files: the plugin that TREMULA_ACCELERATOR names, and compiled regions. */
#ifndef TREMULA_HOST_ACCELERATOR_FILES_H_
#define TREMULA_HOST_ACCELERATOR_FILES_H_

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { TRM_PLUGIN_PATH = 4096, TRM_MAX_ACCELERATORS = 16, TRM_MAX_DEVICE_NUMBER = 127 };

typedef struct trm_plugin_choice {
  char path[TRM_PLUGIN_PATH];
  size_t num_devices; /* at least 1 */
  int devices[TRM_MAX_ACCELERATORS];
} trm_plugin_choice;

/* "cuda:1" is device 1 of the plugin of that name, "cuda:0,2" two devices. A name with a
 * '/' is a path. A plugin is looked for in the folders of TREMULA_PLUGIN_PATH (Python's, separated
 * by colons), then in the folder in which this library is installed. NOT_FOUND: the message says
 * what to install. */
trm_status trm_plugin_find(const char *wanted, trm_plugin_choice *out, trm_error *error);

/* A region's file has a hash of the code, then the code in the plugin's own form (trm_read_hashed).
 * It is in the folder of the executable cache (docs/cache.md). */

/* The path of the file for a region's key, in a folder that exists: under TREMULA_ACCELERATOR_CACHE
 * or, where that is not set, under `cache` (NULL or "": nowhere). False: no files are kept. */
bool trm_region_file_find(const char *cache, const char *key, char out_path[TRM_PLUGIN_PATH]);

#endif /* TREMULA_HOST_ACCELERATOR_FILES_H_ */

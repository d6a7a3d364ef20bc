/* Which plugin TREMULA_ACCELERATOR means. */
#ifndef TREMULA_ACCELERATOR_FIND_H_
#define TREMULA_ACCELERATOR_FIND_H_

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { TRM_PLUGIN_PATH = 4096, TRM_MAX_ACCELERATORS = 16, TRM_MAX_DEVICE_NUMBER = 127 };

typedef struct trm_plugin_choice {
  char path[TRM_PLUGIN_PATH];
  size_t num_devices; /* at least 1 */
  int devices[TRM_MAX_ACCELERATORS];
} trm_plugin_choice;

/* "cuda:1" is the plugin of that name and its device 1, "cuda:0,2" two devices; what has a '/' is a
 * path. A name's plugin is looked for in the folders that TREMULA_PLUGIN_PATH lists (Python's, with
 * colons between them) and in the one that this library is installed in. NOT_FOUND says what to
 * install. */
trm_status trm_plugin_find(const char *wanted, trm_plugin_choice *out, trm_error *error);

#endif /* TREMULA_ACCELERATOR_FIND_H_ */

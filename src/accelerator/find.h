/* Which plugin TREMULA_ACCELERATOR means. */
#ifndef TREMULA_ACCELERATOR_FIND_H_
#define TREMULA_ACCELERATOR_FIND_H_

#include <stddef.h>

#include "base/status.h"

enum { TRM_PLUGIN_PATH = 4096 };

/* "cuda:1" is the plugin of that name and its device 1; what has a '/' is a path. A name's plugin
 * is looked for in the folders that TREMULA_PLUGIN_PATH lists (Python's, with colons between them)
 * and in the one that this library is installed in. NOT_FOUND says what to install. */
trm_status trm_plugin_find(const char *wanted, char out_path[TRM_PLUGIN_PATH], int *out_device,
                           trm_error *error);

#endif /* TREMULA_ACCELERATOR_FIND_H_ */

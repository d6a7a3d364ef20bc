/* Files that keep what a plugin's compiler has made of regions, in the executable cache's folder
 * (docs/cache.md): the hash of what follows, and the plugin's own bytes. */
#ifndef TREMULA_ACCELERATOR_CACHE_H_
#define TREMULA_ACCELERATOR_CACHE_H_

#include "accelerator/find.h"

enum { TRM_REGION_FILE_HEADER = 16 /* bytes */ };

/* The file of a region's key; false: nothing is kept. */
bool trm_region_file_find(const char *key, char out_path[TRM_PLUGIN_PATH]);
/* The whole file, header included. NOT_FOUND where there is none, DATA_LOSS where it is damaged. */
trm_status trm_region_file_read(const char *path, char **out_data, size_t *out_size,
                                trm_error *error);
trm_status trm_region_file_write(const char *path, const void *data, size_t size, trm_error *error);

#endif /* TREMULA_ACCELERATOR_CACHE_H_ */

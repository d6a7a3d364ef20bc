/* Files of compiled regions, in the folder of the executable cache (docs/cache.md): a hash of the
 * code, then the code in the plugin's own form. */
#ifndef TREMULA_ACCELERATOR_CACHE_H_
#define TREMULA_ACCELERATOR_CACHE_H_

#include "accelerator/find.h"

enum { TRM_REGION_FILE_HEADER = 16 /* bytes */ };

/* The path of the file for a region's key. False: no files are kept. */
bool trm_region_file_find(const char *key, char out_path[TRM_PLUGIN_PATH]);
/* Reads the whole file, with the header; the caller frees *out_data. NOT_FOUND where there is none,
 * DATA_LOSS where it is damaged. */
trm_status trm_region_file_read(const char *path, char **out_data, size_t *out_size,
                                trm_error *error);
trm_status trm_region_file_write(const char *path, const void *data, size_t size, trm_error *error);

#endif /* TREMULA_ACCELERATOR_CACHE_H_ */

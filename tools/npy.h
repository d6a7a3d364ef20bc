/* Arrays and NumPy's .npy files. */
#ifndef TREMULA_TOOLS_NPY_H_
#define TREMULA_TOOLS_NPY_H_

#include "tremula/tremula.h"

/* One more dimension than arrays of programs have, for feeds. */
#define NPY_MAX_RANK (TRM_MAX_RANK + 1)

/* Dense, row-major, little-endian; data is 64-byte aligned and freed with npy_free. */
typedef struct npy_array {
  trm_dtype dtype;
  int32_t rank;
  int64_t dims[NPY_MAX_RANK];
  size_t bytes;
  void *data;
} npy_array;

/* Allocates zeros for a type and dimensions that are set already. */
trm_status npy_allocate(npy_array *array, const char *name, trm_error *error);
void npy_free(npy_array *array);

/* Reads versions 1 to 3; Fortran order is transposed. `name` is for messages. The bytes are
 * untrusted. */
trm_status npy_parse(const void *data, size_t size, const char *name, npy_array *out_array,
                     trm_error *error);
/* Whether files do not distinguish the type from others of ml_dtypes: an array read as this type
 * may be of any of these. */
bool npy_is_byte_of_ml_dtypes(trm_dtype dtype);
trm_status npy_read_file(const char *path, npy_array *out_array, trm_error *error);
/* Writes version 1. */
trm_status npy_write_file(const char *path, const npy_array *array, trm_error *error);

#endif /* TREMULA_TOOLS_NPY_H_ */

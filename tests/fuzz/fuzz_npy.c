/* Fuzz target: NumPy files that `tremula run` reads. */
#include <stdint.h>
#include <stdlib.h>

#include "../../tools/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  npy_array array;
  if (npy_parse(data, size, "fuzz", &array, NULL) != TRM_OK) return 0;
  if (array.bytes > size) abort(); /* the elements are in the file */
  npy_free(&array);
  return 0;
}

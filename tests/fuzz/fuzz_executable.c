/* Fuzz target: trm_executable_deserialize. The header's hash would stop almost every mutation, so
 * the target also makes the header right and so reaches what stands behind it. */
#define XXH_INLINE_ALL
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tremula/tremula.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { HEADER = 32 };
  trm_executable *executable = NULL;
  if (trm_executable_deserialize(data, size, &executable, NULL) == TRM_OK) {
    trm_executable_free(executable);
  }
  if (size < HEADER) return 0;
  uint8_t *mended = malloc(size);
  if (mended == NULL) return 0;
  memcpy(mended, data, size);
  memcpy(mended, "TRMEXEC\n\2\0\0\0\0\0\0\0", 16);
  const uint64_t length = size - HEADER, hash = XXH3_64bits(data + HEADER, size - HEADER);
  memcpy(mended + 16, &length, 8);
  memcpy(mended + 24, &hash, 8);
  executable = NULL;
  if (trm_executable_deserialize(mended, size, &executable, NULL) == TRM_OK) {
    trm_executable_free(executable);
  }
  free(mended);
  return 0;
}

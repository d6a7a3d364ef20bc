/* Public structs that can grow: their first member, `size`, is the size in the caller's header. */
#ifndef TREMULA_BASE_SIZED_H_
#define TREMULA_BASE_SIZED_H_

#include <string.h>

#include "base/status.h"

/* Copies the members for which the caller's struct has room; members that this library does not
 * know become 0. False if `size` is not set. Both structs begin with their size, and *out keeps its
 * own. */
static inline bool trm_sized_give(void *out, const void *full, size_t full_size) {
  size_t size;
  memcpy(&size, out, sizeof size);
  if (size <= sizeof size) return false;
  const size_t known = size < full_size ? size : full_size;
  memset((char *)out + known, 0, size - known);
  memcpy((char *)out + sizeof size, (const char *)full + sizeof size, known - sizeof size);
  return true;
}
#define TRM_GIVE(out, ...) trm_sized_give((out), &(__VA_ARGS__), sizeof *(out))

/* Takes a caller's struct: `full` keeps its values in members that the caller's header has not.
 * `what` is what the message calls it. */
static inline trm_status trm_sized_take(const void *given, void *full, size_t full_size,
                                        const char *what, trm_error *error) {
  size_t size;
  memcpy(&size, given, sizeof size);
  if (size <= sizeof size || size > full_size) {
    FAIL(INVALID_ARGUMENT,
         "the size of %s is %zu; set it to sizeof of the struct, at most %zu in this library", what,
         size, full_size);
  }
  memcpy((char *)full + sizeof size, (const char *)given + sizeof size, size - sizeof size);
  return TRM_OK;
}

#endif /* TREMULA_BASE_SIZED_H_ */

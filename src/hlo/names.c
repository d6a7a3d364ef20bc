/* Owns: the set of names (open addressing). */
#include "hlo/names.h"

#include <string.h>
#include <xxhash.h>

static const char **find_slot(const char **slots, size_t capacity, const char *name) {
  size_t i = (size_t)XXH3_64bits(name, strlen(name)) & (capacity - 1);
  while (slots[i] != NULL && strcmp(slots[i], name) != 0) i = (i + 1) & (capacity - 1);
  return &slots[i];
}

trm_status trm_names_add(trm_names *names, const char *name, bool *out_added, trm_error *error) {
  if (names->count * 2 >= names->capacity) {
    const size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
    const char **slots = trm_allocate_zeroed(capacity, sizeof *slots);
    CHECK_MEMORY(slots, "a table of names");
    for (size_t i = 0; i < names->capacity; ++i) {
      if (names->slots[i] != NULL) *find_slot(slots, capacity, names->slots[i]) = names->slots[i];
    }
    trm_free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
  }
  const char **slot = find_slot(names->slots, names->capacity, name);
  *out_added = *slot == NULL;
  if (*slot == NULL) {
    *slot = name;
    ++names->count;
  }
  return TRM_OK;
}

void trm_names_free(trm_names *names) {
  trm_free(names->slots);
  *names = (trm_names){0};
}

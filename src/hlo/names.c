/* Owns: the set of names (open addressing). */
#include "hlo/names.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

static trm_name_slot *find_slot(trm_name_slot *slots, size_t capacity, const char *name) {
  size_t i = (size_t)XXH3_64bits(name, strlen(name)) & (capacity - 1);
  while (slots[i].name != NULL && strcmp(slots[i].name, name) != 0) i = (i + 1) & (capacity - 1);
  return &slots[i];
}

trm_status trm_names_add(trm_names *names, const char *name, bool *out_added, trm_error *error) {
  if (names->count * 2 >= names->capacity) {
    const size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
    trm_name_slot *slots = trm_allocate_zeroed(capacity, sizeof *slots);
    CHECK_MEMORY(slots, "a table of names");
    for (size_t i = 0; i < names->capacity; ++i) {
      const trm_name_slot *slot = &names->slots[i];
      if (slot->name != NULL) *find_slot(slots, capacity, slot->name) = *slot;
    }
    trm_free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
  }
  trm_name_slot *slot = find_slot(names->slots, names->capacity, name);
  *out_added = slot->name == NULL;
  if (slot->name == NULL) {
    *slot = (trm_name_slot){name, 2};
    ++names->count;
  }
  return TRM_OK;
}

trm_status trm_names_make_unique(trm_names *names, trm_arena *arena, int64_t *suffix,
                                 const char **name, trm_error *error) {
  const char *stem = *name;
  bool added;
  TRY(trm_names_add(names, stem, &added, error));
  while (!added) {
    int64_t *next = &find_slot(names->slots, names->capacity, stem)->next_suffix;
    if (suffix != NULL) next = suffix;
    *name = trm_arena_format(arena, "%s.%" PRId64, stem, (*next)++);
    CHECK_MEMORY(*name, "a name");
    TRY(trm_names_add(names, *name, &added, error));
  }
  return TRM_OK;
}

void trm_names_free(trm_names *names) {
  trm_free(names->slots);
  *names = (trm_names){0};
}

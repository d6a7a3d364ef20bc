/* A set of names, for keeping them unique. The names are borrowed. */
#ifndef TREMULA_HLO_NAMES_H_
#define TREMULA_HLO_NAMES_H_

#include "base/memory.h"

typedef struct trm_name_slot {
  const char *name; /* NULL: free */
  int64_t next_suffix;
} trm_name_slot;

typedef struct trm_names {
  trm_name_slot *slots;
  size_t count, capacity; /* capacity is a power of two, or 0 */
} trm_names;

/* *out_added is false when the name was there already. */
trm_status trm_names_add(trm_names *names, const char *name, bool *out_added, trm_error *error);
/* Adds *name. If the set has that name already, *name becomes "name.<number>", in the arena, with
 * the first number from *suffix on that makes it new; *suffix becomes the number after it. A NULL
 * suffix counts from 2 on, for each name. */
trm_status trm_names_make_unique(trm_names *names, trm_arena *arena, int64_t *suffix,
                                 const char **name, trm_error *error);
void trm_names_free(trm_names *names);

#endif /* TREMULA_HLO_NAMES_H_ */

/* A set of names, for keeping them unique. The names are borrowed. */
#ifndef TREMULA_HLO_NAMES_H_
#define TREMULA_HLO_NAMES_H_

#include "base/memory.h"

typedef struct trm_names {
  const char **slots;
  size_t count, capacity; /* capacity is a power of two, or 0 */
} trm_names;

/* *out_added is false when the name was there already. */
trm_status trm_names_add(trm_names *names, const char *name, bool *out_added, trm_error *error);
void trm_names_free(trm_names *names);

#endif /* TREMULA_HLO_NAMES_H_ */

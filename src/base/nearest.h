/* "Did you mean": the nearest of some names by edit distance. */
#ifndef TREMULA_BASE_NEAREST_H_
#define TREMULA_BASE_NEAREST_H_

#include <stddef.h>

/* The name of `names` (count of them) with the fewest edits to `word`; NULL where none is near. */
const char *trm_nearest_name(const char *word, const char *const *names, size_t count);

#endif /* TREMULA_BASE_NEAREST_H_ */

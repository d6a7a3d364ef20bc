/* Distributions: a number for each tile (bytes, cycles), as runs of tiles with equal numbers.
 *
 * Many variables have the same layout, and many programs use the same tiles. Equal numbers are
 * stored as one distribution. Distribution 0 has no runs. */
#ifndef TREMULA_REPORT_DISTRIBUTIONS_H_
#define TREMULA_REPORT_DISTRIBUTIONS_H_

#include "base/memory.h"
#include "base/status.h"

typedef struct trm_tile_run {
  uint32_t first_tile, num_tiles; /* tile t of IPU i is i * tiles_per_ipu + t */
  int64_t value;                  /* of each tile */
} trm_tile_run;

typedef struct trm_distribution {
  uint32_t first_run, num_runs;
  uint64_t hash;
  int64_t total;
} trm_distribution;

typedef struct trm_distributions {
  VECTOR(trm_tile_run) runs;
  VECTOR(trm_distribution) items;
  uint32_t *slots; /* a hash table: index of an item + 1 */
  uint32_t mask;
} trm_distributions;

/* Adds the distribution of values[t] for tile `first_tile + t`, or finds an equal one; *out_index
 * is its number. Tiles with the value 0 are in no run. A table begins as {0} and ends with
 * trm_distributions_free. */
trm_status trm_distributions_add(trm_distributions *distributions, const int64_t *values,
                                 uint32_t num_tiles, uint32_t first_tile, uint32_t *out_index,
                                 trm_error *error);
void trm_distributions_free(trm_distributions *distributions);

#endif /* TREMULA_REPORT_DISTRIBUTIONS_H_ */

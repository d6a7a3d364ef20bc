/* The plan of lookups in a table, and of updates of its rows: how many tiles share each dimension.
 *
 * A table [rows, columns] is looked up at `lookups` rows. Tile (l, r, c) has partition r of the
 * rows, partition c of the columns, and works on partition l of the lookups. Where lookups are
 * split, the tiles of one partition of the table store it together, and each fetches all of it.
 * Where rows are split, each partition of the rows has a result for every lookup, of which a
 * second step takes the right one. */
#ifndef TREMULA_IPU_COSTS_SLICE_PLAN_H_
#define TREMULA_IPU_COSTS_SLICE_PLAN_H_

#include "ipu/tile/cost.h"

typedef struct trm_slice_problem {
  int64_t rows, columns, lookups; /* all at least 1 */
  trm_dtype dtype;
  bool is_update; /* values are added to rows, too */
} trm_slice_problem;

typedef struct trm_slice_plan {
  uint32_t row_split, column_split, lookup_split;
  int64_t rows, columns, lookups; /* of the fullest tile */
  trm_mapping table;
} trm_slice_plan;

trm_slice_plan trm_slice_plan_make(const trm_tile_request *request,
                                   const trm_slice_problem *problem);

#endif /* TREMULA_IPU_COSTS_SLICE_PLAN_H_ */

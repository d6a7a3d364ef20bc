/* Reductions on an IPU, also for other families (means of a batch norm, ...). */
#ifndef TREMULA_OPS_REDUCE_TILE_REDUCE_H_
#define TREMULA_OPS_REDUCE_TILE_REDUCE_H_

#include "tile/cost.h"

typedef struct trm_tile_reduction {
  const char *name;      /* "Reduce", "Mean" */
  const char *operation; /* popops' name: ADD, MAX, ... */
  double op_cycles;      /* worker cycles of a vector's operation beside its loads; 1 */
  int64_t outputs;       /* of the reduction */
  uint32_t reduced;      /* bit d: dimension d of the operand is reduced */
  bool minor;         /* the reduced elements are contiguous in the array (the last dimensions) */
  trm_dtype partials; /* the type of partial sums */
  int64_t together;   /* reductions of this kind that share the compute sets; at least 1 */
} trm_tile_reduction;

/* Adds the stages: partial results on each tile of the operand, then exchanges and final results.
 * *out_mapping: the mapping of the results. */
trm_status trm_tile_add_reduction(const trm_tile_request *request, trm_tile_cost *cost,
                                  const trm_tile_operand *operand,
                                  const trm_tile_reduction *reduction, trm_dtype result_type,
                                  trm_mapping *out_mapping, trm_error *error);

#endif /* TREMULA_OPS_REDUCE_TILE_REDUCE_H_ */

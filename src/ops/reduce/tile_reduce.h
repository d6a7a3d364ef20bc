/* Reductions on an IPU, as other families need them too (means of a batch norm, ...). */
#ifndef TREMULA_OPS_REDUCE_TILE_REDUCE_H_
#define TREMULA_OPS_REDUCE_TILE_REDUCE_H_

#include "tile/cost.h"

typedef struct trm_tile_reduction {
  const char *name;      /* "Reduce", "Mean" */
  const char *operation; /* popops' word: ADD, MAX, ... */
  double op_cycles;      /* worker cycles that a vector's operation adds to the loads; 1 */
  int64_t outputs;       /* of the reduction */
  uint32_t reduced;      /* bit d: dimension d of the operand is reduced */
  bool minor;            /* what is reduced lies together in the array (the last dimensions) */
  trm_dtype partials;    /* the type of partial sums */
  int64_t together;      /* that many reductions of this kind share the compute sets; at least 1 */
} trm_tile_reduction;

/* Adds the stages: partial results on each tile where the operand lies, then exchanges and final
 * ones. *out_mapping: where the results are. */
trm_status trm_tile_add_reduction(const trm_tile_request *request, trm_tile_cost *cost,
                                  const trm_tile_operand *operand,
                                  const trm_tile_reduction *reduction, trm_dtype result_type,
                                  trm_mapping *out_mapping, trm_error *error);

#endif /* TREMULA_OPS_REDUCE_TILE_REDUCE_H_ */

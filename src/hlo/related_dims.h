/* Which dimensions of a module have sizes that change together, as all that follow from a batch do.
 */
#ifndef TREMULA_HLO_RELATED_DIMS_H_
#define TREMULA_HLO_RELATED_DIMS_H_

#include "hlo/hlo.h"

typedef struct trm_related_dims {
  const trm_module *module;
  int64_t batch;
  uint32_t **first; /* [computation][instruction]: the number of its first dimension; those of all
                       leaves follow one another */
  uint32_t count;
  uint32_t *parent;                /* a forest: dimensions of one tree change together */
  const trm_instruction **divider; /* by dimension: an instruction that takes it apart, or NULL */
  trm_arena arena;
} trm_related_dims;

/* Finds the relations of all instructions. Where a reshape makes one dimension of several, the one
 * of `batch` elements counts. Free with trm_related_dims_free, also after a failure. */
trm_status trm_related_dims_find(const trm_module *module, int64_t batch, trm_related_dims *out,
                                 trm_error *error);
void trm_related_dims_free(trm_related_dims *related);
/* The tree of a dimension. */
uint32_t trm_related_dims_root(trm_related_dims *related, uint32_t dimension);

#endif /* TREMULA_HLO_RELATED_DIMS_H_ */

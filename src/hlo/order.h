/* Order by need: nodes come after those that they need; otherwise the order stays. */
#ifndef TREMULA_HLO_ORDER_H_
#define TREMULA_HLO_ORDER_H_

#include "hlo/hlo.h"

/* What each node needs, in compressed rows: those of node n are targets[rows[n]] to
 * targets[rows[n + 1] - 1]. */
typedef struct trm_graph {
  uint32_t count;
  size_t *rows; /* count + 1 */
  uint32_t *targets;
} trm_graph;

/* Rows and room for the targets; release with trm_graph_free, also after a failure. */
trm_status trm_graph_create(uint32_t count, size_t edges, trm_graph *out_graph, trm_error *error);
void trm_graph_free(trm_graph *graph);

/* A node that waits for itself: `from` needs `to`, which needs `from`, directly or through others.
 * from TRM_NO_INDEX: there is none. */
typedef struct trm_cycle {
  uint32_t from, to;
} trm_cycle;

/* Fills order[] with the nodes that `wanted` marks (NULL: all) and all that they need. A cycle is
 * no failure: it ends the walk. */
trm_status trm_graph_order(const trm_graph *graph, const bool *wanted, uint32_t *order,
                           uint32_t *out_count, trm_cycle *out_cycle, trm_error *error);

#endif /* TREMULA_HLO_ORDER_H_ */

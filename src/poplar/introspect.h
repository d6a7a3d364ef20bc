/* A vertex, as a trm_poplar_member of registerPerfEstimator sees it. */
#ifndef TREMULA_POPLAR_INTROSPECT_H_
#define TREMULA_POPLAR_INTROSPECT_H_

#include "poplar/graph.h"

struct trm_poplar_introspector {
  const trm_poplar_core *core;
  const trm_poplar_vertex *vertex;
};

#endif /* TREMULA_POPLAR_INTROSPECT_H_ */

/* A vertex, as a function of registerPerfEstimator sees it. */
#ifndef TREMULA_POPLAR_INTROSPECT_H_
#define TREMULA_POPLAR_INTROSPECT_H_

#include "poplar/graph.h"

struct trm_poplar_introspector {
  const trm_poplar_core *core;
  const trm_poplar_vertex *vertex;
};

uint32_t trm_poplar_introspect_tile(const trm_poplar_introspector *vertex);
bool trm_poplar_introspect_size(const trm_poplar_introspector *vertex, const char *field,
                                int64_t index, uint64_t *out_elements);
bool trm_poplar_introspect_value(const trm_poplar_introspector *vertex, const char *field,
                                 uint64_t element, double *out_value);

#endif /* TREMULA_POPLAR_INTROSPECT_H_ */

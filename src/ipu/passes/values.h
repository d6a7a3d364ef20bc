/* The values of a module: an instruction under another shape, or on the other side of a fusion's
 * border, is the same value here, and the readers of all its names are its readers. */
#ifndef TREMULA_IPU_PASSES_VALUES_H_
#define TREMULA_IPU_PASSES_VALUES_H_

#include "hlo/hlo.h"

/* Instructions have numbers over all computations. */
typedef struct trm_values {
  const trm_module *module;
  uint32_t count;        /* instructions of all computations */
  uint32_t *base;        /* by computation: the number of its first instruction */
  uint32_t *computation; /* by number */
  uint32_t
      *caller; /* by computation: the one fusion, or multi-conv, that calls it, or TRM_NO_INDEX */
  uint32_t *value; /* by number: the value of the instruction, seen through views and fusions */
  uint32_t *uses, *user; /* by number of a value: the number of its reads; its last reader */
  bool *is_output;       /* by number of a value: it leaves its computation */
} trm_values;

/* Finds the values of a module, which must not change while they are used. The arena owns the
 * arrays. */
trm_status trm_values_find(const trm_module *module, trm_arena *arena, trm_values *out_values,
                           trm_error *error);

static inline const trm_instruction *trm_values_at(const trm_values *v, uint32_t n) {
  const uint32_t c = v->computation[n];
  return &v->module->computations[c].instructions[n - v->base[c]];
}

/* The value behind operand k. */
static inline uint32_t trm_values_operand(const trm_values *v, uint32_t n, uint32_t k) {
  return v->value[v->base[v->computation[n]] + trm_values_at(v, n)->operands[k]];
}

#endif /* TREMULA_IPU_PASSES_VALUES_H_ */

/* The search for roles that roles.c and role_layers.c share. */
#ifndef TREMULA_PROGRAM_ROLE_FINDER_H_
#define TREMULA_PROGRAM_ROLE_FINDER_H_

#include <string.h>

#include "program/builder.h"
#include "program/role_values.h"

typedef struct trm_role_finder {
  trm_role_values in;
  trm_arena *arena;
  trm_tile_role **roles;
  bool *is_kernel; /* by number of a value: a convolution uses it as it is */
} trm_role_finder;

static inline const trm_instruction *at(const trm_role_finder *f, uint32_t n) {
  return trm_role_at(&f->in, n);
}

static inline uint32_t operand(const trm_role_finder *f, uint32_t n, uint32_t k) {
  return trm_role_operand(&f->in, n, k);
}

static inline trm_tile_role *role_of(const trm_role_finder *f, uint32_t n) {
  const uint32_t c = f->in.computation[n];
  return &f->roles[c][n - f->in.base[c]];
}

static inline bool same_op(const trm_instruction *a, const trm_instruction *b) {
  return a->metadata.op_name != NULL && b->metadata.op_name != NULL &&
         strcmp(a->metadata.op_name, b->metadata.op_name) == 0;
}

static inline bool is_used_once(const trm_role_finder *f, uint32_t v) {
  return f->in.uses[v] == 1 && !f->in.is_output[v];
}

/* Marked layers and pools, before the patterns of sums. */
trm_status trm_program_find_layers(trm_role_finder *f, trm_error *error);

/* After those patterns: kernels that are turned round, and what fused batch norms were taken apart
 * into. */
trm_status trm_program_find_kernels(trm_role_finder *f, trm_error *error);
trm_status trm_program_find_norms(trm_role_finder *f, trm_error *error);

#endif /* TREMULA_PROGRAM_ROLE_FINDER_H_ */

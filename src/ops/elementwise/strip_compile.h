/* What the parts of the compiler of strip programs share: what a stage computes (strip_compile.c),
 * and where its values live (strip_place.c). */
#ifndef TREMULA_OPS_ELEMENTWISE_STRIP_COMPILE_H_
#define TREMULA_OPS_ELEMENTWISE_STRIP_COMPILE_H_

#include "ops/elementwise/strip_program.h"

#define NO_SLOT UINT32_MAX

/* A stage to be: the instructions that it has to compute in full, all of one element count. */
typedef struct strip_target {
  trm_index *roots;  /* instruction of each output */
  uint32_t *results; /* result index of each, or NO_SLOT: a temporary */
  uint32_t num_roots;
} strip_target;

typedef struct strip_compiler {
  const trm_computation *computation;
  const trm_vector_ops *ops;
  trm_arena *arena; /* the program's */
  trm_arena scratch;
  bool is_function;
  trm_half_overflow half_overflow;
  bool *is_staged;   /* by instruction: has a temporary */
  size_t *temporary; /* its offset */
  size_t temporary_bytes;
  uint32_t *mark;       /* by instruction: the stage that last saw it, from 1 */
  uint32_t *value_slot; /* by instruction, in the current stage */
  uint32_t *uses;
  uint32_t num_stages;
  VECTOR(strip_target) targets; /* the results */
  VECTOR(strip_stage) stages;   /* in reverse order of running */
  VECTOR(trm_index) members, stack;
  VECTOR(strip_slot) slots;
  VECTOR(strip_step) steps;
  uint32_t *in_place_operands; /* by result */
  uint32_t num_results;
} strip_compiler;

static inline const trm_instruction *strip_at(const strip_compiler *c, trm_index index) {
  return &c->computation->instructions[index];
}
static inline int64_t strip_count(const strip_compiler *c, trm_index index) {
  return trm_shape_count(&strip_at(c, index)->shape);
}

/* Makes a stage of the slots and steps so far. */
trm_status trm_strip_place_stage(strip_compiler *c, const strip_target *t, trm_error *error);

#endif /* TREMULA_OPS_ELEMENTWISE_STRIP_COMPILE_H_ */

/* What the parts of the compiler of strip code share: what a stage computes (strip_compile.c),
 * and where its values live (strip_place.c). */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_STRIP_COMPILE_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_STRIP_COMPILE_H_

#include "host/ops/elementwise/strip_code.h"

#define NO_SLOT UINT32_MAX

/* A stage to be: the instructions that it has to compute in full, all of one element count. */
typedef struct strip_target {
  trm_index *roots;  /* instruction of each output */
  uint32_t *results; /* result index of each, or NO_SLOT: a temporary */
  uint32_t num_roots;
} strip_target;

typedef struct strip_compiler {
  const strip_request *request;
  const trm_computation *computation;
  const trm_vector_ops *ops;
  trm_arena *arena; /* the code's */
  trm_arena scratch;
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
  VECTOR(strip_operation) operations;
  VECTOR(strip_mapping) mappings;
  bool only_counts;            /* nothing is made to run: the length of a strip is looked for */
  uint32_t *in_place_operands; /* by result */
  uint32_t num_results;
} strip_compiler;

static inline const trm_instruction *strip_at(const strip_compiler *c, trm_index index) {
  return &c->computation->instructions[index];
}
static inline int64_t strip_count(const strip_compiler *c, trm_index index) {
  return trm_shape_count(&strip_at(c, index)->shape);
}

/* The slots that an operation reads, and writes. */
static inline uint32_t strip_num_reads(const strip_operation *operation) {
  if (operation->generated != NULL) return operation->generated->num_reads;
  return operation->function == NULL ? 1 : 3;
}
static inline uint32_t strip_read(const strip_operation *operation, uint32_t k) {
  if (operation->generated != NULL) return operation->generated->reads[k];
  return operation->function == NULL ? operation->access->source : operation->in[k];
}
static inline uint32_t strip_num_writes(const strip_operation *operation) {
  return operation->generated != NULL ? operation->generated->num_writes : 1;
}
static inline uint32_t strip_write(const strip_operation *operation, uint32_t k) {
  return operation->generated != NULL ? operation->generated->writes[k] : operation->out;
}

/* Makes machine code of runs of operations after the fills (strip_generate.c). */
trm_status trm_strip_generate(strip_compiler *c, uint32_t num_fills, trm_error *error);

/* Whether an operation from `begin` on reads the slot before another one writes it. */
bool trm_strip_is_read_later(const strip_operation *operations, size_t begin, size_t end,
                             uint32_t slot);
/* The float that fills the register before the first strip. */
bool trm_strip_find_constant(const strip_compiler *c, uint32_t num_fills, uint32_t slot,
                             float *out);
/* Whether the register repeats one element of four bytes, which is read from an array. */
bool trm_strip_is_uniform(const strip_compiler *c, uint32_t num_fills, uint32_t slot);

/* Merges neighbouring operations where nothing else reads the result between them
 * (strip_pairs.c). The first *num_fills operations are fills; those that nothing reads any more are
 * dropped. */
trm_status trm_strip_merge_steps(strip_compiler *c, uint32_t *num_fills, trm_error *error);

/* strip_support.c. The type of the register for a value; TRM_NUM_VECTOR_TYPES: none. */
trm_vector_type trm_strip_register_type(trm_dtype dtype);
/* The logarithm of a size in bytes, and of the size of the register for a type. */
uint8_t trm_strip_log2_of_size(size_t size);
uint8_t trm_strip_register_log2(trm_dtype dtype);
/* The vector function of an instruction, or NULL. casts_wrap: trm_module's. */
trm_vector_fn trm_strip_find_function(const trm_vector_ops *ops, const trm_computation *computation,
                                      const trm_instruction *instruction, bool casts_wrap);
/* A view has the bits of its operand in the same order. An access has some of them, or all in
 * another order. */
bool trm_strip_is_view(const trm_computation *computation, const trm_instruction *instruction);
bool trm_strip_is_access(const trm_instruction *instruction);

/* Makes a stage of the slots and operations so far. */
trm_status trm_strip_place_stage(strip_compiler *c, const strip_target *t, trm_error *error);

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_STRIP_COMPILE_H_ */

/* What the files of the builder share. Instructions are inferred and appended at once. The first
 * mistake sticks: after it every function here and every entry does nothing.
 *
 *   builder.c               builders and functions; the helpers below
 *   builder_elementwise.c   parameters, constants, elementwise instructions
 *   builder_data.c          moving data
 *   builder_linear.c        reductions, sorts, linear algebra
 *   builder_control.c       tuples, control flow, what reaches outside
 */
#ifndef TREMULA_HLO_BUILDER_H_
#define TREMULA_HLO_BUILDER_H_

#include "hlo/hlo.h"
#include "tremula/builder.h"

/* A function that is being built. */
typedef struct trm_open_function {
  uint32_t computation;
  trm_index last_effect;
} trm_open_function;

struct trm_builder {
  trm_module *module;             /* NULL once built */
  VECTOR(trm_open_function) open; /* the innermost last; the first is the entry */
  VECTOR(trm_alias) aliases;
  const char *sharding; /* of the next instructions; in the module's arena, like the metadata */
  trm_metadata metadata;
  trm_error first; /* the first mistake */
};

static const trm_value trm_no_value = {TRM_NO_INDEX, TRM_NO_INDEX};

/* ---- Mistakes ------------------------------------------------------------------------------- */

static inline bool trm_builder_is_fine(const trm_builder *b) { return b->first.status == TRM_OK; }

#define MISTAKE(b, ...)                                                             \
  do {                                                                              \
    if (trm_builder_is_fine(b)) {                                                   \
      (b)->first.status = trm_fail(&(b)->first, TRM_INVALID_ARGUMENT, __VA_ARGS__); \
    }                                                                               \
  } while (0)

void trm_builder_no_memory(trm_builder *b);

/* ---- Copies in the module's arena; empty after a mistake ------------------------------------- */

trm_dims trm_builder_axes(trm_builder *b, trm_axes axes);
const char *trm_builder_text(trm_builder *b, const char *text);
trm_shape trm_builder_shape(trm_builder *b, trm_type type);

/* ---- Instructions --------------------------------------------------------------------------- */

/* NULL for a value that is not of this builder. */
const trm_shape *trm_builder_shape_of(const trm_builder *b, trm_value value);
bool trm_builder_find_opcode(trm_builder *b, const char *name, trm_opcode *out_opcode);
/* Functions as the instruction's called computations; the array lives until trm_builder_add
 * returns. */
void trm_builder_call(trm_builder *b, trm_instruction *instruction, uint32_t *indices,
                      const trm_function *functions, size_t count);
/* Infers the shape and appends the instruction to the innermost function. */
trm_value trm_builder_add(trm_builder *b, trm_instruction *instruction, const trm_value *operands,
                          size_t count);

#endif /* TREMULA_HLO_BUILDER_H_ */

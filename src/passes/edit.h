/* Editing a computation: what every pass that rewrites instructions needs. Instructions are added
 * at the end, replacements are noted, and trm_edit_end rewrites the computation once. */
#ifndef TREMULA_PASSES_EDIT_H_
#define TREMULA_PASSES_EDIT_H_

#include "hlo/hlo.h"

typedef struct trm_edit {
  trm_module *module;
  uint32_t computation;
  VECTOR(trm_index) replacement;
  bool changed;
} trm_edit;

trm_status trm_edit_begin(trm_edit *edit, trm_module *module, uint32_t computation,
                          trm_error *error);
/* Rewrites when something changed, and releases the edit; also to be called after a failure, which
 * is then passed on. */
trm_status trm_edit_end(trm_edit *edit, trm_status status, trm_error *error);

static inline trm_computation *trm_edit_computation(const trm_edit *edit) {
  return &edit->module->computations[edit->computation];
}
/* What stands for an instruction now. */
trm_index trm_edit_resolve(const trm_edit *edit, trm_index index);
/* An instruction (valid until the next add). */
static inline trm_instruction *trm_edit_at(const trm_edit *edit, trm_index index) {
  return &trm_edit_computation(edit)->instructions[index];
}
/* Operand k of an instruction, resolved. */
static inline trm_index trm_edit_operand(const trm_edit *edit, trm_index index, uint32_t k) {
  return trm_edit_resolve(edit, trm_edit_at(edit, index)->operands[k]);
}
void trm_edit_replace(trm_edit *edit, trm_index old, trm_index new_index);

/* Adds an instruction; its name, id and metadata come from `like` (metadata only). */
trm_status trm_edit_add(trm_edit *edit, trm_index like, trm_instruction prototype,
                        trm_index *out_index, trm_error *error);
/* Shorthands. The shape's arrays must live in the module's arena. */
trm_status trm_edit_unary(trm_edit *edit, trm_index like, trm_opcode opcode, trm_shape shape,
                          trm_index operand, trm_index *out_index, trm_error *error);
trm_status trm_edit_binary(trm_edit *edit, trm_index like, trm_opcode opcode, trm_shape shape,
                           trm_index left, trm_index right, trm_index *out_index, trm_error *error);
/* broadcast with the given dimensions (copied). */
trm_status trm_edit_broadcast(trm_edit *edit, trm_index like, trm_shape shape, trm_index operand,
                              int32_t count, const int64_t *dimensions, trm_index *out_index,
                              trm_error *error);
/* A scalar constant; value is converted to the type (f16, f32, integers). */
trm_status trm_edit_scalar(trm_edit *edit, trm_index like, trm_dtype dtype, double value,
                           trm_index *out_index, trm_error *error);

/* `operand` as another type; itself where it has that. Marks come from `like` too. */
trm_status trm_edit_convert(trm_edit *edit, trm_index like, trm_dtype dtype, trm_index operand,
                            trm_index *out_index, trm_error *error);
/* The float16 or float32 instruction, of one or two operands, in float32 over `operands`, which are
 * converted; with its computation of plain sums or products, if it has one. */
trm_status trm_edit_widen(trm_edit *edit, trm_index i, const trm_index *operands,
                          trm_index *out_index, trm_error *error);
/* Whether an instruction is a constant (or a broadcast of a scalar one) equal to `value`. */
bool trm_edit_is_constant(const trm_edit *edit, trm_index i, double value);

/* What rewrites one instruction of an edit; `state` is the pass's own. */
typedef trm_status (*trm_rewrite)(trm_edit *edit, trm_index index, void *state, trm_error *error);
/* Begins an edit of a computation, calls `rewrite` for each of its instructions (not for those that
 * are added meanwhile), in order, until one fails, and ends the edit. */
trm_status trm_edit_instructions(trm_module *module, uint32_t computation, trm_rewrite rewrite,
                                 void *state, trm_error *error);
/* The same for all computations (callees come before their callers), but for those that are added
 * meanwhile. */
trm_status trm_edit_module(trm_module *module, trm_rewrite rewrite, void *state, trm_error *error);

/* The same for a computation and before it for the bodies of its loops and conditionals. */
trm_status trm_edit_running(trm_module *module, uint32_t computation, trm_rewrite rewrite,
                            trm_error *error);

#endif /* TREMULA_PASSES_EDIT_H_ */

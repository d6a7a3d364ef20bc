/* Editing a computation, for passes that rewrite instructions. trm_edit_add appends instructions,
 * trm_edit_replace notes replacements, and trm_edit_end rewrites the computation once. */
#ifndef TREMULA_PASSES_EDIT_H_
#define TREMULA_PASSES_EDIT_H_

#include "hlo/hlo.h"
#include "hlo/order.h"

typedef struct trm_edit {
  trm_module *module;
  uint32_t computation;
  VECTOR(trm_index) replacement;
  bool changed;
} trm_edit;

trm_status trm_edit_begin(trm_edit *edit, trm_module *module, uint32_t computation,
                          trm_error *error);
/* Rewrites the computation if something changed, and releases the edit. After a failure (`status`)
 * nothing is rewritten, and trm_edit_end returns that status. */
trm_status trm_edit_end(trm_edit *edit, trm_status status, trm_error *error);

static inline trm_computation *trm_edit_computation(const trm_edit *edit) {
  return &edit->module->computations[edit->computation];
}
/* The instruction that replaces `index` at the end of the edit; itself where none does. */
trm_index trm_edit_resolve(const trm_edit *edit, trm_index index);
/* The pointer is valid until the next trm_edit_add. */
static inline trm_instruction *trm_edit_at(const trm_edit *edit, trm_index index) {
  return &trm_edit_computation(edit)->instructions[index];
}
/* Operand k of an instruction, with replacements. */
static inline trm_index trm_edit_operand(const trm_edit *edit, trm_index index, uint32_t k) {
  return trm_edit_resolve(edit, trm_edit_at(edit, index)->operands[k]);
}
void trm_edit_replace(trm_edit *edit, trm_index old, trm_index new_index);

/* Appends an instruction with the metadata of `like`, and a new name and id. */
trm_status trm_edit_add(trm_edit *edit, trm_index like, trm_instruction prototype,
                        trm_index *out_index, trm_error *error);
/* Shorthands. The arrays of the shape must live in the module's arena. */
trm_status trm_edit_unary(trm_edit *edit, trm_index like, trm_opcode opcode, trm_shape shape,
                          trm_index operand, trm_index *out_index, trm_error *error);
trm_status trm_edit_binary(trm_edit *edit, trm_index like, trm_opcode opcode, trm_shape shape,
                           trm_index left, trm_index right, trm_index *out_index, trm_error *error);
/* Appends a broadcast; the dimensions are copied. */
trm_status trm_edit_broadcast(trm_edit *edit, trm_index like, trm_shape shape, trm_index operand,
                              int32_t count, const int64_t *dimensions, trm_index *out_index,
                              trm_error *error);
/* Appends a scalar constant. The value is converted to the type (f16, f32, integers). */
trm_status trm_edit_scalar(trm_edit *edit, trm_index like, trm_dtype dtype, double value,
                           trm_index *out_index, trm_error *error);

/* Appends a get-tuple-element of element `number` of the tuple `from`. */
trm_status trm_edit_element(trm_edit *edit, trm_index like, trm_index from, int64_t number,
                            trm_index *out_index, trm_error *error);
/* Converts `operand` to a type; gives `operand` itself where it has that type. The sharding and the
 * frontend attributes come from `like`. */
trm_status trm_edit_convert(trm_edit *edit, trm_index like, trm_dtype dtype, trm_index operand,
                            trm_index *out_index, trm_error *error);
/* Appends the instruction i, of float16 or float32 with one or two operands, in float32. `operands`
 * are converted to float32. A computation that the instruction calls (a plain sum or product) is
 * copied in float32. */
trm_status trm_edit_widen(trm_edit *edit, trm_index i, const trm_index *operands,
                          trm_index *out_index, trm_error *error);
/* The number that an instruction is as a scalar constant or its broadcast; false: it is none. */
bool trm_edit_number(const trm_edit *edit, trm_index i, double *out_value);
/* Whether it is that number. */
bool trm_edit_is_constant(const trm_edit *edit, trm_index i, double value);

/* Lists the users of each instruction, by operands and control edges, in order. The caller releases
 * the graph with trm_graph_free, also after a failure. */
trm_status trm_edit_find_users(const trm_edit *edit, trm_graph *out_users, trm_error *error);

/* Rewrites one instruction of an edit; `state` is the pass's own. */
typedef trm_status (*trm_rewrite)(trm_edit *edit, trm_index index, void *state, trm_error *error);
/* Edits a computation: calls `rewrite` for each instruction in order, until one fails. Instructions
 * that are added meanwhile are not visited. */
trm_status trm_edit_instructions(trm_module *module, uint32_t computation, trm_rewrite rewrite,
                                 void *state, trm_error *error);
/* The same for all computations, callees before their callers. Computations that are added
 * meanwhile are not visited. */
trm_status trm_edit_module(trm_module *module, trm_rewrite rewrite, void *state, trm_error *error);

/* Edits a computation; `context` is the pass's own. */
typedef trm_status (*trm_computation_pass)(trm_module *module, uint32_t computation,
                                           const void *context, trm_error *error);
/* Calls `pass` for the computations that run (not the scalar functions of reductions), and removes
 * the computations that nothing calls any more. Computations that are added are not visited. */
trm_status trm_edit_each_running(trm_module *module, trm_computation_pass pass, const void *context,
                                 trm_error *error);

/* The same as trm_edit_instructions for a computation, and before it for the bodies of its loops
 * and conditionals. */
trm_status trm_edit_running(trm_module *module, uint32_t computation, trm_rewrite rewrite,
                            trm_error *error);

#endif /* TREMULA_PASSES_EDIT_H_ */

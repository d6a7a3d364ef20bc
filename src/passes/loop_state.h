/* The state of while loops, which passes read and grow, and the number of their iterations. */
#ifndef TREMULA_PASSES_LOOP_STATE_H_
#define TREMULA_PASSES_LOOP_STATE_H_

#include "hlo/loops.h"
#include "passes/edit.h"

/* Whether the state of the while can grow: no instruction reads it as a whole. */
bool trm_loop_may_grow(const trm_edit *edit, trm_index loop);
/* Appends elements to the state of the while, with the initial values `first`. The pass then
 * appends their next values to the body's root with trm_loop_grow_result, in an edit of the
 * body. */
trm_status trm_loop_grow(trm_edit *edit, trm_index loop, const trm_shape *shapes,
                         const trm_index *first, uint32_t count, trm_error *error);
trm_status trm_loop_grow_result(trm_module *module, uint32_t body, const trm_shape *shapes,
                                const trm_index *next, uint32_t count, trm_error *error);

/* Sets source[i] to the element of the state that instruction i takes and the body hands on
 * unchanged, or to -1. False where the body's root is no tuple. */
bool trm_find_sources(const trm_computation *body, int64_t *source);
/* Sets fixed[i] where source[i] is an element, or where i reshapes one. False as above. */
bool trm_find_fixed(const trm_computation *body, bool *fixed);

/* x[i]: one slice of an array along its first dimension. */
typedef struct trm_loop_slice {
  trm_index array, index;
  bool drops; /* the slice has no first dimension, which would be 1 */
} trm_loop_slice;

/* Whether instruction i of the body is a slice of a fixed array (trm_find_fixed). */
bool trm_find_loop_slice(const trm_computation *body, const bool *fixed, trm_index i,
                         trm_loop_slice *out);

/* A while and its number of iterations. Valid until the module changes. */
typedef struct trm_known_loop {
  trm_loop loop;
  const trm_edit *edit;
  trm_index init;      /* the tuple of initial values */
  uint64_t iterations; /* at most; 0: unknown */
  bool is_exact;
} trm_known_loop;

/* `loop` refers to *out, which must not move. trm_known_loop_free releases it. */
trm_status trm_known_loop_make(const trm_edit *edit, trm_index loop, trm_known_loop *out,
                               trm_error *error);
void trm_known_loop_free(trm_known_loop *known);

#endif /* TREMULA_PASSES_LOOP_STATE_H_ */

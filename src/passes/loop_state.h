/* What the passes over loops share: the state of a while, which may grow, and its turns. */
#ifndef TREMULA_PASSES_LOOP_STATE_H_
#define TREMULA_PASSES_LOOP_STATE_H_

#include "hlo/loops.h"
#include "passes/edit.h"

/* Whether the state of the while can grow: nobody takes it as a whole. */
bool trm_loop_may_grow(const trm_edit *edit, trm_index loop);
/* Appends elements to the state of the while; `first` are their first values. The body's result
 * gets them by the other function, in an edit of the body. */
trm_status trm_loop_grow(trm_edit *edit, trm_index loop, const trm_shape *shapes,
                         const trm_index *first, uint32_t count, trm_error *error);
trm_status trm_loop_grow_result(trm_module *module, uint32_t body, const trm_shape *shapes,
                                const trm_index *next, uint32_t count, trm_error *error);

/* Elements of the state that the body hands on: source[i] is the element that instruction i of the
 * body is, or -1. False where the body's result is no tuple. */
bool trm_find_sources(const trm_computation *body, int64_t *source);
/* By instruction of the body: whether it is one of those, or has the elements of one. */
bool trm_find_fixed(const trm_computation *body, bool *fixed);

/* x[i]: one part, along the first dimension, of an array. */
typedef struct trm_part {
  trm_index array, index;
  bool drops; /* the first dimension, which is 1, is dropped */
} trm_part;

/* Whether instruction i of the body is a part of a fixed array. */
bool trm_find_part(const trm_computation *body, const bool *fixed, trm_index i, trm_part *out);

/* A while whose turns are counted. Valid until the module changes. */
typedef struct trm_known_loop {
  trm_loop loop;
  const trm_edit *edit;
  trm_index init; /* a tuple */
  uint64_t turns; /* at most; 0: not known */
  bool is_exact;
} trm_known_loop;

/* `out` must stay where it is. */
trm_status trm_known_loop_make(const trm_edit *edit, trm_index loop, trm_known_loop *out,
                               trm_error *error);
void trm_known_loop_free(trm_known_loop *known);

#endif /* TREMULA_PASSES_LOOP_STATE_H_ */
